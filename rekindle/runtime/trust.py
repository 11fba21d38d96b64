"""Whose stored code a connection runs.

A database holds texts that can run code: Java's form of expressions, plans, SQL. Each is trusted or
not by itself, by its hash. Trusted is all of it if the connection says so, and what this process
wrote: a view that was made here goes on without a word after the database was opened again. Any
other text is read as data (`stored_objects`, `stored_queries`); a view for which that does not do
is untrusted.

An untrusted view is not part of the circuit. It keeps the rows of the last epoch at which somebody
followed it, which is the current one for as long as no table changes that it reads: a transaction
that would change one is refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from rekindle.calculus.terms import Term, sources
from rekindle.calculus.text import names_read
from rekindle.errors import UntrustedError, untrusted
from rekindle.runtime.state import State, TableEntry, ViewEntry

_MADE: set[bytes] = set()
"""Hashes of the texts that this process has written."""


def remember(entries: Iterable[ViewEntry]) -> None:
    """Views that this process has made, whose texts it may read again without asking."""
    for entry in entries:
        _MADE.update(map(_hash, (*entry.scalars, *queries_of(entry))))
        if entry.plan is not None:
            _MADE.add(_hash(entry.plan))


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


def queries_of(entry: ViewEntry) -> Iterator[str]:
    """The SQL texts of a stored view."""
    if entry.sql is not None:
        yield entry.sql
    if entry.model is not None and entry.model.query:
        yield entry.model.query
    if entry.loop is not None:
        yield from filter(None, entry.loop.queries)


@dataclass(slots=True)
class Untrusted:
    """The views of a database that are not followed, why, and what they read."""

    reasons: dict[str, str] = field(default_factory=dict)
    reads: dict[str, frozenset[str]] = field(default_factory=dict)

    def add(self, entry: ViewEntry, reason: str, tables: Iterable[str]) -> None:
        """Leave a view out; `tables` are the names that it may read besides those of its term."""
        self.reasons[entry.name] = reason
        self.reads[entry.name] = frozenset((*names_read(entry.term), *tables))

    def remove(self, names: Iterable[str]) -> None:
        for name in names:
            self.reasons.pop(name, None)
            self.reads.pop(name, None)

    def clear(self) -> None:
        self.remove(list(self.reasons))

    def shown(self, state: State) -> dict[str, str]:
        """The reasons by the names that users know; a part of a view stands for the whole."""
        found: dict[str, str] = {}
        for name, reason in self.reasons.items():
            entry = state.entries.get(name)
            found[name if entry is None else entry.part_of or name] = reason
        return found

    def freed(self, names: set[str], state: State, nodes: Container[str]) -> set[str]:
        """The traces that go when views are dropped, of which some are left out.

        What else such a view keeps is not known without its definition: traces that no node has
        go with the last view that may need them.
        """
        if not names.intersection(self.reasons):
            return set()
        if set(self.reasons) - names:
            return {state.entries[name].node for name in names if name in self.reasons}
        return {key for key in state.traces if key not in nodes}

    def readers_of(self, name: str) -> set[str]:
        """The views left out that read a table or view."""
        return {view for view, read in self.reads.items() if name in read}

    def refuse_reading(self, name: str, read: Iterable[str]) -> None:
        """Raise if a view is to read one that is left out."""
        for source in read:
            if source in self.reasons:
                raise untrusted(
                    f"view '{name}' cannot read '{source}', which is untrusted",
                    f"it reads '{source}': {self.reasons[source]}",
                )

    def refuse_changes(
        self, tables: Iterable[str], state: State, terms: Mapping[str, Term]
    ) -> None:
        """Raise `UntrustedError` if a change of the tables would change a view that is left out."""
        if not self.reasons:
            return
        changed = {state.entry(table).name for table in tables}
        for name in self.reasons:
            reached = self._tables_of(name, state, terms) & changed
            if reached:
                shown = self._shown_name(name, state)
                raise _stale(shown, min(reached), self.reasons[name])

    def _tables_of(self, name: str, state: State, terms: Mapping[str, Term]) -> set[str]:
        """The tables that a view reads, through other views too."""
        found: set[str] = set()
        seen, waiting = {name}, list(self.reads[name])
        while waiting:
            each = waiting.pop()
            if each in seen:
                continue
            seen.add(each)
            if isinstance(state.entries.get(each), TableEntry):
                found.add(each)
            elif each in self.reads:
                waiting.extend(self.reads[each])
            elif each in terms:
                waiting.extend(sources(terms[each]))
        return found

    def _shown_name(self, name: str, state: State) -> str:
        entry = state.entries.get(name)
        return name if entry is None else entry.part_of or name


def _stale(view: str, table: str, reason: str) -> UntrustedError:
    return untrusted(
        f"'{table}' cannot be changed: the view '{view}', which reads it, is untrusted and cannot "
        "follow",
        f"nothing was applied; {reason}",
    )
