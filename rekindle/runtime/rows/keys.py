"""Values of primary keys, equal where Spark takes them for one key.

A key is found by its hash, which is equal for equal keys (`spark.hashing.key_hash`); whether keys
of one hash are equal is decided here. To Spark NaN is NaN and -0.0 is 0.0, also inside structs and
arrays; to Python neither holds, and lists and dicts have no hash.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from rekindle.columns import column_name

Key = tuple[Any, ...]


def keys_of(rows: pa.Table, positions: Sequence[int]) -> Iterable[Key]:
    """The keys of rows of stored columns, one after the other."""
    columns = [rows.column(column_name(i)).to_pylist() for i in positions]
    return (tuple(map(comparable, values)) for values in zip(*columns, strict=True))


def comparable(value: object) -> object:
    """
    >>> comparable({"a": -0.0, "b": [float("nan")]})
    (0.0, ('NaN',))
    """
    match value:
        case float():
            return "NaN" if math.isnan(value) else value + 0.0
        case dict():
            return tuple(map(comparable, value.values()))
        case list() | tuple():
            return tuple(map(comparable, value))
    return value
