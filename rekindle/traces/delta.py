"""How a trace came out of the one before it, as a record of the log says it.

A step adds a run and moves merges on; most runs are those of the trace before. So the form of the
next trace names these by their place in that one, and has only what is new in full: a record has as
many bytes as the step has new files, and not as the trace has files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from rekindle.shapes import ShapeError
from rekindle.traces.segment import Run, Segment
from rekindle.traces.trace import Merge, Trace

_T = TypeVar("_T", Run, Segment)


def delta_to_json(before: Trace, after: Trace) -> dict[str, Any]:
    """The next trace of one with the same layout: places for what both have."""
    known = before.readable_runs
    places = {_name(run): i for i, run in enumerate(known)}
    pieces = {piece.path: i for i, piece in enumerate(_pieces(before))}

    def run_of(run: Run) -> Any:
        place = places.get(_name(run))
        return place if place is not None and known[place] == run else run.to_json()

    def piece_of(piece: Segment) -> Any:
        place = pieces.get(piece.path)
        return piece.to_json() if place is None else place

    return {
        "runs": [run_of(run) for run in after.runs],
        "merges": [
            {
                **merge.to_json(),
                "inputs": [run_of(run) for run in merge.inputs],
                "output": [piece_of(piece) for piece in merge.output],
            }
            for merge in after.merges
        ],
        **({"partial": True} if after.partial else {}),
    }


def delta_from_json(before: Trace, data: Mapping[str, Any]) -> Trace:
    """The trace that comes out of the one before it."""
    runs, pieces = before.readable_runs, _pieces(before)

    def run_of(found: Any) -> Run:
        return _at(runs, found) if isinstance(found, int) else Run.from_json(found)

    def piece_of(found: Any) -> Segment:
        return _at(pieces, found) if isinstance(found, int) else Segment.from_json(found)

    return Trace(
        before.layout,
        tuple(map(run_of, data["runs"])),
        tuple(
            Merge(
                tuple(map(run_of, merge["inputs"])),
                tuple(map(piece_of, merge["output"])),
                merge["next_key"],
                merge["done"],
                merge["credit"],
            )
            for merge in data["merges"]
        ),
        data.get("partial", False),
    )


def _pieces(trace: Trace) -> Sequence[Segment]:
    return [piece for merge in trace.merges for piece in merge.output]


def _name(run: Run) -> str:
    return run.segments[0].path if run.segments else ""


def _at(known: Sequence[_T], place: int) -> _T:
    if not 0 <= place < len(known):
        raise ShapeError(f"there is no part {place} of the trace before, which has {len(known)}")
    return known[place]
