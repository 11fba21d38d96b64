"""A view outlives the code that planned it: by its stored plan, or by being filled anew.

Nothing is derived when a database is opened. A plan that this version cannot run makes its view
stale and nothing else: the database opens, the view is read as of its last epoch, the next write
fills it, and its changes still sum up to its contents.
"""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import rekindle
from rekindle.circuit import circuit as circuits
from rekindle.circuit import stored_nodes
from rekindle.circuit.nodes import Table
from rekindle.circuit.operators import feedback, node
from rekindle.errors import CheckError, StaleError, StaleViewWarning, StorageError
from rekindle.runtime import engine as engines
from rekindle.runtime.database import Database
from rekindle.runtime.views import restoring
from rekindle.runtime.views.definitions import Definitions
from rekindle.shapes import ShapeError
from tests.spark.helpers import rows, weighted

VIEWS = {
    "joined": "SELECT s.shop, i.name, s.n FROM sales s JOIN items i ON s.item = i.id WHERE s.n > 0",
    "totals": "SELECT shop, count(*) AS c, sum(n) AS n, max(n) AS most FROM sales GROUP BY shop",
    "first": "SELECT shop, n FROM totals ORDER BY n DESC, shop LIMIT 2",
    "running": "SELECT item, n, sum(n) OVER (PARTITION BY shop ORDER BY item, n) AS r FROM sales",
    "padded": "SELECT i.id, s.shop FROM items i LEFT JOIN sales s ON s.item = i.id",
    "names": "SELECT DISTINCT upper(name) AS name FROM items",
    "weighed": "SELECT s.shop, sum(s.n * i.id) AS w FROM sales s JOIN items i ON s.item = i.id "
    "GROUP BY s.shop",
}


@pytest.fixture(scope="module")
def original(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database of one view of each kind, some of them over others."""
    path = tmp_path_factory.mktemp("stale") / "warehouse"
    with rekindle.connect(str(path), spark) as db:
        db.sql("CREATE TABLE items (id INT, name STRING, PRIMARY KEY (id))")
        db.sql("CREATE TABLE sales (item INT, shop STRING, n INT NOT NULL)")
        db.sql("CREATE TABLE apart (x INT)")
        change(db, 0)
        for name, query in VIEWS.items():
            policy = "OPTIONS (policy = 'view_tree') " if name == "weighed" else ""
            db.sql(f"CREATE MATERIALIZED VIEW {name} {policy}AS {query}")
        db.datalog("up(x) :- items(x, n), x < 3.  up(y) :- up(x), items(y, n), y = x + 1.")
        sales = db.table("sales")
        db.create_view("frame", sales.where("n > 1").groupBy("shop").agg(F.sum("n").alias("n")))
        db.create_view("lists", sales.groupBy("shop").agg(F.collect_list("n").alias("ns")))
        db.sql("CREATE MATERIALIZED VIEW other AS SELECT x + 1 AS y FROM apart")
        db.sql(f"CREATE MATERIALIZED VIEW fed OPTIONS (policy = 'factored') AS {VIEWS['weighed']}")
        change(db, 1)
    return path


@pytest.fixture
def path(original: Path, tmp_path: Path) -> str:
    return str(shutil.copytree(original, tmp_path / "warehouse"))


def change(db: Database, number: int) -> None:
    """A transaction on both tables: rows that come, that change and that go."""
    first = 3 * number
    with db.transaction() as tx:
        tx.upsert("items", [(first + i, f"item {i % 2}") for i in range(4)])
        tx.insert("sales", [(first + i, "ab"[i % 2] if i else None, i) for i in range(4)] * 2)
        if number:
            tx.delete("sales", [(first - 3 + 1, "b", 1)])


def law(db: Database, *views: str) -> None:
    """The views equal their recomputation, and their changes sum up to them."""
    for view in views or tuple(db.views):
        db.check(view)
        # The arrays of a nested view are in any order.
        assert view == "lists" or weighted(db.changes(view)) == rows(db, view), view


@contextmanager
def opened(path: str, spark: SparkSession, **options: Any) -> Iterator[Database]:
    """A connection to a database of which some views may be stale."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StaleViewWarning)
        with rekindle.connect(path, spark, **options) as db:
            yield db


def followed(db: Database) -> None:
    """The last step was incremental."""
    assert db.last_step is not None
    assert not any(node.rebuilt for node in db.last_step.nodes.values())


def without_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_nodes, "PLAN_VERSION", stored_nodes.PLAN_VERSION + 1)
    monkeypatch.setattr(restoring, "PLAN_VERSION", restoring.PLAN_VERSION + 1)


def another_fingerprint(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a change of any rule, lowering or text comes to: every node has another identity."""
    plain = node.fingerprint

    def changed(*parts: object) -> str:
        return plain("changed", *parts)

    for module in (node, feedback, circuits):
        monkeypatch.setattr(module, "fingerprint", changed)
    tabled = property(lambda self: "table-" + plain("table", self.name, self.incarnation))
    monkeypatch.setattr(Table, "id", tabled)


def test_opening_derives_nothing(
    path: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a plan was derived")

    with monkeypatch.context() as patch:
        patch.setattr(engines, "derive", refuse)
        db = rekindle.connect(path, spark)
    with db:
        assert db.stale == {}
        change(db, 2)
        followed(db)
        law(db)


def test_a_changed_rule_leaves_stored_plans_alone(
    path: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        another_fingerprint(patch)
        with rekindle.connect(path, spark) as db:
            assert db.stale == {}
            change(db, 2)
            followed(db)
            db.sql(f"CREATE MATERIALIZED VIEW again AS {VIEWS['totals']}")
            change(db, 3)
            law(db)
    with rekindle.connect(path, spark) as db:
        assert db.stale == {}
        change(db, 4)
        law(db)


Making = Callable[[pytest.MonkeyPatch], None]


@pytest.mark.parametrize("make", [without_plans], ids=["another version"])
def test_a_stale_view_is_filled_by_the_next_write(
    path: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, make: Making
) -> None:
    with rekindle.connect(path, spark, mode="read") as db:
        before = {view: rows(db, view) for view in db.views}
    make(monkeypatch)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", StaleViewWarning)
        db = rekindle.connect(path, spark)
    with db:
        assert any("'totals' is stale" in str(each.message) for each in warned)
        assert {each.filename for each in warned} == {__file__}, "it names the caller's line"
        assert set(db.stale) == set(db.views)
        assert all(view.stale for view in db.views)
        for view in db.views:
            explanation = db.explain(view)
            assert "\nstale: not followed" in str(explanation), view
            assert json.loads(explanation.json())["stale"] == db.stale[view]
            assert "(stale)" in ElementTree.fromstring(explanation.svg())[0].text
        shown = {row["name"]: row["stale"] for row in db.sql("SHOW VIEWS").collect()}
        assert shown["joined"]
        for view, held in before.items():
            assert rows(db, view) == held
        db.sql("INSERT INTO apart VALUES (7)")
        assert db.stale == {}
        law(db)
        change(db, 2)
        followed(db)
        law(db)
    with rekindle.connect(path, spark) as db:
        assert db.stale == {}


@pytest.mark.parametrize("error", [StorageError("no space"), KeyboardInterrupt()])
def test_a_write_that_fails_after_views_were_filled_is_told_so(
    path: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    """Filling commits epochs of its own, and none of them is that of the write."""
    without_plans(monkeypatch)

    def failing(*_: object) -> None:
        raise error

    with opened(path, spark) as db:
        before = db.epoch
        with monkeypatch.context() as patch:
            patch.setattr(db._engine, "_finish", failing)
            with pytest.raises(type(error)), db.transaction() as tx:
                tx.insert("apart", [(7,)])
        assert tx.epoch is None
        assert db.epoch > before and db.stale == {} and not db.table("apart").count()
        db.sql("INSERT INTO apart VALUES (7)")
        law(db, "other", "joined")


def test_one_damaged_plan_concerns_its_view_alone(
    path: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = restoring.restored

    def damaged(key: str, *rest: Any) -> Any:
        if key.startswith("group-"):
            raise ShapeError("planted")
        return read(key, *rest)

    monkeypatch.setattr(restoring, "restored", damaged)
    with opened(path, spark) as db:
        assert {"totals", "first", "frame"} <= set(db.stale) and "joined" not in db.stale
        assert "planted" in db.stale["totals"] and "totals" in db.stale["first"]
        db.sql("REFRESH MATERIALIZED VIEW first")
        assert not {"first", "totals"} & set(db.stale)
        assert "frame" in db.stale
        assert db.upgrade()
        assert db.stale == {}
        change(db, 2)
        law(db)


def test_another_spark_and_a_view_that_cannot_be_filled(
    path: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Definitions, "spark_version", "4.3.77")
        with opened(path, spark) as db:
            assert "4.3.77" in db.stale["joined"]
            change(db, 2)
            assert set(db.stale) == {"frame", "lists"}, "all that has a text is filled from it"
            law(db, *(view for view in db.views if not view.stale))
            for view in db.stale:
                with pytest.raises(CheckError, match="stale"):
                    db.check(view)
            for reading in ("SELECT n + 1 AS m FROM frame", "SELECT shop FROM lists"):
                with pytest.raises(StaleError, match="cannot read"):
                    db.create_view("over", reading)
            assert "over" not in db.views
            with pytest.raises(StaleError, match="cannot be filled"):
                db.refresh("frame")
            assert db.table("frame").count() == db.table("frame", epoch=db.epoch).count()
    with opened(path, spark) as db:
        assert "frame" in db.stale, "it has missed a transaction"
        db.refresh("frame")
        law(db, "frame")
        assert "lists" in db.stale
        change(db, 3)
        law(db)


def test_a_reader_sees_a_view_become_fresh(
    path: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_plans(monkeypatch)
    with opened(path, spark, mode="read") as reader, opened(path, spark) as writer:
        assert "totals" in reader.stale
        assert writer.upgrade()
        assert reader.stale == {}
        law(reader, "totals")


def test_dropping_a_stale_view_frees_its_state(
    path: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_plans(monkeypatch)
    with opened(path, spark) as db:
        for view in reversed(db.views):
            db.drop_view(view)
        kept = {db._engine.state.entry(table).node for table in db.tables}
        assert set(db._engine.state.traces) == kept
        assert not db._engine.state.nodes


def test_a_table_gets_columns_under_stored_plans(path: str, spark: SparkSession) -> None:
    with rekindle.connect(path, spark) as db:
        db.sql("DROP VIEW fed")
        db.sql("ALTER TABLE items ADD COLUMNS (colour STRING)")
        with db.transaction() as tx:
            tx.insert("items", [(50, "item 50", "red")])
            tx.insert("sales", [(50, "c", 3)])
        law(db)
    with rekindle.connect(path, spark) as db:
        assert db.stale == {}
        db.sql("INSERT INTO sales VALUES (50, 'd', 1)")
        law(db, "joined")


def test_a_relation_of_a_recursion_that_was_dropped_is_known_from_its_rules(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "warehouse")
    with rekindle.connect(path, spark) as db:
        db.sql("CREATE TABLE edges (a INT, b BIGINT)")
        db.sql("INSERT INTO edges VALUES (1, 2), (2, 3), (3, 1), (3, 4)")
        db.datalog(
            "even(x) :- edges(x, y), x < 2.  odd(y) :- even(x), edges(x, y).  "
            "even(y) :- odd(x), edges(x, y)."
        )
        db.drop_view("even")
        law(db, "odd")
        db.sql("INSERT INTO edges VALUES (4, 5)")
        law(db, "odd")
    without_plans(monkeypatch)
    with opened(path, spark) as db:
        assert set(db.stale) == {"odd"}
        db.add_columns("edges", "c INT")
        assert db.stale == {}
        db.sql("INSERT INTO edges VALUES (5, 6, NULL)")
        followed(db)
        law(db, "odd")
