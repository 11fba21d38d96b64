"""Selects as they grow: what they range over, what holds of their rows, the groups they form.

A block is one SELECT: tables and subqueries after FROM, conditions, and for values that are
computed from other rows a join that has at most one partner for each row. A group is a subquery of
which the aggregates are not known yet: each use of the group within its block adds one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count

from rekindle.frontends.mrql.arrays import canonical
from rekindle.frontends.mrql.values import (
    VOID,
    Sql,
    Value,
    leaves,
    mapped,
    numbered,
    reads,
    unified,
)


def alias() -> str:
    """A name for what a block ranges over that nothing else has."""
    return numbered("t")


class Correlated(Exception):
    """A subquery reads rows that it cannot see where it stands."""


@dataclass(frozen=True, slots=True)
class Item:
    """What a block ranges over: how it is joined, and its text, known when all is compiled."""

    alias: str
    join: str
    text: Callable[[], str]
    on: str = ""
    reads: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Condition:
    """A test of a row; an equality also as its two sides."""

    test: Sql
    sides: tuple[Sql, Sql] | None = None


@dataclass(slots=True)
class Block:
    """One SELECT as it grows."""

    items: list[Item] = field(default_factory=list)
    where: list[Condition] = field(default_factory=list)

    def copy(self) -> Block:
        """The same, to grow another way."""
        return Block(list(self.items), list(self.where))

    @property
    def aliases(self) -> frozenset[str]:
        return frozenset(item.alias for item in self.items)

    def read(self, *values: Value) -> frozenset[str]:
        """The aliases that the block and these values read; `t.c` marks a single column."""
        found = reads(*values).union(*(each.test.reads for each in self.where))
        return found.union(*(item.reads for item in self.items))

    def foreign(self, *values: Value) -> frozenset[str]:
        """What the block and these values read from outside of it."""
        return frozenset(each for each in self.read(*values) - self.aliases if "." not in each)

    def add(self, item: Item) -> None:
        """Range over one more."""
        self.items.append(item)

    def source(self) -> str:
        """What stands after FROM."""
        if not self.items:
            return "(SELECT 1 AS one) AS one"
        first, *rest = self.items
        begin = (
            first.text()
            if first.join == "CROSS JOIN"
            else f"(SELECT 1 AS one) AS one {_joined(first)}"
        )
        return " ".join([begin, *map(_joined, rest)])

    def select(
        self,
        columns: Sequence[tuple[str, Sql]],
        group: Sequence[Sql] = (),
        *,
        distinct: bool = False,
    ) -> str:
        """The SELECT of columns by their names."""
        shown = ", ".join(f"{each.text} AS {name}" for name, each in columns) or "1 AS one"
        text = f"SELECT {'DISTINCT ' if distinct else ''}{shown} FROM {self.source()}"
        if self.where:
            text += f" WHERE {' AND '.join(each.test.text for each in self.where)}"
        if group:
            text += f" GROUP BY {', '.join(each.text for each in group)}"
        return text


def _joined(item: Item) -> str:
    return f"{item.join} {item.text()}{f' ON {item.on}' if item.on else ''}"


@dataclass(frozen=True, slots=True)
class Branch:
    """A block, and what it gives for each row."""

    block: Block
    value: Value


@dataclass(frozen=True, slots=True)
class Relation:
    """A subquery: its text, and its rows by the columns that they have."""

    text: Callable[[], str]
    row: Value
    """The leaves are names of columns."""

    def over(self, name: str) -> Value:
        """A row of the subquery by its alias."""
        return mapped(
            self.row, lambda each: Sql(f"{name}.{each.text}", each.type, frozenset((name,)))
        )

    def item(self, name: str) -> Item:
        """The subquery as what a block ranges over."""
        return Item(name, "CROSS JOIN", lambda: f"({self.text()}) AS {name}")


def relation(branches: Sequence[Branch], prefix: str = "c") -> Relation:
    """The union of the rows of branches, in one form."""
    if not branches:
        return Relation(lambda: "SELECT 1 AS one WHERE false", Sql("NULL", VOID))
    for branch in branches:
        if branch.block.foreign(branch.value):
            raise Correlated
    values = unified([branch.value for branch in branches])
    columns = [[(f"{prefix}{i}", leaf) for i, leaf in enumerate(leaves(value))] for value in values]

    def text() -> str:
        parts = zip(branches, columns, strict=True)
        return " UNION ALL ".join(branch.block.select(shown) for branch, shown in parts)

    numbers = count()
    row = mapped(values[0], lambda each: Sql(f"{prefix}{next(numbers)}", each.type))
    return Relation(text, row)


class Grouping:
    """The groups of a relation of keys and values, with the aggregates that are asked of them."""

    def __init__(self, source: Callable[[], str], key: Value, inner: str) -> None:
        self.alias = alias()
        self.inner = inner
        self._source = source
        self._keys = [canonical(leaf) for leaf in leaves(key)]
        self._aggregates: dict[str, str] = {}
        numbers = count()
        self.key = mapped(
            key,
            lambda each: Sql(f"{self.alias}.k{next(numbers)}", each.type, frozenset((self.alias,))),
        )
        self._inside = {
            outer.text: within for outer, within in zip(leaves(self.key), leaves(key), strict=True)
        }

    def inside(self, value: Value) -> Value:
        """The value as the rows of the group see it: its key is theirs."""
        return mapped(value, lambda each: self._inside.get(each.text, each))

    def aggregate(self, found: Sql) -> Sql:
        """A column for an aggregate over the rows of a group."""
        name = self._aggregates.setdefault(found.text, f"a{len(self._aggregates)}")
        return Sql(f"{self.alias}.{name}", found.type, frozenset((self.alias,)))

    def text(self) -> str:
        """The subquery, with its alias."""
        shown = [f"{key.text} AS k{i}" for i, key in enumerate(self._keys)]
        shown += [f"{text} AS {name}" for text, name in self._aggregates.items()]
        keys = ", ".join(key.text for key in self._keys)
        rows = f"({self._source()}) AS {self.inner}"
        group = f" GROUP BY {keys}" if keys else " HAVING count(*) > 0"
        return f"(SELECT {', '.join(shown) or '1 AS one'} FROM {rows}{group}) AS {self.alias}"

    def item(self) -> Item:
        """The groups as what a block ranges over."""
        return Item(self.alias, "CROSS JOIN", self.text)


@dataclass(frozen=True, slots=True)
class Group:
    """The bag of the values of one group, or of one side of it."""

    grouping: Grouping
    row: Value
    where: str = ""
