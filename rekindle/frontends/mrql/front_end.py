"""Views in MRQL, a query language for nested data.

The rows of a collection are the rows of the view: a record's fields are its columns, a tuple has
the columns _1, _2, ..., and what is neither has the column `value`. A query that gives one value
has one row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql import DataFrame

from rekindle.frontends.catalog import Catalog, ContentsOf
from rekindle.frontends.definition import Definition
from rekindle.frontends.mrql.definition import MrqlDefinition
from rekindle.frontends.mrql.loops import define_with_loops, recompute_with_loops
from rekindle.frontends.mrql.reading import compiled, read_query
from rekindle.frontends.protocol import Defined, FrontEnd
from rekindle.frontends.spark_sql.front_end import define_query, recompute_query
from rekindle.names import text as check_text


@dataclass(frozen=True, slots=True)
class Mrql:
    """A query in MRQL as text, and the definitions that it may use."""

    text: str
    definitions: str = ""
    sources: tuple[tuple[str, str], ...] = ()
    """The tables that stand for what it asks for by `source` and `stream`."""


def mrql(text: str) -> Mrql:
    """The definition of a view by a query such as `select (k, avg(p.Y)) from p in points group by
    k: p.X`, over the tables and views of the database.

    Definitions of functions, macros, types and aggregations may come before it, each with a `;`.
    """
    return Mrql(check_text("a query in MRQL", text))


class MrqlQueries(FrontEnd[Mrql, MrqlDefinition]):
    """Views that are defined by a query in MRQL."""

    takes: ClassVar[type] = Mrql
    keeps: ClassVar[type[Definition]] = MrqlDefinition
    given_as: ClassVar[str] = "rekindle.mrql(...)"

    def define(self, name: str, given: Mrql, catalog: Catalog) -> Sequence[Defined]:
        read = read_query(given.text, catalog, given.definitions, dict(given.sources))
        made = compiled(read, catalog, name)
        definition = MrqlDefinition(
            given.text, given.definitions, made.query, given.sources, made.loops
        )
        return [self.define_again(name, definition, catalog)]

    def define_again(self, name: str, definition: MrqlDefinition, catalog: Catalog) -> Defined:
        query, loops = definition.query, definition.loops
        if loops:
            return define_with_loops(name, definition, query, loops, catalog)
        return define_query(name, definition, query, catalog)

    def recompute(
        self, name: str, definition: MrqlDefinition, catalog: Catalog, contents: ContentsOf
    ) -> DataFrame:
        if definition.loops:
            return recompute_with_loops(definition.query, definition.loops, catalog, contents)
        return recompute_query(definition.query, catalog, contents)
