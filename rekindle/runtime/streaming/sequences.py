"""The last sequence of each key, so that a row that comes late does not undo a newer one.

Where the sequence is a column of the table, a row has its own, and only keys that were deleted are
noted beside it: a tombstone says up to where a late row must not bring them back. Otherwise every
key is noted. The notes are an ordinary table, `NAME_sequences`: the key, `sequence`, `deleted`.
Who knows that no row comes later than some sequence may delete older tombstones from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from rekindle.catalyst.types import payload_schema
from rekindle.circuit.nodes import Table
from rekindle.columns import column_name
from rekindle.runtime.rows.keys import Key, keys_of
from rekindle.runtime.transactions.transaction import Transaction


def sequences_name(table: str) -> str:
    """The table of the sequences of a table's keys."""
    return f"{table}_sequences"


@dataclass(frozen=True, slots=True)
class Sequences:
    """Where the last sequence of each key of a table is."""

    node: Table
    """The table of notes."""
    key: tuple[int, ...]
    position: int | None
    """The place of the sequence among the table's columns, if it is one of them."""

    def known(self, tx: Transaction, stored: pa.Table, wanted: pa.Table) -> dict[Key, Any]:
        """The last sequence of each key of some rows, of which some are stored."""
        found: dict[Key, Any] = {}
        notes = self._notes(tx, wanted)
        values = notes.column(column_name(len(self.key))).to_pylist()
        for key, value in zip(keys_of(notes, range(len(self.key))), values, strict=True):
            found[key] = value
        if self.position is not None:
            values = stored.column(column_name(self.position)).to_pylist()
            for key, value in zip(keys_of(stored, self.key), values, strict=True):
                if value is not None:
                    found[key] = value
        return found

    def note(
        self,
        tx: Transaction,
        wanted: pa.Table,
        places: Mapping[Key, int],
        known: Mapping[Key, Any],
        after: Mapping[Key, int | None],
    ) -> None:
        """Note what has become of keys, which are in the order of `places` in `wanted`."""
        rows, values, deleted = [], [], []
        spent = set()
        for number, key in enumerate(places):
            if key not in after:
                continue
            if after[key] is None or self.position is None:
                rows.append(number)
                values.append(known[key])
                deleted.append(after[key] is None)
            else:
                spent.add(key)
        if spent:
            notes = self._notes(tx, wanted)
            keys = keys_of(notes, range(len(self.key)))
            old = [i for i, key in enumerate(keys) if key in spent]
            if old:
                tx.add(self.node, notes.take(pa.array(old, pa.int64())), -1)
        if rows:
            schema = payload_schema(self.node.schema)
            chosen = wanted.take(pa.array(rows, pa.int64())).columns
            width = len(self.key)
            arrays = [
                *chosen,
                pa.array(values, schema.field(width).type),
                pa.array(deleted, pa.bool_()),
            ]
            tx.replace(self.node, pa.Table.from_arrays(arrays, schema=schema))

    def _notes(self, tx: Transaction, wanted: pa.Table) -> pa.Table:
        names = [column_name(i) for i in range(len(self.key))]
        return tx.rows_of(self.node, wanted.rename_columns(names))
