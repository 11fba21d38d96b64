"""The views of a database that was opened: followed by their stored plans, or left out.

A view's plan is derived when it is created, altered or filled anew, and read here. Whatever keeps a
plan from being run, be it another version of it, another Spark or a form that makes no sense,
concerns that view alone: it is stale, and the database is open. `refresh` fills stale views anew.

Views of databases that were made before plans were kept are derived as they were then, at every
opening, until a writer has stored their plans.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from rekindle.calculus.terms import Term, sources
from rekindle.circuit.circuit import Circuit
from rekindle.circuit.nodes import Node
from rekindle.circuit.stored_nodes import PLAN_VERSION, reached, restored
from rekindle.errors import CorruptionError, RekindleError, StaleViewWarning, UntrustedError
from rekindle.frontends.catalog import named_in
from rekindle.incremental.policies.choice import Policy
from rekindle.runtime.engine import Engine, StalePlanError
from rekindle.runtime.epochs.state import Entry, TableEntry, ViewEntry
from rekindle.runtime.epochs.stored import sound_definition
from rekindle.runtime.matrices.maintenance import FactoredMaintenance
from rekindle.runtime.time.forgetting import is_single
from rekindle.runtime.views.definitions import Definitions
from rekindle.shapes import ShapeError

Progress = Callable[[str, int, int], None]
"""Told the name of each view before it is filled, how many are done, and how many there are."""

_UNREADABLE = (ShapeError, CorruptionError, Py4JError, PySparkException, RecursionError)


def silent(name: str, done: int, total: int) -> None:
    """Progress that nobody is told of."""


@dataclass(slots=True)
class Restoring:
    """Brings the views of one database back, and stale ones up to date."""

    engine: Engine
    definitions: Definitions
    feeding: FactoredMaintenance
    registered: dict[str, tuple[ViewEntry, Term]] = field(default_factory=dict)
    """Definitions that the user gave again, of views whose stored ones are not trusted."""
    _warned: set[str] = field(default_factory=set)

    def restore(self, known: Callable[[Entry], None]) -> None:
        """Give every table and view of the state its nodes; `known` is told of each before."""
        engine = self.engine
        engine.forget_definitions()
        engine.untrusted.clear()
        engine.stale.clear()
        engine.has_all_plans = True
        self.feeding.views.clear()
        for entry in engine.state.in_order:
            with sound_definition(entry.name):
                if entry.part_of is None or is_single(entry.name):
                    known(entry)
                engine.refuse_other_columns(entry)
                if isinstance(entry, TableEntry):
                    engine.restore_table(entry)
            if isinstance(entry, ViewEntry) and not entry.stands:
                self._view(entry)
        self._warn()

    def _view(self, entry: ViewEntry) -> None:
        engine = self.engine
        try:
            if entry.reads is not None:
                engine.untrusted.refuse_reading(entry.name, entry.reads)
                self._refuse_stale_sources(entry)
            if entry.stale is not None:
                raise StalePlanError(f"it was followed up to epoch {entry.stale}")
            self._follow(entry)
            if entry.policy is Policy.FACTORED:
                with sound_definition(entry.name):
                    self.feeding.add(entry.name, self.definitions.fed_again(entry))
        except UntrustedError as error:
            is_fed = entry.policy is Policy.FACTORED
            queries = " ".join(entry.definition.queries)
            tables = named_in(queries, engine.state.entries) if is_fed else []
            engine.untrusted.add(entry, error.detail, tables)
        except StalePlanError as error:
            engine.stale.add(entry, str(error))
        except _UNREADABLE as error:
            said = error.detail if isinstance(error, RekindleError) else str(error)
            engine.stale.add(entry, f"its stored plan cannot be read: {said.strip()[:200]}")

    def _follow(self, entry: ViewEntry) -> None:
        """Let a view be followed by its stored plan, or by that which it has had from the start."""
        if entry.name in self.registered:
            return self._follow_derived(entry, self.registered[entry.name][1])
        if entry.spark != self.definitions.spark_version:
            raise StalePlanError(
                f"it was made by Spark {entry.spark}, and this is {self.definitions.spark_version}"
            )
        if entry.reads is None or entry.node not in self.engine.state.nodes:
            return self._follow_derived(entry, self.definitions.term(entry))
        try:
            circuit = self._planned(entry)
        except UntrustedError:
            if not entry.definition.is_text:
                raise
            # What Java's form has beyond the list is derived from the text.
            return self._follow_derived(entry, self.definitions.term(entry))
        self.engine.restore_view(entry, circuit)
        self.engine.terms.follow(entry.name, entry.reads)

    def _follow_derived(self, entry: ViewEntry, term: Term) -> None:
        engine = self.engine
        engine.untrusted.refuse_reading(entry.name, sources(term))
        self._refuse_stale_sources(entry, sources(term))
        with sound_definition(entry.name):
            circuit, _ = engine.derived(entry, term)
        engine.restore_view(entry, circuit)
        engine.terms.define(entry.name, term)
        if entry.node not in engine.state.nodes:
            engine.has_all_plans = False

    def _planned(self, entry: ViewEntry) -> Circuit:
        """The circuit with the stored nodes of a view."""
        engine = self.engine
        circuit = engine.circuit.copy()
        kept = engine.state.nodes
        nodes: list[Node] = []
        with self.definitions.reading(entry):
            for key in reached([entry.node], kept):
                if kept[key].version != PLAN_VERSION:
                    raise StalePlanError(
                        f"its plan has version {kept[key].version}, and this is {PLAN_VERSION}"
                    )
                node = circuit.nodes.get(key)
                if node is None:
                    node = restored(key, kept[key], circuit.nodes, self.definitions.part)
                    circuit.nodes[key] = node
                nodes.append(node)
        circuit.adopt(entry.name, nodes)
        return circuit

    def _refuse_stale_sources(self, entry: ViewEntry, read: Collection[str] | None = None) -> None:
        for source in read if read is not None else entry.reads or ():
            if source in self.engine.stale.reasons:
                raise StalePlanError(f"it reads '{source}', which is stale")

    # ---- filling anew ----------------------------------------------------------------------

    def refresh(
        self, names: Collection[str] | None = None, progress: Progress = silent
    ) -> list[str]:
        """Fill stale views anew, all or those of `names`, with what they read; gives their names.

        One that cannot be filled stays stale, with the reason.
        """
        engine = self.engine
        wanted = set(engine.stale.reasons) if names is None else self._with_sources(names)
        entries = [entry for entry in engine.state.in_order if entry.name in wanted]
        refreshed: list[str] = []
        for done, entry in enumerate(entries):
            assert isinstance(entry, ViewEntry)
            progress(entry.part_of or entry.name, done, len(entries))
            try:
                self._refill(entry)
            except StalePlanError as error:
                engine.stale.add(entry, str(error))
            except (RekindleError, *_UNREADABLE) as error:
                detail = (error.detail or error.message) if isinstance(error, RekindleError) else ""
                engine.stale.add(entry, detail or str(error)[:200])
            else:
                refreshed.append(entry.name)
        return refreshed

    def _refill(self, entry: ViewEntry) -> None:
        self._refuse_stale_sources(entry)
        definitions, engine = self.definitions, self.engine
        fresh, term = definitions.defined_anew(entry)
        self._refuse_stale_sources(entry, sources(term))
        if entry.policy is not Policy.FACTORED:
            return engine.refill(fresh, term)
        self.feeding.add(entry.name, definitions.fed_again(entry))
        try:
            rows = self.feeding.initial(entry.name, engine.table_node, engine.rows_of)
            parts = engine.state.parts(entry.name)
            feeds = [(part, rows) for part in parts if isinstance(part, TableEntry)]
            engine.refill(fresh, term, feeds)
        except BaseException:
            self.feeding.remove(entry.name)
            raise

    def _with_sources(self, names: Collection[str]) -> set[str]:
        """The stale views among those named, their parts, and what they read."""
        state, stale = self.engine.state, self.engine.stale
        wanted: set[str] = set()
        waiting = [*names, *(part.name for name in names for part in state.parts(name))]
        while waiting:
            name = waiting.pop()
            if name in stale.reasons and name not in wanted:
                wanted.add(name)
                waiting += stale.reads[name]
        return wanted

    def _warn(self) -> None:
        """Say of each stale view, once, that it is."""
        shown = self.engine.stale.shown(self.engine.state)
        for name, reason in shown.items():
            if name not in self._warned:
                self._warned.add(name)
                warnings.warn(
                    f"view '{name}' is stale: {reason}; it is read as of its last epoch, and "
                    "filled anew by the next write, or by REFRESH MATERIALIZED VIEW",
                    StaleViewWarning,
                    stacklevel=_depth_inside(),
                )


def _depth_inside() -> int:
    """How many calls of this package lead to the caller, for a warning to name the user's line."""
    frame, depth = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals["__name__"].startswith("rekindle."):
        frame, depth = frame.f_back, depth + 1
    return depth
