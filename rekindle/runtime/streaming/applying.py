"""A batch of a stream as changes of its table, in the transaction that is the batch.

Two ways:

    weighted   rows with weights are added, in no order: they commute
    by key     rows act on their key one after the other: insert, replace or delete

Rows of one key act in the order in which they come, or that of a sequence where there is one. With
a sequence a row acts only if it is not older than the last one that acted on its key, in whichever
batch that was (`sequences.py`). So both ways give the same table however the rows are cut into
batches, which is the law that tests hold them to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rekindle.catalyst.types import payload_schema
from rekindle.circuit.nodes import Table
from rekindle.columns import column_name, column_names
from rekindle.runtime.rows.keys import Key, keys_of
from rekindle.runtime.rows.lengths import fitted, of_json, rows_too_long
from rekindle.runtime.streaming.definition import UPSERT, StreamDefinition
from rekindle.runtime.streaming.preparing import DELETES, REASON, SEQUENCE, SIGNED, WORD
from rekindle.runtime.streaming.rejecting import Rejects
from rekindle.runtime.streaming.sequences import Sequences
from rekindle.runtime.transactions.transaction import Transaction
from rekindle.traces.arrays import WEIGHT, integers
from rekindle.traces.consolidate import distinct_keys


class Act(Enum):
    """What a row does to its key, or to the rows that equal it."""

    INSERT = "insert"
    REPLACE = "replace"
    DELETE = "delete"
    REMOVE = "remove"
    """Deletes, and does not mind if there is nothing to delete."""


WORDS: Mapping[str, Act] = {
    **dict.fromkeys(("insert", "i", "c", "r", "create", "read"), Act.INSERT),
    **dict.fromkeys(("update", "u", "upsert"), Act.REPLACE),
    **dict.fromkeys(("delete", "d"), Act.DELETE),
}
IMAGES: Mapping[str, int] = {"update_preimage": -1, "update_postimage": 1}
_SIGNS = {Act.INSERT: 1, Act.DELETE: -1}


@dataclass(slots=True)
class Batch:
    """What was collected of a batch."""

    node: Table
    of: StreamDefinition
    columns: pa.Table
    rest: pa.Table
    sequences: Sequences | None = None
    rejects: Rejects = field(init=False)
    late: int = 0
    """Rows that were older than the last one of their key."""

    def __post_init__(self) -> None:
        self.rejects = Rejects(self.node, self.columns, self.of.rejects)

    @classmethod
    def collected(
        cls, rows: pa.Table, node: Table, of: StreamDefinition, sequences: Sequences | None
    ) -> Batch:
        columns = rows.select(column_names(len(node.schema))).cast(payload_schema(node.schema))
        rest = rows.drop_columns(columns.column_names)
        # As they are written: a key of CHAR(n) is the same with its blanks as without.
        return cls(node, of, fitted(columns.combine_chunks(), node), rest, sequences)

    # ---- a batch -----------------------------------------------------------------------------

    def apply(self, tx: Transaction) -> None:
        """Change the table by the rows of the batch that fit."""
        self.late, self.rejects.reasons = 0, {}
        if SIGNED in self.rest.column_names:
            weights = self._given_weights()
        elif WORD in self.rest.column_names:
            acts = self._acts()
            if acts is not None and self.node.key:
                return self._by_key(tx, acts)
            weights = self._weights_of_words()
        elif self.of.mode == UPSERT:
            return self._by_key(tx, self._upserts())
        elif self.of.rejects and self.node.key:
            return self._by_key(tx, dict.fromkeys(range(len(self.columns)), Act.INSERT))
        elif not self.of.rejects:
            return self._all(tx)
        else:
            weights = dict.fromkeys(range(len(self.columns)), 1)
        self._weighted(tx, weights)

    def _given_weights(self) -> dict[int, int]:
        found = {}
        for row, weight in enumerate(self.rest.column(SIGNED).to_pylist()):
            if weight is None:
                self.rejects.add(row, "it has no weight")
            else:
                found[row] = weight
        return found

    def _words(self) -> list[str | None]:
        found: list[str | None] = self.rest.column(WORD).to_pylist()
        return found

    def _acts(self) -> dict[int, Act] | None:
        """What each row does to its key; None if rows stand for images before and after."""
        words = self._words()
        if any(word in IMAGES for word in words):
            return None
        found = {}
        for row, word in enumerate(words):
            act = WORDS.get(word or "")
            if act is None:
                self.rejects.add(row, f"the operation {word!r} is unknown")
            else:
                found[row] = act
        return found

    def _weights_of_words(self) -> dict[int, int]:
        """Whole rows that come and go, for tables without a key and images of updates."""
        found = {}
        for row, word in enumerate(self._words()):
            act = WORDS.get(word or "")
            sign = IMAGES.get(word or "", 0) if act is None else _SIGNS.get(act, 0)
            if sign:
                found[row] = sign
            elif act is Act.REPLACE:
                said = "an update has to be an update_preimage and an update_postimage here"
                self.rejects.add(row, said)
            else:
                self.rejects.add(row, f"the operation {word!r} is unknown")
        return found

    def _upserts(self) -> dict[int, Act]:
        if DELETES not in self.rest.column_names:
            return dict.fromkeys(range(len(self.columns)), Act.REPLACE)
        deletes = self.rest.column(DELETES).to_pylist()
        return {row: Act.REMOVE if gone else Act.REPLACE for row, gone in enumerate(deletes)}

    # ---- what every row has to satisfy -------------------------------------------------------

    def _refuse_misfits(self, acts: Mapping[int, Act] | None) -> None:
        """Put rows aside that have a value which does not fit; a deletion needs its key only."""
        reasons = self.rest.column(REASON)
        for row in _where(pc.is_valid(reasons)):
            self.rejects.add(row, reasons[row].as_py())
        for i, one in enumerate(self.node.schema):
            column = self.columns.column(i)
            if one.nullable or not column.null_count:
                continue
            for row in _where(pc.is_null(column)):
                deletes = acts is not None and acts.get(row) in (Act.DELETE, Act.REMOVE)
                if i in self.node.key or not deletes:
                    self.rejects.add(row, f"column '{one.name}' is NOT NULL, and it has NULL there")
        for i, declared in self.node.declared.items():
            for row in rows_too_long(self.columns.column(i), of_json(declared)):
                said = f"column '{self.node.schema.names[i]}' cannot hold so long a text"
                self.rejects.add(row, said)

    # ---- rows with weights -------------------------------------------------------------------

    def _all(self, tx: Transaction) -> None:
        """Add every row; the first that does not fit stops the stream."""
        self._refuse_misfits(None)
        tx.add(self.node, self.columns, 1)

    def _weighted(self, tx: Transaction, weights: dict[int, int]) -> None:
        self._refuse_misfits(None)
        if self.of.rejects:
            self._refuse_unlawful(tx, weights)
        kept = [row for row in weights if weights[row] and row not in self.rejects.reasons]
        if kept:
            chosen = pa.array([weights[row] for row in kept], pa.int64())
            tx.add(self.node, self.columns.take(pa.array(kept, pa.int64())), chosen)

    def _refuse_unlawful(self, tx: Transaction, weights: Mapping[int, int]) -> None:
        """Put aside deletions of rows that are not there, and rows whose key is taken."""
        node, reasons = self.node, self.rejects.reasons
        values = self._values()
        rows = [row for row in weights if row not in reasons]
        net: Counter[Key] = Counter()
        for row in rows:
            net[values[row]] += weights[row]
        there = self._multiplicities(tx, rows)
        missing = {value for value, weight in net.items() if there[value] + min(weight, 0) < 0}
        for row in rows:
            if weights[row] < 0 and values[row] in missing:
                self.rejects.add(row, "there is no such row to delete")
        if not node.key:
            return
        keys = list(keys_of(self.columns, node.key))
        taken: Counter[Key] = Counter()
        for value, count in there.items():
            taken[tuple(value[i] for i in node.key)] += count
        remaining = [row for row in rows if row not in reasons]
        for row in remaining:
            if weights[row] < 0:
                taken[keys[row]] += weights[row]
        for row in remaining:
            if weights[row] > 0:
                if taken[keys[row]] + weights[row] > 1:
                    self.rejects.add(row, self._taken(keys[row]))
                else:
                    taken[keys[row]] += weights[row]

    def _multiplicities(self, tx: Transaction, rows: list[int]) -> Counter[Key]:
        """How often the rows are there that have the keys of some rows of the batch."""
        found: Counter[Key] = Counter()
        if not rows:
            return found
        columns = self.columns.take(pa.array(rows, pa.int64()))
        if self.node.key:
            stored = tx.rows_of(self.node, self._distinct(rows))
            found.update(_rows(stored))
            return found
        ones = pa.array(np.ones(len(columns), np.int64))
        arranged = tx.arranged(self.node, fitted(columns, self.node).add_column(0, WEIGHT, ones))
        stored, _ = tx.reader(self.node).probe(distinct_keys(arranged))
        weights = integers(stored.column(WEIGHT)).tolist()
        for value, weight in zip(_rows(stored.select(columns.column_names)), weights, strict=True):
            found[value] += weight
        return found

    def _values(self) -> list[Key]:
        return _rows(fitted(self.columns, self.node))

    # ---- rows that act on their key ----------------------------------------------------------

    def _by_key(self, tx: Transaction, acts: dict[int, Act]) -> None:
        self._refuse_misfits(acts)
        node, sequences = self.node, self.sequences
        rows = [row for row in acts if row not in self.rejects.reasons]
        keys = list(keys_of(self.columns, node.key))
        places = {keys[row]: row for row in rows}
        wanted = self._distinct(places.values())
        stored = tx.rows_of(node, wanted) if rows else self.columns.slice(0, 0)
        present = set(keys_of(stored, node.key))
        known: dict[Key, Any] = {}
        order: list[Any] = []
        if sequences is not None:
            known = sequences.known(tx, stored, wanted) if rows else {}
            order = self._order(sequences)
        after: dict[Key, int | None] = {}
        for row in rows:
            key, act = keys[row], acts[row]
            if sequences is not None:
                if order[row] is None:
                    self.rejects.add(row, f"it has no '{self.of.sequence_by}' to be ordered by")
                    continue
                if key in known and order[row] < known[key]:
                    self.late += 1
                    continue
            exists = after[key] is not None if key in after else key in present
            if act is Act.INSERT and exists and sequences is None:
                self.rejects.add(row, self._taken(key))
                continue
            if act is Act.DELETE and not exists and sequences is None:
                self.rejects.add(row, "there is no row with its key to delete")
                continue
            if sequences is not None:
                known[key] = order[row]
            after[key] = None if act in (Act.DELETE, Act.REMOVE) else row
        self._change(tx, stored, after)
        if sequences is not None:
            sequences.note(tx, wanted, places, known, after)

    def _change(self, tx: Transaction, stored: pa.Table, after: Mapping[Key, int | None]) -> None:
        gone = {key for key, row in after.items() if row is None}
        old = [i for i, key in enumerate(keys_of(stored, self.node.key)) if key in gone]
        if old:
            tx.add(self.node, stored.take(pa.array(old, pa.int64())), -1)
        fresh = [row for row in after.values() if row is not None]
        if fresh:
            chosen = self.columns.take(pa.array(fresh, pa.int64()))
            tx.replace(self.node, fitted(chosen, self.node))

    def _order(self, sequences: Sequences) -> list[Any]:
        """What orders the rows."""
        if sequences.position is not None:
            found = self.columns.column(sequences.position)
        else:
            found = self.rest.column(SEQUENCE)
        # What is equal to nothing, not even itself, orders nothing.
        return [value if value == value else None for value in found.to_pylist()]

    def _distinct(self, rows: Any) -> pa.Table:
        """The key columns of rows, each key once."""
        once = {key: row for row, key in self._keyed(rows)}
        names = [column_name(i) for i in self.node.key]
        return self.columns.select(names).take(pa.array(list(once.values()), pa.int64()))

    def _keyed(self, rows: Any) -> list[tuple[int, Key]]:
        chosen = list(rows)
        taken = self.columns.take(pa.array(chosen, pa.int64()))
        return list(zip(chosen, keys_of(taken, self.node.key), strict=True))

    def _taken(self, key: Key) -> str:
        names = [self.node.schema.names[i] for i in self.node.key]
        said = ", ".join(f"{name} = {value!r}" for name, value in zip(names, key, strict=True))
        return f"there is a row with the primary key {said}"


def _rows(columns: pa.Table) -> list[Key]:
    return list(keys_of(columns, range(columns.num_columns)))


def _where(mask: pa.ChunkedArray) -> list[int]:
    return np.flatnonzero(np.asarray(pc.fill_null(mask, False))).tolist()
