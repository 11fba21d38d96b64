"""What a campaign has covered: how nodes followed changes, and features of queries and changes.

A node is counted under its kind, the way it follows a change, and where the step was: in the
driver, on Spark, or rebuilt. What a campaign must have met is declared: `WAYS` for nodes, and
`FEATURES` of queries and changes.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from rekindle.calculus.terms import Distance, Quantiles, RunningFrame, SlidingFrame, TopRows
from rekindle.circuit.circuit import Circuit
from rekindle.circuit.explain_nodes import Strategy, strategy_of
from rekindle.circuit.nodes import (
    Arrangement,
    Constant,
    Exchange,
    Feedback,
    Group,
    GroupMap,
    HalfJoin,
    Moment,
    Node,
    Table,
    Variable,
    View,
)
from rekindle.runtime.database import Database
from tests.property import values
from tests.property.changes import VERBS
from tests.property.dangers import DANGERS
from tests.property.policies import POLICIES, SHAPES
from tests.property.queries import FEATURES

PLACES = ("inline", "spark", "rebuilt")
Way = tuple[str, str]
BY_POLICIES = "query under policies"
WAYS: Mapping[Way, tuple[str, str]] = {
    ("Table", "source"): ("query", "projection"),
    ("Constant", "source"): ("constant", "VALUES joined"),
    ("Arrangement", "linear"): ("outer join", "FULL"),
    ("Exchange", "linear"): (BY_POLICIES, "triangle"),
    ("View", "linear"): ("query", "projection"),
    ("HalfJoin", "bilinear, by keys"): ("join condition", "equality"),
    ("HalfJoin", "bilinear, by a range"): ("join condition", "range"),
    ("HalfJoin", "bilinear, by keys and a range"): (
        "join condition",
        "equality and range of two ends",
    ),
    ("HalfJoin", "bilinear, all rows"): ("inner join", "cross"),
    ("HalfJoin", "bilinear, of two changes"): (BY_POLICIES, "triangle"),
    ("DistinctRows", "per key"): ("distinct", "DISTINCT"),
    ("Group", "per key"): ("grouping", "keys"),
    ("Group", "one group"): ("scalar subquery", "alone"),
    ("GroupMap", "first rows"): ("rank with a limit", "rank() <= 2"),
    ("GroupMap", "rows near a change"): ("frame", "ROWS around"),
    ("GroupMap", "values near a change"): ("frame", "RANGE peers"),
    ("GroupMap", "from a change on"): ("window function", "rank"),
    ("GroupMap", "values at ranks"): ("aggregate", "median alone"),
    ("GroupMap", "touched groups"): ("frame", "whole"),
    ("GroupMap", "recomputed"): ("partition", "all rows"),
    ("Variable", "source"): ("recursion", "follows a table"),
    ("Feedback", "fixed point"): ("recursion", "follows a table"),
}
"""The kinds of nodes with the ways they take, and a feature of a query that leads to each."""
DECLARED: Mapping[str, tuple[str, ...]] = {
    **{title: names for title, (_, names) in FEATURES.items()},
    "type": tuple(dict.fromkeys(t.sql for t in values.ALL)),
    "change": VERBS,
    "policy": POLICIES,
    BY_POLICIES: tuple(SHAPES),
    "failure": tuple(DANGERS),
}
SEEN: dict[str, Counter[str]] = {
    title: Counter() for title in (*DECLARED, "law", "nodes", "stages", "strategies", "count")
}

TELLING_SECONDS = 30.0
_LISTENERS: list[Callable[[str], None]] = []
_last_told = [0.0]


def note(title: str, names: Iterable[str]) -> None:
    """Count what was met; what nobody declared is a mistake of the generator."""
    for name in names:
        assert title not in DECLARED or name in DECLARED[title], f"{title} '{name}' is undeclared"
        SEEN[title][name] += 1


def note_step(db: Database) -> None:
    """Count what the last step of a database visited."""
    step = db.last_step
    if step is None:
        return
    SEEN["count"]["steps"] += 1
    _tell()
    circuit = db._engine.circuit
    for node in circuit.nodes.values():
        did = step.nodes.get(node.id)
        if did is None:
            # Sources do nothing in a step: tables and constants are there, and a variable brings
            # back what its recursion gave.
            fed = step.nodes.get(node.feedback) if isinstance(node, Variable) else None
            if fed is not None:
                _count(node, circuit, "rebuilt" if fed.rebuilt else fed.placement.value)
            elif isinstance(node, Table | Constant):
                _count(node, circuit, step.placement.value)
            continue
        _count(node, circuit, "rebuilt" if did.rebuilt else did.placement.value)
        SEEN["strategies"][strategy_of(node).value] += 1
        if isinstance(node, Arrangement | Exchange | Group | View | Feedback):
            for branch in node.form.branches:
                SEEN["stages"].update(type(stage).__name__ for stage in branch.stages)


@contextmanager
def told(say: Callable[[str], None]) -> Iterator[None]:
    """Say now and then, while a campaign runs, how much it has covered."""
    _LISTENERS.append(say)
    try:
        yield
    finally:
        _LISTENERS.pop()


def _tell() -> None:
    now = time.monotonic()
    if _LISTENERS and now - _last_told[0] >= TELLING_SECONDS:
        _last_told[0] = now
        counts = ", ".join(f"{count:,} {name}" for name, count in SEEN["count"].items())
        left = f"{len(missing())} features and {len(missing_ways())} ways of nodes to be met"
        _LISTENERS[-1](f"  {counts}; {left}")


def _count(node: Node, circuit: Circuit, place: str) -> None:
    kind, way = type(node).__name__, way_of(node, circuit)
    assert (kind, way) in WAYS, f"nobody declared that a {kind} may be '{way}'"
    SEEN["nodes"][_key(kind, way, place)] += 1


def way_of(node: Node, circuit: Circuit) -> str:
    """How a node follows a change, in the words of `WAYS`."""
    match node:
        case HalfJoin(moment=Moment.DURING):
            return "bilinear, of two changes"
        case HalfJoin():
            against = circuit.nodes[node.against]
            is_keyed = getattr(against, "keys", None) != ()
            if node.lookup is None:
                return "bilinear, by keys" if is_keyed else "bilinear, all rows"
            return "bilinear, by keys and a range" if is_keyed else "bilinear, by a range"
        case Group():
            return "per key" if node.keys else "one group"
        case GroupMap():
            match node.reach:
                case TopRows():
                    return "first rows"
                case SlidingFrame(distance=Distance.ROWS):
                    return "rows near a change"
                case SlidingFrame():
                    return "values near a change"
                case RunningFrame():
                    return "from a change on"
                case Quantiles():
                    return "values at ranks"
            recomputed = strategy_of(node) is Strategy.RECOMPUTED
            return "recomputed" if recomputed else "touched groups"
    if type(node).__name__ in ("Table", "Constant", "Variable"):
        return "source"
    return strategy_of(node).value


def _key(kind: str, way: str, place: str) -> str:
    return " | ".join((kind, way, place))


def missing_ways() -> list[tuple[Way, str]]:
    """Ways of nodes that no step took in one of the places where steps run.

    A source and a view have no state of their own to rebuild apart from their rows.
    """
    return [
        (way, place) for way in WAYS for place in PLACES[:2] if not SEEN["nodes"][_key(*way, place)]
    ] + [
        (way, "rebuilt")
        for way in (("Arrangement", "linear"), ("View", "linear"))
        if not SEEN["nodes"][_key(*way, "rebuilt")]
    ]


def missing(*titles: str) -> list[tuple[str, str]]:
    """Declared features of these titles, or of all, that did not occur."""
    return [
        (title, name)
        for title in titles or DECLARED
        for name in DECLARED[title]
        if not SEEN[title][name]
    ]


def lines() -> list[str]:
    """Two tables: nodes by where they ran, and features."""
    if not any(SEEN.values()):
        return []
    counts = ", ".join(f"{count:,} {name}" for name, count in SEEN["count"].items())
    found = [counts, "", f"{'node':<14}{'way':<32}" + "".join(f"{p:>9}" for p in PLACES)]
    for way in WAYS:
        numbers = [SEEN["nodes"][_key(*way, place)] for place in PLACES]
        if any(numbers):
            found.append(f"{way[0]:<14}{way[1]:<32}" + "".join(f"{n:>9,}" for n in numbers))
    found.append("")
    for title in (*DECLARED, "stages", "strategies", "law"):
        counted = SEEN[title].most_common()
        if counted:
            said = ", ".join(f"{name} {count:,}" for name, count in counted)
            absent = missing(title) if title in DECLARED else []
            share = f"{len(counted)} of {len(DECLARED[title])}" if title in DECLARED else ""
            found.append(f"{title:<22}{share:<11}{said}")
            if absent:
                found.append(f"{'':<22}{'never':<11}{', '.join(name for _, name in absent)}")
    return found
