"""What the catalog keeps of a view's definition: a value of one class for each front end.

A definition is plain data. It has a form in JSON, which is checked by its shape before anything
reads it, and it says which texts in it can run code, so that they are trusted or looked at first.
What is done with one, from its term to its recomputation, is its front end's (`protocol.py`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from rekindle.names import sql_name, sql_text


class Definition(ABC):
    """How a view was defined, as data; the classes are frozen dataclasses."""

    __slots__ = ()

    kind: ClassVar[str]
    """What tells the stored form from those of other definitions."""
    words: ClassVar[str]
    """What the user gave, for people: "a DataFrame"."""

    @property
    def queries(self) -> tuple[str, ...]:
        """The SQL texts in it."""
        return ()

    @property
    def plans(self) -> tuple[str, ...]:
        """The texts in it that stand for plans of Spark."""
        return ()

    @property
    def functions(self) -> tuple[str, ...]:
        """The functions of the database that it uses, also through others."""
        return ()

    @property
    def is_text(self) -> bool:
        """Can its term be read again, by any version, from the texts that it consists of?"""
        return True

    @property
    def is_of_part(self) -> bool:
        """Does it define one of the parts of a nested view, and not the view?"""
        return False

    @property
    def is_recursive(self) -> bool:
        """Is its recomputation a loop, and no query that Spark runs by itself?"""
        return False

    @abstractmethod
    def text(self, view: ViewFacts) -> str:
        """The text that makes the view again, or else one that says what it is."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """The stored form, but for its kind."""

    @classmethod
    @abstractmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """The definition that a stored form of its shape stands for."""

    @staticmethod
    @abstractmethod
    def check(value: Any, place: str) -> None:
        """Raise `ShapeError` unless a value is a stored form of this kind."""


@dataclass(frozen=True, slots=True)
class ViewFacts:
    """What the text of a definition names beside the definition."""

    name: str
    said: Mapping[str, str]
    """Options, and a comment."""
    sources: Sequence[str]
    """The tables and views that it reads."""

    @property
    def over(self) -> str:
        return ", ".join(self.sources) or "no tables"

    def created_as(self, query: str) -> str:
        """The statement that makes the view of an SQL query."""
        options = dict(self.said)
        head = f"CREATE MATERIALIZED VIEW {sql_name(self.name)}"
        comment = options.pop("comment", None)
        if comment is not None:
            head += f" COMMENT {sql_text(comment)}"
        if options:
            given = ", ".join(f"{name} = '{word}'" for name, word in options.items())
            head += f" OPTIONS ({given})"
        return f"{head} AS\n{query.strip()}"

    def described(self, text: str) -> str:
        """A description in comments of SQL, for a view that no statement makes."""
        return noted(f"view {sql_name(self.name)} {text}\nsee db.explain({self.name!r})")


def noted(text: str) -> str:
    """The text as comments of SQL.

    >>> noted("a\\nb")
    '-- a\\n-- b'
    """
    return "\n".join(f"-- {line}" for line in text.splitlines())
