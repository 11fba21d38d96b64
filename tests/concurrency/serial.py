"""Does an order explain what everybody was told? Snapshot isolation, judged from outside.

Registers hold the list of the transactions that appended to them, so a value shows the whole order
of the writes before it. From values alone, and from when calls began and ended, follows what must
have come before what:

    write, then write     j stands right after i in a register's list
    write, then read      j read a list that ends in i
    read, then write      j read a list, and i is the next in it
    told, then begun      i was told its epoch before j began

A transaction reads at its start and writes at its commit, so each has two places in the order.
Writes and what follows them lead from a commit to a start; what somebody did not see leads from its
start to the commit that it did not see. An order exists exactly if these have no cycle.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise


class Outcome(Enum):
    """What a transaction was told."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"
    """Nothing: its process died."""


Key = int | str
Writers = tuple[int, ...]
"""The transactions that appended to a register, in order."""


@dataclass(frozen=True, slots=True)
class Observed:
    """A transaction as the one who ran it saw it."""

    id: int
    begun: float
    ended: float
    outcome: Outcome
    epoch: int | None = None
    reads: Mapping[Key, Writers] = field(default_factory=dict)
    """What it read before it appended anything."""
    appends: frozenset[Key] = frozenset()


Place = tuple[str, int]


def anomalies(observed: Sequence[Observed], final: Mapping[Key, Writers]) -> list[str]:
    """What no serial order explains, in words; nothing if all is well."""
    known = {each.id: each for each in observed}
    found = [*_lost_and_seen(known, final), *_torn(known, final), *_disordered(known, final)]
    return found or _cycles(known, final)


def _lost_and_seen(known: Mapping[int, Observed], final: Mapping[Key, Writers]) -> list[str]:
    """What was acknowledged is there once; what was rolled back is not."""
    found = []
    written = {key: Counter(writers) for key, writers in final.items()}
    aborted = {each.id for each in known.values() if each.outcome is Outcome.ABORTED}
    for each in known.values():
        for key in each.appends:
            times = written[key][each.id] if key in written else 0
            if each.outcome is Outcome.COMMITTED and times != 1:
                found.append(
                    f"{each.id} was told epoch {each.epoch}, and is {times} times in {key}"
                )
            if each.outcome is Outcome.ABORTED and times:
                found.append(f"{each.id} was rolled back, and is in {key}")
            if times > 1:
                found.append(f"{each.id} is {times} times in {key}")
    for key, writers in final.items():
        found += [f"nobody wrote {w} into {key}" for w in writers if w not in known]
    for each in known.values():
        for key, writers in each.reads.items():
            for writer in sorted(aborted.intersection(writers)):
                found.append(f"{each.id} read {writer} in {key}, which was rolled back")
    return found


def _torn(known: Mapping[int, Observed], final: Mapping[Key, Writers]) -> list[str]:
    """Whatever was read of a register is how its list began."""
    return [
        f"{each.id} read {writers} in {key}, which became {final.get(key, ())}"
        for each in known.values()
        for key, writers in each.reads.items()
        if final.get(key, ())[: len(writers)] != writers
    ]


def _disordered(known: Mapping[int, Observed], final: Mapping[Key, Writers]) -> list[str]:
    """Epochs grow along each register."""
    found = []
    for key, writers in final.items():
        told = [known[w] for w in writers if w in known and known[w].epoch is not None]
        for one, other in pairwise(told):
            assert one.epoch is not None and other.epoch is not None
            if one.epoch >= other.epoch:
                found.append(f"{key}: {one.id} at {one.epoch} before {other.id} at {other.epoch}")
    return found


def _cycles(known: Mapping[int, Observed], final: Mapping[Key, Writers]) -> list[str]:
    graph: dict[Place, set[Place]] = {}

    def before(one: Place, other: Place) -> None:
        graph.setdefault(other, set()).add(one)

    committed = {w for writers in final.values() for w in writers if w in known}
    present = [e for e in known.values() if e.outcome is Outcome.COMMITTED or e.id in committed]
    for each in present:
        before(("start", each.id), ("commit", each.id))
    for writers in final.values():
        for one, other in pairwise(writers):
            before(("commit", one), ("start", other))
    for each in present:
        for key, seen in each.reads.items():
            if seen:
                before(("commit", seen[-1]), ("start", each.id))
            following = final.get(key, ())[len(seen) : len(seen) + 1]
            for writer in following:
                if writer != each.id:
                    before(("start", each.id), ("commit", writer))
    # Pairs would be as many as the square: a line of moments leads from those told to those begun.
    told = sorted((e for e in present if e.outcome is Outcome.COMMITTED), key=lambda e: e.ended)
    ends = [each.ended for each in told]
    for moment, each in enumerate(told):
        before(("commit", each.id), ("told", moment))
        before(("told", moment - 1), ("told", moment))
    for each in present:
        before(("told", bisect_left(ends, each.begun) - 1), ("start", each.id))
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        cycle = " < ".join(f"{kind} of {id_}" for kind, id_ in error.args[1])
        return [f"no order explains: {cycle}"]
    return []
