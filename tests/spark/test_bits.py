"""bit_and, bit_or and bit_xor from counts of bits: no row of a group is read again."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import rekindle
from rekindle.aggregates import AggregateFunction
from rekindle.circuit.nodes import Group
from rekindle.frontends.spark_sql import aggregates
from rekindle.runtime.database import Database
from tests.spark.helpers import collected, rows_of_groups_read

TYPES = {"a": ("TINYINT", 8), "b": ("SMALLINT", 16), "c": ("INT", 32), "d": ("BIGINT", 64)}
MEASURES = (
    *(f"bit_{name}({column})" for name in ("and", "or", "xor") for column in TYPES),
    "bit_and(c) FILTER (WHERE d > 0)",
    "bit_xor(DISTINCT c)",
    "bit_or(DISTINCT a)",
    "bit_or(c + 1)",
)


def row(key: str, number: int | None) -> str:
    """The number and others near it, in every type."""
    if number is None:
        return f"({key}, NULL, NULL, NULL, NULL)"
    shown = []
    for type_, width in TYPES.values():
        half = 2 ** (width - 1)
        shown.append(f"CAST('{(number * 12345 + half) % (2 * half) - half}' AS {type_})")
    return f"({key}, {', '.join(shown)})"


STEPS = (
    "INSERT INTO t VALUES " + ", ".join(row("1", n) for n in (1, 2, 3, 3, -7)),
    "INSERT INTO t VALUES " + ", ".join([row("2", 0), row("2", None), row("3", None)]),
    "INSERT INTO t VALUES (4, -128, -32768, -2147483648, -9223372036854775808),"
    " (4, 127, 32767, 2147483646, 9223372036854775807), (NULL, -1, -1, -1, -1), (5, 0, 0, 0, 0)",
    "DELETE FROM t WHERE k = 1 AND c % 2 = 0",
    "INSERT INTO t SELECT 1, a, b, c, d FROM t WHERE k = 1 OR k IS NULL",
    "DELETE FROM t WHERE k = 2 AND c IS NOT NULL",
    "UPDATE t SET d = d + 1, a = NULL WHERE k = 1",
    "DELETE FROM t WHERE k = 3 OR k = 4",
    "DELETE FROM t",
    "INSERT INTO t VALUES " + row("1", 99),
)


@pytest.mark.parametrize("placement", ["inline", "spark"])
def test_bits_are_those_of_spark(
    db: Database, placement: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    db.place(placement)
    db.sql("CREATE TABLE t (k INT, a TINYINT, b SMALLINT, c INT, d BIGINT)")
    measures = ", ".join(f"{measure} AS m{i}" for i, measure in enumerate(MEASURES))
    db.create_view("keyed", f"SELECT k, {measures} FROM t GROUP BY k")
    db.create_view("whole", f"SELECT {measures} FROM t")
    for view in ("keyed", "whole"):
        assert not [node for node in db.explain(view).nodes if node.kind == "group map"]
    read = rows_of_groups_read(monkeypatch)
    for step in STEPS if placement == "inline" else STEPS[:4]:
        db.sql(step)
        for view in ("keyed", "whole"):
            assert collected(db.table(view)) == collected(db.recompute(view)), step
    assert not read


def test_bits_are_kept_over_a_reopening(tmp_path: Path, spark: SparkSession) -> None:
    path = str(tmp_path / "w")
    with rekindle.connect(path, spark) as db:
        db.sql("CREATE TABLE t (k INT, x BIGINT)")
        db.create_view("v", "SELECT k, bit_and(x) a, bit_or(x) o, bit_xor(x) x FROM t GROUP BY k")
        db.sql("INSERT INTO t VALUES (1, 6), (1, 3), (2, -1), (2, NULL)")
    with rekindle.connect(path, spark) as db:
        (group,) = (n for n in db._engine.circuit.nodes.values() if isinstance(n, Group))
        assert [measure.function for measure in group.measures] == [
            AggregateFunction.BIT_AND,
            AggregateFunction.BIT_OR,
            AggregateFunction.BIT_XOR,
        ]
        db.sql("DELETE FROM t WHERE x IN (3, -1)")
        assert db.last_step is not None
        assert not any(node.rebuilt for node in db.last_step.nodes.values())
        found = {tuple(row) for row in db.table("v").collect()}
        assert found == {(1, 6, 6, 6), (2, None, None, None)}
        db.check("v")
        db.verify()


def test_a_view_of_an_earlier_version_keeps_its_plan(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was made when Spark computed such aggregates from the rows of touched groups."""
    path = str(tmp_path / "w")
    with monkeypatch.context() as earlier, rekindle.connect(path, spark) as db:
        earlier.setattr(aggregates, "linear_call", lambda *_: None)
        earlier.setattr(aggregates, "is_counted_mode", lambda _: False)
        db.sql("CREATE TABLE t (k INT, x BIGINT)")
        db.create_view("v", "SELECT k, bit_or(x) o, mode(x, true) m FROM t GROUP BY k")
        db.sql("INSERT INTO t VALUES (1, 6), (1, 3), (2, -1), (2, NULL)")
    with rekindle.connect(path, spark) as db:
        assert [node.kind for node in db.explain("v").nodes if node.kind == "group map"]
        db.sql("DELETE FROM t WHERE x IN (3, -1)")
        assert db.last_step is not None
        assert not any(node.rebuilt for node in db.last_step.nodes.values())
        assert {tuple(row) for row in db.table("v").collect()} == {(1, 6, 6), (2, None, None)}
        db.create_view("w", "SELECT k, bit_or(x) o, mode(x, true) m FROM t GROUP BY k")
        db.sql("INSERT INTO t VALUES (1, 9), (3, 5)")
        for view in ("v", "w"):
            db.check(view)
