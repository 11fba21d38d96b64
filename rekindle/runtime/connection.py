"""An open database: its parts, put together, and whether they may be used.

What users call is in `database.py`; each of the parts behind it (`ddl`, `reading`, `checking`,
`transactions`, `operations`) is given the connection and finds the others' tools here.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from functools import partial

from pyspark.sql import SparkSession

from rekindle.calculus.terms import Term
from rekindle.catalyst.jvm import Catalyst
from rekindle.errors import ClosedError, CorruptionError, DefinitionError
from rekindle.errors import untrusted as untrusted_error
from rekindle.frontends.spark_sql.analyse import Leaves
from rekindle.names import HIDDEN
from rekindle.runtime.engine import Engine
from rekindle.runtime.epochs.log import CommitLog
from rekindle.runtime.epochs.state import Entry, State, TableEntry, ViewEntry
from rekindle.runtime.matrices.maintenance import FactoredMaintenance
from rekindle.runtime.nested.shredded import declared, know_nested
from rekindle.runtime.places import database_place
from rekindle.runtime.reading.contents import Contents
from rekindle.runtime.session import session_for
from rekindle.runtime.transactions.commits import Turn
from rekindle.runtime.transactions.sessions import Sessions
from rekindle.runtime.trust import Trust
from rekindle.runtime.views.creating import Creating
from rekindle.runtime.views.definitions import Definitions
from rekindle.runtime.views.redefining import Redefining
from rekindle.runtime.views.restoring import Restoring
from rekindle.runtime.views.terms import ViewTerms
from rekindle.runtime.writers.lease import Lease
from rekindle.spark.compiled_stages import Channel
from rekindle.spark.frames import Frames
from rekindle.spark.plans import Plans
from rekindle.spark.preflight import Access, check_executors
from rekindle.spark.stages import Lowering
from rekindle.traces.store import Store


class Connection:
    """The parts of one open database."""

    def __init__(
        self,
        path: str,
        spark: SparkSession | None,
        *,
        access: Access,
        partitions: int | None,
        wait: float,
        trust: Trust,
    ) -> None:
        self.path = path
        self.is_writable = access is Access.WRITE
        self._closed = False
        self._threads = threading.local()
        store = Store(database_place(path))
        log = CommitLog(store)
        if not self.is_writable and not log.exists():
            raise DefinitionError(
                f"there is no database at '{path}'",
                hint="open it once with rekindle.connect(path) to create it",
            )
        self.lease: Lease | None = None
        if self.is_writable:
            store.check_creatable()
            self.lease = Lease(store, wait, log.last_fence)
            store = replace(store, writer=self.lease.token)
            log = CommitLog(store, self.lease)
        try:
            state = _opened(log, store)
            if self.lease is not None and self.lease.contested:
                state = log.take_over(state)
            self.spark = session_for(spark)
            self.catalyst = Catalyst(self.spark)
            self.leaves = Leaves(self.catalyst)
            self.frames = Frames(self.catalyst, partitions)
            self.frames.check_executors = partial(check_executors, self.spark, store, access)
            self.frames.check_executors()
            self.channel = Channel(self.catalyst)
            plans = Plans(Lowering(self.catalyst), self.channel)
            self.definitions = Definitions(self.catalyst, self.leaves, trust)
            terms = ViewTerms(self._term)
            dump = self.definitions.dumped
            self.engine = Engine(store, log, state, plans, self.frames, terms, dump)
            self.feeding = FactoredMaintenance(plans, store, self.definitions.rounding)
            self.engine.feeding = self.feeding
            self.creating = Creating(self.engine, self.definitions, self.feeding)
            self.redefining = Redefining(self.engine, self.definitions)
            self.restoring = Restoring(self.engine, self.definitions, self.feeding)
            self.engine.refresh = self.restoring.refresh
            self.contents = Contents(self.catalyst, self.frames, self.leaves, store)
            self.sessions = Sessions()
            self.restore()
        except BaseException:
            self.give_up()
            raise

    def _term(self, name: str) -> Term:
        """The term of a stored view, read when it is needed."""
        entry = self.engine.state.entry(name)
        assert isinstance(entry, ViewEntry)
        return self.definitions.term(entry)

    # ---- names -----------------------------------------------------------------------------

    def restore(self) -> None:
        """Make the tables and views of the state known to queries and followed by steps."""
        self.restoring.restore(self.know)
        self.know_functions()

    def know_functions(self) -> None:
        """Let comprehensions use the functions of the state."""
        self.definitions.catalog.functions = self.engine.state.functions

    def know(self, entry: Entry) -> None:
        """Let queries read a table or view."""
        if entry.level is not None:
            know_nested(self.leaves, entry, self.engine.state.parts(entry.name))
        else:
            self.leaves.levels.pop(entry.name, None)
            self.leaves.add(entry.name, declared(entry))
        if isinstance(entry, TableEntry) and entry.key:
            key = tuple(entry.schema.names[i] for i in entry.key)
            self.leaves.keys[entry.name] = key
            if entry.level is not None:
                self.leaves.keys[entry.level.view] = key

    def forget(self, name: str) -> None:
        """Let queries read it, and its parts, no more."""
        for known in [*self.leaves.plans]:
            if known == name or known.startswith(f"{name}{HIDDEN}"):
                self.leaves.remove(known)

    def know_again(self, entry: Entry) -> None:
        """Let queries read a table or view with other columns than before.

        It is known all the while: other threads read it meanwhile.
        """
        self.know(entry)
        parts = {part.name for part in self.engine.state.parts(entry.name)}
        for known in [*self.leaves.plans]:
            if known == entry.name or known in parts:
                self.leaves.forget_older(known)
            elif known.startswith(f"{entry.name}{HIDDEN}"):
                self.leaves.remove(known)

    # ---- what may be done ------------------------------------------------------------------

    @property
    def turn(self) -> Turn:
        """Held by whoever commits, or defines something."""
        return self.engine.turn

    @property
    def is_closed(self) -> bool:
        return self._closed

    def check_open(self) -> None:
        """Raise unless the connection is open, in any thread."""
        if self._closed:
            raise ClosedError(
                f"the connection to '{self.path}' is closed", hint="call rekindle.connect again"
            )
        if not hasattr(self._threads, "session"):
            # Each thread has one of its own in the JVM, which reads the settings of *its* session.
            self.catalyst.activate()
            self._threads.session = self.catalyst.session

    def check_writable(self) -> None:
        """Raise unless the connection may write."""
        self.check_open()
        if not self.is_writable:
            raise ClosedError(
                f"the connection to '{self.path}' is for reading",
                hint="open it with rekindle.connect(path)",
            )

    def refreshed(self) -> Engine:
        """The engine; a reader first follows what has been committed since."""
        self.check_open()
        if not self.is_writable:
            with self.turn:
                self._follow()
        return self.engine

    def _follow(self) -> None:
        state = self.engine.log.follow(self.engine.state)
        before, self.engine.state = self.engine.state, state
        self.know_functions()
        if state.entries != before.entries or state.nodes is not before.nodes:
            self.restore()
            for name in [*self.leaves.plans]:
                if name in state.entries:
                    self.leaves.forget_older(name)
            for name in before.entries.keys() - state.entries.keys():
                self.forget(name)

    @property
    def untrusted(self) -> dict[str, str]:
        """The views that are read and not followed, and why."""
        return self.engine.untrusted.shown(self.refreshed().state)

    def refuse_untrusted(self, name: str, done: str) -> None:
        """Raise if a view is untrusted, which cannot be `done` then."""
        reason = self.untrusted.get(name)
        if reason is not None:
            raise untrusted_error(f"view '{name}' is untrusted and cannot be {done}", reason)

    # ---- the end ---------------------------------------------------------------------------

    def close(self) -> None:
        """Roll back what is open and let another writer in."""
        if self._closed:
            return
        self._closed = True
        try:
            for transaction in self.sessions.open:
                transaction.rollback()
            with self.turn:
                self.engine.commits.close()
        finally:
            # Whatever interrupts this, nobody waits for a connection that is closed.
            self.engine.commits.close()
            self.engine.wake_up()
            self.give_up()

    def give_up(self) -> None:
        """Let go of what others wait for, as far as it was taken."""
        if hasattr(self, "channel"):
            self.channel.close()
        if self.lease is not None:
            self.lease.release()


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


def view_of(state: State, name: str) -> ViewEntry:
    """The view of that name; a table has nothing to recompute."""
    entry = state.entry(name)
    if not isinstance(entry, ViewEntry):
        raise DefinitionError(f"'{name}' is a table and has nothing to recompute")
    return entry
