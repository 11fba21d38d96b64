"""The public face: a database of tables and views that are always fresh.

Each call is passed on to the part that does it:

    ddl.py           tables, views and models: creating, altering, dropping
    sql.py           statements in SQL
    transactions.py  changes of tables
    reading.py       contents, changes, models
    checking.py      views against their recomputation
    explaining.py    how views are kept
    streaming/       streams into tables
    operations.py    history and files, stale and untrusted views, verifying, backups
    connection.py    what all of these share
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from rekindle.circuit.costs import Refresh
from rekindle.circuit.explain import Explanation
from rekindle.errors import DefinitionError, StatementError
from rekindle.frontends.iteration import LIMIT
from rekindle.frontends.mrql.front_end import Mrql
from rekindle.frontends.spark_sql.commands import command
from rekindle.frontends.spark_sql.parameters import Arguments
from rekindle.redaction import without_secrets
from rekindle.runtime import arguments
from rekindle.runtime.arguments import one_of, optional_text, positive, seconds, text
from rekindle.runtime.connection import Connection
from rekindle.runtime.engine import LastStep
from rekindle.runtime.epochs.history import FOREVER
from rekindle.runtime.epochs.instants import instant_of
from rekindle.runtime.epochs.state import TableEntry, ViewEntry
from rekindle.runtime.explaining import explain_entry
from rekindle.runtime.models.model import Model
from rekindle.runtime.mrql_face import MrqlFace
from rekindle.runtime.places import database_place
from rekindle.runtime.reading.arrow import Where
from rekindle.runtime.reading.files_out import write_files
from rekindle.runtime.reading.reading import DataReader
from rekindle.runtime.reading.subscriptions import Callback, Subscription
from rekindle.runtime.session import require_classic
from rekindle.runtime.statements.ddl import DataDefinition
from rekindle.runtime.statements.definition_text import definition_text
from rekindle.runtime.statements.dml import Statements
from rekindle.runtime.statements.sql import SqlFace
from rekindle.runtime.streaming.definition import StreamDefinition
from rekindle.runtime.streaming.given import read_given, read_together
from rekindle.runtime.streaming.handle import Stream
from rekindle.runtime.streaming.mrql_streams import create_over_streams
from rekindle.runtime.streaming.streams import StreamInfo, Streams
from rekindle.runtime.time.tables import Interval, Watermark, length_of, timed_by, watermark_of
from rekindle.runtime.time.timer import ClockTimer
from rekindle.runtime.transactions.opening import Transactions
from rekindle.runtime.transactions.transaction import Transaction
from rekindle.runtime.trust import Trust
from rekindle.runtime.upkeep.backup import Backup
from rekindle.runtime.upkeep.check import CheckReport
from rekindle.runtime.upkeep.checking import Checking
from rekindle.runtime.upkeep.operations import Operations, retention
from rekindle.runtime.upkeep.verify import Verification
from rekindle.runtime.views.creating import Given, wanted
from rekindle.runtime.views.factorised import LISTING, Factorised
from rekindle.runtime.views.restoring import Progress, silent
from rekindle.spark.preflight import Access
from rekindle.spark.step import Placement
from rekindle.traces.faults import named_by_path


class Database:
    """Tables, views over them, and the transactions that change both. Made by `connect`."""

    def __init__(self, connection: Connection) -> None:
        self.path = connection.path
        self.spark = connection.spark
        self._connection = connection
        self._engine = connection.engine
        self._reading = DataReader(connection)
        self._ddl = DataDefinition(connection, self._reading)
        self._checking = Checking(connection, self._reading)
        self._operations = Operations(connection)
        catalyst, leaves = connection.catalyst, connection.leaves
        statements = Statements(
            catalyst,
            self._engine.table_node,
            self._reading.query,
            lambda plan: command(catalyst, plan, leaves.plans),
            self._reading.rows_of_keys,
        )
        self._sql = SqlFace(
            self, catalyst, statements, lambda: self._engine.state, self._reading.query
        )
        self._mrql = MrqlFace(self, lambda: connection.definitions.catalog)
        self._transactions = Transactions(connection, statements.encode_by_name, self.sql)
        self._streams = Streams(
            connection,
            self._transactions.change,
            lambda name, schema, key: self._ddl.create_table(name, schema, key, None, None),
        )
        self._timer: ClockTimer | None = None
        self.removed = self._engine.collect() if connection.is_writable else []
        """The files that nothing needed when the connection was opened."""

    # ---- time ------------------------------------------------------------------------------

    @property
    def now(self) -> dt.datetime | None:
        """What `now()` is in views; None if the database has no clock yet."""
        time = self._connection.refreshed().time
        return None if time is None else time.datetime

    def advance_time(self, timestamp: dt.datetime | dt.date | str | None = None) -> int:
        """Move the clock that `now()` of views shows, in an epoch of its own, which is given.

        Each transaction moves it to the time of the day, until it is given a time here: from then
        on it is moved by this call alone, and never back. Without a time it is moved to that of
        the day.
        """
        self._connection.check_writable()
        if self._connection.sessions.transaction is not None:
            raise StatementError(
                "the clock cannot be moved while a transaction is open", hint="end it first"
            )
        instant = None if timestamp is None else instant_of(self.spark, timestamp)
        return self._engine.advance_time(instant)

    def follow_time(self, every: Interval = "10 seconds") -> ClockTimer:
        """Move the clock to the time of the day now and then, also while nobody changes anything.

        A timer of this connection, in the place of one that runs already; `stop()` ends it.
        """
        self._connection.check_writable()
        what = "the time between two moves of the clock"
        micros = length_of(self._connection.catalyst, what, every)
        if micros < 1000:
            raise DefinitionError(f"{what} cannot be {every}", hint="such as '10 seconds'")
        self._stop_timer()
        engine = self._engine
        self._timer = ClockTimer(lambda: engine.advance_time(None), micros / 10**6)
        return self._timer

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.stop()

    # ---- statements ------------------------------------------------------------------------

    def sql(self, statement: str, args: Arguments | None = None) -> DataFrame:
        """Run one SQL statement; gives its rows, or the epoch that it made.

        `args` has the values of its parameters: a dict for `:name`, a list for `?`.
        """
        self._connection.refreshed()
        return self._sql.run(statement, args)

    # ---- definitions -----------------------------------------------------------------------

    def create_table(
        self,
        name: str,
        schema: T.StructType | str,
        primary_key: Sequence[str] = (),
        *,
        comment: str | None = None,
        shredding: str | None = None,
        lateness: Mapping[str, Interval] | None = None,
        late: str | None = None,
        retain: Interval | None = None,
    ) -> None:
        """Create a table; `schema` is a Spark schema or its DDL text.

        Columns ARRAY<STRUCT<...>> of a table with a primary key are kept as flat tables of
        elements, to any depth, so that a change of an element moves just that. With
        `shredding="none"` they stay in their rows.

        `lateness={"ts": "5 minutes"}` says how late rows may be by the times of one column; later
        ones are left out and counted, or, with `late="keep"`, put into the table `NAME_late`, or,
        with `late="refuse"`, make their transaction fail. With `retain="30 days"` rows that are
        older than that by the watermark leave the table.
        """
        timed = timed_by(name, lateness, late, retain)
        self._ddl.create_table(name, schema, primary_key, comment, shredding, timed)

    def watermark(self, table: str) -> Watermark:
        """What the watermark of a table with a lateness is, and how many rows were late."""
        return watermark_of(self._connection.refreshed(), table)

    def add_columns(self, name: str, columns: T.StructType | str) -> None:
        """Give a table more columns, which are NULL in the rows that it has.

        Views that are there keep their columns, also those that say `SELECT *`.
        """
        self._ddl.add_columns(name, columns)

    def create_view(
        self,
        name: str,
        definition: Given,
        *,
        incremental: str = "preferred",
        policy: str | None = None,
        representation: str = LISTING,
        comment: str | None = None,
        shredding: str | None = None,
        emit: str | None = None,
        iteration: str | None = None,
    ) -> None:
        """Create a view from SQL text or from a DataFrame over `db.table(...)`, and fill it.

        `rekindle.fixpoint`, `rekindle.comprehension`, `rekindle.mrql` and `rekindle.agca` make
        definitions of other kinds.

        With `incremental="required"` a view of which a part would be recomputed as a whole at
        every change is refused. A policy says what an aggregate over joins keeps; without one it
        is chosen by what each would keep. With `policy="view_tree"` it keeps partial
        aggregates and never the join; with `policy="higher_order"` also those that a change of
        each table meets. With `representation="factorised"` a join is kept along a variable order
        and never listed; `db.factorised(name)` counts and enumerates it. With `shredding="none"`
        the inner collections of a comprehension are arrays in their rows, not dictionaries; with
        `"partial"` those are whose size is small now. With `emit="on window close"` rows are shown
        when their window is closed, and never change. With `iteration="exact"`, as without, a
        view by iteration is what its query gives from scratch; `"approximate"` is refused.
        """
        kept = wanted(incremental, policy, representation, comment, shredding, emit, iteration)
        if not isinstance(definition, Mrql):
            self._ddl.create_view(name, definition, kept)
            return
        create_over_streams(
            self,
            self._connection.definitions.catalog,
            name,
            self._with_definitions(definition),
            lambda given: self._ddl.create_view(name, given, kept),
        )

    def replace_view(
        self,
        name: str,
        definition: Given,
        *,
        incremental: str = "preferred",
        policy: str | None = None,
        representation: str = LISTING,
        comment: str | None = None,
        shredding: str | None = None,
        emit: str | None = None,
        iteration: str | None = None,
    ) -> None:
        """Give a view that no other view reads a new definition, in one epoch.

        What the old definition and the new one have in common is kept and not built again.
        """
        self._ddl.replace_view(
            name,
            self._with_definitions(definition) if isinstance(definition, Mrql) else definition,
            wanted(incremental, policy, representation, comment, shredding, emit, iteration),
        )

    def create_model(
        self,
        name: str,
        query: str | DataFrame,
        *,
        features: Sequence[str],
        label: str | None = None,
        kind: str = "linear",
        penalty: float | None = None,
        degree: int = 1,
        categorical: Sequence[str] = (),
    ) -> None:
        """Create a model of columns of a query, SQL text or a DataFrame over `db.table(...)`.

        `linear` and `ridge` are regressions of the label on the features, with `degree=2` also on
        the products of two; `pca` has principal components; `chow_liu` relates categories. Features
        that are no numbers, and those in `categorical`, are categories.

        Its sums are a view of that name; `db.model(name)` gives the model as it is then. A row with
        a NULL in one of the columns has no part in it.
        """
        self._ddl.create_model(
            name,
            query,
            features=features,
            label=label,
            kind=kind,
            penalty=penalty,
            degree=degree,
            categorical=categorical,
        )

    def model(self, name: str) -> Model:
        """A model by its name."""
        return self._reading.model(name)

    def datalog(self, program: str, *, iterations: int = LIMIT) -> list[str]:
        """Create a view for each relation that the rules of a Datalog program define, in one epoch.

        Gives their names. A step whose recursion takes more than so many iterations is undone.
        """
        return self._ddl.datalog(program, iterations)

    def mrql(self, script: str) -> list[Any]:
        """Run a script in MRQL; gives the results of its expressions, in order.

        A collection that is made from tables or views is a DataFrame, any other value is Python's.
        Definitions last as long as the connection, and `rekindle.mrql` sees them; `store v := e`
        keeps a value in the database.
        """
        self._connection.refreshed()
        return self._mrql.run(text("a script", script))

    def _with_definitions(self, given: Mrql) -> Mrql:
        self._connection.refreshed()
        return given if given.definitions else self._mrql.with_definitions(given)

    def define(self, name: str, definition: str) -> None:
        """Name a function for comprehensions, such as `"(m, n) -> n.gen = m.gen"`.

        It is used as `name(a, b)`, in conditions and in what is yielded, on rows, scalars or
        collections. Its body may use tables, aggregates, comprehensions and other functions.
        """
        self._ddl.define(name, definition)

    def redefine(self, name: str, definition: str) -> None:
        """Give a function another definition.

        The views that use it, also through other functions and views, follow in the same epoch, by
        what differs: their changes are the rows on which the two definitions disagree. If the new
        definition does not fit one of them, or fails on a row, nothing changes.
        """
        self._ddl.redefine(name, definition)

    def drop_function(self, name: str) -> None:
        """Drop a function that no view and no other function uses."""
        self._ddl.drop_function(name)

    @property
    def functions(self) -> dict[str, str]:
        """The functions that were defined for comprehensions, by their names."""
        return dict(self._connection.refreshed().state.functions)

    def drop_table(self, name: str) -> None:
        """Drop a table that no view reads."""
        self._ddl.drop(name, TableEntry)

    def drop_view(self, name: str) -> None:
        """Drop a view that no other view reads, and free its state."""
        self._ddl.drop(name, ViewEntry)

    @property
    def tables(self) -> list[str]:
        """Names of the tables."""
        return [e.name for e in self._engine.state.shown if isinstance(e, TableEntry)]

    @property
    def views(self) -> list[ViewName]:
        """Names of the views; the name of a stale one says so."""
        stale = self._engine.stale.shown(self._engine.state)
        views = (e for e in self._engine.state.shown if isinstance(e, ViewEntry))
        return [ViewName(e.name, stale.get(e.name, "")) for e in views]

    def definition(self, name: str) -> str:
        """What a table or view was defined by: SQL text, or a text that says what it is."""
        engine = self._connection.refreshed()
        entry = engine.state.entry(name)
        sources = engine.sources_of(entry.name) if isinstance(entry, ViewEntry) else ()
        return definition_text(entry, tuple(sources))

    # ---- changes ---------------------------------------------------------------------------

    def transaction(self, *, timeout: float | None = None) -> Transaction:
        """Begin a transaction of this thread or asyncio task; it commits at the end of its block.

        It reads the database as of now, and its own changes. With a `timeout` in seconds it is
        rolled back when it is not committed by then.
        """
        return self._transactions.begin(timeout)

    def change(self, work: Callable[[Transaction], None]) -> int | None:
        """Let `work` change tables, in the open transaction or in one of its own; gives its epoch.

        Work by itself that meets with a conflict is done again, in the end while others wait; it
        must do nothing but change tables.
        """
        return self._transactions.change(work)

    def stream(
        self,
        table: str,
        frame: DataFrame,
        mode: str = "append",
        *,
        name: str | None = None,
        checkpoint: str | None = None,
        weight: str | None = None,
        operation: str | None = None,
        deletes: DataFrame | None = None,
        keys: Sequence[str] | None = None,
        sequence_by: str | None = None,
        apply_as_deletes: str | None = None,
        except_columns: Sequence[str] = (),
        rejects: bool = False,
        interval: str | None = None,
        available_now: bool = False,
    ) -> Stream:
        """Let a streaming DataFrame change a table: each micro-batch is one epoch, exactly once.

        `append` inserts rows. `changes` takes a column `weight` of whole numbers, a column
        `operation` (insert, update, delete, Debezium's c, u, d, r, or images of updates), or a
        second stream of `deletes`. `upsert` replaces rows by the primary key; with `sequence_by` a
        row that comes late does not replace a newer one, and rows with `apply_as_deletes`, a
        condition in SQL, delete.

        The stream goes by its `name`, by default that of the table, and goes on where it was when
        it is started again. With `rejects`, rows that do not fit go to `<table>_rejected`.
        Batches come as fast as they can, every `interval` ("5 seconds"), or until all that is
        `available_now` is there.
        """
        definition, given = read_given(
            table,
            {
                **{"frame": frame, "mode": mode, "weight": weight, "operation": operation},
                **{"deletes": deletes, "keys": keys, "sequence_by": sequence_by},
                **{"apply_as_deletes": apply_as_deletes, "except_columns": except_columns},
                "rejects": rejects,
            },
        )
        return self._streams.start(
            name, _triggered(definition, interval, available_now, checkpoint), [given]
        )

    def stream_together(
        self,
        name: str,
        rows: Mapping[str, DataFrame | Mapping[str, Any]],
        *,
        checkpoint: str | None = None,
        interval: str | None = None,
        available_now: bool = False,
    ) -> Stream:
        """Let streaming DataFrames change several tables, all in one epoch a micro-batch.

        `rows` has for each table a DataFrame, or a dict with it as `frame` and with what
        `db.stream` takes to say how its rows change the table: `mode`, `operation`, `sequence_by`,
        `rejects` and so on. The sources are read by one query: a batch has what is new in each of
        them, and is there in all tables or in none.
        """
        definition, given = read_together(rows)
        triggered = _triggered(definition, interval, available_now, checkpoint)
        return self._streams.start(text("the name of a stream", name), triggered, given)

    def create_stream(self, name: str, definition: StreamDefinition) -> Stream:
        """Start a stream whose source is a format with options: what `CREATE STREAM` does."""
        if not isinstance(definition, StreamDefinition) or definition.source is None:
            raise DefinitionError(
                f"stream {name!r} is not defined by a format with options",
                hint="use CREATE STREAM, or db.stream with a streaming DataFrame",
            )
        return self._streams.create(name, definition)

    @property
    def streams(self) -> list[StreamInfo]:
        """The streams into tables: their names, tables, modes, statuses, sources and offsets."""
        return self._streams.listed()

    def running_stream(self, name: str) -> Stream:
        """The handle of a stream that this connection has started, also by `CREATE STREAM`."""
        return self._streams.handle(text("the name of a stream", name))

    def resume_streams(
        self,
        frames: Mapping[str, DataFrame | tuple[DataFrame, DataFrame] | Mapping[str, Any]]
        | None = None,
    ) -> dict[str, Stream]:
        """Start every stream of the database that does not run, where it was.

        Those that were made by `CREATE STREAM` are rebuilt; the others need their DataFrame again,
        by their names (with the one of `deletes` as a pair, of several tables as a dict).
        """
        if frames is not None:
            arguments.mapping("the DataFrames of streams", frames)
        return self._streams.resume(frames or {})

    def drop_stream(self, name: str) -> None:
        """Stop a stream and forget how far it was read; the rows that it brought stay."""
        self._streams.drop(text("the name of a stream", name))

    @property
    def epoch(self) -> int:
        """The number of the last committed epoch."""
        return self._connection.refreshed().state.epoch

    @property
    def offsets(self) -> dict[str, str | None]:
        """How far each source of changes has been read; None where a restore made it unknown."""
        offsets = self._connection.refreshed().state.offsets
        return {source: offset.text for source, offset in offsets.items()}

    @property
    def last_step(self) -> LastStep | None:
        """What the last transaction of this connection did, node by node."""
        return self._engine.last

    def place(self, placement: str | None) -> None:
        """Force where steps run, 'inline' or 'spark'; None lets each step decide."""
        if placement is not None:
            one_of("placement", placement, [each.value for each in Placement])
        self._engine.placing.forced = None if placement is None else Placement(placement)

    def refresh_by(self, refresh: str | None) -> None:
        """Force how steps refresh views, 'incremental' or 'full'; None lets each step decide."""
        if refresh is not None:
            one_of("refresh", refresh, [each.value for each in Refresh])
        self._engine.forced = None if refresh is None else Refresh(refresh)

    # ---- reading ---------------------------------------------------------------------------

    def table(
        self,
        name: str,
        epoch: int | None = None,
        *,
        timestamp: dt.datetime | dt.date | str | None = None,
    ) -> DataFrame:
        """The contents of a table or view, as the open transaction sees them or as of an epoch.

        A timestamp stands for the last epoch that was committed at that time or before it; without
        a zone it is in that of the Spark session.
        """
        return self._reading.table(name, epoch, timestamp)

    def shredded(self, name: str) -> dict[str, DataFrame]:
        """The flat collections that stand for a nested table or view, by their paths.

        `""` is the top, with labels in the place of inner collections; `"orders"` has the elements
        of the collections of that column, each after its `_label`; `"orders.lines"` those in them.
        """
        return self._reading.shredded(name)

    def changes(self, name: str, since: int = 0) -> DataFrame:
        """The changes of a table or view after an epoch: its columns, `_epoch` and `_weight`."""
        return self._reading.changes(name, since)

    def arrow(
        self,
        name: str,
        epoch: int | None = None,
        *,
        timestamp: dt.datetime | dt.date | str | None = None,
        where: Where | None = None,
    ) -> pa.Table:
        """The committed contents of a table or view as an Arrow table, without a Spark job.

        `where` looks rows up by the values of columns, such as `{"id": 77}` or `{"id": [77, 78]}`:
        by the primary key at a cost of the rows that are found. What an open transaction has
        changed is not in it.
        """
        return self._reading.arrow(name, epoch, timestamp, where)

    def changes_arrow(self, name: str, since: int = 0) -> pa.Table:
        """The changes of a table or view after an epoch as an Arrow table, without a Spark job."""
        return self._reading.changes_arrow(name, since)

    def subscribe(
        self, name: str, callback: Callback | None = None, since: int | None = None
    ) -> Subscription:
        """The changes of a table or view, at once after each commit and without a Spark job.

        `callback(batch)` is called in a thread of its own, once for each epoch that changed it, in
        their order; without one this is an iterator of batches. A batch has `epoch`, `table` (an
        Arrow table with `_epoch` and `_weight`) and `timestamp`. It begins after the epoch `since`,
        by default after the newest. A callback that raises ends its subscription, whose `error`
        says why, and nothing else.
        """
        return self._reading.subscription(name, callback, since)

    def write_files(self, name: str, directory: str | os.PathLike[str]) -> Subscription:
        """The rows of a table or view as files of a directory, one for each epoch that changes it.

        `epoch-00000012.txt` has all rows as they are after epoch 12, one a line in the notation of
        MRQL; the first file has those of now. Given a directory with such files it goes on after
        the newest, so that each epoch has its file once, also after a kill. It is a subscription:
        `wait()` waits for the files of what was committed, `close()` ends it.
        """
        return write_files(self, name, Path(directory))

    def commits(self, since: int = 0) -> DataFrame:
        """When each epoch after `since` was committed: `_epoch` and `_commit_timestamp`.

        Epochs that are no longer retained are left out, and those before times were noted.
        """
        return self._reading.commits(since)

    def factorised(self, name: str) -> Factorised:
        """A view that is kept factorised: its count, its size and its tuples in batches."""
        return self._reading.factorised(name)

    def explain(self, name: str) -> Explanation:
        """How a view is kept: its nodes, their strategies, their state and their last step."""
        return explain_entry(self._connection, self._reading, name)

    def check(self, name: str) -> CheckReport:
        """Recompute a view with Spark and compare; raises `CheckError` on a difference.

        Of rows that tie at a limit or in a window's order Spark takes any. Where the view differs,
        it is recomputed once more with these ties taken as the view takes them.
        """
        return self._checking.check(name)

    def recompute(self, name: str) -> DataFrame:
        """The view's query, evaluated by Spark on the current tables, from scratch."""
        return self._reading.recompute(name)

    # ---- operations ------------------------------------------------------------------------

    @property
    def untrusted(self) -> dict[str, str]:
        """The views that are read and not followed, and why; see `connect(path, trust=True)`."""
        return self._connection.untrusted

    def register(self, name: str, definition: Given) -> None:
        """Give the definition of an untrusted view again, so that it is followed.

        It has to be what the view was made of, to the bytes of its functions: nothing stored is
        loaded, and a definition that differs is refused.
        """
        self._operations.register(name, definition)

    @property
    def stale(self) -> dict[str, str]:
        """The views whose stored plan this version cannot run, and why; see `refresh`."""
        return self._operations.stale

    def refresh(self, name: str) -> None:
        """Fill a stale view anew, and the stale ones that it reads; any other is fresh already."""
        self._operations.refresh(name)

    def upgrade(self, progress: Progress = silent) -> list[str]:
        """Fill every stale view anew and store every plan in this version's form.

        Gives the names of the views that were filled. `progress` is told the name of each before.
        """
        return self._operations.upgrade(progress)

    def vacuum(self) -> list[str]:
        """Remove files that no retained epoch needs; gives their names.

        What a step replaces goes by itself after a while, and all of it when a writer opens the
        database; this is for now, and for files still left to readers of an older epoch. How much
        history is retained is said by `retain`.
        """
        return self._operations.vacuum()

    def collect(self) -> list[str]:
        """The same as `vacuum`."""
        return self.vacuum()

    @property
    def retention(self) -> int | None:
        """For how many epochs this connection keeps changes; None when it keeps all."""
        return self._operations.retention

    def retain(self, epochs: int | str) -> None:
        """Keep the changes of so many epochs from now on, or `"all"`; the database remembers it.

        It holds for this connection too, and for later ones that do not say `retain=` themselves.
        """
        self._operations.retain(epochs)

    def verify(self) -> Verification:
        """Read every byte that the log names, present and history, and say what is damaged."""
        return self._operations.verify()

    def backup(self, target: str) -> Backup:
        """Make `target` hold the last epoch, copying what an earlier backup there lacks.

        Writing may go on meanwhile. `rekindle.restore` makes a database of it.
        """
        return self._operations.backup(target)

    # ---- the end ---------------------------------------------------------------------------

    def close(self) -> None:
        """End the connection and let another writer in. Its streams stop; Spark goes on."""
        self._stop_timer()
        try:
            self._streams.close()
        finally:
            self._connection.close()

    def __repr__(self) -> str:
        closed = self._connection.is_closed
        state = "closed" if closed else f"epoch {self._engine.state.epoch}"
        return f"<Database '{without_secrets(self.path)}', {state}>"

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _triggered(
    definition: StreamDefinition, interval: object, available_now: object, checkpoint: object
) -> StreamDefinition:
    """A stream with when its batches come, and where their notes are."""
    if available_now and interval is not None:
        raise DefinitionError(
            f"rows for '{definition.table}' come at an interval or until all are there, not both",
            hint="leave out interval= or available_now=",
        )
    return definition.triggered(
        optional_text("an interval", interval),
        bool(available_now),
        optional_text("a checkpoint", checkpoint),
    )


class ViewName(str):
    """The name of a view; `stale` has the reason if it is not followed until it is filled anew."""

    __slots__ = ("stale",)
    stale: str

    def __new__(cls, name: str, stale: str = "") -> ViewName:
        made = super().__new__(cls, name)
        made.stale = stale
        return made

    def __repr__(self) -> str:
        return super().__repr__() + (" (stale)" if self.stale else "")


@named_by_path
def connect(
    path: str,
    spark: SparkSession | None = None,
    *,
    mode: str = "write",
    retain: int | str | None = None,
    partitions: int | None = None,
    wait: float = 0.0,
    trust: bool = False,
) -> Database:
    """Open the database at `path`, or create it.

    One connection at a time may write, and another waits up to `wait` seconds for it; any number
    may read with `mode="read"`. `retain` limits the change history to so many epochs, or says
    "all"; by default it is what the database remembers (`db.retain`), which is all if it was never
    told. `partitions`, a power of two, is the number of tasks of every part of a step on Spark; by
    default each part chooses.

    A database is data: functions in Python, and whatever else in it would run code, are left alone
    unless this process made them. Views that need them can be read and are not followed;
    `db.untrusted` lists them. With `trust=True` they are run as whoever wrote the directory wants.
    """
    if not isinstance(mode, str) or mode not in ("read", "write"):
        raise DefinitionError(f"unknown mode {mode!r}", detail="available: read, write")
    if retain is not None:
        retention(retain)
    if partitions is not None and positive("partitions", partitions) & (partitions - 1):
        raise DefinitionError(
            f"partitions must be a power of two, not {partitions}", hint="such as 1, 8 or 64"
        )
    wait = seconds("wait", wait)
    if not isinstance(trust, bool):
        raise DefinitionError(f"trust is True or False, not {trust!r}")
    database_place(path)
    require_classic(spark)
    connection = Connection(
        str(path),
        spark,
        access=Access(mode),
        partitions=partitions,
        wait=wait,
        trust=Trust(trust),
    )
    try:
        connection.engine.retention = None if retain is None else retention(retain) or FOREVER
        return Database(connection)
    except BaseException:
        connection.give_up()
        raise
