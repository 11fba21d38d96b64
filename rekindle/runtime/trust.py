"""Whose stored code a connection runs.

A database holds texts that can run code: Java's form of expressions, plans, SQL. Each is trusted or
not by itself, by its hash. Trusted is all of it if the connection says so, and what this process
wrote: a view that was made here goes on without a word after the database was opened again. Any
other text is read as data (`stored_objects`, `stored_queries`); a view for which that does not do
is untrusted.

What becomes of an untrusted view is in `left_out`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rekindle.circuit.stored_nodes import StoredNode, reached
from rekindle.runtime.epochs.state import State, ViewEntry

_MADE: set[bytes] = set()
"""Hashes of the texts that this process has written."""


def remember(entries: Iterable[ViewEntry]) -> None:
    """Views that this process has made, whose texts it may read again without asking."""
    for entry in entries:
        definition = entry.definition
        _MADE.update(map(_hash, (*entry.scalars, *definition.queries, *definition.plans)))


def remember_text(text: str) -> None:
    """A text that this process has written."""
    _MADE.add(_hash(text))


def remember_plans(state: State, before: Mapping[str, StoredNode]) -> None:
    """The same of the plans that a state has and had not `before`, of views made here.

    A view that was let in by trust does not become one of this process by being planned by it.
    """
    if state.nodes is before:
        return
    for entry in state.entries.values():
        if not isinstance(entry, ViewEntry) or state.nodes.get(entry.node) is before.get(
            entry.node
        ):
            continue
        if all(_hash(text) in _MADE for text in entry.scalars):
            for key in reached([entry.node], state.nodes):
                _MADE.update(map(_hash, state.nodes[key].parts))


@dataclass(frozen=True, slots=True)
class Trust:
    """What one connection may run: everything, or what was made in this process."""

    everything: bool

    def covers(self, text: str) -> bool:
        return self.everything or _hash(text) in _MADE

    def covers_all(self, texts: Iterable[str]) -> bool:
        return all(self.covers(text) for text in texts)


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
