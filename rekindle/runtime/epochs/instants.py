"""A point in time that a user names, as microseconds of UTC.

A `datetime` with a zone is one; without a zone it is what a clock of the session's zone shows, as
it is for a literal in SQL. A text is whatever Spark casts to a TIMESTAMP.
"""

from __future__ import annotations

import datetime as dt

from pyspark.sql import SparkSession

from rekindle.errors import HistoryError
from rekindle.names import is_text

_BEGINNING = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)


def instant_of(spark: SparkSession, named: object) -> int:
    """The instant that a `datetime`, a date or a text stands for."""
    match named:
        case dt.datetime() if named.tzinfo is not None:
            return int((named - _BEGINNING) // _MICROSECOND)
        case dt.datetime():
            text = named.isoformat(" ", "microseconds")
        case dt.date():
            text = named.isoformat()
        case str() if is_text(named):
            text = named
        case _:
            raise _not_a_time(named)
    query = "SELECT unix_micros(try_cast(:text AS TIMESTAMP_LTZ)) AS instant"
    (row,) = spark.sql(query, args={"text": text}).collect()
    if row.instant is None:
        raise _not_a_time(named)
    return int(row.instant)


def instant_in_utc(named: object) -> int:
    """The same without Spark: a clock without a zone shows UTC, and a text is of ISO 8601.

    >>> instant_in_utc("1970-01-01 00:00:01"), instant_in_utc("1970-01-01T01:00:00+01:00")
    (1000000, 0)
    """
    try:
        match named:
            case dt.datetime() if named == named:  # Of pandas, one that is no time is a `datetime`.
                whole = named
            case dt.date() if named == named:
                whole = dt.datetime(named.year, named.month, named.day)
            case str():
                whole = dt.datetime.fromisoformat(named.strip())
            case _:
                raise _not_a_time(named)
    except ValueError:
        raise _not_a_time(named) from None
    at = whole if whole.tzinfo is not None else whole.replace(tzinfo=dt.UTC)
    return int((at - _BEGINNING) // _MICROSECOND)


def _not_a_time(named: object) -> HistoryError:
    return HistoryError(
        f"{named!r} is not a time",
        hint="give a datetime, or a text such as '2026-11-17 10:00:00' or '2026-11-17T10:00:00Z'",
    )
