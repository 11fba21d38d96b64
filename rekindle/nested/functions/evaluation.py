"""What a term gives for a value; functions are closures, so that a function's term can be found.

A functional value B^A is a term f: C × A → B together with the value of C that it was given: what
curry(f) makes of its input. Calling it evaluates f; delta₀ replaces f by its partial delta and
keeps what was assigned.

The evaluator is one for values and for costs. Figure 4.4 changes nothing but zero, ⊕, ⊖ and the
primitives, so those four are a `Meaning` (`VALUES` here, `cost.COSTS` there).

Two closures are equal when they give equal results, which no program decides: `same` compares them
on the samples it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol, TypeAlias, assert_never

from rekindle.nested.functions.delta import delta_by_second
from rekindle.nested.functions.terms import (
    Apply,
    Bang,
    Compose,
    Curry,
    Defined,
    Delta0,
    Identity,
    Minus,
    Pair,
    Plus,
    Projection,
    Term,
    Value,
    Zero,
)
from rekindle.nested.functions.types import Function, Ground, Product, Type, Unit

Samples: TypeAlias = Callable[[Type], Iterable[Value]]
"""Some values of a type, to compare functions on."""


class Meaning(Protocol):
    """What the ground types and the primitives stand for."""

    def zero(self, type_: Ground, /) -> Value: ...

    def plus(self, type_: Ground, left: Value, right: Value, /) -> Value: ...

    def minus(self, type_: Ground, value: Value, /) -> Value: ...

    def defined(self, primitive: Defined, value: Value, /) -> Value: ...


@dataclass(frozen=True, slots=True)
class Values:
    """The values themselves: each ground type adds as its group does."""

    def zero(self, type_: Ground, /) -> Value:
        return type_.group.zero

    def plus(self, type_: Ground, left: Value, right: Value, /) -> Value:
        return type_.group.add(left, right)

    def minus(self, type_: Ground, value: Value, /) -> Value:
        return type_.group.negate(value)

    def defined(self, primitive: Defined, value: Value, /) -> Value:
        return primitive.run(value)


VALUES = Values()


@dataclass(frozen=True, slots=True)
class Closure:
    """A functional value: the term f: C × A → B, and the value of C assigned so far.

    >>> from rekindle.nested.functions.types import INTEGER
    >>> add_two = Closure(Plus(INTEGER), 2)
    >>> add_two(5)
    7
    """

    body: Term
    assigned: Value
    meaning: Meaning = VALUES

    def __call__(self, argument: Value) -> Value:
        return evaluate(self.body, (self.assigned, argument), self.meaning)


def delta0(function: Closure) -> Closure:
    """delta₀: the partial delta of the closure's term, with the same values assigned.

    Its axiom is delta₀ ∘ curry(f) = curry(δ_{-,A}(f)) (`equations.axiom_of_delta0`).

    >>> from rekindle.nested.functions.types import INTEGER
    >>> delta0(Closure(Plus(INTEGER), 2))((5, 1))
    1
    """
    return Closure(delta_by_second(function.body), function.assigned, function.meaning)


def evaluate(term: Term, value: Value, meaning: Meaning = VALUES) -> Value:
    """h(a): what the term gives for a value of its source.

    >>> from rekindle.nested.functions.types import INTEGER
    >>> evaluate(Apply(Function(INTEGER, INTEGER)), (Closure(Plus(INTEGER), 2), 5))
    7
    """
    match term:
        case Identity():
            return value
        case Compose(outer, inner):
            return evaluate(outer, evaluate(inner, value, meaning), meaning)
        case Bang():
            return ()
        case Projection(index, _):
            return value[index - 1]
        case Pair(first, second):
            return evaluate(first, value, meaning), evaluate(second, value, meaning)
        case Curry(body):
            return Closure(body, value, meaning)
        case Apply():
            function, argument = value
            return function(argument)
        case Zero(ground):
            return meaning.zero(ground)
        case Plus(ground):
            return meaning.plus(ground, *value)
        case Minus(ground):
            return meaning.minus(ground, value)
        case Defined():
            return meaning.defined(term, value)
        case Delta0():
            return delta0(value)
        case _:
            assert_never(term)


def same(type_: Type, left: Value, right: Value, samples: Samples) -> bool:
    """Two values of a type are equal; functions, as far as the samples show.

    >>> from rekindle.nested.functions.types import INTEGER
    >>> functions = Function(INTEGER, INTEGER)
    >>> same(functions, Closure(Plus(INTEGER), 2), Closure(Plus(INTEGER), 3), lambda type_: [0])
    False
    """
    match type_:
        case Unit() | Ground():
            return bool(left == right)
        case Product(first, second):
            return same(first, left[0], right[0], samples) and same(
                second, left[1], right[1], samples
            )
        case Function(argument, result):
            return all(
                same(result, left(given), right(given), samples) for given in samples(argument)
            )
        case _:
            assert_never(type_)
