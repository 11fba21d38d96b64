"""The rows that a node gives inside a Spark task: counted as they pass, kept for others if need be.

A node without a trace is computed by the tasks of whoever reads it, without a job of its own. If it
has several readers, the tasks of the first leave its rows as Arrow files, which the others read:
what a step needs several times is computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

import pyarrow as pa

from rekindle.traces.segment import Segment
from rekindle.traces.store import Store

FILE_BYTES = 2**25
"""Tables are put together to files of about this size."""


class Readers(Enum):
    """How many want the same rows: for several of them the first leaves files."""

    ONE = "one"
    SEVERAL = "several"


@dataclass(frozen=True, slots=True)
class Passed:
    """How many rows passed, and the files that hold them if some were left."""

    rows: int = 0
    files: tuple[Segment, ...] = ()

    def __add__(self, other: Passed) -> Passed:
        return Passed(self.rows + other.rows, self.files + other.files)

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(file.path for file in self.files)

    def to_json(self) -> dict[str, Any]:
        return {"rows": self.rows, "files": [file.to_json() for file in self.files]}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Passed:
        return cls(data["rows"], tuple(Segment.from_json(file) for file in data["files"]))


class Passage:
    """Where the tables of one task pass."""

    def __init__(self, readers: Readers, store: Store, names: Callable[[], str]) -> None:
        self._readers = readers
        self._store = store
        self._names = names
        self._waiting: list[pa.Table] = []
        self._bytes = 0
        self.passed = Passed()

    def through(self, tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """The tables; when they are exhausted, `passed` is complete."""
        for table in tables:
            if not len(table):
                continue
            self.passed += Passed(len(table))
            if self._readers is Readers.SEVERAL:
                self._waiting.append(table)
                self._bytes += table.nbytes
                if self._bytes >= FILE_BYTES:
                    self._write()
            yield table
        if self._waiting:
            self._write()

    def _write(self) -> None:
        whole = pa.concat_tables(self._waiting).combine_chunks()
        self.passed += Passed(0, (self._store.write_rows(self._names(), whole),))
        self._waiting, self._bytes = [], 0
