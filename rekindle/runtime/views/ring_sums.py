"""Aggregates in rings that a user defines in Python.

To Spark such an aggregate is a Python function of a group's columns, so any query with it runs
there from scratch. A view does not call that function: the front end knows it by what it carries,
and the sum is kept as a value of the ring for each group (`aggregates/ring_sums.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.cloudpickle import dumps
from pyspark.errors import PySparkException
from pyspark.sql import Column
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import DataType

from rekindle.algebra import plain
from rekindle.algebra.groups import Group
from rekindle.algebra.ring_sums import StoredSum
from rekindle.catalyst.ring_sums import carrying
from rekindle.errors import DefinitionError

V = TypeVar("V")


def _same(value: Any) -> Any:
    return value


def _pickled(part: object) -> bytes:
    return bytes(dumps(part))  # type: ignore[no-untyped-call]


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
    _check(ring, lift, finish, returns)
    group = plain.dumps(ring) or _pickled(ring)
    stored = StoredSum(group, _pickled(lift), _pickled(finish))

    def total(*columns: pa.Array) -> Any:
        rows = zip(*(column.to_pylist() for column in columns), strict=True)
        return stored.load().result((row, 1) for row in rows)

    # The annotations of `total` tell Spark that it is an aggregate.
    try:
        made: Callable[..., Column] = arrow_udf(carrying(total, stored), returns)  # type: ignore[call-overload]
    except PySparkException as error:
        raise DefinitionError(
            f"a ring sum cannot return the type '{returns}'",
            detail=str(error).strip().split("\n")[0],
            hint="name a type of Spark, such as 'bigint', 'double' or 'array<double>'",
        ) from error
    return made


def _check(ring: object, lift: object, finish: object, returns: object) -> None:
    """Raise unless these are a ring, functions and a type, as far as can be seen."""
    missing = [name for name in ("zero", "add", "negate") if not hasattr(ring, name)]
    if missing:
        raise DefinitionError(
            f"{ring!r} is no ring to sum in",
            detail=f"it has no {' and no '.join(f'`{name}`' for name in missing)}",
            hint="give an object with `zero`, `add(a, b)` and `negate(a)`",
        )
    for name, given in (("lift", lift), ("finish", finish)):
        if not callable(given):
            raise DefinitionError(f"`{name}` of a ring sum is {given!r}, which is no function")
    if not isinstance(returns, DataType | str):
        raise DefinitionError(
            f"a ring sum cannot return the type {returns!r}",
            hint="name a type of Spark, such as 'bigint', or give a DataType",
        )
