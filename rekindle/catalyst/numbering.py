"""Windows that number the rows of groups, and so bring them into an order."""

from __future__ import annotations

from collections.abc import Sequence

from rekindle.catalyst.jvm import Catalyst, JavaObject

_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions"


def windowed(
    catalyst: Catalyst,
    expressions: Sequence[JavaObject],
    groups: Sequence[JavaObject],
    order: Sequence[JavaObject],
    rows: JavaObject,
) -> JavaObject:
    """A plan's rows with named window functions."""
    return catalyst.plan("Window")(
        catalyst.seq(expressions), catalyst.seq(groups), catalyst.seq(order), rows, catalyst.none()
    )


def ranked(
    catalyst: Catalyst,
    rank: JavaObject,
    groups: Sequence[JavaObject],
    order: Sequence[JavaObject],
) -> JavaObject:
    """A ranking function of the groups' rows, named."""
    frame = catalyst.class_(_EXPRESSIONS + ".SpecifiedWindowFrame")(
        catalyst.module(_EXPRESSIONS + ".RowFrame"),
        catalyst.module(_EXPRESSIONS + ".UnboundedPreceding"),
        catalyst.module(_EXPRESSIONS + ".CurrentRow"),
    )
    specification = catalyst.expression("WindowSpecDefinition")(
        catalyst.seq(groups), catalyst.seq(order), frame
    )
    return catalyst.named(catalyst.expression("WindowExpression")(rank, specification), "rank")


def in_order(
    catalyst: Catalyst,
    groups: Sequence[JavaObject],
    order: Sequence[JavaObject],
    rows: JavaObject,
) -> JavaObject:
    """The rows of each group in an order, with a number more.

    It is used for nothing; without the filter Spark would leave the window out.
    """
    number = ranked(catalyst, catalyst.expression("RowNumber")(), groups, order)
    numbered = windowed(catalyst, [number], groups, order, rows)
    counted = catalyst.expression("GreaterThan")(number.toAttribute(), catalyst.literal("0"))
    return catalyst.plan("Filter")(counted, numbered)


def ascending(catalyst: Catalyst, expression: JavaObject) -> JavaObject:
    return sort_order(catalyst, expression, "Ascending", "NullsFirst")


def nulls_last(catalyst: Catalyst, expression: JavaObject, direction: str) -> JavaObject:
    return sort_order(catalyst, expression, direction, "NullsLast")


def sort_order(
    catalyst: Catalyst, expression: JavaObject, direction: str, nulls: str
) -> JavaObject:
    return catalyst.expression("SortOrder")(
        expression,
        catalyst.module(f"{_EXPRESSIONS}.{direction}"),
        catalyst.module(f"{_EXPRESSIONS}.{nulls}"),
        catalyst.seq(()),
    )
