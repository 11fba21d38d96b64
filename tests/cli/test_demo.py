"""The demo on a small shop, and the rows that its day is made of."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from rekindle.cli.demo.shop import CITIES, VIEWS, Shop
from tests.cli.conftest import Run


def test_a_small_demo_runs_to_its_end(run: Run, tmp_path: Path) -> None:
    picture, place = tmp_path / "c.svg", tmp_path / "w"
    found = run("demo", "--rows", 3000, "--steps", 4, "--svg", picture, "--warehouse", place)
    assert found.exit_code == 0, found.output
    for name in VIEWS:
        assert f"✓ {name}:" in found.stdout
    assert str(picture) in found.stdout.replace("\n", "")
    assert picture.read_text().startswith("<svg")
    assert "1,000 sales" in found.stdout and "customers move" in found.stdout


def test_a_directory_in_use_is_refused(run: Run, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("precious")
    found = run("demo", "--warehouse", tmp_path)
    assert found.exit_code == 1
    assert "is not empty" in found.stderr
    assert (tmp_path / "mine.txt").read_text() == "precious"


@pytest.mark.parametrize("table", ["products", "customers", "sales"])
def test_rows_of_spark_and_of_numpy_are_the_same(spark: SparkSession, table: str) -> None:
    shop = Shop.of_size(3_000)
    made = {
        "products": lambda: shop.product_rows(np.arange(shop.products)),
        "customers": lambda: shop.customer_rows(np.arange(shop.customers)),
        "sales": lambda: shop.sale_rows(np.arange(shop.sales)),
    }[table]()
    generated = shop.frames(spark)[table].orderBy("id").toArrow()
    types = pa.schema([(f.name, f.type) for f in made.schema])
    assert generated.cast(types).equals(made)


def assortment(shop: Shop, sales: pa.Table) -> int:
    """How many pairs of city and product the sales give."""
    cities = shop.customer_rows(np.arange(shop.customers)).column("city")
    _, city = np.unique(cities.to_numpy(), return_inverse=True)
    customer, product = (sales.column(name).to_numpy() for name in ("customer", "product"))
    return len(np.unique(city[customer] * shop.products + product))


def test_the_distinct_view_of_the_demo_is_not_full() -> None:
    """Where every pair is there, and often, no sale would add one and no return take one away."""
    shop = Shop.of_size(3_000_000)
    filled = assortment(shop, shop.sale_rows(np.arange(shop.sales)))
    assert 0.4 < filled / (CITIES * shop.products) < 0.7


def test_columns_of_a_sale_are_not_tied_to_each_other() -> None:
    """Short common periods would leave few pairs of city and product, and a tiny distinct view."""
    shop = Shop.of_size(300_000)
    sales = shop.sale_rows(np.arange(shop.sales))
    possible = CITIES * shop.products
    assert assortment(shop, sales) > 0.7 * min(shop.sales, possible)
    by_customer = sales.select(["customer", "product", "amount"])
    assert by_customer.group_by(by_customer.column_names).aggregate([]).num_rows == shop.sales
