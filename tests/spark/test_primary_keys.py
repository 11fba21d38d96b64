"""Primary keys are one where Spark takes their values for one."""

from __future__ import annotations

import math

import pytest

from rekindle.errors import ConstraintError, DefinitionError
from rekindle.runtime.database import Database
from tests.spark.helpers import bag, refused, rows

NAN = math.nan
EQUAL = {
    "DOUBLE": [(NAN, NAN), (0.0, -0.0)],
    "FLOAT": [(NAN, NAN)],
    "STRUCT<p: DOUBLE>": [((NAN,), (NAN,)), ((0.0,), (-0.0,))],
    "ARRAY<DOUBLE>": [([0.0, NAN], [-0.0, NAN]), ([], [])],
    "ARRAY<STRUCT<p: FLOAT, q: INT>>": [([(0.0, 1)], [(-0.0, 1)])],
}


@pytest.mark.parametrize("placement", ["inline", "spark"])
@pytest.mark.parametrize("type_", EQUAL)
def test_equal_keys(db: Database, type_: str, placement: str) -> None:
    db.place(placement)
    db.sql(f"CREATE TABLE t (k {type_}, x INT, PRIMARY KEY (k))")
    db.create_view("v", "SELECT sum(x) AS s FROM t")
    for one, other in EQUAL[type_]:
        with refused(db, ConstraintError, "duplicate primary key"), db.transaction() as tx:
            tx.insert("t", [(one, 1), (other, 2)])
        with db.transaction() as tx:
            tx.upsert("t", [(one, 1), (other, 2)])
        assert rows(db, "v") == bag([(2,)])
        with refused(db, ConstraintError, "duplicate primary key"), db.transaction() as tx:
            tx.insert("t", [(one, 3)])
        with db.transaction() as tx:
            tx.upsert("t", [(one, 4)])
        assert rows(db, "v") == bag([(4,)])
        db.sql("DELETE FROM t")


def test_keys_that_only_look_alike_are_two(db: Database) -> None:
    db.sql("CREATE TABLE t (k ARRAY<STRING>, x INT, PRIMARY KEY (k))")
    with db.transaction() as tx:
        tx.upsert("t", [(["a", "b"], 1), (["a, b"], 2), (["a", None], 3), ([], 4)])
    assert sum(rows(db, "t").values()) == 4


@pytest.mark.parametrize("type_", ["MAP<INT, INT>", "ARRAY<MAP<INT, INT>>", "VARIANT"])
def test_types_that_are_no_keys(db: Database, type_: str) -> None:
    with refused(db, DefinitionError, "'k' has the type", "cannot be part of a primary key"):
        db.sql(f"CREATE TABLE t (k {type_}, x INT, PRIMARY KEY (k))")
