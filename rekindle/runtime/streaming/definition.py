"""What a stream is, as plain data: its table, its mode and, where it can be rebuilt, its source.

A definition is stored in the commit log, so that streams are listed and can go on after a restart.
It holds no code: a source is the name of a format and options, and what was a DataFrame has to be
given again. Fields that a later version writes are kept as they are, and a stream that has some is
listed and not run: to run it without them could mean something else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rekindle.shapes import (
    Shape,
    list_of,
    map_of,
    open_record,
    optional,
    record,
    text,
    truth,
)

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]{0,99}\Z")
APPEND, CHANGES, UPSERT = "append", "changes", "upsert"
MODES = (APPEND, CHANGES, UPSERT)


def is_name(name: object) -> bool:
    """Can a stream have this name?

    >>> is_name("clicks-2"), is_name("../clicks"), is_name("..")
    (True, False, False)
    """
    return isinstance(name, str) and _NAME.match(name) is not None


@dataclass(frozen=True, slots=True)
class Source:
    """Where rows come from: a format of Spark, its options, and the columns if it is told them."""

    format: str
    options: Mapping[str, str] = field(default_factory=dict)
    schema: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {"format": self.format, "options": dict(self.options), "schema": self.schema}


@dataclass(frozen=True, slots=True)
class StreamDefinition:
    """A stream into a table."""

    table: str
    mode: str = APPEND
    weight: str | None = None
    operation: str | None = None
    sequence_by: str | None = None
    apply_as_deletes: str | None = None
    except_columns: tuple[str, ...] = ()
    rejects: bool = False
    interval: str | None = None
    available_now: bool = False
    checkpoint: str | None = None
    """Where Structured Streaming keeps how far it is; None for a directory of the database."""
    source: Source | None = None
    """None of a stream that was given as a DataFrame."""
    deletes: Source | None = None
    """Where the rows come from that leave the table."""
    beside: tuple[StreamDefinition, ...] = ()
    """What comes into other tables in the same batches: how its rows change them, and no more."""
    unknown: Mapping[str, Any] = field(default_factory=dict)
    """Fields that this version does not know, as they were found."""

    @property
    def parts(self) -> tuple[StreamDefinition, ...]:
        """How rows change each of the tables."""
        return (self, *self.beside)

    @property
    def tables(self) -> tuple[str, ...]:
        return tuple(part.table for part in self.parts)

    def with_beside(self, beside: tuple[StreamDefinition, ...]) -> StreamDefinition:
        """The same with what comes into other tables."""
        return replace(self, beside=beside)

    def triggered(
        self, interval: str | None, available_now: bool, checkpoint: str | None
    ) -> StreamDefinition:
        """The same with when batches come, and where their notes are."""
        return replace(self, interval=interval, available_now=available_now, checkpoint=checkpoint)

    def to_json(self) -> dict[str, Any]:
        """The stored form: what is not as it is by default."""
        plain = {name: getattr(self, name) for name in _PLAIN}
        said = {name: value for name, value in plain.items() if value not in (None, False)}
        if self.except_columns:
            said["except_columns"] = list(self.except_columns)
        if self.source is not None:
            said["source"] = self.source.to_json()
        if self.deletes is not None:
            said["deletes"] = self.deletes.to_json()
        if self.beside:
            said["beside"] = [part.to_json() for part in self.beside]
        return {**said, **self.unknown}

    @property
    def sources(self) -> tuple[Source, ...]:
        """All that it reads, as far as that is stored."""
        return tuple(each for each in (self.source, self.deletes) if each is not None)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> StreamDefinition:
        alone = {name: value for name, value in data.items() if name != "beside"}
        beside = tuple(cls._of_part(part) for part in data.get("beside", ()))
        return replace(cls._of_part(alone), beside=beside)

    @classmethod
    def _of_part(cls, data: Mapping[str, Any]) -> StreamDefinition:
        known = {name: data[name] for name in _PLAIN if name in data}
        others = data.keys() - {*_PLAIN, "except_columns", "source", "deletes"}
        source, deletes = data.get("source"), data.get("deletes")
        return cls(
            **known,
            except_columns=tuple(data.get("except_columns", ())),
            source=None if source is None else Source(**source),
            deletes=None if deletes is None else Source(**deletes),
            unknown={name: data[name] for name in sorted(others)},
        )


Streams = Mapping[str, StreamDefinition]

_PLAIN = (
    *("table", "mode", "weight", "operation", "sequence_by", "apply_as_deletes"),
    *("rejects", "interval", "available_now", "checkpoint"),
)
_SOURCE = record({"schema": optional(text)}, format=text, options=map_of(text))
_LATER: Mapping[str, Shape] = {
    **{name: optional(text) for name in ("weight", "operation", "sequence_by")},
    **{name: optional(text) for name in ("apply_as_deletes", "interval", "checkpoint")},
    "rejects": truth,
    "available_now": truth,
    "except_columns": list_of(text),
    **{name: optional(_SOURCE) for name in ("source", "deletes")},
}
# A mode that a later version has is refused when the stream is run.
_PART = open_record(_LATER, table=text, mode=text)
check_stream = open_record({**_LATER, "beside": list_of(_PART)}, table=text, mode=text)
"""The shape of a stored definition."""
