"""Nested views as users read them: the flat collections that are kept, nested when they are read.

A view with a level (`nested/levels.py`) stands for parts, which are views of their own with state,
changes and recovery like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pyspark.sql import DataFrame

from rekindle.catalyst.jvm import Catalyst
from rekindle.catalyst.types import struct_of
from rekindle.frontends.comprehension.assembling import nested_query
from rekindle.frontends.spark_sql.analyse import Leaves, parse, resolve
from rekindle.nested.levels import Level
from rekindle.runtime.state import Entry, ViewEntry

RowsOf = Callable[[str], DataFrame]
"""The rows of a part by its name."""


def nested(catalyst: Catalyst, leaves: Leaves, level: Level, rows_of: RowsOf) -> DataFrame:
    """The nested rows over the rows of the parts."""
    query = parse(catalyst, nested_query(level, leaves.schema))
    views = dict.fromkeys(each.view for _, each in level.paths())
    scope = {view: rows_of(view)._jdf.queryExecution().analyzed() for view in views}
    return resolve(catalyst, query, scope)


def know_nested(
    catalyst: Catalyst, leaves: Leaves, entry: ViewEntry, parts: Iterable[Entry]
) -> None:
    """Let queries read a nested view, by what its parts are."""
    assert entry.level is not None
    for part in parts:
        leaves.add(part.name, struct_of(part.schema))
    query = parse(catalyst, nested_query(entry.level, leaves.schema))
    views = {each.view for _, each in entry.level.paths()}
    frame = resolve(catalyst, query, {view: leaves.plans[view] for view in views})
    plan = frame._jdf.queryExecution().analyzed()
    leaves.derive(entry.name, struct_of(entry.schema), plan, entry.level)


def level_of(entry: Entry) -> Level | None:
    """The flat collections of a table or view that is nested."""
    return entry.level if isinstance(entry, ViewEntry) else None
