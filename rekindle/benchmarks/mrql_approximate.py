"""How near the paper's approximate algorithm for iterations comes to what the query gives.

K-means by the states that its step is split into (`mrql_language/iteration.py`): an increment goes
through the steps with the states that it meets, and nothing else is looked at. Beside it the query
is evaluated from scratch, by the same interpreter. Views are exact and do none of this.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from rekindle.benchmarks.harness import timed
from rekindle.benchmarks.report import Sample
from rekindle.mrql_language import syntax as s
from rekindle.mrql_language.interpreter import Interpreter
from rekindle.mrql_language.iteration import iteration
from rekindle.mrql_language.parse import parse_statement, pieces
from rekindle.mrql_language.session import Session
from rekindle.mrql_language.values import Bag, Record, Value

THRESHOLD = 0.2
"""How far a centroid may have moved to be taken for the one that it was."""


@dataclass(frozen=True, slots=True)
class Followed:
    """What each increment took, approximately and from scratch, and how far the two are apart."""

    approximate: Sequence[Sample]
    scratch: Sequence[Sample]
    apart: Sequence[float]
    """The distance of the farthest centroid from the nearest exact one, after each increment."""


def followed(query: str, first: pa.Table, increments: Iterable[pa.Table]) -> Followed:
    """K-means over points that are there, and then over each increment, in both ways."""
    session = Session(tables={"P": Bag()})
    *before, last = pieces(f"{query};")
    for piece in before:
        session.execute(parse_statement(piece))
    statement = parse_statement(last)
    assert isinstance(statement, s.Evaluate)
    found = iteration(session.term(statement.expression))

    def over(points: Bag) -> Interpreter:
        run = session.interpreter
        return Interpreter(lambda source: points, run.functions, run.stored)

    held = _points(first)
    _, states = found.begin(over(held))
    nothing = over(Bag())
    taken: list[tuple[Sample, Sample, float]] = []
    for increment in increments:
        came = _points(increment)
        held = Bag((*held, *came))
        near: list[tuple[Value, tuple[Value, ...]]] = []
        exact: list[Value] = []
        one = timed(
            lambda came=came, states=states, near=near: near.append(  # type: ignore[misc]
                found.advance(nothing, states, over(came), THRESHOLD)
            )
        )
        other = timed(
            lambda held=held, exact=exact: exact.append(found.begin(over(held))[0])  # type: ignore[misc]
        )
        ((centroids, states),) = near
        taken.append((one, other, _apart(centroids, exact[0])))
    approximate, scratch, apart = zip(*taken, strict=True)
    return Followed(approximate, scratch, apart)


def _points(rows: pa.Table) -> Bag:
    columns = (rows.column(name).to_pylist() for name in ("X", "Y"))
    return Bag(Record((("X", x), ("Y", y))) for x, y in zip(*columns, strict=True))


def _apart(centroids: Value, exact: Value) -> float:
    def place(centroid: Record) -> tuple[float, float]:
        return centroid.get("X"), centroid.get("Y")

    return max(min(math.dist(place(a), place(b)) for b in exact) for a in centroids)
