"""Views that a connection does not follow, and why: they are read as of their last epoch.

Two kinds are left out of the circuit. An *untrusted* view would run code of the database; until
somebody trusts it or gives it again, no transaction changes what it reads. A *stale* view has a
plan that this version cannot run; it is filled anew before the next write, and where that cannot be
done it falls behind and says so.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from rekindle.calculus.text import names_read
from rekindle.circuit.stored_nodes import reached
from rekindle.errors import StaleViewWarning, UntrustedError, untrusted
from rekindle.runtime.epochs.state import State, TableEntry, ViewEntry

__all__ = ["LeftOut", "Stale", "StaleViewWarning", "Untrusted"]


@dataclass(slots=True)
class LeftOut:
    """The views of a database that are not followed, why, and what they read."""

    reasons: dict[str, str] = field(default_factory=dict)
    reads: dict[str, frozenset[str]] = field(default_factory=dict)

    def add(self, entry: ViewEntry, reason: str, tables: Iterable[str] = ()) -> None:
        """Leave a view out; `tables` are names that it may read besides those it is known to."""
        self.reasons[entry.name] = reason
        known = names_read(entry.term) if entry.reads is None else entry.reads
        self.reads[entry.name] = frozenset((*known, *tables))

    def remove(self, names: Iterable[str]) -> None:
        for name in names:
            self.reasons.pop(name, None)
            self.reads.pop(name, None)

    def clear(self) -> None:
        self.remove(list(self.reasons))

    def shown(self, state: State) -> dict[str, str]:
        """The reasons by the names that users know; a part of a view stands for the whole."""
        return {_owner(name, state): reason for name, reason in self.reasons.items()}

    def readers_of(self, name: str) -> set[str]:
        """The views left out that read a table or view."""
        return {view for view, read in self.reads.items() if name in read}

    def reached_by(
        self, tables: Collection[str], state: State, reads: Mapping[str, Iterable[str]]
    ) -> dict[str, str]:
        """The views left out that read one of the tables, through others too; each with one."""
        reaching: dict[str, str] = {}
        for name in self.reasons:
            seen, waiting = {name}, list(self.reads[name])
            while waiting:
                source = waiting.pop()
                if source in seen:
                    continue
                seen.add(source)
                if isinstance(state.entries.get(source), TableEntry):
                    if source in tables:
                        reaching[name] = min(source, reaching.get(name, source))
                else:
                    waiting += self.reads.get(source, ()) or reads.get(source, ())
        return reaching


class Untrusted(LeftOut):
    """The views that need code of the database, which this connection does not run."""

    def refuse_reading(self, name: str, read: Iterable[str]) -> None:
        """Raise if a view is to read one that is left out."""
        for source in read:
            if source in self.reasons:
                raise untrusted(
                    f"view '{name}' cannot read '{source}', which is untrusted",
                    f"it reads '{source}': {self.reasons[source]}",
                )

    def refuse_changes(
        self, tables: Iterable[str], state: State, reads: Mapping[str, Iterable[str]]
    ) -> None:
        """Raise `UntrustedError` if a change of the tables would change a view that is left out."""
        if self.reasons:
            changed = {state.entry(table).name for table in tables}
            for view, table in self.reached_by(changed, state, reads).items():
                raise _cannot_follow(_owner(view, state), table, self.reasons[view])


class Stale(LeftOut):
    """The views whose stored plan this version cannot run."""


def needed_by(names: Iterable[str], state: State) -> set[str] | None:
    """The nodes of views that are not followed; None if a plan is not stored, and so not known."""
    roots = [state.entries[name].node for name in names]
    if any(root not in state.nodes for root in roots):
        return None
    return set(reached(roots, state.nodes))


def _owner(name: str, state: State) -> str:
    entry = state.entries.get(name)
    return name if entry is None else entry.part_of or name


def _cannot_follow(view: str, table: str, reason: str) -> UntrustedError:
    return untrusted(
        f"'{table}' cannot be changed: the view '{view}', which reads it, is untrusted and cannot "
        "follow",
        f"nothing was applied; {reason}",
    )
