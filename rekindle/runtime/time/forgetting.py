"""State that can no longer be looked at is removed, as merges of traces come to it.

What may go follows from the circuit (`circuit/frontiers.py`), and what it is by now from the
watermarks and the clock as they were before the step: whatever comes later is no earlier than that.
Bounds only rise, so one that was found some epochs ago is as good as a new one, and smaller.

A trace of which rows were removed is `partial`: enough for those who read it, and for nobody else.
Whatever wants the whole, as a new view does that shares it, has it filled again from the tables
first (`engine.py`).
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rekindle.calculus.scalars import Scalar
from rekindle.catalyst import monotone
from rekindle.catalyst.jvm import Catalyst
from rekindle.circuit.circuit import Circuit
from rekindle.circuit.frontiers import Frontiers, Removal, sources_of, value_of
from rekindle.circuit.nodes import Arrangement, Group, Node
from rekindle.circuit.operators.bounds import WHOLE, Bound, Earlier, Leaf, Monotone
from rekindle.columns import column_name
from rekindle.frontends.spark_sql.clock import CLOCK
from rekindle.names import HIDDEN, shown
from rekindle.runtime.epochs.state import State, TableEntry
from rekindle.runtime.time.lateness import watermark_name
from rekindle.traces.sieve import Below, Sieve, sieve_of

REFRESHED = 4
"""After so many epochs bounds are computed anew."""


@dataclass(frozen=True, slots=True)
class _Analysis:
    """What may be removed from the nodes of a circuit."""

    circuit: Circuit
    nodes: int
    seen: Mapping[str, int]
    removals: Mapping[str, Removal]


class Forgetting:
    """What the steps of one database may remove."""

    def __init__(self, catalyst: Catalyst, marks: Callable[[State], Mapping[str, int]]) -> None:
        self._catalyst = catalyst
        self._marks = marks
        """How far tables have moved by now, by their nodes."""
        self._analysis: _Analysis | None = None
        self._sieves: dict[str, tuple[int, Sieve | None]] = {}
        self.suspended = False
        """Is nothing to be removed by the step that is running?"""

    def forget(self) -> None:
        """Bounds that were found before hold no longer."""
        self._analysis = None
        self._sieves = {}

    def sieves(
        self, circuit: Circuit, state: State, growing: Mapping[str, object]
    ) -> dict[str, Sieve]:
        """What may be removed of the traces that grow in a step after a state."""
        seen = seen_columns(state)
        if not seen or self.suspended:
            return {}
        removals = self.removals(circuit, state)
        sieves = self._sieves  # Who explains a view in another thread may begin new ones meanwhile.
        wanted = [key for key in growing if key in removals and removals[key].is_possible]
        old = [
            key for key in wanted if key not in sieves or state.epoch - sieves[key][0] >= REFRESHED
        ]
        if old:
            marks, known = self._marks(state), dict[Bound, int | None]()
            for key in old:
                sieve = self._sieve(removals[key], marks, known)
                sieves[key] = (state.epoch, sieve)
        found = {key: sieves[key][1] for key in wanted}
        return {key: sieve for key, sieve in found.items() if sieve is not None}

    def removals(self, circuit: Circuit, state: State) -> Mapping[str, Removal]:
        """What the readers of each integral need of it."""
        seen = seen_columns(state)
        if not seen:
            return {}
        known, nodes = self._analysis, len(circuit.nodes)
        is_known = known is not None and known.circuit is circuit and known.nodes == nodes
        if known is None or not is_known or known.seen != seen:
            found = self.frontiers(circuit, state).removals()
            known = self._analysis = _Analysis(circuit, nodes, seen, found)
            self._sieves = {}
        return known.removals

    def frontiers(self, circuit: Circuit, state: State) -> Frontiers:
        """What no later change of the nodes of a circuit goes below."""
        singles = frozenset(e.node for e in state.entries.values() if is_single(e.name))
        return Frontiers(circuit, seen_columns(state), singles, _Scalars())

    def _sieve(
        self, removal: Removal, marks: Mapping[str, int], known: dict[Bound, int | None]
    ) -> Sieve | None:
        readers = []
        for reader in removal.readers:
            below = []
            for (column, field), bound in reader.need.below:
                value = value_of(bound, marks, self._evaluated, known)
                if value is not None:
                    below.append(Below(column_name(column), field, value))
            readers.append(below)
        return sieve_of(readers)

    def _evaluated(self, piece: Monotone, values: Mapping[Leaf, int]) -> int | None:
        assert isinstance(piece, monotone.Piece)
        return monotone.value_at(self._catalyst, piece, values)

    # ---- words -----------------------------------------------------------------------------

    def words(self, circuit: Circuit, state: State) -> dict[str, str]:
        """What each integral that is looked up gives up, or why it keeps all, by its node."""
        titles = {
            entry.node: _title(entry.name)
            for entry in state.entries.values()
            if isinstance(entry, TableEntry)
        }
        return {
            key: _words(circuit, key, removal, titles)
            for key, removal in self.removals(circuit, state).items()
        }


class _Scalars:
    """Expressions as Catalyst knows them."""

    def pieces(self, scalar: Scalar) -> Mapping[int, Monotone]:
        return monotone.pieces(scalar)

    def core_column(self, scalar: Scalar) -> int | None:
        return monotone.core_column(scalar)


def is_single(name: str) -> bool:
    """Is it a table that has one row, which others take the place of?"""
    return name == CLOCK or name.endswith(f"{HIDDEN}watermark")


def seen_columns(state: State) -> dict[str, int]:
    """The time columns that only move forward, by the nodes of their tables."""
    found: dict[str, int] = {}
    for entry in state.entries.values():
        if not isinstance(entry, TableEntry):
            continue
        if entry.lateness is not None:
            found[entry.node] = entry.lateness.column
            found[state.entries[watermark_name(entry.name)].node] = 0
        elif entry.name == CLOCK:
            found[entry.node] = 0
    return found


def _title(name: str) -> str:
    return "the clock" if name == CLOCK else f"the watermark of {shown(name)}"


def _words(circuit: Circuit, key: str, removal: Removal, titles: Mapping[str, str]) -> str:
    node = circuit.nodes[key]
    if not removal.is_possible:
        kept = [each for each in removal.readers if not each.need.below]
        which = "groups" if isinstance(node, Group) else "rows"
        looked = {circuit.nodes[each.node].kind for each in kept}
        return (
            f"all {which} are kept: nothing bounds what a later change makes the "
            f"{' and the '.join(sorted(looked))} look up"
        )
    parts = []
    for reader in removal.readers:
        names = []
        for (column, field), bound in reader.need.below:
            name = _named(node, column, field)
            by = " and ".join(sorted(titles[each] for each in sources_of(bound)))
            far = ""
            if isinstance(bound, Earlier) and bound.micros:
                far = f"{dt.timedelta(microseconds=bound.micros)} "
            names.append(f"{name} falls {far}behind {by}")
        parts.append(" or ".join(dict.fromkeys(names)))
    return f"a row is removed once {', and '.join(dict.fromkeys(parts))}: nobody looks there again"


def _named(node: Node, column: int, field: int) -> str:
    """A column, or a field of one, as people call it."""
    schema = node.schema
    if isinstance(node, Arrangement) and node.is_mark(column):
        return node.mark_words(column)
    if field == WHOLE:
        return schema.names[column]
    fields = _FIELD.findall(schema.types[column])
    return f"{schema.names[column]}.{fields[field] if field < len(fields) else field}"


_FIELD = re.compile(r"[<,]\s*`?(\w+)`?:")
