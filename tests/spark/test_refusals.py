"""Every construct that is not maintained is refused by the name that a user has for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame
from pyspark.sql.functions import count

from rekindle.errors import RekindleError, UndeterminedError, UnsupportedError
from rekindle.runtime.database import Database
from tests.property.oracle import collected
from tests.spark.helpers import refused, rows


@pytest.fixture
def pairs(db: Database) -> Database:
    db.sql("CREATE TABLE t (a INT, b INT)")
    db.sql("CREATE TABLE u (a INT, c INT)")
    return db


def _same(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    return batches


def _arrow(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return batches


FRAMES: list[tuple[Callable[[DataFrame], DataFrame], str]] = [
    (lambda t: t.mapInPandas(_same, t.schema), "mapInPandas"),
    (lambda t: t.mapInArrow(_arrow, t.schema), "mapInArrow"),
    (lambda t: t.sample(0.5), "TABLESAMPLE"),
    (lambda t: t.cache(), "a cached DataFrame"),
    (lambda t: t.observe("seen", count("*").alias("n")), "observe"),
]
QUERIES = [
    ("SELECT TRANSFORM (a) USING 'cat' AS (x) FROM t", "TRANSFORM"),
    ("SELECT last(a) AS x FROM t", "last"),
    (
        "SELECT size(array_agg(make_ym_interval(b, 1))) AS n FROM t GROUP BY a HAVING sum(1) < 3",
        "array<interval year to month>",
    ),
    ("SELECT map() AS x, a FROM t", "map<void,void>"),
    ("SELECT a, a AS A FROM t", "several columns called 'a'"),
    ("SELECT a AS _Weight FROM t", "column called '_weight'"),
    ("SELECT a, b AS _epoch FROM t", "column called '_epoch'"),
    (
        "SELECT a, (SELECT sum((SELECT max(x.b) FROM t x WHERE x.a = u.c)) FROM u "
        "WHERE u.a = t.a) AS s FROM t",
        "a correlated subquery that Spark does not take apart",
    ),
    ("SELECT a FROM elsewhere", "elsewhere"),
    ("SELECT spark_partition_id() AS p FROM t", "spark_partition_id()"),
    ("SELECT aes_encrypt(CAST(a AS STRING), '0000111122223333') AS e FROM t", "aesEncrypt"),
]


@pytest.mark.parametrize(("made", "word"), FRAMES, ids=[word for _, word in FRAMES])
def test_frames_are_refused_by_name(
    pairs: Database, made: Callable[[DataFrame], DataFrame], word: str
) -> None:
    frame = made(pairs.table("t"))
    try:
        with refused(pairs, RekindleError, word):
            pairs.create_view("v", frame)
    finally:
        frame.unpersist()


@pytest.mark.parametrize(("query", "word"), QUERIES, ids=[query for query, _ in QUERIES])
def test_queries_are_refused_by_name(pairs: Database, query: str, word: str) -> None:
    with refused(pairs, RekindleError, word):
        pairs.create_view("v", query)


def test_data_of_elsewhere_is_refused(pairs: Database, tmp_path: Path) -> None:
    files = str(tmp_path / "files")
    pairs.spark.range(3).write.parquet(files)
    for words in (f"parquet.`{files}`", f"t JOIN parquet.`{files}` ON a = id"):
        with refused(pairs, UnsupportedError, "data that is not a table of this database"):
            pairs.create_view("v", f"SELECT id FROM {words}")
    with refused(pairs, UnsupportedError, "data that is not a table of this database"):
        pairs.create_view("v", pairs.spark.read.parquet(files))


@pytest.mark.parametrize(
    "query",
    [
        "SELECT a, rand() AS r FROM t",
        "SELECT monotonically_increasing_id() AS i FROM t",
        "SELECT a, first(b) AS x FROM t GROUP BY a",
        "SELECT reflect('java.util.UUID', 'randomUUID') AS x FROM t",
    ],
)
def test_what_is_no_function_of_the_tables_is_told_from_gaps(pairs: Database, query: str) -> None:
    with refused(pairs, UndeterminedError):
        pairs.create_view("v", query)


def test_a_subquery_in_an_aggregate_in_a_correlated_subquery(pairs: Database) -> None:
    """Catalyst leaves a DISTINCT of its own in the plan."""
    pairs.create_view(
        "v",
        "SELECT a, (SELECT sum(c + (SELECT max(b) FROM t)) FROM u WHERE u.a = t.a) AS s FROM t",
    )
    pairs.sql("INSERT INTO t VALUES (1, 2), (1, 2), (2, NULL), (NULL, 5)")
    pairs.sql("INSERT INTO u VALUES (1, 1), (1, 2), (2, 2), (NULL, 1)")
    for change in ("DELETE FROM t WHERE b = 5", "UPDATE u SET c = 1 WHERE a = 2"):
        assert rows(pairs, "v") == collected(pairs.recompute("v"))
        pairs.sql(change)
    assert rows(pairs, "v") == collected(pairs.recompute("v"))
