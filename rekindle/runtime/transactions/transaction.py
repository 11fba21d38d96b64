"""A transaction: changes to any number of tables that become one epoch, or nothing.

Changes are collected as weighted rows and applied together when the block ends without an error.
Deletions and insertions commute; an upsert reads the table as this transaction has made it so far.

The isolation is that of snapshots: a transaction reads the database as of the epoch at which it
began, and its own changes. Changes name whole rows, so one that rests on a row which somebody else
has changed since removes a row that is no longer there, or brings a key that is there by now: the
check of the commit finds it, and it is reported as a conflict. The first to commit wins. What two
transactions read of each other's and do not change is not compared (write skew is possible).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import reduce
from numbers import Integral
from types import TracebackType
from typing import Any, Protocol
from weakref import finalize

import numpy as np
import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rekindle.calculus.schema import Schema
from rekindle.catalyst.failures import spark_error
from rekindle.catalyst.jvm import analysed_plan
from rekindle.catalyst.types import payload_schema
from rekindle.circuit.nodes import Table
from rekindle.columns import column_name
from rekindle.errors import (
    ClosedError,
    ConflictError,
    ConstraintError,
    DefinitionError,
    HistoryError,
    TransactionTimeoutError,
)
from rekindle.frontends.spark_sql.parameters import Arguments
from rekindle.names import is_text, shown
from rekindle.runtime.engine import Engine, altered, table_node
from rekindle.runtime.epochs.changes import touch_any
from rekindle.runtime.epochs.offsets import OffsetChange, batch_number, check_source, position
from rekindle.runtime.epochs.state import TableEntry
from rekindle.runtime.matrices.factored import Factors, factored_change, products
from rekindle.runtime.nested.changes import NestedChanges
from rekindle.runtime.nested.deep_updates import DeepUpdate
from rekindle.runtime.nested.elements import RowFormat
from rekindle.runtime.nested.flat_rows import flattened_frames, values_of
from rekindle.runtime.nested.tables import NestedTable, nested_table
from rekindle.runtime.rows.conversion import (
    check_not_null,
    is_frame,
    show_row,
    split_weights,
    to_arrow,
)
from rekindle.runtime.rows.keys import keys_of
from rekindle.runtime.rows.lengths import fitted
from rekindle.runtime.transactions.commits import GROUPED_ROWS, Request, Watched
from rekindle.runtime.transactions.stepping import TableChange
from rekindle.runtime.turns import in_turn
from rekindle.spark.frames import of_table
from rekindle.spark.frames import to_arrow as collect_arrow
from rekindle.spark.inline import is_arranged
from rekindle.spark.step import Placement
from rekindle.traces.arrays import KEY, WEIGHT, Int64s, integers
from rekindle.traces.consolidate import distinct_keys
from rekindle.traces.reader import TraceReader
from rekindle.traces.trace import Trace

UNKNOWN_ROWS = 8_000_000
COLLECTED_ROWS = 500_000
"""A DataFrame of more rows is not brought into the driver."""
SURELY_LARGE = 10 * COLLECTED_ROWS
"""Beyond this guess a DataFrame is not tried in the driver first."""


class FrameEncoder(Protocol):
    """Turns a user's DataFrame into stored columns of a table, checking its columns."""

    def __call__(self, frame: DataFrame, node: Table) -> DataFrame: ...


class Transaction:
    """Collects changes; use as a context manager.

    Any thread may call it, one at a time; SQL statements belong to it in the thread or asyncio task
    that began it, and anywhere by `tx.sql`.
    """

    def __init__(
        self,
        engine: Engine,
        encode: FrameEncoder,
        run: Callable[[Transaction, str, Arguments | None], DataFrame],
        frame: Callable[[Schema, pa.Table], DataFrame],
        timeout: float | None = None,
    ) -> None:
        self._engine = engine
        self._encode = encode
        self._run = run
        self._frame = frame
        self.turn = threading.RLock()
        self._timeout = timeout
        self._deadline = None if timeout is None else time.monotonic() + timeout
        self._rows: dict[str, list[pa.Table]] = {}
        self._frames: dict[str, list[tuple[DataFrame, int]]] = {}
        self._factors: dict[str, list[Factors | None]] = {}
        self._nodes: dict[str, Table] = {}
        self._nested: dict[str, NestedTable] = {}
        self._watched: dict[Table, set[int]] = {}
        """The keys of parts of nested tables that were read, and have to stay as they are."""
        self._missing: list[tuple[str, pa.Table]] = []
        """Rows of nested tables that were removed and are not there, unless they come yet."""
        self._offsets: dict[str, OffsetChange] = {}
        self._repeats = False
        """Is what it brings there already, by a batch that was committed before?"""
        self._ended = False
        self.epoch: int | None = None
        """The epoch that the transaction became, once it is committed."""
        self.snapshot = engine.begin()
        self._release = finalize(self, engine.snapshots.release, self.snapshot.epoch)

    # ---- the user's calls ------------------------------------------------------------------

    @in_turn
    def insert(self, table: str, rows: Any) -> None:
        """Add rows."""
        self._change(table, rows, 1)

    @in_turn
    def delete(self, table: str, rows: Any) -> None:
        """Remove rows, each given in full, as often as it is given."""
        self._change(table, rows, -1)

    @in_turn
    def upsert(self, table: str, rows: Any) -> None:
        """Add rows, replacing those with the same primary key."""
        node = self._node(table)
        if not node.key:
            raise DefinitionError(
                f"'{node.name}' has no primary key, so rows cannot be upserted",
                hint="use insert and delete, or declare PRIMARY KEY (...) on the table",
            )
        columns = self._columns(node, rows)
        columns = _last_of_each_key(columns, node)
        self.replace(node, columns)

    @in_turn
    def apply(self, table: str, changes: Any) -> None:
        """Add changes: rows with a `_weight` column, negative to remove."""
        node = self._node(table)
        if is_frame(changes):
            changes = collect_arrow(changes)
        columns, weights = split_weights(changes, node.schema, node.name, self._zone)
        columns = fitted(columns, node)
        check_not_null(columns, node.schema, node.name)
        self._add(node, columns, weights)

    @in_turn
    def update_factored(self, table: str, u: Any, v: Any) -> None:
        """Add u·vᵀ to a matrix: a table (i, j, v) with the primary key (i, j).

        A vector is a dict, pairs of index and value, or an array whose first value has the index
        0. Lists of r vectors, or arrays of r columns, add the sum of r products. Views with the
        policy 'factored' are changed by the vectors, without the product being multiplied out.
        """
        node = self._node(table)
        reader = self.reader(node)
        change = factored_change(node, reader.scan(), products(u, v))
        if len(change.rows):
            self._rows.setdefault(node.name, []).append(change.rows)
            self._factors.setdefault(node.name, []).append(change.factors)

    @in_turn
    def once(self, stream: str, batch: int) -> bool:
        """Let this transaction be a batch of a stream, by its number, which ascends.

        False if that batch, or a later one, is committed already; then nothing of this transaction
        is applied. So whoever does not know whether a batch arrived may bring it again.
        """
        if not _is_number(batch) or batch < 0:
            raise DefinitionError(
                f"{batch!r} is not the number of a batch",
                hint="number the batches of a stream 0, 1, 2, ... as foreachBatch does",
            )
        last = batch_number(stream, self.offset(stream))
        if batch <= last:
            self._repeats = True
            return False
        self.advance(stream, str(int(batch)))
        return True

    @in_turn
    def offset(self, source: str) -> str | None:
        """How far a source of changes has been read, as it was noted; None of a new one."""
        self._check_open()
        check_source(source)
        if source in self._offsets:
            return self._offsets[source].after
        return position(self.snapshot.offsets, source)

    @in_turn
    def advance(self, source: str, offset: str) -> None:
        """Note, as part of this transaction, how far a source has been read.

        Raises `ConflictError` at the commit if somebody else has moved the source meanwhile.
        """
        self._check_open()
        if not isinstance(offset, str) or not is_text(offset):
            raise DefinitionError(f"the offset of '{source}' is not a text: {offset!r}")
        check_source(source)
        self._offsets[source] = OffsetChange(source, self.snapshot.offsets.get(source), offset)

    def nested(self, table: str, *path: Any) -> DeepUpdate:
        """The elements of an array in a row of a table with a primary key, to be changed.

        The way to it is the row's key (a value, a tuple, or a dict of the key's columns), then the
        column; deeper by the selector of an element, a dict of values that it alone has, and a
        field: `tx.nested("customers", 7, "orders", {"okey": 3}, "lines").insert(rows)`.
        """
        return DeepUpdate(self, table, path)

    def sql(self, statement: str, args: Arguments | None = None) -> DataFrame:
        """Run a SQL statement as part of this transaction, in whichever thread."""
        self._check_open()
        return self._run(self, statement, args)

    # ---- what statements use ---------------------------------------------------------------

    def changeable(self, table: str) -> Table:
        """A table that a user names to change it."""
        return self._node(table)

    @property
    def reading(self) -> RowFormat:
        """How rows that users give are read."""
        return RowFormat(self._zone, self._encode, self._frame)

    def rows_of(self, node: Table, keys: pa.Table) -> pa.Table:
        """The rows of a table that have keys, given by their columns, as this transaction sees
        them."""
        changes = self.nested_changes(node)
        if changes is not None:
            stored = changes.find(keys, self.reader)
            return stored.nested_rows(changes.nested.top, range(len(stored.top)))
        schema = payload_schema(node.schema)
        arrays = [
            keys.column(f.name).cast(f.type)
            if f.name in keys.column_names
            else pa.nulls(len(keys), f.type)
            for f in schema
        ]
        given = _weighted(pa.Table.from_arrays(arrays, names=schema.names), 1)
        fresh = self._engine.arranged(node, given)
        rows, _ = self.reader(node).probe(distinct_keys(fresh))
        return _with_equal_keys(rows, fresh, node).select(schema.names)

    @in_turn
    def add(self, node: Table, columns: pa.Table, weight: int | pa.Array) -> None:
        """Add rows of stored columns, with one weight or one for each."""
        columns = fitted(columns, node)
        check_not_null(columns, node.schema, node.name)
        self._add(node, columns, weight)

    @in_turn
    def replace(self, node: Table, columns: pa.Table) -> None:
        """Remove whatever rows have the keys of `columns`, then add these."""
        check_not_null(columns, node.schema, node.name)
        changes = self.nested_changes(node)
        if changes is not None:
            changes.replace(columns)
            return
        fresh = self._engine.arranged(node, _weighted(columns, 1))
        keys = distinct_keys(fresh)
        old, _ = self.reader(node).probe(keys)
        rows = self._rows.setdefault(node.name, [])
        if len(old):
            old = _with_equal_keys(old, fresh, node)
            weights = pa.array(-integers(old.column(WEIGHT)))
            rows.append(old.set_column(old.column_names.index(WEIGHT), WEIGHT, weights))
        rows.append(fresh)

    def trace(self, node: Table) -> Trace:
        """The contents of a table when the transaction began, or when it was made since."""
        found = self.snapshot.traces.get(node.id)
        return self._engine.state.traces[node.id] if found is None else found

    def reader(self, node: Table) -> TraceReader:
        """A table as this transaction sees it."""
        return TraceReader.of_trace(self.trace(node), self._engine.store, extra=self.pending(node))

    def before(self, node: Table) -> TraceReader:
        """A table as it was when the transaction began."""
        return TraceReader.of_trace(self.trace(node), self._engine.store)

    def arranged(self, node: Table, rows: pa.Table) -> pa.Table:
        """Rows with weights as an arranged change of a table."""
        return self._engine.arranged(node, rows)

    def collect(self, node: Table, rows: pa.Table) -> None:
        """Add rows with weights, arranged or not, to the changes of a table."""
        self._rows.setdefault(node.name, []).append(rows)

    def watch(self, node: Table, keys: Int64s) -> None:
        """Let a change of these keys by somebody else be a conflict."""
        self._watched.setdefault(node, set()).update(keys.tolist())

    def nested_changes(self, node: Table) -> NestedChanges | None:
        """Changes of a table that is kept shredded; None of any other."""
        if node.id not in self._nested:
            state = self.snapshot if node.name in self.snapshot.entries else self._engine.state
            entry = state.entries.get(node.name)
            if not isinstance(entry, TableEntry) or entry.level is None:
                return None
            self._nested[node.id] = nested_table(entry, state)
        return NestedChanges(self._nested[node.id], self)

    def node(self, table: str) -> Table:
        """A table as it was when the transaction began, or as it is if it was made since.

        Raises `ConflictError` if somebody has given it columns, or dropped it, meanwhile.
        """
        state = self._engine.state
        entry = state.entry(table)
        before = self.snapshot.entries.get(entry.name)
        if before is not None and before.node != entry.node:
            raise altered(entry.name)
        if not isinstance(entry, TableEntry):
            raise ConstraintError(
                f"'{table}' is a view and cannot be changed directly",
                hint="change the tables that it reads",
            )
        return self._nodes.setdefault(entry.node, table_node(entry))

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """Take back what a block has changed, and nothing else, if it fails."""
        with self.turn:
            collected: list[dict[str, Any]] = [self._rows, self._frames, self._factors]
            sizes = [{name: len(parts) for name, parts in each.items()} for each in collected]
            missing, offsets, repeats = list(self._missing), dict(self._offsets), self._repeats
            watched = {node: set(keys) for node, keys in self._watched.items()}
            try:
                yield
            except BaseException:
                self._missing, self._watched = missing, watched
                self._offsets, self._repeats = offsets, repeats
                for each, known in zip(collected, sizes, strict=True):
                    for name in list(each):
                        del each[name][known.get(name, 0) :]
                        if name not in known:
                            del each[name]
                raise

    @property
    def changed(self) -> frozenset[str]:
        """The tables that the transaction has changed so far."""
        return frozenset([*self._rows, *self._frames])

    @in_turn
    def pending(self, node: Table) -> list[pa.Table]:
        """What this transaction has changed in a table so far, arranged."""
        if node.name in self._frames:
            name = shown(node.name)
            raise DefinitionError(
                f"a large change of '{name}' cannot be read again in the same transaction",
                hint="commit the large change first",
            )
        rows = self._rows.get(node.name, [])
        rows[:] = [
            table if is_arranged(table) else self._engine.arranged(node, table) for table in rows
        ]
        return list(rows)

    @in_turn
    def add_frame(self, node: Table, frame: DataFrame, weight: int) -> None:
        """Add or remove the rows of an encoded frame of c0, c1..."""
        estimate = _estimate(frame)
        guess = 0 if estimate is None else estimate
        large = self._engine.placing.forced is None and guess > SURELY_LARGE
        if self._engine.placing.forced is not Placement.SPARK and not large:
            inline = self._engine.placing.forced is Placement.INLINE
            head = collect_arrow(frame if inline else frame.limit(COLLECTED_ROWS + 1))
            if inline or len(head) <= COLLECTED_ROWS:
                columns = _stored(head, node)
                check_not_null(columns, node.schema, node.name)
                self._add(node, columns, weight)
                return
        changes = self.nested_changes(node)
        if changes is not None:
            self._add_nested_frame(changes, frame, weight, estimate)
            return
        self._add_large(node, frame, weight, estimate)

    def _add_nested_frame(
        self, changes: NestedChanges, frame: DataFrame, weight: int, estimate: int | None
    ) -> None:
        """Add a large frame of a nested table; what rests on rows that are there is collected."""
        nested = changes.nested
        names = {part.node.name for part in nested.parts}
        if weight < 0 or not names.isdisjoint(self._rows):
            self._add(nested.owner, _stored(collect_arrow(frame), nested.owner), weight)
            return
        if not analysed_plan(frame).deterministic():
            # Every part runs the query again, and must find the same rows.
            frame = frame.localCheckpoint()
        frames = flattened_frames(nested, frame)
        for part in nested.parts:
            self._add_large(part.node, frames[part.node.name], weight, estimate)

    def _add_large(self, node: Table, frame: DataFrame, weight: int, estimate: int | None) -> None:
        weighted = frame.select(F.lit(weight).cast("bigint").alias(WEIGHT), "*")
        size = UNKNOWN_ROWS if estimate is None else estimate
        self._frames.setdefault(node.name, []).append((weighted, size))

    # ---- the end ---------------------------------------------------------------------------

    @in_turn
    def commit(self) -> int | None:
        """Apply everything as one epoch; gives its number, or None when nothing was asked.

        Transactions that are committed at the same time may share an epoch.
        """
        self._check_open()
        try:
            watched = [
                Watched(node, self.trace(node), self.snapshot.epoch, frozenset(keys))
                for node, keys in self._watched.items()
            ]
            if not self._repeats:
                self._refuse_missing(watched)
            changes = {} if self._repeats else self._changes()
            if self._repeats or not (changes or self._offsets):
                return None
            offsets = tuple(self._offsets.values())
            request = Request(changes, self._deadline, offsets, watched)
            try:
                self._engine.commits.commit(request)
            except ConstraintError as error:
                raise self._explained(error, changes) from error
            finally:
                self.epoch = request.epoch
            return self.epoch
        finally:
            self._end()

    def _refuse_missing(self, watched: list[Watched]) -> None:
        """Raise if rows of nested tables were to be removed that are not there."""
        if not self._missing:
            return
        for each in watched:
            self._engine.check_watched(each)
        name, row = self._missing[0]
        raise ConstraintError(
            f"cannot delete {show_row(row, 0)} from '{name}': there is no such row",
            detail=f"{len(self._missing)} row(s) to delete are not in the table",
            hint="nothing was applied; read the row first with "
            f"db.table('{name}') and compare every column",
        )

    def _changes(self) -> dict[Table, TableChange]:
        """What was asked for, table by table."""
        changes: dict[Table, TableChange] = {}
        for name in dict.fromkeys([*self._rows, *self._frames]):
            node = self.node(name)
            rows = self._rows.get(name, [])
            frames = self._frames.get(name, [])
            if not frames:
                changes[node] = TableChange(
                    self._together(node, rows), factors=self._factored(name)
                )
                continue
            parts = [frame for frame, _ in frames]
            size = sum(estimate for _, estimate in frames)
            if rows:
                columns = [WEIGHT, *payload_schema(node.schema).names]
                table = pa.concat_tables([part.select(columns) for part in rows])
                parts.append(of_table(self._engine.frames.catalyst.spark, table))
                size += len(table)
            union = parts[0]
            for part in parts[1:]:
                union = union.union(part)
            changes[node] = TableChange(frame=union, estimate=size)
        return changes

    def _together(self, node: Table, rows: list[pa.Table]) -> pa.Table:
        """The rows changed in a table as one; arranged, so that they can be compared, if few."""
        plain = [table for table in rows if not is_arranged(table)]
        arranged = [table for table in rows if is_arranged(table)]
        if not arranged and sum(map(len, plain)) > GROUPED_ROWS:
            return pa.concat_tables(plain)
        if plain:
            arranged.append(self._engine.arranged(node, pa.concat_tables(plain)))
        return pa.concat_tables(arranged)

    def _explained(
        self, error: ConstraintError, changes: Mapping[Table, TableChange]
    ) -> ConstraintError:
        """A broken constraint as a conflict, if somebody changed the same keys meanwhile."""
        if isinstance(error, ConflictError):
            return error
        for node, change in changes.items():
            if self._is_changed_since(node, change):
                return ConflictError(
                    f"rows of '{node.name}' were changed by another transaction since this one "
                    f"began at epoch {self.snapshot.epoch}",
                    detail=f"{error.message}; {error.detail}" if error.detail else error.message,
                    hint="nothing was applied; begin the transaction again and read the rows anew",
                )
        return error

    def _is_changed_since(self, node: Table, change: TableChange) -> bool:
        """Has somebody changed keys of a table, that this transaction changes, since it began?"""
        state = self._engine.state
        if state.traces.get(node.id) is self.snapshot.traces.get(node.id):
            return False
        if change.rows is None:
            return True
        try:
            since = state.changes(node.name, self.snapshot.epoch)
        except HistoryError:
            return True
        arranged = change.rows
        if not is_arranged(arranged):
            arranged = self._engine.arranged(node, arranged)
        layout = self.trace(node).layout
        return touch_any(since, layout, self._engine.store, distinct_keys(arranged))

    def _factored(self, name: str) -> Factors | None:
        """The factors of a table's whole change, if it has been changed in no other way."""
        known = [each for each in self._factors.get(name, []) if each is not None]
        if len(known) != len(self._rows.get(name, [])) or not known:
            return None
        return reduce(lambda one, other: one + other, known)

    @in_turn
    def rollback(self) -> None:
        """Forget everything."""
        if not self._ended:
            self._end()

    def __enter__(self) -> Transaction:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._ended:
            return
        if kind is None:
            self.commit()
        else:
            self.rollback()

    def _end(self) -> None:
        self._ended = True
        self._rows, self._frames, self._factors = {}, {}, {}
        self._release()

    @property
    def is_open(self) -> bool:
        """Can it still be changed and committed?"""
        return not self._ended

    def _check_open(self) -> None:
        if self._ended:
            raise ClosedError("the transaction has ended", hint="begin another one")
        if self._deadline is not None and time.monotonic() > self._deadline:
            self._end()
            raise TransactionTimeoutError(
                f"the transaction was open for longer than its {self._timeout:g} s",
                hint="it is rolled back and nothing was applied; give it more time, or do less "
                "in it",
            )

    def _node(self, table: str) -> Table:
        self._check_open()
        node = self.node(table)
        state = self._engine.state
        owner = state.entry(table).part_of
        if owner is not None:
            word = "table" if isinstance(state.entry(owner), TableEntry) else "view"
            raise DefinitionError(f"'{node.name}' is a part of the {word} '{owner}'")
        return node

    def _columns(self, node: Table, rows: Any) -> pa.Table:
        if is_frame(rows):
            return _stored(collect_arrow(self._encode(rows, node)), node)
        return fitted(to_arrow(rows, node.schema, node.name, self._zone), node)

    def _zone(self) -> str:
        """The session's time zone, in which a time without one is taken."""
        return self._engine.frames.catalyst.zone()

    def _change(self, table: str, rows: Any, weight: int) -> None:
        node = self._node(table)
        if is_frame(rows):
            self.add_frame(node, self._encode(rows, node), weight)
            return
        columns = self._columns(node, rows)
        check_not_null(columns, node.schema, node.name)
        self._add(node, columns, weight)

    def _add(self, node: Table, columns: pa.Table, weight: int | pa.Array) -> None:
        weighted = _weighted(columns, weight)
        changes = self.nested_changes(node)
        if changes is None:
            self._rows.setdefault(node.name, []).append(weighted)
            return
        weights = self._paid(node, columns, integers(weighted.column(WEIGHT)))
        missing = changes.add(columns, weights)
        self._missing += [(node.name, row) for row in missing]

    def _paid(self, node: Table, columns: pa.Table, weights: Int64s) -> Int64s:
        """The weights of rows less those that were removed before they came."""
        owed = [each for each in self._missing if each[0] == node.name]
        if not owed:
            return weights
        weights = weights.copy()
        values = list(values_of(columns))
        for each in owed:
            (value,) = values_of(each[1])
            for number, other in enumerate(values):
                if weights[number] > 0 and value == other:
                    weights[number] -= 1
                    self._missing = [m for m in self._missing if m is not each]
                    break
        return weights


def _is_number(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _weighted(columns: pa.Table, weight: int | pa.Array) -> pa.Table:
    if isinstance(weight, int):
        weight = pa.array(np.full(len(columns), weight, dtype=np.int64))
    return columns.add_column(0, WEIGHT, weight)


def _stored(table: pa.Table, node: Table) -> pa.Table:
    """Collected columns in exactly the stored types."""
    return table.cast(payload_schema(node.schema))


def _last_of_each_key(columns: pa.Table, node: Table) -> pa.Table:
    """Of several rows with one key, the last."""
    names = [column_name(i) for i in node.key]
    if _are_distinct(columns.select(names)):
        return columns
    places = {key: row for row, key in enumerate(keys_of(columns, node.key))}
    if len(places) == len(columns):
        return columns
    return columns.take(pa.array(sorted(places.values())))


def _with_equal_keys(old: pa.Table, fresh: pa.Table, node: Table) -> pa.Table:
    """The rows of `old` whose key really is one of `fresh`; equal hashes may deceive."""
    names = [column_name(i) for i in node.key]
    place = np.searchsorted(integers(fresh.column(KEY)), integers(old.column(KEY)))
    beside = fresh.select(names).take(pa.array(place))
    if beside.equals(old.select(names)):
        return old
    wanted = set(keys_of(fresh, node.key))
    return old.filter(pa.array([key in wanted for key in keys_of(old, node.key)]))


def _are_distinct(keys: pa.Table) -> bool:
    """Whether no two keys are equal for certain; floats and nested values are not looked at."""
    types = keys.schema.types
    if any(pa.types.is_floating(type_) or pa.types.is_nested(type_) for type_ in types):
        return False
    return len(keys.group_by(keys.column_names, use_threads=False).aggregate([])) == len(keys)


def _estimate(frame: DataFrame) -> int | None:
    """Rows of a frame by the optimiser's guess; None where it has no idea."""
    try:
        statistics = frame._jdf.queryExecution().optimizedPlan().stats()
    except (Py4JJavaError, PySparkException) as error:  # Constants are computed here.
        raise spark_error(error) from error
    known = statistics.rowCount()
    if known.isDefined():
        return int(str(known.get()))
    size = int(str(statistics.sizeInBytes()))
    return None if size > 2**50 else size // (16 * len(frame.columns))
