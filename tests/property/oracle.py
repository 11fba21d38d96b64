"""The oracle: bags of rows compared in Python, and queries recomputed by Spark from test data.

Nothing here uses the engine: tables are the test's own Python rows, handed to Spark as local data,
and a view is its SQL text run by `spark.sql`. Rows are compared as multisets after the distinctions
that Spark's grouping does not make are removed (-0.0, kinds of NaN, order of a map), and what is
left over is paired with a tolerance for the last digits of floating point sums.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import VariantVal, YearMonthIntervalType

from tests.property.values import arrow_column

if TYPE_CHECKING:
    from tests.property.schemas import TableSpec

Bag = Counter[tuple[Any, ...]]
TOLERANCE = 1e-9


def normalised(value: Any) -> Any:
    """A hashable value in which equal things are equal."""
    match value:
        case float():
            return "NaN" if math.isnan(value) else value + 0.0
        case bytearray():
            return bytes(value)
        case VariantVal():
            return bytes(value.value), bytes(value.metadata)
        case dict():
            return frozenset((normalised(k), normalised(v)) for k, v in value.items())
        case list() | tuple():
            return tuple(normalised(item) for item in value)
    return value


def readable(frame: DataFrame) -> DataFrame:
    """The frame in types that PySpark can collect: it has no Python form of months."""
    months = [
        i
        for i, f in enumerate(frame.schema.fields)
        if isinstance(f.dataType, YearMonthIntervalType)
    ]
    if not months:
        return frame
    plain = frame.toDF(*(f"_{i}" for i in range(len(frame.columns))))
    return plain.select(
        *(
            F.col(name).cast("string") if i in months else F.col(name)
            for i, name in enumerate(plain.columns)
        )
    )


def bag(rows: Iterable[Sequence[Any]]) -> Bag:
    """Rows as a multiset."""
    return Counter(normalised(tuple(row)) for row in rows)


def collected(frame: DataFrame) -> Bag:
    """The rows of a frame as a multiset."""
    return bag(readable(frame).collect())


def weighted(frame: DataFrame) -> Bag:
    """A change feed (`_epoch`, `_weight`, columns) added up; weights that cancel leave."""
    total: Bag = Counter()
    seen: set[Any] = set()
    for row in readable(frame).collect():
        values = normalised(tuple(row[2:]))
        assert row[1] != 0, f"a change of weight zero was kept: {values}"
        # Rows that differ in the sign of a zero are two, though a view may have either.
        change = (row[0], repr(tuple(row[2:])))
        assert change not in seen, f"one epoch changes a row twice: {values}"
        seen.add(change)
        total[values] += row[1]
    return without_zeros(total)


def without_zeros(total: Bag) -> Bag:
    return Counter({row: count for row, count in total.items() if count})


def difference(actual: Bag, expected: Bag) -> tuple[list[Any], list[Any]]:
    """Rows too many and rows missing, those equal within the tolerance left out."""
    surplus = list((actual - expected).elements())
    surplus += [row for row, count in actual.items() if count < 0]
    missing = list((expected - actual).elements())
    left = []
    for row in surplus:
        for i, candidate in enumerate(missing):
            if _close(row, candidate):
                del missing[i]
                break
        else:
            left.append(row)
    return left, missing


def _close(one: Any, other: Any) -> bool:
    match one, other:
        case float(), float():
            return math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
        case tuple(), tuple():
            return len(one) == len(other) and all(map(_close, one, other))
    return bool(one == other)


def assert_equal(actual: Bag, expected: Bag, what: str) -> None:
    """Fail with the rows in which two bags differ."""
    surplus, missing = difference(actual, expected)
    if surplus or missing:
        raise AssertionError(f"{what}\n  too many: {surplus[:6]}\n  missing:  {missing[:6]}")


def publish(spark: SparkSession, spec: TableSpec, rows: Sequence[tuple[Any, ...]]) -> None:
    """The test's own copy of a table as a temporary view of the session."""
    columns = [
        arrow_column([row[i] for row in rows], column.type) for i, column in enumerate(spec.columns)
    ]
    names = [f"c{i}" for i in range(len(columns))]
    frame = spark.createDataFrame(pa.Table.from_arrays(columns, names=names))
    selected = []
    for name, column in zip(names, spec.columns, strict=True):
        stored = F.col(name)
        if column.type.family == "months":
            stored = F.make_ym_interval(F.lit(0), stored)
        if column.type.family == "collated":
            stored = stored.cast(column.type.sql)
        selected.append(stored.alias(column.name))
    frame.select(*selected).createOrReplaceTempView(spec.name)


def recomputed(spark: SparkSession, views: Mapping[str, str]) -> dict[str, Bag]:
    """Each view's query over the published tables, in order; a view may read earlier ones."""
    found = {}
    for name, query in views.items():
        frame = spark.sql(query)
        frame.createOrReplaceTempView(name)
        found[name] = collected(frame)
    return found
