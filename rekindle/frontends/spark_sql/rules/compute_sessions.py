"""Session windows, by window functions.

Spark marks the grouping column of `session_window(...)` and merges overlapping sessions when it
plans the aggregate. Here the sessions are computed before it, in each group of the other keys: a
row begins a session when no earlier row's window reaches it, a session begins where the last such
row did, and ends with the last of its windows. Frames by value, not by row, keep the result the
same whatever order rows of one moment come in. Where all windows are of one length, only those of
rows that are no more than that earlier can reach a row, so a change looks at rows near it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rekindle.calculus.walks import visited
from rekindle.catalyst.jvm import (
    Catalyst,
    JavaObject,
    analysed_plan,
    children_of,
    id_of,
    items,
    simple_name,
)
from rekindle.catalyst.rules import apply_everywhere

_MARK = "spark.sessionWindow"
_ADDITIONS = ("TimestampAddInterval", "TimeAdd")
_INTERVAL = "CalendarIntervalType"
_DAY = 24 * 60 * 60 * 10**6
_EARLIER = "RANGE BETWEEN {} PRECEDING AND INTERVAL '0.000001' SECOND PRECEDING"


def compute_sessions(catalyst: Catalyst, plan: JavaObject) -> JavaObject:
    """An equal plan whose aggregates are over rows in which the sessions stand already."""
    return apply_everywhere(_at_root, catalyst, plan)


def _at_root(catalyst: Catalyst, plan: JavaObject) -> JavaObject:
    if simple_name(plan) != "Aggregate":
        return plan
    groupings = items(plan.groupingExpressions())
    marked = [g for g in groupings if is_session(g)]
    if not marked:
        return plan
    (session,) = marked
    others = [g for g in groupings if g is not session]
    rows = _sessions(catalyst, plan.child(), session, others)
    moved = {id_of(session): items(rows.output())[-1]}
    return catalyst.plan("Aggregate")(
        catalyst.seq([catalyst.rebased(g, moved) for g in groupings]),
        catalyst.seq([_moved(catalyst, r, moved) for r in items(plan.aggregateExpressions())]),
        rows,
        catalyst.none(),
    )


def _moved(catalyst: Catalyst, result: JavaObject, moved: Mapping[int, JavaObject]) -> JavaObject:
    """A result over other columns, under its own name and number."""
    if id_of(result) in moved:
        return catalyst.alias(moved[id_of(result)], result.name(), result.exprId())
    return catalyst.rebased(result, moved)


def _sessions(
    catalyst: Catalyst, child: JavaObject, session: JavaObject, keys: Sequence[JavaObject]
) -> JavaObject:
    """The rows of `child`, with the whole session of a row as the last column."""
    columns = [c for c in items(child.output()) if id_of(c) != id_of(session)]
    named = [catalyst.named(key, f"__key{i}") for i, key in enumerate(keys)]
    window = catalyst.named(_unmarked(catalyst, session), "__window")
    inner = catalyst.plan("Project")(catalyst.seq([*columns, *named, window]), child)
    by = ", ".join(f"__key{i}" for i in range(len(keys)))
    part = f"PARTITION BY {by} " if keys else ""
    also = f"{by}, " if keys else ""
    gap = _gap(child, session)
    earlier = _EARLIER.format(
        "UNBOUNDED" if gap is None else f"INTERVAL '{gap // 10**6}.{gap % 10**6:06}' SECOND"
    )
    frame = (
        catalyst.dataframe(inner)
        .selectExpr(
            "*",
            f"max(__window.end) OVER ({part}ORDER BY __window.start {earlier}) AS __reach",
        )
        .selectExpr(
            "*",
            "max(CASE WHEN __reach >= __window.start THEN NULL ELSE __window.start END)"
            f" OVER ({part}ORDER BY __window.start) AS __start",
        )
        .selectExpr("*", f"max(__window.end) OVER (PARTITION BY {also}__start) AS __end")
        .selectExpr("*", "named_struct('start', __start, 'end', __end) AS __session")
    )
    found = analysed_plan(frame)
    whole = catalyst.named(items(found.output())[-1], session.name())
    return catalyst.optimised(catalyst.plan("Project")(catalyst.seq([*columns, whole]), found))


def _gap(plan: JavaObject, session: JavaObject) -> int | None:
    """How long each window is, in microseconds, if that is the same everywhere and at all times.

    Of a length with days it is not: where the clock is changed a day is longer or shorter.
    """
    found = [
        addition
        for node in visited(plan, children_of)
        if simple_name(node) == "Project"
        for column in items(node.projectList())
        if id_of(column) == id_of(session) and simple_name(column) == "Alias"
        for addition in visited(column, children_of)
        if simple_name(addition) in _ADDITIONS
    ]
    if len(found) != 1:
        return None
    _, length = children_of(found[0])
    if simple_name(length) != "Literal" or simple_name(length.dataType()) != _INTERVAL:
        return None
    value = length.value()
    days, micros = value.extractAsPeriod(), int(value.extractAsDuration().toNanos()) // 1_000
    if days.toTotalMonths() or days.getDays() or not 0 < micros < _DAY:
        return None
    return micros


def is_session(grouping: JavaObject) -> bool:
    """Is a grouping column one of sessions, which Spark merges when it plans?"""
    return simple_name(grouping) == "AttributeReference" and bool(
        grouping.metadata().contains(_MARK)
    )


def _unmarked(catalyst: Catalyst, attribute: JavaObject) -> JavaObject:
    empty = catalyst.module("org.apache.spark.sql.types.Metadata").empty()
    return attribute.withMetadata(empty)
