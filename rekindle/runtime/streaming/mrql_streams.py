"""Continuous queries: what a view in MRQL asks for by `stream(...)` becomes a table that is fed.

A `stream(line, "dir", ...)` is a table and a stream into it, which watches the directory: each
micro-batch is one epoch of the table and of every view over it, exactly once, also after a restart
(`db.resume_streams()`). Two views that ask for the same share both. A `source(...)` is a table with
the rows that the files hold when the view is made.

A stream may bring deletions: `stream(line, "dir", ",", type(<op: string, a: int>), "op")` names the
column that says of each line whether its row comes or goes, which is no column of the table.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rekindle.errors import UnsupportedError
from rekindle.frontends.catalog import Catalog
from rekindle.frontends.mrql.front_end import Mrql
from rekindle.frontends.mrql.reading import read_query
from rekindle.frontends.mrql.requests import columns_of_type, key_of, requests
from rekindle.mrql_language import terms as t
from rekindle.mrql_language.files import untagged
from rekindle.runtime.streaming.definition import CHANGES, Source, StreamDefinition

if TYPE_CHECKING:
    from rekindle.runtime.database import Database


@dataclass(frozen=True, slots=True)
class _Feed:
    """How the rows of a request are read by Spark."""

    format: str
    options: dict[str, str]
    schema: str
    columns: str
    """Those of the table: without the tag."""
    tag: str | None = None

    @property
    def source(self) -> Source:
        return Source(self.format, self.options, self.schema)

    def into(self, table: str) -> StreamDefinition:
        """The stream into a table."""
        if self.tag is None:
            return StreamDefinition(table, source=self.source)
        return StreamDefinition(table, CHANGES, operation=self.tag, source=self.source)


def create_over_streams(
    database: Database, catalog: Catalog, given: Mrql, create: Callable[[Mrql], None]
) -> None:
    """Create a view with tables for what it asks for; none of them is left if that fails."""
    query = read_query(given.text, catalog, given.definitions)
    wanted = {key_of(each): each for each in requests(query.term, query.session)}
    if not wanted:
        create(given)
        return
    known = {
        _identity(stream.source, stream.operation): stream.table
        for stream in database._connection.engine.state.streams.values()
        if stream.source is not None
    }
    tables: dict[str, str] = {}
    made: list[tuple[str, t.Source, _Feed]] = []
    for key, source in wanted.items():
        feed = _feed(database, source)
        identity = _identity(feed.source, feed.tag)
        if source.kind == "stream" and identity in known:
            tables[key] = known[identity]
            continue
        if source.kind != "stream" and feed.tag is not None:
            raise UnsupportedError(
                "a source that does not change has no deletions",
                hint="write: stream(line, ...), or leave out the name of the tag",
            )
        name = _free_name(database, feed.options["path"])
        database.create_table(name, feed.columns)
        tables[key] = name
        made.append((name, source, feed))
    try:
        for name, source, feed in made:
            if source.kind != "stream":
                rows = database.spark.read.format(feed.format).schema(feed.schema)
                with database.transaction() as tx:
                    tx.insert(name, rows.options(**feed.options).load())
        create(replace(given, sources=tuple(tables.items())))
    except BaseException:
        for name, _, _ in made:
            database.drop_table(name)
        raise
    for name, source, feed in made:
        if source.kind == "stream":
            database.create_stream(name, feed.into(name))


def _identity(source: Source, tag: str | None) -> tuple[object, ...]:
    return source.format, tuple(sorted(source.options.items())), source.schema, tag


def _feed(database: Database, source: t.Source) -> _Feed:
    assert source.request is not None
    path, *arguments = source.request.arguments
    place = {"path": str(path) if "://" in str(path) else os.path.abspath(str(path))}
    match source.request.parser:
        case "line" if len(arguments) in (2, 3):
            delimiter, kind, *tag = arguments
            options = {**place, "sep": str(delimiter), "mode": "DROPMALFORMED"}
            columns = columns_of_type(kind)
            if not tag:
                return _Feed("csv", options, columns, columns)
            return _Feed("csv", options, columns, columns_of_type(untagged(kind, tag[0])), tag[0])
        case "text":
            return _Feed("text", place, "`value` STRING", "`value` STRING")
        case "parquet":
            schema = database.spark.read.parquet(place["path"]).schema
            columns = ", ".join(f"`{f.name}` {f.dataType.simpleString()}" for f in schema.fields)
            return _Feed("parquet", place, columns, columns)
        case parser:
            raise UnsupportedError(
                f"a view cannot follow a source of '{parser}'",
                detail="it can follow line, with a delimiter and a type, text and parquet",
                hint="load the rows into a table, or evaluate the query by db.mrql",
            )


def _free_name(database: Database, path: str) -> str:
    base = re.sub(r"\W+", "_", os.path.basename(path.rstrip("/")).split(".")[0]) or "stream"
    name, number = base, 1
    while name in database.tables or name in database.views:
        number += 1
        name = f"{base}_{number}"
    return name
