"""Recursions that end when their bodies say so.

Beside its relations x such a recursion has a collection g of at most one row: while it is there the
iteration goes on. A body that tells gives a boolean column more, and the row stays as long as that
is true anywhere; once it has gone, nothing changes any more:

    x' = body(x) ⋉ g  +  x ▷ g
    g' = g ⋉ σ[told](body(x))

So this is an ordinary recursion, and what it was at an iteration is followed as in any other: where
a change makes it end later or earlier, the relations change at the iterations in between.
"""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa

from rekindle.calculus.relation import Relation
from rekindle.calculus.scalars import Column
from rekindle.calculus.schema import Field, Schema
from rekindle.calculus.terms import (
    Answer,
    Bound,
    Condition,
    Constant,
    Filter,
    Fix,
    Map,
    SemiJoin,
    Source,
    Term,
    UnionAll,
)

GOING_ON = "·goes on"
"""How the name of such a collection ends, which no user gave."""

_ROW = Constant(
    Schema((Field("one", "int", nullable=False),)),
    Relation.of(pa.table({"c0": pa.array([1], pa.int32())})),
)


def while_any(
    names: tuple[str, ...],
    bodies: tuple[Term, ...],
    seeds: tuple[Term, ...],
    tell: Collection[int],
    going_on: str,
    limit: int,
    bound: Bound,
) -> Fix:
    """The recursion of `names`, to which `going_on` is the name of the collection that ends it.

    The bodies whose numbers are in `tell` give a boolean column more, the last one.
    """
    row = Source(going_on, _ROW.schema.as_nullable())
    values = [_values(body) if i in tell else body for i, body in enumerate(bodies)]
    after = tuple(
        UnionAll(
            (
                SemiJoin(value, row, (Condition(),), Answer.MATCHED),
                SemiJoin(
                    Source(name, value.schema.as_nullable()), row, (Condition(),), Answer.UNMATCHED
                ),
            )
        )
        for name, value in zip(names, values, strict=True)
    )
    told = UnionAll(tuple(_told(bodies[i]) for i in sorted(tell)))
    still = SemiJoin(row, told, (Condition(),), Answer.MATCHED)
    return Fix((*names, going_on), (*after, still), (*seeds, _ROW), limit=limit, bound=bound)


def _values(body: Term) -> Term:
    """The body without its last column."""
    fields = body.schema.fields[:-1]
    return Map(body, tuple((f.name, Column(i, f.type, f.nullable)) for i, f in enumerate(fields)))


def _told(body: Term) -> Term:
    """A column of the rows in which the last column is true."""
    field = body.schema.fields[-1]
    column = Column(len(body.schema) - 1, field.type, field.nullable)
    return Map(Filter(body, column), (("told", column),))
