"""Column types with generators of their values, small enough that rows meet and sums stay exact.

Floating point values are multiples of 1/4, so that Spark's rounded sums and exact ones agree; the
special values (NaN, infinities, -0.0) and the extremes of a type stand in payload columns, where
nothing adds them up, or in `special` columns that only sums of doubles read.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import VariantType, VariantVal

from rekindle.catalyst.variants import opened

NULL = st.none()


@dataclass(frozen=True)
class Type:
    """A type by its SQL name, its Arrow form and its values."""

    sql: str
    arrow: Any
    values: st.SearchStrategy[Any]
    family: str

    @property
    def is_number(self) -> bool:
        return self.family in ("integer", "decimal", "float")

    @property
    def is_key(self) -> bool:
        """May it be grouped by, joined on and made distinct, with one result?

        Spark cannot compare variants, and shows any of the texts that a collation takes for one.
        """
        return self.family not in ("map", "variant", "collated")


SMALL = st.integers(-3, 3)
QUARTERS = st.integers(-8, 8).map(lambda n: n / 4)
SPECIAL = st.sampled_from([float("nan"), float("inf"), float("-inf"), -0.0, 0.0])


def _integer(sql: str, arrow: Any, bits: int) -> Type:
    ends = st.sampled_from([-(2 ** (bits - 1)), 2 ** (bits - 1) - 1])
    return Type(sql, arrow, SMALL | ends, "integer-payload")


def _decimal(precision: int, scale: int) -> Type:
    values = st.integers(-300, 300).map(lambda n: Decimal(n).scaleb(-2).quantize(Decimal("0.01")))
    return Type(f"decimal({precision},{scale})", pa.decimal128(precision, scale), values, "decimal")


NUMBERS = (
    Type("tinyint", pa.int8(), SMALL, "integer"),
    Type("smallint", pa.int16(), SMALL, "integer"),
    Type("int", pa.int32(), SMALL, "integer"),
    Type("bigint", pa.int64(), SMALL, "integer"),
    Type("float", pa.float32(), QUARTERS, "float"),
    Type("double", pa.float64(), QUARTERS, "float"),
    _decimal(5, 2),
    _decimal(18, 4),
    _decimal(38, 10),
)
INT = Type("int", pa.int32(), SMALL, "integer")
BIGINT = Type("bigint", pa.int64(), SMALL, "integer")
INDEX = Type("int", pa.int32(), st.sampled_from([0, 0, 1, 2]), "integer")
SPREAD = Type("int", pa.int32(), st.integers(0, 40), "integer")
BOOLEAN = Type("boolean", pa.bool_(), st.booleans(), "boolean")
DOUBLE = Type("double", pa.float64(), QUARTERS | SPECIAL, "special")
STRING = Type("string", pa.string(), st.sampled_from(["", "a", "b", "ab", "ß", "%\n'"]), "string")

ATOMIC = (
    BOOLEAN,
    _integer("tinyint", pa.int8(), 8),
    _integer("smallint", pa.int16(), 16),
    _integer("int", pa.int32(), 32),
    _integer("bigint", pa.int64(), 64),
    Type("float", pa.float32(), QUARTERS | SPECIAL, "special"),
    DOUBLE,
    _decimal(5, 2),
    _decimal(38, 10),
    STRING,
    Type("binary", pa.binary(), st.sampled_from([b"", b"\x00", b"\x00\xff", b"a"]), "binary"),
    Type(
        "date",
        pa.date32(),
        st.sampled_from([dt.date(1, 1, 2), dt.date(1969, 12, 31), dt.date(2024, 2, 29)]),
        "date",
    ),
    Type(
        "timestamp",
        pa.timestamp("us", "UTC"),
        st.sampled_from(
            [
                dt.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=dt.UTC),
                dt.datetime(2024, 2, 29, 12, tzinfo=dt.UTC),
            ]
        ),
        "timestamp",
    ),
    Type(
        "timestamp_ntz",
        pa.timestamp("us"),
        st.sampled_from([dt.datetime(1900, 1, 1), dt.datetime(2024, 2, 29, 12, 0, 0, 1)]),
        "timestamp_ntz",
    ),
    Type(
        "time",
        pa.time64("us"),
        st.sampled_from([dt.time(0), dt.time(23, 59, 59, 999999)]),
        "time",
    ),
    Type(
        "interval day to second",
        pa.duration("us"),
        st.sampled_from([dt.timedelta(0), dt.timedelta(days=-1, microseconds=1)]),
        "duration",
    ),
    Type("interval year to month", pa.int32(), st.sampled_from([-13, 0, 14]), "months"),
)

_INTS = st.lists(NULL | SMALL, max_size=3)
ARRAY = Type("array<int>", pa.list_(pa.int32()), _INTS, "array")
STRUCT = Type(
    "struct<f: int, g: string>",
    pa.struct([("f", pa.int32()), ("g", pa.string())]),
    st.fixed_dictionaries({"f": NULL | SMALL, "g": NULL | STRING.values}),
    "struct",
)
STRUCTS = Type(
    "array<struct<f: int, g: string>>",
    pa.list_(STRUCT.arrow),
    st.lists(STRUCT.values, max_size=2),
    "array-of-structs",
)
MAP = Type(
    "map<string, int>",
    pa.map_(pa.string(), pa.int32()),
    st.dictionaries(st.sampled_from(["a", "b"]), NULL | SMALL, max_size=2).map(
        lambda d: dict(sorted(d.items()))
    ),
    "map",
)
VARIANT = Type(
    "variant",
    opened(to_arrow_type(VariantType())),
    st.sampled_from(
        [VariantVal.parseJson(text) for text in ('{"a": 1}', '{"a": "x", "b": [1.5]}', "null", "7")]
    ),
    "variant",
)
COLLATED = Type(
    "string collate UTF8_LCASE", pa.string(), st.sampled_from(["", "a", "A", "b", "ẞ"]), "collated"
)
NESTED = (ARRAY, STRUCT, STRUCTS, MAP, VARIANT, COLLATED)
ALL = NUMBERS + ATOMIC + NESTED


def values_of(type_: Type, *, nullable: bool = True) -> st.SearchStrategy[Any]:
    """Values of a type, NULL now and then."""
    return st.one_of(type_.values, NULL) if nullable else type_.values


def arrow_column(values: list[Any], type_: Type) -> Any:
    """Values as an Arrow column, for the oracle's own copy of a table."""
    if type_.family == "map":
        values = [None if v is None else list(v.items()) for v in values]
    if type_.family == "variant":
        values = [None if v is None else {"value": v.value, "metadata": v.metadata} for v in values]
    return pa.array(values, type=type_.arrow)
