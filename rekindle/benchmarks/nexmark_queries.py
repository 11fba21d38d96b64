"""Nexmark's queries 0 to 8 in Spark's dialect, and how Structured Streaming can answer them.

What only adds rows, it evaluates by itself, batch after batch, with a state store of its own where
two streams are joined. A result that later events change (a maximum, a count, a row that is first
no longer) it could only give when nothing later can come, so there the query is computed anew over
all events so far.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

Frames = Mapping[str, DataFrame]


@dataclass(frozen=True, slots=True)
class Query:
    """A query over some of the tables `person`, `auction` and `bid`."""

    title: str
    tables: tuple[str, ...]
    text: str
    appends: bool = False
    """Does it only ever add rows, so that Structured Streaming evaluates it by itself?"""
    streamed: Callable[[Frames], DataFrame] | None = None
    """How that is said to Structured Streaming, where it does not take the text."""


_WON = "a.id = b.auction AND b.date_time BETWEEN a.date_time AND a.expires"
_HOP = "window(date_time, '10 seconds', '2 seconds')"
_TUMBLE = "window(date_time, '10 seconds')"


def _new_sellers(frames: Frames) -> DataFrame:
    window = F.window("date_time", "10 seconds")
    people = frames["person"].select("id", "name", window.alias("w"))
    sellers = frames["auction"].select("seller", window.alias("opened"))
    sellers = sellers.dropDuplicates(["seller", "opened"])
    pairs = people.join(sellers, F.expr("id = seller AND w = opened"))
    return pairs.select("id", "name", F.col("w.start").alias("beginning"))


QUERIES: Mapping[int, Query] = {
    0: Query(
        "pass through",
        ("bid",),
        "SELECT auction, bidder, price, date_time, extra FROM bid",
        appends=True,
    ),
    1: Query(
        "another currency",
        ("bid",),
        "SELECT auction, bidder, 0.908 * price AS price, date_time, extra FROM bid",
        appends=True,
    ),
    2: Query(
        "some auctions",
        ("bid",),
        "SELECT auction, price FROM bid WHERE auction % 123 = 0",
        appends=True,
    ),
    3: Query(
        "local sellers",
        ("person", "auction"),
        "SELECT p.name, p.city, p.state, a.id FROM auction a JOIN person p ON a.seller = p.id "
        "WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')",
        appends=True,
    ),
    4: Query(
        "average of what was paid, by category",
        ("auction", "bid"),
        "SELECT category, avg(final) AS final FROM (SELECT a.id, a.category, max(b.price) AS final "
        f"FROM auction a JOIN bid b ON {_WON} GROUP BY a.id, a.category) GROUP BY category",
    ),
    5: Query(
        "hot items",
        ("bid",),
        f"WITH counted AS (SELECT auction, {_HOP} AS w, count(*) AS num FROM bid GROUP BY 1, 2) "
        "SELECT c.auction, c.num FROM counted c JOIN (SELECT w, max(num) AS most FROM counted "
        "GROUP BY w) m ON c.w = m.w AND c.num >= m.most",
    ),
    6: Query(
        "average of a seller's last sales",
        ("auction", "bid"),
        "SELECT seller, avg(price) OVER (PARTITION BY seller ORDER BY date_time "
        "ROWS BETWEEN 10 PRECEDING AND CURRENT ROW) AS average FROM (SELECT a.id, a.seller, "
        "b.price, b.date_time, row_number() OVER (PARTITION BY a.id, a.seller ORDER BY b.price "
        f"DESC, b.date_time) AS place FROM auction a JOIN bid b ON {_WON}) WHERE place = 1",
    ),
    7: Query(
        "highest bid",
        ("bid",),
        "SELECT b.auction, b.price, b.bidder, b.date_time, b.extra FROM bid b JOIN "
        f"(SELECT max(price) AS most, {_TUMBLE}.end AS ending FROM bid GROUP BY {_TUMBLE}) m "
        "ON b.price = m.most "
        "AND b.date_time BETWEEN m.ending - INTERVAL 10 SECONDS AND m.ending",
    ),
    8: Query(
        "new sellers",
        ("person", "auction"),
        f"SELECT p.id, p.name, p.w.start AS beginning FROM (SELECT id, name, {_TUMBLE} AS w "
        f"FROM person GROUP BY 1, 2, 3) p JOIN (SELECT seller, {_TUMBLE} AS w FROM auction "
        "GROUP BY 1, 2) a ON p.id = a.seller AND p.w = a.w",
        appends=True,
        streamed=_new_sellers,
    ),
}
