"""Figure 4.1: the constructs of ℒ(𝔻, udef), the language of cartesian closed categories.

A term h: A → B has no variables: its input is one value of type A, taken apart by projections. So
g ∘ f is a let, curry(f) is a lambda, and what is free in a lambda is the first half of its input.
`g @ f` writes g ∘ f.

A term that does not type cannot be built: each constructor checks its parts and finds its own
`source` and `target`, once.

Below the constructs are the operators that the chapter makes of them: π_ij, f₁ × f₂, repair,
rassoc, sw, and the group of every type (appendix A.4.1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias, assert_never, cast

from rekindle.errors import DefinitionError
from rekindle.nested.functions.types import UNIT, Function, Ground, Product, Type, Unit, twice

Value: TypeAlias = Any
"""What a term is given or gives: (), a value of a ground type, a pair, or a closure."""


@dataclass(frozen=True, slots=True)
class Arrow:
    """What every term has: it goes from `source` to `target`."""

    source: Type = field(init=False, repr=False, compare=False)
    target: Type = field(init=False, repr=False, compare=False)

    def _goes(self, source: Type, target: Type) -> None:
        object.__setattr__(self, "source", source)
        object.__setattr__(self, "target", target)

    def __matmul__(self, inner: Term) -> Compose:
        return Compose(cast("Term", self), inner)


@dataclass(frozen=True, slots=True)
class Identity(Arrow):
    """id_A: A → A."""

    type: Type

    def __post_init__(self) -> None:
        self._goes(self.type, self.type)


@dataclass(frozen=True, slots=True)
class Compose(Arrow):
    """g ∘ f: A → C, of f: A → B and g: B → C.

    >>> from rekindle.nested.functions.types import BAG, INTEGER
    >>> Identity(BAG) @ Identity(INTEGER)
    Traceback (most recent call last):
    rekindle.errors.DefinitionError: g ∘ f does not type
      detail: f gives ℤ, g takes Bag
    """

    outer: Term
    inner: Term

    def __post_init__(self) -> None:
        gives, takes = self.inner.target, self.outer.source
        if gives != takes:
            raise DefinitionError("g ∘ f does not type", detail=f"f gives {gives}, g takes {takes}")
        self._goes(self.inner.source, self.outer.target)


@dataclass(frozen=True, slots=True)
class Bang(Arrow):
    """!_A: A → 1."""

    type: Type

    def __post_init__(self) -> None:
        self._goes(self.type, UNIT)


@dataclass(frozen=True, slots=True)
class Projection(Arrow):
    """π_i: A₁ × A₂ → A_i, for i = 1, 2."""

    index: int
    type: Type

    def __post_init__(self) -> None:
        match self.index, self.type:
            case 1, Product(first, _):
                self._goes(self.type, first)
            case 2, Product(_, second):
                self._goes(self.type, second)
            case _:
                raise DefinitionError(f"π{self.index} does not type", detail=f"of {self.type}")


@dataclass(frozen=True, slots=True)
class Pair(Arrow):
    """⟨f₁, f₂⟩: C → A₁ × A₂, of f_i: C → A_i."""

    first: Term
    second: Term

    def __post_init__(self) -> None:
        one, other = self.first.source, self.second.source
        if one != other:
            raise DefinitionError(
                "⟨f₁, f₂⟩ does not type", detail=f"f₁ takes {one}, f₂ takes {other}"
            )
        self._goes(one, Product(self.first.target, self.second.target))


@dataclass(frozen=True, slots=True)
class Curry(Arrow):
    """curry(f): C → B^A, of f: C × A → B; the lambda."""

    body: Term

    def __post_init__(self) -> None:
        match self.body.source:
            case Product(free, argument):
                self._goes(free, Function(argument, self.body.target))
            case other:
                raise DefinitionError(
                    "curry(f) does not type", detail=f"f takes {other}, which is no pair"
                )


@dataclass(frozen=True, slots=True)
class Apply(Arrow):
    """app: B^A × A → B."""

    type: Type

    def __post_init__(self) -> None:
        function = _function("app", self.type)
        self._goes(Product(function, function.argument), function.result)


@dataclass(frozen=True, slots=True)
class Zero(Arrow):
    """0_𝔻: 1 → 𝔻."""

    type: Ground

    def __post_init__(self) -> None:
        self._goes(UNIT, self.type)


@dataclass(frozen=True, slots=True)
class Plus(Arrow):
    """⊕_𝔻: 𝔻 × 𝔻 → 𝔻."""

    type: Ground

    def __post_init__(self) -> None:
        self._goes(twice(self.type), self.type)


@dataclass(frozen=True, slots=True)
class Minus(Arrow):
    """⊖_𝔻: 𝔻 → 𝔻."""

    type: Ground

    def __post_init__(self) -> None:
        self._goes(self.type, self.type)


@dataclass(frozen=True, slots=True)
class Defined(Arrow):
    """udef: A → B, a primitive of the user, with its delta and its cost.

    `derive` makes udef_Δ: A × A → B from the primitive itself, as a term, so that the delta has a
    delta too. `cost` is udef°, from the cost of the input to that of the output.
    """

    name: str
    takes: Type
    gives: Type
    run: Callable[[Value], Value]
    derive: Callable[[Defined], Term]
    cost: Callable[[Any], Any]

    def __post_init__(self) -> None:
        self._goes(self.takes, self.gives)


@dataclass(frozen=True, slots=True)
class Delta0(Arrow):
    """delta₀: B^A → B^(A × A), the delta of a function that is a value."""

    type: Type

    def __post_init__(self) -> None:
        function = _function("delta₀", self.type)
        self._goes(function, Function(twice(function.argument), function.result))


Term: TypeAlias = (
    Identity
    | Compose
    | Bang
    | Projection
    | Pair
    | Curry
    | Apply
    | Zero
    | Plus
    | Minus
    | Defined
    | Delta0
)


def _function(construct: str, type_: Type) -> Function:
    if isinstance(type_, Function):
        return type_
    raise DefinitionError(f"{construct} does not type", detail=f"{type_} is no function")


# The auxiliary operators of the chapter.


def pick(type_: Type, *path: int) -> Term:
    """π_i, and π_ij = π_i ∘ π_j, out of a value of this type; the last index is taken first.

    >>> from rekindle.nested.functions.types import BAG, INTEGER
    >>> print(pick(Product(BAG, Product(INTEGER, BAG)), 1, 2).target)
    ℤ
    """
    *outer, index = path
    inner = Projection(index, type_)
    return pick(inner.target, *outer) @ inner if outer else inner


def side_by_side(first: Term, second: Term) -> Term:
    """f₁ × f₂ = ⟨f₁ ∘ π₁, f₂ ∘ π₂⟩."""
    both = Product(first.source, second.source)
    return Pair(first @ pick(both, 1), second @ pick(both, 2))


def ignoring(constant: Term, source: Type) -> Term:
    """f!_A = f ∘ !_A: the constant f: 1 → B for any input of type A."""
    return constant @ Bang(source)


def repair(left: Product, right: Product) -> Term:
    """repair: (A × B) × (C × D) → (A × C) × (B × D).

    >>> from rekindle.nested.functions.types import BAG, INTEGER
    >>> print(repair(Product(BAG, INTEGER), Product(UNIT, INTEGER)).target)
    (Bag × 1) × (ℤ × ℤ)
    """
    both = Product(left, right)
    return Pair(
        Pair(pick(both, 1, 1), pick(both, 1, 2)),
        Pair(pick(both, 2, 1), pick(both, 2, 2)),
    )


def rassoc(a: Type, b: Type, c: Type) -> Term:
    """rassoc: (A × B) × C → A × (B × C)."""
    left = Product(Product(a, b), c)
    return Pair(pick(left, 1, 1), Pair(pick(left, 2, 1), pick(left, 2)))


def swap(a: Type, b: Type) -> Term:
    """sw: A × B → B × A."""
    both = Product(a, b)
    return Pair(pick(both, 2), pick(both, 1))


# Appendix A.4.1: the group of every type.


def zero_of(type_: Type) -> Term:
    """0_A: 1 → A, for every type A."""
    match type_:
        case Unit():
            return Identity(UNIT)
        case Ground():
            return Zero(type_)
        case Product(first, second):
            return Pair(zero_of(first), zero_of(second))
        case Function(argument, result):
            return Curry(ignoring(zero_of(result), Product(UNIT, argument)))
        case _:
            assert_never(type_)


def plus_of(type_: Type) -> Term:
    """⊕_A: A × A → A, for every type A; functions are added point by point.

    So application distributes: app(f ⊕ df, a) = app(f, a) ⊕ app(df, a).
    """
    match type_:
        case Unit():
            return Bang(twice(UNIT))
        case Ground():
            return Plus(type_)
        case Product(first, second):
            return side_by_side(plus_of(first), plus_of(second)) @ repair(type_, type_)
        case Function(argument, result):
            both, here = twice(type_), Identity(argument)
            return Curry(
                plus_of(result)
                @ Pair(
                    Apply(type_) @ side_by_side(pick(both, 1), here),
                    Apply(type_) @ side_by_side(pick(both, 2), here),
                )
            )
        case _:
            assert_never(type_)


def minus_of(type_: Type) -> Term:
    """⊖_A: A → A, for every type A."""
    match type_:
        case Unit():
            return Identity(UNIT)
        case Ground():
            return Minus(type_)
        case Product(first, second):
            return side_by_side(minus_of(first), minus_of(second))
        case Function(_, result):
            return Curry(minus_of(result) @ Apply(type_))
        case _:
            assert_never(type_)


def added(left: Term, right: Term) -> Term:
    """⊕_B⟨f, g⟩, of f, g: A → B."""
    return plus_of(left.target) @ Pair(left, right)
