"""What a lease says: who writes, since when, and how far the log had come when it was renewed.

Each takeover creates the file of the next number, which only one can do; the highest number is the
writer's. Its owner renews it in place by counting up. The file also keeps the head of the log,
apart from the log: the last epoch that its owner committed. It is noted after the record is
durable, so a head behind the records is normal, and one ahead of them shows that some were lost.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, fields

import xxhash

from rekindle import shapes
from rekindle.shapes import ShapeError, open_record, read_json, text, truth, whole
from rekindle.traces.store import Store

DIRECTORY = "lease"
SIZE = 512
"""All have one size, so that one write in place, of one sector, replaces the other."""
LONGEST_HOST = 64
_NAME = re.compile("[0-9]{16}")
_TORN_READS = 5
_LATEST = 253_402_300_799
"""The last second that a calendar has."""
_SHAPE = open_record(
    number=whole(0),
    token=text,
    host=text,
    pid=whole(0),
    since=shapes.number,
    renewed=shapes.number,
    term=shapes.number,
    renewals=whole(0),
    head=whole(-1),
    ended=truth,
    pending=truth,
)


@dataclass(frozen=True, slots=True)
class Holding:
    """One writer's hold on the database, as it was at its last renewal."""

    number: int
    token: str
    """What tells this writer from any other."""
    host: str
    pid: int
    since: float
    renewed: float
    term: float
    renewals: int = 0
    head: int = -1
    ended: bool = False
    """Closed: its process writes no more."""
    pending: bool = False
    """May something of this writer, or of one before it, still be committed?"""

    def describe(self) -> str:
        """Who it is, since when, and until when it holds without another renewal."""
        since, until = (
            time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(min(max(0.0, moment), _LATEST)))
            for moment in (self.since, self.renewed + self.term)
        )
        return f"held by process {self.pid} on {self.host} since {since}, at least until {until}"

    def to_bytes(self) -> bytes:
        body = json.dumps(asdict(self), separators=(",", ":")).encode()
        data = xxhash.xxh3_64_hexdigest(body).encode() + b"\n" + body
        return data.ljust(SIZE, b"\n")


def name_of(number: int) -> str:
    return f"{DIRECTORY}/{number:016}"


def numbers(store: Store) -> list[int]:
    """The numbers of the leases that have files, ascending."""
    names = (path.rpartition("/")[2] for path in store.list(DIRECTORY))
    return sorted(int(name) for name in names if _NAME.fullmatch(name))


def read(store: Store, number: int) -> Holding | None:
    """The lease of a number; None if its file is gone, or nothing can be read from it."""
    for _ in range(_TORN_READS):
        try:
            data = store.read_bytes(name_of(number))
        except FileNotFoundError:
            return None
        with suppress(ValueError, ShapeError):
            return _parsed(data)
        # It may be under way from one renewal to the next.
        time.sleep(0.01)
    return None


def holdings(store: Store) -> Iterator[Holding]:
    """Every lease that can be read."""
    for number in numbers(store):
        found = read(store, number)
        if found is not None:
            yield found


def recorded_head(store: Store) -> int:
    """The last epoch that some writer noted as committed; -1 if none did."""
    return max((holding.head for holding in holdings(store)), default=-1)


def _parsed(data: bytes) -> Holding:
    checksum, _, body = data.rstrip(b"\n").partition(b"\n")
    if xxhash.xxh3_64_hexdigest(body).encode() != checksum:
        raise ValueError("torn")
    values = read_json(body, _SHAPE)
    return Holding(**{field.name: values[field.name] for field in fields(Holding)})
