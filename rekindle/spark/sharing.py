"""Nodes of a step on Spark that several read: computed once, and kept as files for the step.

A node without a trace has its rows only while a task computes them. The tasks of its first reader
leave them as Arrow files beside what they write (`passage.py`), and the other readers scan these.
Where the first reader's rows go through the JVM, or it reads the node more than once, the node is
computed in a job of its own before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from rekindle.circuit.nodes import Formed, GroupMap, Node, Passing
from rekindle.circuit.stages import Branch
from rekindle.spark.frames import Frames
from rekindle.spark.outputs import Outputs, Rows, selected
from rekindle.spark.passage import Passage, Passed, Readers
from rekindle.spark.plans import Plans
from rekindle.spark.step import StepContext
from rekindle.spark.tasks import Tasks, numbered


@dataclass(frozen=True, slots=True)
class _Kept:
    """The columns of a node at some positions, in files."""

    positions: tuple[int, ...]
    schema: pa.Schema
    passed: Passed


class Sharing:
    """Who reads what in one step, and what was kept of it."""

    def __init__(
        self, plans: Plans, frames: Frames, context: StepContext, outputs: Outputs
    ) -> None:
        self._plans = plans
        self._frames = frames
        self._context = context
        self._outputs = outputs
        self._environment = outputs.environment
        self._kept: dict[str, _Kept] = {}
        self._columns: dict[str, tuple[int, ...]] = {}

    @cached_property
    def _readers(self) -> dict[str, list[tuple[Formed, Branch]]]:
        """The branches that begin at a node, and the nodes whose they are."""
        readers: dict[str, list[tuple[Formed, Branch]]] = {}
        for node in self._context.circuit.nodes.values():
            if isinstance(node, Formed):
                for branch in node.form.branches:
                    readers.setdefault(branch.node, []).append((node, branch))
        return readers

    @cached_property
    def _scopes(self) -> dict[str, str]:
        """The recursion that a node is in, by the node."""
        scopes = self._context.circuit.scopes
        return {node.id: key for key, scope in scopes.items() for node in scope.members}

    def is_shared(self, key: str) -> bool:
        """Is a node without a trace read more than once? A recursion reads what is outside once."""
        if not isinstance(self._context.circuit.nodes[key], Passing):
            return False
        here = self._scopes.get(key)
        recursions, branches = set(), 0
        for node, _ in self._readers.get(key, ()):
            scope = self._scopes.get(node.id)
            if scope == here:
                branches += 1
            else:
                recursions.add(scope)
        return branches + len(recursions) > 1

    def unkept(self, keys: Iterable[str]) -> list[str]:
        """Those of some nodes that are to be kept and are not yet."""
        return [
            key
            for key in dict.fromkeys(keys)
            if key not in self._kept and key not in self._outputs.in_driver and self.is_shared(key)
        ]

    def read_twice(self, branches: Sequence[Branch]) -> list[str]:
        """The nodes not yet kept that several of the branches of one reader begin at."""
        times = Counter(branch.node for branch in branches)
        return self.unkept(key for key, count in times.items() if count > 1)

    def has_kept(self, node: Node) -> bool:
        """Was a node computed, and left as files?"""
        return node.id in self._kept

    def gives_tasks(self, node: Node) -> bool:
        """Are a node's rows read by tasks without the JVM?"""
        if node.id in self._kept:
            return True
        return node.id not in self._outputs.in_driver and not isinstance(node, GroupMap)

    def taken(self, branch: Branch, read: Sequence[int]) -> Rows:
        """Columns of what a branch begins with.

        Of a node to be kept, all columns that somebody reads are computed, for several readers.
        """
        node = self._context.circuit.nodes[branch.node]
        if node.id in self._kept:
            return self._from_files(node, read)
        if not isinstance(node, Passing) or not self.unkept([node.id]):
            return self._outputs.of(node, read, self.apart(node))
        positions = self._positions(node)
        rows = self._outputs.of(node, positions, self.apart(node))
        if isinstance(rows, Tasks):
            rows = rows.for_several()
        return selected(rows, [positions.index(i) for i in read])

    def all_columns(self, node: Node) -> Rows:
        """What a node gives, for a reader who wants every column."""
        if node.id in self._kept:
            return self._from_files(node, range(len(self._kept[node.id].positions)))
        return self._outputs.of(node, None, self.apart(node))

    def keep(self, node: Node) -> Passed:
        """Compute a node in a job of its own, and keep it."""
        assert isinstance(node, Passing)
        prefix = self._context.path(node.id, "bulk")
        with self._plans.under_settings_of(node):
            rows = self._outputs.of(node, self._positions(node), self.apart(node))
            passed = self._frames.keep(rows, self._schema(node), self._context.store, prefix)
        self.have_kept(node.id, passed)
        return passed

    def leave(self, node: Node, rows: pa.Table) -> None:
        """Keep rows that the driver computed of a node, if there are several readers."""
        if self.is_shared(node.id):
            assert isinstance(node, Passing)
            schema, prefix = self._schema(node), self._context.path(node.id, "bulk")
            passage = Passage(Readers.SEVERAL, self._context.store, numbered(f"{prefix}-passing"))
            for _ in passage.through([rows.select(schema.names).cast(schema)]):
                pass
            self.have_kept(node.id, passage.passed)

    def have_kept(self, key: str, passed: Passed) -> None:
        """Let later readers of a node read files that were left of it."""
        node = self._context.circuit.nodes[key]
        assert isinstance(node, Passing)
        self._kept[key] = _Kept(self._positions(node), self._schema(node), passed)

    def close(self) -> None:
        """Remove the files: no state names them, and all readers of this step have run."""
        kept = self._kept.values()
        self._context.store.delete(path for each in kept for path in each.passed.paths)
        self._kept.clear()

    def _from_files(self, node: Node, read: Sequence[int]) -> Tasks:
        kept = self._kept[node.id]
        tasks = self._frames.of_files(kept.passed, kept.schema, self._context.store)
        return tasks.select([0, *(1 + kept.positions.index(i) for i in read)])

    def apart(self, node: Node) -> tuple[int, ...] | None:
        """The columns by which the readers of a node tell its rows apart."""
        return node.told_apart(self._environment) if isinstance(node, Passing) else None

    def _positions(self, node: Passing) -> tuple[int, ...]:
        """The columns of a node that are read by anybody."""
        if node.id not in self._columns:
            self._columns[node.id] = self._read(node)
        return self._columns[node.id]

    def _read(self, node: Passing) -> tuple[int, ...]:
        here = self._scopes.get(node.id)
        positions: set[int] = set()
        for reader, branch in self._readers.get(node.id, ()):
            if self._scopes.get(reader.id) != here:
                return tuple(range(len(node.output_schema(self._environment)) - 1))
            with self._plans.under_settings_of(reader):
                positions.update(self._plans.lowered(reader, branch).read)
        return tuple(sorted(positions))

    def _schema(self, node: Passing) -> pa.Schema:
        whole = node.output_schema(self._environment)
        return pa.schema([whole.field(0), *(whole.field(1 + i) for i in self._positions(node))])
