"""The random programs as terms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rekindle.calculus.bodies import Measures
from rekindle.calculus.scalars import Column, Row
from rekindle.calculus.schema import Schema
from rekindle.calculus.terms import (
    AggregateFunction,
    Answer,
    Bound,
    Condition,
    Distinct,
    Fix,
    Join,
    Map,
    Measure,
    PerGroup,
    SemiJoin,
    Source,
    Term,
    UnionAll,
    Values,
)
from tests.nested.programs import (
    After,
    Both,
    Count,
    Expression,
    First,
    Last,
    Least,
    Named,
    Program,
    Swap,
    Without,
)

PAIR = Schema.of(a="int", b="int")
A, B = Column(0, "int"), Column(1, "int")


def term(expression: Expression, given: dict[str, Term]) -> Term:
    """A term whose rows are distinct."""
    match expression:
        case Named():
            return given[expression.name]
        case Swap():
            return Map(term(expression.of, given), (("a", B), ("b", A)))
        case Least():
            least = Measure("b", AggregateFunction.LEAST, (B,), "int")
            body = Measures(Schema.of(a="int"), (least,))
            return PerGroup(term(expression.of, given), (0,), body)
        case Last():
            return PerGroup(term(expression.of, given), (0,), Ends(-2))
        case First():
            return PerGroup(term(expression.of, given), (), Ends(3))
        case Count():
            return _counted(term(expression.of, given))
    left, right = term(expression.left, given), term(expression.right, given)
    match expression:
        case Both():
            return Distinct(UnionAll((left, right)))
        case Without():
            return SemiJoin(left, right, (Condition((A, B), (A, B)),), Answer.UNMATCHED)
        case After():
            ends = (("a", A), ("b", Column(3, "int")))
            return Distinct(Map(Join(left, right, (B,), (A,)), ends))


@dataclass(frozen=True)
class Ends:
    """The first or, by a negative number, the last rows of a group."""

    rows: int
    schema: Schema = PAIR
    text: str = "ends"

    def apply(self, key: Row, rows: Sequence[Row]) -> Sequence[Row]:
        ordered = sorted(rows)
        return ordered[: self.rows] if self.rows > 0 else ordered[self.rows :]


def _modulo(values: list[tuple[Any, ...]]) -> int:
    return len(values) % 3


def _counted(rows: Term) -> Term:
    """With a measure that is a function of all rows, as those of the front end are."""
    number = Measure(
        "n", AggregateFunction.OTHER, (A, B), "int", finish=_modulo, values=Values.DISTINCT
    )
    counted = PerGroup(rows, (), Measures(Schema(()), (number,)))
    return Map(counted, (("a", A), ("b", A)))


def outer_body(program: Program) -> tuple[Term, Fix]:
    """The outer body, and the recursion inside it."""
    edge, x, y = (Source(name, PAIR) for name in "exy")
    seed = term(program.inner_seed, {"e": edge, "x": x})
    body = term(program.inner, {"e": edge, "x": x, "y": y})
    inner = Fix(("y",), (body,), (seed,), 0, *_until(program.steps[1], program.limit))
    return term(program.outer, {"e": edge, "x": x, "y": inner}), inner


def fix(program: Program) -> Fix:
    body, _ = outer_body(program)
    seed = term(program.outer_seed, {"e": Source("e", PAIR)})
    return Fix(("x",), (body,), (seed,), 0, *_until(program.steps[0], program.limit))


def _until(steps: int | None, limit: int) -> tuple[int, Bound]:
    return (limit, Bound.ERROR) if steps is None else (steps, Bound.RESULT)
