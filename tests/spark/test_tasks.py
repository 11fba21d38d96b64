"""Bulk work in tasks without the JVM: equal to Spark's, and left to Spark where Arrow cannot."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from rekindle.errors import EvaluationError
from rekindle.runtime.database import Database
from rekindle.spark import frames
from rekindle.spark.frames import Frames
from tests.spark.helpers import refused, strays

PLAIN = """
    SELECT o.k, sum(o.price * (1 - o.rate)) AS total, count(*) AS n
    FROM o JOIN c ON o.k = c.k
    WHERE c.name LIKE 'a%' AND (o.price > 1.5 OR o.kind IN ('x', 'y'))
    GROUP BY o.k
"""


@pytest.fixture
def filled(db: Database, monkeypatch: pytest.MonkeyPatch) -> Database:
    """Tables with one key that most rows have; every merge is a job."""
    monkeypatch.setattr(frames, "MERGED_ROWS", 0)
    db.sql("CREATE TABLE o (k INT, price DECIMAL(15, 2), rate DECIMAL(4, 2), kind STRING)")
    db.sql("CREATE TABLE c (k INT, name STRING)")
    db.place("spark")
    with db.transaction() as tx:
        tx.insert("c", [(k, f"{'ab'[k % 2]}{k}") for k in range(10)])
        tx.insert(
            "o",
            [
                (0 if i % 3 else i % 10, Decimal(i) / 100, Decimal("0.05"), "xyz"[i % 3])
                for i in range(2_000)
            ],
        )
    return db


def test_plain_stages_need_no_jvm(filled: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    apply = Frames.apply

    def noted(self: Frames, frame: Any, stages: Any) -> Any:
        asked.append(stages)
        return apply(self, frame, stages)

    monkeypatch.setattr(Frames, "apply", noted)
    filled.create_view("v", PLAIN)
    assert filled.check("v").rows == 5
    assert not asked
    with filled.transaction() as tx:
        tx.delete("o", [(0, Decimal("0.01"), Decimal("0.05"), "y")])
        tx.insert("c", [(0, "a"), (None, "a")])
        tx.insert("o", [(None, Decimal(7), None, None), (2, None, None, "x")])
    assert filled.last_step.placement.value == "spark"
    filled.check("v")
    assert not strays(filled)


def test_what_arrow_cannot_is_sparks(filled: Database) -> None:
    filled.create_view("v", "SELECT k, 100 / k AS share FROM o WHERE k > 0")
    filled.create_view("w", "SELECT k, CAST(price AS DOUBLE) / (k + 1) AS share FROM o")
    filled.check("w")
    with refused(filled, EvaluationError, "DIVIDE_BY_ZERO"), filled.transaction() as tx:
        tx.insert("o", [(-1, Decimal(1), Decimal(1), "x")])
    assert not strays(filled)


def test_rows_that_cancel_break_nothing(filled: Database) -> None:
    """A pair of which one row leaves as the other comes is nobody's: Spark has the last word."""
    filled.sql("INSERT INTO c VALUES (10, 'a')")
    filled.create_view(
        "v", "SELECT o.k, CAST(o.k AS DOUBLE) / (c.k - 10) AS q FROM o JOIN c ON o.k = c.k"
    )
    with filled.transaction() as tx:
        tx.delete("c", [(10, "a")])
        tx.insert("o", [(10, Decimal(1), Decimal(1), "x")])
    filled.check("v")
    assert not strays(filled)
