"""Python functions of a group's rows, `applyInPandas` and `applyInArrow`, follow changes."""

from __future__ import annotations

import random
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle
from rekindle.errors import EvaluationError
from rekindle.runtime.database import Database
from tests.spark.helpers import refused

TABLE = "CREATE TABLE t (k INT, x DOUBLE, s STRING)"


def _spread(group: pd.DataFrame) -> pd.DataFrame:
    """As many rows as come in, each with something of them all."""
    return group.assign(n=len(group), total=group.x.sum())[["k", "n", "total"]]


def _of_key(key: tuple[Any, ...], group: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame([[key[0], len(group)]], columns=["key", "n"])


def _first(group: pa.Table) -> pa.Table:
    """What depends on the order of the rows."""
    return pa.table({"k": group["k"][:1], "s": group["s"][:1]})


def _size(group: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame({"n": [len(group)]})


def _frames(t: DataFrame) -> dict[str, DataFrame]:
    return {
        "spread": t.groupBy("k").applyInPandas(_spread, "k int, n bigint, total double"),
        "by_two": t.groupBy("k", "s").applyInPandas(_size, "n bigint"),
        "by_expression": t.groupBy((F.col("k") % 2).alias("odd")).applyInPandas(
            _of_key, "key int, n bigint"
        ),
        "by_double": t.groupBy("x").applyInPandas(_of_key, "key double, n bigint"),
        "in_order": t.groupBy("k").applyInArrow(_first, "k int, s string"),
        "of_all": t.groupBy().applyInPandas(_size, "n bigint"),
        "between": t.where("k > 0")
        .groupBy("k")
        .applyInPandas(_spread, "k int, n bigint, total double")
        .groupBy("n")
        .agg(F.count("*").alias("c")),
    }


@pytest.mark.parametrize("placement", ["inline", "spark"])
def test_functions_of_groups_follow_changes(
    spark: SparkSession, tmp_path: Any, placement: str
) -> None:
    pick = random.Random(3)
    live: list[tuple[Any, ...]] = []
    with rekindle.connect(str(tmp_path), spark) as db:
        db.sql(TABLE)
        for name, frame in _frames(db.table("t")).items():
            db.create_view(name, frame)
        for step in range(2 if placement == "spark" else 4):
            gone = [live.pop(pick.randrange(len(live))) for _ in range(len(live) // 3)]
            new = [_row(pick) for _ in range(8)] if step != 3 else []
            live += new + new[:2]
            with db.transaction() as tx:
                tx.insert("t", new + new[:2])
                tx.delete("t", gone)
            # On Spark a step takes seconds: the first one fills the tables.
            if step or placement == "inline":
                for name in db.views:
                    db.check(name)
            db.place(placement)
        db.sql("DELETE FROM t")
        assert all(db.table(name).isEmpty() for name in db.views)


def _row(pick: random.Random) -> tuple[Any, ...]:
    x = pick.choice([0.0, -0.0, float("nan"), 1.5, None])
    return pick.choice([0, 1, 2, 3, None]), x, pick.choice(["a", "b", None])


def test_a_view_of_a_function_is_there_after_reopening(spark: SparkSession, tmp_path: Any) -> None:
    with rekindle.connect(str(tmp_path), spark) as db:
        db.sql(TABLE)
        db.create_view("v", _frames(db.table("t"))["spread"])
    with rekindle.connect(str(tmp_path), spark) as db:
        db.sql("INSERT INTO t VALUES (1, 2, 'a'), (1, 3, 'b')")
        db.check("v")
        assert [tuple(row) for row in db.table("v").collect()] == [(1, 2, 5.0)] * 2


def test_only_touched_groups_are_given_to_a_function(db: Database) -> None:
    """Law 6, and no more than the key is needed to find them."""
    db.sql(TABLE)
    db.sql("INSERT INTO t SELECT id % 100, id, 's' FROM range(1000)")
    frame = _frames(db.table("t"))["spread"]
    db.create_view("v", frame, incremental="required")
    db.sql("INSERT INTO t VALUES (7, 1, 'new')")
    step = db.last_step
    assert step is not None and not any(did.rebuilt for did in step.nodes.values())
    # Ten rows of the group before, eleven after.
    assert max(did.rows_out for did in step.nodes.values()) == 21
    db.check("v")


def test_a_function_that_fails_undoes_its_transaction(db: Database) -> None:
    def strict(group: pd.DataFrame) -> pd.DataFrame:
        if len(group) > 2:
            raise ValueError("a group of three")
        return pd.DataFrame({"n": [len(group)]})

    db.sql(TABLE)
    db.create_view("v", db.table("t").groupBy("k").applyInPandas(strict, "n bigint"))
    db.sql("INSERT INTO t VALUES (1, 1, 'a'), (1, 1, 'a')")
    with refused(db, EvaluationError, "a group of three"):
        db.sql("INSERT INTO t VALUES (1, 1, 'a')")
    db.check("v")
