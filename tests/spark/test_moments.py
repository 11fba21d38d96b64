"""Moments and lines through points, from accumulators: no row of a group is read again."""

from __future__ import annotations

import pytest

from rekindle.runtime.database import Database

CALLS = (
    *(f"regr_{name}(y, x)" for name in ("slope", "intercept", "r2", "sxx", "sxy", "syy")),
    *(f"regr_{name}(y, x)" for name in ("avgx", "avgy", "count")),
    "skewness(x)",
    "kurtosis(y)",
    "skewness(y) FILTER (WHERE x > 1)",
    "regr_slope(y, x) FILTER (WHERE y < 9)",
    "kurtosis(DISTINCT x)",
)
STEPS = (
    "INSERT INTO t VALUES (1, 1.5, 2), (1, NULL, 3), (1, 4, NULL), (2, 0.1, 0.1), (2, 0.1, 7)",
    "INSERT INTO t VALUES (1, 2.5, -3), (1, 8, 8), (1, 8, 8), (2, 0.1, 1e5), (NULL, 1e100, 1)",
    "DELETE FROM t WHERE x = 1.5",
    "INSERT INTO t VALUES (NULL, 1e-160, 5e-324), (NULL, 3e100, double('NaN')), (1, 1e9, 3)",
    "DELETE FROM t WHERE k IS NULL OR x > 1e8",
    "INSERT INTO t VALUES (2, double('Infinity'), 1)",
    "DELETE FROM t",
)


@pytest.mark.parametrize("grouping", ["GROUP BY k", ""])
def test_moments_are_those_of_spark(db: Database, grouping: str) -> None:
    db.sql("CREATE TABLE t (k INT, x DOUBLE, y DOUBLE)")
    measures = ", ".join(f"{call} AS m{i}" for i, call in enumerate(CALLS))
    db.create_view("v", f"SELECT {'k, ' if grouping else ''}{measures} FROM t {grouping}")
    assert not [node for node in db.explain("v").nodes if node.kind == "group map"]
    for step in STEPS:
        db.sql(step)
        db.check("v")
