"""A day at the shop: transactions of many kinds and sizes.

Each part of the day draws its row numbers from its own stretch of the table, so that no row is
deleted or replaced twice and every deleted row can be given in full.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import cycle, islice

import numpy as np

from rekindle.cli.demo.shop import Numbers, Shop
from rekindle.runtime.transactions.transaction import Transaction


@dataclass(frozen=True, slots=True)
class Event:
    """A transaction that is about to happen."""

    title: str
    apply: Callable[[Transaction], None]


def events(shop: Shop, count: int) -> Iterator[Event]:
    """So many transactions, the kinds taking turns."""
    day = _Day(shop, count)
    kinds = cycle(
        [
            day.sell(1_000),
            day.take_back(500),
            day.correct(1_000),
            day.move(100),
            day.sell(10_000),
            day.reclassify(2),
            day.sell(100),
            day.everything(400),
            day.take_back(5_000),
            day.move(1_000),
            day.correct(100),
            day.sell(5_000),
        ]
    )
    for make in islice(kinds, count):
        yield make()


class _Day:
    """Makes events, and remembers which rows have been used."""

    def __init__(self, shop: Shop, events: int) -> None:
        self._shop = shop
        self._most_old_sales = max(1, shop.sales // (events + 1))
        self._next_sale = shop.sales
        self._used = 0
        self._customers = 0
        self._products = 0
        self._shift = 1

    def sell(self, rows: int) -> Callable[[], Event]:
        def make() -> Event:
            ids = self._new_sales(rows)
            return Event(
                f"{len(ids):,} sales", lambda tx: tx.insert("sales", self._shop.sale_rows(ids))
            )

        return make

    def take_back(self, rows: int) -> Callable[[], Event]:
        def make() -> Event:
            ids = self._old_sales(rows)
            return Event(
                f"{len(ids):,} returns", lambda tx: tx.delete("sales", self._shop.sale_rows(ids))
            )

        return make

    def correct(self, rows: int) -> Callable[[], Event]:
        def make() -> Event:
            ids = self._old_sales(rows)
            return Event(
                f"{len(ids):,} amounts corrected",
                lambda tx: tx.upsert("sales", self._shop.sale_rows(ids, discount=0.5)),
            )

        return make

    def move(self, rows: int) -> Callable[[], Event]:
        def make() -> Event:
            ids, shift = self._some_customers(rows), self._next_shift()
            return Event(
                f"{len(ids):,} customers move",
                lambda tx: tx.upsert("customers", self._shop.customer_rows(ids, shift)),
            )

        return make

    def reclassify(self, rows: int) -> Callable[[], Event]:
        def make() -> Event:
            ids, shift = self._some_products(rows), self._next_shift()
            return Event(
                f"{len(ids):,} products change category",
                lambda tx: tx.upsert("products", self._shop.product_rows(ids, shift)),
            )

        return make

    def everything(self, rows: int) -> Callable[[], Event]:
        def make() -> Event:
            sold, returned = self._new_sales(rows), self._old_sales(rows)
            moved, shift = self._some_customers(rows // 8), self._next_shift()

            def apply(tx: Transaction) -> None:
                tx.insert("sales", self._shop.sale_rows(sold))
                tx.delete("sales", self._shop.sale_rows(returned))
                tx.upsert("customers", self._shop.customer_rows(moved, shift))

            title = f"{len(sold):,} sales, {len(returned):,} returns, {len(moved):,} moves"
            return Event(title, apply)

        return make

    def _new_sales(self, rows: int) -> Numbers:
        rows = min(rows, self._shop.sales)
        self._next_sale += rows
        return np.arange(self._next_sale - rows, self._next_sale)

    def _old_sales(self, rows: int) -> Numbers:
        """Sales that no event has touched, scattered over the table."""
        rows = min(rows, self._most_old_sales)
        turns = np.arange(self._used, self._used + rows)
        self._used += rows
        return np.unique((turns * _coprime(self._shop.sales)) % self._shop.sales)

    def _some_customers(self, rows: int) -> Numbers:
        rows = min(rows, max(1, self._shop.customers // 20))
        turns = np.arange(self._customers, self._customers + rows)
        self._customers += rows
        return np.unique(turns % self._shop.customers)

    def _some_products(self, rows: int) -> Numbers:
        turns = np.arange(self._products, self._products + rows)
        self._products += rows
        return np.unique(turns % self._shop.products)

    def _next_shift(self) -> int:
        self._shift += 1
        return self._shift


def _coprime(size: int) -> int:
    stride = 7_368_787
    while np.gcd(stride, size) != 1:
        stride += 1
    return stride
