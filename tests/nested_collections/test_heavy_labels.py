"""Heavy labels are divided between tasks, light ones are not; explain says which are which."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import rekindle
from rekindle.runtime.database import Database

HEAVY, LIGHT = 2_000, 20
NESTED = """
    for b in bags
    yield (k: b.k, elements: for e in elements where e.k = b.k yield (x: e.x),
           pairs: count(for e in elements, f in elements where e.k = b.k and f.k = e.k yield e.x))
"""


@pytest.fixture
def db(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr("rekindle.spark.outputs.MEASURED_ROWS", 1)
    monkeypatch.setattr("rekindle.traces.heavy.LIGHT", 500)
    with rekindle.connect(str(tmp_path / "db"), spark=spark) as found:
        found.sql("CREATE TABLE bags (k INT NOT NULL, PRIMARY KEY (k))")
        found.sql("CREATE TABLE elements (k INT, x INT)")
        found.create_view("v", rekindle.comprehension(NESTED))
        found.place("spark")
        yield found


def _divided(db: Database) -> list[Any]:
    assert db.last_step is not None
    return [step for step in db.last_step.nodes.values() if step.heavy_keys]


def test_a_heavy_label_is_divided_and_a_light_one_is_not(db: Database) -> None:
    with db.transaction() as tx:
        tx.insert("bags", [(k,) for k in range(5)])
        tx.insert("elements", [(0, x) for x in range(HEAVY)])
        tx.insert("elements", [(k, x) for k in range(1, 5) for x in range(LIGHT)])
    assert {step.heavy_keys for step in _divided(db)} == {1}
    db.check("v")
    with db.transaction() as tx:
        tx.insert("elements", [(k, x) for k in range(1, 5) for x in range(LIGHT)])
    assert _divided(db) == []
    db.check("v")
    with db.transaction() as tx:
        tx.delete("elements", [(0, x) for x in range(5, HEAVY)])
    assert _divided(db)
    db.check("v")
    assert {row.k: len(row.elements) for row in db.table("v").collect()} == {
        0: 5,
        **dict.fromkeys(range(1, 5), 2 * LIGHT),
    }


def test_explain_shows_heavy_labels_and_the_threshold(db: Database) -> None:
    with db.transaction() as tx:
        tx.insert("bags", [(k,) for k in range(5)])
        tx.insert("elements", [(k, x) for k in range(5) for x in range(LIGHT)])
    said = str(db.explain("v"))
    assert "labels of more than 500 elements are heavy" in said and "rows): none" in said
    with db.transaction() as tx:
        tx.insert("elements", [(3, LIGHT + x) for x in range(HEAVY)])
    said = str(db.explain("v"))
    assert f"rows): ⟨0, 3⟩ ({HEAVY + LIGHT:,})" in said
    assert f"epoch {db.epoch}: 1 heavy key of joins divided, of more than" in said
    part = db.explain("v·elements")
    assert "1 heavy key divided, of more than" in str(part)
    nodes = json.loads(part.json())["nodes"]
    assert [n for n in nodes if (n["last_step"] or {}).get("heavy_keys") == 1]


def test_arrays_of_tables_are_labels_too(db: Database) -> None:
    db.sql("CREATE TABLE t (id INT, l ARRAY<STRUCT<a: INT>>, PRIMARY KEY (id))")
    with db.transaction() as tx:
        tx.insert("t", [(1, [(x,) for x in range(HEAVY)]), (2, [(1,), (2,)])])
    db.create_view("w", rekindle.comprehension("for r in t, e in r.l yield (r.id, e.a)"))
    db.check("w")
    assert f"⟨1⟩ ({HEAVY:,})" in str(db.explain("t"))
