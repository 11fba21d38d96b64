"""The clock of a database, which is what `now()` means in a view.

A view is a function of its tables, and `now()` is not. So the time is a table too: of one row,
which transactions and `db.advance_time` move, in the epoch that they make. Here the calls for the
time in an analysed plan become scalar subqueries over that table; a join with its one row is
followed as any other is. With the comparison of a column and the time it is a join on a range, so
that a clock that has moved reads the rows that enter or leave by that, and no others
(`kernels.spans`).

What is computed of the time alone, as in `now() - INTERVAL 1 HOUR`, is computed beside the clock:
then the row's end of the comparison is a column, and whether a range decides it is plain to see.

Rejected: validity times of rows, put into a queue when they come. They need a state of their own,
and an expression that can be solved for the time; a range in an index that a join has anyway needs
neither.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeAlias

from pyspark.sql.types import BooleanType, StructField, StructType, TimestampType

from rekindle.calculus.walks import visited
from rekindle.catalyst.classes import classes_of, classes_of_plan
from rekindle.catalyst.jvm import (
    Catalyst,
    JavaObject,
    children_of,
    has_pattern,
    items,
    simple_name,
)
from rekindle.catalyst.rules import apply_everywhere
from rekindle.errors import UndeterminedError
from rekindle.names import HIDDEN

CLOCK = f"rekindle_clock{HIDDEN}"
"""The table that has the time."""
COLUMNS = StructType(
    [StructField("now", TimestampType(), False), StructField("by_hand", BooleanType(), False)]
)
"""`by_hand`: whether only users move it, and not the time of the day."""
TIMES = {
    "CurrentTimestamp": "timestamp",
    "Now": "timestamp",
    "CurrentDate": "date",
    "LocalTimestamp": "timestamp_ntz",
}
"""The calls for the time, and the type that the clock's is cast to for each."""

AtTime: TypeAlias = Callable[[Callable[[JavaObject], JavaObject]], JavaObject]
"""Gives an expression that is computed of the time: of what is made of an expression for that."""

_INSTANT: ContextVar[int | None] = ContextVar("instant", default=None)


@contextmanager
def at_instant(instant: int | None) -> Iterator[None]:
    """Queries that are resolved until the end have a time, in microseconds; None for the day's."""
    token = _INSTANT.set(instant)
    try:
        yield
    finally:
        _INSTANT.reset(token)


def put_in_instant(catalyst: Catalyst, plan: JavaObject) -> JavaObject:
    """An analysed plan with the time of `at_instant` in the place of calls for it."""
    instant = _INSTANT.get()
    if instant is None or not asks_for_time(plan):
        return plan
    # Not cached: a literal of every instant would be kept for ever.
    micros = catalyst.session.sessionState().sqlParser().parseExpression(f"{instant}L")
    time = catalyst.expression("MicrosToTimestamp")(micros)
    return _put_in(catalyst, plan, lambda of_time: of_time(time))


def read_clock(catalyst: Catalyst, plan: JavaObject, clock: JavaObject) -> JavaObject:
    """An analysed plan that asks the clock, a leaf, where it asked for the time."""

    def beside(of_time: Callable[[JavaObject], JavaObject]) -> JavaObject:
        leaf = clock.newInstance()
        column = catalyst.named(of_time(items(leaf.output())[0]), "time")
        one = catalyst.plan("Project")(catalyst.seq([column]), leaf)
        nothing, none = catalyst.seq(()), catalyst.none()
        return catalyst.expression("ScalarSubquery")(
            one, nothing, catalyst.identifier(), nothing, none, none, none
        )

    return _put_in(catalyst, plan, beside)


def asks_for_time(plan: JavaObject) -> bool:
    """Does a plan call for the time anywhere?"""
    return has_pattern(plan, "CURRENT_LIKE") and not classes_of_plan(plan).isdisjoint(TIMES)


def _put_in(catalyst: Catalyst, plan: JavaObject, at_time: AtTime) -> JavaObject:
    """The plan with what is computed of the time alone given by `at_time`."""

    def changed(expression: JavaObject) -> JavaObject:
        return catalyst.transform(expression, change)

    def change(node: JavaObject) -> JavaObject | None:
        if _is_subquery(node):
            inner = _put_in(catalyst, node.plan(), at_time)
            return node.withNewPlan(inner) if inner is not node.plan() else None
        if not _is_of_time(node):
            return None
        return at_time(lambda time: _with_time(catalyst, node, time))

    def at_node(catalyst: Catalyst, node: JavaObject) -> JavaObject:
        written = items(node.expressions())
        if not any(_has_time(expression) for expression in written):
            return node
        match simple_name(node):
            case "Filter":
                return catalyst.plan("Filter")(changed(node.condition()), node.child())
            case "Project":
                listed = catalyst.seq(map(changed, items(node.projectList())))
                return catalyst.plan("Project")(listed, node.child())
            case "Aggregate":
                groups, results = (
                    catalyst.seq(map(changed, items(each)))
                    for each in (node.groupingExpressions(), node.aggregateExpressions())
                )
                return catalyst.plan("Aggregate")(groups, results, node.child(), node.hint())
            case "Join":
                condition = catalyst.some(changed(node.condition().get()))
                return catalyst.plan("Join")(
                    node.left(), node.right(), node.joinType(), condition, node.hint()
                )
        raise UndeterminedError(
            f"the time cannot be asked for in a {simple_name(node).lower()} of a materialized view",
            detail=str(node.simpleString(200)),
            hint="compute it in a subquery's column first: SELECT ..., now() AS time FROM ...",
        )

    return apply_everywhere(at_node, catalyst, plan)


def _is_subquery(node: JavaObject) -> bool:
    """Is an expression a subquery, with a plan inside?"""
    return simple_name(node) in ("ScalarSubquery", "Exists", "ListQuery", "LateralSubquery")


def _has_time(expression: JavaObject) -> bool:
    return any(
        simple_name(node) in TIMES or (_is_subquery(node) and asks_for_time(node.plan()))
        for node in visited(expression, children_of)
    )


def _is_of_time(expression: JavaObject) -> bool:
    """Is an expression computed of the time, and of nothing else?"""
    if simple_name(expression) in ("Alias", "AggregateExpression"):
        return False
    return not classes_of(expression).isdisjoint(TIMES) and bool(expression.foldable())


def _with_time(catalyst: Catalyst, expression: JavaObject, time: JavaObject) -> JavaObject:
    """The expression of the time that another expression gives."""

    def change(node: JavaObject) -> JavaObject | None:
        kind = simple_name(node)
        if kind not in TIMES:
            return None
        if TIMES[kind] == "timestamp":
            return time
        target = catalyst.data_type(TIMES[kind])
        return catalyst.expression("Cast")(time, target, node.timeZoneId())

    return catalyst.transform(expression, change)
