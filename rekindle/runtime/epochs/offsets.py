"""How far each source of changes has been read: part of the epoch, as the rows that it gave are.

A source is whatever gives rows in an order of its own: a stream, a watched directory, the log of
another system. It has a name, and an offset whose text is the source's own affair.

The law: one record commits the rows of a source and the offset after them. So whatever interrupts
whom, the offset says which rows are there, and a source that goes on from it loses and repeats
none. An offset that is committed apart from its rows, before or after them, cannot have that law.

An `OffsetChange` is a comparison and an assignment: it is refused if somebody else has moved the
source since the transaction began, as a change of the same row is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rekindle.errors import ConflictError, DefinitionError
from rekindle.names import is_text


@dataclass(frozen=True, slots=True)
class Offset:
    """Where a source stands, and since which epoch.

    It is not known (None) in a database that was restored to an epoch before the source's last one.
    """

    text: str | None
    epoch: int

    def to_json(self) -> list[Any]:
        return [self.text, self.epoch]

    @classmethod
    def from_json(cls, data: Iterable[Any]) -> Offset:
        return cls(*data)


Offsets = Mapping[str, Offset]


@dataclass(frozen=True, slots=True)
class OffsetChange:
    """A source that stood at `before`, or was not known, is moved to the offset `after`."""

    source: str
    before: Offset | None
    after: str


def check_source(source: object) -> None:
    """Raise unless this can be the name of a source."""
    if not isinstance(source, str) or not source or not is_text(source):
        raise DefinitionError(
            f"{source!r} is not the name of a source",
            hint="name the stream or other source by a text that stays the same",
        )


def position(offsets: Offsets, source: str) -> str | None:
    """The offset of a source; None of one that has given nothing yet."""
    check_source(source)
    found = offsets.get(source)
    if found is None:
        return None
    if found.text is None:
        raise DefinitionError(
            f"how far '{source}' had been read is not known",
            detail=f"the database was restored to epoch {found.epoch}, and the source was moved "
            "after that",
            hint=f"find out which rows are there, and say tx.advance('{source}', offset)",
        )
    return found.text


def batch_number(source: str, offset: str | None) -> int:
    """The number of the last batch of a source that is read batch by batch; -1 before the first."""
    if offset is None:
        return -1
    if not offset.isdecimal():
        raise DefinitionError(
            f"'{source}' is not read by numbered batches",
            detail=f"its offset is '{offset[:80]}'",
            hint="give each stream a name of its own",
        )
    return int(offset)


def with_changes(offsets: Offsets, changes: Iterable[OffsetChange], epoch: int) -> Offsets:
    """The offsets after an epoch; raises `ConflictError` if a source was moved by somebody else.

    >>> after = with_changes({}, [OffsetChange("clicks", None, "7")], 3)
    >>> after
    {'clicks': Offset(text='7', epoch=3)}
    >>> with_changes(after, [OffsetChange("clicks", None, "7")], 4)
    Traceback (most recent call last):
    rekindle.errors.ConflictError: 'clicks' was read on by another transaction
      detail: it stands at '7' since epoch 3
      hint: nothing was applied; begin the transaction again
    """
    found = dict(offsets)
    for change in changes:
        there = offsets.get(change.source)
        if there != change.before:
            stands = "it is no longer known"
            if there is not None:
                stands = f"it stands at '{there.text}' since epoch {there.epoch}"
            raise ConflictError(
                f"'{change.source}' was read on by another transaction",
                detail=stands,
                hint="nothing was applied; begin the transaction again",
            )
        found[change.source] = Offset(change.after, epoch)
    return found


def as_of(offsets: Offsets, epoch: int) -> Offsets:
    """The offsets of a database that is restored to an earlier epoch."""
    return {
        source: offset if offset.epoch <= epoch else Offset(None, epoch)
        for source, offset in offsets.items()
    }
