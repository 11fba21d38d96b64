"""The engine: one transaction is one epoch.

A step computes the runs by which traces grow, the traces take them in (merging a bounded amount of
older runs), all new files are made durable, and one record in the commit log makes the whole the
next state. A failure before that record leaves the previous state as it was, in memory and on disk.
"""

from __future__ import annotations

import enum
import itertools
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rekindle.calculus.schema import Schema
from rekindle.calculus.terms import Term, sources
from rekindle.catalyst.types import payload_schema
from rekindle.circuit.circuit import Circuit
from rekindle.circuit.costs import Refresh
from rekindle.circuit.nodes import GroupMap, IndexedView, Stateful, Table, View
from rekindle.circuit.stored_nodes import Dump, StoredNode, is_stored, reached, stored
from rekindle.errors import (
    ClosedError,
    ConflictError,
    ConstraintError,
    CorruptionError,
    DefinitionError,
    HistoryError,
    StaleError,
    UnsupportedError,
)
from rekindle.frontends.spark_sql.clock import CLOCK
from rekindle.incremental.pipeline import derive
from rekindle.names import shown
from rekindle.runtime.epochs.changes import changed, touch_any
from rekindle.runtime.epochs.garbage import Garbage
from rekindle.runtime.epochs.history import Change, History
from rekindle.runtime.epochs.log import CommitLog
from rekindle.runtime.epochs.offsets import OffsetChange, Offsets, with_changes
from rekindle.runtime.epochs.rolling import roll
from rekindle.runtime.epochs.snapshots import Snapshots
from rekindle.runtime.epochs.state import Entry, State, TableEntry, ViewEntry, own_identity
from rekindle.runtime.matrices.maintenance import Changed, FactoredMaintenance
from rekindle.runtime.matrices.products import split
from rekindle.runtime.streaming.definition import Streams
from rekindle.runtime.time.clock import (
    Time,
    moved_by_hand,
    movement,
    new_clock,
    shown_by,
    time_of_day,
)
from rekindle.runtime.time.forgetting import Forgetting
from rekindle.runtime.time.lateness import WatermarkRow, watermark_name, watermark_row_of
from rekindle.runtime.time.watermarks import Watermarks
from rekindle.runtime.transactions.commits import Commits, Turn, Watched
from rekindle.runtime.transactions.stepping import Stepping, TableChange
from rekindle.runtime.trust import remember, remember_plans
from rekindle.runtime.views.filling import Filling, reached_partial
from rekindle.runtime.views.left_out import Stale, Untrusted, needed_by
from rekindle.runtime.views.redefinition import Redefined, Redefinition
from rekindle.runtime.views.settings import ViewSettings
from rekindle.runtime.views.terms import ViewTerms
from rekindle.spark.frames import Frames, to_arrow
from rekindle.spark.inline import prepared, write_table
from rekindle.spark.placing import Placing
from rekindle.spark.plans import Plans
from rekindle.spark.step import NodeStep, Placement, StepContext, StepResult
from rekindle.traces.arrays import WEIGHT
from rekindle.traces.layout import TraceLayout
from rekindle.traces.reader import TraceReader
from rekindle.traces.store import Durability, Store
from rekindle.traces.threads import MANY_ROWS, each
from rekindle.traces.trace import Advance, Trace, advance, fuel_for
from rekindle.traces.values import Weight


class Incrementality(enum.Enum):
    """Whether a part of a view may be recomputed as a whole at every change."""

    PREFERRED = "preferred"
    REQUIRED = "required"


@dataclass(frozen=True, slots=True)
class LastStep:
    """What the last step did, for explain."""

    epoch: int
    seconds: float
    placement: Placement
    nodes: Mapping[str, NodeStep]


class Engine:
    """Turns table changes into the next state of a database."""

    def __init__(
        self,
        store: Store,
        log: CommitLog,
        state: State,
        plans: Plans,
        frames: Frames,
        terms: ViewTerms,
        dump: Dump,
    ) -> None:
        self.store = store
        self.log = log
        self.state = state
        self.plans = plans
        self.frames = frames
        self.circuit = Circuit()
        self.terms = terms
        self.untrusted = Untrusted()
        self.stale = Stale()
        self.refresh: Callable[[], object] = lambda: None
        """Fills the stale views that can be filled anew."""
        self._dump = dump
        self.has_all_plans = True
        """Is the plan of every view that is followed in the log?"""
        self.placing = Placing()
        self.forced: Refresh | None = None
        """What a user asked steps to do, instead of what costs least."""
        self.retention: int | None = None
        """For how many epochs changes are kept; None is what the database says."""
        self.last: LastStep | None = None
        self.steps: dict[str, tuple[int, NodeStep]] = {}
        self.turn = Turn()
        """Held by whoever changes the database: one commit or definition at a time."""
        self.snapshots = Snapshots()
        self._time: tuple[Trace | None, Time | None] | None = None
        """What the clock shows, by the contents that say so."""
        self._watermarks: dict[str, tuple[Trace, WatermarkRow | None]] = {}
        """The watermarks of tables, by the contents that say so."""
        self.committed = threading.Condition()
        """Notified after each commit, and when the connection is closed."""
        self._interrupted: int | None = None
        """The epoch whose commit was interrupted when its record may have been written."""
        self.commits = Commits(
            self.turn, self._applied, self._last_committed, self._bring_up_to_date
        )
        self._garbage = Garbage(store, self.snapshots)
        self.feeding: FactoredMaintenance | None = None
        self._filling = Filling(plans, frames, store, self.placing)
        self._settings = ViewSettings(plans.lowering.catalyst)
        self.forgetting = Forgetting(plans.lowering.catalyst, self._moved_to)

    # ---- definitions -----------------------------------------------------------------------

    def restore_table(self, entry: TableEntry) -> None:
        """Give a table of the loaded state its node, if it has rows of its own."""
        if not entry.stands:
            self.circuit.table(table_node(entry))

    def refuse_other_columns(self, entry: Entry) -> None:
        """Raise unless the contents of a table or view have the columns that its schema says.

        Spark reads rows as it is told: of other types it would read memory that is not theirs.
        """
        trace = self.state.traces.get(entry.node)
        if trace is not None:
            wanted = TraceLayout((Weight(),), payload_schema(entry.schema))
            if trace.layout.fingerprint != wanted.fingerprint:
                raise _misfit(entry.name, entry.node)

    def derived(self, entry: ViewEntry, term: Term) -> tuple[Circuit, View]:
        """The circuit with the nodes that a stored view's term has today."""
        circuit = self.circuit.copy()
        stream = derive(term)
        return circuit, circuit.view(
            entry.name, stream, entry.schema, entry.node, entry.own, entry.index
        )

    def restore_view(self, entry: ViewEntry, circuit: Circuit) -> None:
        """Let a view of the loaded state be followed by its nodes in a circuit.

        Raises `StalePlanError` unless their state is there, in the layout that the nodes have: a
        layout says how values are read, and no other than the circuit's own is ever followed.
        """
        if circuit.names.get(entry.name) != entry.node:
            raise StalePlanError("what keeps it is derived otherwise by now")
        kept = circuit.nodes[entry.node]
        if entry.index != (kept.index if isinstance(kept, IndexedView) else ()):
            raise StalePlanError("what keeps it is arranged otherwise by now")
        for node in circuit.reachable(entry.node):
            if not isinstance(node, Stateful):
                continue
            trace = self.state.traces.get(node.id)
            if trace is None:
                raise StalePlanError(f"there is no state of {node.id}")
            if trace.layout.fingerprint != self.plans.layout(node).fingerprint:
                raise StalePlanError(f"the state of {node.id} has another layout by now")
        self.circuit = circuit

    def identity_of(self, entry: ViewEntry, term: Term) -> str:
        """The node that a view would have if it were defined by a term."""
        self.untrusted.refuse_reading(entry.name, sources(term))
        return (
            self.circuit.copy().view(entry.name, derive(term), entry.schema, index=entry.index).id
        )

    def forget_definitions(self) -> None:
        """Begin anew with no nodes; what the state lists is to be restored."""
        self.circuit = Circuit()
        self.terms.clear()

    def create_table(self, entry: TableEntry, parts: Sequence[TableEntry] = ()) -> None:
        """Add a table without rows, with the parts that it stands for, if it does."""
        circuit = self.circuit.copy()
        epoch = self.state.epoch + 1
        made = [replace(each, created=epoch) for each in (entry, *parts)]
        nodes = [table_node(each) for each in made if not each.stands]
        for node in nodes:
            circuit.table(node)
        with self._attempt(epoch):
            self._commit(
                replace(
                    self.state,
                    entries={**self.state.entries, **{each.name: each for each in made}},
                    traces={
                        **self.state.traces,
                        **{node.id: Trace(self.plans.layout(node)) for node in nodes},
                    },
                )
            )
            self.circuit = circuit

    def create_views(
        self,
        definitions: Sequence[tuple[ViewEntry, Term]],
        incremental: Incrementality = Incrementality.PREFERRED,
        standing: Sequence[ViewEntry] = (),
        feeds: Sequence[tuple[TableEntry, pa.Table]] = (),
        replaced: Sequence[str] = (),
    ) -> None:
        """Add views, or give them new definitions, and fill them from what the database holds.

        A view may read those before it; all of them are made in one epoch, and with them the
        `standing` entries, which have no nodes and stand for some of the others, and the `feeds`
        of some, with the rows that they begin with. What is `replaced`, a view that nothing else
        reads and its parts, is gone in the same epoch, unless it is defined again.
        """
        self.refresh()
        self._set_clock(definitions)
        circuit = self.circuit.copy()
        # A part may read another: those that read go first.
        for name in reversed([name for name in replaced if name in circuit.names]):
            circuit.drop(name)
        for feed, _ in feeds:
            circuit.table(table_node(feed))
        views = {}
        for entry, term in definitions:
            self._check_sources(entry.part_of or entry.name, term)
            view = circuit.view(
                entry.name, derive(term), entry.schema, own=entry.own, index=entry.index
            )
            if incremental is Incrementality.REQUIRED:
                _require_incremental(entry.name, circuit, view)
            views[entry.name] = view.id
        named = {entry.name: entry for entry, _ in definitions}
        there = {k: v for k, v in self.state.entries.items() if k not in replaced}
        self._follow_settings(circuit, {**there, **named})
        circuit.prune()
        gone = set(self.circuit.nodes) - set(circuit.nodes)
        fed = {feed.node for feed, _ in feeds}
        fresh = frozenset(k for k in circuit.nodes if k not in self.circuit.nodes and k not in fed)
        self._refuse_stale_state(fresh)
        before = self.state
        # A new view may look at rows of a shared integral that no older one does.
        fresh |= reached_partial(circuit, views.values(), before.traces)
        epoch = before.epoch + 1
        started = time.perf_counter()
        with self._attempt(epoch):
            context = StepContext(circuit, before.traces, self.store, epoch)
            filled = dict(before.traces)
            for feed, rows in feeds:
                node = table_node(feed)
                run = write_table(context, node.id, self.arranged(node, rows))
                filled[node.id] = Trace(self.plans.layout(node), (run,) if run.rows else ())
            result = self._filling.fill(circuit, fresh, filled, epoch)
            traces = {k: v for k, v in before.traces.items() if k not in gone}
            traces |= {key: Trace(filled[key].layout) for key in fed}
            traces |= self._filling.contents(circuit, fresh, result)
            history = {k: v for k, v in before.history.items() if k not in gone}
            for key in views.values():
                if key in fresh and key in result.runs:
                    history[key] = History((Change(epoch, result.runs[key]),))
            entries: dict[str, Entry] = {f.name: replace(f, created=epoch) for f, _ in feeds}
            entries |= {
                entry.name: replace(
                    entry, node=views[entry.name], created=epoch, reads=sources(term)
                )
                for entry, term in definitions
            }
            entries |= {entry.name: replace(entry, created=epoch) for entry in standing}
            self.store.flush(path for run in result.runs.values() for path in run.paths)
            remember([*(entry for entry, _ in definitions), *standing])
            self._commit(
                replace(
                    before,
                    entries={**there, **entries},
                    traces=traces,
                    history=history,
                ),
                result.passing.union(*(_files(filled[key]) for key in fed)),
                circuit,
            )
            self._let_go(gone)
            self.circuit = circuit
            self.stale.remove(replaced)
            for name in replaced:
                self.terms.remove(name)
            for entry, term in definitions:
                self.terms.define(entry.name, term)
            self._remember(result, started)

    def refill(
        self, entry: ViewEntry, term: Term, feeds: Sequence[tuple[TableEntry, pa.Table]] = ()
    ) -> None:
        """Give a stale view the nodes that its term has today, and fill them, in one epoch.

        Its history goes on: what its contents were is known, and what they are now is one more
        change, mostly none.
        """
        if term.schema.types != entry.schema.types:
            raise DefinitionError(
                f"the query of view '{entry.name}' has other columns by now",
                detail=f"it was made with {entry.schema}, and has {term.schema}",
                hint=f"DROP VIEW {entry.name} and create it again",
            )
        self.make_whole()
        circuit = self.circuit.copy()
        view = circuit.view(
            entry.name, derive(term), entry.schema, own=entry.own, index=entry.index
        )
        self._follow_settings(circuit, {**self.state.entries, entry.name: entry})
        fresh = frozenset(circuit.nodes) - frozenset(self.circuit.nodes)
        before = self.state
        epoch = before.epoch + 1
        filled = dict(before.traces)
        with self._attempt(epoch):
            context = StepContext(circuit, before.traces, self.store, epoch)
            for feed, rows in feeds:
                node = table_node(feed)
                run = write_table(context, node.id, self.arranged(node, rows))
                filled[node.id] = Trace(self.plans.layout(node), (run,) if run.rows else ())
            result = self._filling.fill(circuit, fresh, filled, epoch)
            traces = {**before.traces, **self._filling.contents(circuit, fresh, result)}
            change = self._filling.difference(
                view, before.traces[entry.node], traces[view.id], context
            )
            history = dict(before.history)
            past = history.get(entry.node, History())
            if view.id in fresh or view.id not in history:
                history[view.id] = past.plus(Change(epoch, change)) if change.rows else past
            now = replace(entry, node=view.id, reads=sources(term), stale=None)
            after = replace(before, entries={**before.entries, entry.name: now})
            gone = self._unneeded(circuit, after, {entry.name})
            after = replace(
                after,
                traces={key: trace for key, trace in traces.items() if key not in gone},
                history={key: kept for key, kept in history.items() if key not in gone},
            )
            self.store.flush(after.paths - before.paths)
            passing = result.passing.union(*(_files(filled[feed.node]) for feed, _ in feeds))
            self._commit(after, passing, circuit)
            self._let_go(gone)
            self.circuit = circuit
            self.terms.define(entry.name, term)
            self.stale.remove([entry.name])

    def store_plans(self) -> None:
        """Keep the plans of views that were made before plans were kept; an epoch if there are."""
        if not self.has_all_plans:
            with self._attempt(self.state.epoch + 1):
                self._commit(self.state, circuit=self.circuit)

    def _planned(self, state: State, circuit: Circuit) -> State:
        """The state with the plans of a circuit, and those of views that are left out of it."""
        nodes: dict[str, StoredNode] = {}
        for key, node in circuit.nodes.items():
            kept = state.nodes.get(key) if self.circuit.nodes.get(key) is node else None
            if is_stored(node):
                nodes[key] = kept or stored(node, self._dump)
        left_out = [state.entries[n].node for n in self._left_out if n in state.entries]
        for key in reached(left_out, state.nodes):
            nodes.setdefault(key, state.nodes[key])
        unread = {
            name: replace(entry, reads=self.terms.reads[name])
            for name, entry in state.entries.items()
            if isinstance(entry, ViewEntry) and entry.reads is None and name in self.terms
        }
        return replace(state, nodes=nodes, entries={**state.entries, **unread})

    @property
    def _left_out(self) -> list[str]:
        return [*self.untrusted.reasons, *self.stale.reasons]

    def _unneeded(self, circuit: Circuit, after: State, names: set[str]) -> set[str]:
        """The traces that nothing needs once the views `names` are no longer left out.

        Of a view that is left out and has no stored plan nobody knows what it keeps: traces that no
        node has go with the last such view.
        """
        others = [n for n in self._left_out if n not in names and n in after.entries]
        needed = needed_by(others, after)
        if needed is None:
            gone = {self.state.entries[n].node for n in names if n in self.state.entries}
            return gone - set(circuit.nodes) - {after.entries[n].node for n in others}
        return {key for key in self.state.traces if key not in circuit.nodes and key not in needed}

    def _refuse_stale_state(self, fresh: Iterable[str]) -> None:
        """Raise if nodes to be filled are those of a stale view, whose rows would be replaced."""
        for name in self.stale.reasons:
            if self.state.entries[name].node in fresh:
                raise DefinitionError(
                    f"the view '{name}' has the same query and is stale",
                    detail=self.stale.reasons[name],
                    hint=f"DROP VIEW {name} first",
                )

    def _check_sources(self, name: str, term: Term) -> None:
        self.untrusted.refuse_reading(name, sources(term))
        for source in sources(term):
            if source in self.stale.reasons:
                raise StaleError(
                    f"view '{name}' cannot read '{shown(source)}', which is stale",
                    detail=self.stale.reasons[source],
                    hint=f"DROP VIEW {shown(source)} and create it again",
                )
            read = self.state.entries.get(source)
            if isinstance(read, ViewEntry) and read.factorisation is not None:
                raise UnsupportedError(
                    f"view '{name}' reads '{source}', which is kept factorised",
                    detail="a factorised view has no changes that another could follow",
                    hint=f"write the query of '{source}' in its place",
                )

    def define_functions(self, functions: Mapping[str, str]) -> None:
        """Commit other functions, where no view follows them."""
        with self._attempt(self.state.epoch + 1):
            self._commit(replace(self.state, functions=functions))

    def define_streams(self, streams: Streams, offsets: Offsets) -> None:
        """Commit other streams, and how far those that are left have been read."""
        with self._attempt(self.state.epoch + 1):
            self._commit(replace(self.state, streams=streams, offsets=offsets))

    def redefine(
        self,
        functions: Mapping[str, str],
        definitions: Sequence[tuple[ViewEntry, Term]],
        differences: Mapping[str, Term],
        standing: Sequence[ViewEntry],
        dropped: Iterable[str],
    ) -> None:
        """Commit other functions and, in the same epoch, views that follow by the difference.

        A view of `definitions` is there already, or is a new part of one; those that no longer
        have a meaning are `dropped`. The `differences` of some say what they change by, as long as
        nothing that they read changes with them. Views that only read others go on as if these had
        been changed by a transaction.
        """
        self._set_clock(definitions)
        self.make_whole()
        before, started = self.state, time.perf_counter()
        epoch = before.epoch + 1
        given = {entry.name: (entry, term) for entry, term in definitions}
        away = set(dropped)
        entries = {name: known for name, known in before.entries.items() if name not in away}
        entries |= {entry.name: replace(entry, reads=sources(term)) for entry, term in definitions}
        entries |= {entry.name: entry for entry in standing}
        after = replace(before, entries=entries, functions=functions)
        circuit = self._rederived(after, given)
        entries |= {name: replace(entries[name], node=circuit.names[name]) for name in given}
        gone = set(self.circuit.nodes) - set(circuit.nodes)
        self._follow_settings(circuit, entries)
        changed = [
            Redefined(circuit.names[name], self._former(entries[name]), differences.get(name))
            for name in given
        ]
        with self._attempt(epoch):
            context = StepContext(circuit, before.traces, self.store, epoch)
            moving = Redefinition(
                self.plans, self.frames, self._filling, self.placing, context, self.circuit
            )
            moved = moving.run(changed)
            history = {key: past for key, past in before.history.items() if key not in gone}
            for each in changed:
                if each.former is not None and each.former != each.key:
                    history[each.key] = before.history.get(each.former, History())
            for key, run in moved.changes.items():
                history[key] = history.get(key, History()).plus(Change(epoch, run))
            after = replace(
                after,
                entries=entries,
                traces={key: trace for key, trace in moved.traces.items() if key not in gone},
                history={key: past for key, past in history.items() if past},
            )
            self.store.flush(after.paths - before.paths)
            remember([*(entry for entry, _ in definitions), *standing])
            self._commit(after, moved.passing - after.paths, circuit)
            self._let_go(gone)
            self.circuit = circuit
            for entry, term in definitions:
                self.terms.define(entry.name, term)
            for name in {*away, *(each.name for each in standing if each.stands)} - set(given):
                self.terms.remove(name)
        self._remember(StepResult(nodes=moved.nodes), started)

    def _former(self, entry: Entry) -> str | None:
        """The node whose contents and history a view goes on from, if it has the same columns."""
        before = self.state.entries.get(entry.name)
        if before is None or before.schema.types != entry.schema.types:
            return None
        return before.node if before.node in self.state.traces else None

    def _rederived(self, after: State, given: Mapping[str, tuple[ViewEntry, Term]]) -> Circuit:
        """The circuit in which some views have other terms, and the others the nodes they have."""
        circuit = Circuit()
        for known in after.in_order:
            if isinstance(known, TableEntry):
                if not known.stands:
                    circuit.table(table_node(known))
            elif known.name in given:
                entry, term = given[known.name]
                # Another form under the identity of the old one, or an identity that none has.
                own = entry.own or own_identity()
                circuit.view(entry.name, derive(term), entry.schema, own=own, index=entry.index)
            elif known.name in self.terms and not known.stands:
                circuit.adopt(known.name, self.circuit.reachable(known.node))
        circuit.prune()
        redefined = {circuit.names[name] for name in given}
        for key in circuit.nodes:
            if key in self.circuit.nodes and key not in redefined:
                circuit.nodes[key] = self.circuit.nodes[key]
        return circuit

    def add_columns(
        self, old: TableEntry, entry: TableEntry, owner: TableEntry | None = None
    ) -> None:
        """Give a table columns, which its rows have no value in; views stay as they are.

        If it is the top of a nested table, the `owner` is that with the columns. A row's identity
        is that of all its columns, so the table is written anew, with its history, and what is
        kept for its views is filled again.
        """
        self.refresh()
        self.untrusted.refuse_changes([old.name], self.state, self.terms.reads)
        self.make_whole()
        affected = self._readers_under(old.name)
        circuit = Circuit()
        for known in self.state.in_order:
            if isinstance(known, TableEntry):
                if not known.stands:
                    circuit.table(table_node(entry if known.name == old.name else known))
            elif known.name in affected:
                assert isinstance(known, ViewEntry)
                own = own_identity() if known.own else ""
                circuit.view(
                    known.name,
                    derive(self.terms[known.name]),
                    known.schema,
                    own=own,
                    index=known.index,
                )
            elif known.name in self.terms:
                circuit.adopt(known.name, self.circuit.reachable(known.node))
        self._follow_settings(circuit, self.state.entries)
        node = circuit.nodes[entry.node]
        assert isinstance(node, Table)
        fresh = frozenset(circuit.nodes) - frozenset(self.circuit.nodes) - {node.id}
        gone = set(self.circuit.nodes) - set(circuit.nodes)
        moved = {
            known.node: circuit.names[name]
            for name, known in self.state.entries.items()
            if isinstance(known, ViewEntry) and name in self.terms
        }
        before = self.state
        with self._attempt(before.epoch + 1):
            context = StepContext(circuit, {}, self.store, before.epoch + 1)
            held = before.traces[old.node]
            traces = {**before.traces, node.id: self._filling.widened(node, held, context)}
            result = self._filling.fill(circuit, fresh, traces, before.epoch + 1)
            history = {moved.get(key, key): past for key, past in before.history.items()}
            past = history.pop(old.node, History())
            history[node.id] = self._filling.widened_history(node, past, held.layout, context)
            traces |= self._filling.contents(circuit, fresh, result)
            entries = {
                name: replace(known, node=moved.get(known.node, known.node))
                for name, known in before.entries.items()
            }
            after = replace(
                before,
                entries={
                    **entries,
                    old.name: entry,
                    **({} if owner is None else {owner.name: owner}),
                },
                traces={key: trace for key, trace in traces.items() if key not in gone},
                history=history,
            )
            self.store.flush(after.paths - before.paths)
            self._commit(after, result.passing, circuit)
            self._let_go(gone)
            self.circuit = circuit
            if self.feeding is not None:
                self.feeding.forget_circuits()

    def drop(self, entry: Entry) -> None:
        """Remove a table or view, with its parts, and the state that nothing else needs."""
        circuit = self.circuit.copy()
        before = self.state
        parts = [part.name for part in before.parts(entry.name)]
        names = {entry.name, *parts}
        # A part may read another: those that read go first.
        dropped = [entry.name] if entry.name in circuit.names else []
        dropped += [part for part in reversed(parts) if part in circuit.names]
        gone = {n.id for name in dropped for n in circuit.drop(name)}
        entries = {k: v for k, v in before.entries.items() if k not in names}
        if names.intersection(self._left_out):
            gone |= self._unneeded(circuit, replace(before, entries=entries), names)
        after = replace(
            before,
            entries=entries,
            traces={k: v for k, v in before.traces.items() if k not in gone},
            history={k: v for k, v in before.history.items() if k not in gone},
        )
        with self._attempt(self.state.epoch + 1):
            self._commit(after, circuit=circuit)
            self._let_go(gone)
            self.circuit = circuit
            self.untrusted.remove(names)
            self.stale.remove(names)
            for name in names:
                self.terms.remove(name)
                if self.feeding is not None:
                    self.feeding.remove(name)

    def _let_go(self, gone: set[str]) -> None:
        """Forget nodes that are no longer part of the circuit."""
        for key in gone & set(self.circuit.nodes):
            self.plans.forget(self.circuit.nodes[key])
            self.steps.pop(key, None)

    def readers_of(self, name: str) -> list[str]:
        """The views whose definition reads a table or view."""
        names = {name, *(part.name for part in self.state.parts(name))}
        found = {view for view, reads in self.terms.reads.items() if not names.isdisjoint(reads)}
        for part in names:
            found |= self.untrusted.readers_of(part) | self.stale.readers_of(part)
        entries = [self.state.entry(view) for view in found - names]
        owners = (e.part_of if isinstance(e, ViewEntry) else None for e in entries)
        readers = {owner or e.name for owner, e in zip(owners, entries, strict=True)}
        return sorted(readers | {view for view in self._fed() if name in self._fed()[view]})

    def _fed(self) -> dict[str, Mapping[str, Schema]]:
        """The tables that each fed view reads."""
        feeding = self.feeding
        return {} if feeding is None else {view: feeding.reads(view) for view in feeding.views}

    def sources_of(self, name: str) -> dict[str, Schema]:
        """The tables and views that a view's definition reads, with the columns it knows of."""
        if name in self._fed():
            return dict(self._fed()[name])
        parts = [part.name for part in self.state.parts(name)] or [name]
        found = {k: v for part in parts for k, v in self._reads(part).items()}
        return {k: v for k, v in found.items() if k not in parts}

    def _reads(self, name: str) -> Mapping[str, Schema]:
        """What a view reads, also if it is not followed."""
        if name in self.terms:
            return self.terms.reads[name]
        entry = self.state.entry(name)
        return (entry.reads if isinstance(entry, ViewEntry) else None) or {}

    def _readers_under(self, name: str) -> set[str]:
        """The followed views that read a table or view, also through others."""
        readers: set[str] = set()
        for entry in self.state.in_order:
            reads = self.terms.reads.get(entry.name, {})
            if name in reads or not readers.isdisjoint(reads):
                readers.add(entry.name)
        return readers

    def tables_under(self, name: str) -> frozenset[str]:
        """The tables that a view reads, also through other views."""
        found: set[str] = set()
        waiting = [name]
        while waiting:
            for source in self.sources_of(waiting.pop()):
                if not isinstance(self.state.entries.get(source), ViewEntry):
                    found.add(source)
                elif source not in self.untrusted.reasons:
                    waiting.append(source)
        return frozenset(found)

    # ---- transactions ----------------------------------------------------------------------

    def begin(self) -> State:
        """The state that a transaction begins with, whose files are kept until it ends."""
        while True:
            state = self.state
            self.snapshots.hold(state.epoch)
            if self.state is state:  # No commit came between, whose sweep did not know of this.
                return state
            self.snapshots.release(state.epoch)

    def apply(
        self,
        given: Mapping[Table, TableChange],
        moved: Sequence[OffsetChange] = (),
        watched: Sequence[Watched] = (),
    ) -> int:
        """Apply the changes of tables, and how far their sources were read, as one epoch.

        Gives its number. Raises `ConflictError` if somebody has changed what was `watched`.
        """
        with self.turn:
            self._bring_up_to_date()
            return self._applied(given, moved, watched)

    def _bring_up_to_date(self) -> None:
        """Fill the stale views that can be filled, each in an epoch of its own."""
        if self.stale.reasons:
            self.refresh()

    def _applied(
        self,
        given: Mapping[Table, TableChange],
        moved: Sequence[OffsetChange] = (),
        watched: Sequence[Watched] = (),
    ) -> int:
        """Apply changes as the one epoch that this commits; if it fails, it commits none."""
        with self.turn:
            started = time.perf_counter()
            names = [node.name for node in given]
            self.untrusted.refuse_changes(names, self.state, self.terms.reads)
            for node in given:
                self._check_current(node)
            for each in watched:
                self.check_watched(each)
            self._follow_settings(self.circuit, self.state.entries)
            epoch = self.state.epoch + 1
            offsets = with_changes(self.state.offsets, moved, epoch)
            context = StepContext(self.circuit, self.state.traces, self.store, epoch)
            changes = self._with_time({node.name: change for node, change in given.items()})
            changes = self._with_watermarks(changes)
            along = [name for name in changes if name not in names and name != CLOCK]
            self.untrusted.refuse_changes(along, self.state, self.terms.reads)
            changes = self._with_feeds(changes)
            size = sum(c.estimate if c.rows is None else len(c.rows) for c in changes.values())
            inline = self.placing.takes_step(size) and all(
                c.frame is None for c in changes.values()
            )
            stepping = Stepping(
                self.plans,
                self.frames,
                self.placing,
                self._filling,
                context,
                self._feeds,
                self.forced,
                self.steps,
            )
            by_node = {self.table_node(name): change for name, change in changes.items()}
            with self._attempt(epoch):
                result = stepping.inline(by_node) if inline else None
                placement = Placement.SPARK if result is None else Placement.INLINE
                if result is None:
                    result = stepping.on_spark(by_node)
                self._finish(result, context, self._falling_behind(list(changes)), offsets)
            self._remember(result, started, placement)
            return epoch

    # ---- the clock -------------------------------------------------------------------------

    @property
    def time(self) -> Time | None:
        """What the clock shows; None if there is none yet."""
        state, known = self.state, self._time
        entry = state.entries.get(CLOCK)
        trace = None if entry is None else state.traces[entry.node]
        if known is None or known[0] is not trace:
            # Threads that read and the one that commits may be here with two states.
            known = self._time = (trace, shown_by(state, self.store))
        return known[1]

    def _set_clock(self, definitions: Sequence[tuple[ViewEntry, Term]]) -> None:
        """Let there be a clock if views ask for the time; a new one shows that of the day."""
        if self.time is None and any(CLOCK in sources(term) for _, term in definitions):
            self.advance_time(None)

    def advance_time(self, instant: int | None) -> int:
        """Move the clock, to the time of the day if no instant is given; gives the epoch."""
        with self.turn:
            if CLOCK not in self.state.entries:
                self.create_table(new_clock())
            before = self.time
            after = moved_by_hand(before, instant)
            if after == before:
                return self.state.epoch
            node = self.table_node(CLOCK)
            rows = self.arranged(node, movement(node, before, after))
            if before is None or before.instant <= after.instant:
                return self.apply({node: TableChange(rows=rows)})
            with self.whole():
                return self.apply({node: TableChange(rows=rows)})

    def _with_time(self, changes: Mapping[str, TableChange]) -> Mapping[str, TableChange]:
        """The changes, and that of the clock if it follows the time of the day.

        It stands still as long as an untrusted view reads it, which could not follow.
        """
        before, after = self.time, time_of_day()
        if before is None or before.by_hand or CLOCK in changes or after.instant <= before.instant:
            return changes
        if self.forgetting.suspended:
            return changes  # The contents of an earlier epoch have that epoch's time.
        if self.untrusted.reached_by({CLOCK}, self.state, self.terms.reads):
            return changes
        node = self.table_node(CLOCK)
        rows = self.arranged(node, movement(node, before, after))
        return {**changes, CLOCK: TableChange(rows=rows)}

    # ---- watermarks ------------------------------------------------------------------------

    def watermark(self, table: str) -> WatermarkRow | None:
        """The watermark of a table with a lateness; None if it has seen no time yet."""
        state = self.state
        trace = state.traces[state.entries[watermark_name(table)].node]
        known = self._watermarks.get(table)
        if known is None or known[0] is not trace:
            rows = TraceReader.of_trace(trace, self.store).whole()
            known = self._watermarks[table] = (trace, watermark_row_of(rows))
        return known[1]

    def _with_watermarks(self, changes: Mapping[str, TableChange]) -> Mapping[str, TableChange]:
        """The changes without late rows, and those of watermarks."""
        timed = any(_is_timed(self.state.entries[name]) for name in changes)
        if not timed or self.forgetting.suspended:
            return changes
        watermarks = Watermarks(
            self.state, self.store, self.table_node, self.arranged, self.watermark
        )
        return watermarks.applied(changes)

    def _moved_to(self, state: State) -> dict[str, int]:
        """The times that no later change of tables goes below, by their nodes."""
        found: dict[str, int] = {}
        for entry in state.entries.values():
            if isinstance(entry, TableEntry) and entry.lateness is not None:
                row = self.watermark(entry.name)
                if row is not None:
                    found[state.entries[watermark_name(entry.name)].node] = row.watermark
                    # Before rows have left for the first time, any row may.
                    if entry.lateness.retain is None or row.kept_from is not None:
                        found[entry.node] = row.bound
        if self.time is not None:
            found[state.entries[CLOCK].node] = self.time.instant
        return found

    def make_whole(self) -> None:
        """Fill again the traces of which rows have been removed, in an epoch of its own."""
        traces = self.state.traces
        partial = frozenset(k for k, t in traces.items() if t.partial and k in self.circuit.nodes)
        if not partial:
            return
        epoch = self.state.epoch + 1
        with self._attempt(epoch):
            result = self._filling.fill(self.circuit, partial, traces, epoch)
            after = {**traces, **self._filling.contents(self.circuit, partial, result)}
            self.store.flush(path for run in result.runs.values() for path in run.paths)
            self._commit(replace(self.state, traces=after), result.passing)

    def take_back(self, name: str, epoch: int) -> None:
        """Bring a table to what it was at an epoch, by a change of its own."""
        node = self.table_node(name)
        since = self.state.changes(name, epoch)
        found = [each.rows for each in changed(since, self.plans.layout(node), self.store)]
        if found:
            rows = pa.concat_tables(found)
            weights = pc.negate(rows.column(WEIGHT))
            rows = rows.set_column(rows.column_names.index(WEIGHT), WEIGHT, weights)
            self.apply({node: TableChange(rows=rows)})

    @contextmanager
    def whole(self) -> Iterator[Engine]:
        """A block whose steps may go back in time.

        All state is there, none is removed, and no row is late.
        """
        with self.turn:
            self.make_whole()
            self.forgetting.forget()
            self.forgetting.suspended = True
            try:
                yield self
            finally:
                self.forgetting.suspended = False

    def _last_committed(self) -> int:
        """The last epoch whose record is there, also if its commit was interrupted."""
        epoch = self._interrupted
        if epoch is not None and self.log.is_committed(epoch):
            return epoch
        return self.state.epoch

    def _check_current(self, node: Table) -> None:
        """Raise unless the table is still the one that a transaction has changed."""
        entry = self.state.entries.get(node.name)
        if entry is None or entry.node != node.id:
            raise altered(node.name)

    def check_watched(self, watched: Watched) -> None:
        """Raise if somebody has changed keys that a transaction has read."""
        self._check_current(watched.node)
        trace = self.state.traces[watched.node.id]
        if trace is watched.trace:
            return
        keys = np.array(sorted(watched.keys), dtype=np.int64)
        try:
            since = self.state.changes(watched.node.name, watched.epoch)
            touched = touch_any(since, trace.layout, self.store, keys)
        except HistoryError:
            touched = True
        if touched:
            name = shown(watched.node.name)
            raise ConflictError(
                f"rows of '{name}' were changed by another transaction since this one "
                f"began at epoch {watched.epoch}",
                hint="nothing was applied; begin the transaction again and read the rows anew",
            )

    def _follow_settings(self, circuit: Circuit, entries: Mapping[str, Entry]) -> None:
        """From now on each view's nodes work under the settings that the view was made with."""
        self.plans.lowering.catalyst.activate()
        self.plans.settings = self._settings.apart(circuit, entries)

    def _with_feeds(self, changes: Mapping[str, TableChange]) -> Mapping[str, TableChange]:
        """The changes, and what they add to the views that are fed."""
        feeding = self.feeding
        reached = {name for read in self._fed().values() for name in read if name in changes}
        if feeding is None or not reached:
            return changes
        found = dict(changes)
        arranged: dict[str, Changed] = {}
        for name in reached:
            change, node = found[name], self.table_node(name)
            if change.frame is not None:
                stored = pa.schema([(WEIGHT, pa.int64()), *payload_schema(node.schema)])
                change = found[name] = TableChange(rows=to_arrow(change.frame).cast(stored))
            assert change.rows is not None
            rows = self.arranged(node, change.rows)
            products = split(node, rows) if change.factors is None else None
            arranged[name] = Changed(rows, change.factors, products)

        @cache
        def before(name: str) -> pa.Table:
            return self._rows_of(name, [])

        @cache
        def after(name: str) -> pa.Table:
            return self._rows_of(name, [arranged[name].rows])

        for view in feeding.views:
            added = feeding.added(view, arranged, self.table_node, before, after)
            if added is not None and len(added):
                found[feeding.views[view].feed.name] = TableChange(rows=added)
        return found

    def rows_of(self, name: str) -> pa.Table:
        """The arranged contents of a table."""
        return self._rows_of(name, [])

    def _rows_of(self, name: str, extra: Sequence[pa.Table]) -> pa.Table:
        trace = self.state.traces[self.table_node(name).id]
        return TraceReader.of_trace(trace, self.store, extra=extra).whole()

    @property
    def _feeds(self) -> set[str]:
        """The tables that feed views: they take rows in and keep none."""
        views = {} if self.feeding is None else self.feeding.views
        return {self.circuit.names[view.feed.name] for view in views.values()}

    def arranged(self, node: Table, rows: pa.Table) -> pa.Table:
        """Rows with weights as an arranged change of a table."""
        return prepared(self.plans, node, rows)

    def _falling_behind(self, tables: Sequence[str]) -> Mapping[str, Entry]:
        """The entries after a change of tables that stale views do not follow."""
        entries = self.state.entries
        if not self.stale.reasons:
            return entries
        reached = self.stale.reached_by(set(tables), self.state, self.terms.reads)
        behind: dict[str, Entry] = {}
        for name in reached:
            entry = entries[name]
            if isinstance(entry, ViewEntry) and entry.stale is None:
                behind[name] = replace(entry, stale=self.state.epoch)
        return {**entries, **behind} if behind else entries

    def _finish(
        self,
        result: StepResult,
        context: StepContext,
        entries: Mapping[str, Entry],
        offsets: Offsets,
    ) -> None:
        """Let the traces take in their runs and commit."""
        before = self.state
        traces = dict(before.traces)
        written = [path for run in result.runs.values() for path in run.paths]
        dropped: set[str] = set()
        changed: set[str] = set()
        for key, contents in result.contents.items():
            dropped.update(_files(traces[key]))
            traces[key] = contents
            written += _files(contents)
        shown = [key for key in result.runs if isinstance(self.circuit.nodes[key], Table | View)]
        rolled = roll(before.history, before.times, shown, context)
        history = rolled.history
        written += rolled.written
        dropped |= rolled.passing
        for key in shown:
            run = result.runs[key]
            history[key] = history.get(key, History()).plus(Change(context.epoch, run))
            changed.update(run.paths)
        growing = {key: run for key, run in result.runs.items() if key not in result.contents}
        sieves = self.forgetting.sieves(self.circuit, before, growing)

        def grown(key: str) -> Advance:
            numbers, run = itertools.count(), growing[key]
            return advance(
                traces[key],
                run,
                fuel_for(run.rows),
                self.store,
                lambda: context.path(key, f"m{next(numbers):05}.arrow"),
                Durability.DEFERRED,
                sieves.get(key),
            )

        many = sum(run.rows for run in growing.values()) >= MANY_ROWS
        for key, advanced in zip(growing, each(grown, growing, together=many), strict=True):
            traces[key] = advanced.trace
            written += advanced.added
            dropped.update(advanced.dropped)
        self.store.flush(path for path in written if path not in dropped or path in changed)
        after = replace(
            before,
            entries=entries,
            traces=traces,
            history=history,
            times=rolled.times,
            offsets=offsets,
        )
        circuit = None if self.has_all_plans else self.circuit
        self._commit(after, dropped | result.passing, circuit)

    def _commit(
        self, after: State, passing: Iterable[str] = (), circuit: Circuit | None = None
    ) -> None:
        """Commit the next state; once the log has its record, nothing may fail any more.

        `passing` are files that were written for it and that it does not need. With a circuit the
        state gets its plans.
        """
        if self._interrupted is not None:
            raise ClosedError(
                "this connection was interrupted while it committed",
                hint="close it and call rekindle.connect again; nothing is lost",
            )
        if circuit is not None:
            after = self._planned(after, circuit)
        after = after.succeeded().retaining(self.retention or after.retain)
        self.log.commit(self.state, after)
        before, self.state = self.state, after
        self.wake_up()
        self.has_all_plans = self.has_all_plans or circuit is not None
        remember_plans(after, before.nodes)
        self._garbage.replaced(before, after, passing)
        self.log.maintain(after)
        with suppress(OSError):
            self._garbage.sweep(after.epoch)

    def wake_up(self) -> None:
        """Let those who wait for a commit look whether there is one."""
        with self.committed:
            self.committed.notify_all()

    def _remember(
        self, result: StepResult, started: float, tables: Placement = Placement.INLINE
    ) -> None:
        """Keep what a step did; `tables` is where their changes were taken in."""
        placements = {tables, *(step.placement for step in result.nodes.values())}
        placement = Placement.SPARK if Placement.SPARK in placements else Placement.INLINE
        self.last = LastStep(
            self.state.epoch, time.perf_counter() - started, placement, result.nodes
        )
        self.steps.update({key: (self.state.epoch, step) for key, step in result.nodes.items()})

    def retain(self, epochs: int | None) -> None:
        """Store for how many epochs changes are kept, from now on; None is for all."""
        with self.turn:
            before, said = self.state, self.retention
            self.retention = None
            try:
                with self._attempt(before.epoch + 1):
                    self._commit(replace(before, retain=epochs))
            except BaseException:
                self.retention = said
                raise

    # ---- files -----------------------------------------------------------------------------

    def collect(self) -> list[str]:
        """Remove every data file that nobody needs; gives their names."""
        with self.turn:
            return self._garbage.collect(self.state, self.log.check_writer)

    @contextmanager
    def _attempt(self, epoch: int) -> Iterator[None]:
        """Work towards an epoch; if it fails, the files written for it are removed.

        What follows the commit in the block belongs to it: whoever is interrupted there has a state
        that other parts do not have yet, and commits nothing more.
        """
        try:
            yield
        except BaseException:
            if self.log.may_be_committed(epoch):
                self._interrupted = epoch
            else:
                # Files of another writer at this epoch bear its own name.
                mark = f"/e{epoch:010}-{self.store.writer}"
                self.store.delete(path for path in self.store.list("data") if mark in path)
            raise

    def table_node(self, name: str) -> Table:
        entry = self.state.entry(name)
        if isinstance(entry, TableEntry) and entry.stands:
            return table_node(entry)
        node = self.circuit.nodes.get(entry.node)
        if not isinstance(node, Table):
            raise ConstraintError(
                f"'{name}' is a view and cannot be changed directly",
                hint="change the tables that it reads",
            )
        return node


def _require_incremental(name: str, circuit: Circuit, view: View) -> None:
    whole = [
        node
        for node in circuit.reachable(view.id)
        if isinstance(node, GroupMap) and node.is_recomputed
    ]
    if whole:
        shown = getattr(whole[0].body, "display", whole[0].body.text)
        raise DefinitionError(
            f"view '{name}' cannot be kept without recomputing a part of it as a whole",
            detail=f"{shown}: there is no key to tell untouched rows by",
            hint="give it a key (GROUP BY, PARTITION BY), or leave out incremental = 'required'",
        )


class StalePlanError(Exception):
    """Why a stored view cannot be followed by its plan."""


def altered(table: str) -> ConflictError:
    """The error for a table that is not the one a transaction knew."""
    return ConflictError(
        f"'{table}' was altered, or dropped, since the transaction began",
        hint="nothing was applied; begin the transaction again",
    )


def _misfit(name: str, node: str) -> CorruptionError:
    return CorruptionError(
        f"the stored rows of '{name}' do not have the columns of their definition",
        detail=f"the trace of {node}",
        hint="restore the log directory from a backup",
    )


def _is_timed(entry: Entry) -> bool:
    """Is it a table with a lateness?"""
    return isinstance(entry, TableEntry) and entry.lateness is not None


def _files(trace: Trace) -> list[str]:
    return [segment.path for segment in trace.segments]


def table_node(entry: TableEntry) -> Table:
    """The circuit's node of a table."""
    return Table(
        entry.name, entry.schema, entry.key, entry.incarnation, entry.declared, entry.index
    )
