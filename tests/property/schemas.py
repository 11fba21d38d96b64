"""Random tables and random rows for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from tests.property import values
from tests.property.values import Type, values_of


@dataclass(frozen=True)
class Column:
    name: str
    type: Type
    nullable: bool = True


@dataclass(frozen=True)
class TableSpec:
    """A table; with `keyed`, its first column `id` is the primary key."""

    name: str
    columns: tuple[Column, ...]
    keyed: bool

    def __repr__(self) -> str:
        return self.ddl

    @property
    def ddl(self) -> str:
        columns = ", ".join(
            f"{c.name} {c.type.sql}{'' if c.nullable else ' NOT NULL'}" for c in self.columns
        )
        key = ", PRIMARY KEY (id)" if self.keyed else ""
        return f"CREATE TABLE {self.name} ({columns}{key})"

    def position(self, name: str) -> int:
        return [c.name for c in self.columns].index(name)

    def rows(self) -> st.SearchStrategy[tuple[Any, ...]]:
        """Rows whose join column is skewed, so that groups and matches form."""
        parts = []
        for column in self.columns:
            strategy = values_of(column.type, nullable=column.nullable)
            if column.name == "k":
                strategy = st.sampled_from([0, 0, 0, 1, 2, None])
            parts.append(strategy)
        return st.tuples(*parts)


@st.composite
def tables(draw: st.DrawFn, name: str) -> TableSpec:
    """A table with a join column, an order, a number, a double with special values, and payload."""
    keyed = draw(st.booleans())
    columns = [Column("id", values.INT, nullable=False)] if keyed else []
    columns += [
        Column("k", values.INT),
        Column("o", values.SPREAD),
        Column("n", draw(st.sampled_from(values.NUMBERS))),
        Column("x", values.DOUBLE),
        Column("b", values.BOOLEAN),
        Column("s", values.STRING, nullable=draw(st.booleans())),
    ]
    payload = draw(st.lists(st.sampled_from(values.ATOMIC + values.NESTED), min_size=1, max_size=3))
    columns += [Column(f"p{i}", type_) for i, type_ in enumerate(payload)]
    return TableSpec(name, tuple(columns), keyed)


def wide(name: str) -> TableSpec:
    """A table with a column of every type."""
    usual = (
        Column("k", values.INT),
        Column("o", values.SPREAD),
        Column("n", values.BIGINT),
        Column("x", values.DOUBLE),
        Column("b", values.BOOLEAN),
        Column("s", values.STRING),
    )
    rest = (Column(f"p{i}", type_) for i, type_ in enumerate(values.ALL))
    return TableSpec(name, (*usual, *rest), keyed=False)


@st.composite
def matrices(draw: st.DrawFn, name: str) -> TableSpec:
    """A table of two indices and a value, without NULLs or with some."""
    nullable = draw(st.integers(0, 2)) == 0
    columns = (("i", values.INDEX), ("j", values.INDEX), ("v", values.BIGINT))
    return TableSpec(name, tuple(Column(c, t, nullable) for c, t in columns), keyed=False)
