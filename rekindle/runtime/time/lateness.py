"""How late rows of a table may be, and what has become of those that were later.

A table whose time column has a lateness has a *watermark*: the greatest time that was seen, less
the lateness. Rows with an earlier time than the watermark had when their transaction was committed
are late: they are left out, and counted. So are deletions of such rows. Of a table with a primary
key all changes of a key in a transaction are late if one of them is: an update is never halved.

The law: a view equals its query over the table, and the table has the rows that were not late. As
the watermark moves at the end of an epoch, the rows of one batch never make each other late.

What the watermark is stands in a table of one row, `events·watermark`, changed by the transaction
that moves it, as the clock is (`clock.py`). Recovery, history, readers and backups know nothing of
it, and a view may read it: that is what `emit = 'on window close'` does (`emission.py`).
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import types as T

from rekindle.calculus.schema import Field, Schema
from rekindle.catalyst.types import payload_schema, struct_of
from rekindle.names import HIDDEN
from rekindle.traces.arrays import WEIGHT

TIMES = ("timestamp", "timestamp_ntz")
"""The types of columns that may have a lateness."""
STEPS_OF_RETENTION = 16
"""Rows leave a table that retains them for a while in so many steps a while."""


class Late(enum.Enum):
    """What becomes of late rows, as the option `late` says it."""

    DROPPED = "drop"
    KEPT = "keep"
    """They go to the table `NAME_late`."""
    REFUSED = "refuse"
    """The transaction fails."""


@dataclass(frozen=True, slots=True)
class Lateness:
    """The time column of a table, how late its rows may be, and how long they stay."""

    column: int
    micros: int
    late: Late = Late.DROPPED
    retain: int | None = None
    """Rows leave when they are older than the watermark by so many microseconds."""

    def kept_from(self, watermark: int) -> int | None:
        """The time before which rows are to leave by now: moved a sixteenth of the while at once.

        So looking for them, which reads the table, costs a row that comes sixteen reads in all.
        """
        if self.retain is None:
            return None
        step = max(1, self.retain // STEPS_OF_RETENTION)
        return (watermark - self.retain) // step * step

    def to_json(self) -> dict[str, Any]:
        return {
            "column": self.column,
            "micros": self.micros,
            "late": self.late.value,
            "retain": self.retain,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Lateness:
        return cls(data["column"], data["micros"], Late(data["late"]), data["retain"])


@dataclass(frozen=True, slots=True)
class WatermarkRow:
    """The row of a table's watermark; times are in microseconds."""

    watermark: int
    late: int = 0
    """How many rows were late so far, those that were to be deleted among them."""
    kept_from: int | None = None
    """Rows with an earlier time have left the table."""

    @property
    def bound(self) -> int:
        """No later change of the table has an earlier time."""
        return self.watermark if self.kept_from is None else min(self.watermark, self.kept_from)


def watermark_name(table: str) -> str:
    """The table that has the watermark of a table."""
    return f"{table}{HIDDEN}watermark"


def late_name(table: str) -> str:
    """The table of what came too late for a table."""
    return f"{table}_late"


def watermark_schema(type_: str) -> Schema:
    """The columns of a watermark's table, for a time column of a type."""
    known = (Field("watermark", type_, False), Field("late", "bigint", False))
    return Schema((*known, Field("kept_from", type_)))


def late_schema(schema: Schema, type_: str) -> T.StructType:
    """The columns of the table of late rows: the row, its weight, and the watermark it missed."""
    fields = [T.StructField(f.name, f.dataType, True) for f in struct_of(schema).fields]
    added = struct_of(Schema.of(late_weight="bigint", late_watermark=type_)).fields
    return T.StructType([*fields, *added])


def watermark_row_of(rows: pa.Table) -> WatermarkRow | None:
    """What the rows of a watermark's table say."""
    if not len(rows):
        return None
    watermark, kept_from = (rows.column(c).cast(pa.int64())[0].as_py() for c in ("c0", "c2"))
    return WatermarkRow(watermark, rows.column("c1")[0].as_py(), kept_from)


def movement(schema: Schema, before: WatermarkRow | None, after: WatermarkRow) -> pa.Table:
    """The change by which a watermark's table says something else."""
    said = [(1, after), *([] if before is None else [(-1, before)])]
    payload = payload_schema(schema)
    columns = (
        [each.watermark for _, each in said],
        [each.late for _, each in said],
        [each.kept_from for _, each in said],
    )
    arrays = [
        pa.array(values, pa.int64()).cast(field.type)
        for values, field in zip(columns, payload, strict=True)
    ]
    weights = pa.array([weight for weight, _ in said], pa.int64())
    return pa.table([weights, *arrays], schema=pa.schema([(WEIGHT, pa.int64()), *payload]))
