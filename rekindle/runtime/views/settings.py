"""Each node of a circuit works under the settings of the views that it is kept for.

Nodes that only pass columns on mean the same under any settings, and may be shared by views with
different ones; whatever else depends on settings has them in its identity (`fingerprint`).
"""

from __future__ import annotations

from collections.abc import Mapping

from rekindle.catalyst.jvm import Catalyst
from rekindle.catalyst.settings import Settings
from rekindle.circuit.circuit import Circuit
from rekindle.runtime.epochs.state import Entry, ViewEntry


class ViewSettings:
    """Finds the nodes of one database whose settings the session does not have now."""

    def __init__(self, catalyst: Catalyst) -> None:
        self._catalyst = catalyst
        self._known: tuple[Circuit, Mapping[str, Entry], Settings, dict[str, Settings]] | None
        self._known = None

    def apart(self, circuit: Circuit, entries: Mapping[str, Entry]) -> dict[str, Settings]:
        """The settings of the nodes, by id, that need others than the session has."""
        now = self._catalyst.settings()
        known = self._known
        if known and known[0] is circuit and known[1] is entries and known[2] is now:
            return known[3]
        found: dict[str, Settings] = {}
        for entry in entries.values():
            if not isinstance(entry, ViewEntry) or entry.settings in (None, now):
                continue
            if entry.name in circuit.names:
                assert entry.settings is not None
                reached = circuit.reachable(circuit.names[entry.name])
                found |= {node.id: entry.settings for node in reached}
        self._known = (circuit, entries, now, found)
        return found
