"""Endless changes of TPC-H's tables, each small enough for one transaction.

The benchmark's own refresh functions insert and delete orders with their lines. Here customers,
suppliers, parts, their prices and stocks change too, since six of the 22 queries read no order at
all. New orders are old ones under new keys, so what the queries select keeps its frequency.

A change must name the rows it deletes in full. A pool, which is a sample of each table that always
holds its current rows, provides them without a copy of the database in memory.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from rekindle.benchmarks import tpch_words as words
from rekindle.benchmarks.tpch_data import Integers, dates, decimals
from rekindle.benchmarks.tpch_schema import TABLES
from rekindle.runtime.transactions.transaction import Transaction

Array = np.ndarray[Any, Any]

POOLED = ("supplier", "customer", "part", "partsupp", "orders")
BATCHES_IN_POOL = 20


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows to delete, to insert and to update, by table."""

    deleted: dict[str, pa.Table] = field(default_factory=dict)
    inserted: dict[str, pa.Table] = field(default_factory=dict)
    updated: dict[str, tuple[pa.Table, pa.Table]] = field(default_factory=dict)
    """The old rows and the new ones."""

    @property
    def rows(self) -> int:
        """Changes of single rows; an update is one."""
        parts = [*self.deleted.values(), *self.inserted.values()]
        return sum(map(len, parts)) + sum(len(new) for _, new in self.updated.values())

    def of(self, tables: Collection[str]) -> Batch:
        """The part that concerns the given tables."""
        return Batch(
            {name: rows for name, rows in self.deleted.items() if name in tables},
            {name: rows for name, rows in self.inserted.items() if name in tables},
            {name: pair for name, pair in self.updated.items() if name in tables},
        )

    def apply(self, transaction: Transaction) -> None:
        for name, rows in self.deleted.items():
            transaction.delete(name, rows)
        for name, rows in self.inserted.items():
            transaction.insert(name, rows)
        for name, (_, rows) in self.updated.items():
            transaction.upsert(name, rows)


def read_counts(directory: Path) -> dict[str, int]:
    """How many rows the files hold."""
    return {name: pq.read_metadata(_file(directory, name)).num_rows for name in TABLES}


def read_pool(directory: Path, share: float) -> dict[str, pa.Table]:
    """Rows from all over each table, enough for batches that change `share` of it."""
    pool = {}
    for name in POOLED:
        key = TABLES[name].key[0]
        keys = pq.read_table(_file(directory, name), columns=[key]).column(0).unique().to_numpy()
        wanted = max(1_000, int(BATCHES_IN_POOL * share * len(keys)))
        pool[name] = _read(directory, name, key, keys[:: max(1, len(keys) // wanted)])
    orders = pool["orders"].column("o_orderkey").to_numpy()
    pool["lineitem"] = _read(directory, "lineitem", "l_orderkey", orders)
    return pool


def _read(directory: Path, name: str, key: str, keys: Integers) -> pa.Table:
    schema = TABLES[name].arrow
    files = ds.dataset(_file(directory, name), schema=schema)
    return files.to_table(filter=pc.field(key).isin(pa.array(keys))).combine_chunks()


def _file(directory: Path, name: str) -> str:
    return str(directory / f"{name}.parquet")


class ChangeStream:
    """Batches that each change `share` of the rows of every table but nation and region.

    Of the changed orders two fifths are new, two fifths go, one fifth has its lines altered.
    """

    def __init__(
        self, pool: Mapping[str, pa.Table], counts: Mapping[str, int], share: float, seed: int = 7
    ) -> None:
        self._pool = dict(pool)
        self._counts = counts
        self.share = share
        self._random = np.random.default_rng(seed)
        # Far above every key of the largest scale.
        self._next_key = 10**12

    def take(self) -> Batch:
        """The next batch; it supposes that all batches before it were applied."""
        batch = Batch()
        share = self.share * self._counts["orders"]
        self._insert_orders(batch, max(1, round(0.4 * share)))
        self._delete_orders(batch, max(1, round(0.4 * share)))
        self._alter_orders(batch, max(1, round(0.2 * share)))
        for name, alter in (
            ("supplier", self._altered_suppliers),
            ("customer", self._altered_customers),
            ("part", self._altered_parts),
            ("partsupp", self._altered_stocks),
        ):
            count = max(1, round(self.share * self._counts[name]))
            old = self._chosen(name, count)
            self._update(batch, name, old, alter(old, len(old)))
        return batch

    def _chosen(self, name: str, count: int) -> pa.Table:
        table = self._pool[name]
        return table.take(
            pa.array(self._random.choice(len(table), min(count, len(table)), replace=False))
        )

    def _lines(self, orders: pa.Table) -> pa.Table:
        lines = self._pool["lineitem"]
        return lines.filter(pc.is_in(lines.column("l_orderkey"), orders.column("o_orderkey")))

    def _insert_orders(self, batch: Batch, count: int) -> None:
        models = self._chosen("orders", count)
        lines = self._lines(models)
        old = models.column("o_orderkey").to_numpy()
        new = np.arange(self._next_key, self._next_key + len(models))
        self._next_key += len(models)
        order = np.argsort(old)
        renamed = new[order][np.searchsorted(old[order], lines.column("l_orderkey").to_numpy())]
        customers = models.column("o_custkey").to_numpy()
        others = self._chosen("customer", len(models)).column("c_custkey").to_numpy()
        others = np.resize(others, len(models))
        moved = self._random.random(len(models)) < 0.1
        # A price of its own: of orders that tie at a limit (query 18) Spark may show any.
        prices = _hundredths(models, "o_totalprice") + self._random.integers(1, 10_000, len(models))
        models = _with(
            models,
            o_orderkey=new,
            o_custkey=np.where(moved, others, customers),
            o_totalprice=decimals(prices),
        )
        lines = _with(lines, l_orderkey=renamed)
        for name, rows in (("orders", models), ("lineitem", lines)):
            batch.inserted[name] = rows
            self._pool[name] = pa.concat_tables([self._pool[name], rows]).combine_chunks()

    def _delete_orders(self, batch: Batch, count: int) -> None:
        """Orders of the pool as it was, since a batch does not delete what it inserts."""
        fresh = pc.greater_equal(
            self._pool["orders"].column("o_orderkey"),
            self._next_key - len(batch.inserted["orders"]),
        )
        settled = self._pool["orders"].filter(pc.invert(fresh))
        gone = settled.take(
            pa.array(self._random.choice(len(settled), min(count, len(settled)), replace=False))
        )
        batch.deleted["orders"] = gone
        batch.deleted["lineitem"] = self._lines(gone)
        self._remove("orders", "o_orderkey", gone.column("o_orderkey"))
        self._remove("lineitem", "l_orderkey", gone.column("o_orderkey"))

    def _alter_orders(self, batch: Batch, count: int) -> None:
        """Other quantities, prices, discounts and dates of arrival; large orders become likely."""
        fresh = batch.inserted["orders"].column("o_orderkey")
        chosen = self._chosen("orders", count)
        old = chosen.filter(pc.invert(pc.is_in(chosen.column("o_orderkey"), fresh)))
        lines = self._lines(old)
        size = len(lines)
        quantity = np.where(self._coin(size, 0.6), 50, self._random.integers(1, 51, size))
        unit = _hundredths(lines, "l_extendedprice") // (_hundredths(lines, "l_quantity") // 100)
        late = self._random.integers(-15, 16, size)
        received = lines.column("l_commitdate").cast(pa.int32()).to_numpy() + late
        altered = _with(
            lines,
            l_quantity=decimals(100 * quantity),
            l_extendedprice=decimals(unit * quantity),
            l_discount=decimals(self._random.integers(0, 11, size)),
            l_receiptdate=dates(received),
        )
        totals = _hundredths(old, "o_totalprice") * self._random.integers(90, 120, len(old)) // 100
        self._update(batch, "orders", old, _with(old, o_totalprice=decimals(totals)))
        self._update(batch, "lineitem", lines, altered)

    def _altered_suppliers(self, old: pa.Table, count: int) -> pa.Table:
        balance = self._random.integers(-99_999, 1_000_000, count)
        text = pc.if_else(
            pa.array(self._coin(count, 0.1)), "Customer Complaints", old.column("s_comment")
        )
        return _with(old, s_acctbal=decimals(balance), s_comment=text)

    def _altered_customers(self, old: pa.Table, count: int) -> pa.Table:
        nation = np.where(
            self._coin(count, 0.1),
            self._random.integers(0, 25, count),
            old.column("c_nationkey").to_numpy(),
        )
        return _with(
            old,
            c_acctbal=decimals(self._random.integers(-99_999, 1_000_000, count)),
            c_mktsegment=self._favoured(old, "c_mktsegment", 0.3),
            c_nationkey=nation,
        )

    def _altered_parts(self, old: pa.Table, count: int) -> pa.Table:
        columns = {
            name: self._favoured(old, name, 0.2)
            for name in ("p_brand", "p_container", "p_type", "p_size")
        }
        price = _hundredths(old, "p_retailprice") + self._random.integers(-500, 500, count)
        return _with(old, p_retailprice=decimals(price), **columns)

    def _altered_stocks(self, old: pa.Table, count: int) -> pa.Table:
        return _with(
            old,
            ps_availqty=self._random.integers(1, 10_000, count),
            ps_supplycost=decimals(self._random.integers(100, 100_001, count)),
        )

    def _favoured(self, old: pa.Table, name: str, share: float) -> pa.Array:
        """The column with some of its values changed to ones that queries ask for."""
        type_ = old.schema.field(name).type
        choices = pa.array(words.FAVOURED[name], type_)
        drawn = choices.take(pa.array(self._random.integers(0, len(choices), len(old))))
        return pc.if_else(pa.array(self._coin(len(old), share)), drawn, old.column(name))

    def _coin(self, count: int, share: float) -> Array:
        return self._random.random(count) < share

    def _update(self, batch: Batch, name: str, old: pa.Table, new: pa.Table) -> None:
        if not len(old):
            return
        batch.updated[name] = (old, new)
        if name == "lineitem":
            self._remove(name, "l_orderkey", old.column("l_orderkey"))
        elif name == "partsupp":
            self._remove_stocks(old)
        else:
            self._remove(name, TABLES[name].key[0], old.column(TABLES[name].key[0]))
        self._pool[name] = pa.concat_tables([self._pool[name], new]).combine_chunks()

    def _remove(self, name: str, key: str, keys: pa.ChunkedArray) -> None:
        rows = self._pool[name]
        self._pool[name] = rows.filter(pc.invert(pc.is_in(rows.column(key), keys)))

    def _remove_stocks(self, old: pa.Table) -> None:
        """The only key of two columns whose rows change one by one."""

        def pairs(rows: pa.Table) -> pa.Array:
            return pc.add(pc.multiply(rows.column(0), 10**10), rows.column(1))

        rows = self._pool["partsupp"]
        self._pool["partsupp"] = rows.filter(pc.invert(pc.is_in(pairs(rows), pairs(old))))


def _with(rows: pa.Table, **columns: Any) -> pa.Table:
    """The rows with other values in the named columns."""
    for name, values in columns.items():
        at = rows.schema.get_field_index(name)
        if isinstance(values, np.ndarray):
            values = pa.array(values, rows.schema.field(name).type)
        rows = rows.set_column(at, rows.schema.field(name), values)
    return rows.combine_chunks()


def _hundredths(rows: pa.Table, name: str) -> Integers:
    """A DECIMAL(15, 2) column as whole numbers."""
    column = pc.multiply(rows.column(name), pa.scalar(100, pa.decimal128(3, 0)))
    return np.asarray(column.cast(pa.decimal128(30, 0)).cast(pa.int64()).to_numpy())
