"""How late rows of a table may be, as users say it: `lateness={"ts": "5 minutes"}`."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from rekindle.catalyst.jvm import Catalyst, simple_name
from rekindle.errors import DefinitionError
from rekindle.runtime.arguments import one_of
from rekindle.runtime.engine import Engine
from rekindle.runtime.epochs.state import TableEntry
from rekindle.runtime.time.lateness import TIMES, Late, Lateness

Interval: TypeAlias = str | dt.timedelta
"""A length of time: `"5 minutes"`, `"INTERVAL '1' DAY"`, or a `timedelta`."""
LONGEST = 10**18
"""Microseconds; a longer while would lead out of all times."""
_BEGINNING = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@dataclass(frozen=True, slots=True)
class Timed:
    """What a user says of the lateness of a table."""

    column: str
    lateness: Interval
    late: Late = Late.DROPPED
    retain: Interval | None = None

    def of(self, catalyst: Catalyst, entry: TableEntry) -> Lateness:
        """The lateness of a table with such a column."""
        names = [name.lower() for name in entry.schema.names]
        if self.column.lower() not in names:
            raise DefinitionError(
                f"'{entry.name}' has no column '{self.column}' to have a lateness",
                detail=f"columns: {', '.join(entry.schema.names)}",
            )
        column = names.index(self.column.lower())
        type_ = entry.schema.types[column]
        if type_ not in TIMES:
            raise DefinitionError(
                f"column '{self.column}' of '{entry.name}' cannot have a lateness",
                detail=f"it is of the type {type_}",
                hint="a lateness is that of a TIMESTAMP or TIMESTAMP_NTZ",
            )
        micros = length_of(catalyst, f"the lateness of '{self.column}'", self.lateness)
        retain = None
        if self.retain is not None:
            retain = length_of(catalyst, f"how long '{entry.name}' retains rows", self.retain)
            if not retain:
                raise DefinitionError(f"'{entry.name}' cannot retain rows for no time at all")
        return Lateness(column, micros, self.late, retain)


def timed_by(
    table: str,
    lateness: Mapping[str, Interval] | None,
    late: str | None,
    retain: Interval | None,
) -> Timed | None:
    """What the arguments of `db.create_table` say of lateness, if they say anything."""
    if lateness is None:
        given = {"late": late, "retain": retain}
        for name, value in given.items():
            if value is not None:
                raise DefinitionError(
                    f"'{table}' is given {name} and no lateness",
                    detail="which rows are late or old is decided by a watermark",
                    hint="declare how late rows may be: ts TIMESTAMP LATENESS INTERVAL 5 MINUTES, "
                    "or lateness={'ts': '5 minutes'}",
                )
        return None
    if not isinstance(lateness, Mapping) or len(lateness) != 1:
        raise DefinitionError(
            f"one column of '{table}' has a lateness, which is given as {lateness!r}",
            hint="write lateness={'ts': '5 minutes'}",
        )
    ((column, length),) = lateness.items()
    word = one_of("late", Late.DROPPED.value if late is None else late, [w.value for w in Late])
    return Timed(str(column), length, Late(word), retain)


def length_of(catalyst: Catalyst, what: str, given: object) -> int:
    """A length of time in microseconds."""
    if isinstance(given, dt.timedelta):
        micros = given // dt.timedelta(microseconds=1)
    else:
        micros = _read(catalyst, what, given)
    if not 0 <= micros <= LONGEST:
        raise DefinitionError(
            f"{what} cannot be {given}", detail="it is negative, or longer than all times"
        )
    return micros


def _read(catalyst: Catalyst, what: str, given: object) -> int:
    hint = "write a length of days or shorter units, such as '5 minutes' or INTERVAL '1' DAY"
    text = str(given).strip()
    if not text.upper().startswith("INTERVAL"):
        text = f"INTERVAL {text}"
    try:
        found = catalyst.session.sessionState().sqlParser().parseExpression(text)
    except (Py4JError, PySparkException) as error:
        raise DefinitionError(f"{what} cannot be read from {given!r}", hint=hint) from error
    is_length = simple_name(found) == "Literal"
    if not is_length or simple_name(found.dataType()) != "DayTimeIntervalType":
        raise DefinitionError(
            f"{what} is not a length of time: {given!r}",
            detail="months and years are not of one length",
            hint=hint,
        )
    return int(found.value())


@dataclass(frozen=True, slots=True)
class Watermark:
    """What a table's watermark is: rows with an earlier time are late from now on."""

    table: str
    column: str
    lateness: dt.timedelta
    time: dt.datetime | None
    """None until the table has seen a time; without a zone for a TIMESTAMP_NTZ."""
    late: int
    """How many rows came too late so far, those to be deleted among them."""
    kept_from: dt.datetime | None
    """Rows with an earlier time have left the table."""


def shown_instant(micros: int) -> dt.datetime:
    """An instant in UTC; before the first that Python has, and after the last, it is that one."""
    try:
        return _BEGINNING + dt.timedelta(microseconds=micros)
    except OverflowError:
        end = dt.datetime.min if micros < 0 else dt.datetime.max
        return end.replace(tzinfo=dt.UTC)


def watermark_of(engine: Engine, table: str) -> Watermark:
    """The watermark of a table as it is now."""
    entry = engine.state.entry(table)
    if not isinstance(entry, TableEntry) or entry.lateness is None:
        raise DefinitionError(
            f"'{table}' has no watermark",
            detail="none of its columns has a lateness",
            hint="CREATE TABLE ... (ts TIMESTAMP LATENESS INTERVAL 5 MINUTES)",
        )
    field = entry.schema.fields[entry.lateness.column]
    row = engine.watermark(entry.name)

    def instant(micros: int | None) -> dt.datetime | None:
        found = None if micros is None else shown_instant(micros)
        return found if found is None or field.type == "timestamp" else found.replace(tzinfo=None)

    return Watermark(
        entry.name,
        field.name,
        dt.timedelta(microseconds=entry.lateness.micros),
        None if row is None else instant(row.watermark),
        0 if row is None else row.late,
        None if row is None else instant(row.kept_from),
    )
