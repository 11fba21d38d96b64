"""Windows that read less than their partitions: every frame against Spark, after every step."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import rekindle
from rekindle.calculus.terms import Distance, Extent, Near, Onwards
from rekindle.circuit.nodes import Regroup
from rekindle.kernels import regroup
from rekindle.runtime.database import Database
from rekindle.spark import inline
from tests.spark.helpers import collected

TABLE = "CREATE TABLE t (k INT, o INT, n INT, x INT, y DOUBLE, z DECIMAL(12, 2))"
TOTAL = "(PARTITION BY k ORDER BY o, n, x, y, z {})"
LEVEL = "(PARTITION BY k ORDER BY o {})"


def _query(functions: str, over: str, *frames: str) -> str:
    written = functions.split("; ")
    items = [
        f"{function} OVER {over.format(frame)} AS f{i}_{j}"
        for i, function in enumerate(written)
        for j, frame in enumerate(frames)
    ]
    return f"SELECT k, o, n, x, y, z, {', '.join(items)} FROM t"


VIEWS = {
    "near rows": _query(
        "sum(x); avg(y); count(*); min(z); collect_list(x)",
        TOTAL,
        "ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING",
        "ROWS BETWEEN 3 PRECEDING AND 2 PRECEDING",
        "ROWS BETWEEN CURRENT ROW AND 2 FOLLOWING",
    ),
    "lag and lead": _query("lag(x, 2, -1); lead(y); lag(z, -1)", TOTAL, ""),
    "near values": _query(
        "sum(y); count(x); max(z)",
        "(PARTITION BY k ORDER BY o DESC {})",
        "RANGE BETWEEN 2 PRECEDING AND 1 FOLLOWING",
        "RANGE BETWEEN CURRENT ROW AND CURRENT ROW",
    ),
    "running rows": _query(
        "sum(x); sum(y); sum(z); avg(y); avg(z); avg(x); count(x); max(y); first_value(x); "
        "last_value(x) IGNORE NULLS; bit_xor(x)",
        TOTAL,
        "ROWS UNBOUNDED PRECEDING",
    )
    + " WHERE x IS NULL OR x < 90",
    "running values": _query(
        "sum(x); sum(z); avg(x); count(*); min(z); rank(); dense_rank(); bool_and(x > 1)", LEVEL, ""
    ),
    "numbers": _query("row_number(); lag(x)", TOTAL, ""),
    "one partition": _query("sum(x); rank()", "(ORDER BY o NULLS LAST {})", ""),
    "whole": _query("ntile(2); row_number(); lag(x)", TOTAL, ""),
}
EXTENTS: dict[str, list[type[Extent] | None]] = {
    "near rows": [Near],
    "lag and lead": [Near],
    "near values": [Near],
    "running rows": [Onwards],
    "running values": [Onwards],
    "numbers": [Near, Onwards],
    "one partition": [Onwards],
    "whole": [None],
}

Row = tuple[Any, ...]


def _named(view: str) -> str:
    return view.replace(" ", "_")


def _row(draw: random.Random) -> Row:
    return (
        draw.choice([1, 1, 1, 2, None]),
        draw.choice([None, None, *range(12)]),
        draw.choice([1, 2]),
        draw.choice([None, 0, 1, 2, 3]),
        draw.choice([None, 0.5, 0.25, -1.0]),
        draw.choice([None, "1.25", "-3.00"]),
    )


def _transactions(db: Database, seed: int, steps: int) -> Iterator[None]:
    """Random steps: insertions, deletions, updates, duplicates, all at several places."""
    draw = random.Random(seed)
    held: list[Row] = []
    for step in range(steps):
        come = [_row(draw) for _ in range(draw.choice([1, 1, 2, 40 if step == 0 else 3]))]
        come += draw.sample(come, draw.choice([0, 1]))
        gone = draw.sample(held, min(len(held), draw.choice([0, 1, 3])))
        if step == steps - 1:
            come, gone = come[:1], [row for row in held if row[0] == 2]
        with db.transaction() as tx:
            tx.insert("t", [_typed(row) for row in come])
            tx.delete("t", [_typed(row) for row in gone])
        for row in gone:
            held.remove(row)
        held += come
        yield


def _typed(row: Row) -> Row:
    from decimal import Decimal

    return (*row[:5], None if row[5] is None else Decimal(row[5]))


def _extents(db: Database, view: str) -> list[Extent | None]:
    circuit = db._engine.circuit
    nodes = circuit.reachable(db._engine.state.entry(_named(view)).node)
    return [node.extent for node in nodes if isinstance(node, Regroup)]


def _agree(db: Database) -> None:
    for view in db.views:
        assert collected(db.table(view)) == collected(db.recompute(view)), view


@pytest.mark.parametrize("view", VIEWS)
def test_every_step_gives_what_spark_gives(db: Database, view: str) -> None:
    db.sql(TABLE)
    db.create_view("v", VIEWS[view])
    for _ in _transactions(db, 7, 9):
        _agree(db)
    db.sql("UPDATE t SET o = o + 3 WHERE o = 2")
    _agree(db)
    db.sql("DELETE FROM t")
    _agree(db)
    db.sql("INSERT INTO t VALUES (1, 2, 3, 4, 5.0, 6.00)")
    _agree(db)
