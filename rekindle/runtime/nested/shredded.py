"""Nested tables and views as users read them: flat collections, nested when they are read.

A table or view with a level (`nested/levels.py`) stands for parts, which are tables or views of
their own with state, changes and recovery like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pyspark.sql import DataFrame
from pyspark.sql import types as T

from rekindle.catalyst.jvm import Catalyst, analysed_plan
from rekindle.catalyst.types import struct_of
from rekindle.frontends.comprehension.assembling import nested_query
from rekindle.frontends.spark_sql.analyse import Leaves, parse, resolve
from rekindle.frontends.spark_sql.nested_frames import marked_nested
from rekindle.nested.levels import Level
from rekindle.runtime.engine import table_node
from rekindle.runtime.epochs.state import Entry, TableEntry
from rekindle.runtime.rows.lengths import marked

RowsOf = Callable[[str], DataFrame]
"""The rows of a part by its name."""


def nested(catalyst: Catalyst, leaves: Leaves, level: Level, rows_of: RowsOf) -> DataFrame:
    """The nested rows over the rows of the parts."""
    query = parse(catalyst, nested_query(level, leaves.schema))
    views = dict.fromkeys(each.view for _, each in level.paths())
    scope = {view: analysed_plan(rows_of(view)) for view in views}
    return resolve(catalyst, query, scope)


def standing_for(catalyst: Catalyst, name: str, rows: DataFrame) -> DataFrame:
    """Nested rows that a view definition recognises as those of the table or view."""
    return catalyst.dataframe(marked_nested(catalyst, name, rows))


def know_nested(leaves: Leaves, entry: Entry, parts: Iterable[Entry]) -> None:
    """Let queries read a nested table or view, by what its parts are."""
    assert entry.level is not None
    for part in parts:
        leaves.add(part.name, declared(part))
    leaves.add_nested(entry.name, struct_of(entry.schema), entry.level)


def declared(entry: Entry) -> T.StructType:
    """The columns of a table or view as queries see them."""
    struct = struct_of(entry.schema)
    return marked(struct, table_node(entry)) if isinstance(entry, TableEntry) else struct


def level_of(entry: Entry) -> Level | None:
    """The flat collections of a table or view that is nested."""
    return entry.level
