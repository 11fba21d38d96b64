"""What Spark makes of the rows of one group: windows, the first rows in an order, and what a Python
function of all of them gives.

`expressions` and `order` refer to `inputs`, the attributes of the group's columns. Aggregates over
a group's rows are measures of the calculus, with `CatalystAggregate` as their last step.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rekindle.calculus.schema import Field, Schema
from rekindle.catalyst.jvm import (
    Catalyst,
    JavaObject,
    fingerprint,
    type_of,
    without_alias,
)


@dataclass(frozen=True, slots=True)
class CatalystAggregate:
    """An `AggregateExpression` of Spark over the arguments `inputs`."""

    text: str
    expression: JavaObject = field(compare=False, repr=False)
    inputs: tuple[JavaObject, ...] = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class CatalystWindow:
    """Each row of the group with the values of window functions appended."""

    text: str
    schema: Schema
    display: str = field(compare=False)
    expressions: tuple[JavaObject, ...] = field(compare=False, repr=False)
    order: tuple[JavaObject, ...] = field(compare=False, repr=False)
    inputs: tuple[JavaObject, ...] = field(compare=False, repr=False)

    def shown_keys(self, keys: Sequence[int]) -> Mapping[int, int]:
        """Where its rows have the keys of their group."""
        return {key: key for key in keys}


@dataclass(frozen=True, slots=True)
class CatalystPicking(CatalystWindow):
    """The same for functions that pick rows from frames in which level rows belong together.

    `total` is an order that goes on from `order` and says which of two level rows comes first.
    """

    total: tuple[JavaObject, ...] = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class CatalystRunning(CatalystWindow):
    """The same for functions whose value on a row follows from the row before it.

    `going_on` are the functions once more, over rows that have those of the row before in front of
    them: in that one `moment` is 0, and the columns of the results hold its values.
    """

    moment: JavaObject = field(compare=False, repr=False)
    going_on: tuple[JavaObject, ...] = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class CatalystTop:
    """The rows of the group whose rank in `order` is above `offset` and at most `last`.

    `rank` is a ranking function of Spark: row_number() for LIMIT, also rank() for windows.
    """

    text: str
    schema: Schema
    offset: int
    last: int
    display: str = field(compare=False)
    rank: JavaObject = field(compare=False, repr=False)
    order: tuple[JavaObject, ...] = field(compare=False, repr=False)
    inputs: tuple[JavaObject, ...] = field(compare=False, repr=False)

    def shown_keys(self, keys: Sequence[int]) -> Mapping[int, int]:
        """Where its rows have the keys of their group."""
        return {key: key for key in keys}


@dataclass(frozen=True, slots=True)
class CatalystGroupMap:
    """The rows that a Python function gives for all rows of the group, which come in `order`.

    `columns` are what it sees of a row, `node` is the class of the plan node that runs it.
    """

    text: str
    schema: Schema
    node: str
    display: str = field(compare=False)
    function: JavaObject = field(compare=False, repr=False)
    columns: tuple[JavaObject, ...] = field(compare=False, repr=False)
    order: tuple[JavaObject, ...] = field(compare=False, repr=False)
    inputs: tuple[JavaObject, ...] = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class CatalystCogroupMap(CatalystGroupMap):
    """The same for a function of the rows of two tables.

    The first of `inputs` is 0 in the rows of the one, whose `columns` come in `order`, and 1 in
    those of the other.
    """

    other_columns: tuple[JavaObject, ...] = field(compare=False, repr=False)
    other_order: tuple[JavaObject, ...] = field(compare=False, repr=False)


def window(
    catalyst: Catalyst,
    expressions: Sequence[JavaObject],
    order: Sequence[JavaObject],
    inputs: Sequence[JavaObject],
) -> CatalystWindow:
    """Named window expressions in one order, over rows of `inputs`."""
    return CatalystWindow(
        text="window:" + _identity(catalyst, [*(e.child() for e in expressions), *order], inputs),
        schema=_schema([*inputs, *(e.toAttribute() for e in expressions)]),
        display=_display(expressions),
        expressions=tuple(expressions),
        order=tuple(order),
        inputs=tuple(inputs),
    )


def picking(
    catalyst: Catalyst, window_: CatalystWindow, total: Sequence[JavaObject]
) -> CatalystPicking:
    """A window whose functions see level rows in the order `total`."""
    return CatalystPicking(
        text="picking " + window_.text + _identity(catalyst, total, window_.inputs),
        schema=window_.schema,
        display=window_.display,
        expressions=window_.expressions,
        order=window_.order,
        inputs=window_.inputs,
        total=tuple(total),
    )


def running(
    window_: CatalystWindow, shown: int, moment: JavaObject, going_on: Sequence[JavaObject]
) -> CatalystRunning:
    """A window whose functions, the first `shown` of which were asked for, can go on."""
    return CatalystRunning(
        text="running " + window_.text,
        schema=window_.schema,
        display=_display(window_.expressions[:shown]),
        expressions=window_.expressions,
        order=window_.order,
        inputs=window_.inputs,
        moment=moment,
        going_on=tuple(going_on),
    )


def top(
    catalyst: Catalyst,
    rank: JavaObject,
    order: Sequence[JavaObject],
    inputs: Sequence[JavaObject],
    offset: int,
    last: int,
) -> CatalystTop:
    """The rows with rank in (offset, last]."""
    words = ", ".join(str(o.sql()) for o in order)
    return CatalystTop(
        text=f"top {offset} {last}:" + _identity(catalyst, [rank, *order], inputs),
        schema=_schema(inputs),
        offset=offset,
        last=last,
        display=f"{rank.sql()} in {offset + 1}..{last} by {words}",
        rank=rank,
        order=tuple(order),
        inputs=tuple(inputs),
    )


def group_map(
    catalyst: Catalyst,
    node: str,
    function: JavaObject,
    columns: Sequence[JavaObject],
    results: Sequence[JavaObject],
    order: Sequence[JavaObject],
    inputs: Sequence[JavaObject],
) -> CatalystGroupMap:
    """A function of the named `columns` of a group's rows, which gives rows of `results`."""
    # The function itself is part of its identity: two may have one name.
    code = hashlib.sha256(str(function.func().command().mkString(",")).encode()).hexdigest()[:20]
    seen = _identity(catalyst, [function], [column.toAttribute() for column in columns])
    names = ",".join(str(column.name()) for column in columns)
    read = _identity(catalyst, [*map(without_alias, columns), *order], inputs)
    return CatalystGroupMap(
        text=f"{node} {code} {seen} {read}:{names}",
        schema=_schema(results),
        node=node,
        display=str(function.sql()),
        function=function,
        columns=tuple(columns),
        order=tuple(order),
        inputs=tuple(inputs),
    )


def cogroup_map(both: CatalystGroupMap, columns: int, order: int) -> CatalystCogroupMap:
    """A function of two tables, so many of whose first columns and orders are of the one."""
    return CatalystCogroupMap(
        text=f"{columns} and {both.text}",
        schema=both.schema,
        node=both.node,
        display=both.display,
        function=both.function,
        columns=both.columns[:columns],
        order=both.order[:order],
        inputs=both.inputs,
        other_columns=both.columns[columns:],
        other_order=both.order[order:],
    )


def aggregate(
    catalyst: Catalyst, expression: JavaObject, inputs: Sequence[JavaObject]
) -> CatalystAggregate:
    return CatalystAggregate(
        "aggregate:" + _identity(catalyst, [expression], inputs), expression, tuple(inputs)
    )


def _identity(
    catalyst: Catalyst, expressions: Sequence[JavaObject], inputs: Sequence[JavaObject]
) -> str:
    settings = catalyst.settings()
    parts = [fingerprint(catalyst.bind(each, inputs), settings) for each in expressions]
    parts += [type_of(attribute) for attribute in inputs]
    return hashlib.sha256("|".join(parts).encode()).hexdigest()[:20]


def _display(expressions: Sequence[JavaObject]) -> str:
    return ", ".join(str(e.child().windowFunction().sql()) for e in expressions)


def _schema(attributes: Sequence[JavaObject]) -> Schema:
    return Schema(tuple(Field(str(a.name()), type_of(a), bool(a.nullable())) for a in attributes))
