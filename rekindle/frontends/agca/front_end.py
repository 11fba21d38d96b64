"""Views in AGCA, the calculus of aggregates over the ring of databases.

A query is a map from groups to values; as a view it has a column for each group variable and one
for the value. A group whose value is zero is not in the map, so it is not in the view.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql import DataFrame

from rekindle.errors import DefinitionError
from rekindle.frontends.agca.ast import Atom, Query, within
from rekindle.frontends.agca.definition import AgcaDefinition
from rekindle.frontends.agca.parse import parse_query
from rekindle.frontends.agca.sql_text import query_to_sql
from rekindle.frontends.catalog import Catalog, ContentsOf
from rekindle.frontends.definition import Definition
from rekindle.frontends.protocol import Defined, FrontEnd
from rekindle.frontends.spark_sql.front_end import define_query, recompute_query
from rekindle.names import quoted
from rekindle.names import text as check_text

VALUE = "value"


@dataclass(frozen=True, slots=True)
class Agca:
    """A query of the calculus, as text."""

    text: str


def agca(text: str) -> Agca:
    """The definition of a view by a query such as `q[c] = Sum(p, Orders(o, c) * Lines(o, p))`."""
    return Agca(check_text("a query of the calculus", text))


class RingQueries(FrontEnd[Agca, AgcaDefinition]):
    """Views that are defined by a query of the calculus."""

    takes: ClassVar[type] = Agca
    keeps: ClassVar[type[Definition]] = AgcaDefinition
    given_as: ClassVar[str] = "rekindle.agca(...)"

    def define(self, name: str, given: Agca, catalog: Catalog) -> Sequence[Defined]:
        query = sql_of(given, catalog.columns)
        return [define_query(name, AgcaDefinition(given.text, query), query, catalog)]

    def define_again(self, name: str, definition: AgcaDefinition, catalog: Catalog) -> Defined:
        return define_query(name, definition, definition.query, catalog)

    def recompute(
        self, name: str, definition: AgcaDefinition, catalog: Catalog, contents: ContentsOf
    ) -> DataFrame:
        return recompute_query(definition.query, catalog, contents)


def sql_of(definition: Agca, columns: Mapping[str, Sequence[str]]) -> str:
    """The query as SQL over tables and views of the given columns."""
    query = parse_query(definition.text)
    found = query_to_sql(query, _known(query, columns))
    named = ", ".join(quoted(name) for name in (*query.group, VALUE))
    if not query.group:
        return f"SELECT coalesce({VALUE}, 0) AS {VALUE} FROM ({found}) AS q({named})"
    return f"SELECT {named} FROM ({found}) AS q({named}) WHERE {VALUE} <> 0"


def _known(query: Query, columns: Mapping[str, Sequence[str]]) -> dict[str, Sequence[str]]:
    """The columns of what exists, also under the names that the query writes."""
    by_name = {name.lower(): names for name, names in columns.items()}
    known = dict(columns)
    for atom in within(query.term):
        if not isinstance(atom, Atom):
            continue
        names = by_name.get(atom.relation.lower())
        if names is None:
            continue
        if len(names) != len(atom.variables):
            raise DefinitionError(
                f"'{atom.relation}' has {len(names)} columns, not {len(atom.variables)}",
                detail=f"in: {atom.relation}({', '.join(atom.variables)})",
                hint=f"its columns are {', '.join(names)}",
            )
        known[atom.relation] = names
    return known
