"""Continuous queries: what a view in MRQL asks for by `stream(...)` becomes a table that is fed.

A `stream(line, "dir", ...)` is a table and a stream into it, which watches the directory: each
micro-batch is one epoch of the table and of every view over it, exactly once, also after a restart
(`db.resume_streams()`). Two views that ask for the same share both. A `source(...)` is a table with
the rows that the files hold when the view is made.

A stream may bring deletions: `stream(line, "dir", ",", type(<op: string, a: int>), "op")` names the
column that says of each line whether its row comes or goes, which is no column of the table. Or
there are two directories, `stream(line, ("in", "out"), ...)`: rows come by one and go by the other.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from rekindle.catalyst.failures import spark_error
from rekindle.errors import EvaluationError, UnsupportedError
from rekindle.frontends.catalog import Catalog
from rekindle.frontends.mrql.front_end import Mrql
from rekindle.frontends.mrql.reading import read_query
from rekindle.frontends.mrql.requests import columns_of_type, key_of, requests
from rekindle.mrql_language import terms as t
from rekindle.mrql_language.files import directories, untagged
from rekindle.mrql_language.values import Value
from rekindle.runtime.streaming.definition import APPEND, CHANGES, Source, StreamDefinition

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
    leaving: str | None = None
    """The directory by which rows go."""

    @property
    def source(self) -> Source:
        return Source(self.format, self.options, self.schema)

    @property
    def has_deletions(self) -> bool:
        return self.tag is not None or self.leaving is not None

    def into(self, table: str) -> StreamDefinition:
        """The stream into a table."""
        mode, deletes = CHANGES if self.has_deletions else APPEND, None
        if self.leaving is not None:
            deletes = Source(self.format, {**self.options, "path": self.leaving}, self.schema)
        return StreamDefinition(
            table, mode, operation=self.tag, source=self.source, deletes=deletes
        )


def create_over_streams(
    database: Database, catalog: Catalog, view: str, given: Mrql, create: Callable[[Mrql], None]
) -> None:
    """Create a view with tables for what it asks for; nothing of it is left if that fails."""
    query = read_query(given.text, catalog, given.definitions)
    wanted = {key_of(each): each for each in requests(query.term, query.session)}
    if not wanted:
        create(given)
        return
    try:
        _create(database, view, wanted, lambda tables: create(replace(given, sources=tables)))
    except (Py4JJavaError, PySparkException) as error:
        # A path that is not there, or files that are not what they are said to be.
        raise spark_error(error) from error


def _create(
    database: Database,
    view: str,
    wanted: Mapping[str, t.Source],
    create: Callable[[tuple[tuple[str, str], ...]], None],
) -> None:
    known = {
        _identity(stream): stream.table
        for stream in database._connection.engine.state.streams.values()
        if stream.source is not None
    }
    tables: dict[str, str] = {}
    made: dict[str, tuple[t.Source, _Feed]] = {}
    for key, source in wanted.items():
        feed = _feed(database, source)
        identity = _identity(feed.into(""))
        if source.kind == "stream" and identity in known:
            tables[key] = known[identity]
            continue
        if source.kind != "stream" and feed.has_deletions:
            raise UnsupportedError(
                "a source that does not change has no deletions",
                hint="write: stream(...), or leave out the name of the tag or the second directory",
            )
        tables[key] = _free_name(database, feed.options["path"], made)
        made[tables[key]] = source, feed
    with ExitStack() as undo:
        for name, (source, feed) in made.items():
            database.create_table(name, feed.columns)
            undo.callback(database.drop_table, name)
            if source.kind != "stream":
                rows = database.spark.read.format(feed.format).schema(feed.schema)
                with database.transaction() as tx:
                    tx.insert(name, rows.options(**feed.options).load())
        create(tuple(tables.items()))
        undo.callback(database.drop_view, view)
        for name, (source, feed) in made.items():
            if source.kind == "stream":
                undo.callback(_forget, database, name)
                database.create_stream(name, feed.into(name))
        undo.pop_all()


def _forget(database: Database, stream: str) -> None:
    if stream in database._connection.engine.state.streams:
        database.drop_stream(stream)


def _identity(stream: StreamDefinition) -> tuple[object, ...]:
    """What two requests for the same have in common."""
    read = [(each.format, tuple(sorted(each.options.items()))) for each in stream.sources]
    return stream.mode, stream.operation, tuple(read), stream.sources[0].schema


def _place(path: object) -> str:
    if not isinstance(path, str):
        raise EvaluationError("the name of a directory is a text", detail=f"found: {path!r}")
    return path if "://" in path else os.path.abspath(path)


def _feed(database: Database, source: t.Source) -> _Feed:
    assert source.request is not None
    path, *arguments = source.request.arguments
    if not isinstance(path, tuple):
        return _feed_of(database, source.request.parser, _place(path), arguments)
    arriving, leaving = map(_place, directories(path))
    feed = _feed_of(database, source.request.parser, arriving, arguments)
    if feed.tag is not None:
        raise UnsupportedError(
            "a stream of two directories needs no tag that says what goes",
            hint="leave out the tag, or the second directory",
        )
    return replace(feed, leaving=leaving)


def _feed_of(database: Database, parser: str, path: str, arguments: Sequence[Value]) -> _Feed:
    place = {"path": path}
    match parser:
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
        case _:
            raise UnsupportedError(
                f"a view cannot follow a source of '{parser}'",
                detail="it can follow line, with a delimiter and a type, text and parquet",
                hint="load the rows into a table, or evaluate the query by db.mrql",
            )


def _free_name(database: Database, path: str, others: Collection[str]) -> str:
    base = re.sub(r"\W+", "_", os.path.basename(path.rstrip("/")).split(".")[0]) or "stream"
    streams = database._connection.engine.state.streams
    taken = {*database.tables, *database.views, *streams, *others}
    name, number = base, 1
    while name in taken:
        number += 1
        name = f"{base}_{number}"
    return name
