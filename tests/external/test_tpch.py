"""A bounded part of TPC-H: few queries on few rows. All of it: `python -m tests.external.tpch`."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rekindle.benchmarks.tpch_queries import QUERIES
from tests.external.compare import Difference, rows_of
from tests.external.material import absent, material
from tests.external.outcomes import Outcome
from tests.external.tpch import read_answers, replay, require_answers

BOUNDED = (4, 13)


def test_views_follow_batches(spark: SparkSession, tmp_path: Path) -> None:
    said: list[str] = []
    results = replay(
        spark, tmp_path, scale=0.001, queries=BOUNDED, batches=2, seed=3, say=said.append
    )
    assert [r.outcome for r in results.cases.values()] == [Outcome.PASSED] * len(BOUNDED), said


def test_published_answers_tell_right_from_wrong() -> None:
    require_answers([(1, "b "), (None, "a")], [["", "a"], ["1.004", "b"]])
    for wrong in ([["1", "b"]], [["1", "b"], ["2", "a"]], [["", "a"], ["1.02", "b"]]):
        with pytest.raises(Difference):
            require_answers([(1, "b"), (None, "a")], wrong)


@pytest.mark.slow
def test_our_texts_of_the_queries_have_the_published_answers(spark: SparkSession) -> None:
    """Spark itself gives the published answers to our texts, on official rows."""
    place = material("tpch")
    if place is None:
        pytest.skip(absent("tpch"))
    session = spark.newSession()
    for file in sorted((place / "data_sf0.01").glob("*.parquet")):
        session.read.parquet(str(file)).createOrReplaceTempView(file.stem)
    for number in QUERIES:
        published = read_answers(place / "answers_sf0.01", number)
        require_answers(rows_of(session.sql(QUERIES[number])), published)
