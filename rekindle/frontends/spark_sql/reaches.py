"""Which rows of its partition the value of a window function depends on.

A frame of k rows before and m after depends on the rows near; so do lag and lead, whose offset is
such a frame. A frame from the beginning of the partition to the row depends on all before it, but
of some functions the value on the row before says all that matters of them (`running.py`). Anything
else is computed from the whole partition.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from rekindle.calculus.terms import Distance
from rekindle.catalyst.jvm import JavaObject, option, simple_name

_MICROSECONDS_A_DAY = 86_400_000_000
_FARTHEST = 2**62
_INTEGERS = ("ByteType", "ShortType", "IntegerType", "LongType")
_TIMES = ("TimestampType", "TimestampNTZType")
_NUMBERS = (*_INTEGERS, "FloatType", "DoubleType", "DecimalType")
_PASSED_ON = ("Min", "Max", "First", "Last", "BitAndAgg", "BitOrAgg", "BitXorAgg")
"""Functions whose value so far can take the place of the rows so far."""
_RANKS = ("RowNumber", "Rank", "DenseRank")


@dataclass(frozen=True, slots=True)
class Frame:
    """The rows from `before` before a row to `after` after it."""

    before: int
    after: int
    distance: Distance

    def with_(self, other: Frame) -> Frame:
        """A frame that has both in it."""
        return Frame(max(self.before, other.before), max(self.after, other.after), self.distance)


class Running(enum.Enum):
    """All rows up to this one, by way of the value on the row before."""

    RUNNING = "running"


Sight: TypeAlias = Frame | Running
Part: TypeAlias = tuple[list[JavaObject], Sight | None]


def parts(named: Sequence[JavaObject], order: Sequence[JavaObject], ties: Distance) -> list[Part]:
    """Window functions of one partitioning and order, those together that see alike.

    Level rows are either told apart, and frames are of `rows`, or not, and they are of `values`.
    If one function has to see the whole partition, the others are computed along with it.
    """
    seen = [_sight(each.child(), order, ties) for each in named]
    near = [frame for frame in seen if isinstance(frame, Frame)]
    if not order or None in seen:
        return [(list(named), None)] if named else []
    running = [e for e, s in zip(named, seen, strict=True) if s is Running.RUNNING]
    # First, because it numbers the rows: equal ones have the same places in what comes after.
    found: list[Part] = [(running, Running.RUNNING)] if running else []
    if near:
        widest = near[0]
        for frame in near[1:]:
            widest = widest.with_(frame)
        found.append(([e for e, s in zip(named, seen, strict=True) if s in near], widest))
    return found


def function_of(window: JavaObject) -> JavaObject:
    """The function of a window expression, without what an aggregate is wrapped in."""
    function = window.windowFunction()
    wrapped = simple_name(function) == "AggregateExpression"
    return function.aggregateFunction() if wrapped else function


def _sight(window: JavaObject, order: Sequence[JavaObject], ties: Distance) -> Sight | None:
    frame = window.windowSpec().frameSpecification()
    lower, upper = simple_name(frame.lower()), simple_name(frame.upper())
    if (lower, upper) == ("UnboundedPreceding", "CurrentRow"):
        return Running.RUNNING if _goes_on(window) else None
    function = function_of(window)
    if simple_name(function) in ("Lag", "Lead") and function.ignoreNulls():
        return None
    bounds = (_offset(frame.lower()), _offset(frame.upper()))
    if bounds[0] is None or bounds[1] is None:
        return None
    before, after = max(0, -bounds[0]), max(0, bounds[1])
    if simple_name(frame.frameType()) == "RowFrame":
        return Frame(before, after, Distance.ROWS) if ties is Distance.ROWS else None
    if (lower, upper) == ("CurrentRow", "CurrentRow"):
        return Frame(0, 0, ties)
    if ties is Distance.ROWS or len(order) != 1:
        return None
    kind = simple_name(order[0].child().dataType())
    literals = [b for b in (frame.lower(), frame.upper()) if simple_name(b) == "Literal"]
    offsets = {simple_name(literal.dataType()) for literal in literals}
    if kind in (*_INTEGERS, "DateType") and offsets <= set(_INTEGERS):
        margin = 0
    elif kind in _TIMES and offsets <= {"DayTimeIntervalType"}:
        # A day is not always as long as another: in a time zone it may have some hours more.
        margin = _MICROSECONDS_A_DAY if max(before, after) >= _MICROSECONDS_A_DAY else 0
    else:
        return None
    if before + after + 2 * margin > _FARTHEST:
        return None
    return Frame(before + margin, after + margin, Distance.VALUES)


def _offset(bound: JavaObject) -> int | None:
    """By how much a frame's bound is after the row, if that is known."""
    if simple_name(bound) == "CurrentRow":
        return 0
    value = bound.eval(None) if simple_name(bound) == "Literal" else None
    return value if isinstance(value, int) else None


def _goes_on(window: JavaObject) -> bool:
    """Can the function go on from its value on the row before?"""
    call = window.windowFunction()
    if simple_name(call) == "NthValue":
        return bool(call.offset().foldable()) and int(call.offset().eval(None)) == 1
    if simple_name(call) != "AggregateExpression":
        return simple_name(call) in _RANKS
    if option(call.filter()) is not None or call.isDistinct():
        return False
    function = call.aggregateFunction()
    match simple_name(function):
        case "Count":
            return True
        case "Sum":
            return _adds_up(function, str(function.evalContext().evalMode()))
        case "Average":
            return _adds_up(function, str(function.evalMode()))
        case kind:
            return kind in _PASSED_ON


def _adds_up(function: JavaObject, mode: str) -> bool:
    """Is a sum so far all there is to know? Beyond its type it may be NULL for ever after."""
    kind = simple_name(function.child().dataType())
    return kind in _NUMBERS and (mode == "ANSI" or (mode == "LEGACY" and kind != "DecimalType"))
