"""The rows of a relation that never changes, kept as Arrow bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from rekindle.calculus.scalars import Row


@dataclass(frozen=True, slots=True)
class Relation:
    """Rows as an Arrow stream; equal bytes are equal relations."""

    data: bytes

    @staticmethod
    def of(table: pa.Table) -> Relation:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table.combine_chunks())
        return Relation(sink.getvalue().to_pybytes())

    @property
    def table(self) -> pa.Table:
        return pa.ipc.open_stream(self.data).read_all()

    @property
    def text(self) -> str:
        return hashlib.sha256(self.data).hexdigest()[:16]

    def rows(self) -> Iterator[Row]:
        """The rows as Python values.

        >>> list(Relation.of(pa.table({"x": [1, 2], "y": ["a", None]})).rows())
        [(1, 'a'), (2, None)]
        """
        columns = [column.to_pylist() for column in self.table.columns]
        if not columns:
            return iter([()] * len(self.table))
        return iter(zip(*columns, strict=True))
