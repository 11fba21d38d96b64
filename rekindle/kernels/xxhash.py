"""Spark's `xxhash64` on Arrow columns, vectorised: the same numbers without asking the JVM.

A row's hash runs through its columns, the hash so far being the seed for the next; NULL leaves it
as it is. Integers, dates and times are hashed as one word; strings, bytes and decimals of many
digits as words of eight, then four bytes, then single ones (XXH64). What of a column is hashed,
`rekindle.catalyst.hashing` says for Spark: its null flag, the value, whether a zero is negative.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rekindle.traces.arrays import Int64s, single_chunk

Bytes = npt.NDArray[np.uint8]
UInt64s = npt.NDArray[np.uint64]
Words = Callable[[UInt64s], UInt64s]
"""From the seeds of some rows to their hashes; a row of the matrix for each hash that is wanted."""

_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(number)
    for number in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)
_LANE = 32
_LONG_DIGITS = 18
"""Decimals of more digits are hashed as bytes."""
_DECIMAL_BYTES = 16
_THREADED_ROWS = 50_000
"""From so many rows on the hashes of two seeds are computed side by side."""


def row_hashes(columns: Sequence[Any], seeds: Sequence[int], rows: int) -> list[pa.Array]:
    """One `xxhash64` of all the columns for each seed, as int64; of none it is that of 0."""
    flows = [flow for column in columns for flow in _flows(single_chunk(column))]
    flows = flows or [_PRESENT]
    begun = flows[0] is _PRESENT

    def hashed(some: Sequence[int]) -> list[pa.Array]:
        # A hash mostly begins with the flag of a column without NULLs: one number for all rows.
        first = [_after_presence(seed) for seed in some] if begun else some
        found = np.repeat(np.array(first, dtype=np.uint64)[:, None], rows, axis=1)
        for flow in flows[1:] if begun else flows:
            found = flow(found)
        return [pa.array(each.view(np.int64)) for each in found]

    if rows < _THREADED_ROWS or len(seeds) < 2:
        return hashed(seeds)
    with ThreadPoolExecutor(len(seeds)) as pool:
        return [array for (array,) in pool.map(hashed, ([seed] for seed in seeds))]


def is_hashable(kind: pa.DataType) -> bool:
    """Can columns of this Arrow type be hashed here? Others are left to Spark."""
    types = pa.types
    if types.is_list(kind):
        return is_hashable(kind.value_type)
    if types.is_struct(kind):
        return all(is_hashable(kind.field(i).type) for i in range(kind.num_fields))
    return any(
        test(kind)
        for test in (
            types.is_boolean,
            types.is_signed_integer,
            types.is_decimal128,
            types.is_floating,
            types.is_date32,
            types.is_timestamp,
            types.is_string,
            types.is_binary,
        )
    )


def _flows(column: Any) -> list[Words]:
    """What a column adds to a hash: its null flag, its value, and for a float the sign of zero.

    Of a list it is the length, and then what each of the elements adds; of a struct what each of
    its fields adds, which are NULL where it is.
    """
    if pa.types.is_list(column.type):
        return [_PRESENT, *_list_flows(column)]
    missing = column.is_null() if column.null_count else None
    flows = [_PRESENT if missing is None else _flag_words(_flags(missing))]
    if pa.types.is_struct(column.type):
        return [*flows, *(flow for field in column.flatten() for flow in _flows(field))]
    present = None if missing is None else ~_flags(missing)
    flows.append(_where(present, _value_words(column)))
    if pa.types.is_floating(column.type):
        values = _filled(column).to_numpy(zero_copy_only=False)
        flows.append(_where(present, _flag_words((values == 0) & np.signbit(values))))
    return flows


def _list_flows(column: Any) -> list[Words]:
    """Lists, an element of all that are long enough at a time."""
    if column.null_count:
        raise pa.ArrowInvalid("lists that are NULL are hashed by Spark")
    offsets = column.offsets.to_numpy().astype(np.int64)
    starts, lengths = offsets[:-1] - offsets[0], np.diff(offsets)
    values = column.flatten()
    sizes = lengths.astype(np.uint64)
    flows: list[Words] = [lambda seeds: _int_words(sizes, seeds)]
    for place in range(int(lengths.max(initial=0))):
        rows = np.flatnonzero(lengths > place)
        elements = _flows(values.take(pa.array(starts[rows] + place)))
        flows += elements if len(rows) == len(lengths) else [_at(rows, f) for f in elements]
    return flows


def _at(rows: Int64s, flow: Words) -> Words:
    """The flow on some rows; the others keep their hash."""

    def words(seeds: UInt64s) -> UInt64s:
        found = seeds.copy()
        found[:, rows] = flow(seeds[:, rows])
        return found

    return words


def _where(present: npt.NDArray[np.bool_] | None, words: Words) -> Words:
    if present is None:
        return words
    return lambda seeds: np.where(present, words(seeds), seeds)


def _filled(column: Any) -> Any:
    """The column without NULLs; what stands in their place is not hashed."""
    if not column.null_count:
        return column
    return pc.fill_null(column, pa.scalar(0, column.type))


def _flags(column: Any) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = column.to_numpy(zero_copy_only=False)
    return found


def _flag_words(flags: npt.NDArray[np.bool_]) -> Words:
    values = flags.astype(np.uint64)
    return lambda seeds: _int_words(values, seeds)


def _present_words(seeds: UInt64s) -> UInt64s:
    return _int_words(_NO, seeds)


_NO = np.zeros(1, np.uint64)
_PRESENT: Words = _present_words
"""The null flag of a column without NULLs."""


@cache
def _after_presence(seed: int) -> int:
    return int(_present_words(np.array([seed], dtype=np.uint64))[0])


def _value_words(column: Any) -> Words:
    """The hash of the values alone; of NULLs it is any number."""
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return _bytes_words(*_text_bytes(column))
    if pa.types.is_decimal128(kind):
        if kind.precision > _LONG_DIGITS:
            return _bytes_words(*_shortest_bytes(column))
        longs = _decimal_words(column)[:, 0]
        return lambda seeds: _long_words(longs, seeds)
    if pa.types.is_boolean(kind):
        flags = _flags(pc.fill_null(column, False)) if column.null_count else _flags(column)
        return _flag_words(flags)
    if pa.types.is_floating(kind):
        return _float_words(_filled(column).to_numpy(zero_copy_only=False))
    width = kind.bit_width
    values = _filled(column.view(pa.int64() if width == 64 else _SIGNED[width]))
    numbers = values.to_numpy(zero_copy_only=False)
    if width == 64:
        return lambda seeds: _long_words(numbers.view(np.uint64), seeds)
    ints = numbers.astype(np.int32).view(np.uint32).astype(np.uint64)
    return lambda seeds: _int_words(ints, seeds)


_SIGNED = {8: pa.int8(), 16: pa.int16(), 32: pa.int32()}


def _decimal_words(column: Any) -> UInt64s:
    """The low and the high words of decimals; the low one holds all of one with up to 18 digits."""
    words: UInt64s = np.frombuffer(column.buffers()[1], dtype=np.uint64).reshape(-1, 2)
    return words[column.offset : column.offset + len(column)]


def _shortest_bytes(column: Any) -> tuple[Bytes, Int64s, Int64s]:
    """Decimals as Java's `BigInteger.toByteArray` has them: the highest byte first, none too many.

    Gives all bytes, and where those of a row begin and how many they are.
    """
    words = _decimal_words(column)[:, ::-1].astype(">u8", order="C")
    found: Bytes = words.view(np.uint8).reshape(-1, _DECIMAL_BYTES)
    sign = np.where(found[:, :1] >= 128, np.uint8(255), np.uint8(0))
    # A byte can go if it only repeats the sign, and the next one tells the sign as well.
    needless = (found[:, :-1] == sign) & ((found[:, 1:] >= 128) == (sign > 0))
    skipped = np.logical_and.accumulate(needless, axis=1).sum(axis=1)
    starts = np.arange(len(found)) * _DECIMAL_BYTES + skipped
    return found.reshape(-1), starts, _DECIMAL_BYTES - skipped


def _float_words(values: npt.NDArray[Any]) -> Words:
    """All NaNs and both zeros as one."""
    values = np.where(values == 0, values.dtype.type(0), values)
    values = np.where(np.isnan(values), values.dtype.type("nan"), values)
    if values.dtype == np.float64:
        longs = values.view(np.uint64)
        return lambda seeds: _long_words(longs, seeds)
    ints = values.view(np.uint32).astype(np.uint64)
    return lambda seeds: _int_words(ints, seeds)


def _rotated(words: UInt64s, bits: int) -> UInt64s:
    found: UInt64s = words << np.uint64(bits)
    found |= words >> np.uint64(64 - bits)
    return found


def _mixed(found: UInt64s) -> UInt64s:
    found ^= found >> np.uint64(33)
    found *= _P2
    found ^= found >> np.uint64(29)
    found *= _P3
    found ^= found >> np.uint64(32)
    return found


def _int_words(values: UInt64s, seeds: UInt64s) -> UInt64s:
    found = seeds + (_P5 + np.uint64(4))
    found ^= values * _P1
    found = _rotated(found, 23)
    found *= _P2
    found += _P3
    return _mixed(found)


def _long_words(values: UInt64s, seeds: UInt64s) -> UInt64s:
    return _mixed(_with_long(seeds + (_P5 + np.uint64(8)), values))


def _with_long(found: UInt64s, values: UInt64s) -> UInt64s:
    word = _rotated(values * _P2, 31)
    word *= _P1
    found = _rotated(found ^ word, 27)
    found *= _P1
    found += _P4
    return found


def _text_bytes(column: Any) -> tuple[Bytes, Int64s, Int64s]:
    """The bytes of texts, and where those of a row begin and how many they are."""
    stored = np.frombuffer(column.buffers()[1], dtype=np.int32)
    offsets = stored[column.offset : column.offset + len(column) + 1].astype(np.int64)
    data = column.buffers()[2]
    return np.frombuffer(data or b"", dtype=np.uint8), offsets[:-1], np.diff(offsets)


def _bytes_words(data: Bytes, starts: Int64s, lengths: Int64s) -> Words:
    """XXH64 of bytes of any length, a word of all rows that are long enough at a time."""
    # Eight bytes more, so that a word can be read anywhere.
    raw = np.zeros(len(data) + 8, dtype=np.uint8)
    raw[:-8] = data
    longs: UInt64s = np.ndarray((len(raw) - 7,), np.uint64, raw, strides=(1,))

    def words(seeds: UInt64s) -> UInt64s:
        return np.stack([of_one(each) for each in seeds])

    def of_one(seeds: UInt64s) -> UInt64s:
        found = seeds + _P5
        lanes = np.flatnonzero(lengths >= _LANE)
        at = starts.copy()
        if len(lanes):
            found[lanes] = _lanes(longs, at, lengths, lanes, seeds)
        found += lengths.astype(np.uint64)
        left = lengths - (at - starts)
        rows = np.flatnonzero(left >= 8)
        while len(rows):
            found[rows] = _with_long(found[rows], longs[at[rows]])
            at[rows] += 8
            left[rows] -= 8
            rows = rows[left[rows] >= 8]
        rows = np.flatnonzero(left >= 4)
        if len(rows):
            ints = longs[at[rows]] & np.uint64(0xFFFFFFFF)
            part = _rotated(found[rows] ^ (ints * _P1), 23)
            found[rows] = part * _P2 + _P3
            at[rows] += 4
            left[rows] -= 4
        rows = np.flatnonzero(left > 0)
        while len(rows):
            part = _rotated(found[rows] ^ (raw[at[rows]].astype(np.uint64) * _P5), 11)
            found[rows] = part * _P1
            at[rows] += 1
            left[rows] -= 1
            rows = rows[left[rows] > 0]
        return _mixed(found)

    return words


def _lanes(
    longs: UInt64s,
    at: Int64s,
    lengths: Int64s,
    rows: Int64s,
    seeds: UInt64s,
) -> UInt64s:
    """The four lanes of long strings, merged; moves `at` behind what they read."""
    seed = seeds[rows]
    lanes = [seed + _P1 + _P2, seed + _P2, seed.copy(), seed - _P1]
    blocks = lengths[rows] // _LANE
    for block in range(int(blocks.max())):
        live = np.flatnonzero(blocks > block)
        place = at[rows[live]]
        for i, lane in enumerate(lanes):
            lane[live] = _rotated(lane[live] + longs[place + 8 * i] * _P2, 31) * _P1
        at[rows[live]] += _LANE
    found = _rotated(lanes[0], 1)
    for lane, bits in zip(lanes[1:], (7, 12, 18), strict=True):
        found += _rotated(lane, bits)
    for lane in lanes:
        found ^= _rotated(lane * _P2, 31) * _P1
        found *= _P1
        found += _P4
    return found
