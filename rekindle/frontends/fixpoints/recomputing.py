"""A fixpoint evaluated by Spark, one iteration after another, from the plans that are kept.

An inner fixpoint is evaluated anew at every iteration of the outer one that it depends on. Where a
step takes the first rows of an order, or numbers them, Spark has to take those that the view takes:
level rows are ordered as the view orders them, or the iterations would go apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from rekindle.catalyst.jvm import Catalyst, JavaObject
from rekindle.frontends.catalog import ContentsOf
from rekindle.frontends.dataframes.plans import filled
from rekindle.frontends.fixpoints.definition import FixpointDefinition, Iterated, Nested
from rekindle.frontends.iteration import After, Rows, fixed_point
from rekindle.frontends.spark_sql.front_end import without_ties


@dataclass(frozen=True, slots=True)
class _Loop:
    """What is iterated, with the plans of its first relations and of its step."""

    iterated: Iterated
    plans: Sequence[JavaObject]

    @property
    def first(self) -> Sequence[JavaObject]:
        return self.plans[::2]

    @property
    def steps(self) -> Sequence[JavaObject]:
        return self.plans[1::2]


@dataclass(frozen=True, slots=True)
class Recomputation:
    """Evaluates the fixpoints of one view over what the tables hold."""

    catalyst: Catalyst
    contents: ContentsOf
    inner: Mapping[str, tuple[Nested, _Loop]]
    """By what their relations are called when they are at their end."""
    _found: dict[tuple[object, ...], tuple[list[DataFrame], Sequence[DataFrame]]] = field(
        default_factory=dict
    )
    """What inner fixpoints gave, by what they depend on, which is kept for as long."""

    @classmethod
    def rows_of(
        cls,
        catalyst: Catalyst,
        contents: ContentsOf,
        definition: FixpointDefinition,
        plans: Sequence[JavaObject],
    ) -> DataFrame:
        """The end of the outermost iteration; `plans` are those that `FixpointReader` kept."""
        left = list(plans)

        def loop(iterated: Iterated) -> _Loop:
            own = [left.pop(0) for _ in range(2 * len(iterated.names))]
            return _Loop(iterated, own)

        outer = loop(definition.iterated)
        inner: dict[str, tuple[Nested, _Loop]] = {}
        for nested in definition.nested:
            read = nested, loop(nested.iterated)
            inner |= dict.fromkeys(nested.results, read)
        return cls(catalyst, contents, inner).rows(outer, {})[definition.output]

    def rows(self, loop: _Loop, known: Mapping[str, DataFrame]) -> Sequence[DataFrame]:
        """The end of an iteration, given what is `known` of those around it."""
        spark, iterated = self.catalyst.spark, loop.iterated
        first = [self._filled(plan, known) for plan in loop.first]
        schemas = {name: frame.schema for name, frame in zip(iterated.names, first, strict=True)}

        def evaluate(values: Rows) -> After:
            now = {n: spark.createDataFrame(values[n], schema) for n, schema in schemas.items()}
            after = [self._filled(plan, {**known, **now}).toArrow() for plan in loop.steps]
            goes_on = not iterated.tell or any(_tells(after[i]) for i in iterated.tell)
            for i in iterated.tell:
                after[i] = after[i].select(range(after[i].num_columns - 1))
            return After(dict(zip(iterated.names, after, strict=True)), goes_on)

        begun = {n: frame.toArrow() for n, frame in zip(iterated.names, first, strict=True)}
        found = fixed_point(begun, iterated.limit, evaluate, iterated.bound)
        return [spark.createDataFrame(found[n], schema) for n, schema in schemas.items()]

    def _filled(self, plan: JavaObject, known: Mapping[str, DataFrame]) -> DataFrame:
        frame = filled(self.catalyst, plan, lambda name: self._given(name, known))
        return without_ties(self.catalyst, frame) or frame

    def _given(self, name: str, known: Mapping[str, DataFrame]) -> DataFrame:
        if name in known:
            return known[name]
        if name not in self.inner:
            return self.contents(name)
        nested, loop = self.inner[name]
        read = [known[around] for around in nested.around]
        key = (nested.results, *map(id, read))
        if key not in self._found:
            self._found[key] = read, self.rows(loop, known)
        return self._found[key][1][nested.results.index(name)]


def _tells(rows: pa.Table) -> bool:
    """Is the last column true anywhere?"""
    return bool(pc.any(rows.column(rows.num_columns - 1)).as_py())
