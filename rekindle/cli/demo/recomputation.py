"""What Spark needs to compute the demo's views from scratch, from Parquet.

The Parquet files hold the tables as they were loaded. The day changes less than one row in a
hundred, so their size, which is what the time depends on, stays that of the tables.
"""

from __future__ import annotations

import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from rekindle.cli.demo.shop import TABLES, VIEWS


class Recomputation:
    """Runs the queries of all views on the files; each from the tables, a view over a view too."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self._spark = spark
        self._directory = directory

    def table(self, name: str) -> DataFrame:
        """The file of a table."""
        return self._spark.read.parquet(str(self._directory / name))

    def write(self, name: str, frame: DataFrame) -> None:
        frame.write.mode("overwrite").parquet(str(self._directory / name))

    def seconds(self) -> float:
        """The time to compute every view once."""
        started = time.perf_counter()
        for name in TABLES:
            self.table(name).createOrReplaceTempView(name)
        try:
            for name, query in VIEWS.items():
                frame = self._spark.sql(query)
                frame.write.format("noop").mode("overwrite").save()
                frame.createOrReplaceTempView(name)
        finally:
            for name in (*TABLES, *VIEWS):
                self._spark.catalog.dropTempView(name)
        return time.perf_counter() - started
