"""Does a step depend on the size of the bag that it changes, or a reading on that of the view?

Two databases that differ in one number: a bag of a hundred elements and one of a million; a view of
a thousand rows and one of a million. One element comes, and the rows that nodes read and the time
are compared; one row of the view is read, and the time is.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

import rekindle
from rekindle.benchmarks.harness import Harness, stepped, timed
from rekindle.benchmarks.report import Bound, Sample, Series, Verdict, ratio_verdict
from rekindle.frontends.comprehension.front_end import Comprehension
from rekindle.runtime.database import Database

LARGE = 1_000_000
SMALL_BAG = 100
SMALL_VIEW = 1_000
LIMIT = 1.3
ROUNDS = 15
WARM_UP = 4

NESTED = rekindle.comprehension(
    """for b in bags
       yield (k: b.k, elements: for e in elements where e.k = b.k yield (x: e.x))"""
)
COLLECTED = "SELECT k, collect_list(x) AS elements FROM elements GROUP BY k"
KINDS: Mapping[str, Comprehension | str] = {"a nested view": NESTED, "collect_list": COLLECTED}


@dataclass(frozen=True, slots=True)
class Bags:
    """What was measured, and the bounds."""

    series: list[Series]
    verdicts: list[Verdict]


def measure(harness: Harness) -> Bags:
    """Insertions into bags of two sizes, readings from views of two sizes."""
    large = harness.rows(LARGE)
    found: dict[str, Series] = {}
    verdicts = []
    for kind, definition in KINDS.items():
        names = {size: f"one element into a bag of {size:,}, {kind}" for size in (SMALL_BAG, large)}
        actions = {
            name: partial(_insert_one, _filled(harness, kind, definition, 1, size), _numbers(size))
            for size, name in names.items()
        }
        found |= harness.interleave(actions, harness.rounds(ROUNDS), WARM_UP, f"bags, {kind}")
        few, many = (found[names[size]] for size in (SMALL_BAG, large))
        verdicts += [
            Verdict(
                f"rows touched by one element in a bag of {large:,} against {SMALL_BAG}, {kind}",
                _touched(many) / max(1.0, _touched(few)),
                Bound.AT_MOST,
                LIMIT,
            ),
            ratio_verdict(
                f"one element into a bag of {large:,} against {SMALL_BAG}, {kind}",
                many,
                few,
                Bound.AT_MOST,
                LIMIT,
            ),
        ]
    readings = {size: f"one row of a view of {size:,}" for size in (SMALL_VIEW, large)}
    reading = {
        name: partial(_read_one, _filled(harness, "rows", NESTED, size, size), size // 2)
        for size, name in readings.items()
    }
    found |= harness.interleave(reading, harness.rounds(ROUNDS), WARM_UP, "readings")
    verdicts.append(
        ratio_verdict(
            f"reading one row of a view of {large:,} against {SMALL_VIEW:,}",
            found[readings[large]],
            found[readings[SMALL_VIEW]],
            Bound.AT_MOST,
            LIMIT,
        )
    )
    return Bags([*found.values()], verdicts)


def _filled(
    harness: Harness, kind: str, definition: Comprehension | str, bags: int, elements: int
) -> Database:
    """A database of so many bags that have so many elements in all, and the view of them."""
    words = kind.replace(" ", "-")
    db = harness.database(f"{words}-{bags}-{elements}", retain=1)
    db.sql("CREATE TABLE bags (k BIGINT NOT NULL, PRIMARY KEY (k))")
    db.sql("CREATE TABLE elements (k BIGINT NOT NULL, x BIGINT NOT NULL)")
    numbers = np.arange(elements, dtype=np.int64)
    with harness.phase(f"{kind}: {elements:,} elements in {bags:,} bags", 2) as advance:
        with db.transaction() as tx:
            tx.insert("bags", pa.table({"k": np.arange(bags, dtype=np.int64)}))
            tx.insert("elements", pa.table({"k": numbers % bags, "x": numbers}))
        advance()
        db.create_view("v", definition)
        advance()
    return db


def _numbers(first: int) -> Callable[[], int]:
    return itertools.count(first).__next__


def _insert_one(db: Database, number: Callable[[], int]) -> Sample:
    rows = [(0, number())]
    return stepped(db, lambda tx: tx.insert("elements", rows))


def _read_one(db: Database, key: int) -> Sample:
    def read() -> None:
        (row,) = db.table("v").where(f"k = {key}").collect()
        assert len(row.elements) == 1

    return timed(read)


def _touched(series: Series) -> float:
    return (series.rows_read or 0.0) + (series.rows_written or 0.0)
