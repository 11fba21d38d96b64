"""The sums that a model needs, as one view: what it is to hold, its query, and how it is read.

The features and the label are the *axes* of a cofactor: a monomial of number columns (`size`, or
`size*size` for a model of degree 2) or a category. The view is the cofactor over relations written
as rows, sparse as that is:

    part 0                     one row: n, and the sums of the axes and of their products
    a part for each category   a row for each value: n, and the sums of the monomials there
    a part for each two        a row for each pair of values that occurs: n

Different products of axes may be one monomial, x·(x·y) = (x·x)·y, which is summed once. Each part
is an aggregate of the same rows, so over joins each follows a view tree of its own and shares with
the others what they have in common.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations, combinations_with_replacement
from math import isfinite
from typing import TypeAlias

from pyspark.sql import Row

from rekindle.algebra.cofactor import Cofactor, Entry
from rekindle.algebra.groups import RATIONALS
from rekindle.algebra.relations import Tuple
from rekindle.algebra.zset import ZSet
from rekindle.errors import DefinitionError
from rekindle.names import quoted

Columns: TypeAlias = tuple[str, ...]
"""A monomial: the columns that are multiplied, in the order of the model's numbers."""


@dataclass(frozen=True, slots=True)
class Monomial:
    """An axis of numbers: the product of some columns."""

    columns: Columns

    @property
    def name(self) -> str:
        """What its coefficient is called: `x`, `x^2`, `x*y`."""
        if len(self.columns) == 2 and len(set(self.columns)) == 1:
            return f"{self.columns[0]}^2"
        return "*".join(self.columns)


@dataclass(frozen=True, slots=True)
class Category:
    """An axis of values that are only told apart."""

    name: str


Axis: TypeAlias = Monomial | Category


@dataclass(frozen=True, slots=True)
class Sums:
    """What is kept for a model over some number columns, category columns and axes of these."""

    numbers: tuple[str, ...]
    categories: tuple[str, ...]
    axes: tuple[Axis, ...]
    centres: Mapping[str, float] = field(default_factory=dict)
    """What is taken off a number before anything is done with it."""

    @property
    def monomials(self) -> tuple[Columns, ...]:
        """The columns of the axes that are numbers."""
        return tuple(axis.columns for axis in self.axes if isinstance(axis, Monomial))

    @property
    def moments(self) -> tuple[Columns, ...]:
        """What is summed over all rows: the monomials and the products of two, each once."""
        products = (self._times(a, b) for a, b in combinations_with_replacement(self.monomials, 2))
        return tuple(dict.fromkeys((*self.monomials, *products)))

    @property
    def parts(self) -> tuple[Columns, ...]:
        """The categories that each part of the view is grouped by."""
        single: list[Columns] = [(), *((name,) for name in self.categories)]
        return (*(single if self.monomials else ()), *combinations(self.categories, 2))

    def rows(self, query: str) -> str:
        """The numbers and then the categories of a query's rows, of those that have no NULL."""
        used = [quoted(name) for name in (*self.numbers, *self.categories)]
        split = len(self.numbers)
        columns = [
            f"coalesce(CAST({used[i]} AS DOUBLE){self._taken_off(name)}, 0) AS x{i}"
            for i, name in enumerate(self.numbers)
        ]
        columns += [f"{name} AS k{i}" for i, name in enumerate(used[split:])]
        present = " AND ".join(f"{name} IS NOT NULL" for name in used)
        return f"SELECT {', '.join(columns)} FROM ({query}) WHERE {present}"

    def _taken_off(self, name: str) -> str:
        centre = self.centres.get(name, 0.0)
        return f" - CAST('{centre!r}' AS DOUBLE)" if centre else ""

    def query(self, rows: str) -> str:
        """The view over the rows of a query."""
        given = self.rows(rows)
        return " UNION ALL ".join(self._part(i, part, given) for i, part in enumerate(self.parts))

    def products(self, part: Columns) -> list[tuple[int, ...]]:
        """The numbers that are multiplied and summed in a part, none of them for the count."""
        return [(), *(tuple(map(self.numbers.index, each)) for each in self._summed(part))]

    def cofactor(self, rows: Iterable[Row]) -> Cofactor[Entry]:
        """The cofactor that the rows of the view are."""
        found: dict[int, list[tuple[Tuple, Row]]] = {i: [] for i in range(len(self.parts))}
        for row in rows:
            part = self.parts[row["part"]]
            values = {name: row[f"k{self.categories.index(name)}"] for name in part}
            found[row["part"]].append((Tuple(values), row))
        at = {part: found[i] for i, part in enumerate(self.parts)}
        axes = self.axes
        sums = tuple(self._entry(at, axis, Monomial(())) for axis in axes)
        products = tuple(tuple(self._entry(at, one, other) for other in axes) for one in axes)
        return Cofactor(self._entry(at, Monomial(()), Monomial(())), sums, products)

    def _part(self, place: int, part: Columns, given: str) -> str:
        keys = [f"k{self.categories.index(name)}" for name in part]
        every = (f"k{i}" for i in range(len(self.categories)))
        outputs = [f"{place} AS part", *(k if k in keys else f"NULL AS {k}" for k in every)]
        outputs.append("count(*) AS n")
        if self.monomials:
            sums = ", ".join(map(self._total, self._summed(part)))
            outputs.append(f"CAST(array({sums}) AS ARRAY<DOUBLE>) AS sums")
        grouped = f" GROUP BY {', '.join(keys)}" if keys else ""
        return f"SELECT {', '.join(outputs)} FROM ({given}){grouped}"

    def _summed(self, part: Columns) -> tuple[Columns, ...]:
        return (self.moments, self.monomials, ())[len(part)]

    def _total(self, columns: Columns) -> str:
        factors = " * ".join(f"x{self.numbers.index(name)}" for name in columns)
        return f"coalesce(sum({factors}), 0)"

    def _times(self, one: Columns, other: Columns) -> Columns:
        return tuple(sorted(one + other, key=self.numbers.index))

    def _entry(
        self, parts: dict[Columns, list[tuple[Tuple, Row]]], one: Axis, other: Axis
    ) -> Entry:
        """Σ one·other, by the values of those that are categories."""
        names = {axis.name for axis in (one, other) if isinstance(axis, Category)}
        part = tuple(name for name in self.categories if name in names)
        columns: Columns = ()
        for axis in (one, other):
            if isinstance(axis, Monomial):
                columns = self._times(columns, axis.columns)
        if part not in parts:
            return self._margin(parts, part)
        weights = ((row, self._value(part, columns, kept)) for row, kept in parts[part])
        return ZSet(weights, RATIONALS)

    def _margin(self, parts: dict[Columns, list[tuple[Tuple, Row]]], part: Columns) -> Entry:
        """Counts that are not kept because those of a pair add up to them."""
        wider = next(pair for pair in parts if set(part) <= set(pair))
        counts = ((row.restricted(part), Fraction(kept["n"])) for row, kept in parts[wider])
        return ZSet(counts, RATIONALS)

    def _value(self, part: Columns, columns: Columns, row: Row) -> Fraction:
        if not columns:
            return Fraction(row["n"])
        value = row["sums"][self._summed(part).index(columns)]
        if not isfinite(value):
            raise DefinitionError(
                f"the sum of {Monomial(columns).name} is {value}",
                detail="a column of the model holds values that are not finite, or too large ones",
                hint="leave such rows out in the model's query",
            )
        return Fraction(value)


def axes_of(features: Sequence[str], categories: Sequence[str], degree: int) -> tuple[Axis, ...]:
    """The features, and for degree 2 the products of two numbers among them."""
    given: list[Axis] = [Category(f) if f in categories else Monomial((f,)) for f in features]
    numbers = [axis.columns for axis in given if isinstance(axis, Monomial)]
    pairs = combinations_with_replacement(numbers, 2) if degree == 2 else ()
    return (*given, *(Monomial(one + other) for one, other in pairs))
