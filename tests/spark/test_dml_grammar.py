"""Every form of DML that is accepted has the effect that Spark gives it, or its definition."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, note, settings
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import rekindle
from rekindle.errors import RekindleError
from rekindle.runtime.database import Database
from tests.spark.dml_statements import (
    CHANGES,
    ROWS,
    SCHEMA,
    Refused,
    Statement,
    Tables,
    inserts,
)

QUICK = settings(
    max_examples=10, deadline=None, suppress_health_check=list(HealthCheck), database=None
)
LONG = settings(QUICK, max_examples=int(os.environ.get("REKINDLE_FUZZ_EXAMPLES", "2000")))


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Database]:
    """A database and tables of Spark's own that are called alike."""
    place = tmp_path_factory.mktemp("grammar")
    with rekindle.connect(str(place / "ours"), spark=spark) as db:
        db.create_table("gt", SCHEMA)
        db.create_table("gu", SCHEMA)
        db.create_table("gk", SCHEMA, primary_key=["id"])
        for name in ("gt", "gu"):
            spark.sql(f"CREATE TABLE {name} ({SCHEMA}) USING parquet LOCATION '{place}/{name}'")
        try:
            yield db
        finally:
            for name in ("gt", "gu"):
                spark.sql(f"DROP TABLE {name}")


def _filled(db: Database, **contents: list[Any]) -> None:
    with db.transaction() as tx:
        for name, rows in contents.items():
            db.sql(f"TRUNCATE TABLE {name}")
            tx.insert(name, rows)


def _bag(rows: DataFrame) -> Counter[Any]:
    found = rows.collect()
    return Counter((r.id, r.a, None if r.s is None else tuple(r.s)) for r in found)


def _change_and_compare(db: Database, table: str, statement: Statement, tables: Tables) -> None:
    note(statement.sql)
    if table == "gk":
        firsts = {row[0]: row for row in tables.target if row[0] is not None}
        tables = Tables(list(firsts.values()), tables.source)
    _filled(db, **{table: tables.target, "gu": tables.source})
    expected = None
    try:
        made = statement.after(tables)
        ids = [row[0] for row in made]
        if table == "gt" or (None not in ids and len(set(ids)) == len(ids)):
            expected = Counter(made)
    except Refused:
        pass
    epoch = db.epoch
    if expected is None:
        with pytest.raises(RekindleError):
            db.sql(statement.sql)
        assert db.epoch == epoch
    else:
        db.sql(statement.sql)
        assert db.epoch == epoch + 1
        assert _bag(db.table(table)) == expected


@QUICK
@given(change=CHANGES, target=ROWS, source=ROWS)
def test_changes(both: Database, change: Any, target: Any, source: Any) -> None:
    _change_and_compare(both, *change, Tables(target, source))


@pytest.mark.fuzz
@LONG
@given(change=CHANGES, target=ROWS, source=ROWS)
def test_many_changes(both: Database, change: Any, target: Any, source: Any) -> None:
    _change_and_compare(both, *change, Tables(target, source))


ONE = (1, 1, (1, "p"))
OTHERS = [(1, 1, None), (2, None, (None, "q")), (None, 2, (2, None))]


def _insert_and_compare(db: Database, sql: str) -> None:
    """Spark's own table and ours end alike, or both refuse."""
    note(sql)
    spark = db.spark
    _filled(db, gt=[ONE], gu=OTHERS)
    spark.createDataFrame([ONE], SCHEMA).write.insertInto("gt", overwrite=True)
    spark.createDataFrame(OTHERS, SCHEMA).write.insertInto("gu", overwrite=True)
    try:
        spark.sql(sql)
    except PySparkException as refusal:
        note(str(refusal))
        with pytest.raises(RekindleError):
            db.sql(sql)
        assert _bag(db.table("gt")) == Counter([ONE])
    else:
        db.sql(sql)
        assert _bag(db.table("gt")) == _bag(spark.table("gt"))


@settings(QUICK, max_examples=5)
@given(sql=inserts())
def test_inserts(both: Database, sql: str) -> None:
    _insert_and_compare(both, sql)


@pytest.mark.fuzz
@LONG
@given(sql=inserts())
def test_many_inserts(both: Database, sql: str) -> None:
    _insert_and_compare(both, sql)
