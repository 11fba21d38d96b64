"""Spark SQL: queries over the names of the database, read by Catalyst."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, TypeAlias

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame

from rekindle.catalyst.jvm import Catalyst, JavaObject, analysed_plan
from rekindle.catalyst.rules import rewrite
from rekindle.catalyst.settings import Settings
from rekindle.errors import defect
from rekindle.frontends.catalog import Catalog, ContentsOf
from rekindle.frontends.comprehension.assembling import nested_query
from rekindle.frontends.definition import Definition
from rekindle.frontends.protocol import Defined, FrontEnd
from rekindle.frontends.spark_sql.analyse import resolve
from rekindle.frontends.spark_sql.collecting_groups import CollectingGroups, collecting_groups
from rekindle.frontends.spark_sql.definition import SqlDefinition
from rekindle.frontends.spark_sql.rules.join_scalar_subqueries import join_scalar_subqueries
from rekindle.frontends.spark_sql.shared_queries import (
    divided,
    evaluate_parts,
    resolve_parts,
    translate_parts,
)
from rekindle.frontends.spark_sql.ties import decided
from rekindle.names import HIDDEN
from rekindle.nested.levels import Level

ScopeOf: TypeAlias = Callable[[JavaObject], Mapping[str, JavaObject]]
"""What the names in an unresolved plan stand for."""
_COLLECTING = ("collect_list", "collect_set", "array_agg")
"""One of these is in every query that collects elements: most need not be resolved to see it."""


class SparkSql(FrontEnd[str, SqlDefinition]):
    """Views that are defined by a query as text."""

    takes: ClassVar[type] = str
    keeps: ClassVar[type[Definition]] = SqlDefinition
    given_as: ClassVar[str] = "SQL text"

    def define(self, name: str, given: str, catalog: Catalog) -> Sequence[Defined]:
        groups = _collecting(given, catalog, catalog.scope)
        if groups is None:
            return self.define_flat(name, given, catalog)

        def kept(part: str, frame: DataFrame) -> SqlDefinition:
            return SqlDefinition(given, part)

        settings = catalog.catalyst.settings()
        return [defined_groups(name, SqlDefinition(given), groups, kept, catalog, settings)]

    def define_flat(self, name: str, given: str, catalog: Catalog) -> Sequence[Defined]:
        return [define_query(name, SqlDefinition(given), given, catalog)]

    def define_again(self, name: str, definition: SqlDefinition, catalog: Catalog) -> Defined:
        if definition.part is None:
            return define_query(name, definition, definition.query, catalog)
        frame = _part(definition, catalog, catalog.scope)
        settings = catalog.catalyst.settings()
        return Defined(name, definition, catalog.translate(frame), frame.schema, settings)

    def recompute(
        self, name: str, definition: SqlDefinition, catalog: Catalog, contents: ContentsOf
    ) -> DataFrame:
        if definition.part is None:
            return recompute_query(definition.query, catalog, contents)
        return _part(definition, catalog, lambda plan: catalog.scope_of_rows(plan, contents))


def _collecting(sql: str, catalog: Catalog, scope_of: ScopeOf) -> CollectingGroups | None:
    """A query that collects elements by group, as its parts."""
    if not any(word in sql.lower() for word in _COLLECTING):
        return None
    plan = catalog.parse(sql)
    if divided(catalog.catalyst, plan, catalog.leaves.plans).parts:
        return None
    frame = resolve(catalog.catalyst, plan, scope_of(plan), catalog.leaves.plans)
    return collecting_groups(catalog.catalyst, analysed_plan(frame))


def _part(definition: SqlDefinition, catalog: Catalog, scope_of: ScopeOf) -> DataFrame:
    groups = _collecting(definition.query, catalog, scope_of)
    if groups is None or (definition.part and definition.part not in groups.dictionaries):
        raise defect("a query is not divided as it was", f"part '{definition.part}'")
    plan = groups.dictionaries[definition.part].plan if definition.part else groups.top
    return catalog.catalyst.dataframe(plan)


def defined_groups(
    name: str,
    definition: Definition,
    groups: CollectingGroups,
    kept: Callable[[str, DataFrame], Definition],
    catalog: Catalog,
    settings: Settings,
) -> Defined:
    """A nested view of groups with what they collect; `kept` gives the definitions of parts."""
    plans = {"": groups.top, **{c: found.plan for c, found in groups.dictionaries.items()}}
    parts: list[Defined] = []
    for column, plan in plans.items():
        frame = catalog.catalyst.dataframe(plan)
        made = kept(column, frame)
        term = catalog.translate(frame)
        parts.append(Defined(f"{name}{HIDDEN}{column}", made, term, frame.schema, settings))
    bags = tuple(
        (column, Level(f"{name}{HIDDEN}{column}", (), found.of_values))
        for column, found in groups.dictionaries.items()
    )
    level = Level(f"{name}{HIDDEN}", bags)
    with catalog.assumed({part.name: part.columns for part in parts}):
        columns = catalog.resolve(nested_query(level, catalog.leaves.schema)).schema
    top = parts[0].term
    return Defined(name, definition, top, columns, settings, level=level, parts=tuple(parts))


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
    plan = catalyst.optimised(analysed_plan(recomputation))
    joined = rewrite(catalyst, plan, (join_scalar_subqueries(None),))
    again = decided(catalyst, joined)
    if again.equals(joined):
        return None
    try:
        return catalyst.dataframe(again)
    except (AnalysisException, Py4JJavaError):
        # Not every optimised plan can be analysed again; the difference stands as it was.
        return None
