"""Aggregates in rings that a user defines in Python.

To Spark such an aggregate is a Python function of a group's columns, so any query with it runs
there from scratch. A view does not call that function: the front end knows it by what it carries,
and the sum is kept as a value of the ring for each group (`kernels/ring_sums.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.cloudpickle import dumps
from pyspark.sql import Column
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import DataType

from rekindle.algebra.groups import Group
from rekindle.algebra.ring_sums import StoredSum
from rekindle.frontends.spark_sql.ring_sums import carrying

V = TypeVar("V")


def _same(value: Any) -> Any:
    return value


def ring_sum(
    ring: Group[V],
    lift: Callable[..., V],
    returns: DataType | str,
    finish: Callable[[V], Any] = _same,
) -> Callable[..., Column]:
    """An aggregate function of columns: finish(Σ lift(x, y...)) in a ring, exact under deletions.

    `ring` has `zero`, `add(a, b)` and `negate(a)`; its values can be pickled and compared by ==,
    and are zero when they equal `ring.zero`. `lift` makes a value of the columns of a row, and
    `finish` makes what the view shows, of the Spark type `returns`. A row with a NULL in one of the
    columns is left out.
    """
    stored = StoredSum(*(bytes(dumps(part)) for part in (ring, lift, finish)))  # type: ignore[no-untyped-call]

    def total(*columns: pa.Array) -> Any:
        rows = zip(*(column.to_pylist() for column in columns), strict=True)
        return stored.load().result((row, 1) for row in rows)

    # The annotations of `total` tell Spark that it is an aggregate.
    made: Callable[..., Column] = arrow_udf(carrying(total, stored), returns)  # type: ignore[call-overload]
    return made
