"""Structured Streaming's own notes: where they are, and what of them the database compares.

By default they are in `streams/NAME` of the database, beside `log` and `data`: the collector of
garbage, `verify` and backups look at those two and leave the notes alone. A backup has no notes, on
purpose: they go on while it is made, and notes that are ahead of the rows would lose some. A stream
of a restored database says so and where it stood.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass

import xxhash
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from rekindle.errors import DefinitionError, StreamError
from rekindle.runtime.places import is_local, placed
from rekindle.runtime.streaming.definition import is_name
from rekindle.runtime.streaming.marks import BatchMark
from rekindle.traces.links import files_within

DIRECTORY = "streams"


def check_name(name: object) -> str:
    """The name of a stream, which is that of a directory too."""
    if not isinstance(name, str) or not is_name(name):
        raise DefinitionError(
            f"{name!r} is not the name of a stream",
            detail="it is made of letters, digits, _, - and dots, and is that of a directory too",
            hint="give a name=",
        )
    return name


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The directory of one stream's notes."""

    place: str
    is_ours: bool

    @classmethod
    def of(cls, database: str, name: str, given: str | None) -> Checkpoint:
        """The given place, or a directory of the database."""
        if given is not None:
            return cls(placed(given, "a checkpoint"), False)
        if not is_local(database):
            raise DefinitionError(
                f"stream '{name}' needs a place for its checkpoint",
                detail="the database is in an object store, which Spark may reach in another way",
                hint="give checkpoint=, a path or URI that Spark can write, of no other stream",
            )
        path = f"{DIRECTORY}/{check_name(name)}"
        # Spark would write, and we would remove, wherever a link leads to.
        for _ in files_within(database, path):
            pass
        return cls(os.path.join(database, path), True)

    def query(self, spark: SparkSession) -> str | None:
        """The number that Spark gave the checkpoint; None where there is none yet."""
        text = self._read(spark, "metadata")
        if text is None:
            return None
        try:
            return str(json.loads(text)["id"])
        except (ValueError, LookupError, TypeError) as error:
            raise StreamError(
                f"the checkpoint '{self.place}' cannot be read", detail=f"metadata: {text[:80]}"
            ) from error

    def planned(self, spark: SparkSession, batch: int, query: str) -> BatchMark:
        """A batch as it was planned, with a line for each source that says where it ends."""
        text = self._read(spark, f"offsets/{batch}")
        if text is None:
            raise StreamError(
                f"the checkpoint '{self.place}' lacks what was planned for batch {batch}"
            )
        # A version and settings come first.
        offsets = tuple(text.split("\n")[2:])
        return BatchMark(batch, query, xxhash.xxh3_128_hexdigest(text.encode()), offsets)

    def _read(self, spark: SparkSession, path: str) -> str | None:
        if is_local(self.place):
            try:
                with open(os.path.join(self.place, path), encoding="utf-8") as file:
                    return file.read().strip()
            except FileNotFoundError:
                return None
            except (OSError, UnicodeError) as error:
                raise StreamError(
                    f"the checkpoint '{self.place}' cannot be read", detail=f"{path}: {error}"
                ) from error
        jvm, context = spark._jvm, spark.sparkContext._jsc
        assert jvm is not None
        location = jvm.org.apache.hadoop.fs.Path(f"{self.place.rstrip('/')}/{path}")
        try:
            files = location.getFileSystem(context.hadoopConfiguration())
            if not files.exists(location):
                return None
            stream = files.open(location)
            try:
                read = jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
            finally:
                stream.close()
        except Py4JError as error:
            raise StreamError(
                f"the checkpoint '{self.place}' cannot be read", detail=str(error).split("\n")[0]
            ) from error
        return str(read).strip()

    def remove(self) -> None:
        """Remove the notes, if the directory is one of the database's own."""
        if self.is_ours:
            shutil.rmtree(self.place, ignore_errors=True)
