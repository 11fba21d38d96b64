"""A bounded part of Nexmark. All of it: `python -m tests.external.nexmark`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.external.material import absent, material
from tests.external.nexmark import Market, replay
from tests.external.nexmark_events import Events
from tests.external.outcomes import Outcome

BOUNDED = (4, 18)


def test_views_follow_the_market(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("nexmark", "feldera"):
        if material(name) is None:
            pytest.skip(absent(name))
    place = material("nexmark")
    assert place is not None
    said: list[str] = []
    results = replay(
        spark, place.parent, tmp_path, BOUNDED, events=300, batches=2, seed=3, say=said.append
    )
    assert [r.outcome for r in results.cases.values()] == [Outcome.PASSED] * len(BOUNDED), said


def test_events_follow_from_the_seed() -> None:
    whole, parts = Events(5).take(500), Events(5)
    first, second = parts.take(120), parts.take(380)
    assert whole == {table: first[table] + second[table] for table in first}
    assert {table: len(rows) for table, rows in whole.items()} == {
        "person": 10,
        "auction": 30,
        "bid": 460,
    }
    (_, hottest), *_ = Counter(row[0] for row in whole["bid"]).most_common(1)
    assert 0.4 < hottest / 460 < 0.65
    prices = sorted(row[2] for row in whole["bid"])
    assert 100 <= prices[0] < 1_000 and 10_000_000 < prices[-1] <= 100_000_000


def test_batches_insert_delete_and_alter() -> None:
    before, arrived, mixed, deleted, altered = (
        Counter(stage.contents["bid"]) for stage in Market(5, 300).stages(4, 50)
    )
    assert before < arrived
    assert deleted < mixed
    assert altered.total() == deleted.total() and altered != deleted
    assert max(mixed.values()) > 1
