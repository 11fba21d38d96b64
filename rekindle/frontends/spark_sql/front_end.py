"""Spark SQL: queries over the names of the database, read by Catalyst."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame

from rekindle.catalyst.jvm import Catalyst
from rekindle.catalyst.rules import rewrite
from rekindle.frontends.catalog import Catalog, ContentsOf
from rekindle.frontends.definition import Definition
from rekindle.frontends.protocol import Defined, FrontEnd
from rekindle.frontends.spark_sql.definition import SqlDefinition
from rekindle.frontends.spark_sql.rules.join_scalar_subqueries import join_scalar_subqueries
from rekindle.frontends.spark_sql.shared_queries import (
    divided,
    evaluate_parts,
    resolve_parts,
    translate_parts,
)
from rekindle.frontends.spark_sql.ties import decided


class SparkSql(FrontEnd[str, SqlDefinition]):
    """Views that are defined by a query as text."""

    takes: ClassVar[type] = str
    keeps: ClassVar[type[Definition]] = SqlDefinition
    given_as: ClassVar[str] = "SQL text"

    def define(self, name: str, given: str, catalog: Catalog) -> Sequence[Defined]:
        return [define_query(name, SqlDefinition(given), given, catalog)]

    def define_again(self, name: str, definition: SqlDefinition, catalog: Catalog) -> Defined:
        return define_query(name, definition, definition.query, catalog)

    def recompute(
        self, name: str, definition: SqlDefinition, catalog: Catalog, contents: ContentsOf
    ) -> DataFrame:
        return recompute_query(definition.query, catalog, contents)


def define_query(name: str, definition: Definition, sql: str, catalog: Catalog) -> Defined:
    """A view that is what an SQL query gives, whatever language it was written in."""
    plan = catalog.parse(sql)
    query = divided(catalog.catalyst, plan, catalog.leaves.plans)
    if query.parts:
        frame, parts = resolve_parts(catalog.catalyst, catalog.leaves, query, catalog.scope(plan))
        term = translate_parts(catalog.translator, frame, parts).term
    else:
        frame = catalog.over_tables(plan)
        term = catalog.translate(frame)
    return Defined(name, definition, term, frame.schema, catalog.catalyst.settings())


def recompute_query(sql: str, catalog: Catalog, contents: ContentsOf) -> DataFrame:
    """The rows of an SQL query over what the tables hold."""
    plan = catalog.parse(sql)
    scope = catalog.scope_of_rows(plan, contents)
    known = catalog.leaves.plans
    query = divided(catalog.catalyst, plan, known)

    def cut(part: DataFrame) -> DataFrame:
        """The rows of a part of a query, computed now, with ties taken as views do."""
        return (without_ties(catalog.catalyst, part) or part).localCheckpoint()

    return evaluate_parts(catalog.catalyst, query, scope, known, cut)


def without_ties(catalyst: Catalyst, recomputation: DataFrame) -> DataFrame | None:
    """A recomputation with ties taken as the view does; None if that changes nothing."""
    plan = catalyst.optimised(recomputation._jdf.queryExecution().analyzed())
    joined = rewrite(catalyst, plan, (join_scalar_subqueries,))
    again = decided(catalyst, joined)
    if again.equals(joined):
        return None
    try:
        return catalyst.dataframe(again)
    except (AnalysisException, Py4JJavaError):
        # Not every optimised plan can be analysed again; the difference stands as it was.
        return None
