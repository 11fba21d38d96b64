"""Contents and changes of tables and views as Arrow tables, from a state and its files.

Nothing here asks Spark for anything, so it costs no job and works in a process without Java. The
law: `table` has the rows of `db.table`, and `changes` those of `db.changes`, as bags.

Columns have the Arrow types that Spark's own conversion uses, timestamps in UTC. There is one
exception, the year-month interval, which pyarrow does not have: it is its number of months, an
int32. A variant is a struct of its two binaries.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from rekindle.columns import column_names
from rekindle.errors import HistoryError, UnsupportedError
from rekindle.names import RESERVED
from rekindle.runtime.epochs.changes import changed
from rekindle.runtime.epochs.state import Entry, State, ViewEntry
from rekindle.runtime.nested.changes_arrow import changed_at
from rekindle.runtime.nested.stored_parts import Nested, Part, Parts, parts_at
from rekindle.runtime.reading.contents import without_holes
from rekindle.runtime.reading.lookups import Lookup, lookup_of
from rekindle.runtime.views.factorised import Factorised
from rekindle.traces.arrays import WEIGHT
from rekindle.traces.partition import ALL_KEYS, KeyRange
from rekindle.traces.store import Store

Where = Mapping[str, Any]
"""The value, or the list of values, that a column may have, by its name."""

HEAD = [pa.field(name, pa.int64(), nullable=False) for name in RESERVED]


@dataclass(frozen=True, slots=True)
class ArrowReader:
    """Reads the tables and views of one state."""

    state: State
    store: Store

    def table(self, name: str, epoch: int | None = None, where: Where | None = None) -> pa.Table:
        """The rows of a table or view, now or as of an epoch; `where` looks some of them up."""
        entry = self.state.entry(name)
        if isinstance(entry, ViewEntry) and entry.factorisation is not None:
            return self._enumerated(entry, epoch, where)
        parts = parts_at(self.state, entry, epoch)
        return _declared(parts.rows(self.store, lookup(entry, parts, where)), entry)

    def changes(self, name: str, since: int, until: int | None = None) -> pa.Table:
        """What changed after an epoch, and up to another: `_epoch`, `_weight` and the columns."""
        entry = self.state.entry(name)
        parts = changed_parts(self.state, entry, since, until)
        tables = list(changes_of(parts, self.store, until=until))
        schema = pa.schema([*HEAD, *declared(parts, entry)])
        return pa.concat_tables([schema.empty_table(), *(t.cast(schema) for t in tables)])

    def _enumerated(self, entry: ViewEntry, epoch: int | None, where: Where | None) -> pa.Table:
        if epoch is not None and epoch != self.state.epoch:
            raise UnsupportedError(
                f"'{entry.name}' is kept factorised and is read as it is now",
                hint=f"db.table('{entry.name}', epoch={epoch}) expands it on Spark",
            )
        if _is_asked(where):
            raise UnsupportedError(
                f"rows of '{entry.name}' cannot be looked up: it is factorised",
                hint="read all rows, and filter them",
            )
        batches = list(Factorised(entry, lambda: self.state, self.store).batches())
        if not batches:
            raise UnsupportedError(
                f"'{entry.name}' is kept factorised and has no rows",
                hint=f"db.table('{entry.name}') has its columns",
            )
        return _declared(pa.Table.from_batches(batches), entry)


def _is_asked(where: object) -> bool:
    """Is anything said of which rows are wanted? What is no mapping is refused later."""
    return where is not None and not (isinstance(where, Mapping) and not where)


def lookup(entry: Entry, parts: Parts, where: Where | None) -> Lookup | None:
    """What a user asks for of a table or view, by its columns or those of its top level."""
    if where is None or not _is_asked(where):
        return None
    top = parts if isinstance(parts, Part) else parts.top
    return lookup_of(where, top.schema, top.trace.layout.payload, entry.name)


def declared(parts: Parts, entry: Entry) -> pa.Schema:
    """The columns of a table or view as it was declared."""
    pairs = zip(parts.columns, entry.schema, strict=True)
    return pa.schema([f.with_name(g.name).with_nullable(g.nullable) for f, g in pairs])


def _declared(rows: pa.Table, entry: Entry) -> pa.Table:
    pairs = zip(rows.schema, entry.schema, strict=True)
    schema = pa.schema([f.with_name(g.name).with_nullable(g.nullable) for f, g in pairs])
    return pa.Table.from_arrays(rows.columns, schema=schema)


def changed_parts(state: State, entry: Entry, since: int, until: int | None = None) -> Parts:
    """The parts of a table or view with what changed after an epoch, and up to another."""
    if isinstance(entry, ViewEntry) and entry.factorisation is not None:
        raise UnsupportedError(
            f"the changes of '{entry.name}' are not kept: it is factorised",
            hint="leave out representation = 'factorised' for a view whose changes you read",
        )
    if until is not None:
        state.refuse_uncommitted(until)
        if until < since:
            raise HistoryError(f"there are no epochs after {since} and up to {until}")
    if entry.level is not None:
        # The contents at the beginning are those now less all changes since, so none is left out.
        return Nested.of(state, entry.level).since(state, since)
    changes = state.changes(entry.name, since)
    return Part.of(state, entry.name, changes if until is None else changes.up_to(until))


def changes_of(
    parts: Parts, store: Store, key_range: KeyRange = ALL_KEYS, until: int | None = None
) -> Iterator[pa.Table]:
    """Tables of `_epoch`, `_weight` and the columns, older epochs first; an epoch may have several.

    Nested rows are those of all keys.
    """
    if isinstance(parts, Nested):
        for epoch, rows, weights in changed_at(parts, store):
            if until is None or epoch <= until:
                yield _with_head(rows, np.full(len(rows), epoch, dtype=np.int64), weights)
        return
    assert parts.changes is not None
    layout = parts.trace.layout
    for rows, epochs in changed(parts.changes, layout, store, key_range):
        whole = without_holes(rows, parts.schema)
        shown = parts.named([whole.select(column_names(len(parts.schema)))])
        yield _with_head(shown, epochs, whole.column(WEIGHT))


def _with_head(rows: pa.Table, epochs: Any, weights: Any) -> pa.Table:
    columns = [pa.array(epochs) if isinstance(epochs, np.ndarray) else epochs, weights]
    return pa.Table.from_arrays([*columns, *rows.columns], schema=pa.schema([*HEAD, *rows.schema]))
