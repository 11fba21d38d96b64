"""Tables and views as a Spark data source, and what it says when it cannot read them."""

from __future__ import annotations

import re

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from rekindle.errors import DefinitionError
from rekindle.runtime.database import Database
from rekindle.runtime.source import RekindleSource
from tests.spark.helpers import bag, collected


@pytest.fixture
def orders(db: Database, warehouse: str) -> str:
    """A database with a table and a view; gives its path."""
    db.sql("CREATE TABLE orders (id BIGINT, total DOUBLE)")
    db.create_view("spend", "SELECT sum(total) AS t FROM orders")
    db.sql("INSERT INTO orders VALUES (1, 2.5), (1, 2.5)")
    db.sql("INSERT INTO orders VALUES (2, 1.0)")
    return warehouse


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


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("epohc", "the data source 'rekindle' has no option 'epohc'"),
        ("epohc", "did you mean 'epoch'?"),
        ("versionAsOf", "available: path, epoch"),
        ("owner", "has no option 'owner'"),
    ],
)
def test_an_option_that_is_not_known_is_refused(
    orders: str, spark: SparkSession, name: str, said: str
) -> None:
    source = spark.read.format("rekindle").option(name, "3")
    with pytest.raises(AnalysisException, match=re.escape(said)):
        source.load(f"{orders}/orders").collect()


def test_properties_of_a_table_in_the_catalog_are_no_options(orders: str) -> None:
    sent = {"path": f"{orders}/orders", "provider": "rekindle", "owner": "me", "comment": "x"}
    assert RekindleSource({**sent, "team.is": "y"}).schema().names == ["id", "total"]
    with pytest.raises(DefinitionError, match="has no option 'epohc'"):
        RekindleSource({**sent, "epohc": "3"}).schema()
    with pytest.raises(DefinitionError, match=r"has no option 'team\.is'"):
        RekindleSource({"path": f"{orders}/orders", "team.is": "y"}).schema()
