"""The change of a query under the insertion or deletion of one tuple, as a query.

Terms and formulae are expressions over rings, so the change follows the ring's operations:

    Δ(α + β) = Δα + Δβ        Δ(α * β) = Δα * β + α * Δβ + Δα * Δβ        Δ(-α) = -Δα

and at the leaves, for the update ±R(u, ...):

    ΔR(x, ...) = ±(x = u) * ...        ΔS(...) = false
    Δ(s θ t)   = (s' θ t') * (s θ̄ t) - (s' θ̄ t') * (s θ t)    with s' = s + Δs, t' = t + Δt
    Δf(t, ...) = f(t', ...) - f(t, ...)

and Δ of Sum(t, φ) is that of a product. The law: [[α]](A ± R(u)) = [[α]](A) + [[Δα]](A). The rule
for f is not in the paper, which has no aggregates inside functions.

Products with a change that is 0 are left out at once. That is more than tidiness: without it a
factor that no update touches would keep the degree from falling. It also makes more variables
safe: y is not in R(x) + S(x, y), but is in the change under S, where R's part is gone. So the
variables of aggregates get names of their own first, lest another aggregate's y be taken for it.

Section 5 (propositions 5.1 and 5.2, definition 5.4, theorem 5.5).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import assert_never

from rekindle.algebra.zset import ZSet
from rekindle.errors import DefinitionError
from rekindle.frontends.agca.ast import (
    FALSE,
    ZERO,
    Aggregate,
    Atom,
    Call,
    Comparison,
    Constant,
    Expression,
    Formula,
    MapAccess,
    Negation,
    Operator,
    Plus,
    Product,
    Term,
    Truth,
    Variable,
    conjunction,
    parts,
    within,
)
from rekindle.frontends.agca.renaming import rename_apart, rename_formula_apart
from rekindle.frontends.agca.text import written
from rekindle.frontends.agca.variables import occurring
from tests.agca.reference.semantics import Database, Row


class Sign(Enum):
    """± of an update, and of a monomial."""

    PLUS = "+"
    MINUS = "-"

    def __mul__(self, other: Sign) -> Sign:
        return Sign.PLUS if self is other else Sign.MINUS

    @property
    def weight(self) -> int:
        return 1 if self is Sign.PLUS else -1


@dataclass(frozen=True, slots=True)
class Event:
    """±R(u, ...): a tuple, given by the variables that hold its values, comes or goes."""

    sign: Sign
    relation: str
    arguments: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.sign.value}{self.relation}({', '.join(self.arguments)})"


def apply_update(database: Database, sign: Sign, relation: str, row: Row) -> Database:
    """A ± R(row)."""
    return {**database, relation: database[relation] + ZSet.of({row: sign.weight})}


def term_delta(term: Term, event: Event, bound: Iterable[str]) -> Term:
    """Δt: what the update adds to the term, given the variables bound in both.

    >>> from rekindle.frontends.agca.parse import parse_term
    >>> written(term_delta(parse_term("Sum(x, R(x, y))"), Event(Sign.PLUS, "R", ("u", "v")), ()))
    'Sum(x, (x = u) * (y = v))'
    """
    _check_fresh(term, event)
    return _Delta(event).term(rename_apart(term, (*bound, *event.arguments)))


def formula_delta(formula: Formula, event: Event, bound: Iterable[str]) -> Formula:
    """Δφ: what the update adds to the formula, given the variables bound in both.

    >>> from rekindle.frontends.agca.parse import parse_formula
    >>> written(formula_delta(parse_formula("R(x) * S(x)"), Event(Sign.MINUS, "S", ("u",)), ()))
    'R(x) * -(x = u)'
    """
    _check_fresh(formula, event)
    return _Delta(event).formula(rename_formula_apart(formula, (*bound, *event.arguments)))


def _check_fresh(expression: Expression, event: Event) -> None:
    clash = sorted(set(event.arguments) & set(occurring(expression)))
    if clash:
        raise DefinitionError(
            f"the update {event} reuses the variable '{clash[0]}'",
            detail=f"in: {written(expression)}",
            hint="give the update variables of its own",
        )


class _Delta:
    def __init__(self, event: Event) -> None:
        self._event = event

    def term(self, term: Term) -> Term:
        match term:
            case Plus(left, right):
                return _plus(self.term(left), self.term(right))
            case Negation(operand):
                return _negated(self.term(operand))
            case Product(left, right):
                d_left, d_right = self.term(left), self.term(right)
                return _plus(
                    _plus(_times(d_left, right), _times(left, d_right)), _times(d_left, d_right)
                )
            case Aggregate(value, body):
                d_value, d_body = self.term(value), self.formula(body)
                return _plus(
                    _plus(_aggregate(d_value, body), _aggregate(value, d_body)),
                    _aggregate(d_value, d_body),
                )
            case Call(function, arguments):
                changes = tuple(map(self.term, arguments))
                if all(change == ZERO for change in changes):
                    return ZERO
                after = tuple(map(_plus, arguments, changes))
                return Plus(Call(function, after), Negation(term))
            case Variable() | Constant() | MapAccess():
                return ZERO
            case _:
                assert_never(term)

    def formula(self, formula: Formula) -> Formula:
        match formula:
            case Plus(left, right):
                return _either(self.formula(left), self.formula(right))
            case Negation(operand):
                return _inverse(self.formula(operand))
            case Product(left, right):
                d_left, d_right = self.formula(left), self.formula(right)
                return _either(
                    _either(_both(d_left, right), _both(left, d_right)), _both(d_left, d_right)
                )
            case Comparison(left, operator, right):
                change, other = self.term(left), self.term(right)
                if change == ZERO and other == ZERO:
                    return FALSE
                after = Comparison(_plus(left, change), operator, _plus(right, other))
                return Plus(
                    Product(after, _complement(formula)),
                    Negation(Product(_complement(after), formula)),
                )
            case Atom(relation):
                return self._atom(formula) if relation == self._event.relation else FALSE
            case Truth():
                return FALSE
            case _:
                assert_never(formula)

    def _atom(self, atom: Atom) -> Formula:
        if len(atom.variables) != len(self._event.arguments):
            raise DefinitionError(
                f"'{written(atom)}' and the update {self._event} differ in width",
                hint="use a relation with the same number of columns everywhere",
            )
        change = conjunction(
            [
                Comparison(Variable(name), Operator.EQUAL, Variable(argument))
                for name, argument in zip(atom.variables, self._event.arguments, strict=True)
            ]
        )
        return change if self._event.sign is Sign.PLUS else Negation(change)


def _complement(comparison: Comparison) -> Comparison:
    return Comparison(comparison.left, comparison.operator.complement, comparison.right)


def _plus(left: Term, right: Term) -> Term:
    if left == ZERO:
        return right
    return left if right == ZERO else Plus(left, right)


def _times(left: Term, right: Term) -> Term:
    return ZERO if ZERO in (left, right) else Product(left, right)


def _negated(term: Term) -> Term:
    return ZERO if term == ZERO else Negation(term)


def _aggregate(value: Term, body: Formula) -> Term:
    return ZERO if value == ZERO or body == FALSE else Aggregate(value, body)


def _either(left: Formula, right: Formula) -> Formula:
    if left == FALSE:
        return right
    return left if right == FALSE else Plus(left, right)


def _both(left: Formula, right: Formula) -> Formula:
    return FALSE if FALSE in (left, right) else Product(left, right)


def _inverse(formula: Formula) -> Formula:
    return FALSE if formula == FALSE else Negation(formula)


def degree(expression: Expression) -> int:
    """deg: how many atoms are joined at most; 0 means that the database is not read.

    >>> from rekindle.frontends.agca.parse import parse_term
    >>> degree(parse_term("Sum(1, R(x) * S(x) + T(x)) + Sum(1, R(x))"))
    2
    """
    match expression:
        case Atom():
            return 1
        case Plus() | Comparison() | Call():
            return max((degree(part) for part in parts(expression)), default=0)
        case _:
            return sum(degree(part) for part in parts(expression))


def has_simple_conditions(expression: Expression) -> bool:
    """No update changes a comparison or the argument of a function: none looks at the database.

    >>> from rekindle.frontends.agca.parse import parse_term
    >>> has_simple_conditions(parse_term("Sum(1, R(x) * (Sum(1, S(x)) = 0))"))
    False
    """
    return all(
        degree(part) == 0 for part in within(expression) if isinstance(part, Comparison | Call)
    )
