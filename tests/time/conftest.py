"""What tests of time share: a session in which a day begins at the same moment everywhere."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def utc(spark: SparkSession) -> Iterator[SparkSession]:
    """The session in UTC."""
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    yield spark
    assert before is not None
    spark.conf.set("spark.sql.session.timeZone", before)
