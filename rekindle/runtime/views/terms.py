"""What the views of a database read, and the term of each.

A stored view runs by its plan; its term is read from the log when somebody asks for it: to explain
a derivation, or to derive a plan anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from rekindle.calculus.schema import Schema
from rekindle.calculus.terms import Term, sources


@dataclass(slots=True)
class ViewTerms:
    """The terms of the views that are followed; `read` gives that of a stored one."""

    read: Callable[[str], Term]
    reads: dict[str, Mapping[str, Schema]] = field(default_factory=dict)
    """The tables and views that each view reads, with the columns that it knows of."""
    _known: dict[str, Term] = field(default_factory=dict)

    def __contains__(self, name: str) -> bool:
        return name in self.reads

    def __getitem__(self, name: str) -> Term:
        if name not in self._known:
            self._known[name] = self.read(name)
        return self._known[name]

    def get(self, name: str) -> Term | None:
        """The term of a view, None for what is none or is not followed."""
        if name not in self:
            return None
        return self[name]

    def define(self, name: str, term: Term) -> None:
        """A view is defined by a term."""
        self._known[name] = term
        self.reads[name] = sources(term)

    def follow(self, name: str, reads: Mapping[str, Schema]) -> None:
        """A stored view is followed by its plan."""
        self._known.pop(name, None)
        self.reads[name] = reads

    def remove(self, name: str) -> None:
        self._known.pop(name, None)
        self.reads.pop(name, None)

    def clear(self) -> None:
        self._known.clear()
        self.reads.clear()
