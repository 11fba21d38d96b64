"""Rows of a batch that do not fit: the first one stops the stream, or all are put aside.

With `rejects=True` they go to the table `NAME_rejected`, with the stream, the batch, the reason and
the row as JSON, in the epoch of the rows that were applied.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

import pyarrow as pa

from rekindle.circuit.nodes import Table
from rekindle.errors import RowError
from rekindle.runtime.rows.conversion import show_row

SCHEMA = "stream STRING NOT NULL, batch BIGINT NOT NULL, reason STRING NOT NULL, record STRING"


def rejected_name(table: str) -> str:
    """The table of what does not fit into a table."""
    return f"{table}_rejected"


@dataclass(slots=True)
class Rejects:
    """The rows of one batch that do not fit, by their places in it."""

    node: Table
    columns: pa.Table
    are_kept: bool
    reasons: dict[int, str] = field(default_factory=dict)

    def add(self, row: int, reason: str) -> None:
        """Put a row aside; raises `RowError` where nobody asked for that."""
        if not self.are_kept:
            raise RowError(
                f"a row does not fit into '{self.node.name}': {reason}",
                detail=f"the row is {show_row(self.columns, row)}",
                hint="rejects=True puts such rows into a table of their own",
            )
        self.reasons.setdefault(row, reason)

    def rows(self, stream: str, batch: int) -> list[tuple[str, int, str, str]]:
        """The rows of the table of rejects."""
        names = self.node.schema.names
        found = []
        for row, reason in sorted(self.reasons.items()):
            values = [column[row].as_py() for column in self.columns.columns[: len(names)]]
            record = json.dumps(dict(zip(names, values, strict=True)), default=str)
            found.append((stream, batch, reason, record))
        return found
