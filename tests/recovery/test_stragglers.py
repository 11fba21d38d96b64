"""A task of a step that failed, or whose driver was killed, may still be writing.

Spark does not wait for the tasks of a job that it gave up, and executors outlive a killed driver by
a moment. By then the epoch may have been committed by another attempt. So no two attempts may write
files of the same name.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rekindle.runtime.database import Database
from rekindle.runtime.epochs.log import CommitLog
from rekindle.runtime.epochs.state import State
from rekindle.traces.opened import OPEN_SEGMENTS
from tests.recovery.disk import image_of


def insert_on_spark(db: Database, spark: SparkSession, first: int) -> None:
    with db.transaction() as tx:
        tx.insert("numbers", spark.range(first, first + 50).toDF("n"))


def test_a_straggler_of_a_failed_attempt_harms_nobody(
    db: Database, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = Path(db.path)
    db.sql("CREATE TABLE numbers (n BIGINT)")
    db.place("spark")
    late: dict[str, bytes] = {}

    def failing_commit(self: CommitLog, before: State, after: State) -> None:
        late.update({n: data for n, data in image_of(root).items() if n.startswith("data/")})
        raise OSError("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(CommitLog, "commit", failing_commit)
        with pytest.raises(OSError, match="no space left"):
            insert_on_spark(db, spark, 0)
    assert late and not any(name.startswith("data/") for name in image_of(root))
    insert_on_spark(db, spark, 1000)
    for name, data in late.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_bytes(data)
    OPEN_SEGMENTS.clear()
    rows = Counter(row.n for row in db.table("numbers").collect())
    assert rows == Counter(range(1000, 1050))
    assert set(db.collect()) == set(late)
