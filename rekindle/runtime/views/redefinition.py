"""The step of a redefinition: views with another form, and all that reads them, in one epoch.

app(f ⊕ df, a) = app(f, a) ⊕ app(df, a) (Lupei, chapter 4). The change of a view is found in one of
two ways. Where the function is a condition, its change is a query: the rows on which the old
definition and the new one disagree (`comprehension/differences.py`); nothing that stays is sorted,
hashed or written. Anywhere else what the view held are the answers of the old function: the view is
filled by the new one, and the change is the difference. Either way the nodes that the new form has
and no other view had are filled, to follow later transactions.

From there on it is a change like any other. The view's trace grows by it, and a step leads it to
the nodes that read the view, whose state is kept: behind the view only rows that move are touched.

Views are taken in the order of creation. One that reads another is filled when the change of that
one has come to everything that was there before. A view that several changes reach has one change
in the end.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from rekindle.calculus.terms import Term
from rekindle.circuit.circuit import Circuit
from rekindle.circuit.nodes import IndexedView, Stateful, View
from rekindle.errors import EvaluationError
from rekindle.incremental.pipeline import derive
from rekindle.runtime.views.filling import Filling
from rekindle.spark.distributed import DistributedStep
from rekindle.spark.frames import Frames
from rekindle.spark.inline import InlineStep, write_table
from rekindle.spark.placing import Placing
from rekindle.spark.plans import Plans
from rekindle.spark.step import NodeStep, Placement, StepContext, StepResult, TooLargeError
from rekindle.traces.reader import TraceReader
from rekindle.traces.segment import Run
from rekindle.traces.store import Durability
from rekindle.traces.trace import Trace, advance, fuel_for

_REASON = "a function that it uses was redefined"
BY_DIFFERENCE = f"{_REASON}; changed by the rows on which the definitions disagree"
ANEW = f"{_REASON}; filled anew and compared"


@dataclass(frozen=True, slots=True)
class Redefined:
    """A view with a new form, and the node that has what it held, if it held anything."""

    key: str
    former: str | None
    difference: Term | None = None
    """What it changes by, if nothing that it reads has changed meanwhile."""


@dataclass(slots=True)
class Moved:
    """What a redefinition leads to."""

    traces: dict[str, Trace]
    changes: dict[str, Run] = field(default_factory=dict)
    """The change of each view that has one."""
    nodes: dict[str, NodeStep] = field(default_factory=dict)
    passing: set[str] = field(default_factory=set)
    """Files that were written on the way."""


class Redefinition:
    """Leads one database from its circuit to the next."""

    def __init__(
        self,
        plans: Plans,
        frames: Frames,
        filling: Filling,
        placing: Placing,
        context: StepContext,
        before: Circuit,
    ) -> None:
        self._plans = plans
        self._frames = frames
        self._filling = filling
        self._placing = placing
        self._context = context
        self._circuit = context.circuit
        self._unfilled = {key for key in context.circuit.nodes if key not in before.nodes}
        """The nodes that have no contents yet."""
        self._pending: dict[str, Run] = {}
        """Changes of views that have not been led to those that read them."""
        self._runs: dict[str, list[Run]] = {}
        self._moved = Moved(dict(context.traces))

    def run(self, views: Sequence[Redefined]) -> Moved:
        """Fill the views, inputs first, and lead their changes on."""
        waiting = [view.key for view in views]
        for view in views:
            reached = {node.id for node in self._circuit.reachable(view.key)}
            if not reached.isdisjoint(self._pending):
                self._lead_on(waiting)
            waiting.remove(view.key)
            self._fill(view, reached)
        self._lead_on(waiting)
        for key, runs in self._runs.items():
            run = runs[0] if len(runs) == 1 else self._sum(key, runs)
            if run.rows:
                self._moved.changes[key] = run
        return self._moved

    def _fill(self, view: Redefined, reached: set[str]) -> None:
        """The contents of a view and of what only it needs, and its change."""
        moved, key = self._moved, view.key
        if view.former == key and self._follow(view, reached):
            return
        wanted = frozenset((self._unfilled & reached) | {key})
        result = self._filling.fill(self._circuit, wanted, moved.traces, self._context.epoch)
        contents = self._filling.contents(self._circuit, wanted, result)
        self._unfilled -= wanted
        moved.passing |= result.passing
        self._note(result)
        if view.former is None:
            moved.traces |= contents
            if key in result.runs:
                self._runs[key] = [result.runs[key]]
            return
        node = self._circuit.nodes[key]
        assert isinstance(node, View)
        held, filled = moved.traces[view.former], contents.pop(key)
        change = self._filling.difference(node, held, filled, self._fresh_context())
        moved.traces |= contents
        moved.passing.update(change.paths)
        step = moved.nodes.get(key, NodeStep(0, 0, 0.0, Placement.INLINE))
        moved.nodes[key] = replace(step, rows_out=change.rows, rebuilt=ANEW)
        if view.former != key:
            moved.traces[key] = filled
        else:
            moved.passing.update(segment.path for segment in filled.segments)
            if change.rows:
                self._pending[key] = change
        if change.rows:
            self._runs.setdefault(key, []).append(change)

    def _follow(self, view: Redefined, reached: set[str]) -> bool:
        """Change a view by its difference, and fill what it needs later; False if it cannot be."""
        node = self._circuit.nodes[view.key]
        if view.difference is None or not isinstance(node, View):
            return False
        circuit = self._circuit.copy()
        del circuit.nodes[node.id]
        circuit.view(
            node.name,
            derive(view.difference),
            node.schema,
            own=node.id,
            index=node.index if isinstance(node, IndexedView) else (),
        )
        read = {each.id for each in circuit.reachable(node.id)}
        if not read.isdisjoint(self._runs):
            return False
        moved, epoch = self._moved, self._context.epoch
        fresh = frozenset({node.id, *(key for key in read if key not in moved.traces)})
        apart = self._plans.settings.get(node.id)
        if apart is not None:
            self._plans.settings = {**dict.fromkeys(fresh, apart), **self._plans.settings}
        try:
            result = self._filling.fill(circuit, fresh, moved.traces, epoch)
        except EvaluationError:
            # One of the definitions may fail on rows that the other keeps from it.
            return False
        change = result.runs.pop(node.id, Run(()))
        moved.passing |= result.passing.union(*(run.paths for run in result.runs.values()))
        self._note(result)
        moved.nodes[node.id] = replace(
            moved.nodes.get(node.id, NodeStep(0, 0, 0.0, Placement.INLINE)), rebuilt=BY_DIFFERENCE
        )
        needed = frozenset(
            key
            for key in self._unfilled & reached
            if isinstance(self._circuit.nodes[key], Stateful)
        )
        self._unfilled -= reached
        if needed:
            filled = self._filling.fill(self._circuit, needed, moved.traces, epoch)
            moved.traces |= self._filling.contents(self._circuit, needed, filled)
            moved.passing |= filled.passing
            self._note(filled)
        if change.rows:
            self._pending[node.id] = change
            self._runs[node.id] = [change]
        return True

    def _lead_on(self, waiting: Sequence[str]) -> None:
        """Lead the changes of views to all that has contents, but for views that are waiting."""
        pending, self._pending = self._pending, {}
        if not pending:
            return
        moved = self._moved
        context = self._fresh_context().without({*self._unfilled, *waiting})
        result = self._stepped(context, pending)
        self._note(result)
        moved.passing |= result.passing
        for key, run in {**result.runs, **pending}.items():
            numbers = itertools.count()
            advanced = advance(
                moved.traces[key],
                run,
                fuel_for(run.rows),
                context.store,
                lambda key=key, numbers=numbers: context.path(  # type: ignore[misc]
                    key, f"m{next(numbers):05}.arrow"
                ),
                Durability.DEFERRED,
            )
            moved.traces[key] = advanced.trace
            moved.passing.update((*run.paths, *advanced.added, *advanced.dropped))
            if key not in pending and isinstance(self._circuit.nodes[key], View):
                self._runs.setdefault(key, []).append(run)

    def _stepped(self, context: StepContext, pending: dict[str, Run]) -> StepResult:
        changes = {key: Trace(context.traces[key].layout, (run,)) for key, run in pending.items()}
        if self._placing.takes_step(sum(run.rows for run in pending.values())):
            tables = {
                key: TraceReader.of_trace(change, context.store).whole()
                for key, change in changes.items()
            }
            try:
                return InlineStep(self._plans, context).run(tables)
            except TooLargeError:
                pass
        return DistributedStep(self._plans, self._frames, context, self._placing).run(changes)

    def _fresh_context(self) -> StepContext:
        """The epoch's context with what nodes hold by now."""
        context = self._context
        return StepContext(context.circuit, self._moved.traces, context.store, context.epoch)

    def _sum(self, key: str, runs: Sequence[Run]) -> Run:
        """Several changes of a view as one."""
        layout = self._moved.traces[key].layout
        whole = TraceReader.of_trace(Trace(layout, tuple(runs)), self._context.store).whole()
        run = write_table(self._fresh_context(), key, whole)
        self._moved.passing.update(run.paths)
        return run

    def _note(self, result: StepResult) -> None:
        for key, step in result.nodes.items():
            if key in self._circuit.nodes:
                self._moved.nodes[key] = step.after(self._moved.nodes.get(key))
