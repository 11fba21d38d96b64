"""Segments and runs: what the commit log remembers of immutable sorted files.

A segment is one Arrow IPC file holding an arranged table. A run is a sequence of segments with
ascending, disjoint key ranges, all rows of one key in one segment: a bulk load is one run of many
segments, a small step is one run of one. Both are plain values; the bytes are `store.Store`'s.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any


@dataclass(frozen=True, slots=True)
class Segment:
    """A file of `rows` rows with keys from `low` to `high`, both included."""

    path: str
    rows: int
    low: int
    high: int
    size: int
    checksum: str
    growth: int
    """By how many rows its collection grows the one it is added to: the sum of the weights."""

    def to_json(self) -> dict[str, Any]:
        # Every record of the log has dozens of these; `asdict` copies what is plain already.
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Segment:
        return cls(**{"growth": data["rows"], **data})


@dataclass(frozen=True, slots=True)
class Run:
    """Segments that together are one sorted sequence of rows."""

    segments: tuple[Segment, ...]

    def __post_init__(self) -> None:
        for before, after in pairwise(self.segments):
            if before.high >= after.low:
                raise ValueError(f"segments overlap: {before.path} and {after.path}")

    @property
    def rows(self) -> int:
        return sum(segment.rows for segment in self.segments)

    @property
    def growth(self) -> int:
        return sum(segment.growth for segment in self.segments)

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(segment.path for segment in self.segments)

    def to_json(self) -> list[dict[str, Any]]:
        return [segment.to_json() for segment in self.segments]

    @classmethod
    def from_json(cls, data: Iterable[Mapping[str, Any]]) -> Run:
        return cls(tuple(Segment.from_json(segment) for segment in data))


def run_of(segments: Iterable[Segment | None]) -> Run:
    """The run of the segments that partitions wrote, in any order; empty ones are None."""
    return Run(tuple(sorted((s for s in segments if s is not None), key=lambda s: s.low)))
