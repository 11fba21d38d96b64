"""What tables and views hold: now, within a transaction, as of an epoch, and recomputed."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from rekindle.catalyst.jvm import JavaObject, analysed_plan, simple_name
from rekindle.catalyst.types import struct_of
from rekindle.circuit.nodes import Table
from rekindle.columns import column_name
from rekindle.errors import DefinitionError, HistoryError, UnsupportedError
from rekindle.frontends.catalog import ContentsOf, mentioned
from rekindle.frontends.spark_sql.analyse import resolve
from rekindle.frontends.spark_sql.clock import CLOCK, at_instant
from rekindle.names import HIDDEN, quoted
from rekindle.nested.levels import Level
from rekindle.runtime.connection import Connection, view_of
from rekindle.runtime.engine import altered
from rekindle.runtime.epochs.instants import instant_of
from rekindle.runtime.epochs.state import Entry, State, TableEntry, ViewEntry
from rekindle.runtime.models.definition import ModelDefinition
from rekindle.runtime.models.model import Model
from rekindle.runtime.nested.lazy_rows import LazyRows
from rekindle.runtime.nested.shredded import RowsOf, level_of, nested, standing_for
from rekindle.runtime.nested.stored_parts import Nested
from rekindle.runtime.nested.table_feed import changed_rows
from rekindle.runtime.nested.view_feed import changed_nested_rows
from rekindle.runtime.reading.arrow import ArrowReader, Where
from rekindle.runtime.reading.conditions import filter_over, lookup_in
from rekindle.runtime.reading.subscriptions import Callback, Committed, Following, Subscription
from rekindle.runtime.transactions.transaction import Transaction
from rekindle.runtime.views.factorised import Factorised, expanded
from rekindle.spark.frames import of_table, spark_schema
from rekindle.traces.arrays import KEY, WEIGHT, integers

_ALIAS = "org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias"
_COMMITS = pa.schema(
    [
        pa.field("_epoch", pa.int64(), False),
        pa.field("_commit_timestamp", pa.timestamp("us", "UTC"), False),
    ]
)


@dataclass(frozen=True, slots=True)
class Committing:
    """The states that a connection has, which wakes up those who wait for the next one."""

    connection: Connection

    @contextmanager
    def held(self) -> Iterator[ArrowReader]:
        """The newest state, whose files stay for the time of a block."""
        engine = self.connection.engine
        state = engine.begin()
        try:
            yield ArrowReader(state, engine.store)
        finally:
            engine.snapshots.release(state.epoch)

    def wait(self, epoch: int, seconds: float) -> None:
        """Return when there is an epoch after this one, or after so many seconds."""
        engine = self.connection.engine
        with engine.committed:
            engine.committed.wait_for(lambda: engine.state.epoch > epoch or self.is_closed, seconds)

    @property
    def is_closed(self) -> bool:
        # The connection is closed to others before the last of them is committed.
        return self.connection.engine.commits.is_closed


@dataclass(frozen=True, slots=True)
class LookedUp:
    """Some rows of a nested table or view, found in its files."""

    connection: Connection
    state: State
    entry: Entry
    epoch: int | None = None

    def rows(self, condition: Callable[[DataFrame], DataFrame]) -> DataFrame | None:
        """The rows among which are all that a condition holds of, if it says which to look up."""
        entry, contents = self.entry, self.connection.contents
        assert entry.level is not None
        parts = Nested.of(self.state, entry.level, self.epoch)
        top = parts.top
        wanted = struct_of(entry.schema)
        if not _is_plain(parts.columns, wanted):
            return None
        nothing = self.connection.spark.createDataFrame(parts.columns.empty_table(), wanted)
        lookup = lookup_in(
            analysed_plan(condition(nothing)),
            top.schema,
            top.trace.layout.payload,
        )
        declared = entry.declared if isinstance(entry, TableEntry) else {}
        if lookup is None or any(place in declared for place, _ in lookup.wanted):
            return None
        found = parts.rows(self.connection.engine.store, lookup)
        names = [column_name(i) for i in range(len(entry.schema))]
        found = found.rename_columns(names)
        if self.epoch is not None:
            return contents.of_rows(entry.schema, found)
        rows = contents.of_rows(entry.schema, found, top.name)
        return standing_for(self.connection.catalyst, entry.name, rows)


def _is_plain(columns: pa.Schema, wanted: StructType) -> bool:
    """Does Spark read these columns of Arrow in the very types that are wanted?"""
    try:
        read = spark_schema(columns)
    except PySparkException:
        return False
    return _without_nulls(read) == _without_nulls(wanted)


def _without_nulls(struct: StructType) -> list[str]:
    """The names and types of columns, whether or not there may be NULLs."""
    return [f"{field.name} {field.dataType.simpleString()}" for field in struct.fields]


@dataclass(frozen=True, slots=True)
class DataReader:
    """Reads the tables and views of one connection."""

    connection: Connection

    def table(
        self, name: str, epoch: int | None, timestamp: dt.datetime | dt.date | str | None
    ) -> DataFrame:
        """The contents as the open transaction sees them, or as of an epoch or a time."""
        connection = self.connection
        engine = connection.refreshed()
        if timestamp is not None:
            if epoch is not None:
                raise one_moment()
            instant = instant_of(connection.spark, timestamp)
            epoch = engine.state.epoch_at(instant, str(timestamp), engine.store)
        return self._contents(engine.state, name, epoch)

    def _contents(self, state: State, name: str, epoch: int | None = None) -> DataFrame:
        """The contents in a state, or as the open transaction sees them, if there is one."""
        connection = self.connection
        transaction = connection.sessions.transaction
        if epoch is None and transaction is not None:
            return self._seen(name, transaction)
        entry = state.entry(name)
        if entry.level is None or entry.name in connection.engine.untrusted.reasons:
            return self.committed(state, name, epoch)
        return self._lazily(state, entry, epoch)

    def _lazily(self, state: State, entry: Entry, epoch: int | None) -> DataFrame:
        """Nested rows of which a condition may choose some before they are put together."""
        found = LookedUp(self.connection, state, entry, epoch)
        if epoch is not None:
            assert entry.level is not None
            for name in (entry.name, *(part.view for _, part in entry.level.paths())):
                state.undone(name, epoch)  # An epoch that cannot be read is refused now.
        snapshots = self.connection.engine.snapshots
        snapshots.hold(state.epoch)
        return LazyRows(
            self.connection.spark,
            partial(self.committed, state, entry.name, epoch),
            found.rows,
            partial(snapshots.release, state.epoch),
        )

    def committed(self, state: State, name: str, epoch: int | None = None) -> DataFrame:
        """The contents of a table or view in a state, or as of an earlier epoch."""
        entry, contents = state.entry(name), self.connection.contents
        level = level_of(entry)
        if level is not None:
            rows = self._nested(level, lambda part: self.committed(state, part, epoch))
            return rows if epoch is not None else self._standing_for(entry.name, rows)
        if isinstance(entry, ViewEntry) and entry.factorisation is not None:
            return expanded(state, entry, contents, epoch)
        undone = None if epoch is None else state.undone(entry.name, epoch)
        leaf = entry.name if epoch is None else None
        return contents.table(leaf, entry.schema, state.traces[entry.node], undone)

    def _nested(self, level: Level, rows_of: RowsOf) -> DataFrame:
        """Nested rows over those of the parts."""
        return nested(self.connection.catalyst, self.connection.leaves, level, rows_of)

    def _standing_for(self, name: str, rows: DataFrame) -> DataFrame:
        return standing_for(self.connection.catalyst, name, rows)

    def shredded(self, name: str) -> dict[str, DataFrame]:
        """The flat collections of a nested table or view, by the paths that lead to them."""
        state = self.connection.refreshed().state
        level = level_of(state.entry(name))
        if level is None:
            return {"": self._contents(state, name)}
        return {path: self._contents(state, each.view) for path, each in level.paths()}

    def _seen(self, name: str, transaction: Transaction) -> DataFrame:
        """The contents when a transaction began, or when they were made since, with its changes.

        A view that reads what the transaction has changed is recomputed by Spark.
        """
        engine, held = self.connection.engine, self.connection.contents
        snapshot, now = transaction.snapshot, engine.state
        state = snapshot if snapshot.knows(name) else now
        entry = state.entry(name)
        current = now.entries.get(entry.name)
        if current is None or current.node != entry.node:
            raise altered(entry.name)
        level = level_of(entry)
        if level is not None:
            rows = self._nested(level, lambda part: self._seen(part, transaction))
            if isinstance(entry, TableEntry):
                rows = held.cut(rows, entry.schema)
            return self._standing_for(entry.name, rows)
        if isinstance(entry, TableEntry):
            node = transaction.node(entry.name)
            pending, trace = transaction.pending(node), transaction.trace(node)
            return held.table(entry.name, entry.schema, trace, pending=pending)
        stays = entry.name in engine.untrusted.reasons
        if stays or transaction.changed.isdisjoint(engine.tables_under(entry.name)):
            return self.committed(state, entry.name)
        read = engine.sources_of(entry.name)

        def contents(source: str) -> DataFrame:
            # A query may mention a name, even the view's own, that is no table or view in it.
            within = source not in (entry.name, entry.part_of)
            if source in read or (within and not parts_of(state, source).isdisjoint(read)):
                return self._seen(source, transaction)
            return self.committed(state, source)

        return held.cut(self.recomputed(entry, contents), entry.schema)

    def changes(self, name: str, since: int) -> DataFrame:
        """The changes after an epoch, with `_epoch` and `_weight`."""
        state = self.connection.refreshed().state
        entry = state.entry(name)
        if isinstance(entry, TableEntry) and entry.level is not None:
            rows_of = partial(self.committed, state)
            return changed_rows(self.connection, state, entry, since, rows_of)
        if isinstance(entry, ViewEntry) and entry.level is not None:
            rows_of = partial(self.committed, state)
            return changed_nested_rows(self.connection, state, entry, since, rows_of)
        if isinstance(entry, ViewEntry) and entry.factorisation is not None:
            raise UnsupportedError(
                f"the changes of '{entry.name}' are not kept: it is factorised",
                hint="leave out representation = 'factorised' for a view whose changes you read",
            )
        return self.connection.contents.changes(
            entry.schema, state.traces[entry.node], state.changes(entry.name, since)
        )

    def commits(self, since: int) -> DataFrame:
        """When each retained epoch after `since` was committed."""
        engine = self.connection.refreshed()
        engine.state.refuse_uncommitted(since)
        first = max(int(since) + 1, engine.state.horizon)
        found = [
            pa.table([epochs, pa.array(instants).cast(_COMMITS.types[1])], schema=_COMMITS)
            for epochs, instants in engine.state.times.known(engine.store, first)
        ]
        whole = pa.concat_tables([_COMMITS.empty_table(), *found])
        return of_table(self.connection.spark, whole)

    def arrow(
        self,
        name: str,
        epoch: int | None,
        timestamp: dt.datetime | dt.date | str | None,
        where: Where | None,
    ) -> pa.Table:
        """The committed contents, now or as of an epoch or a time, from the files."""
        with self._held() as reader:
            if timestamp is not None:
                if epoch is not None:
                    raise one_moment()
                instant = instant_of(self.connection.spark, timestamp)
                epoch = reader.state.epoch_at(instant, str(timestamp), reader.store)
            return reader.table(name, epoch, where)

    def changes_arrow(self, name: str, since: int) -> pa.Table:
        """The changes after an epoch, from the files."""
        with self._held() as reader:
            return reader.changes(name, since)

    def subscription(self, name: str, callback: Callback | None, since: int | None) -> Subscription:
        """The changes after an epoch, handed on as they are committed."""
        connection = self.connection
        engine = connection.refreshed()
        committed: Committed = (
            Committing(connection)
            if connection.is_writable
            else Following(engine.store, engine.state, lambda: connection.is_closed)
        )
        return Subscription(committed, name, since, callback)

    @contextmanager
    def _held(self) -> Iterator[ArrowReader]:
        """The committed state, whose files stay for the time of a block."""
        self.connection.refreshed()
        with Committing(self.connection).held() as reader:
            yield reader

    def factorised(self, name: str) -> Factorised:
        """A view that is kept factorised."""
        entry = self.connection.refreshed().state.entry(name)
        if not isinstance(entry, ViewEntry) or entry.factorisation is None:
            raise DefinitionError(
                f"'{name}' is not kept factorised",
                hint="create it with OPTIONS (representation = 'factorised')",
            )
        return Factorised(
            entry, lambda: self.connection.refreshed().state, self.connection.engine.store
        )

    def model(self, name: str) -> Model:
        """A model by its name."""
        entry = self.connection.engine.state.entry(name)
        definition = entry.definition if isinstance(entry, ViewEntry) else None
        if not isinstance(definition, ModelDefinition):
            raise DefinitionError(
                f"'{name}' is not a model", hint="make one with db.create_model(...)"
            )
        return Model(name, definition.spec, lambda: self.table(name, None, None))

    # ---- queries ---------------------------------------------------------------------------

    def query(
        self,
        plan: JavaObject,
        frame: DataFrame | None = None,
        node: Table | None = None,
        resolve: Callable[..., Any] = resolve,
    ) -> Any:
        """An unresolved plan over current contents; `frame` may stand for the table `node`.

        All that it reads is as of one epoch, whatever is committed meanwhile.
        """
        leaves = self.connection.leaves
        scope = {}
        written = str(plan.toString())
        names = mentioned(plan, leaves.plans)
        state = self.connection.refreshed().state
        for name in names:
            if HIDDEN in name and name not in written:
                continue  # A part, which has the words of what it is a part of.
            given = frame is not None and node is not None and name == node.name
            rows = frame
            if not given:
                rows = self._chosen_in(state, plan, name) or self._contents(state, name)
            assert rows is not None
            scope[name] = analysed_plan(rows)
        return resolve(self.connection.catalyst, plan, scope, leaves.plans)

    def _chosen_in(self, state: State, plan: JavaObject, name: str) -> DataFrame | None:
        """The rows of a nested table or view that a query asks for, if it says which right away."""
        connection = self.connection
        entry = state.entry(name)
        if entry.level is None or connection.sessions.transaction is not None:
            return None
        over = filter_over(plan, name)
        if over is None:
            return None
        catalyst, below = connection.catalyst, over.child()
        alias = below.alias() if simple_name(below) == "SubqueryAlias" else name

        def condition(rows: DataFrame) -> DataFrame:
            named = catalyst.module(_ALIAS).apply(alias, analysed_plan(rows))
            return catalyst.dataframe(catalyst.plan("Filter")(over.condition(), named))

        try:
            return LookedUp(connection, state, entry).rows(condition)
        except (AnalysisException, Py4JJavaError):
            return None  # It is wrong, or asks for what is around it: all rows show that.

    def rows_of_keys(self, node: Table, columns: pa.Table) -> DataFrame:
        """The table's rows whose primary keys stand in `columns`, as the transaction sees them."""
        weight = pa.array([1] * len(columns), pa.int64())
        engine = self.connection.engine
        transaction = self.connection.sessions.transaction
        assert transaction is not None, "statements that change rows run in one"
        changes = transaction.nested_changes(node)
        if changes is not None:
            stored = changes.find(columns, transaction.reader)
            rows = stored.nested_rows(changes.nested.top, range(len(stored.top)))
            return self.connection.contents.of_rows(node.schema, rows)
        arranged = engine.arranged(node, columns.add_column(0, WEIGHT, weight))
        keys = sorted(set(integers(arranged.column(KEY)).tolist()))
        found, _ = transaction.reader(node).probe(integers(pa.array(keys, pa.int64())))
        return self.connection.contents.of_table(node.name, node.schema, found)

    # ---- from scratch ----------------------------------------------------------------------

    def recompute(self, name: str) -> DataFrame:
        """A view's definition, evaluated by Spark on the current tables."""
        state = self.connection.refreshed().state
        return self.recomputed(view_of(state, name), lambda source: self.committed(state, source))

    def recomputed_parts(self, entry: ViewEntry, read: ContentsOf) -> dict[str, DataFrame]:
        """The parts of a nested view from scratch, each over those before it."""
        state = self.connection.engine.state
        found: dict[str, DataFrame] = {}

        def contents(source: str) -> DataFrame:
            return found[source] if source in found else read(source)

        for part in state.parts(entry.name):
            assert isinstance(part, ViewEntry)
            found[part.name] = self.recomputed(part, contents)
        return found

    def recomputed(self, entry: ViewEntry, read: ContentsOf) -> DataFrame:
        """A view's definition over what `read` gives for the tables and views that it names."""
        connection = self.connection
        level = level_of(entry)
        if level is not None:
            parts = self.recomputed_parts(entry, read)
            return self._nested(level, lambda part: parts[part] if part in parts else read(part))
        connection.refuse_untrusted(entry.name, "recomputed")
        entry = connection.restoring.registered.get(entry.name, (entry, None))[0]
        known = connection.engine.sources_of(entry.name)

        def contents(source: str) -> DataFrame:
            """A table with the columns that it had when the view was defined."""
            rows = read(source)
            schema = known.get(source) or known.get(self._top_of(source))
            if schema is None:
                return rows
            return rows.select(*map(quoted, rows.columns[: len(schema)]))

        with at_instant(self._instant(known, read)):
            return connection.definitions.recomputation(entry, contents)

    def _instant(self, known: Container[str], read: ContentsOf) -> int | None:
        """What the clock shows, in microseconds, to who asks for it."""
        if CLOCK not in known:
            return None
        (row,) = read(CLOCK).select(F.unix_micros("now").alias("instant")).collect()
        return int(row.instant)

    def _top_of(self, name: str) -> str:
        """The part that has the columns of a nested table."""
        entry = self.connection.engine.state.entries.get(name)
        level = None if entry is None else level_of(entry)
        return "" if level is None or not isinstance(entry, TableEntry) else level.view


def one_moment() -> HistoryError:
    """The error for contents of which two moments are named."""
    return HistoryError("contents are as of an epoch or as of a time", hint="leave one of them out")


def parts_of(state: State, name: str) -> set[str]:
    """The flat collections of a table or view that is nested."""
    entry = state.entries.get(name)
    level = None if entry is None else level_of(entry)
    return set() if level is None else {each.view for _, each in level.paths()}
