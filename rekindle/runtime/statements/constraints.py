"""What a table's contents must satisfy after a change, checked on the keys that it touches.

No row may have a negative multiplicity (a deletion of a row that is not there), and where there is
a primary key, each key has one row at most. Checking the rows of the touched keys in the *new*
contents is enough: other keys did not change.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from rekindle.circuit.nodes import Table
from rekindle.columns import column_name, column_names
from rekindle.errors import ConstraintError
from rekindle.names import shown
from rekindle.runtime.rows.conversion import check_lengths, check_not_null, show_row
from rekindle.runtime.rows.keys import Key, keys_of
from rekindle.traces.arrays import KEY, WEIGHT, integers
from rekindle.traces.consolidate import distinct_keys
from rekindle.traces.reader import TraceReader


def check_change(node: Table, change: pa.Table, after: TraceReader) -> None:
    """Raise unless the new contents are lawful on every key of an arranged change."""
    _check_columns(node, change)
    if not node.key and not (integers(change.column(WEIGHT)) < 0).any():
        return
    keys = distinct_keys(change)
    rows, _ = after.of_columns(()).probe(keys)
    if not _is_lawful(node, rows):
        rows, _ = after.probe(keys)  # What is wrong is said of whole rows.
        _check_rows(node, rows)


def check_contents(node: Table, change: pa.Table, contents: pa.Table) -> None:
    """The same, given all of the new contents, arranged."""
    _check_columns(node, change)
    _check_rows(node, contents)


def check_load(node: Table, tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The same for the first rows of a table: arranged tables, no key in two, are its contents."""
    for table in tables:
        _check_columns(node, table)
        _check_rows(node, table)
        yield table


def _check_columns(node: Table, change: pa.Table) -> None:
    columns = change.select(column_names(len(node.schema)))
    check_not_null(columns, node.schema, shown(node.name))
    check_lengths(columns, node)


def _is_lawful(node: Table, rows: pa.Table) -> bool:
    """Whether no row has a negative weight and certainly no primary key has two rows."""
    weights, keys = integers(rows.column(WEIGHT)), integers(rows.column(KEY))
    if (weights < 0).any():
        return False
    return not node.key or not ((weights > 1).any() or (keys[1:] == keys[:-1]).any())


def _check_rows(node: Table, rows: pa.Table) -> None:
    """Raise unless no row has a negative weight and no primary key two rows."""
    if not len(rows):
        return
    weights = integers(rows.column(WEIGHT))
    missing = np.flatnonzero(weights < 0)
    if len(missing):
        raise ConstraintError(
            f"cannot delete {show_row(rows, int(missing[0]))} from '{shown(node.name)}': "
            f"there is no such row",
            detail=f"{len(missing)} row(s) to delete are not in the table",
            hint="nothing was applied; read the row first with "
            f"db.table('{shown(node.name)}') and compare every column",
        )
    if node.key:
        _check_key(node, rows, weights)


def _check_key(node: Table, rows: pa.Table, weights: np.ndarray) -> None:
    twice = np.flatnonzero(weights > 1)
    if len(twice):
        raise _duplicate(node, rows, int(twice[0]))
    keys = integers(rows.column(KEY))
    shared = np.flatnonzero(keys[1:] == keys[:-1])
    # Rows that share the hash of their key are few; only equal keys are a violation.
    suspects = np.unique(np.concatenate([shared, shared + 1]))
    seen: set[Key] = set()
    for row, key in zip(suspects, keys_of(rows.take(suspects), node.key), strict=True):
        if key in seen:
            raise _duplicate(node, rows, int(row))
        seen.add(key)


def _duplicate(node: Table, rows: pa.Table, row: int) -> ConstraintError:
    names = [node.schema.names[i] for i in node.key]
    values = [rows.column(column_name(i))[row].as_py() for i in node.key]
    said = ", ".join(f"{n} = {v!r}" for n, v in zip(names, values, strict=True))
    return ConstraintError(
        f"duplicate primary key in '{shown(node.name)}': {said}",
        detail=f"the row is {show_row(rows, row)}",
        hint="nothing was applied; use upsert or MERGE to replace the row",
    )
