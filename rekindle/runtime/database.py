"""The public face: a database of tables and views that are always fresh."""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from types import TracebackType

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from rekindle.calculus.terms import Term, sources
from rekindle.circuit.costs import Course
from rekindle.circuit.explain import Explanation
from rekindle.circuit.nodes import Table
from rekindle.errors import (
    CheckError,
    ClosedError,
    ConstraintError,
    CorruptionError,
    DefinitionError,
    StatementError,
    UnsupportedError,
    UntrustedError,
    unknown_name,
)
from rekindle.errors import untrusted as untrusted_error
from rekindle.frontends.names import quoted
from rekindle.frontends.spark_sql.analyse import Leaves, resolve
from rekindle.frontends.spark_sql.jvm import Catalyst, JavaObject
from rekindle.incremental.policies.choice import Policy
from rekindle.runtime.check import CheckReport, compare
from rekindle.runtime.contents import RESERVED, Contents
from rekindle.runtime.creating import Creating, Definition, Wanted
from rekindle.runtime.datalog import Datalog
from rekindle.runtime.definitions import Definitions, mentioned, named_in
from rekindle.runtime.dml import Statements
from rekindle.runtime.engine import Engine, Incremental, LastStep, table_node
from rekindle.runtime.explaining import explained
from rekindle.runtime.factorised import LISTING, Factorised, expanded, is_factorised
from rekindle.runtime.feeding import Feeding
from rekindle.runtime.lengths import is_limited, marked, stored
from rekindle.runtime.lock import WriterLock
from rekindle.runtime.log import CommitLog
from rekindle.runtime.models import Model, model_spec, with_categories
from rekindle.runtime.recursion import LIMIT
from rekindle.runtime.sql import SqlFace
from rekindle.runtime.state import Entry, State, TableEntry, ViewEntry
from rekindle.runtime.stored import sound_definition
from rekindle.runtime.transaction import Transaction
from rekindle.runtime.trust import Trust, remember
from rekindle.spark.frames import Frames
from rekindle.spark.plans import Plans
from rekindle.spark.segment import Channel
from rekindle.spark.session import local_session
from rekindle.spark.stages import Lowering
from rekindle.spark.step import Placement
from rekindle.spark.types import (
    check_enabled,
    check_key,
    check_storable,
    schema_of,
    struct_of,
)
from rekindle.traces.arrays import KEY, integers
from rekindle.traces.reader import TraceReader
from rekindle.traces.store import Store


class Database:
    """Tables, views over them, and the transactions that change both. Made by `connect`."""

    def __init__(
        self,
        path: str,
        spark: SparkSession | None,
        *,
        writable: bool,
        retain: int | None,
        partitions: int | None = None,
        trust: bool = False,
    ) -> None:
        self.path = path
        store = Store(path if "://" in path else os.path.abspath(path))
        log = CommitLog(store)
        if not writable and not log.exists():
            raise DefinitionError(
                f"there is no database at '{path}'",
                hint="open it once with rekindle.connect(path) to create it",
            )
        local = "://" not in path or path.startswith("file://")
        self._lock = WriterLock(store.root) if writable and local else None
        try:
            state = _opened(log, store)
            self.spark = local_session() if spark is None else spark
            self._catalyst = Catalyst(self.spark)
            self._leaves = Leaves(self._catalyst)
            self._frames = Frames(self._catalyst, partitions)
            self._channel = Channel(self._catalyst)
            plans = Plans(Lowering(self._catalyst), self._channel)
            self._engine = Engine(store, log, state, plans, self._frames)
            self._engine.retention = retain
            self._definitions = Definitions(self._catalyst, self._leaves, Trust(trust))
            self._registered: dict[str, tuple[ViewEntry, Term]] = {}
            self._feeding = Feeding(plans, store, self._definitions.rounding)
            self._engine.feeding = self._feeding
            self._creating = Creating(self._engine, self._definitions, self._feeding)
            self._contents = Contents(self._catalyst, self._frames, self._leaves, store)
            self._statements = Statements(
                self._catalyst,
                self._engine.table_node,
                self._query,
                lambda plan: resolve(self._catalyst, plan, self._leaves.plans),
                self._rows_of_keys,
            )
            self._sql = SqlFace(
                self,
                self._catalyst,
                self._statements,
                lambda: self._engine.state,
                lambda plan: self._query(plan, None, None),
            )
            self._transaction: Transaction | None = None
            self._writable = writable
            self._closed = False
            self._restore()
            if writable:
                self._engine.collect()
        except BaseException:
            if hasattr(self, "_channel"):
                self._channel.close()
            if self._lock is not None:
                self._lock.release()
            raise

    def _restore(self) -> None:
        self._engine.untrusted.clear()
        for entry in self._engine.state.in_order:
            with sound_definition(entry.name):
                if entry.part_of is None:
                    self._leaves.add(entry.name, self._declared(entry))
                self._engine.refuse_other_columns(entry)
                if isinstance(entry, TableEntry):
                    self._engine.restore_table(entry)
            if isinstance(entry, ViewEntry) and entry.factorisation is None:
                self._restore_view(entry)

    def _restore_view(self, entry: ViewEntry) -> None:
        """Let a view be followed, or leave it out if that needs code that is not trusted."""
        untrusted, fed = self._engine.untrusted, None
        try:
            _, term = self._registered.get(entry.name) or (entry, self._definitions.term(entry))
            untrusted.refuse_reading(entry.name, sources(term))
            if entry.policy is Policy.FACTORED:
                fed = self._definitions.fed_again(entry)
        except UntrustedError as error:
            is_fed = entry.policy is Policy.FACTORED
            known = named_in(entry.sql or "", self._engine.state.entries) if is_fed else []
            untrusted.add(entry, error.detail, known)
            return
        with sound_definition(entry.name):
            self._engine.restore_view(entry, term)
            if fed is not None:
                self._feeding.add(entry.name, fed)

    # ---- trust -----------------------------------------------------------------------------

    @property
    def untrusted(self) -> dict[str, str]:
        """The views that are read and not followed, and why; see `connect(path, trust=True)`."""
        return self._engine.untrusted.shown(self._refreshed().state)

    def register(self, name: str, definition: Definition) -> None:
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
        self._registered[entry.name] = (fresh, term)
        remember([fresh])
        self._restore_anew()

    def _restore_anew(self) -> None:
        self._engine.forget_definitions()
        self._feeding.views.clear()
        self._restore()

    def _refuse_untrusted(self, name: str, done: str) -> None:
        reason = self.untrusted.get(name)
        if reason is not None:
            raise untrusted_error(f"view '{name}' is untrusted and cannot be {done}", reason)

    # ---- statements ------------------------------------------------------------------------

    def sql(self, statement: str) -> DataFrame:
        """Run one SQL statement; gives its rows, or the epoch that it made."""
        self._refreshed()
        return self._sql.run(statement.rstrip().rstrip(";"))

    # ---- definitions -----------------------------------------------------------------------

    def create_table(
        self, name: str, schema: T.StructType | str, primary_key: Sequence[str] = ()
    ) -> None:
        """Create a table; `schema` is a Spark schema or its DDL text."""
        self._check_writable()
        self._creating.check_new(name)
        struct = _struct(f"table '{name}'", schema)
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
        return TableEntry(name, table.schema, key, table.incarnation, table.id, 0, declared)

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
        if self._transaction is not None:
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
        entry = replace(entry, created=old.created, declared={**old.declared, **entry.declared})
        self._engine.add_columns(old, entry)
        self._leaves.remove(old.name)
        self._leaves.add(old.name, self._declared(entry))

    def create_view(
        self,
        name: str,
        definition: Definition,
        *,
        incremental: str = "preferred",
        policy: str | None = None,
        representation: str = LISTING,
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
        wanted = Wanted(_incremental(incremental), policy, is_factorised(representation))
        entry = self._creating.create(name, definition, wanted)
        self._leaves.add(name, struct_of(entry.schema))

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
        spec = model_spec(name, label, features, kind, penalty, degree, categorical)
        rows = self._rows_of(name, query)
        spec = with_categories(spec, rows.schema)
        if spec.is_centred:
            (averages,) = spec.averages(rows).collect()
            spec = spec.centred(averages.asDict())
        entry, term = self._definitions.of_model(name, query, spec)
        self._engine.create_views([(entry, term)])
        self._leaves.add(name, struct_of(entry.schema))

    def _rows_of(self, name: str, query: str | DataFrame) -> DataFrame:
        """The rows that a model is to be learned from, as they are now."""
        if isinstance(query, str):
            # Resolved by itself first: an error has the positions of the user's text then.
            self._definitions.schema_of(query, {})
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
        if not isinstance(entry, ViewEntry) or entry.model is None:
            raise DefinitionError(
                f"'{name}' is not a model", hint="make one with db.create_model(...)"
            )
        return Model(name, entry.model, lambda: self.table(name))

    def datalog(self, program: str, *, iterations: int = LIMIT) -> list[str]:
        """Create a view for each relation that the rules of a Datalog program define, in one epoch.

        Gives their names. A step whose recursion takes more than so many iterations is undone.
        """
        self._check_writable()
        reader = Datalog(self._definitions, self._creating.columns, self._has_function)
        found = reader.read(program, iterations)
        self._engine.create_views(found)
        for entry, _ in found:
            self._leaves.add(entry.name, struct_of(entry.schema))
        return [entry.name for entry, _ in found]

    def _has_function(self, name: str) -> bool:
        return bool(self.spark.catalog.functionExists(name))

    def replace_view(
        self,
        name: str,
        definition: Definition,
        *,
        incremental: str = "preferred",
        policy: str | None = None,
        representation: str = LISTING,
    ) -> None:
        """Give a view that no other view reads a new definition, in one epoch.

        What the old definition and the new one have in common is kept and not built again.
        """
        self._check_writable()
        old = self._unread(name, ViewEntry, "given another definition")
        assert isinstance(old, ViewEntry)
        self._refuse_untrusted(old.name, "given another definition")
        wanted = Wanted(_incremental(incremental), policy, is_factorised(representation))
        entry = self._creating.replace(old, definition, wanted)
        self._leaves.remove(old.name)
        self._leaves.add(old.name, struct_of(entry.schema))

    def drop_table(self, name: str) -> None:
        """Drop a table that no view reads."""
        self._drop(name, TableEntry)

    def drop_view(self, name: str) -> None:
        """Drop a view that no other view reads, and free its state."""
        self._drop(name, ViewEntry)

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

    def transaction(self) -> Transaction:
        """Begin a transaction; it commits at the end of its `with` block."""
        self._check_writable()
        if self._transaction is not None:
            raise StatementError(
                "a transaction is already open", hint="end it before you begin another"
            )
        self._transaction = Transaction(
            self._engine, self._statements.encode_by_name, self._end_transaction
        )
        return self._transaction

    def joined_transaction(self) -> AbstractContextManager[Transaction]:
        """The open transaction, which goes on after the block, or one for the block alone."""
        return self.transaction() if self._transaction is None else nullcontext(self._transaction)

    def _end_transaction(self) -> None:
        self._transaction = None

    @property
    def epoch(self) -> int:
        """The number of the last committed epoch."""
        return self._refreshed().state.epoch

    def collect(self) -> list[str]:
        """Remove files that nothing needs now; gives their names."""
        self._check_writable()
        return self._engine.collect()

    # ---- reading ---------------------------------------------------------------------------

    def table(self, name: str, epoch: int | None = None) -> DataFrame:
        """The contents of a table or view, now or as of an epoch."""
        state = self._refreshed().state
        entry = state.entry(name)
        if isinstance(entry, ViewEntry) and entry.factorisation is not None:
            return expanded(state, entry, self._contents, epoch)
        undone = () if epoch is None else state.undone(entry.name, epoch)
        leaf = entry.name if epoch is None else None
        return self._contents.table(leaf, entry.schema, state.traces[entry.node], undone)

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

    def factorised(self, name: str) -> Factorised:
        """A view that is kept factorised: its count, its size and its tuples in batches."""
        entry = self._refreshed().state.entry(name)
        if not isinstance(entry, ViewEntry) or entry.factorisation is None:
            raise DefinitionError(
                f"'{name}' is not kept factorised",
                hint="create it with OPTIONS (representation = 'factorised')",
            )
        return Factorised(entry, lambda: self._refreshed().state, self._engine.store)

    def explain(self, name: str) -> Explanation:
        """How a view is kept: its nodes, their strategies, their state and their last step."""
        engine = self._refreshed()
        entry = engine.state.entry(name)
        if isinstance(entry, ViewEntry) and entry.factorisation is not None:
            root = self.explain(entry.factorisation.roots[0].view)
            kept = self.factorised(name).tree(sizes=True)
            return replace(root, title=f"view {entry.name}", derivation=(), kept=kept)
        if entry.name in engine.untrusted.reasons:
            return Explanation(
                f"view {entry.name} (untrusted)", (), untrusted=engine.untrusted.reasons[entry.name]
            )
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
        state = self._refreshed().state
        entry = state.entry(name)
        if not isinstance(entry, ViewEntry):
            raise DefinitionError(f"'{name}' is a table and has nothing to recompute")
        expected, actual = self.recompute(entry.name), self.table(entry.name)
        try:
            report = compare(entry.name, state.epoch, actual, expected)
        except CheckError:
            decided = None if entry.loop is not None else self._definitions.without_ties(expected)
            if decided is None:
                raise
            report = compare(entry.name, state.epoch, actual, decided)
        if entry.factorisation is not None:
            self.factorised(entry.name).check_count(report)
        return report

    def recompute(self, name: str) -> DataFrame:
        """The view's query, evaluated by Spark on the current tables, from scratch."""
        entry = self._engine.state.entry(name)
        if not isinstance(entry, ViewEntry):
            raise DefinitionError(f"'{name}' is a table and has nothing to recompute")
        self._refuse_untrusted(entry.name, "recomputed")
        entry = self._registered.get(entry.name, (entry, None))[0]
        known = self._engine.sources_of(entry.name)

        def contents(source: str) -> DataFrame:
            """A table with the columns that it had when the view was defined."""
            rows = self.table(source)
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
    def views(self) -> list[str]:
        """Names of the views."""
        return [e.name for e in self._engine.state.shown if isinstance(e, ViewEntry)]

    def place(self, placement: str | None) -> None:
        """Force where steps run, 'inline' or 'spark'; None lets each step decide."""
        known = [each.value for each in Placement]
        if placement is not None and placement not in known:
            raise unknown_name("placement", placement, known)
        self._engine.placement = None if placement is None else Placement(placement)

    def take(self, course: str | None) -> None:
        """Force what steps do, 'followed' or 'rebuilt'; None lets each step decide."""
        known = [each.value for each in Course]
        if course is not None and course not in known:
            raise unknown_name("course", course, known)
        self._engine.course = None if course is None else Course(course)

    # ---- the end ---------------------------------------------------------------------------

    def close(self) -> None:
        """End the connection and let another writer in. Spark goes on."""
        if self._closed:
            return
        self._closed = True
        if self._transaction is not None:
            self._transaction.rollback()
        self._channel.close()
        if self._lock is not None:
            self._lock.release()

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
            state = self._engine.log.follow(self._engine.state)
            before, self._engine.state = self._engine.state, state
            if state.entries != before.entries:
                for name in before.entries:
                    self._leaves.remove(name)
                self._restore_anew()
        return self._engine

    def _query(self, plan: JavaObject, frame: DataFrame | None, node: Table | None) -> DataFrame:
        """An unresolved plan over current contents; `frame` may stand for the table `node`."""
        scope = {}
        for name in mentioned(plan, self._leaves.plans):
            given = frame is not None and node is not None and name == node.name
            rows = frame if given else self._current(name)
            assert rows is not None
            scope[name] = rows._jdf.queryExecution().analyzed()
        return resolve(self._catalyst, plan, scope, self._leaves.plans)

    def _current(self, name: str) -> DataFrame:
        """The contents as the open transaction has made them so far."""
        entry = self._engine.state.entry(name)
        if self._transaction is None or isinstance(entry, ViewEntry):
            return self.table(name)
        pending = self._transaction.pending(self._engine.table_node(name))
        trace = self._engine.state.traces[entry.node]
        return self._contents.table(entry.name, entry.schema, trace, pending=pending)

    def _rows_of_keys(self, node: Table, columns: pa.Table) -> DataFrame:
        """The table's rows whose primary keys stand in `columns`, as contents."""
        weight = pa.array([1] * len(columns), pa.int64())
        arranged = self._engine.arranged(node, columns.add_column(0, "_weight", weight))
        trace = self._engine.state.traces[node.id]
        keys = sorted(set(integers(arranged.column(KEY)).tolist()))
        pending = [] if self._transaction is None else self._transaction.pending(node)
        found, _ = TraceReader.of_trace(trace, self._engine.store, extra=pending).probe(
            integers(pa.array(keys, pa.int64()))
        )
        return self._contents.of_table(node.name, node.schema, found)


def _struct(what: str, schema: T.StructType | str) -> T.StructType:
    hint = "write columns and their types, such as 'id bigint NOT NULL, name string'"
    if not isinstance(schema, str | T.StructType):
        raise DefinitionError(
            f"{what} needs columns, not a value of the type {type(schema).__name__}", hint=hint
        )
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
    known = [each.value for each in Incremental]
    if word not in known:
        raise unknown_name("value of incremental", word, known)
    return Incremental(word)


def _opened(log: CommitLog, store: Store) -> State:
    """The committed state; a new one only where there is no data either."""
    if log.exists():
        return log.load()
    if store.list("data"):
        raise CorruptionError(
            f"the commit log of '{store.uri}' is missing, but there are data files",
            detail="expected records or a checkpoint under 'log'",
            hint="restore the log directory from a backup",
        )
    return log.create()


def connect(
    path: str,
    spark: SparkSession | None = None,
    *,
    mode: str = "write",
    retain: int | None = None,
    partitions: int | None = None,
    trust: bool = False,
) -> Database:
    """Open the database at `path`, or create it.

    One connection at a time may write; any number may read with `mode="read"`. `retain` limits
    the change history to so many epochs; by default all of it is kept. `partitions`, a power of
    two, is the number of tasks of every part of a step on Spark; by default each part chooses.

    A database is data: functions in Python, and whatever else in it would run code, are left alone
    unless this process made them. Views that need them can be read and are not followed;
    `db.untrusted` lists them. With `trust=True` they are run as whoever wrote the directory wants.
    """
    if mode not in ("read", "write"):
        raise DefinitionError(f"unknown mode '{mode}'", detail="available: read, write")
    if retain is not None and retain < 1:
        raise DefinitionError("retain must be at least 1 epoch")
    if partitions is not None and (partitions < 1 or partitions & (partitions - 1)):
        raise DefinitionError(
            f"partitions must be a power of two, not {partitions}", hint="such as 1, 8 or 64"
        )
    return Database(
        str(path),
        spark,
        writable=mode == "write",
        retain=retain,
        partitions=partitions,
        trust=trust,
    )
