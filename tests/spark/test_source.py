"""Tables and views as a Spark data source, and what it says when it cannot read them."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import rekindle
from rekindle.runtime.database import Database
from tests.spark.helpers import bag, collected


@pytest.fixture(scope="module")
def orders(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A database with a table and a view, which is only read; gives its path."""
    path = str(tmp_path_factory.mktemp("orders"))
    with rekindle.connect(path, spark=spark) as db:
        _fill(db)
    return path


def _fill(db: Database) -> None:
    db.sql("CREATE TABLE orders (id BIGINT, total DOUBLE)")
    db.create_view("spend", "SELECT sum(total) AS t FROM orders")
    db.sql("INSERT INTO orders VALUES (1, 2.5), (1, 2.5)")
    db.sql("INSERT INTO orders VALUES (2, 1.0)")


def test_the_newest_epoch_and_an_earlier_one(orders: str, spark: SparkSession) -> None:
    source = spark.read.format("rekindle")
    assert collected(source.load(f"{orders}/orders")) == bag([(1, 2.5), (1, 2.5), (2, 1.0)])
    assert collected(source.load(f"{orders}/spend")) == bag([(6.0,)])
    earlier = spark.read.format("rekindle").option("epoch", 3)
    assert collected(earlier.load(f"{orders}/orders")) == bag([(1, 2.5), (1, 2.5)])
    assert collected(earlier.load(f"{orders}/spend")) == bag([(5.0,)])


@pytest.mark.parametrize(
    ("name", "epoch", "said"),
    [
        ("ordres", None, "unknown table or view 'ordres'"),
        ("ordres", None, "did you mean 'orders'?"),
        ("nowhere/orders", None, "there is no database at"),
        ("", None, "is a database, and the data source reads one of its tables or views"),
        ("", None, "available: orders, spend"),
        ("spend", 1, "view 'spend' did not exist at epoch 1"),
        ("orders", 0, "it was created at epoch 1"),
        ("orders", 99, "the last committed epoch is 4"),
        ("orders", "noon", "the option epoch is 'noon', which is no number"),
    ],
)
def test_an_error_shows_no_inner_calls(
    orders: str, spark: SparkSession, name: str, epoch: object, said: str
) -> None:
    source = spark.read.format("rekindle")
    if epoch is not None:
        source = source.option("epoch", str(epoch))
    with pytest.raises(AnalysisException) as caught:
        source.load(f"{orders}/{name}").collect()
    text = str(caught.value)
    assert said in text
    assert text.count('  File "') == 1


@pytest.mark.parametrize("spelling", ["{0}", "file:{0}", "file://{0}", "FILE://localhost{0}"])
def test_a_path_in_every_spelling(orders: str, spark: SparkSession, spelling: str) -> None:
    path = spelling.format(f"{orders}/orders")
    assert spark.read.format("rekindle").load(path).count() == 3


def test_a_table_of_sparks_catalog(warehouse: str, db: Database, spark: SparkSession) -> None:
    _fill(db)
    given = f"USING rekindle OPTIONS (path '{warehouse}/orders'"
    spark.sql(f"CREATE TABLE from_rekindle {given}) TBLPROPERTIES (mine = 'yes')")
    try:
        assert collected(spark.table("from_rekindle")) == bag([(1, 2.5), (1, 2.5), (2, 1.0)])
        db.sql("ALTER TABLE orders ADD COLUMN note STRING")
        db.sql("INSERT INTO orders VALUES (3, 0.5, 'new')")
        # The source reads the log by itself, so this also tells whether history was kept in it.
        assert collected(spark.sql("SELECT total FROM from_rekindle WHERE id > 1")) == bag(
            [(1.0,), (0.5,)]
        )
        assert spark.sql("SELECT * FROM from_rekindle WITH (`epoch` = 4)").count() == 3
    finally:
        spark.sql("DROP TABLE from_rekindle")
    spark.sql(f"CREATE TABLE earlier {given}, Epoch '3')")
    try:
        assert spark.table("earlier").count() == 2
    finally:
        spark.sql("DROP TABLE earlier")


def test_a_user_may_ask_for_some_columns(orders: str, spark: SparkSession) -> None:
    source = spark.read.format("rekindle")
    some = source.schema("TOTAL double").load(f"{orders}/orders")
    assert collected(some) == bag([(2.5,), (2.5,), (1.0,)])
    with pytest.raises(AnalysisException, match="unknown column 'totl' of 'orders'"):
        source.schema("totl double").load(f"{orders}/orders").collect()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"epcoh": "3"}, "unknown option 'epcoh' of the data source 'rekindle'"),
        ({"epcoh": "3"}, "did you mean 'epoch'?"),
        ({"inferSchema": "true"}, "known: path, epoch"),
    ],
)
def test_an_unknown_option_is_refused(
    orders: str, spark: SparkSession, options: dict[str, str], said: str
) -> None:
    with pytest.raises(AnalysisException) as caught:
        spark.read.format("rekindle").options(**options).load(f"{orders}/orders")
    assert said in str(caught.value)
    listed = ", ".join(f"{name} '{value}'" for name, value in options.items())
    with pytest.raises(AnalysisException) as caught:
        spark.sql(f"CREATE TABLE x USING rekindle OPTIONS (path '{orders}/orders', {listed})")
    assert said in str(caught.value)


def test_several_paths_are_refused(orders: str, spark: SparkSession) -> None:
    with pytest.raises(AnalysisException, match="reads one table at a time"):
        spark.read.format("rekindle").load([f"{orders}/orders", f"{orders}/spend"])
