"""Traces: the integral of a stream of changes, as runs that merge in the background of steps.

The trace of a stream of changes is their sum, I(Δ) (DBSP section 2.3). A step appends its change as
a run. Runs are classed by size into levels, each `RATIO` times the one below; when `FAN_IN` runs
are idle in a level their merge starts. A merge walks the key space: every step gives it some fuel
(rows to read), it adds the next key range of its inputs into one more output segment, and when it
reaches the end its output replaces its inputs. Readers use the inputs until then. So a step's work
is bounded and no step ever rewrites the whole trace.

Why merges keep up. Runs of level l > 0 have between b and RATIO·b rows, so FAN_IN of them are at
least FAN_IN·b inserted rows, while merging them reads at most FAN_IN·RATIO·b rows. A merge that may
read RATIO rows for each inserted one therefore ends before FAN_IN more runs have come to its level.
`fuel_for` gives every merge that much, and enough to end any merge of level 0 at once. So a small
trace of which a step changes a third or more is merged at every step, for at most `REPLACED` times
the rows of the step: what is changed all the time is not kept several times. Hence a
level has fewer than 2·FAN_IN runs, idle or being merged, apart from what one step brings; the
number of runs is logarithmic in the rows, and so is the work of a step per row it inserts.

A trace is an immutable value; `advance` makes the next one. Files are only added, under names
from the caller, and dropped files stay until the caller deletes them after its commit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import pyarrow as pa

from rekindle.traces.consolidate import consolidate
from rekindle.traces.layout import TraceLayout
from rekindle.traces.packed import unpacked
from rekindle.traces.partition import KEY_HIGH, KEY_LOW
from rekindle.traces.run_view import RunView, all_slices, cut
from rekindle.traces.segment import Run, Segment
from rekindle.traces.sieve import Sieve
from rekindle.traces.store import Durability, Store

RATIO = 4
FAN_IN = 4
LEVEL_ZERO_ROWS = 1024
MINIMUM_FUEL = 2 * FAN_IN * LEVEL_ZERO_ROWS
REPLACED = 3
_PIECES = 64
_SMALLEST_PIECE, _LARGEST_PIECE = 2**14, 2**18


@dataclass(frozen=True, slots=True)
class Merge:
    """A merge under way: all keys below `next_key` are in `output`; `credit` is unspent fuel.

    Fuel is saved up until it buys a piece of some size, so that a large merge fed by many small
    steps does not leave thousands of files.
    """

    inputs: tuple[Run, ...]
    output: tuple[Segment, ...] = ()
    next_key: int = KEY_LOW
    done: int = 0
    credit: int = 0

    @property
    def rows(self) -> int:
        return sum(run.rows for run in self.inputs)

    @property
    def piece(self) -> int:
        return max(_SMALLEST_PIECE, min(_LARGEST_PIECE, self.rows // _PIECES))

    def to_json(self) -> dict[str, Any]:
        return {
            "inputs": [run.to_json() for run in self.inputs],
            "output": [segment.to_json() for segment in self.output],
            "next_key": self.next_key,
            "done": self.done,
            "credit": self.credit,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Merge:
        return cls(
            inputs=tuple(Run.from_json(run) for run in data["inputs"]),
            output=tuple(Segment.from_json(segment) for segment in data["output"]),
            next_key=data["next_key"],
            done=data["done"],
            credit=data["credit"],
        )


@dataclass(frozen=True, slots=True)
class Trace:
    """The sum of all runs: the idle ones, newest last, and the inputs of the merges."""

    layout: TraceLayout
    runs: tuple[Run, ...] = ()
    merges: tuple[Merge, ...] = ()
    partial: bool = False
    """Have rows been removed that nobody can look at any more? Then it is not the whole sum."""

    @property
    def readable_runs(self) -> tuple[Run, ...]:
        """The runs whose sum the trace is."""
        return (*(run for merge in self.merges for run in merge.inputs), *self.runs)

    @property
    def rows(self) -> int:
        """Stored rows; an upper bound of the rows of the collection."""
        return sum(run.rows for run in self.readable_runs)

    @property
    def live(self) -> int:
        """Rows of the collection, each as often as it occurs."""
        return sum(run.growth for run in self.readable_runs)

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Every file the trace needs, including the output of merges under way."""
        stored = tuple(segment for run in self.readable_runs for segment in run.segments)
        return (*stored, *(segment for merge in self.merges for segment in merge.output))

    def to_json(self) -> dict[str, Any]:
        return {
            "layout": self.layout.to_json(),
            "runs": [run.to_json() for run in self.runs],
            "merges": [merge.to_json() for merge in self.merges],
            **({"partial": True} if self.partial else {}),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Trace:
        return cls(
            layout=TraceLayout.from_json(data["layout"]),
            runs=tuple(Run.from_json(run) for run in data["runs"]),
            merges=tuple(Merge.from_json(merge) for merge in data["merges"]),
            partial=data.get("partial", False),
        )


class Advance(NamedTuple):
    """The next trace, the files written for it, and the files it no longer needs."""

    trace: Trace
    added: tuple[str, ...]
    dropped: tuple[str, ...]


def level(rows: int) -> int:
    """The level of a run: 0 below `LEVEL_ZERO_ROWS`, then one more for each factor `RATIO`.

    >>> [level(rows) for rows in (1, 1023, 1024, 4095, 4096)]
    [0, 0, 1, 1, 2]
    """
    found = 0
    while rows >= LEVEL_ZERO_ROWS * RATIO**found:
        found += 1
    return found


def fuel_for(rows: int) -> int:
    """Fuel for each merge with which merges keep up when a step adds `rows` rows."""
    return max(MINIMUM_FUEL, RATIO * rows)


def advance(
    trace: Trace,
    run: Run | None,
    fuel: int,
    store: Store,
    name: Callable[[], str],
    durability: Durability = Durability.IMMEDIATE,
    sieve: Sieve | None = None,
) -> Advance:
    """The trace plus `run`, with each merge moved on by about `fuel` rows and its credit.

    `name` gives a fresh path for every file written. The meaning of the result is the sum of the
    trace and the run, whatever the fuel; without rows, as merges come to them, that a sieve says
    nobody looks at any more.
    """
    before = {segment.path for segment in trace.segments}
    runs = trace.runs
    if run is not None and run.rows:
        runs = (*runs, run)
        before.update(run.paths)
    written: set[str] = set()

    def fresh_name() -> str:
        path = name()
        written.add(path)
        return path

    idle, started = _start_merges(runs)
    if not started and not trace.merges and _is_replaced(runs):
        idle, started = (), [Merge(runs)]
    waiting, unfinished = [*started, *reversed(trace.merges)], []
    partial = trace.partial
    while waiting:
        merge = waiting.pop()
        remaining = merge.rows - merge.done
        merge = replace(merge, credit=min(merge.credit + fuel, remaining))
        if fuel > 0 and merge.credit >= min(merge.piece, remaining):
            merge, removed = _continue(merge, trace.layout, store, fresh_name, durability, sieve)
            partial = partial or removed
        if merge.next_key < KEY_HIGH:
            unfinished.append(merge)
        else:
            merged = (Run(merge.output),) if merge.output else ()
            idle, started = _start_merges((*merged, *idle))
            waiting += started
    result = Trace(trace.layout, idle, tuple(unfinished), partial)
    after = {segment.path for segment in result.segments}
    return Advance(
        result, tuple(sorted(written & after)), tuple(sorted((before | written) - after))
    )


def _start_merges(runs: tuple[Run, ...]) -> tuple[tuple[Run, ...], list[Merge]]:
    """The runs that stay idle, and a merge for each level that is full."""
    levels: dict[int, list[Run]] = {}
    for run in runs:
        levels.setdefault(level(run.rows), []).append(run)
    full = {found: tuple(members) for found, members in levels.items() if len(members) >= FAN_IN}
    if not full:
        return runs, []
    idle = tuple(run for run in runs if level(run.rows) not in full)
    return idle, [Merge(inputs) for inputs in full.values()]


def _is_replaced(runs: tuple[Run, ...]) -> bool:
    """Is the newest run a large part of a small trace, so that the merge is worth its rows?"""
    total = sum(run.rows for run in runs)
    return len(runs) > 1 and total <= min(MINIMUM_FUEL, REPLACED * runs[-1].rows)


def _continue(
    merge: Merge,
    layout: TraceLayout,
    store: Store,
    name: Callable[[], str],
    durability: Durability,
    sieve: Sieve | None,
) -> tuple[Merge, bool]:
    """The merge after its credit was spent on the next key range; were rows of it removed?"""
    views = [RunView.of_run(run, store, layout=layout) for run in merge.inputs]
    last = merge.credit >= merge.rows - merge.done
    bound = KEY_HIGH if last else cut(views, merge.next_key, KEY_HIGH, merge.credit)
    pieces = all_slices(views, merge.next_key, bound)
    read = sum(len(piece) for piece in pieces)
    output, removed = merge.output, False
    if pieces:
        summed = consolidate(pa.concat_tables(map(unpacked, pieces)), layout)
        left = summed if sieve is None else sieve.left(summed)
        removed = len(left) < len(summed)
        output += store.write_run(left, name, durability).segments
    credit = max(0, merge.credit - read)
    return Merge(merge.inputs, output, bound, merge.done + read, credit), removed
