"""A process that runs a stream in, and one out, until it is killed.

Started as `python -m tests.streams.victim`, it starts Spark, says `ready`, and waits for a line
with the database, the directory of files, the source and the directory that the changes go to. A
view follows the table, and its changes are what goes out.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import rekindle
from rekindle.spark.session import local_session

SETTINGS = {
    "spark.master": "local[2]",
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
ROWS = 3
"""The rows of a batch, of either source."""


def source(spark: SparkSession, kind: str, directory: str) -> DataFrame:
    """The stream: files, one a batch, or numbers by the clock."""
    if kind == "files":
        reader = spark.readStream.schema("value bigint").option("maxFilesPerTrigger", "1")
        return reader.json(directory)
    reader = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", str(ROWS))
    return reader.option("numPartitions", "1").load().select("value")


def changes_out(spark: SparkSession, warehouse: str, out: str, **trigger: Any) -> StreamingQuery:
    """The changes of the view, as Parquet files that Structured Streaming writes exactly once."""
    feed = spark.readStream.format("rekindle").option("readChangeFeed", "true")
    writer = feed.load(f"{warehouse}/v").writeStream.format("parquet")
    writer = writer.option("path", f"{out}/rows").option("checkpointLocation", f"{out}/notes")
    return writer.trigger(**trigger).start()


def main() -> None:
    spark = local_session(**SETTINGS)
    print("ready", flush=True)
    warehouse, directory, kind, out = sys.stdin.readline().rstrip("\n").split("\t")
    db = rekindle.connect(warehouse, spark, wait=60)
    query = changes_out(spark, warehouse, out, processingTime="200 milliseconds")
    interval = "300 milliseconds" if kind == "rate" else None
    stream = db.stream("t", source(spark, kind, directory), interval=interval)
    while stream.status == "running" and query.isActive:
        time.sleep(0.1)
    print(stream.exception, query.exception(), file=sys.stderr, flush=True)
    # What is still alive would hide that the other has failed.
    sys.exit(1)


if __name__ == "__main__":
    main()
