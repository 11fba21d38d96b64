"""Running the command in this process, on the suite's Spark session."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from rekindle.cli.main import app

Run = Callable[..., Result]


@pytest.fixture
def run(spark: SparkSession) -> Run:
    """`run("sql", warehouse, "-e", text)`: the result of a command line."""

    def invoke(*arguments: object, input: str | None = None) -> Result:
        found = CliRunner().invoke(app, [str(a) for a in arguments], input=input)
        if found.exception is not None and not isinstance(found.exception, SystemExit):
            raise found.exception
        return found

    return invoke


@pytest.fixture
def warehouse(run: Run, tmp_path: Path) -> Path:
    """A small database with a table, a view and a view over it."""
    place = tmp_path / "warehouse"
    script = """
        CREATE TABLE orders (id BIGINT, cust BIGINT, total DOUBLE, PRIMARY KEY (id));
        CREATE MATERIALIZED VIEW spend AS
            SELECT cust, sum(total) AS t, count(*) AS n FROM orders GROUP BY cust;
        INSERT INTO orders VALUES (1, 7, 9.5), (2, 7, 1.0), (3, 8, NULL);
    """
    assert run("sql", place, "-e", script).exit_code == 0
    return place
