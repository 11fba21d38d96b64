"""A directory of JSON files that a stream watches, one file a batch."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession


@dataclass(slots=True)
class Drops:
    """A watched directory."""

    path: Path
    count: int = 0

    def __post_init__(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)

    def drop(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Put a file there at once, later than those before it."""
        hidden = self.path / f".{self.count:06}"
        hidden.write_text("".join(json.dumps(dict(row)) + "\n" for row in rows))
        # Files are taken in the order of their times, which may be equal by the clock.
        os.utime(hidden, (1_700_000_000 + self.count, 1_700_000_000 + self.count))
        hidden.rename(self.path / f"{self.count:06}.json")
        self.count += 1

    def stream(self, spark: SparkSession, schema: str, **options: str) -> DataFrame:
        """The stream of the files, each a batch."""
        reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", "1")
        return reader.options(**options).json(str(self.path))
