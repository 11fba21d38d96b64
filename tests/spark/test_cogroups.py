"""Python functions of the rows of a key in two tables follow the changes of both."""

from __future__ import annotations

import random
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle
from rekindle.errors import EvaluationError, UnsupportedError
from rekindle.runtime.database import Database
from tests.spark.helpers import refused

TABLES = ("CREATE TABLE a (k INT, x DOUBLE, s STRING)", "CREATE TABLE b (k INT, y DECIMAL(9, 2))")

SIZES = "k string, l int, r int, d string"


def _sizes(key: tuple[Any, ...], left: pd.DataFrame, right: pd.DataFrame) -> pd.DataFrame:
    """Also what pandas makes of the columns, which is another thing where there are NULLs."""
    kinds = " ".join(f"{n}:{kind}" for side in (left, right) for n, kind in side.dtypes.items())
    return pd.DataFrame([[str(key), len(left), len(right), kinds]], columns=list("klrd"))


def _beside(left: pa.Table, right: pa.Table) -> pa.Table:
    """As many rows as the shorter side has, which depends on the order of the rows."""
    rows = min(left.num_rows, right.num_rows)
    return pa.table({"s": left["s"][:rows], "y": right["y"][:rows]})


def _matched(left: pd.DataFrame, right: pd.DataFrame) -> pd.DataFrame:
    return left.merge(right, on="k")[["k", "s", "y"]]


def _frames(a: DataFrame, b: DataFrame) -> dict[str, DataFrame]:
    by_k = a.groupBy("k").cogroup(b.groupBy("k"))
    # Spark fails on -0.0 beside 0.0: it takes them for one key here and for two there.
    nonzero = a.where("x <> 0 OR x IS NULL")
    other = nonzero.selectExpr("k AS k2", "x AS x2")
    return {
        "sizes": by_k.applyInPandas(_sizes, SIZES),
        "beside": by_k.applyInArrow(_beside, "s string, y decimal(9, 2)"),
        "by_expression": a.groupBy((F.col("k") % 2).alias("odd"), "s")
        .cogroup(b.groupBy(F.col("k") - 1, F.lit("a")))
        .applyInPandas(_sizes, SIZES),
        "by_double": nonzero.groupBy("x")
        .cogroup(other.groupBy(F.abs("x2")))
        .applyInPandas(_sizes, SIZES),
        "of_all": a.groupBy().cogroup(b.groupBy()).applyInPandas(_sizes, SIZES),
        "between": a.where("k > 0")
        .groupBy("k")
        .cogroup(b.groupBy("k"))
        .applyInPandas(_matched, "k int, s string, y decimal(9, 2)")
        .groupBy("s")
        .agg(F.sum("y").alias("total")),
    }


@pytest.mark.parametrize("placement", ["inline", "spark"])
def test_functions_of_cogroups_follow_changes(
    spark: SparkSession, tmp_path: Any, placement: str
) -> None:
    pick = random.Random(5)
    live: dict[str, list[tuple[Any, ...]]] = {"a": [], "b": []}
    with rekindle.connect(str(tmp_path), spark) as db:
        for table in TABLES:
            db.sql(table)
        for name, frame in _frames(db.table("a"), db.table("b")).items():
            db.create_view(name, frame)
        for step in range(2 if placement == "spark" else 3):
            with db.transaction() as tx:
                for table, rows in live.items():
                    gone = [rows.pop(pick.randrange(len(rows))) for _ in range(len(rows) // 3)]
                    new = [_row(table, pick) for _ in range(5)] if step != 2 else []
                    rows += new + new[:2]
                    tx.insert(table, new + new[:2])
                    tx.delete(table, gone)
            # On Spark a step takes seconds: the first one fills the tables.
            if step or placement == "inline":
                for name in db.views:
                    db.check(name)
            db.place(placement)
        db.sql("DELETE FROM a")
        for name in db.views:
            db.check(name)
        db.sql("DELETE FROM b")
        assert all(db.table(name).isEmpty() for name in db.views)


def _row(table: str, pick: random.Random) -> tuple[Any, ...]:
    k = pick.choice([0, 1, 2, 3, None])
    if table == "b":
        return k, pick.choice([1, 2, None])
    x = pick.choice([0.0, -0.0, float("nan"), 1.5, None])
    return k, x, pick.choice(["a", "b", None])


@pytest.fixture
def tables(db: Database) -> Database:
    for table in TABLES:
        db.sql(table)
    return db


def test_keys_that_are_null_meet_as_in_spark(tables: Database) -> None:
    frames = _frames(tables.table("a"), tables.table("b"))
    tables.create_view("v", frames["sizes"].selectExpr("l", "r"))
    tables.sql("INSERT INTO a VALUES (NULL, 1, 'n'), (NULL, 2, 'n'), (1, 1, 'x')")
    tables.sql("INSERT INTO b VALUES (NULL, 1), (2, 1)")
    assert _found(tables) == [(0, 1), (1, 0), (2, 1)]
    tables.sql("DELETE FROM a WHERE k IS NULL AND x = 1")
    assert _found(tables) == [(0, 1), (1, 0), (1, 1)]
    tables.sql("DELETE FROM b")
    assert _found(tables) == [(1, 0), (1, 0)]
    tables.check("v")


def _found(db: Database) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in db.table("v").collect())


def test_a_view_of_cogroups_is_there_after_reopening(spark: SparkSession, tmp_path: Any) -> None:
    with rekindle.connect(str(tmp_path), spark) as db:
        for table in TABLES:
            db.sql(table)
        db.create_view("v", _frames(db.table("a"), db.table("b"))["beside"])
        db.sql("INSERT INTO a VALUES (1, 2, 'a'), (1, 3, 'b')")
    with rekindle.connect(str(tmp_path), spark) as db:
        db.sql("INSERT INTO b VALUES (1, 2.5)")
        db.check("v")
        assert [row["s"] for row in db.table("v").collect()] == ["a"]


def test_only_touched_cogroups_are_given_to_a_function(tables: Database) -> None:
    """Law 6."""
    tables.sql("INSERT INTO a SELECT id % 100, id, 's' FROM range(1000)")
    tables.sql("INSERT INTO b SELECT id % 100, id FROM range(500)")
    frame = _frames(tables.table("a"), tables.table("b"))["sizes"]
    tables.create_view("v", frame, incremental="required")
    tables.sql("INSERT INTO b VALUES (7, 1)")
    step = tables.last_step
    assert step is not None and not any(did.rebuilt for did in step.nodes.values())
    assert max(did.rows_out for did in step.nodes.values()) == 2
    # Ten rows and five before, ten and six after.
    assert max(did.rows_in for did in step.nodes.values()) <= 31
    tables.check("v")


def test_a_function_that_fails_undoes_its_transaction(tables: Database) -> None:
    def strict(left: pd.DataFrame, right: pd.DataFrame) -> pd.DataFrame:
        if len(left) and len(right):
            raise ValueError("a key of both")
        return pd.DataFrame({"n": [len(left) - len(right)]})

    cogroups = tables.table("a").groupBy("k").cogroup(tables.table("b").groupBy("k"))
    tables.create_view("v", cogroups.applyInPandas(strict, "n int"))
    tables.sql("INSERT INTO a VALUES (1, 1, 'a')")
    with refused(tables, EvaluationError, "a key of both"):
        tables.sql("INSERT INTO b VALUES (1, 1)")
    tables.check("v")


def test_what_spark_leaves_open_is_refused(tables: Database) -> None:
    a, b = tables.table("a"), tables.table("b")
    wider = b.groupBy(F.col("k").cast("bigint"))
    with refused(tables, UnsupportedError, "keys of the types (int) and (bigint)"):
        mixed = a.groupBy("k").cogroup(wider).applyInPandas(_sizes, SIZES)
        tables.create_view("v", mixed)
    with refused(tables, UnsupportedError, "cogroup() of a DataFrame with itself"):
        both = a.groupBy("k").cogroup(a.groupBy("k")).applyInPandas(_sizes, SIZES)
        tables.create_view("v", both)
