"""Models with categories, of degree 2, and of categories alone, against scikit-learn.

The rows of three tables are kept on the side in Python, joined there and given to scikit-learn
after every step.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from random import Random
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression
from sklearn.metrics import mutual_info_score, r2_score
from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures

import rekindle
from rekindle.errors import DefinitionError, RekindleError
from rekindle.incremental.policies.choice import Policy
from rekindle.runtime.database import Database
from tests.spark.helpers import refused

QUERY = """
    SELECT h.price, h.size, h.kind, h.floor, a.region, a.distance, s.score
    FROM houses h JOIN areas a ON h.area = a.id JOIN schools s ON s.area = a.id
"""
COLUMNS = ("price", "size", "kind", "floor", "region", "distance", "score")
KINDS = ("flat", "house", "loft", "villa")
REGIONS = ("east", "north", "west")


@dataclass
class Town:
    """Three tables, and what changes them at random."""

    random: Random
    rows: dict[str, list[tuple[Any, ...]]] = field(
        default_factory=lambda: {"houses": [], "areas": [], "schools": []}
    )

    def area(self, number: int) -> tuple[Any, ...]:
        return (number, self.random.choice(REGIONS), self.random.randrange(1, 30) / 2)

    def school(self) -> tuple[Any, ...]:
        return (self.random.randrange(6), self.random.choice((0.25, 1.0, 2.5, None)))

    def house(self, kinds: int) -> tuple[Any, ...]:
        kind = self.random.choice((*KINDS[:kinds], None) if kinds == 3 else KINDS[:kinds])
        size = self.random.randrange(30, 90)
        price = size * 20 + 100 * KINDS.index(kind or "flat") + self.random.randrange(200)
        return (self.random.randrange(7), float(size), kind, self.random.randrange(3), price)

    def change(self, step: int) -> dict[str, tuple[list[Any], list[Any]]]:
        """Deletions and insertions of each table."""
        houses, areas, schools = self.rows["houses"], self.rows["areas"], self.rows["schools"]
        kinds = (2, 4, 3, 2)[step % 4]
        gone_houses = self.random.sample(houses, min(len(houses), 4))
        if step % 4 == 2:  # A value of a category disappears with its last row.
            gone_houses = [row for row in houses if row[2] == "villa"]
        new_houses = [self.house(kinds) for _ in range(12 if step == 0 else 5)]
        if step == 0:
            return {
                "areas": ([], [self.area(i) for i in range(6)]),
                "schools": ([], [self.school() for _ in range(9)]),
                "houses": ([], [*(self.house(2) for _ in range(40)), *new_houses]),
            }
        moved = self.random.choice(areas)
        school = self.random.choice(schools)
        return {
            "houses": (gone_houses, [*new_houses, new_houses[0]]),
            "areas": ([moved], [self.area(moved[0])] if step != 3 else []),
            "schools": ([school], [self.school()]) if step % 2 else ([], []),
        }

    def apply(self, db: Database, step: int) -> None:
        with db.transaction() as tx:
            for table, (gone, new) in self.change(step).items():
                tx.delete(table, gone)
                tx.insert(table, new)
                for row in gone:
                    self.rows[table].remove(row)
                self.rows[table].extend(new)

    def joined(self, *columns: str) -> list[tuple[Any, ...]]:
        """The joined rows without a NULL in the columns."""
        found = [
            dict(zip(COLUMNS, (price, size, kind, floor, region, distance, score), strict=True))
            for area, size, kind, floor, price in self.rows["houses"]
            for id_, region, distance in self.rows["areas"]
            for at, score in self.rows["schools"]
            if area == id_ == at
        ]
        picked = [tuple(row[c] for c in columns) for row in found]
        return [row for row in picked if None not in row]


def fitted(
    town: Town, numbers: list[str], categories: list[str], degree: int
) -> tuple[dict[str, float], float]:
    """Scikit-learn's coefficients and r²."""
    rows = town.joined(*numbers, *categories, "price")
    width = len(numbers)
    powers = PolynomialFeatures(degree, include_bias=False)
    design = powers.fit_transform(np.array([row[:width] for row in rows], dtype=float))
    names = [name.replace(" ", "*") for name in powers.get_feature_names_out(numbers)]
    encoder = OneHotEncoder(drop="first", sparse_output=False)
    flags = encoder.fit_transform(np.array([row[width:-1] for row in rows], dtype=object))
    for category, values in zip(categories, encoder.categories_, strict=True):
        names += [f"{category}={value}" for value in values[1:]]
    x, y = np.column_stack([design, flags]), np.array([row[-1] for row in rows], dtype=float)
    model = LinearRegression().fit(x, y)
    found = {"intercept": model.intercept_, **dict(zip(names, model.coef_, strict=True))}
    return found, float(r2_score(y, model.predict(x)))


@pytest.fixture
def homes(db: Database) -> Database:
    db.sql("CREATE TABLE areas (id INT, region STRING, distance DOUBLE)")
    db.sql("CREATE TABLE schools (area INT, score DOUBLE)")
    db.sql("CREATE TABLE houses (area INT, size DOUBLE, kind STRING, floor INT, price INT)")
    return db


def test_models_equal_scikit_learn_after_every_step(
    homes: Database, warehouse: str, spark: SparkSession
) -> None:
    town = Town(Random(11))
    homes.create_model(
        "mixed",
        QUERY,
        label="price",
        features=["size", "kind", "floor", "distance"],
        categorical=["floor"],
    )
    homes.create_model(
        "curved", QUERY, label="price", features=["size", "distance", "region"], degree=2
    )
    homes.create_model("related", QUERY, features=["kind", "floor", "region"], kind="chow_liu")
    homes.create_model("spread", QUERY, features=["size", "distance", "score"], kind="pca")
    names = ("mixed", "curved", "related", "spread")
    policies = {homes._engine.state.entry(name).policy for name in names}
    assert policies == {Policy.VIEW_TREE}
    with pytest.raises(DefinitionError, match="no rows"):
        homes.model("mixed").coefficients()
    with pytest.raises(DefinitionError, match="no rows"):
        homes.model("related").tree()
    for step in range(8):
        town.apply(homes, step)
        assert homes.last_step is not None
        if step:
            assert not any(each.rebuilt for each in homes.last_step.nodes.values())
        expected, r2 = fitted(town, ["size", "distance"], ["kind", "floor"], 1)
        assert homes.model("mixed").coefficients() == pytest.approx(expected, rel=1e-6)
        assert homes.model("mixed").r2() == pytest.approx(r2, rel=1e-6)
        expected, r2 = fitted(town, ["size", "distance"], ["region"], 2)
        assert homes.model("curved").coefficients() == pytest.approx(expected, rel=1e-5)
        assert homes.model("curved").r2() == pytest.approx(r2, rel=1e-6)
        _check_related(homes, town)
        _check_spread(homes, town)
    for name in names:
        homes.check(name)
    # What is kept is of the size of the keys and values, not of the join.
    kept = [node for node in homes.explain("mixed").nodes if node.kind != "table"]
    assert max(node.facts.rows_stored or 0 for node in kept) < len(town.joined("size"))
    before = homes.model("mixed").coefficients()
    homes.close()
    with rekindle.connect(warehouse, spark=spark) as db:
        assert db.model("mixed").coefficients() == before
        _check_predictions(db, before)
        for name in names:
            db.drop_view(name)
        assert db.views == []
        assert len(db._engine.state.traces) == len(db.tables)


def _check_related(db: Database, town: Town) -> None:
    features = ["kind", "floor", "region"]
    rows = town.joined(*features)
    found = db.model("related").mutual_information()
    assert list(found) == list(combinations(features, 2))
    for (one, other), value in found.items():
        i, j = features.index(one), features.index(other)
        score = mutual_info_score([row[i] for row in rows], [row[j] for row in rows])
        assert value == pytest.approx(score, abs=1e-12)
    tree = db.model("related").tree()
    weakest = min(found, key=lambda pair: found[pair])
    assert {edge[:2] for edge in tree} == set(found) - {weakest}


def _check_spread(db: Database, town: Town) -> None:
    rows = np.array(town.joined("size", "distance", "score"), dtype=float)
    expected = PCA().fit(rows)
    found = db.model("spread").components()
    assert found.variances == pytest.approx(expected.explained_variance_, rel=1e-6)
    cosines = np.abs(np.sum(found.directions * expected.components_, axis=1))
    assert cosines == pytest.approx(1.0)


def _check_predictions(db: Database, coefficients: dict[str, float]) -> None:
    rows = [("house", 1, 50, 3.0), ("castle", 1, 50, 3.0), (None, 1, 50, 3.0)]
    given = db.spark.createDataFrame(rows, "kind string, floor int, size int, distance double")
    found = {row["kind"]: row["prediction"] for row in db.model("mixed").predict(given).collect()}
    parts = [coefficients[name] for name in ("intercept", "kind=house", "floor=1")]
    by_hand = sum(parts) + 50 * coefficients["size"] + 3 * coefficients["distance"]
    assert found["house"] == pytest.approx(by_hand)
    assert found["castle"] is None and found[None] is None
    curved = db.model("curved")
    known = curved.coefficients()
    given = db.spark.createDataFrame(
        [(2.0, 3.0, "east")], "size double, distance double, region string"
    )
    row = curved.predict(given).first()
    assert row is not None
    terms = {"size": 2.0, "distance": 3.0, "size^2": 4.0, "size*distance": 6.0, "distance^2": 9.0}
    by_hand = known["intercept"] + sum(known[name] * value for name, value in terms.items())
    assert row["prediction"] == pytest.approx(by_hand + known.get("region=east", 0.0))


def test_a_wrong_model_is_refused(homes: Database) -> None:
    regression = {"label": "price", "features": ["size"]}
    for asked, words in (
        ({"features": ["size"]}, "has a label"),
        ({"features": ["kind"], "kind": "chow_liu"}, "two features or more"),
        ({**regression, "kind": "pca"}, "no label"),
        ({"features": ["kind"], "kind": "pca"}, "no principal component"),
        ({**regression, "degree": 3}, "degree 3"),
        ({**regression, "categorical": ["size"]}, "double, which is no category"),
        ({**regression, "categorical": ["kind"]}, "'kind'"),
        ({"label": "kind", "features": ["size"]}, "string, not a number"),
        ({"features": ["kind", "size"], "kind": "chow_liu"}, "double, which is no category"),
    ):
        with refused(homes, RekindleError, words):
            homes.create_model("m", QUERY, **asked)  # type: ignore[arg-type]
    homes.create_model("p", "SELECT * FROM areas", features=["distance"], kind="pca")
    with pytest.raises(DefinitionError, match="predicts nothing"):
        homes.model("p").coefficients()
    with pytest.raises(DefinitionError, match="fewer than two"):
        homes.model("p").tree()
    homes.sql("INSERT INTO areas VALUES (1, 'east', double('NaN'))")
    with pytest.raises(DefinitionError, match="the sum of distance is nan"):
        homes.model("p").components()
