"""Regressions over a join, against numpy on the joined rows after every step."""

from __future__ import annotations

import numpy as np
import pytest
from pyspark.sql import SparkSession

import rekindle
from rekindle.calculus.text import to_text_with_table
from rekindle.errors import DefinitionError, RekindleError
from rekindle.runtime.database import Database
from tests.spark.helpers import refused

QUERY = """
    SELECT h.price, h.size, a.rooms, a.distance
    FROM houses h JOIN areas a ON h.area = a.id
"""
FEATURES = ["size", "rooms", "distance"]


@pytest.fixture
def homes(db: Database) -> Database:
    db.sql("CREATE TABLE areas (id INT, rooms INT, distance DOUBLE)")
    db.sql("CREATE TABLE houses (area INT, size DOUBLE, price DECIMAL(12,2))")
    db.sql("INSERT INTO areas SELECT id, id % 4 + 1, (id * 37) % 11 / 3.0 FROM range(12)")
    db.sql(
        "INSERT INTO houses SELECT id % 12, 40 + (id * 13) % 90, "
        "1000 + (id * 13) % 90 * 25 + (id * 7919) % 101 FROM range(200)"
    )
    return db


def _expected(db: Database, penalty: float = 0.0) -> tuple[dict[str, float], float]:
    rows = db.sql(QUERY).dropna().collect()
    x = np.array([[float(row[f]) for f in FEATURES] for row in rows])
    y = np.array([float(row["price"]) for row in rows])
    centred = x - x.mean(axis=0)
    squares = centred.T @ centred + penalty * np.eye(len(FEATURES))
    slopes = np.linalg.solve(squares, centred.T @ (y - y.mean()))
    found = {"intercept": float(y.mean() - slopes @ x.mean(axis=0))}
    found |= dict(zip(FEATURES, map(float, slopes), strict=True))
    left = y - found["intercept"] - x @ slopes
    return found, float(1 - (left @ left) / ((y - y.mean()) @ (y - y.mean())))


def test_a_regression_follows_every_change(homes: Database) -> None:
    homes.create_model("m", QUERY, label="price", features=FEATURES)
    model = homes.model("m")
    for statement in (
        "INSERT INTO houses VALUES (3, 55.5, 99999.99), (3, NULL, 1), (99, 1, 1)",
        "UPDATE areas SET distance = distance + 2 WHERE id < 4",
        "DELETE FROM houses WHERE size > 100",
        "DELETE FROM areas WHERE id = 5",
    ):
        homes.sql(statement)
        expected, r2 = _expected(homes)
        assert model.coefficients() == pytest.approx(expected, rel=1e-7)
        assert model.r2() == pytest.approx(r2, rel=1e-7)
        homes.check("m")
    assert homes.last_step is not None
    assert not any(step.rebuilt for step in homes.last_step.nodes.values())
    # Sums for each area and nothing for each house.
    kept = [node for node in homes.explain("m").nodes if node.kind != "table"]
    assert max(node.facts.rows_stored or 0 for node in kept) < 100


@pytest.mark.parametrize(
    ("placement", "type_", "joins"),
    [("inline", "INT", 1), ("spark", "INT", 1), ("inline", "BIGINT", 3)],
)
def test_a_star_is_one_group(db: Database, placement: str, type_: str, joins: int) -> None:
    """Keys that some tables lack and NULL keys join as they do in SQL.

    The sums of all rows join nothing, those of each colour the group of `a` and `b` with `c`. A key
    of another type is another variable.
    """
    db.sql("CREATE TABLE a (k INT, x DOUBLE)")
    db.sql(f"CREATE TABLE b (k {type_}, y INT)")
    db.sql("CREATE TABLE c (k INT, colour STRING)")
    query = "SELECT x, y, colour FROM a JOIN b ON a.k = b.k JOIN c ON a.k = c.k"
    db.create_model("m", query, label="x", features=["y", "colour"])
    changes = [
        "INSERT INTO a VALUES (1, 1.5), (1, 2.5), (2, 3), (3, 4), (NULL, 5), (NULL, 6)",
        "INSERT INTO b VALUES (1, 10), (2, 20), (2, NULL), (4, 40), (NULL, 50)",
        "INSERT INTO c VALUES (1, 'red'), (1, NULL), (2, 'blue'), (NULL, 'red')",
        "DELETE FROM b WHERE k = 2",
        "UPDATE a SET k = 1 WHERE k = 3",
        "INSERT INTO b VALUES (2, 7), (2, 7)",
        "DELETE FROM c",
    ]
    if placement == "spark":
        # There a step takes seconds: the first ones fill the tables.
        filling, changes = changes[:3], changes[3:5]
        for statement in filling:
            db.sql(statement)
    db.place(placement)
    for statement in changes:
        db.sql(statement)
        db.check("m")
        step = db.last_step
        assert step is not None and not any(s.rebuilt for s in step.nodes.values())
    assert sum(node.kind == "half join" for node in db.explain("m").nodes) == 2 * joins


def test_a_model_is_found_again_and_predicts(
    homes: Database, warehouse: str, spark: SparkSession
) -> None:
    homes.create_model("m", QUERY, label="price", features=FEATURES, kind="ridge", penalty=2.5)
    expected, _ = _expected(homes, 2.5)
    homes.close()
    with rekindle.connect(warehouse, spark=spark) as db:
        model = db.model("m")
        assert model.coefficients() == pytest.approx(expected, rel=1e-7)
        row = model.predict(db.sql(QUERY)).first()
        assert row is not None
        by_hand = expected["intercept"] + sum(expected[f] * float(row[f]) for f in FEATURES)
        assert row["prediction"] == pytest.approx(by_hand)
        parts = model.components()
        rows = db.sql(QUERY).collect()
        x = np.array([[float(r[f]) for f in FEATURES] for r in rows])
        variances = np.sort(np.linalg.eigvalsh(np.cov(x.T)))[::-1]
        assert parts.variances == pytest.approx(variances, rel=1e-7)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"label": "cost"}, "'cost'"),
        ({"features": ["size", "price"]}, "'price' twice"),
        ({"features": []}, "list of features"),
        ({"kind": "forest"}, "'forest'"),
        ({"penalty": 1.0}, "no penalty"),
        ({"kind": "ridge", "penalty": -1.0}, "negative"),
        ({"kind": "ridge", "penalty": float("nan")}, "finite number"),
    ],
)
def test_a_wrong_model_is_refused(homes: Database, asked: dict[str, object], words: str) -> None:
    given = {"label": "price", "features": FEATURES, **asked}
    with refused(homes, RekindleError, words):
        homes.create_model("m", QUERY, **given)  # type: ignore[arg-type]


def test_a_model_of_no_rows_says_so(db: Database) -> None:
    db.sql("CREATE TABLE t (x DOUBLE, y DOUBLE, s STRING)")
    db.create_model("m", "SELECT * FROM t", label="y", features=["x"])
    with pytest.raises(DefinitionError, match="no rows"):
        db.model("m").coefficients()
    with refused(db, DefinitionError, "'t' is not a model"):
        db.model("t")
    with refused(db, DefinitionError, "'s' is string, not a number"):
        db.create_model("n", "SELECT * FROM t", label="s", features=["x"])


def test_an_aggregate_in_the_query_is_not_rounded(homes: Database) -> None:
    """A tree would add up its products in another order, and what is compared with it may flip."""
    query = """
        SELECT h.size, h.price FROM houses h JOIN (
            SELECT a.id FROM areas a JOIN houses x ON x.area = a.id
            GROUP BY a.id HAVING sum(x.size * a.distance) > 100.0
        ) large ON large.id = h.area
    """
    homes.create_model("m", query, label="price", features=["size"])
    text, _ = to_text_with_table(homes._engine.terms["m"])
    sums = [line for line in text.splitlines() if "= sum(" in line]
    assert len(sums) == 1, "the query's own sum is one aggregate, over the join"
    homes.check("m")


def test_numbers_that_differ_little_against_their_size(db: Database) -> None:
    """Times in seconds: their squares say nothing of how they vary, distances do."""
    db.create_table("p", "x DOUBLE, z BIGINT, y DOUBLE")
    pick = np.random.default_rng(0)

    def some(count: int) -> list[tuple[float, int, float]]:
        steps = pick.normal(size=count)
        days = pick.integers(0, 9, count)
        noise = pick.normal(size=count) * 0.1
        y = 1e8 + 3 * steps - days + noise
        return [
            (1e9 + float(a), 1_700_000_000 + int(d), float(b))
            for a, d, b in zip(steps, days, y, strict=True)
        ]

    kept = some(40)
    with db.transaction() as tx:
        tx.insert("p", kept)
    db.create_model("m", "SELECT * FROM p", label="Y", features=["X", "z"])
    for _ in range(2):
        gone, kept = kept[:10], kept[10:]
        new = some(15)
        kept += new
        with db.transaction() as tx:
            tx.delete("p", gone)
            tx.insert("p", new)
        rows = np.array(kept)
        centred = rows - rows.mean(axis=0)
        slopes = np.linalg.lstsq(centred[:, :2], centred[:, 2])[0]
        found = db.model("m").coefficients()
        assert np.allclose([found["x"], found["z"]], slopes, rtol=1e-6)
        left = centred[:, 2] - centred[:, :2] @ slopes
        r2 = db.model("m").r2()
        assert r2 is not None
        assert np.isclose(r2, 1 - left @ left / (centred[:, 2] @ centred[:, 2]), rtol=1e-6)
        predicted = db.model("m").predict(db.table("p")).select("y", "prediction").collect()
        assert max(abs(row.y - row.prediction) for row in predicted) < 1
    db.check("m")
