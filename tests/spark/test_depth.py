"""Deep expressions and large plans: they work, or are refused in the user's words."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import rekindle
from rekindle.errors import RekindleError
from rekindle.runtime.database import Database
from tests.property.oracle import bag
from tests.spark.helpers import rows

ROWS = [(1, 2), (2, 3), (3, None)]


@pytest.fixture(scope="module")
def deep(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Database]:
    with rekindle.connect(str(tmp_path_factory.mktemp("deep")), spark=spark) as db:
        db.sql("CREATE TABLE t (a BIGINT, v BIGINT)")
        db.sql("CREATE TABLE u (a BIGINT, w BIGINT)")
        with db.transaction() as tx:
            tx.insert("t", ROWS)
            tx.insert("u", [(1, 2), (5, 3)])
        yield db


def nested_case(depth: int) -> str:
    cases = "".join(f"CASE WHEN v = {i + 2} THEN {i} ELSE " for i in range(depth))
    return f"{cases} v {'END ' * depth}"


DEEP = {
    "sum": (" + ".join(["v"] * 300), lambda v: None if v is None else 300 * v),
    "case": (nested_case(60), lambda v: v if v is None or not 2 <= v < 62 else v - 2),
    "list": (
        f"v IN ({', '.join(map(str, range(3, 10_000)))})",
        lambda v: None if v is None else 3 <= v < 10_000,
    ),
    "conjunction": (
        " AND ".join(f"v <> {i}" for i in range(3, 300)),
        lambda v: None if v is None else not 3 <= v < 300,
    ),
}


@pytest.mark.parametrize("name", DEEP)
def test_a_deep_expression_follows_changes(deep: Database, name: str) -> None:
    text, meaning = DEEP[name]
    deep.create_view(name, f"SELECT a, {text} AS x FROM t")
    with deep.transaction() as tx:
        tx.insert("t", [(4, 61)])
        tx.delete("t", [ROWS[0]])
    expected = [(a, meaning(v)) for a, v in [*ROWS[1:], (4, 61)]]
    assert rows(deep, name) == bag(expected)
    with deep.transaction() as tx:
        tx.delete("t", [(4, 61)])
        tx.insert("t", [ROWS[0]])
    deep.sql(f"DROP VIEW {name}")


def test_full_joins_in_a_row_follow_changes(deep: Database) -> None:
    count = 25
    joined = "".join(f" FULL JOIN u u{i} ON u{i - 1}.a = u{i}.a" for i in range(1, count))
    shown = f"SELECT t.v, u{count - 1}.w FROM t FULL JOIN u u0 ON t.a = u0.a{joined}"
    deep.create_view("joined", shown)
    assert rows(deep, "joined") == bag([(2, 2), (3, None), (None, None), (None, 3)])
    with deep.transaction() as tx:
        tx.insert("u", [(2, 7), (None, 1)])
        tx.delete("u", [(5, 3)])
    # A row of NULL meets none of the others, and is alone once for each of the joins.
    alone = [(None, None)] * (count - 1) + [(None, 1)]
    assert rows(deep, "joined") == bag([(2, 2), (3, 7), (None, None), *alone])
    with deep.transaction() as tx:
        tx.delete("u", [(2, 7), (None, 1)])
        tx.insert("u", [(5, 3)])
    assert rows(deep, "joined") == bag([(2, 2), (3, None), (None, None), (None, 3)])
    assert "sum of" in str(deep.explain("joined"))
    deep.sql("DROP VIEW joined")


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT {' + '.join(['v'] * 5_000)} AS x FROM t",
        f"SELECT {'abs(' * 2_000}v{')' * 2_000} AS x FROM t",
    ],
)
def test_what_is_too_deep_for_spark_is_refused(deep: Database, query: str) -> None:
    before = deep.epoch
    with pytest.raises(RekindleError, match=r"too deeply|cannot be parsed"):
        deep.create_view("x", query)
    assert deep.epoch == before and "x" not in deep.views


def test_a_stack_that_overflows_is_the_querys_fault(
    deep: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def endless(*_: object) -> None:
        endless()

    monkeypatch.setattr("rekindle.frontends.catalog.optimise", endless)
    with pytest.raises(RekindleError, match="view 'x' is nested too deeply"):
        deep.create_view("x", deep.table("t").select(F.col("v")))
