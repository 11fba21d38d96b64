"""The public face: a database of tables and views that are always fresh."""

from __future__ import annotations

import datetime as dt
import secrets
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial, wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from rekindle.calculus.terms import Term
from rekindle.catalyst.jvm import Catalyst, JavaObject
from rekindle.catalyst.types import (
    check_enabled,
    check_key,
    check_storable,
    schema_of,
    struct_of,
)
from rekindle.circuit.costs import Refresh
from rekindle.circuit.explain import Explanation
from rekindle.circuit.nodes import Table
from rekindle.errors import (
    CheckError,
    ClosedError,
    ConflictError,
    ConstraintError,
    CorruptionError,
    DefinitionError,
    HistoryError,
    StaleError,
    StatementError,
    UnsupportedError,
)
from rekindle.errors import untrusted as untrusted_error
from rekindle.frontends.catalog import mentioned
from rekindle.frontends.datalog.front_end import Datalog, Program
from rekindle.frontends.iteration import LIMIT
from rekindle.frontends.spark_sql.analyse import Leaves, resolve
from rekindle.frontends.spark_sql.commands import command
from rekindle.frontends.spark_sql.parameters import Arguments
from rekindle.names import RESERVED, quoted
from rekindle.redaction import without_secrets
from rekindle.runtime import arguments
from rekindle.runtime.arguments import one_of, optional_text, text
from rekindle.runtime.backup import Backup, backup
from rekindle.runtime.check import CheckReport, Sides, compare
from rekindle.runtime.contents import Contents
from rekindle.runtime.creating import Creating, Given, Wanted
from rekindle.runtime.definition_text import definition_text
from rekindle.runtime.definitions import Definitions
from rekindle.runtime.dml import Statements
from rekindle.runtime.engine import Engine, Incremental, LastStep, altered, table_node
from rekindle.runtime.explaining import explained
from rekindle.runtime.factorised import LISTING, Factorised, expanded, is_factorised
from rekindle.runtime.feeding import Feeding
from rekindle.runtime.history import FOREVER
from rekindle.runtime.instants import instant_of
from rekindle.runtime.lease import Lease
from rekindle.runtime.lengths import is_limited, marked, stored
from rekindle.runtime.log import CommitLog
from rekindle.runtime.model_definition import ModelDefinition
from rekindle.runtime.model_front_end import Learning, Models
from rekindle.runtime.models import Model, model_spec, with_categories
from rekindle.runtime.places import database_place, placed
from rekindle.runtime.restoring import Progress, Restoring, silent
from rekindle.runtime.session import require_classic, session_for
from rekindle.runtime.sessions import Sessions
from rekindle.runtime.sql import SqlFace
from rekindle.runtime.state import Entry, State, TableEntry, ViewEntry
from rekindle.runtime.transaction import Transaction
from rekindle.runtime.trust import Trust, remember
from rekindle.runtime.verify import Verification, verify
from rekindle.runtime.view_terms import ViewTerms
from rekindle.spark.frames import Frames, of_table
from rekindle.spark.plans import Plans
from rekindle.spark.preflight import Access, check_executors
from rekindle.spark.segment import Channel
from rekindle.spark.stages import Lowering
from rekindle.spark.step import Placement
from rekindle.traces.arrays import KEY, integers
from rekindle.traces.faults import named_by_path
from rekindle.traces.store import Store

ALL = "all"
"""As many epochs as there are."""
RETRIES = 3
"""How often a statement by itself is tried beside others, before it is run while they wait."""

_COMMITS = pa.schema(
    [
        pa.field("_epoch", pa.int64(), False),
        pa.field("_commit_timestamp", pa.timestamp("us", "UTC"), False),
    ]
)

P = ParamSpec("P")
R = TypeVar("R")


def _alone(
    method: Callable[Concatenate[Database, P], R],
) -> Callable[Concatenate[Database, P], R]:
    """The method, beside which nothing is committed or defined."""

    @wraps(method)
    def call(self: Database, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self._engine.turn:
            return method(self, *args, **kwargs)

    return call


class Database:
    """Tables, views over them, and the transactions that change both. Made by `connect`."""

    def __init__(
        self,
        path: str,
        spark: SparkSession | None,
        *,
        writable: bool,
        retain: int | str | None,
        partitions: int | None = None,
        wait: float = 0.0,
        trust: bool = False,
    ) -> None:
        self.path = path
        place = database_place(path)
        store = Store(place)
        log = CommitLog(store)
        if not writable and not log.exists():
            raise DefinitionError(
                f"there is no database at '{path}'",
                hint="open it once with rekindle.connect(path) to create it",
            )
        self._lease = None
        if writable:
            store.check_creatable()
            self._lease = Lease(store, wait, log.last_fence)
            store = replace(store, writer=self._lease.token)
            log = CommitLog(store, self._lease)
        try:
            state = _opened(log, store)
            if self._lease is not None and self._lease.contested:
                state = log.take_over(state)
            self.spark = session_for(spark)
            self._catalyst = Catalyst(self.spark)
            self._leaves = Leaves(self._catalyst)
            self._frames = Frames(self._catalyst, partitions)
            access = Access.WRITE if writable else Access.READ
            self._frames.check_executors = partial(check_executors, self.spark, store, access)
            self._frames.check_executors()
            self._channel = Channel(self._catalyst)
            plans = Plans(Lowering(self._catalyst), self._channel)
            self._definitions = Definitions(self._catalyst, self._leaves, Trust(trust))
            terms = ViewTerms(self._term)
            dump = self._definitions.dumped
            self._engine = Engine(store, log, state, plans, self._frames, terms, dump)
            self._engine.retention = None if retain is None else retention(retain) or FOREVER
            self._feeding = Feeding(plans, store, self._definitions.rounding)
            self._engine.feeding = self._feeding
            self._creating = Creating(self._engine, self._definitions, self._feeding)
            self._restoring = Restoring(self._engine, self._definitions, self._feeding)
            self._engine.refresh = self._restoring.refresh
            self._contents = Contents(self._catalyst, self._frames, self._leaves, store)
            self._statements = Statements(
                self._catalyst,
                self._engine.table_node,
                self._query,
                lambda plan: command(self._catalyst, plan, self._leaves.plans),
                self._rows_of_keys,
            )
            self._sql = SqlFace(
                self,
                self._catalyst,
                self._statements,
                lambda: self._engine.state,
                lambda plan: self._query(plan, None, None),
            )
            self._sessions = Sessions()
            self._threads = threading.local()
            self._writable = writable
            self._closed = False
            self._restore()
            self.removed = self._engine.collect() if writable else []
            """The files that nothing needed when the connection was opened."""
        except BaseException:
            if hasattr(self, "_channel"):
                self._channel.close()
            if self._lease is not None:
                self._lease.release()
            raise

    def _restore(self) -> None:
        self._restoring.restore(lambda entry: self._leaves.add(entry.name, self._declared(entry)))

    def _term(self, name: str) -> Term:
        """The term of a stored view, read when it is needed."""
        entry = self._engine.state.entry(name)
        assert isinstance(entry, ViewEntry)
        return self._definitions.term(entry)

    # ---- trust -----------------------------------------------------------------------------

    @property
    def untrusted(self) -> dict[str, str]:
        """The views that are read and not followed, and why; see `connect(path, trust=True)`."""
        return self._engine.untrusted.shown(self._refreshed().state)

    def register(self, name: str, definition: Given) -> None:
        """Give the definition of an untrusted view again, so that it is followed.

        It has to be what the view was made of, to the bytes of its functions: nothing stored is
        loaded, and a definition that differs is refused.
        """
        engine = self._refreshed()
        entry = engine.state.entry(name)
        if not isinstance(entry, ViewEntry):
            raise DefinitionError(f"'{name}' is a table and has no definition")
        if entry.name not in engine.untrusted.reasons:
            if entry.name in self.untrusted:
                raise UnsupportedError(
                    f"the factorised view '{name}' cannot be registered",
                    hint="open the database with rekindle.connect(path, trust=True)",
                )
            return
        fresh, term = self._creating.read_again(entry, definition)
        if engine.identity_of(entry, term) != entry.node:
            raise DefinitionError(
                f"the definition given for view '{name}' is not the one it was made of",
                detail="a query, a function or a column differs",
                hint="DROP the view and create it with the new definition",
            )
        self._restoring.registered[entry.name] = (fresh, term)
        remember([fresh])
        self._restore()

    # ---- plans -----------------------------------------------------------------------------

    @property
    def stale(self) -> dict[str, str]:
        """The views whose stored plan this version cannot run, and why; see `refresh`."""
        return self._engine.stale.shown(self._refreshed().state)

    @_alone
    def refresh(self, name: str) -> None:
        """Fill a stale view anew, and the stale ones that it reads; any other is fresh already."""
        self._check_writable()
        entry = _view(self._engine.state, name)
        self._refuse_untrusted(entry.name, "filled")
        self._restoring.refresh([entry.name])
        reason = self.stale.get(entry.name)
        if reason is not None:
            raise StaleError(
                f"view '{entry.name}' cannot be filled anew",
                detail=reason,
                hint=f"DROP VIEW {entry.name} and create it again",
            )

    @_alone
    def upgrade(self, progress: Progress = silent) -> list[str]:
        """Fill every stale view anew and store every plan in this version's form.

        Gives the names of the views that were filled. `progress` is told the name of each before.
        """
        self._check_writable()
        refreshed = self._restoring.refresh(progress=progress)
        self._engine.store_plans()
        state = self._engine.state
        return list(dict.fromkeys(state.entries[n].part_of or n for n in refreshed))

    def _refuse_untrusted(self, name: str, done: str) -> None:
        reason = self.untrusted.get(name)
        if reason is not None:
            raise untrusted_error(f"view '{name}' is untrusted and cannot be {done}", reason)

    # ---- statements ------------------------------------------------------------------------

    def sql(self, statement: str, args: Arguments | None = None) -> DataFrame:
        """Run one SQL statement; gives its rows, or the epoch that it made.

        `args` has the values of its parameters: a dict for `:name`, a list for `?`.
        """
        self._refreshed()
        return self._sql.run(statement, args)

    # ---- definitions -----------------------------------------------------------------------

    @_alone
    def create_table(
        self,
        name: str,
        schema: T.StructType | str,
        primary_key: Sequence[str] = (),
        *,
        comment: str | None = None,
    ) -> None:
        """Create a table; `schema` is a Spark schema or its DDL text."""
        self._check_writable()
        self._creating.check_new(name)
        struct = _struct(f"table '{name}'", schema)
        comment = optional_text("a comment", comment)
        primary_key = arguments.names("the columns of a primary key", primary_key)
        names = [field.name.lower() for field in struct.fields]
        for column in primary_key:
            if column.lower() not in names:
                raise DefinitionError(
                    f"the primary key of '{name}' names the column '{column}', which it lacks",
                    detail=f"columns: {', '.join(f.name for f in struct.fields)}",
                )
        key = tuple(names.index(column.lower()) for column in primary_key)
        for field in (struct.fields[i] for i in key):
            check_key(field.dataType, field.name)
        entry = self._table_entry(name, struct, key)
        if comment is not None:
            entry = replace(entry, comments={**entry.comments, "": comment})
        self._engine.create_table(entry)
        self._leaves.add(name, self._declared(entry))

    @staticmethod
    def _declared(entry: Entry) -> T.StructType:
        """The columns of a table or view as queries see them."""
        struct = struct_of(entry.schema)
        return marked(struct, table_node(entry)) if isinstance(entry, TableEntry) else struct

    def _table_entry(self, name: str, struct: T.StructType, key: tuple[int, ...]) -> TableEntry:
        """The entry of a new table, or of a new incarnation of one."""
        names = [field.name.lower() for field in struct.fields]
        twice = sorted({n for n in names if names.count(n) > 1})
        if twice:
            raise DefinitionError(f"table '{name}' has several columns called '{twice[0]}'")
        reserved = [n for n in names if n in RESERVED]
        if reserved:
            raise DefinitionError(f"table '{name}' cannot have a column called '{reserved[0]}'")
        fields = []
        declared = {
            i: field.dataType.json()
            for i, field in enumerate(struct.fields)
            if is_limited(field.dataType)
        }
        for i, field in enumerate(struct.fields):
            type_ = stored(field.dataType)
            check_storable(type_, field.name)
            check_enabled(self.spark, type_, field.name)
            fields.append(T.StructField(field.name, type_, field.nullable and i not in key))
        table = Table(name, schema_of(T.StructType(fields)), key, secrets.token_hex(8))
        said = {f.name: f.metadata["comment"] for f in struct.fields if "comment" in f.metadata}
        return TableEntry(
            name, table.schema, key, table.incarnation, table.id, 0, declared, comments=said
        )

    @_alone
    def add_columns(self, name: str, columns: T.StructType | str) -> None:
        """Give a table more columns, which are NULL in the rows that it has.

        Views that are there keep their columns, also those that say `SELECT *`.
        """
        self._check_writable()
        old = self._engine.state.entry(name)
        if not isinstance(old, TableEntry):
            raise DefinitionError(
                f"'{name}' is a view", hint="use ALTER MATERIALIZED VIEW ... AS with a new query"
            )
        if self._sessions.transaction is not None:
            raise StatementError(
                f"'{name}' cannot get columns while a transaction is open", hint="end it first"
            )
        added = _struct(f"the new columns of '{name}'", columns)
        for field in added.fields:
            if not field.nullable:
                raise DefinitionError(
                    f"the new column '{field.name}' of '{name}' cannot be NOT NULL",
                    detail="the rows of the table have no value in it",
                )
        struct = T.StructType([*struct_of(old.schema).fields, *added.fields])
        entry = self._table_entry(old.name, struct, old.key)
        entry = replace(
            entry,
            created=old.created,
            declared={**old.declared, **entry.declared},
            comments={**old.comments, **entry.comments},
        )
        self._engine.add_columns(old, entry)
        self._leaves.remove(old.name)
        self._leaves.add(old.name, self._declared(entry))

    @_alone
    def create_view(
        self,
        name: str,
        definition: Given,
        *,
        incremental: str = "preferred",
        policy: str | None = None,
        representation: str = LISTING,
        comment: str | None = None,
    ) -> None:
        """Create a view from SQL text or from a DataFrame over `db.table(...)`, and fill it.

        `rekindle.fixpoint` and `rekindle.agca` make definitions of other kinds.

        With `incremental="required"` a view of which a part would be recomputed as a whole at
        every change is refused. A policy says what an aggregate over joins keeps; without one it
        is chosen by what each would keep. With `policy="view_tree"` it keeps partial
        aggregates and never the join; with `policy="higher_order"` also those that a change of
        each table meets. With `representation="factorised"` a join is kept along a variable order
        and never listed; `db.factorised(name)` counts and enumerates it.
        """
        self._check_writable()
        comment = optional_text("a comment", comment)
        wanted = Wanted(_incremental(incremental), policy, is_factorised(representation), comment)
        entry = self._creating.create(name, definition, wanted)
        self._leaves.add(name, struct_of(entry.schema))

    @_alone
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
        self._check_writable()
        self._creating.check_new(name)
        label = optional_text("a label", label)
        features = arguments.names("features", features)
        categorical = arguments.names("categorical features", categorical)
        spec = model_spec(name, label, features, kind, penalty, degree, categorical)
        rows = self._rows_of(name, query)
        spec = with_categories(spec, rows.schema)
        if spec.is_centred:
            (averages,) = spec.averages(rows).collect()
            spec = spec.centred(averages.asDict())
        (entry,) = self._creating.create_all(Models(), name, Learning(spec, query))
        self._leaves.add(name, struct_of(entry.schema))

    def _rows_of(self, name: str, query: str | DataFrame) -> DataFrame:
        """The rows that a model is to be learned from, as they are now."""
        if isinstance(query, str):
            # Resolved by itself first: an error has the positions of the user's text then.
            self._definitions.catalog.schema_of(query, {})
            return self.sql(f"SELECT * FROM ({query})")
        if isinstance(query, DataFrame):
            return query
        raise DefinitionError(
            f"the model '{name}' cannot be learned from a {type(query).__name__}",
            hint="give SQL text, or a DataFrame built from db.table(...)",
        )

    def model(self, name: str) -> Model:
        """A model by its name."""
        entry = self._engine.state.entry(name)
        definition = entry.definition if isinstance(entry, ViewEntry) else None
        if not isinstance(definition, ModelDefinition):
            raise DefinitionError(
                f"'{name}' is not a model", hint="make one with db.create_model(...)"
            )
        return Model(name, definition.spec, lambda: self.table(name))

    @_alone
    def datalog(self, program: str, *, iterations: int = LIMIT) -> list[str]:
        """Create a view for each relation that the rules of a Datalog program define, in one epoch.

        Gives their names. A step whose recursion takes more than so many iterations is undone.
        """
        self._check_writable()
        program = text("a program", program)
        limit = arguments.positive("a bound on iterations", iterations)
        found = self._creating.create_all(Datalog(), "", Program(program, limit))
        for entry in found:
            self._leaves.add(entry.name, struct_of(entry.schema))
        return [entry.name for entry in found]

    @_alone
    def replace_view(
        self,
        name: str,
        definition: Given,
        *,
        incremental: str = "preferred",
        policy: str | None = None,
        representation: str = LISTING,
        comment: str | None = None,
    ) -> None:
        """Give a view that no other view reads a new definition, in one epoch.

        What the old definition and the new one have in common is kept and not built again.
        """
        self._check_writable()
        old = self._unread(name, ViewEntry, "given another definition")
        assert isinstance(old, ViewEntry)
        comment = optional_text("a comment", comment)
        self._refuse_untrusted(old.name, "given another definition")
        wanted = Wanted(_incremental(incremental), policy, is_factorised(representation), comment)
        entry = self._creating.replace(old, definition, wanted)
        self._leaves.remove(old.name)
        self._leaves.add(old.name, struct_of(entry.schema))

    def drop_table(self, name: str) -> None:
        """Drop a table that no view reads."""
        self._drop(name, TableEntry)

    def drop_view(self, name: str) -> None:
        """Drop a view that no other view reads, and free its state."""
        self._drop(name, ViewEntry)

    @_alone
    def _drop(self, name: str, kind: type[Entry]) -> None:
        self._check_writable()
        entry = self._unread(name, kind, "dropped")
        self._engine.drop(entry)
        self._leaves.remove(entry.name)

    def _unread(self, name: str, kind: type[Entry], done: str) -> Entry:
        """A table or view of which something is to be done that nothing may read meanwhile."""
        entry = self._engine.state.entry(name)
        if not isinstance(entry, kind):
            word = "view" if isinstance(entry, ViewEntry) else "table"
            raise DefinitionError(f"'{name}' is a {word}", hint=f"use DROP {word.upper()} {name}")
        if entry.part_of is not None:
            raise DefinitionError(
                f"'{name}' is a part of the view '{entry.part_of}'",
                hint=f"DROP VIEW {entry.part_of}",
            )
        readers = self._engine.readers_of(entry.name)
        if readers:
            raise ConstraintError(
                f"'{name}' cannot be {done}: it is read by {', '.join(readers)}",
                hint="drop those views first",
            )
        return entry

    # ---- changes ---------------------------------------------------------------------------

    def transaction(self, *, timeout: float | None = None) -> Transaction:
        """Begin a transaction of this thread or asyncio task; it commits at the end of its block.

        It reads the database as of now, and its own changes. With a `timeout` in seconds it is
        rolled back when it is not committed by then.
        """
        self._check_writable()
        if timeout is not None and not timeout > 0:
            raise StatementError(f"the timeout of a transaction must be above 0, not {timeout}")
        if self._sessions.transaction is not None:
            raise StatementError(
                "a transaction is already open in this thread or task",
                hint="end it before you begin another",
            )
        transaction = self._transaction_of_one(timeout)
        self._sessions.begin(transaction)
        return transaction

    def _transaction_of_one(self, timeout: float | None = None) -> Transaction:
        return Transaction(self._engine, self._statements.encode_by_name, self._run_within, timeout)

    def _run_within(
        self, transaction: Transaction, statement: str, args: Arguments | None
    ) -> DataFrame:
        with self._sessions.within(transaction):
            return self.sql(statement, args)

    def change(self, work: Callable[[Transaction], None]) -> int | None:
        """Let `work` change tables, in the open transaction or in one of its own; gives its epoch.

        Work by itself that meets with a conflict is done again, in the end while others wait; it
        must do nothing but change tables.
        """
        self._check_writable()
        joined = self._sessions.transaction
        if joined is not None:
            with joined.all_or_nothing():
                work(joined)
            return None
        for _ in range(RETRIES):
            try:
                return self._changed(work)
            except ConflictError:
                continue
        with self._engine.turn:
            return self._changed(work)

    def _changed(self, work: Callable[[Transaction], None]) -> int | None:
        with self._transaction_of_one() as transaction:
            with self._sessions.within(transaction):
                work(transaction)
            transaction.commit()
        return transaction.epoch

    @property
    def epoch(self) -> int:
        """The number of the last committed epoch."""
        return self._refreshed().state.epoch

    @property
    def offsets(self) -> dict[str, str | None]:
        """How far each source of changes has been read; None where a restore made it unknown."""
        offsets = self._refreshed().state.offsets
        return {source: offset.text for source, offset in offsets.items()}

    def vacuum(self) -> list[str]:
        """Remove files that no retained epoch needs; gives their names.

        What a step replaces goes by itself after a while, and all of it when a writer opens the
        database; this is for now, and for files still left to readers of an older epoch. How much
        history is retained is said by `retain`.
        """
        self._check_writable()
        return self._engine.collect()

    def collect(self) -> list[str]:
        """The same as `vacuum`."""
        return self.vacuum()

    @property
    def retention(self) -> int | None:
        """For how many epochs this connection keeps changes; None when it keeps all."""
        epochs = self._engine.retention or self._refreshed().state.retain
        return None if epochs == FOREVER else epochs

    @_alone
    def retain(self, epochs: int | str) -> None:
        """Keep the changes of so many epochs from now on, or `"all"`; the database remembers it.

        It holds for this connection too, and for later ones that do not say `retain=` themselves.
        """
        self._check_writable()
        self._engine.retain(retention(epochs))

    def verify(self) -> Verification:
        """Read every byte that the log names, present and history, and say what is damaged."""
        self._check_open()
        return verify(self._engine.store.uri)

    def backup(self, target: str) -> Backup:
        """Make `target` hold the last epoch, copying what an earlier backup there lacks.

        Writing may go on meanwhile. `rekindle.restore` makes a database of it.
        """
        self._check_open()
        return backup(self._engine.store.uri, placed(target))

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
        engine = self._refreshed()
        if timestamp is not None:
            if epoch is not None:
                raise HistoryError(
                    "contents are as of an epoch or as of a time", hint="leave one of them out"
                )
            instant = instant_of(self.spark, timestamp)
            epoch = engine.state.epoch_at(instant, str(timestamp), engine.store)
        transaction = self._sessions.transaction
        if epoch is None and transaction is not None:
            return self._seen(name, transaction)
        return self._committed(engine.state, name, epoch)

    def _committed(self, state: State, name: str, epoch: int | None = None) -> DataFrame:
        """The contents of a table or view in a state, or as of an earlier epoch."""
        entry = state.entry(name)
        if isinstance(entry, ViewEntry) and entry.factorisation is not None:
            return expanded(state, entry, self._contents, epoch)
        undone = None if epoch is None else state.undone(entry.name, epoch)
        leaf = entry.name if epoch is None else None
        return self._contents.table(leaf, entry.schema, state.traces[entry.node], undone)

    def _seen(self, name: str, transaction: Transaction) -> DataFrame:
        """The contents when a transaction began, or when they were made since, with its changes.

        A view that reads what the transaction has changed is recomputed by Spark.
        """
        snapshot, now = transaction.snapshot, self._engine.state
        state = snapshot if snapshot.knows(name) else now
        entry = state.entry(name)
        current = now.entries.get(entry.name)
        if current is None or current.node != entry.node:
            raise altered(entry.name)
        if isinstance(entry, TableEntry):
            node = transaction.node(entry.name)
            pending, trace = transaction.pending(node), transaction.trace(node)
            return self._contents.table(entry.name, entry.schema, trace, pending=pending)
        engine = self._engine
        stays = entry.name in engine.untrusted.reasons
        if stays or transaction.changed.isdisjoint(engine.tables_under(entry.name)):
            return self._committed(state, entry.name)
        read = self._engine.sources_of(entry.name)

        def contents(source: str) -> DataFrame:
            # A query may mention a name, even the view's own, that is no table or view in it.
            if source in read:
                return self._seen(source, transaction)
            return self._committed(state, source)

        return self._contents.cut(self._recomputed(entry, contents), entry.schema)

    def changes(self, name: str, since: int = 0) -> DataFrame:
        """The changes of a table or view after an epoch: its columns, `_epoch` and `_weight`."""
        state = self._refreshed().state
        entry = state.entry(name)
        if isinstance(entry, ViewEntry) and entry.factorisation is not None:
            raise UnsupportedError(
                f"the changes of '{entry.name}' are not kept: it is factorised",
                hint="leave out representation = 'factorised' for a view whose changes you read",
            )
        return self._contents.changes(
            entry.schema, state.traces[entry.node], state.changes(entry.name, since)
        )

    def commits(self, since: int = 0) -> DataFrame:
        """When each epoch after `since` was committed: `_epoch` and `_commit_timestamp`.

        Epochs that are no longer retained are left out, and those before times were noted.
        """
        engine = self._refreshed()
        engine.state.refuse_uncommitted(since)
        first = max(int(since) + 1, engine.state.horizon)
        found = [
            pa.table([epochs, pa.array(instants).cast(_COMMITS.types[1])], schema=_COMMITS)
            for epochs, instants in engine.state.times.known(engine.store, first)
        ]
        return of_table(self.spark, pa.concat_tables([_COMMITS.empty_table(), *found]))

    def factorised(self, name: str) -> Factorised:
        """A view that is kept factorised: its count, its size and its tuples in batches."""
        entry = self._refreshed().state.entry(name)
        if not isinstance(entry, ViewEntry) or entry.factorisation is None:
            raise DefinitionError(
                f"'{name}' is not kept factorised",
                hint="create it with OPTIONS (representation = 'factorised')",
            )
        return Factorised(entry, lambda: self._refreshed().state, self._engine.store)

    def definition(self, name: str) -> str:
        """What a table or view was defined by: SQL text, or a text that says what it is."""
        engine = self._refreshed()
        entry = engine.state.entry(name)
        sources = engine.sources_of(entry.name) if isinstance(entry, ViewEntry) else ()
        return definition_text(entry, tuple(sources))

    def explain(self, name: str) -> Explanation:
        """How a view is kept: its nodes, their strategies, their state and their last step."""
        engine = self._refreshed()
        with engine.turn:
            return self._explained(engine, name)

    def _explained(self, engine: Engine, name: str) -> Explanation:
        entry = engine.state.entry(name)
        if isinstance(entry, ViewEntry) and entry.factorisation is not None:
            root = self.explain(entry.factorisation.roots[0].view)
            kept = self.factorised(name).tree(sizes=True)
            return replace(root, title=f"view {entry.name}", derivation=(), kept=kept)
        if entry.name in engine.untrusted.reasons:
            return Explanation(
                f"view {entry.name} (untrusted)", (), untrusted=engine.untrusted.reasons[entry.name]
            )
        if entry.name in engine.stale.reasons:
            reason = engine.stale.reasons[entry.name]
            return Explanation(f"view {entry.name} (stale)", (), stale=reason)
        return explained(engine, entry, self._definitions, self._creating.choosing)

    @property
    def last_step(self) -> LastStep | None:
        """What the last transaction of this connection did, node by node."""
        return self._engine.last

    def check(self, name: str) -> CheckReport:
        """Recompute a view with Spark and compare; raises `CheckError` on a difference.

        Of rows that tie at a limit or in a window's order Spark takes any. Where the view differs,
        it is recomputed once more with these ties taken as the view takes them.
        """
        engine = self._refreshed()
        state = engine.begin()
        try:
            return self._checked(state, _view(state, name))
        finally:
            engine.snapshots.release(state.epoch)

    def _checked(self, state: State, entry: ViewEntry) -> CheckReport:
        if entry.stale is not None:
            raise CheckError(
                f"view '{entry.name}' is stale and not followed",
                detail=f"its rows are those of epoch {entry.stale}, and this is {state.epoch}",
                hint=f"REFRESH MATERIALIZED VIEW {entry.name}",
            )
        actual = self._committed(state, entry.name)
        expected = self._recomputed(entry, lambda source: self._committed(state, source))
        settings = self._definitions.settings_for(entry)
        read = {entry.name, *self._engine.sources_of(entry.name)}
        nodes = [state.entry(source).node for source in read]
        rows = sum(state.traces[node].rows for node in nodes if node in state.traces)
        compared = partial(compare, self._catalyst, entry.name, state.epoch, settings=settings)
        try:
            report = compared(sides=Sides(actual, expected, rows))
        except CheckError:
            decided = self._definitions.without_ties(entry, expected)
            if decided is None:
                raise
            report = compared(sides=Sides(actual, decided, rows))
        if entry.factorisation is not None:
            Factorised(entry, lambda: state, self._engine.store).check_count(report)
        return report

    def recompute(self, name: str) -> DataFrame:
        """The view's query, evaluated by Spark on the current tables, from scratch."""
        state = self._refreshed().state
        return self._recomputed(_view(state, name), lambda source: self._committed(state, source))

    def _recomputed(self, entry: ViewEntry, read: Callable[[str], DataFrame]) -> DataFrame:
        """A view's query over what `read` gives for the tables and views that it names."""
        self._refuse_untrusted(entry.name, "recomputed")
        entry = self._restoring.registered.get(entry.name, (entry, None))[0]
        known = self._engine.sources_of(entry.name)

        def contents(source: str) -> DataFrame:
            """A table with the columns that it had when the view was defined."""
            rows = read(source)
            schema = known.get(source)
            if schema is None:
                return rows
            return rows.select(*map(quoted, rows.columns[: len(schema)]))

        return self._definitions.recomputation(entry, contents)

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

    def place(self, placement: str | None) -> None:
        """Force where steps run, 'inline' or 'spark'; None lets each step decide."""
        if placement is not None:
            one_of("placement", placement, [each.value for each in Placement])
        self._engine.placement = None if placement is None else Placement(placement)

    def take(self, course: str | None) -> None:
        """Force what steps do, 'followed' or 'rebuilt'; None lets each step decide."""
        if course is not None:
            one_of("course", course, [each.value for each in Refresh])
        self._engine.forced = None if course is None else Refresh(course)

    # ---- the end ---------------------------------------------------------------------------

    def close(self) -> None:
        """End the connection and let another writer in. Spark goes on."""
        if self._closed:
            return
        self._closed = True
        for transaction in self._sessions.open:
            transaction.rollback()
        with self._engine.turn:
            self._engine.commits.close()
        self._channel.close()
        if self._lease is not None:
            self._lease.release()

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"epoch {self._engine.state.epoch}"
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

    # ---- inside ----------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError(
                f"the connection to '{self.path}' is closed", hint="call rekindle.connect again"
            )
        if not hasattr(self._threads, "session"):
            # Each thread has one of its own in the JVM, which reads the settings of *its* session.
            self._catalyst.activate()
            self._threads.session = self._catalyst.session

    def _check_writable(self) -> None:
        self._check_open()
        if not self._writable:
            raise ClosedError(
                f"the connection to '{self.path}' is for reading",
                hint="open it with rekindle.connect(path)",
            )

    def _refreshed(self) -> Engine:
        """The engine; a reader first follows what has been committed since."""
        self._check_open()
        if not self._writable:
            with self._engine.turn:
                self._follow()
        return self._engine

    def _follow(self) -> None:
        state = self._engine.log.follow(self._engine.state)
        before, self._engine.state = self._engine.state, state
        if state.entries != before.entries or state.nodes is not before.nodes:
            for name in before.entries:
                self._leaves.remove(name)
            self._restore()

    def _query(
        self,
        plan: JavaObject,
        frame: DataFrame | None,
        node: Table | None,
        resolve: Callable[..., Any] = resolve,
    ) -> Any:
        """An unresolved plan over current contents; `frame` may stand for the table `node`."""
        scope = {}
        for name in mentioned(plan, self._leaves.plans):
            given = frame is not None and node is not None and name == node.name
            rows = frame if given else self.table(name)
            assert rows is not None
            scope[name] = rows._jdf.queryExecution().analyzed()
        return resolve(self._catalyst, plan, scope, self._leaves.plans)

    def _rows_of_keys(self, node: Table, columns: pa.Table) -> DataFrame:
        """The table's rows whose primary keys stand in `columns`, as the transaction sees them."""
        weight = pa.array([1] * len(columns), pa.int64())
        arranged = self._engine.arranged(node, columns.add_column(0, "_weight", weight))
        keys = sorted(set(integers(arranged.column(KEY)).tolist()))
        transaction = self._sessions.transaction
        assert transaction is not None, "statements that change rows run in one"
        found, _ = transaction.reader(node).probe(integers(pa.array(keys, pa.int64())))
        return self._contents.of_table(node.name, node.schema, found)


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


def retention(epochs: int | str) -> int | None:
    """So many epochs as a number; None stands for all of them."""
    if epochs == ALL:
        return None
    if isinstance(epochs, bool) or not isinstance(epochs, int) or epochs < 1:
        raise DefinitionError(
            f"retain must be at least 1 epoch, or '{ALL}', not {epochs!r}", hint="such as 1000"
        )
    return epochs


def _view(state: State, name: str) -> ViewEntry:
    """The view of that name; a table has nothing to recompute."""
    entry = state.entry(name)
    if not isinstance(entry, ViewEntry):
        raise DefinitionError(f"'{name}' is a table and has nothing to recompute")
    return entry


def _struct(what: str, schema: T.StructType | str) -> T.StructType:
    hint = "write columns and their types, such as 'id bigint NOT NULL, name string'"
    if not isinstance(schema, str | T.StructType):
        raise DefinitionError(
            f"{what} needs columns, not a value of the type {type(schema).__name__}", hint=hint
        )
    if isinstance(schema, str):
        text(f"the columns of {what}", schema)
    try:
        struct = T._parse_datatype_string(schema) if isinstance(schema, str) else schema
    except PySparkException as error:
        raise DefinitionError(
            f"the columns '{schema}' of {what} cannot be read",
            detail=str(error).strip().split("\n")[0],
            hint=hint,
        ) from error
    if not isinstance(struct, T.StructType) or not struct.fields:
        raise DefinitionError(f"{what} needs columns", detail=f"given: '{schema}'", hint=hint)
    return struct


def _incremental(word: str) -> Incremental:
    return Incremental(one_of("value of incremental", word, [each.value for each in Incremental]))


def _opened(log: CommitLog, store: Store) -> State:
    """The committed state; a new one only where there is no data either."""
    if log.exists():
        return log.load()
    if store.list("data"):
        raise CorruptionError(
            f"the commit log of '{store.label}' is missing, but there are data files",
            detail="expected records or a checkpoint under 'log'",
            hint="restore the log directory from a backup",
        )
    return log.create()


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
    if mode not in ("read", "write"):
        raise DefinitionError(f"unknown mode '{mode}'", detail="available: read, write")
    if retain is not None:
        retention(retain)
    if partitions is not None and (partitions < 1 or partitions & (partitions - 1)):
        raise DefinitionError(
            f"partitions must be a power of two, not {partitions}", hint="such as 1, 8 or 64"
        )
    if not wait >= 0:
        raise DefinitionError(f"wait must be a number of seconds, not {wait}")
    database_place(path)
    require_classic(spark)
    return Database(
        str(path),
        spark,
        writable=mode == "write",
        retain=retain,
        partitions=partitions,
        wait=wait,
        trust=trust,
    )
