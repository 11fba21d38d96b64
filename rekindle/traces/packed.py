"""Columns of large files in as few bytes as their values need.

What a lookup costs in a file that is not in memory are the pages that it touches, and how much of a
table stays in memory is how many bytes its rows have. So a large file stores integers and decimals
in the narrowest integers that hold them, texts of few kinds as numbers of a dictionary, and no
weights at all where all of them are one. The file's own schema says what was done; rows are
unpacked after they were taken. Identities and weights are never narrow: kernels read them in place.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rekindle.traces.arrays import IDENTITY, KEY, WEIGHT, Int64s, single_chunk
from rekindle.traces.paging import fetch

PACKED_ROWS = 100_000
"""A file of fewer rows is stored as it is."""
_PACKED = b"packed"
_MEANT = b"meant"
_ALL_ONE = b"all one"
_AS_THEY_ARE = (KEY, *IDENTITY, WEIGHT)
_NARROW = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_BLOCK_ROWS = 2048
_THREADS = 8
_GATHERING = ThreadPoolExecutor(_THREADS, "rekindle-gather")
_SAMPLE = 4096
_KINDS = 2**15
_ONES_ROWS = 2**22


def packed(table: Any) -> Any:
    """The table as it is stored: itself, if it is small or nothing is gained."""
    if len(table) < PACKED_ROWS:
        return table
    fields: list[Any] = []
    columns: list[Any] = []
    about: dict[bytes, bytes] = {}
    for field, column in zip(table.schema, table.columns, strict=True):
        array = single_chunk(column)
        if field.name == WEIGHT and not array.null_count and _are_one(array):
            about[_ALL_ONE] = str(len(fields)).encode()
            continue
        stored = None if field.name in _AS_THEY_ARE else _narrowed(array)
        if stored is None:
            fields.append(field)
            columns.append(array)
        else:
            meant = str(field.type).encode()
            fields.append(pa.field(field.name, stored.type, field.nullable, {_MEANT: meant}))
            columns.append(stored)
    if not about and not any(map(_is_packed, fields)):
        return table
    schema = pa.schema(fields, {_PACKED: b"", **about})
    return pa.Table.from_arrays(columns, schema=schema)


def with_weights(stored: Any) -> Any:
    """A stored table with the weights that were left out: all tables share one vector of ones."""
    about = stored.schema.metadata or {}
    if _ALL_ONE not in about:
        return stored
    place = int(about[_ALL_ONE])
    return stored.add_column(place, pa.field(WEIGHT, pa.int64()), _ones(len(stored)))


def unpacked(table: Any) -> Any:
    """Rows of a stored table as they were before they were packed."""
    schema = table.schema
    if schema.metadata is None or _PACKED not in schema.metadata:
        return table
    columns = [
        _meant(single_chunk(column), field.metadata[_MEANT]) if _is_packed(field) else column
        for field, column in zip(schema, table.columns, strict=True)
    ]
    names = [
        pa.field(field.name, column.type, field.nullable)
        for field, column in zip(schema, columns, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=pa.schema(names))


def rows_at(table: Any, indices: Int64s) -> Any:
    """A stored table's rows at `indices`, unpacked; many are gathered side by side.

    Rows of a mapped file that is not in memory are waited for, one page after the other: in
    several threads the disk is asked for several at once.
    """
    fetch(table, len(indices))
    if len(indices) < 2 * _BLOCK_ROWS:
        return unpacked(table.take(pa.array(indices)))
    blocks = np.array_split(indices, min(_THREADS, len(indices) // _BLOCK_ROWS))
    taken = _GATHERING.map(lambda block: unpacked(table.take(pa.array(block))), blocks)
    return pa.concat_tables(taken)


def stands_for(field: Any, type_: Any) -> bool:
    """Does a stored column hold values of a type, packed or as they are?"""
    if not _is_packed(field):
        return bool(field.type == type_)
    if field.metadata[_MEANT] != str(type_).encode():
        return False
    stored = field.type
    if pa.types.is_dictionary(stored):
        texts = pa.types.is_string(type_) or pa.types.is_binary(type_)
        return texts and bool(stored.value_type == type_)
    numbers = pa.types.is_signed_integer(type_) or pa.types.is_decimal128(type_)
    return numbers and bool(pa.types.is_signed_integer(stored))


def _is_packed(field: Any) -> bool:
    return field.metadata is not None and _MEANT in field.metadata


def _are_one(array: Any) -> bool:
    return bool((array.to_numpy(zero_copy_only=True) == 1).all())


def _narrowed(array: Any) -> Any | None:
    """The values of a column in fewer bytes, if there is a way."""
    type_ = array.type
    if pa.types.is_decimal128(type_):
        words = _words(array)
        low, high = words[:, 0], words[:, 1]
        if array.null_count:
            # What stands in the place of a NULL is anything.
            valid = array.is_valid().to_numpy(zero_copy_only=False)
            low, high = np.where(valid, low, 0), np.where(valid, high, 0)
        if not (high == low >> 63).all():
            return None
        return _fitting(pa.array(low, mask=_nulls(array)))
    if pa.types.is_signed_integer(type_):
        narrow = _fitting(array)
        return narrow if narrow.type.bit_width < type_.bit_width else None
    if pa.types.is_string(type_) or pa.types.is_binary(type_):
        return _numbered(array)
    return None


def _words(array: Any) -> Any:
    """The two halves of each decimal, without a copy."""
    buffer = array.buffers()[1]
    words = np.frombuffer(buffer, dtype=np.int64).reshape(-1, 2)
    return words[array.offset : array.offset + len(array)]


def _nulls(array: Any) -> Any | None:
    return array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None


def _fitting(integers: Any) -> Any:
    """Integers of the first width that holds them all."""
    ends = pc.min_max(integers)
    low, high = ends["min"].as_py() or 0, ends["max"].as_py() or 0
    for type_ in _NARROW:
        most = 1 << (type_.bit_width - 1)
        if -most <= low and high < most:
            return integers.cast(type_)
    raise AssertionError("64 bits hold every integer")


def _numbered(array: Any) -> Any | None:
    """Texts as numbers of a dictionary, if a sample says that they are of few kinds."""
    sample = array.take(pa.array(np.linspace(0, len(array) - 1, _SAMPLE, dtype=np.int64)))
    if pc.count_distinct(sample).as_py() > _SAMPLE // 16:
        return None
    found = array.dictionary_encode()
    if len(found.dictionary) > _KINDS:
        return None
    return pa.DictionaryArray.from_arrays(_fitting(found.indices), found.dictionary)


def _meant(stored: Any, meant: bytes) -> Any:
    """Stored values in the type that they were given in."""
    if pa.types.is_dictionary(stored.type):
        return stored.dictionary_decode()
    if not meant.startswith(b"decimal"):
        return stored.cast(getattr(pa, meant.decode())())
    words = np.empty((len(stored), 2), dtype=np.int64)
    plain = stored.fill_null(0) if stored.null_count else stored
    words[:, 0] = plain.to_numpy(zero_copy_only=True)
    words[:, 1] = words[:, 0] >> 63
    validity = None
    if stored.null_count:
        bits = np.packbits(stored.is_valid().to_numpy(zero_copy_only=False), bitorder="little")
        validity = pa.py_buffer(bits)
    return pa.Array.from_buffers(
        _decimal(meant), len(stored), [validity, pa.py_buffer(words)], stored.null_count
    )


@lru_cache
def _decimal(text: bytes) -> Any:
    precision, scale = text.decode().partition("(")[2].rstrip(")").split(",")
    return pa.decimal128(int(precision), int(scale))


@lru_cache(maxsize=1)
def _many_ones(rows: int) -> Any:
    return pa.array(np.ones(rows, dtype=np.int64))


def _ones(rows: int) -> Any:
    return _many_ones(max(_ONES_ROWS, rows)).slice(0, rows)
