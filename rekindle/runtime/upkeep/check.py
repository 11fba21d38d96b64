"""The central law, on demand: a view equals its query recomputed by Spark, as bags.

Rows are compared by identity first. What is left over on both sides is compared once more value by
value, with floating point numbers equal when they agree to within `TOLERANCE`: Rekindle's sums are
exact and rounded once, Spark's are rounded at every addition. Texts with a collation are equal when
the collation says so: which text of a group Spark shows depends on the order in which it met them.

A small view costs one Spark job: the driver gets a hash of every row and the floating point
numbers beside it, and pairs them. That can only find the two equal: any other answer, and every
large view, is a matter of the comparison on Spark, which knows the rows that differ.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType, FloatType, VariantVal

from rekindle.catalyst.hashing import unambiguous
from rekindle.catalyst.jvm import Catalyst, analysed_plan, items
from rekindle.columns import column_names
from rekindle.errors import CheckError
from rekindle.spark.frames import collect

TOLERANCE = 1e-9
SHOWN = 5
LEFT_OVER = 200_000
SMALL = 20_000
"""Rows of a view and of what it reads, up to which it is compared in the driver."""
_SETTINGS = {"spark.sql.constraintPropagation.enabled": "false"}
"""Spark derives more and more constraints from the hashed columns, and spends seconds on it."""

_SMALL_SETTINGS = {
    **_SETTINGS,
    "spark.sql.shuffle.partitions": "1",
    # Every stage would be a job and be planned again.
    "spark.sql.adaptive.enabled": "false",
    # Compiling a class for each stage took a third of the time.
    "spark.sql.codegen.wholeStage": "false",
    # The rows of all partitions in one job, rather than of one partition after the other.
    "spark.sql.limit.initialNumPartitions": "1000000",
}
"""What is small is not worth dividing."""


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


@dataclass(frozen=True, slots=True)
class Sides:
    """A view as it is kept, and as Spark computes it from so many rows."""

    actual: DataFrame
    expected: DataFrame
    rows: int


class _Both:
    """The rows of both sides as one frame of c0, c1..., and `side`: 1 as kept, -1 as recomputed."""

    def __init__(self, catalyst: Catalyst, sides: Sides) -> None:
        self.types = [field.dataType for field in sides.actual.schema.fields]
        self.columns = column_names(len(self.types))
        kept = sides.actual.toDF(*self.columns).withColumn("side", F.lit(1))
        recomputed = sides.expected.toDF(*self.columns).withColumn("side", F.lit(-1))
        self.frame = kept.unionAll(recomputed)
        attributes = items(analysed_plan(self.frame).output())
        column_of = catalyst.class_("org.apache.spark.sql.classic.ExpressionUtils").column
        self.compared = [
            Column(column_of(catalyst.named(catalyst.collation_key(a), a.name())))
            for a in attributes[: len(self.columns)]
        ]
        """The columns, those with a collation as its keys."""

    def hashes(self, chosen: Sequence[int]) -> list[Column]:
        """Two hashes of some of the columns, h1 and h2."""
        parts = [part for i in chosen for part in unambiguous(self.compared[i], self.types[i])]
        return [F.xxhash64(*parts, F.lit(seed)).alias(f"h{seed}") for seed in (1, 2)]


def compare(
    catalyst: Catalyst, view: str, epoch: int, sides: Sides, settings: Mapping[str, str | None]
) -> CheckReport:
    """Raise `CheckError` unless the two are equal as bags, with some other settings in effect."""
    both = _Both(catalyst, sides)
    rows = _equal_rows(catalyst, both, settings) if sides.rows <= SMALL else None
    if rows is None:
        rows = _compared_by_spark(catalyst, both, view, epoch, settings)
    return CheckReport(view, rows, epoch)


def _equal_rows(catalyst: Catalyst, both: _Both, settings: Mapping[str, str | None]) -> int | None:
    """How many rows each side has, if the driver finds them equal."""
    numbers = [i for i, type_ in enumerate(both.types) if isinstance(type_, DoubleType | FloatType)]
    exact = [i for i in range(len(both.types)) if i not in numbers]
    chosen = [both.columns[i] for i in numbers]
    # What is recomputed may be anything: the driver takes no more of it than it has room for.
    hashed = both.frame.select("side", *both.hashes(exact), *chosen).limit(3 * SMALL)
    found = collect(catalyst.with_settings(hashed, {**settings, **_SMALL_SETTINGS}))
    if len(found) == 3 * SMALL:
        return None
    balance: Counter[tuple[Any, ...]] = Counter()
    for side, *values in found:
        # A NaN is equal to nothing, not even to itself, and here to every other.
        balance[tuple("NaN" if value != value else value for value in values)] += side
    return sum(row[0] > 0 for row in found) if _balanced(balance) else None


def _balanced(balance: Mapping[tuple[Any, ...], int]) -> bool:
    """Do the surplus rows and the missing ones pair, by their hashes and close numbers?"""
    surplus: dict[tuple[Any, ...], list[tuple[Any, ...]]] = defaultdict(list)
    missing: dict[tuple[Any, ...], list[tuple[Any, ...]]] = defaultdict(list)
    for (h1, h2, *numbers), count in balance.items():
        side = surplus if count > 0 else missing
        side[h1, h2].extend([tuple(numbers)] * abs(count))
    for key, rows in surplus.items():
        candidates = missing.pop(key, [])
        for row in rows:
            pair = next((i for i, other in enumerate(candidates) if is_close(row, other)), None)
            if pair is None:
                return False
            del candidates[pair]
        if candidates:
            return False
    return not any(missing.values())


def _compared_by_spark(
    catalyst: Catalyst, both: _Both, view: str, epoch: int, settings: Mapping[str, str | None]
) -> int:
    """How many rows each side has; raises `CheckError` unless the two are equal."""
    counted = (
        both.frame.select(
            *both.hashes(range(len(both.types))),
            "side",
            *both.columns,
            F.struct(*both.compared).alias("keys"),
        )
        .groupBy("h1", "h2")
        .agg(
            F.sum("side").alias("n"),
            F.sum(F.when(F.col("side") > 0, 1).otherwise(0)).alias("rows"),
            F.first(F.struct(*both.columns)).alias("row"),
            F.first("keys").alias("keys"),
        )
    )
    counted = catalyst.with_settings(counted, {**settings, **_SETTINGS})
    surplus: list[_Row] = []
    missing: list[_Row] = []
    (summary,) = collect(
        counted.agg(F.sum("rows").alias("rows"), F.count_if(F.col("n") != 0).alias("different"))
    )
    total = int(summary["rows"] or 0)
    if summary["different"]:
        for found in collect(counted.where("n != 0").limit(LEFT_OVER)):
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
    return total


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
