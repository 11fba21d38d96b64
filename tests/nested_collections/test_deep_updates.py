"""Deep updates change just the element, and say so where there is nothing to change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

import rekindle
from rekindle.errors import (
    ConflictError,
    ConstraintError,
    DefinitionError,
    RekindleError,
    RowError,
    StatementError,
    UnknownNameError,
)
from rekindle.runtime.database import Database
from tests.nested_collections.nested_models import COLUMNS, FLAT, NESTED, SQL, check, contents

ROWS: list[Any] = [
    (7, "a", ["x", "y"], [(1, "open", [("bolt", 1, [("n",)]), ("nut", 2, None)]), (2, "sent", [])]),
    (8, "b", None, None),
    (9, "c", [], []),
]


@pytest.fixture(scope="module")
def shared(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    with rekindle.connect(str(tmp_path_factory.mktemp("deep") / "db"), spark=spark) as db:
        db.create_table("customers", COLUMNS, ["id"])
        db.create_view("nested", rekindle.comprehension(NESTED))
        db.create_view("flat", rekindle.comprehension(FLAT))
        db.sql(f"CREATE MATERIALIZED VIEW counted AS {SQL}")
        yield db


@pytest.fixture(params=["inline", "spark"])
def placed(shared: Database, request: pytest.FixtureRequest) -> Iterator[Database]:
    shared.place(request.param)
    yield from _filled(shared)


@pytest.fixture
def filled(shared: Database) -> Iterator[Database]:
    yield from _filled(shared)


def _filled(db: Database) -> Iterator[Database]:
    db.sql("TRUNCATE TABLE customers")
    with db.transaction() as tx:
        tx.insert("customers", ROWS)
    yield db
    db.place(None)


def model() -> dict[int, Any]:
    return {row[0]: row for row in ROWS}


VIEWS = ("nested", "flat", "counted")


def test_elements_come_and_go_and_change(placed: Database) -> None:
    db, expected = placed, model()
    with db.transaction() as tx:
        tx.nested("customers", 7, "orders").insert([(3, "new", [("gear", 5, [])])])
        tx.nested("customers", 8, "orders").insert([{"okey": 1, "state": None, "lines": None}])
        tx.nested("customers", (9,), "orders").insert([])
        tx.nested("customers", {"id": 7}, "orders", {"okey": 2}, "lines").insert([("cog", 1, None)])
    first = ROWS[0][3][0]
    third = (3, "new", [("gear", 5, [])])
    orders = [first, (2, "sent", [("cog", 1, None)]), third]
    expected[7] = (*ROWS[0][:3], orders)
    expected[8] = (8, "b", None, [(1, None, None)])
    check(db, expected, *VIEWS)
    with db.transaction() as tx:
        array = tx.nested("customers", 7, "orders")
        assert array.update({"okey": 1}, {"state": "upper(state) || '!'"}) == 1
        assert array.update("okey > 1", {"okey": "okey + 10"}) == 2
        assert array.update("okey > 100", {"okey": 0}) == 0
        tx.nested("customers", 7, "orders", {"okey": 13}, "lines").update(None, {"qty": 6})
        assert contents(db)[0][3][2] == (13, "new", [("gear", 6, [])])
    orders = [(1, "OPEN!", first[2]), (12, "sent", [("cog", 1, None)])]
    expected[7] = (*ROWS[0][:3], [*orders, (13, "new", [("gear", 6, [])])])
    check(db, expected, *VIEWS)
    with db.transaction() as tx:
        lines = tx.nested("customers", 7, "orders", {"okey": 1}, "lines")
        lines.delete([("nut", 2, None)])
        tx.nested("customers", 7, "orders", {"okey": 1}, "lines", {"part": "bolt"}, "notes").insert(
            [("m",)]
        )
        tx.nested("customers", 7, "orders").delete([(12, "sent", [("cog", 1, None)])])
    notes = [("bolt", 1, [("n",), ("m",)])]
    expected[7] = (*ROWS[0][:3], [(1, "OPEN!", notes), (13, "new", [("gear", 6, [])])])
    check(db, expected, *VIEWS)


def test_arrays_in_their_rows_are_rewritten(filled: Database) -> None:
    db, expected = filled, model()
    with db.transaction() as tx:
        tx.nested("customers", 7, "tags").insert(["z", "x"])
        tx.nested("customers", 7, "tags").delete(["x"])
        tx.nested("customers", 7, "tags").update({"value": "y"}, {"value": "value || '!'"})
        tx.nested("customers", 8, "tags").insert(["w"])
    expected[7] = (7, "a", ["y!", "z", "x"], ROWS[0][3])
    expected[8] = (8, "b", ["w"], None)
    check(db, expected, *VIEWS)
    kept = "k INT, l ARRAY<STRUCT<a: INT, b: ARRAY<STRUCT<c: INT>>>>"
    db.create_table("kept", kept, ["k"], shredding="none")
    assert list(db.shredded("kept")) == [""]
    with db.transaction() as tx:
        tx.insert("kept", [(1, [(1, [(1,)]), None, (2, None)])])
        tx.nested("kept", 1, "l", {"a": 2}, "b").insert([(5,)])
        tx.nested("kept", 1, "l").update("a = 1", {"a": "a + 10"})
    assert contents(db, "kept") == [(1, [(11, [(1,)]), None, (2, [(5,)])])]
    db.drop_table("kept")


def test_deep_updates_in_sql(filled: Database) -> None:
    db, expected = filled, model()
    db.sql("INSERT INTO NESTED customers[7].orders VALUES (3, 'new', NULL), (4, 'a]b', array())")
    db.sql("INSERT INTO NESTED customers[id = 9].orders (state, okey) SELECT 'q', 5 -- five")
    db.sql(
        "INSERT INTO NESTED customers[3 + 4].orders[okey = 2 AND state = 'sent'].lines "
        "SELECT name, 1, NULL FROM customers WHERE id = 8"
    )
    db.sql(
        "UPDATE NESTED customers[7].orders SET state = concat(state, ','), okey = 9 WHERE okey=4"
    )
    db.sql("DELETE FROM NESTED customers[7].orders[okey = 1].lines WHERE qty = 1")
    first = (1, "open", [("nut", 2, None)])
    orders = [first, (2, "sent", [("b", 1, None)]), (3, "new", None), (9, "a]b,", [])]
    expected[7] = (*ROWS[0][:3], orders)
    expected[9] = (9, "c", [], [(5, "q", None)])
    check(db, expected, *VIEWS)
    for text in (
        "INSERT INTO NESTED customers[7].orders",
        "INSERT INTO NESTED customers[7].orders VALUES (1)",
        "UPDATE NESTED customers[7].orders WHERE okey = 1",
        "DELETE FROM NESTED customers[7].orders LIMIT 1",
        "DELETE FROM NESTED customers[7]",
    ):
        with pytest.raises((StatementError, RowError)):
            db.sql(text)
    check(db, expected)


@pytest.mark.parametrize(
    ("path", "error", "said"),
    [
        ((1, "orders"), ConstraintError, "no row of 'customers' has id = 1"),
        ((7, "ordrs"), UnknownNameError, "did you mean 'orders'"),
        ((7, "name"), DefinitionError, "and no array"),
        ((7, "orders", {"okey": 5}, "lines"), ConstraintError, "no element of 'customers.orders'"),
        ((7, "orders", {"okie": 5}, "lines"), UnknownNameError, "did you mean 'okey'"),
        ((7, "orders", {"okey": "x"}, "lines"), RowError, "cannot take"),
        ((7, "orders", {}, "lines"), RowError, "is named by values"),
        ((7, "orders", 3, "lines"), RowError, "is named by values"),
        ((7, "orders", {"lines": []}, "lines"), RowError, "cannot be named by its array"),
        ((7, "orders", {"okey": 1}, "state"), DefinitionError, "and no array"),
        ((7, "orders", {"okey": 1}), DefinitionError, "a way into 'customers'"),
        ((7,), DefinitionError, "a way into 'customers'"),
        (((7, 8), "orders"), RowError, "is not a key of 'customers'"),
        (("x", "orders"), RowError, "is not a key of 'customers'"),
    ],
)
def test_a_way_that_leads_nowhere(
    filled: Database, path: tuple[Any, ...], error: type[RekindleError], said: str
) -> None:
    before = filled.epoch
    with pytest.raises(error, match=said), filled.transaction() as tx:
        tx.nested("customers", *path).insert([])
    assert filled.epoch == before
    check(filled, model())


def test_what_does_not_fit_is_refused_and_nothing_is_applied(filled: Database) -> None:
    db = filled
    with db.transaction() as tx:
        orders = tx.nested("customers", 7, "orders")
        orders.insert([(2, "again", [])])
        for work, error, said in [
            (lambda: orders.insert([(3, "x")]), RowError, "has 2 values, not 3"),
            (lambda: orders.insert([("x", "x", [])]), RowError, "cannot take the value 'x'"),
            (lambda: orders.delete([(2, "again", None)]), ConstraintError, "no such element"),
            (lambda: orders.delete([(2, "sent", [])] * 2), ConstraintError, "no such element"),
            (lambda: orders.update({}, {"nope": 1}), UnknownNameError, "unknown field 'nope'"),
            (lambda: orders.update("nope = 1", {"okey": 1}), StatementError, "resolved"),
            (lambda: orders.update(None, {"state": "sent"}), StatementError, "quotes: \"'sent'\""),
            (lambda: orders.update(None, {"okey": "'x'"}), RowError, "cannot take"),
            (lambda: orders.update(None, {}), RowError, "says what fields become"),
        ]:
            with pytest.raises(error, match=said):
                work()
        twice = tx.nested("customers", 7, "orders", {"okey": 2}, "lines")
        with pytest.raises(ConstraintError, match="2 elements of"):
            twice.insert([])
    expected = model()
    expected[7] = (*ROWS[0][:3], [*ROWS[0][3], (2, "again", [])])
    check(db, expected)
    db.create_table("keyless", "a ARRAY<STRUCT<b: INT>>")
    with pytest.raises(DefinitionError, match="has no primary key"), db.transaction() as tx:
        tx.nested("keyless", 1, "a").insert([(1,)])
    with pytest.raises(ConstraintError, match="is a view"), db.transaction() as tx:
        tx.nested("flat", 1, "a").insert([(1,)])
    db.drop_table("keyless")


def test_an_array_belongs_to_its_row(filled: Database) -> None:
    """Somebody who adds to the array of a row that another removes gets, or gives, a conflict."""
    db = filled
    one = db._transactions._new()
    other = db._transactions._new()
    one.nested("customers", 7, "orders").insert([(3, "x", [])])
    other.delete("customers", [ROWS[0]])
    other.commit()
    with pytest.raises(ConflictError, match="changed by another transaction"):
        one.commit()
    check(db, {8: ROWS[1], 9: ROWS[2]}, "flat")
    one = db._transactions._new()
    other = db._transactions._new()
    one.delete("customers", [ROWS[2]])
    other.nested("customers", 9, "orders").insert([(3, "x", [])])
    other.commit()
    with pytest.raises(ConflictError, match="changed by another transaction"):
        one.commit()
    one = db._transactions._new()
    other = db._transactions._new()
    one.nested("customers", 9, "orders").insert([(4, "y", [])])
    other.nested("customers", 9, "orders").insert([(5, "z", [])])
    other.commit()
    one.commit()
    found = contents(db)[1]
    assert sorted(found[3]) == [(3, "x", []), (4, "y", []), (5, "z", [])]


def test_an_insertion_costs_the_same_in_a_large_array(db: Database) -> None:
    """As many rows are touched in every node, in the table and in the views over it."""
    db.create_table("t", "k INT, l ARRAY<STRUCT<a: INT, b: STRING>>", ["k"])
    with db.transaction() as tx:
        rows = [(k, [(i, str(i)) for i in range(n)]) for k, n in ((1, 100), (2, 100_000))]
        tx.insert("t", rows)
    db.create_view("whole", rekindle.comprehension("for r in t yield (k: r.k, l: r.l)"))
    some = "for r in t yield (k: r.k, l: for e in r.l where e.a > 10 yield (b: e.b))"
    db.create_view("some", rekindle.comprehension(some))

    def work(key: int) -> dict[str, tuple[int, int]]:
        with db.transaction() as tx:
            tx.nested("t", key, "l").insert([(77, "new")])
        assert db.last_step is not None
        return {name: (s.rows_in, s.rows_out) for name, s in db.last_step.nodes.items()}

    small, large = work(1), work(2)
    assert small == large
    assert sum(rows for rows, _ in small.values()) < 10
    for view in ("whole", "some"):
        db.check(view)
    one = db.table("t").where("k = 2").selectExpr("l[100000] AS e", "size(l) AS n").collect()[0]
    assert (tuple(one.e), one.n) == ((77, "new"), 100_001)
