"""First-order logic in AGCA: every formula is an aggregate compared with 0.

    φ ∧ ψ → φ * ψ        φ ∨ ψ → φ + ψ
    ∃x φ → Sum(1, φ) != 0        ¬∃x φ → Sum(1, φ) = 0

Atoms and comparisons stay themselves. Sum projects, which is what a quantifier needs; a negation
is ¬∃ without variables. With the free variables bound, a formula holds exactly when its
translation is not the empty relation, on databases whose multiplicities are not negative.

Quantified variables get names of their own, as AGCA has no binders. The paper gives no way back
from AGCA, which can say more, and there is none here.

Section 4 (FO2AG, theorem 4.3).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import TypeAlias, assert_never

from rekindle.frontends.agca.ast import (
    ONE,
    ZERO,
    Aggregate,
    Atom,
    Comparison,
    Formula,
    Operator,
    Plus,
    Product,
    Value,
)
from rekindle.frontends.agca.renaming import fresh, substitute
from tests.agca.reference.arithmetic import compare
from tests.agca.reference.semantics import Database, evaluate_term


@dataclass(frozen=True, slots=True)
class And:
    left: Logic
    right: Logic


@dataclass(frozen=True, slots=True)
class Or:
    left: Logic
    right: Logic


@dataclass(frozen=True, slots=True)
class Exists:
    """∃ variables: body."""

    variables: tuple[str, ...]
    body: Logic


@dataclass(frozen=True, slots=True)
class NotExists:
    """¬∃ variables: body; without variables, the negation of the body."""

    variables: tuple[str, ...]
    body: Logic


Logic: TypeAlias = And | Or | Exists | NotExists | Atom | Comparison


def logic_to_formula(logic: Logic, free: Iterable[str]) -> Formula:
    """FO2AG(φ), for the given free variables.

    >>> from rekindle.frontends.agca.text import written
    >>> written(logic_to_formula(And(Atom("S", ("x",)), NotExists((), Atom("T", ("x",)))), ["x"]))
    'S(x) * (Sum(1, T(x)) = 0)'
    """
    scope = {name: name for name in free}
    return _Translation(set(scope)).formula(logic, scope)


class _Translation:
    def __init__(self, taken: set[str]) -> None:
        self._taken = taken

    def formula(self, logic: Logic, scope: Mapping[str, str]) -> Formula:
        match logic:
            case And(left, right):
                return Product(self.formula(left, scope), self.formula(right, scope))
            case Or(left, right):
                return Plus(self.formula(left, scope), self.formula(right, scope))
            case Exists(variables, body):
                return self._counted(variables, body, scope, Operator.UNEQUAL)
            case NotExists(variables, body):
                return self._counted(variables, body, scope, Operator.EQUAL)
            case Atom() | Comparison():
                return substitute(logic, scope)
            case _:
                assert_never(logic)

    def _counted(
        self, variables: tuple[str, ...], body: Logic, scope: Mapping[str, str], operator: Operator
    ) -> Formula:
        inner = dict(scope)
        for name in variables:
            inner[name] = fresh(name, self._taken)
            self._taken.add(inner[name])
        return Comparison(Aggregate(ONE, self.formula(body, inner)), operator, ZERO)


def satisfies(
    logic: Logic, database: Database, values: Mapping[str, Value], domain: Iterable[Value]
) -> bool:
    """(A, b) ⊨ φ, quantifiers ranging over the domain: the textbook definition."""
    universe = tuple(domain)
    match logic:
        case And(left, right):
            return satisfies(left, database, values, universe) and satisfies(
                right, database, values, universe
            )
        case Or(left, right):
            return satisfies(left, database, values, universe) or satisfies(
                right, database, values, universe
            )
        case Exists(variables, body):
            return any(
                satisfies(
                    body, database, {**values, **dict(zip(variables, row, strict=True))}, universe
                )
                for row in product(universe, repeat=len(variables))
            )
        case NotExists(variables, body):
            return not satisfies(Exists(variables, body), database, values, universe)
        case Atom(relation, variables):
            return tuple(values[name] for name in variables) in database[relation]
        case Comparison(left, operator, right):
            return compare(
                evaluate_term(left, database, values),
                operator,
                evaluate_term(right, database, values),
            )
        case _:
            assert_never(logic)
