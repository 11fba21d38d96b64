"""The algebra: frozen terms, in the paper's notation when printed (`text.py`).

A term is a scalar expression around a few operators on collections (definition 1). All operators
are homomorphisms; their compositions need not be. What each means is one case of `interpreter.py`.

    cMap(f, X)         {z | x ∈ X, z ∈ f(x)}
    groupBy(X)         one (k, {a}) for each key of the pairs in X
    coGroup(X, Y)      one (k, ({a}, {b})) for each key of the pairs in X or Y
    orderBy(X)         the second parts of pairs, in the order of the first
    reduce(⊕, X)       the merge of the elements of X
    repeat(F, n, X)    F applied to X again and again

Every bound variable has a name of its own (`fresh`), so that no substitution captures one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from itertools import count
from typing import TypeAlias, TypeGuard, TypeVar, get_args

from rekindle.mrql_language.monoids import Monoid
from rekindle.mrql_language.syntax import Place
from rekindle.mrql_language.values import Value

Shape: TypeAlias = "str | tuple[Shape, ...]"
"""What a function takes apart: a variable, or a tuple of shapes."""


@dataclass(frozen=True, slots=True)
class Var:
    name: str


@dataclass(frozen=True, slots=True)
class Constant:
    value: Value


@dataclass(frozen=True, slots=True)
class Stored:
    """A name that `store` bound; its value is that at the time of evaluation."""

    name: str


@dataclass(frozen=True, slots=True)
class Request:
    """What a `source` or `stream` asks for: its parser's name, and the arguments after it."""

    parser: str
    arguments: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Source:
    """A stream S, or a source that does not change; `request` says how it is read, if it is."""

    name: str
    kind: str
    """`stream` or `invariant`."""
    request: Request | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Read:
    """A source whose name is only known when it is evaluated (`source(line, args[0], ...)`)."""

    kind: str
    parser: str
    arguments: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Tuple:
    items: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class MakeRecord:
    labels: tuple[str, ...]
    items: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Project:
    """`e#index`"""

    operand: Term
    index: int


@dataclass(frozen=True, slots=True)
class Field:
    """`e.name`"""

    operand: Term
    name: str
    place: Place | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Call:
    """A function of `functions.py` by its name; `and`, `or` are lazy."""

    function: str
    arguments: tuple[Term, ...]
    place: Place | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Invoke:
    """A function of the script."""

    function: str
    arguments: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class If:
    condition: Term
    then: Term
    otherwise: Term


@dataclass(frozen=True, slots=True)
class Match:
    """`body` with what the pattern binds if it matches the subject, else `otherwise`.

    Patterns: a shape's variable is `Var`, a constructor `Build`, a list `Enumerate`, a tuple
    `Tuple`, a record `MakeRecord`; any other term must be equal.
    """

    subject: Term
    pattern: Term
    body: Term
    otherwise: Term


@dataclass(frozen=True, slots=True)
class Build:
    """A constructor of a data type, with its number among the type's."""

    order: int
    constructor: str
    arguments: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Lambda:
    shape: Shape
    body: Term


@dataclass(frozen=True, slots=True)
class Let:
    value: Term
    function: Lambda


@dataclass(frozen=True, slots=True)
class Braces:
    """A bag of these elements: `{}`, `{e}`, `{e1, e2}`."""

    items: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Enumerate:
    """A list of these elements."""

    items: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Union:
    left: Term
    right: Term


@dataclass(frozen=True, slots=True)
class CMap:
    function: Lambda
    operand: Term


@dataclass(frozen=True, slots=True)
class GroupBy:
    operand: Term


@dataclass(frozen=True, slots=True)
class CoGroup:
    left: Term
    right: Term


@dataclass(frozen=True, slots=True)
class OrderBy:
    operand: Term
    limit: Term | None = None


@dataclass(frozen=True, slots=True)
class Reduce:
    monoid: Monoid
    operand: Term


@dataclass(frozen=True, slots=True)
class Repeat:
    """`form` is `collection` (with a flag in each element, or while it grows) or `tuple`."""

    form: str
    step: Lambda
    start: Term
    limit: Term | None


# --- what lineage tracking adds (algorithm 1) --------------------------------------------------


@dataclass(frozen=True, slots=True)
class SMap1:
    """{((k,θ), b) | ((k,θ), a) ∈ X, b ∈ f(k,a)}   (8a)"""

    function: Lambda
    operand: Term


@dataclass(frozen=True, slots=True)
class SMap2:
    """{(k', ((k,θ), b)) | ((k,θ), a) ∈ X, (k',b) ∈ f(k,a)}   (8b)"""

    function: Lambda
    operand: Term


@dataclass(frozen=True, slots=True)
class SMap3:
    """{(k, ((), b)) | a ∈ X, (k,b) ∈ f(a)}   (8c)"""

    function: Lambda
    operand: Term


@dataclass(frozen=True, slots=True)
class Swap:
    """{((k,θ), v) | (k, (θ,v)) ∈ X}   (8d)"""

    operand: Term


@dataclass(frozen=True, slots=True)
class Forget:
    """{(k, ((), v)) | (k, (θ,v)) ∈ X}: lineage that the operator above has no use for"""

    operand: Term


@dataclass(frozen=True, slots=True)
class Mix:
    """{((k,(θx,θy)), (xs,ys)) | (k,(s1,s2)) ∈ X, (θx,xs) ∈ groupBy(s1), (θy,ys) ∈ groupBy(s2)}

    (8e), where a side without rows counts as one empty group with the lineage ().
    """

    operand: Term


@dataclass(frozen=True, slots=True)
class KMap:
    """{(θ, f(v)) | (θ,v) ∈ X}   (section 9)"""

    function: Lambda
    operand: Term


Term: TypeAlias = (
    Var
    | Constant
    | Stored
    | Source
    | Read
    | Tuple
    | MakeRecord
    | Project
    | Field
    | Call
    | Invoke
    | If
    | Match
    | Build
    | Lambda
    | Let
    | Braces
    | Enumerate
    | Union
    | CMap
    | GroupBy
    | CoGroup
    | OrderBy
    | Reduce
    | Repeat
    | SMap1
    | SMap2
    | SMap3
    | Swap
    | Forget
    | Mix
    | KMap
)
EMPTY = Braces(())
_numbers = count(1)
_NodeT = TypeVar("_NodeT", bound="Term")


def fresh(name: str) -> str:
    """A variable's name that no other variable has."""
    return f"{name.split('.')[0]}.{next(_numbers)}"


def variables(shape: Shape) -> Iterator[str]:
    """The variables of a shape, from left to right."""
    if isinstance(shape, str):
        yield shape
    else:
        for part in shape:
            yield from variables(part)


def as_term(shape: Shape) -> Term:
    """The value that a shape took apart."""
    return Var(shape) if isinstance(shape, str) else Tuple(tuple(as_term(part) for part in shape))


def children(term: Term) -> Iterator[Term]:
    """The terms directly within one."""
    for each in fields(term):
        value = getattr(term, each.name)
        if isinstance(value, tuple):
            yield from (part for part in value if _is_term(part))
        elif _is_term(value):
            yield value


def rebuilt(term: _NodeT, change: Callable[[Term], Term]) -> _NodeT:
    """The term with each term directly within it changed."""
    changed: dict[str, object] = {}
    for each in fields(term):
        value = getattr(term, each.name)
        if _is_term(value):
            changed[each.name] = change(value)
        elif isinstance(value, tuple) and any(_is_term(part) for part in value):
            changed[each.name] = tuple(change(part) for part in value)
    return replace(term, **changed) if changed else term  # type: ignore[arg-type]


def _is_term(value: object) -> TypeGuard[Term]:
    return isinstance(value, _CLASSES)


_CLASSES: tuple[type, ...] = get_args(Term)


def free(term: Term) -> frozenset[str]:
    """The variables that a term does not bind itself."""
    match term:
        case Var():
            return frozenset((term.name,))
        case Lambda():
            return free(term.body) - frozenset(variables(term.shape))
        case Match():
            inner = (free(term.body) - free(term.pattern)) | free(term.otherwise)
            return free(term.subject) | inner
        case _:
            return frozenset().union(*(free(part) for part in children(term)))


def sources(term: Term) -> frozenset[str]:
    """The names of the streams that a term reads."""
    if isinstance(term, Source):
        return frozenset((term.name,)) if term.kind == "stream" else frozenset()
    if isinstance(term, Read):
        return frozenset((repr(term.arguments),)) if term.kind == "stream" else frozenset()
    return frozenset().union(*(sources(part) for part in children(term)))


def substitute(term: Term, values: dict[str, Term]) -> Term:
    """The term with variables replaced; sound since no two binders share a name."""
    if isinstance(term, Var):
        return values.get(term.name, term)
    return rebuilt(term, lambda part: substitute(part, values))


def renamed(function: Lambda) -> Lambda:
    """The same function with variables of its own, at every depth."""
    names: dict[str, str] = {}

    def shape(of: Shape) -> Shape:
        if isinstance(of, str):
            names[of] = fresh(of)
            return names[of]
        return tuple(shape(part) for part in of)

    def walk(term: Term) -> Term:
        if isinstance(term, Lambda):
            taken = shape(term.shape)
            return Lambda(taken, walk(term.body))
        if isinstance(term, Match):
            for name in free(term.pattern):
                names.setdefault(name, fresh(name))
        if isinstance(term, Var):
            return Var(names.get(term.name, term.name))
        return rebuilt(term, walk)

    found = walk(function)
    assert isinstance(found, Lambda)
    return found


def applied(function: Lambda, argument: Term) -> Term:
    """The body with the argument for what the function takes: β-reduction.

    A tuple that is taken apart is not built; another argument is projected.
    """
    function = renamed(function)
    values: dict[str, Term] = {}

    def bind(shape: Shape, term: Term) -> None:
        if isinstance(shape, str):
            values[shape] = term
            return
        for index, part in enumerate(shape):
            known = isinstance(term, Tuple) and len(term.items) == len(shape)
            bind(part, term.items[index] if known else Project(term, index))  # type: ignore[union-attr]

    bind(function.shape, argument)
    return substitute(function.body, values)
