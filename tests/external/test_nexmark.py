"""A bounded part of Nexmark. All of it: `python -m tests.external.nexmark`, `nexmark_streams`."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.external.material import absent, material
from tests.external.nexmark import Market, replay
from tests.external.nexmark_events import Events
from tests.external.nexmark_streams import CLOCK, Delivery, stream
from tests.external.outcomes import Outcome

BOUNDED = (4, 18)
STREAMED = (3, 5, 12)


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


def test_views_follow_streams_whose_rows_are_late(spark: SparkSession, tmp_path: Path) -> None:
    place = material("nexmark")
    if place is None or material("feldera") is None:
        pytest.skip(absent("nexmark" if place is None else "feldera"))
    said: list[str] = []
    results = stream(
        spark, place.parent, tmp_path, STREAMED, events=900, batches=4, seed=3, say=said.append
    )
    found = {case: result.outcome for case, result in results.cases.items()}
    assert found == dict.fromkeys([*(f"query {n}" for n in STREAMED), CLOCK], Outcome.PASSED), said


def test_some_events_are_late_and_some_are_only_out_of_order() -> None:
    delivery = Delivery(5)
    came = [delivery.take(200) for _ in range(10)]
    assert all(delivery.late[table] > 0 for table in ("bid", "auction"))
    for table in delivery.kept:
        assert delivery.kept[table] + delivery.late[table] == sum(len(rows[table]) for rows in came)
    times = [row[5] for rows in came for row in rows["bid"]]
    assert sum(a > b for a, b in pairwise(times)) > delivery.late["bid"]


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
