"""Which rows are asked for: the values that some columns may have.

    db.arrow("orders", where={"id": 77})         spark.read...where("id = 77")

A table is arranged by the hash of its primary key, so rows whose key is given are found by binary
search, whatever the size of the table; the hash is the one that Spark computes, without Spark
(`kernels/xxhash.py`). So are rows of a nested view by its first column, and the elements of bags by
their label. By other columns, and in flat views, which are arranged by the whole row, the column
itself is compared and the rest is read of the rows that it chooses. Values are compared as
Arrow compares them, so only types in which that is how Spark does it can be asked for.
"""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rekindle.calculus.schema import Schema
from rekindle.catalyst.hashing import KEY_SEED
from rekindle.columns import column_name
from rekindle.errors import RowError, UnsupportedError, unknown_name
from rekindle.kernels.xxhash import row_hashes
from rekindle.traces.arrays import Booleans, Int64s, integers, single_chunk
from rekindle.traces.reader import TraceReader
from rekindle.traces.spread import spans

MOST_KEYS = 10_000
"""More combinations of values of several key columns are looked for column by column."""


@dataclass(frozen=True, slots=True)
class Arranged:
    """What the rows of a trace are found by: columns, or nothing but the whole row."""

    by: tuple[int, ...] = ()
    is_spread: bool = False
    """Are the rows of one value apart within a span of keys (`traces/spread.py`)?"""

    def rows(self, reader: TraceReader, hashes: Int64s) -> pa.Table:
        """The arranged rows in whose columns values have the sorted hashes, maybe with others."""
        if self.is_spread:
            return reader.spanning(*spans(hashes))
        found, _ = reader.probe(hashes)
        return found


@dataclass(frozen=True, slots=True)
class Lookup:
    """For some columns, by their positions, the values that a row may have there."""

    wanted: tuple[tuple[int, pa.Array], ...]

    def rows(self, reader: TraceReader, arranged: Arranged) -> pa.Table:
        """The arranged rows that are asked for, of a trace that is arranged so."""
        keys = self.keys(arranged)
        if keys is None:
            return reader.chosen([column_name(i) for i, _ in self.wanted], self.are_wanted)
        found = arranged.rows(reader, keys)
        return found.filter(pa.array(self.are_wanted(found)))

    def keys(self, arranged: Arranged) -> Int64s | None:
        """The sorted hashes of the keys, if every column of the key has its values."""
        given, by = dict(self.wanted), arranged.by
        if not by or any(i not in given for i in by):
            return None
        columns = [given[i] for i in by]
        if np.prod([len(column) for column in columns], dtype=float) > MOST_KEYS:
            return None
        places = np.meshgrid(*(np.arange(len(column)) for column in columns), indexing="ij")
        combined = [c.take(pa.array(p.ravel())) for c, p in zip(columns, places, strict=True)]
        (hashes,) = row_hashes(combined, [KEY_SEED], len(combined[0]))
        return np.unique(integers(hashes))

    def are_wanted(self, rows: pa.Table) -> Booleans:
        """Which rows of stored columns have the values."""
        found = np.ones(len(rows), dtype=bool)
        for place, values in self.wanted:
            column = rows.column(column_name(place))
            equal = pc.equal(column, values[0]) if len(values) == 1 else pc.is_in(column, values)
            found &= np.asarray(pc.fill_null(equal, False))
        return found


def lookup_of(where: Mapping[str, Any], schema: Schema, stored: pa.Schema, owner: str) -> Lookup:
    """What a user asks for by the names of columns: a value for each, or a list of values."""
    if not isinstance(where, Mapping):
        raise RowError(
            f"what is asked for of '{owner}' is not {where!r}",
            detail="columns with the values that they are to have are wanted",
            hint='such as where={"id": 77} or where={"id": [77, 78]}',
        )
    places = {name.lower(): i for i, name in enumerate(schema.names)}
    wanted = []
    for name, value in where.items():
        place = places.get(name.lower()) if isinstance(name, str) else None
        if place is None:
            raise unknown_name("column", name, schema.names, owner)
        if not is_compared(schema.fields[place].type, stored.types[place]):
            raise UnsupportedError(
                f"rows cannot be looked up by '{name}'",
                detail=f"it has the type {schema.fields[place].type}",
                hint="read all rows, and filter them",
            )
        values = list(value) if isinstance(value, list | tuple | set | frozenset) else [value]
        if not values or any(each is None for each in values):
            raise RowError(
                f"nothing is equal to what is asked for in '{name}'",
                detail="a value is wanted, and NULL is none",
                hint='such as where={"id": 77} or where={"id": [77, 78]}',
            )
        found = values_of(values, stored.types[place])
        if found is None:
            type_ = schema.fields[place].type
            raise RowError(
                f"{value!r} is no value of the column '{name}'",
                detail=f"it has the type {type_}",
                hint="give the datetime a zone (tzinfo)" if type_ == "timestamp" else "",
            )
        wanted.append((place, found))
    return Lookup(tuple(wanted))


def is_compared(type_: str, stored: pa.DataType) -> bool:
    """Does Arrow compare stored values of a type as Spark compares them?"""
    if type_.lower().startswith(("string collate", "interval")):
        return False
    test = pa.types
    return any(
        is_kind(stored)
        for is_kind in (
            test.is_boolean,
            test.is_signed_integer,
            test.is_decimal128,
            test.is_date32,
            test.is_timestamp,
            test.is_string,
            test.is_binary,
        )
    )


def values_of(values: Sequence[Any], type_: pa.DataType) -> pa.Array | None:
    """Values as those of a stored column; None if one of them is of another kind."""
    if not all(_is_of(value, type_) for value in values):
        return None
    try:
        return single_chunk(pa.array(list(values), type_))
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None


def _is_of(value: object, type_: pa.DataType) -> bool:
    """Is a value of the kind of a column? Arrow would take an instant without a zone for UTC."""
    test = pa.types
    if test.is_boolean(type_):
        return isinstance(value, bool)
    if test.is_integer(type_):
        return isinstance(value, int) and not isinstance(value, bool)
    if test.is_decimal(type_):
        return isinstance(value, int | decimal.Decimal) and not isinstance(value, bool)
    if test.is_date(type_):
        return isinstance(value, dt.date) and not isinstance(value, dt.datetime)
    if test.is_timestamp(type_):
        return isinstance(value, dt.datetime) and (value.tzinfo is None) == (type_.tz is None)
    if test.is_string(type_):
        return isinstance(value, str)
    return isinstance(value, bytes | bytearray)
