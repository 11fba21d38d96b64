"""DataFrames: what a user builds from `db.table(...)` is translated as SQL is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pyspark.sql import DataFrame

from rekindle.catalyst.jvm import analysed_plan, settings_of
from rekindle.frontends.catalog import Catalog, ContentsOf
from rekindle.frontends.dataframes.definition import FrameDefinition
from rekindle.frontends.dataframes.plans import filled, marked, stored_plans
from rekindle.frontends.definition import Definition
from rekindle.frontends.protocol import Defined, FrontEnd
from rekindle.frontends.spark_sql.collecting_groups import collecting_groups
from rekindle.frontends.spark_sql.front_end import defined_groups


class DataFrames(FrontEnd[DataFrame, FrameDefinition]):
    """Views that are defined by a DataFrame."""

    takes: ClassVar[type] = DataFrame
    keeps: ClassVar[type[Definition]] = FrameDefinition
    given_as: ClassVar[str] = "a DataFrame built from db.table(...)"

    def define(self, name: str, given: DataFrame, catalog: Catalog) -> Sequence[Defined]:
        analysed = analysed_plan(given)
        groups = collecting_groups(catalog.catalyst, analysed)
        if groups is None:
            return self.define_flat(name, given, catalog)
        definition = frame_definition(name, given, catalog)

        def kept(part: str, frame: DataFrame) -> FrameDefinition:
            return frame_definition(name, frame, catalog)

        return [defined_groups(name, definition, groups, kept, catalog, settings_of(given))]

    def define_flat(self, name: str, given: DataFrame, catalog: Catalog) -> Sequence[Defined]:
        term = catalog.translate(given)
        definition = frame_definition(name, given, catalog)
        return [Defined(name, definition, term, given.schema, settings_of(given))]

    def recompute(
        self, name: str, definition: FrameDefinition, catalog: Catalog, contents: ContentsOf
    ) -> DataFrame:
        (plan,) = catalog.stored_plans(name, definition.plan, 1)
        return filled(catalog.catalyst, plan, contents)


def frame_definition(name: str, frame: DataFrame, catalog: Catalog) -> FrameDefinition:
    """What is kept of a DataFrame."""
    plan = marked(catalog.catalyst, catalog.leaves, frame)
    return FrameDefinition(stored_plans(catalog.catalyst, name, [plan]))
