"""A term computed once, in the driver, from contents in memory; nothing of it is kept.

It is a circuit of its own that makes one step from nothing, with the same kernels as any other. The
circuit is made once and run as often as it is asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa

from rekindle.calculus.terms import Term
from rekindle.circuit.circuit import Circuit
from rekindle.circuit.nodes import Stateful, Table
from rekindle.incremental.pipeline import derive
from rekindle.spark.inline import InlineStep
from rekindle.spark.plans import Plans
from rekindle.spark.step import StepContext
from rekindle.traces.store import Store
from rekindle.traces.trace import Trace


class Evaluation:
    """A term over tables."""

    def __init__(self, plans: Plans, store: Store, term: Term, tables: Iterable[Table]) -> None:
        self._plans = plans
        self._store = store
        self._circuit = Circuit()
        for table in tables:
            self._circuit.table(table)
        self._view = self._circuit.view("result", derive(term), term.schema)

    def run(self, contents: Mapping[str, pa.Table]) -> pa.Table:
        """The term's rows, arranged, for arranged contents of its tables."""
        nodes = self._circuit.nodes
        nothing = {
            key: Trace(self._plans.layout(node))
            for key, node in nodes.items()
            if isinstance(node, Stateful)
        }
        context = StepContext(self._circuit, nothing, self._store, 0, frozenset(nodes))
        seeds = {self._circuit.names[name]: rows for name, rows in contents.items()}
        found = InlineStep(self._plans, context, most_rows=None).outcome(seeds, self._view.id)
        return self._plans.layout(self._view).empty() if found is None else found
