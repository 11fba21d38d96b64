"""How far a stream has been read, as the text of its offset in the epoch.

A batch of Structured Streaming is a number, given anew with each checkpoint, and a plan that is
written there before the batch is run: the offsets of its sources, and when it was made. A number
alone would not do: with a checkpoint that was lost or put back, a number that is known already has
rows that are not. Nor do the offsets: a directory's are numbers too, so the whole plan is compared.

The law: a batch is applied if it is the one after the last, left out if it is the last with the
same plan (its commit is known here and not to Spark), and refused in any other case. So each
row of the source is applied once, or the stream stops and says why.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from rekindle.errors import DefinitionError, StreamError
from rekindle.shapes import ShapeError, list_of, read_json, record, text, whole

_MARK = record(batch=whole(0), query=text, plan=text, offsets=list_of(text))


@dataclass(frozen=True, slots=True)
class BatchMark:
    """A batch of a query, which is what Spark calls a checkpoint, and where its sources stood."""

    batch: int
    query: str
    plan: str
    """The hash of what was planned."""
    offsets: tuple[str, ...]

    @property
    def text(self) -> str:
        """
        >>> BatchMark(3, "a1", "f0", ("7",)).text
        '{"batch": 3, "query": "a1", "plan": "f0", "offsets": ["7"]}'
        """
        return json.dumps(asdict(self))


def read_mark(stream: str, offset: str | None) -> BatchMark | None:
    """The last batch of a stream; None before the first."""
    if offset is None:
        return None
    try:
        found = read_json(offset, _MARK)
    except ShapeError as error:
        raise DefinitionError(
            f"'{stream}' is the name of a source that is no stream of this kind",
            detail=f"its offset is '{offset[:80]}'",
            hint="give the stream another name=",
        ) from error
    return BatchMark(**{**found, "offsets": tuple(found["offsets"])})


def is_repeated(stream: str, last: BatchMark | None, batch: BatchMark) -> bool:
    """Is the batch there already? Raises `StreamError` if it does not follow on the last one.

    >>> first, second = BatchMark(0, "q", "f0", ("5",)), BatchMark(1, "q", "f1", ("9",))
    >>> is_repeated("s", None, first), is_repeated("s", first, first)
    (False, True)
    >>> is_repeated("s", first, second)
    False
    >>> is_repeated("s", second, first)
    Traceback (most recent call last):
    rekindle.errors.StreamError: stream 's' was given batch 0 after batch 1
      detail: its checkpoint is older than the database
      hint: put the checkpoint back that belongs to the database; or DROP STREAM s and begin again \
where the sources stood: ["9"]
    """
    if last is None:
        if batch.batch == 0:
            return False
        raise _astray(stream, f"was given batch {batch.batch} first", "ahead of", last)
    if last.query != batch.query:
        raise lost(stream, last)
    if batch.batch == last.batch + 1:
        return False
    if batch.batch == last.batch:
        if batch.plan == last.plan:
            return True
        raise StreamError(
            f"stream '{stream}' was given another batch {batch.batch} than the one that is there",
            detail=f"its sources stood at {list(last.offsets)}, now {list(batch.offsets)}",
            hint=_hint(stream, last),
        )
    said = f"was given batch {batch.batch} after batch {last.batch}"
    relation = "older than" if batch.batch < last.batch else "ahead of"
    raise _astray(stream, said, relation, last)


def lost(stream: str, last: BatchMark) -> StreamError:
    """The error for a checkpoint that is not the one which the stream was read by."""
    return StreamError(
        f"the checkpoint of stream '{stream}' is lost",
        detail=f"the database has its batches up to {last.batch} by another checkpoint; numbers "
        "that begin again would be taken for batches that are there",
        hint=_hint(stream, last),
    )


def _astray(stream: str, said: str, relation: str, last: BatchMark | None) -> StreamError:
    return StreamError(
        f"stream '{stream}' {said}",
        detail=f"its checkpoint is {relation} the database",
        hint=_hint(stream, last),
    )


def _hint(stream: str, last: BatchMark | None) -> str:
    stood = "" if last is None else f" where the sources stood: {json.dumps(list(last.offsets))}"
    return (
        "put the checkpoint back that belongs to the database; or "
        f"DROP STREAM {stream} and begin again{stood}"
    )
