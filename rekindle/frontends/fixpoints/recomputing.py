"""A fixpoint evaluated by Spark, one iteration after another, from the plans that are kept.

An inner fixpoint is evaluated anew at every iteration of the outer one that it depends on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import DataFrame

from rekindle.catalyst.jvm import Catalyst, JavaObject
from rekindle.frontends.catalog import ContentsOf
from rekindle.frontends.dataframes.plans import filled
from rekindle.frontends.fixpoints.definition import FixpointDefinition, Nested
from rekindle.frontends.iteration import Rows, fixed_point


@dataclass(frozen=True, slots=True)
class Recomputation:
    """Evaluates the fixpoints of one view over what the tables hold."""

    catalyst: Catalyst
    contents: ContentsOf
    inner: Mapping[str, tuple[Nested, JavaObject, JavaObject]]
    _found: dict[tuple[object, ...], tuple[list[DataFrame], DataFrame]] = field(
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
        """The end of the outermost iteration; `plans` are those of `FixpointReader.plans`."""
        initial, step, *others = plans
        pairs = zip(definition.nested, others[::2], others[1::2], strict=True)
        inner = {nested.result: (nested, first, next_) for nested, first, next_ in pairs}
        whole = cls(catalyst, contents, inner)
        return whole.rows(definition.iterated, definition.limit, initial, step, {})

    def rows(
        self,
        iterated: str,
        limit: int,
        initial: JavaObject,
        step: JavaObject,
        known: Mapping[str, DataFrame],
    ) -> DataFrame:
        """The end of an iteration, given what is `known` of those around it."""
        spark = self.catalyst.spark
        first = self._filled(initial, known)

        def evaluate(values: Rows) -> Rows:
            now = {**known, iterated: spark.createDataFrame(values[iterated], first.schema)}
            return {iterated: self._filled(step, now).toArrow()}

        found = fixed_point({iterated: first.toArrow()}, limit, evaluate)
        return spark.createDataFrame(found[iterated], first.schema)

    def _filled(self, plan: JavaObject, known: Mapping[str, DataFrame]) -> DataFrame:
        return filled(self.catalyst, plan, lambda name: self._given(name, known))

    def _given(self, name: str, known: Mapping[str, DataFrame]) -> DataFrame:
        if name in known:
            return known[name]
        if name not in self.inner:
            return self.contents(name)
        nested, initial, step = self.inner[name]
        read = [known[around] for around in nested.around]
        key = (name, *map(id, read))
        if key not in self._found:
            found = self.rows(nested.iterated, nested.limit, initial, step, known)
            self._found[key] = read, found
        return self._found[key][1]
