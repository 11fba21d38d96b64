"""Recursions of a view in MRQL: what a `repeat` that is not written out begins with and becomes.

Each is two texts of SQL, of which the second reads the relation that is iterated by a name that
nobody else has. Its last column says whether another step follows. What the relation is at the end
has a name too, by which later loops and the query of the view read it.

Of relations that are iterated together each has its two texts, and the steps read all of them by
their names, as they were before the step. No column is told then: they end by their limit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, Self

import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import types as T

from rekindle.calculus.terms import Bound, Fix, Source, Term, replaced
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
class Turning:
    """A relation that is `first` and becomes `step`, in which it is called `name`."""

    name: str
    first: str
    step: str

    @property
    def result(self) -> str:
        """What the relation is called at the end."""
        return f"{self.name}·result"


@dataclass(frozen=True, slots=True)
class Loop:
    """A relation that is `first` and becomes `step` of itself until nothing changes or goes on."""

    name: str
    first: str
    step: str
    limit: int
    bound: Bound
    others: tuple[Turning, ...] = ()
    """The relations that are iterated together with it."""

    @property
    def relations(self) -> tuple[Turning, ...]:
        """All relations that are iterated."""
        return (Turning(self.name, self.first, self.step), *self.others)

    @property
    def texts(self) -> tuple[str, ...]:
        """All its texts of SQL."""
        return tuple(text for each in self.relations for text in (each.first, each.step))

    @property
    def tells(self) -> bool:
        """Does its step say whether another follows?"""
        return not self.others

    def to_json(self) -> list[Any]:
        found: list[Any] = [self.name, self.first, self.step, self.limit, self.bound.value]
        if self.others:
            found.append([[each.name, each.first, each.step] for each in self.others])
        return found

    @classmethod
    def from_json(cls, data: Sequence[Any]) -> Self:
        name, first, step, limit, bound, *others = data
        beside = tuple(Turning(*each) for each in (others[0] if others else ()))
        return cls(name, first, step, limit, Bound(bound), beside)


LOOPS = list_of(
    row_of(
        text,
        text,
        text,
        whole(1),
        one_of(*(bound.value for bound in Bound)),
        later=list_of(row_of(text, text, text)),
    )
)
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
            firsts = [catalog.resolve(each.first) for each in loop.relations]
            names = tuple(each.name for each in loop.relations)
            for name_, first in zip(names, firsts, strict=True):
                assume(name_, first.schema)
            steps = [catalog.resolve(each.step) for each in loop.relations]
            for first, step in zip(firsts, steps, strict=True):
                _check_types(first.schema, step.schema, loop)
            seeds = tuple(with_terms(catalog.translate(first)) for first in firsts)
            bodies = tuple(with_terms(catalog.translate(step, names)) for step in steps)
            whole = _recursion(loop, names, bodies, seeds)
            for i, each in enumerate(loop.relations):
                terms[each.result] = replace(whole, output=i)
                assume(each.result, firsts[i].schema)
        found = define_query(name, definition, query, catalog)
        return replace(found, term=with_terms(found.term))


def _recursion(
    loop: Loop, names: tuple[str, ...], bodies: tuple[Term, ...], seeds: tuple[Term, ...]
) -> Fix:
    if not loop.tells:
        return Fix(names, bodies, seeds, limit=loop.limit, bound=loop.bound)
    going_on = f"{loop.name}{GOING_ON}"
    return while_any(names, bodies, seeds, (0,), going_on, loop.limit, loop.bound)


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
            firsts = {each.name: rows(each.first, found) for each in loop.relations}
            schemas = {name: first.schema for name, first in firsts.items()}
            for name, schema in schemas.items():
                assume(name, schema)

            def step(
                values: Rows, loop: Loop = loop, schemas: Mapping[str, T.StructType] = schemas
            ) -> After:
                now = {n: spark.createDataFrame(values[n], schemas[n]) for n in schemas}
                after = {
                    each.name: rows(each.step, {**found, **now}).toArrow()
                    for each in loop.relations
                }
                if not loop.tells:
                    return After(after)
                only = after[loop.name]
                told = only.column(only.num_columns - 1)
                kept = only.select(range(only.num_columns - 1))
                return After({loop.name: kept}, bool(pc.any(told).as_py()))

            begin = {name: first.toArrow() for name, first in firsts.items()}
            end = fixed_point(begin, loop.limit, step, loop.bound)
            # Where an end is mentioned so is, by its words, the name that was iterated.
            for each in loop.relations:
                schema = schemas[each.name]
                found[each.result] = found[each.name] = spark.createDataFrame(
                    end[each.name], schema
                )
                assume(each.result, schema)
        frame = recompute_query(query, catalog, lambda n: found[n] if n in found else contents(n))
        return without_ties(catalog.catalyst, frame) or frame


def _check_types(first: T.StructType, step: T.StructType, loop: Loop) -> None:
    before = [field.dataType for field in first.fields]
    after = [field.dataType for field in step.fields]
    if loop.tells:
        after.pop()
    if before != after:
        raise UnsupportedError(
            "the step of a repeat gives other types than it begins with",
            detail=f"{first.simpleString()} against {step.simpleString()}",
            hint="write: e as long, e as double",
        )
