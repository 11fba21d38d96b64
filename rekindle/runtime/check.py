"""The central law, on demand: a view equals its query recomputed by Spark, as bags.

Rows are compared by identity first. What is left over on both sides is compared once more value by
value, with floating point numbers equal when they agree to within `TOLERANCE`: Rekindle's sums are
exact and rounded once, Spark's are rounded at every addition. Texts with a collation are equal when
the collation says so: which text of a group Spark shows depends on the order in which it met them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import VariantVal

from rekindle.catalyst.hashing import unambiguous
from rekindle.catalyst.jvm import Catalyst, items
from rekindle.errors import CheckError

TOLERANCE = 1e-9
SHOWN = 5
LEFT_OVER = 200_000
_SETTINGS = {"spark.sql.constraintPropagation.enabled": "false"}
"""Spark derives more and more constraints from the hashed columns, and spends seconds on it."""


@dataclass(frozen=True, slots=True)
class CheckReport:
    """A view that passed its check."""

    view: str
    rows: int
    epoch: int

    def __str__(self) -> str:
        return f"{self.view}: {self.rows} rows equal to recomputation at epoch {self.epoch}"


@dataclass(frozen=True, slots=True)
class _Row:
    """A row that only one side has, as it is compared and as it is shown."""

    compared: tuple[Any, ...]
    shown: tuple[Any, ...]


def compare(
    view: str,
    epoch: int,
    actual: DataFrame,
    expected: DataFrame,
    settings: Mapping[str, str | None],
) -> CheckReport:
    """Raise `CheckError` unless the two are equal as bags, with some other settings in effect."""
    columns = [f"c{i}" for i in range(len(actual.columns))]
    sides = (
        actual.toDF(*columns)
        .withColumn("side", F.lit(1))
        .unionAll(expected.toDF(*columns).withColumn("side", F.lit(-1)))
    )
    types = [field.dataType for field in actual.schema.fields]
    compared = _compared(sides)[: len(columns)]
    parts = [
        part
        for column, type_ in zip(compared, types, strict=True)
        for part in unambiguous(column, type_)
    ]
    hashes = [F.xxhash64(*parts, F.lit(seed)).alias(f"h{seed}") for seed in (1, 2)]
    counted = (
        sides.select(*hashes, "side", *columns, F.struct(*compared).alias("keys"))
        .groupBy("h1", "h2")
        .agg(
            F.sum("side").alias("n"),
            F.sum(F.when(F.col("side") > 0, 1).otherwise(0)).alias("rows"),
            F.first(F.struct(*columns)).alias("row"),
            F.first("keys").alias("keys"),
        )
    )
    counted = Catalyst(counted.sparkSession).with_settings(counted, {**settings, **_SETTINGS})
    surplus: list[_Row] = []
    missing: list[_Row] = []
    summary = counted.agg(
        F.sum("rows").alias("rows"), F.count_if(F.col("n") != 0).alias("different")
    ).collect()[0]
    total = int(summary["rows"] or 0)
    if summary["different"]:
        for found in counted.where("n != 0").limit(LEFT_OVER).collect():
            side = surplus if found["n"] > 0 else missing
            side.extend([_Row(tuple(found["keys"]), tuple(found["row"]))] * abs(found["n"]))
        surplus, missing = _unequal(surplus, missing)
    if surplus or missing:
        raise CheckError(
            f"view '{view}' differs from its recomputation at epoch {epoch}",
            detail=f"{len(surplus)} row(s) too many: {_shown(surplus)}; "
            f"{len(missing)} row(s) missing: {_shown(missing)}",
            hint="rows that differ in floating point numbers alone may be Spark's rounding, which "
            "adds doubles one by one where Rekindle adds them exactly, and of rows that tie in the "
            "order of a RANGE frame first_value and its like take any; anything else is a bug in "
            "Rekindle: please report it with the view's definition",
        )
    return CheckReport(view, total, epoch)


def _compared(frame: DataFrame) -> list[Column]:
    """The frame's columns, those with a collation as its keys."""
    catalyst = Catalyst(frame.sparkSession)
    column_of = catalyst.class_("org.apache.spark.sql.classic.ExpressionUtils").column
    attributes = items(frame._jdf.queryExecution().analyzed().output())
    return [
        Column(column_of(catalyst.named(catalyst.collation_key(a), a.name()))) for a in attributes
    ]


def _shown(rows: Sequence[_Row]) -> str:
    return ", ".join(repr(row.shown) for row in rows[:SHOWN]) + (" ..." if rows[SHOWN:] else "")


def _unequal(surplus: list[_Row], missing: list[_Row]) -> tuple[list[_Row], list[_Row]]:
    """What remains of both lists after rows that are equal within the tolerance are paired."""
    groups: dict[str, list[_Row]] = {}
    for row in missing:
        groups.setdefault(repr(_skeleton(row.compared)), []).append(row)
    left = []
    for row in surplus:
        candidates = groups.get(repr(_skeleton(row.compared)), [])
        for i, candidate in enumerate(candidates):
            if is_close(row.compared, candidate.compared):
                del candidates[i]
                break
        else:
            left.append(row)
    return left, [row for rows in groups.values() for row in rows]


def _skeleton(value: Any) -> Any:
    """A value with its floating point numbers left out."""
    match value:
        case float():
            return "float"
        case dict():
            return sorted((repr(_skeleton(k)), _skeleton(v)) for k, v in value.items())
        case list() | tuple():
            return [_skeleton(item) for item in value]
    return value


def is_close(one: Any, other: Any) -> bool:
    """Equal, but for the last digits of floating point numbers."""
    match one, other:
        case float(), float():
            return (
                (math.isnan(one) and math.isnan(other))
                or one == other
                or math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
            )
        case dict(), dict():
            return one.keys() == other.keys() and all(is_close(one[k], other[k]) for k in one)
        case VariantVal(), VariantVal():
            return (one.value, one.metadata) == (other.value, other.metadata)
        case ((list() | tuple()), (list() | tuple())):
            return len(one) == len(other) and all(map(is_close, one, other))
    return bool(one == other)
