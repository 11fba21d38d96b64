"""What the system is told about files that are mapped into memory.

Left alone it guesses: around a page that is not in memory it reads megabytes or nothing. A file
for lookups is mapped with the advice not to read ahead. Where many rows are wanted of a column at
once, a page here and a page there, reading all of the column in order is many times faster, so that
is asked for first, unless a few probes say that the column is in memory.
"""

from __future__ import annotations

import ctypes
import mmap
import random
import time
from collections.abc import Sequence
from functools import cache
from typing import Any

LARGE_ROWS = 100_000
"""A table of fewer rows is not worth a question, nor is a buffer of fewer bytes."""
SCATTERED = 16
"""How many times longer a page takes that is read alone."""
_PROBES = 8
_CHUNK = 2**20
_BELIEVED_SECONDS = 10.0
"""For so long a column that was found in memory is taken to be there."""
_MOST_SEEN = 100_000
_seen: dict[tuple[int, int], float] = {}


def advise_random(mapped: Any) -> None:
    """Tell the system not to read ahead in a mapped file; a system that cannot be told does."""
    advice = getattr(mmap, "MADV_RANDOM", None)
    if advice is not None:
        _advise(mapped.address, mapped.size, advice)


def fetch(table: Any, rows: int, names: Sequence[str] | None = None) -> None:
    """Have columns read in order of which so many rows are about to be read anywhere."""
    if len(table) < LARGE_ROWS:
        return
    for column in table.columns if names is None else map(table.column, names):
        for buffer in (buffer for chunk in column.chunks for buffer in chunk.buffers()):
            if (
                buffer is not None
                and buffer.size >= LARGE_ROWS
                and rows * SCATTERED >= buffer.size // mmap.PAGESIZE
                and not _is_believed(buffer)
                and not _is_in_memory(buffer)
            ):
                _read_in_order(buffer)


def _is_believed(buffer: Any) -> bool:
    """Was a buffer in memory a moment ago? If not, it will have been."""
    place, now = (buffer.address, buffer.size), time.monotonic()
    believed = now - _seen.get(place, -_BELIEVED_SECONDS) < _BELIEVED_SECONDS
    if not believed:
        if len(_seen) >= _MOST_SEEN:
            _seen.clear()
        _seen[place] = now
    return believed


def _is_in_memory(buffer: Any) -> bool:
    """Are a few pages of a buffer in memory, wherever they are?"""
    found = ctypes.c_ubyte()
    pages = range(_first_page(buffer), buffer.address + buffer.size - mmap.PAGESIZE, mmap.PAGESIZE)
    for page in random.sample(pages, _PROBES):
        failed = _libc().mincore(
            ctypes.c_void_p(page), ctypes.c_size_t(mmap.PAGESIZE), ctypes.byref(found)
        )
        if not failed and not found.value & 1:
            return False
    return True


def _read_in_order(buffer: Any) -> None:
    advice = getattr(mmap, "MADV_WILLNEED", None)
    if advice is None:
        return
    end = buffer.address + buffer.size
    # The system reads no more at once than it would read ahead.
    for start in range(_first_page(buffer), end, _CHUNK):
        _advise(start, min(_CHUNK, end - start), advice)


def _first_page(buffer: Any) -> int:
    return int(buffer.address) // mmap.PAGESIZE * mmap.PAGESIZE


def _advise(address: int, size: int, advice: int) -> None:
    if address % mmap.PAGESIZE == 0:
        _libc().madvise(ctypes.c_void_p(address), ctypes.c_size_t(size), advice)


@cache
def _libc() -> Any:
    return ctypes.CDLL(None)
