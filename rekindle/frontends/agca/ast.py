"""The nodes of AGCA: formulae, which mean relations, and terms, which mean numbers.

    φ ::= φ * φ | φ + φ | -φ | true | false | R(x, ...) | t θ t
    t ::= t * t | t + t | -t | f(t, ...) | x | constant | Sum(t, φ) | m[x, ...]

Both are expressions over a ring, so product, sum and negation are one node each, used at either
kind. The paper compares a term with 0; here a comparison keeps both sides, because the case that
binds a variable, x = y, is then visible in the node. A map access `m[x, ...]` is no part of what a
user asks: it stands for an aggregate that the compiler keeps in a map.

Section 4 (syntax).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from functools import reduce
from typing import Generic, TypeAlias, TypeVar

E = TypeVar("E", bound="Formula | Term")
Value: TypeAlias = Fraction | int | str
"""A data value; arithmetic needs numbers, comparison takes two of a kind."""
Schema: TypeAlias = Mapping[str, Sequence[str]]
"""The columns of each relation."""


class Operator(Enum):
    """θ: how a comparison compares."""

    EQUAL = "="
    UNEQUAL = "!="
    LESS = "<"
    AT_MOST = "<="
    GREATER = ">"
    AT_LEAST = ">="

    @property
    def complement(self) -> Operator:
        """θ̄: holds exactly when θ does not.

        >>> Operator.LESS.complement.value
        '>='
        """
        return _COMPLEMENTS[self]


_COMPLEMENTS = {
    Operator.EQUAL: Operator.UNEQUAL,
    Operator.UNEQUAL: Operator.EQUAL,
    Operator.LESS: Operator.AT_LEAST,
    Operator.AT_LEAST: Operator.LESS,
    Operator.GREATER: Operator.AT_MOST,
    Operator.AT_MOST: Operator.GREATER,
}


@dataclass(frozen=True, slots=True)
class Product(Generic[E]):
    """Join of formulae, multiplication of terms. The left factor binds variables for the right."""

    left: E
    right: E


@dataclass(frozen=True, slots=True)
class Plus(Generic[E]):
    """Union of formulae with multiplicities added, addition of terms."""

    left: E
    right: E


@dataclass(frozen=True, slots=True)
class Negation(Generic[E]):
    """The additive inverse: of a relation, deletion; never the logical not."""

    operand: E


@dataclass(frozen=True, slots=True)
class Truth:
    """true, the relation with the empty tuple, or false, the empty relation."""

    value: bool


@dataclass(frozen=True, slots=True)
class Atom:
    """R(x, ...): the tuples of a relation, each column named by a variable."""

    relation: str
    variables: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """left θ right. An equality of two variables gives a value to the one that has none."""

    left: Term
    operator: Operator
    right: Term

    @property
    def equated(self) -> tuple[str, str] | None:
        """The two variables of x = y; nothing for any other comparison."""
        match self:
            case Comparison(Variable(left), Operator.EQUAL, Variable(right)):
                return left, right
            case _:
                return None


@dataclass(frozen=True, slots=True)
class Variable:
    """x: the value that the surroundings give it."""

    name: str


@dataclass(frozen=True, slots=True)
class Constant:
    """A function without arguments: a number, or a string to compare with."""

    value: Value


@dataclass(frozen=True, slots=True)
class Call:
    """f(t, ...): a built-in function, which sees its arguments and never the database."""

    function: str
    arguments: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Aggregate:
    """Sum(value, body): the value added up over the tuples of the body."""

    value: Term
    body: Formula


@dataclass(frozen=True, slots=True)
class MapAccess:
    """m[x, ...]: an entry of a map that a trigger program keeps."""

    name: str
    keys: tuple[str, ...]


Formula: TypeAlias = (
    "Product[Formula] | Plus[Formula] | Negation[Formula] | Truth | Atom | Comparison"
)
Term: TypeAlias = (
    "Product[Term] | Plus[Term] | Negation[Term] | Variable | Constant | Call | Aggregate"
    " | MapAccess"
)
Expression: TypeAlias = "Formula | Term"

TRUE = Truth(True)
FALSE = Truth(False)
ZERO = Constant(0)
ONE = Constant(1)


@dataclass(frozen=True, slots=True)
class Query:
    """name[group] = term: a map from the values of the group's variables to the term's value."""

    name: str
    group: tuple[str, ...]
    term: Term


def conjunction(factors: Sequence[Formula]) -> Formula:
    """The product of formulae, true when there are none.

    >>> conjunction([])
    Truth(value=True)
    """

    def both(left: Formula, right: Formula) -> Formula:
        return Product(left, right)

    return reduce(both, factors) if factors else TRUE


def multiplication(factors: Sequence[Term]) -> Term:
    """The product of terms, 1 when there are none."""

    def times(left: Term, right: Term) -> Term:
        return Product(left, right)

    return reduce(times, factors) if factors else ONE


def parts(expression: Expression) -> tuple[Expression, ...]:
    """The formulae and terms directly under a node, in the order of the text."""
    match expression:
        case Product(left, right) | Plus(left, right):
            return left, right
        case Comparison(left, _, right):
            return left, right
        case Negation(operand):
            return (operand,)
        case Call(_, arguments):
            return arguments
        case Aggregate(value, body):
            return value, body
        case _:
            return ()


def within(expression: Expression) -> Iterator[Expression]:
    """The expression and everything below it, outermost first."""
    yield expression
    for part in parts(expression):
        yield from within(part)
