"""Which expressions never decrease when the columns that they read do not.

If f does not decrease and every later row has x ≥ b, every later row has f(x) ≥ f(b): so what is
known of a column is known of what is computed of it, and f(b) is found by evaluating the expression
itself, at b. A struct has a bound for each of its fields.

Where the hands of a clock are put back, local times run twice: functions of local time decrease
there, by less than three days in any zone. What reads such a function takes b three days earlier,
unless the zone is fixed. NULL is above no bound and below none; where an expression puts a constant
in the place of NULL, that constant is a bound beside it (`floors`).

An expression whose shape is not known here has no bound. That is always sound.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from rekindle.calculus.scalars import Scalar
from rekindle.calculus.walks import visited
from rekindle.catalyst.jvm import Catalyst, JavaObject, children_of, id_of, items, simple_name
from rekindle.catalyst.scalars import CatalystScalar

Leaf: TypeAlias = tuple[int, int]
"""A column, and the field of it that is meant; `WHOLE` for the column itself."""
WHOLE = -1
_DAY = 24 * 60 * 60 * 10**6
SLACK = 3 * _DAY
_TIMES = ("TimestampType", "TimestampNTZType")
_WHOLE_NUMBERS = ("ByteType", "ShortType", "IntegerType", "LongType")
BOUNDED = (*_TIMES, *_WHOLE_NUMBERS, "DateType")
"""Types whose values are whole numbers inside Spark."""
_LARGEST = 2**61
"""A constant beyond this could make a sum of a time wrap around."""
_KEPT = (
    *("Alias", "KnownNotNull", "KnownNullable", "PreciseTimestampConversion", "TryEval"),
    *("UnixMicros", "UnixMillis", "UnixSeconds", "MicrosToTimestamp", "MillisToTimestamp"),
    *("UnixDate", "DateFromUnixDate", "Year", "TruncDate", "LastDay", "SortPrefix"),
)
"""Functions of one argument, or of one and constants, that never decrease."""


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """An expression that does not decrease, or a field of one; each is equal to itself alone."""

    leaves: frozenset[Leaf]
    expression: JavaObject = field(repr=False)
    inputs: tuple[JavaObject, ...] = field(repr=False)
    slack: int = 0
    floors: tuple[int, ...] = ()


class _UnknownError(Exception):
    """The expression has a shape of which nothing is known."""


def pieces(scalar: Scalar) -> Mapping[int, Piece]:
    """What of a scalar does not decrease: the fields of a struct, or the whole."""
    if not isinstance(scalar, CatalystScalar):
        return {}
    expression = _bare(scalar.expression)
    parts = {WHOLE: expression}
    if simple_name(expression) == "CreateNamedStruct":
        parts = dict(enumerate(items(expression.valExprs())))
    found = {}
    for number, part in parts.items():
        if simple_name(part.dataType()) not in BOUNDED:
            continue
        walk = _Walk(scalar.inputs)
        try:
            floors = walk.root(part)
        except (_UnknownError, Py4JError):
            continue
        if walk.leaves:
            leaves = frozenset(walk.leaves)
            found[number] = Piece(leaves, part, scalar.inputs, walk.slack, floors)
    return found


def core_column(scalar: Scalar) -> int | None:
    """The time column whose order a mark is (`range_conditions.py`), if it is that of a column."""
    if not isinstance(scalar, CatalystScalar):
        return None
    expression = scalar.expression
    while True:
        match simple_name(expression):
            case "If":
                then, otherwise = expression.trueValue(), expression.falseValue()
                expression = otherwise if simple_name(then) == "Literal" else then
            case "Coalesce" | "TryEval":
                expression = items(expression.children())[0]
            case "SortPrefix":
                order = expression.child()
                ordered = order.child()
                rising = simple_name(order.direction()).startswith("Ascending")
                if not rising or simple_name(ordered.dataType()) not in _TIMES:
                    return None
                return _column(ordered, scalar.inputs)
            case _:
                return None


def is_window_end(piece: Piece) -> bool:
    """Is it the end of the window that a time column itself is in, as `window(ts, ...)` gives it?

    Of overlapping windows one may end before the time; the query drops these rows itself.
    """
    node = _bare(piece.expression)
    if simple_name(node) != "PreciseTimestampConversion":
        return False
    widened = node.child()
    if simple_name(widened) != "Add" or not _is_constant(widened.right()):
        return False
    moved = widened.left()
    if simple_name(moved) != "Subtract" or not _is_constant(moved.right()):
        return False
    whole = moved.left()
    if simple_name(whole) != "Subtract" or not _remainder_of(whole.right(), whole.left()):
        return False
    time = whole.left()
    is_time = simple_name(time) == "PreciseTimestampConversion"
    return is_time and _column(time.child(), piece.inputs) is not None


def value_at(catalyst: Catalyst, piece: Piece, values: Mapping[Leaf, int]) -> int | None:
    """The least that the piece gives where each leaf is at least its value."""

    def placed(node: JavaObject) -> JavaObject | None:
        leaf = _leaf(node, piece.inputs)
        if leaf is None or leaf not in values:
            return None
        slack = piece.slack
        if simple_name(node.dataType()) == "DateType":
            slack = -(-slack // _DAY)
        return _value(catalyst, values[leaf] - slack, node.dataType())

    try:
        found = catalyst.transform(piece.expression, placed).eval(None)
    except (Py4JJavaError, PySparkException):  # A time before all times, or an error of its own.
        return None
    return None if found is None else min([int(found), *piece.floors])


def _value(catalyst: Catalyst, number: int, data_type: JavaObject) -> JavaObject:
    """A constant of a type whose values are whole numbers."""
    # Not cached, as the constants of every instant would be kept for ever.
    parsed = catalyst.session.sessionState().sqlParser().parseExpression(f"{number}L")
    kind = simple_name(data_type)
    if kind in _TIMES:
        return catalyst.expression("PreciseTimestampConversion")(
            parsed, catalyst.data_type("bigint"), data_type
        )
    if kind == "DateType":
        return catalyst.expression("DateFromUnixDate")(
            catalyst.cast(parsed, catalyst.data_type("int"))
        )
    return parsed if kind == "LongType" else catalyst.cast(parsed, data_type)


class _Walk:
    """What an expression reads that it does not decrease with."""

    def __init__(self, inputs: tuple[JavaObject, ...]) -> None:
        self._inputs = inputs
        self._present: list[JavaObject] = []
        """Expressions that are not NULL here."""
        self.leaves: set[Leaf] = set()
        self.slack = 0

    def root(self, node: JavaObject) -> tuple[int, ...]:
        """Walk an expression which may have constants in the place of NULL; gives these."""
        kind = simple_name(node)
        if kind in ("Alias", "KnownNotNull", "KnownNullable"):
            return self.root(node.child())
        if kind == "If" and simple_name(node.predicate()) == "IsNull":
            asked, then = node.predicate().child(), node.trueValue()
            self._present.append(asked)
            below = self.root(node.falseValue())
            self._present.pop()
            return below if _is_null(then) else (*below, _constant(then))
        if kind == "If" and _is_null(node.falseValue()):
            return self.root(node.trueValue())
        if kind == "Coalesce":
            first, *others = items(node.children())
            if len(others) != 1:
                raise _UnknownError
            below = self.root(first)
            constant = _constant(others[0])
            return below if self._is_present(first) else (*below, constant)
        self.walk(node)
        return ()

    def _is_present(self, node: JavaObject) -> bool:
        """Is an expression NULL only where it fails?"""
        if any(simple_name(each) == "If" for each in visited(node, children_of)):
            return False
        attributes = items(node.references().toSeq())
        return all(
            not each.nullable() or any(each.semanticEquals(known) for known in self._present)
            for each in attributes
        )

    def _has_value(self, node: JavaObject) -> bool:
        """Is an expression never NULL here?"""
        known = any(node.semanticEquals(each) for each in self._present)
        return known or not node.nullable()

    def walk(self, node: JavaObject) -> None:
        """Walk an expression that is NULL where a column of it is."""
        leaf = _leaf(node, self._inputs)
        if leaf is not None:
            if simple_name(node.dataType()) not in BOUNDED:
                raise _UnknownError
            self.leaves.add(leaf)
            return
        if _is_constant(node):
            return
        kind = simple_name(node)
        varying = [each for each in children_of(node) if not _is_constant(each)]
        if kind == "SortPrefix":
            order = node.child()
            if not simple_name(order.direction()).startswith("Ascending"):
                raise _UnknownError
            self.walk(order.child())
        elif kind == "Greatest" and len(varying) == 1 and self._has_value(varying[0]):
            # In the place of NULL there would be the constant beside it, or another column.
            self.walk(varying[0])
        elif kind == "Least":
            for each in varying:
                self.walk(each)
        elif kind == "If" and _is_null(node.trueValue()):
            known = len(self._present)
            if simple_name(node.predicate()) == "IsNull":
                self._present.append(node.predicate().child())
            self.walk(node.falseValue())
            del self._present[known:]
        elif kind in _KEPT and len(varying) == 1:
            self.walk(varying[0])
        elif kind == "TruncTimestamp" and len(varying) == 1:
            self._local(node)
            self.walk(varying[0])
        elif kind == "Cast":
            self._cast(node)
        elif kind in ("Add", "Subtract"):
            self._sum(node)
        elif kind in ("DateAdd", "DateSub") and _is_constant(children_of(node)[1]):
            self.walk(varying[0])
        elif kind in ("TimestampAddInterval", "TimeAdd"):
            self._add_interval(node)
        else:
            raise _UnknownError

    def _local(self, node: JavaObject) -> None:
        zone = node.timeZoneId()
        if zone.isEmpty() or not node.zoneId().getRules().isFixedOffset():
            self.slack += SLACK

    def _cast(self, node: JavaObject) -> None:
        source, target = (simple_name(each) for each in (node.child().dataType(), node.dataType()))
        times = (*_TIMES, "DateType")
        numbers = (*_WHOLE_NUMBERS,)
        if source in times and target in times:
            if source != target and {source, target} != {"TimestampNTZType", "DateType"}:
                self._local(node)
        elif not (
            (source in numbers and target in numbers and _is_wider(source, target))
            or (source == "TimestampType" and target == "LongType")
        ):
            raise _UnknownError
        self.walk(node.child())

    def _sum(self, node: JavaObject) -> None:
        if simple_name(node.dataType()) not in ("LongType", "IntegerType"):
            raise _UnknownError
        left, right = node.left(), node.right()
        if simple_name(node) == "Subtract" and _remainder_of(right, left):
            self.walk(left)
            return
        if _is_constant(right):
            _small(right)
            self.walk(left)
        elif _is_constant(left) and simple_name(node) == "Add":
            _small(left)
            self.walk(right)
        else:
            raise _UnknownError

    def _add_interval(self, node: JavaObject) -> None:
        first, interval = children_of(node)
        if not _is_constant(interval):
            raise _UnknownError
        value: Any = interval.value() if simple_name(interval) == "Literal" else None
        if value is None:
            raise _UnknownError
        if simple_name(interval.dataType()) == "DayTimeIntervalType":
            is_exact = abs(int(value)) < _DAY
        else:
            apart = value.extractAsPeriod()
            if apart.toTotalMonths():
                raise _UnknownError
            is_exact = not apart.getDays()
        if not is_exact and simple_name(node.dataType()) != "TimestampNTZType":
            self._local(node)
        self.walk(first)


def _leaf(node: JavaObject, inputs: tuple[JavaObject, ...]) -> Leaf | None:
    """The column, or field of a column, that an expression is."""
    kind = simple_name(node)
    if kind == "GetStructField":
        column = _column(_bare(node.child()), inputs)
        return None if column is None else (column, int(node.ordinal()))
    column = _column(node, inputs)
    return None if column is None else (column, WHOLE)


def _column(node: JavaObject, inputs: tuple[JavaObject, ...]) -> int | None:
    if simple_name(node) != "AttributeReference":
        return None
    wanted = id_of(node)
    return next((i for i, each in enumerate(inputs) if id_of(each) == wanted), None)


def _bare(node: JavaObject) -> JavaObject:
    while simple_name(node) in ("Alias", "KnownNotNull", "KnownNullable"):
        node = node.child()
    return node


def _is_constant(node: JavaObject) -> bool:
    return simple_name(node) == "Literal" or bool(node.foldable())


def _is_null(node: JavaObject) -> bool:
    return simple_name(node) == "Literal" and node.value() is None


def _constant(node: JavaObject) -> int:
    if simple_name(node) != "Literal" or simple_name(node.dataType()) not in _WHOLE_NUMBERS:
        raise _UnknownError
    return int(node.value())


def _small(node: JavaObject) -> None:
    if abs(_constant(node)) > _LARGEST:
        raise _UnknownError


def _is_wider(source: str, target: str) -> bool:
    return _WHOLE_NUMBERS.index(source) <= _WHOLE_NUMBERS.index(target)


def _remainder_of(node: JavaObject, whole: JavaObject) -> bool:
    """Is x minus the expression the beginning of the window that x is in?

    Spark writes the remainder of t = x − s as  CASE WHEN t % w < 0 THEN t % w + w ELSE t % w END.
    """
    if simple_name(node) != "CaseWhen":
        return False
    branches, otherwise = items(node.branches()), node.elseValue()
    if len(branches) != 1 or otherwise.isEmpty():
        return False
    condition, then, remainder = branches[0]._1(), branches[0]._2(), otherwise.get()
    if simple_name(condition) != "LessThan" or simple_name(then) != "Add":
        return False
    if simple_name(remainder) != "Remainder" or not _is_constant(remainder.right()):
        return False
    width, moved = _constant(remainder.right()), remainder.left()
    if simple_name(moved) == "Subtract" and _is_constant(moved.right()):
        moved = moved.left()
    same = [condition.left(), then.left()]
    return (
        width > 0
        and bool(moved.semanticEquals(whole))
        and all(bool(each.semanticEquals(remainder)) for each in same)
        and _is_constant(then.right())
        and _constant(then.right()) == width
        and _is_constant(condition.right())
        and _constant(condition.right()) == 0
    )
