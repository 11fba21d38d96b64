"""`db.create_model`: a model is a view of the sums that it is learned from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from pyspark.sql import DataFrame

from rekindle.calculus.terms import UnionAll
from rekindle.catalyst.jvm import JavaObject, analysed_plan
from rekindle.catalyst.types import schema_of
from rekindle.frontends.catalog import Catalog, ContentsOf
from rekindle.frontends.dataframes.definition import FrameDefinition
from rekindle.frontends.dataframes.front_end import DataFrames, frame_definition
from rekindle.frontends.definition import Definition
from rekindle.frontends.protocol import Defined, FrontEnd
from rekindle.frontends.spark_sql.definition import SqlDefinition
from rekindle.frontends.spark_sql.front_end import SparkSql
from rekindle.incremental.policies.choice import Policy
from rekindle.runtime.models.definition import ModelDefinition, SumsDefinition
from rekindle.runtime.models.model import ModelSpec
from rekindle.runtime.models.terms import sums_terms
from rekindle.spark.arithmetic import SparkArithmetic

GIVEN = "·given"
"""What a DataFrame is called in a query over it."""


@dataclass(frozen=True, slots=True)
class Learning:
    """A model to be learned from the rows of a query."""

    spec: ModelSpec
    query: str | DataFrame


class Models(FrontEnd[Learning, ModelDefinition]):
    """Views that are the sums of a model; over joins they follow a view tree if one can."""

    takes: ClassVar[type] = Learning
    keeps: ClassVar[type[Definition]] = ModelDefinition

    def define(self, name: str, given: Learning, catalog: Catalog) -> Sequence[Defined]:
        plans: dict[str, JavaObject] = {}
        spec, query = given.spec, given.query
        if isinstance(query, DataFrame):
            plans[GIVEN] = analysed_plan(query)
            query = f"SELECT * FROM `{GIVEN}`"
        else:
            spec = replace(spec, query=query)
        sums = spec.sums.query(query)
        frame = catalog.resolve(sums, plans)
        kept: SumsDefinition = SqlDefinition(sums)
        if plans:
            kept = frame_definition(name, frame, catalog)
        rows = catalog.translate(catalog.resolve(spec.sums.rows(query), plans))
        arithmetic = SparkArithmetic(catalog.catalyst, catalog.translator)
        parts = sums_terms(spec.sums, rows, schema_of(frame.schema), arithmetic)
        trees = any(part.follows_a_tree for part in parts)
        policy = Policy.VIEW_TREE if trees else Policy.FIRST_ORDER
        return [
            Defined(
                name,
                ModelDefinition(spec, kept),
                UnionAll(tuple(part.term for part in parts)),
                frame.schema,
                catalog.catalyst.settings(),
                policy.value,
            )
        ]

    def define_again(self, name: str, definition: ModelDefinition, catalog: Catalog) -> Defined:
        if not definition.is_text:
            return super().define_again(name, definition, catalog)
        (again,) = self.define(name, Learning(definition.spec, definition.spec.query), catalog)
        return again

    def recompute(
        self, name: str, definition: ModelDefinition, catalog: Catalog, contents: ContentsOf
    ) -> DataFrame:
        match definition.sums:
            case SqlDefinition() as sums:
                return SparkSql().recompute(name, sums, catalog, contents)
            case FrameDefinition() as sums:
                return DataFrames().recompute(name, sums, catalog, contents)
