"""Times of a clock on the wall as instants, in the session's time zone.

A TIMESTAMP is an instant. A value without a zone (a `datetime` without tzinfo, a timestamp of Arrow
or pandas without one) says what a clock showed, and the clock is that of the session, as it is for
a literal in SQL. An hour that the clock shows twice is the first of the two; one that it skips is
read with the offset before the jump. Values with a zone are instants already, and a TIMESTAMP_NTZ
keeps what the clock showed.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

Zone: TypeAlias = Callable[[], str]
"""Gives the name of the session's time zone; asked only where a value needs it."""

_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::(\d{2}))?(?::(\d{2}))?")


def is_instant(target: pa.DataType) -> bool:
    """Is this the type of a TIMESTAMP column?"""
    return bool(pa.types.is_timestamp(target)) and target.tz is not None


def has_instant(target: pa.DataType) -> bool:
    """Does a type have a TIMESTAMP in it, at any depth?"""
    if is_instant(target):
        return True
    return any(has_instant(target.field(i).type) for i in range(target.num_fields))


def is_wall_time(value: object) -> bool:
    """Does a value say what a clock showed, and not where the clock was?"""
    if value is pd.NaT:
        return False
    return isinstance(value, np.datetime64) or (
        isinstance(value, dt.datetime) and value.tzinfo is None
    )


def instants(values: Sequence[Any], zone: Zone) -> Sequence[Any]:
    """Values with those that have no zone given the session's."""
    if not any(map(is_wall_time, values)):
        return values
    clock = _clock(zone())
    return [_at(value, clock) if is_wall_time(value) else value for value in values]


def instant(value: Any, zone: Zone) -> Any:
    """The same for one value."""
    return _at(value, _clock(zone())) if is_wall_time(value) else value


def _at(value: Any, clock: dt.tzinfo) -> dt.datetime | None:
    """The instant at which a clock shows a time; other libraries' times become Python's first.

    Python reads times that a clock skips, or shows twice, as a literal in SQL is read.
    """
    if isinstance(value, np.datetime64):
        value = pd.Timestamp(value)
    if value is pd.NaT:
        return None
    if isinstance(value, pd.Timestamp):
        if value.nanosecond:
            raise ValueError(f"{value} has nanoseconds, and a TIMESTAMP has microseconds")
        value = value.to_pydatetime()
    whole: dt.datetime = value.replace(tzinfo=clock)
    return whole


def instants_of_arrow(values: Any, zone: Zone) -> Any:
    """An Arrow array of timestamps without a zone as instants.

    >>> import datetime
    >>> skipped = pa.array([datetime.datetime(2024, 3, 31, 2, 30)], pa.timestamp("us"))
    >>> instants_of_arrow(skipped, lambda: "Europe/Berlin")[0].as_py().isoformat()
    '2024-03-31T01:30:00+00:00'
    """
    walls = pc.cast(values, pa.timestamp("us"))
    clock = _clock(zone())
    if isinstance(clock, ZoneInfo):
        try:
            # Of times that the clock skips this is the last moment before the jump, whose offset
            # is the one to read them with.
            before = pc.assume_timezone(
                walls, clock.key, ambiguous="earliest", nonexistent="earliest"
            )
        except pa.ArrowInvalid:
            # Arrow has no time zones of its own, and a small system may have none either.
            listed = instants(values.to_pylist(), zone)
            return pa.array(listed, pa.timestamp("us", "UTC"))
        at_zero = pc.cast(pc.cast(before, pa.int64()), pa.timestamp("us"))
        offset = pc.subtract(pc.local_timestamp(before), at_zero)
    else:
        offset = pa.scalar(clock.utcoffset(None), pa.duration("us"))
    moved = pc.subtract(walls, offset)
    return pc.cast(pc.cast(moved, pa.int64()), pa.timestamp("us", "UTC"))


def _clock(zone: str) -> dt.tzinfo:
    """The zone that Java calls so."""
    if zone == "Z":
        return dt.UTC
    found = _OFFSET.fullmatch(zone)
    if found is None:
        return ZoneInfo(zone)
    hours, minutes, seconds = (int(part or 0) for part in found.groups()[1:])
    span = dt.timedelta(hours=hours, minutes=minutes, seconds=seconds)
    return dt.timezone(-span if found[1] == "-" else span)
