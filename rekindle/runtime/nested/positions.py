"""Where elements stand in arrays that are kept as flat rows.

Positions only have an order. Those of an array that is loaded have room between them; one that
comes later gets a position from a clock, which is behind all that there are. An array that is
replaced keeps the positions of what it has in common with the old one, in the same order, so that
only what differs moves.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Hashable, Sequence
from itertools import pairwise

import numpy as np

from rekindle.traces.arrays import Int64s

GAP = 1 << 20
"""What lies between two elements of an array that is loaded."""
_STEP = 1 << 8
"""What lies between two elements that come one after the other; so many are a microsecond."""

_lock = threading.Lock()
_last = 0


def loaded(numbers: Int64s) -> Int64s:
    """The positions of elements by their numbers in an array that is loaded."""
    return (numbers + 1) * GAP


def later(count: int) -> Int64s:
    """Positions behind all that there are."""
    global _last
    with _lock:
        start = max(_last, time.time_ns() // 1000 * _STEP) + _STEP
        _last = start + (count - 1) * _STEP
    return start + np.arange(count, dtype=np.int64) * _STEP


def kept(old: Sequence[Hashable], new: Sequence[Hashable]) -> dict[int, int]:
    """The places of new elements with those of old ones that they continue, both in order.

    Equal ones first: what the two have in common at their ends, and in between as much as has the
    same order in both. Then those that stand between the same two, if they are as many: one that
    was changed stays where it is.

    >>> kept("abcd", "axcd"), kept("abc", "cab"), kept("", "a")
    ({0: 0, 3: 3, 2: 2, 1: 1}, {1: 0, 2: 1}, {})
    """
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    found = {i: i for i in range(head)}
    places: dict[Hashable, deque[int]] = defaultdict(deque)
    for i in range(head, len(old) - tail):
        places[old[i]].append(i)
    pairs = [
        (i, places[new[i]].popleft()) for i in range(head, len(new) - tail) if places.get(new[i])
    ]
    found.update(_ascending(pairs))
    found.update((len(new) - 1 - i, len(old) - 1 - i) for i in range(tail))
    for (new_low, old_low), (new_high, old_high) in _between(found, len(new), len(old)):
        if new_high - new_low == old_high - old_low:
            found.update(zip(range(new_low, new_high), range(old_low, old_high), strict=True))
    return found


def _ascending(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """As many of the pairs as ascend on both sides; on the first they do."""
    ends: list[int] = []
    last: list[int] = []
    before: list[int] = []
    for number, (_, place) in enumerate(pairs):
        at = bisect_left(ends, place)
        before.append(last[at - 1] if at else -1)
        if at == len(ends):
            ends.append(place)
            last.append(number)
        else:
            ends[at], last[at] = place, number
    chosen = []
    number = last[-1] if last else -1
    while number >= 0:
        chosen.append(pairs[number])
        number = before[number]
    return chosen[::-1]


def _between(
    found: dict[int, int], new: int, old: int
) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """What lies between neighbours of the pairs, on both sides."""
    ends = [(-1, -1), *sorted(found.items()), (new, old)]
    return [((one[0] + 1, one[1] + 1), other) for one, other in pairwise(ends)]


def placed(known: Sequence[int | None]) -> list[int]:
    """The positions of an array's elements, some of which have theirs, in ascending order.

    If there is no room between two, all are given new ones.

    >>> placed([None, GAP, None, 3 * GAP])
    [524288, 1048576, 2097152, 3145728]
    """
    if all(each is None for each in known):
        return [int(each) for each in loaded(np.arange(len(known)))]
    found: list[int] = []
    i = 0
    while i < len(known):
        each = known[i]
        if each is not None:
            found.append(each)
            i += 1
            continue
        end = i
        while end < len(known) and known[end] is None:
            end += 1
        count = end - i
        low = found[-1] if found else 0
        if end == len(known):
            start = max(low + _STEP, int(later(count)[0]))
            found += [start + n * _STEP for n in range(count)]
        else:
            high = known[end]
            assert high is not None
            step = (high - low) // (count + 1)
            if step < 1:
                return [int(each) for each in loaded(np.arange(len(known)))]
            found += [low + (n + 1) * step for n in range(count)]
        i = end
    return found
