"""Views in the calculus of the ring of databases."""

from __future__ import annotations

import pytest

import rekindle
from rekindle.errors import RekindleError
from rekindle.runtime.database import Database
from tests.spark.helpers import bag, refused, rows


@pytest.fixture
def shop(db: Database) -> Database:
    db.sql("CREATE TABLE orders (id INT, cust INT)")
    db.sql("CREATE TABLE lines (id INT, price BIGINT)")
    db.sql("INSERT INTO orders VALUES (1, 7), (2, 7), (3, 8)")
    db.sql("INSERT INTO lines VALUES (1, 10), (1, 5), (2, 4), (3, -1), (3, 1)")
    return db


def test_a_map_from_groups_to_values(shop: Database) -> None:
    query = "q[c] = Sum(p, Orders(o, c) * Lines(o, p))"
    shop.create_view("spent", rekindle.agca(query))
    assert shop.table("spent").columns == ["c", "value"]
    assert rows(shop, "spent") == bag([(7, 19)])
    shop.sql("INSERT INTO lines VALUES (3, 2)")
    shop.sql("DELETE FROM orders WHERE id = 1")
    assert rows(shop, "spent") == bag([(7, 4), (8, 2)])
    shop.check("spent")


def test_one_value(shop: Database) -> None:
    shop.create_view("pairs", rekindle.agca("q[] = Sum(1, Orders(o, c) * Orders(x, c) * (o < x))"))
    assert rows(shop, "pairs") == bag([(1,)])
    shop.sql("DELETE FROM orders WHERE id = 2")
    assert rows(shop, "pairs") == bag([(0,)])
    shop.check("pairs")


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("q[c] = Sum(p, Orders(o, c) * Lines(o, x))", "'p'"),
        ("q[c] = Sum(1, Orders(c))", "'Orders' has 2 columns, not 1"),
        ("q[c] = Sum(1, Nothing(c))", "Nothing"),
        ("q[c] = Sum(1, Orders(c, x)", ""),
    ],
)
def test_errors_name_what_was_written(shop: Database, query: str, words: str) -> None:
    with refused(shop, RekindleError, words):
        shop.create_view("v", rekindle.agca(query))
