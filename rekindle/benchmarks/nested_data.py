"""Tables of TPC-H with skewed foreign keys, and streams of changes to them.

The shape is that of TPC-H: so many customers, parts and suppliers at a scale, ten orders for each
customer, four lines on average for each order, four suppliers for each part. Only the columns that
nested queries read are there. A given share of the values of a foreign key is drawn from a Zipf
distribution with parameter 2, the rest uniformly, as section 5.5 of Lupei's thesis has it: at 20 %
one order has an eighth of all lines, and one supplier, part and customer are as heavy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from rekindle.benchmarks import tpch_words as words
from rekindle.benchmarks.tpch_data import FIRST_DAY, LAST_DAY, Integers, dates, drawn, numbered
from rekindle.benchmarks.tpch_schema import TableShape
from rekindle.runtime.transactions.transaction import Transaction

SEED = 20_170_518
ZIPF = 2.0
LINES = 4
"""Lines for each order, and suppliers for each part."""
DELETED = 0.05
"""For so many of the rows that a batch brings, one that is there goes."""

SHAPES: dict[str, TableShape] = {
    name: TableShape(name, tuple(columns.items()), key)
    for name, columns, key in (
        ("nation", {"nationkey": "BIGINT", "name": "STRING"}, ("nationkey",)),
        (
            "customer",
            {"custkey": "BIGINT", "name": "STRING", "nationkey": "BIGINT"},
            ("custkey",),
        ),
        (
            "orders",
            {"orderkey": "BIGINT", "custkey": "BIGINT", "orderdate": "DATE"},
            ("orderkey",),
        ),
        (
            "lineitem",
            {
                "orderkey": "BIGINT",
                "linenumber": "BIGINT",
                "partkey": "BIGINT",
                "suppkey": "BIGINT",
                "quantity": "BIGINT",
            },
            ("orderkey", "linenumber"),
        ),
        ("part", {"partkey": "BIGINT", "name": "STRING"}, ("partkey",)),
        (
            "supplier",
            {"suppkey": "BIGINT", "name": "STRING", "nationkey": "BIGINT"},
            ("suppkey",),
        ),
        (
            "partsupp",
            {"partkey": "BIGINT", "number": "BIGINT", "suppkey": "BIGINT"},
            ("partkey", "number"),
        ),
    )
}


@dataclass(frozen=True, slots=True)
class Sizes:
    """How many rows the tables have."""

    nations: int
    customers: int
    orders: int
    parts: int
    suppliers: int

    @classmethod
    def of_scale(cls, scale: float) -> Sizes:
        """Those of TPC-H."""
        return cls(
            len(words.NATIONS),
            max(30, round(150_000 * scale)),
            max(300, round(1_500_000 * scale)),
            max(40, round(200_000 * scale)),
            max(10, round(10_000 * scale)),
        )

    @classmethod
    def of_few(cls, scale: float, tops: int) -> Sizes:
        """As many orders, for so few customers, parts, suppliers and nations."""
        return cls(tops, tops, cls.of_scale(scale).orders, tops, tops)

    @property
    def lines(self) -> int:
        return LINES * self.orders


def generate(sizes: Sizes, skew: float) -> dict[str, pa.Table]:
    """The rows of all tables; a share `skew` of the values of foreign keys is skewed."""
    random = np.random.default_rng(SEED)

    def keys(count: int, of: int) -> Integers:
        return skewed(random, count, of, skew)

    def numbers(count: int) -> Integers:
        return np.arange(1, count + 1, dtype=np.int64)

    customers, orders = numbers(sizes.customers), numbers(sizes.orders)
    parts, suppliers = numbers(sizes.parts), numbers(sizes.suppliers)
    stocks = np.arange(LINES * sizes.parts, dtype=np.int64)
    colours = [drawn(random, words.COLOURS, len(parts)).to_pylist() for _ in range(2)]
    part_names = [f"{a} {b} {key}" for a, b, key in zip(*colours, parts.tolist(), strict=True)]
    columns: dict[str, list[Any]] = {
        "nation": [
            np.arange(sizes.nations, dtype=np.int64),
            [name for name, _ in words.NATIONS[: sizes.nations]],
        ],
        "customer": [
            customers,
            numbered("Customer#", customers),
            random.integers(0, sizes.nations, len(customers)),
        ],
        "orders": [
            orders,
            keys(len(orders), sizes.customers),
            dates(random.integers(FIRST_DAY, LAST_DAY + 1, len(orders))),
        ],
        "lineitem": [
            keys(sizes.lines, sizes.orders),
            numbers(sizes.lines),
            keys(sizes.lines, sizes.parts),
            keys(sizes.lines, sizes.suppliers),
            random.integers(1, 51, sizes.lines),
        ],
        "part": [parts, part_names],
        "supplier": [
            suppliers,
            numbered("Supplier#", suppliers),
            random.integers(0, sizes.nations, len(suppliers)),
        ],
        "partsupp": [stocks // LINES + 1, stocks % LINES, keys(len(stocks), sizes.suppliers)],
    }
    return {name: pa.table(columns[name], schema=shape.arrow) for name, shape in SHAPES.items()}


def skewed(random: np.random.Generator, count: int, of: int, share: float) -> Integers:
    """Keys from 1 to `of`: about a share of them from Zipf(2), the others uniform.

    >>> keys = skewed(np.random.default_rng(1), 10_000, 100, 0.2)
    >>> bool(0.11 < (keys == 1).mean() < 0.15), int(keys.min()), int(keys.max())
    (True, 1, 100)
    """
    uniform = random.integers(1, of + 1, count)
    heavy = (random.zipf(ZIPF, count) - 1) % of + 1
    return np.asarray(np.where(random.random(count) < share, heavy, uniform), dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Change:
    """Rows that come and rows that go, by table."""

    inserted: dict[str, pa.Table] = field(default_factory=dict)
    deleted: dict[str, pa.Table] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return sum(map(len, [*self.inserted.values(), *self.deleted.values()]))

    def apply(self, transaction: Transaction) -> None:
        for name, rows in self.deleted.items():
            transaction.delete(name, rows)
        for name, rows in self.inserted.items():
            transaction.insert(name, rows)


class Stream:
    """All rows of some tables in so many batches, each of one table, the tables taking turns.

    After the batches come small steps: some rows go, and some that went come back.
    """

    def __init__(self, tables: dict[str, pa.Table], names: Sequence[str], batches: int) -> None:
        self._random = np.random.default_rng([SEED, batches])
        self._tables = {name: tables[name] for name in names}
        # Which rows are there, and which were: vectors, since the tables have millions of rows.
        self._present = {name: np.zeros(len(tables[name]), dtype=bool) for name in names}
        self._absent = {name: np.zeros(len(tables[name]), dtype=bool) for name in names}
        turns = {name: len(range(i, batches, len(names))) for i, name in enumerate(names)}
        parts = {
            name: iter(np.array_split(self._random.permutation(len(tables[name])), turns[name]))
            for name in names
            if turns[name]
        }
        turn = [names[i % len(names)] for i in range(batches)]
        self._batches = [(name, next(parts[name])) for name in turn]

    def __len__(self) -> int:
        return len(self._batches)

    def coming(self, number: int) -> int:
        """How many rows the batch of that number brings."""
        return len(self._batches[number][1])

    def batch(self, number: int) -> Change:
        """The batch of that number, which is the next one."""
        name, rows = self._batches[number]
        return self._moved({name: rows}, {name: self._some(name, int(DELETED * len(rows)))})

    def small(self, share: float) -> Change:
        """A change of about a share of the rows: half of them go, as many come back.

        Tables with too few rows for that stay as they are, unless all have.
        """
        counts = {name: round(share * len(rows) / 2) for name, rows in self._tables.items()}
        if not any(counts.values()):
            counts = {max(self._tables, key=lambda name: len(self._tables[name])): 1}
        back = {
            name: self._random.choice(absent, min(count, len(absent)), replace=False)
            for name, count in counts.items()
            if len(absent := np.flatnonzero(self._absent[name]))
        }
        return self._moved(back, {name: self._some(name, count) for name, count in counts.items()})

    def current(self, name: str) -> pa.Table:
        """The rows of a table as they are now."""
        return self._tables[name].take(pa.array(np.flatnonzero(self._present[name])))

    @property
    def rows(self) -> int:
        """How many rows there are now."""
        return sum(int(present.sum()) for present in self._present.values())

    def _some(self, name: str, count: int) -> Integers:
        present = np.flatnonzero(self._present[name])
        return self._random.choice(present, min(count, len(present)), replace=False)

    def _moved(self, coming: dict[str, Integers], going: dict[str, Integers]) -> Change:
        for name, rows in going.items():
            self._present[name][rows] = False
            self._absent[name][rows] = True
        for name, rows in coming.items():
            self._present[name][rows] = True
            self._absent[name][rows] = False
        return Change(
            {name: self._taken(name, rows) for name, rows in coming.items() if len(rows)},
            {name: self._taken(name, rows) for name, rows in going.items() if len(rows)},
        )

    def _taken(self, name: str, rows: Integers) -> pa.Table:
        return self._tables[name].take(pa.array(rows)).combine_chunks()
