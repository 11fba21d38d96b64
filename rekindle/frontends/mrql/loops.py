"""Recursions of a view in MRQL: what a `repeat` that is not written out begins with and becomes.

Each is two texts of SQL, of which the second reads the relation that is iterated by a name that
nobody else has. Its last column says whether another step follows. What the relation is at the end
has a name too, by which later loops and the query of the view read it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, Self

import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import types as T

from rekindle.calculus.terms import Bound, Source, Term, replaced
from rekindle.calculus.while_loops import GOING_ON, while_any
from rekindle.errors import UnsupportedError
from rekindle.frontends.catalog import Catalog, ContentsOf
from rekindle.frontends.definition import Definition
from rekindle.frontends.iteration import After, Rows, fixed_point
from rekindle.frontends.protocol import Defined
from rekindle.frontends.spark_sql.analyse import resolve
from rekindle.frontends.spark_sql.front_end import define_query, recompute_query, without_ties
from rekindle.shapes import list_of, one_of, row_of, text, whole


@dataclass(frozen=True, slots=True)
class Loop:
    """A relation that is `first` and becomes `step` of itself until nothing changes or goes on."""

    name: str
    first: str
    step: str
    limit: int
    bound: Bound

    @property
    def result(self) -> str:
        """What the relation is called at the end."""
        return f"{self.name}·result"

    def to_json(self) -> list[Any]:
        return [self.name, self.first, self.step, self.limit, self.bound.value]

    @classmethod
    def from_json(cls, data: Sequence[Any]) -> Self:
        name, first, step, limit, bound = data
        return cls(name, first, step, limit, Bound(bound))


LOOPS = list_of(row_of(text, text, text, whole(1), one_of(*(bound.value for bound in Bound))))
"""The shape of stored loops."""


def define_with_loops(
    name: str, definition: Definition, query: str, loops: Sequence[Loop], catalog: Catalog
) -> Defined:
    """A view that is what a query gives over the ends of loops."""
    with catalog.assuming() as assume:
        terms: dict[str, Term] = {}

        def with_terms(term: Term) -> Term:
            return replaced(
                term, lambda node: terms.get(node.name) if isinstance(node, Source) else None
            )

        for loop in loops:
            first = catalog.resolve(loop.first)
            assume(loop.name, first.schema)
            step = catalog.resolve(loop.step)
            _check_types(first.schema, step.schema)
            terms[loop.result] = while_any(
                (loop.name,),
                (with_terms(catalog.translate(step, [loop.name])),),
                (with_terms(catalog.translate(first)),),
                (0,),
                f"{loop.name}{GOING_ON}",
                loop.limit,
                loop.bound,
            )
            assume(loop.result, first.schema)
        found = define_query(name, definition, query, catalog)
        return replace(found, term=with_terms(found.term))


def recompute_with_loops(
    query: str, loops: Sequence[Loop], catalog: Catalog, contents: ContentsOf
) -> DataFrame:
    """The rows of the query, with each loop evaluated by Spark step by step."""
    spark, found = catalog.catalyst.spark, dict[str, DataFrame]()

    def rows(sql: str, known: Mapping[str, DataFrame]) -> DataFrame:
        plan = catalog.parse(sql)
        scope = catalog.scope_of_rows(plan, lambda n: known[n] if n in known else contents(n))
        frame = resolve(catalog.catalyst, plan, scope, catalog.leaves.plans)
        return without_ties(catalog.catalyst, frame) or frame

    with ExitStack() as stack:
        assume = stack.enter_context(catalog.assuming())
        for loop in loops:
            first = rows(loop.first, found)
            schema = first.schema
            assume(loop.name, schema)

            def step(values: Rows, loop: Loop = loop, schema: T.StructType = schema) -> After:
                now = spark.createDataFrame(values[loop.name], schema)
                after = rows(loop.step, {**found, loop.name: now}).toArrow()
                told = after.column(after.num_columns - 1)
                kept = after.select(range(after.num_columns - 1))
                return After({loop.name: kept}, bool(pc.any(told).as_py()))

            end = fixed_point({loop.name: first.toArrow()}, loop.limit, step, loop.bound)
            # Where the end is mentioned so is, by its words, the name that was iterated.
            found[loop.result] = found[loop.name] = spark.createDataFrame(end[loop.name], schema)
            assume(loop.result, schema)
        frame = recompute_query(query, catalog, lambda n: found[n] if n in found else contents(n))
        return without_ties(catalog.catalyst, frame) or frame


def _check_types(first: T.StructType, step: T.StructType) -> None:
    before = [field.dataType for field in first.fields]
    after = [field.dataType for field in step.fields[:-1]]
    if before != after:
        raise UnsupportedError(
            "the step of a repeat gives other types than it begins with",
            detail=f"{first.simpleString()} against {step.simpleString()}",
            hint="write: e as long, e as double",
        )
