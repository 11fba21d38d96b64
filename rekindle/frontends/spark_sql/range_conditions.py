"""Ranges in the conditions of joins: `a.t BETWEEN b.lo AND b.hi`, `a.t > b.t - INTERVAL 5 MINUTES`.

A conjunct that compares an expression of one side with an expression of the other bounds each by
the other. Both are turned into Spark's 64-bit sort prefix, which never descends where the values
ascend:  x ≤ y  ⇒  prefix(x) ≤ prefix(y). So the rows of a side that can match stand between two
prefixes, in a trace that is ordered by the prefix of its own expression. What the prefix does not
tell apart is left to the condition itself.

Several conjuncts on one expression give it two ends. Constants are moved to the other side for
that:  x + c ≤ y  ⇒  prefix(x) ≤ prefix(y) − c  for whole numbers, dates and timestamps, whose
prefixes are the values themselves. `b.t - INTERVAL 5 MINUTES < a.t AND a.t <= b.t` looks b.t up
between a.t and a.t plus five minutes.

A pair outside the range is not compared, so a comparison that fails must not put one there. An end
that cannot be computed leaves its range open. A row whose place cannot be computed, or whose sum
wraps around, stands at `UNPLACED`, where every range finds it (`kernels.join`). Either way the
condition is evaluated on the pair, and fails as it would in Spark, unless another conjunct leaves
the pair out: in which order Spark looks at conjuncts is its own choice.

Strictly inside its range a row satisfies the comparisons that the range is made of, unless it is
NULL:  prefix(x) < prefix(y)  ⇒  x < y. So a range decides the whole condition (`terms.Range`) where
all conjuncts are such comparisons, and neither constants nor failures keep it from being exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from rekindle.calculus.scalars import Scalar
from rekindle.calculus.terms import Range, RangeCondition
from rekindle.calculus.walks import visited
from rekindle.catalyst.jvm import (
    Catalyst,
    JavaObject,
    children_of,
    id_of,
    ids_read,
    items,
    simple_name,
    type_text,
)
from rekindle.catalyst.numbering import ascending
from rekindle.catalyst.scalars import CatalystScalar
from rekindle.frontends.spark_sql.ordering import bare_prefix

if TYPE_CHECKING:
    from rekindle.frontends.spark_sql.translate import Translator

LOWEST, UNPLACED = -(2**63), 2**63 - 1
_NULLS_LAST = UNPLACED - 1
_BELOW = ("LessThan", "LessThanOrEqual")
_ABOVE = ("GreaterThan", "GreaterThanOrEqual")
_WHOLE = ("ByteType", "ShortType", "IntegerType", "LongType")
_TIMES = ("TimestampType", "TimestampNTZType")
_ORDERED = (
    *_WHOLE,
    *_TIMES,
    "BooleanType",
    "FloatType",
    "DoubleType",
    "DecimalType",
    "StringType",
    "BinaryType",
    "DateType",
    "DayTimeIntervalType",
    "YearMonthIntervalType",
)
"""Types of values that Spark's prefix puts in their order."""
_DAY = 24 * 60 * 60 * 10**6
_SLACK = 3 * _DAY
"""A day of a time zone is not always 24 hours long; this is more than two clocks can differ by."""


@dataclass(frozen=True, slots=True)
class _Moved:
    """An expression as `core` plus the constant `added`, in units of the prefix.

    The sum may be off by `slack` in either direction.
    """

    whole: JavaObject
    core: JavaObject
    added: int = 0
    slack: int = 0


@dataclass(frozen=True, slots=True)
class _End:
    """An end of a range, and how it is shown."""

    expression: JavaObject
    display: str


@dataclass(slots=True)
class _Place:
    """An expression of a side that conjuncts bound, with all of its bounds."""

    core: JavaObject
    sums: list[_Moved] = field(default_factory=list)
    lows: list[_End] = field(default_factory=list)
    highs: list[_End] = field(default_factory=list)
    exact: int = 0
    """How many of the bounds are comparisons of the core itself that cannot fail."""


def range_condition(
    translator: Translator,
    conjuncts: Sequence[JavaObject],
    left: Sequence[JavaObject],
    right: Sequence[JavaObject],
) -> RangeCondition | None:
    """The ranges that the conjuncts of a condition give for the rows of both sides."""
    ours, theirs = _Ranges(translator, left, right), _Ranges(translator, right, left)
    for conjunct in conjuncts:
        kind = simple_name(conjunct)
        if kind not in (*_BELOW, *_ABOVE) or not conjunct.deterministic():
            continue
        low, high = conjunct.left(), conjunct.right()
        if kind in _ABOVE:
            low, high = high, low
        if not _is_ordered(low, high):
            continue
        for ranges in (ours, theirs):
            ranges.bound(low, high)
    found = RangeCondition(ours.widest(len(conjuncts)), theirs.widest(len(conjuncts)))
    return None if found.left is None and found.right is None else found


def _is_ordered(low: JavaObject, high: JavaObject) -> bool:
    types = low.dataType(), high.dataType()
    return type_text(types[0]) == type_text(types[1]) and simple_name(types[0]) in _ORDERED


class _Ranges:
    """The places of the rows of one side, `own`, as rows of the `other` bound them."""

    def __init__(
        self, translator: Translator, own: Sequence[JavaObject], other: Sequence[JavaObject]
    ) -> None:
        self._translator, self._catalyst = translator, translator.catalyst
        self._own, self._other = own, other
        self._places: list[_Place] = []

    def bound(self, low: JavaObject, high: JavaObject) -> None:
        """Take note of low ≤ high, if one is of this side and the other of the other side."""
        if _reads(low, self._own) and _reads(high, self._other):
            moved = _moved(low)
            end = _end(self._catalyst, high, -moved.added + moved.slack, LOWEST, UNPLACED)
            self._place(moved, high).highs.append(end)
        elif _reads(high, self._own) and _reads(low, self._other):
            moved = _moved(high)
            end = _end(self._catalyst, low, -moved.added - moved.slack, UNPLACED, LOWEST)
            self._place(moved, low).lows.append(end)

    def _place(self, moved: _Moved, bound: JavaObject) -> _Place:
        same = (known for known in self._places if known.core.semanticEquals(moved.core))
        place = next(same, None)
        if place is None:
            place = _Place(moved.core)
            self._places.append(place)
        place.sums.append(moved)
        is_exact = moved.whole is moved.core
        place.exact += is_exact and all(_is_safe(self._catalyst, e) for e in (moved.core, bound))
        return place

    def widest(self, conjuncts: int) -> Range | None:
        """The range with the most ends, the first of several, for a condition of `conjuncts`."""
        if not self._places:
            return None
        best = max(self._places, key=lambda place: bool(place.lows) + bool(place.highs))
        place = _End(_place(self._catalyst, best), str(best.core.sql()))
        return Range(
            self._scalar(place, self._own),
            self._closest("Greatest", best.lows),
            self._closest("Least", best.highs),
            decides=best.exact == conjuncts,
        )

    def _closest(self, function: str, ends: Sequence[_End]) -> Scalar | None:
        if not ends:
            return None
        if len(ends) == 1:
            return self._scalar(ends[0], self._other)
        expressions = self._catalyst.seq(end.expression for end in ends)
        display = f"{function.lower()}({', '.join(end.display for end in ends)})"
        return self._scalar(
            _End(self._catalyst.expression(function)(expressions), display), self._other
        )

    def _scalar(self, end: _End, inputs: Sequence[JavaObject]) -> Scalar:
        found = self._translator.scalar(end.expression, inputs)
        assert isinstance(found, CatalystScalar)
        return replace(found, nullable=False, display=end.display)


def _reads(expression: JavaObject, attributes: Sequence[JavaObject]) -> bool:
    """Does an expression read some of the attributes and no others?"""
    read = ids_read(expression)
    return bool(read) and read <= {id_of(a) for a in attributes}


# ---- constants ---------------------------------------------------------------------------------


def _moved(expression: JavaObject) -> _Moved:
    """The expression without the constants that are added to it."""
    core, added, slack = expression, 0, 0
    while (found := _sum(core)) is not None:
        core, constant, more = found
        added, slack = added + constant, slack + more
    return _Moved(expression, core, added, slack)


def _sum(expression: JavaObject) -> tuple[JavaObject, int, int] | None:
    """A sum with a constant: what it is added to, the constant, and how far that may be off."""
    kind = simple_name(expression)
    type_ = simple_name(expression.dataType())
    if kind in ("Add", "Subtract") and type_ in _WHOLE:
        sign = 1 if kind == "Add" else -1
        constant = _constant(expression.right())
        if constant is not None:
            return expression.left(), sign * constant, 0
        constant = _constant(expression.left())
        return None if constant is None or sign < 0 else (expression.right(), constant, 0)
    if kind in ("DateAdd", "DateSub"):
        first, days = items(expression.children())
        constant = _constant(days)
        return (
            None if constant is None else (first, constant if kind == "DateAdd" else -constant, 0)
        )
    if kind == "TimestampAddInterval":
        first, interval = items(expression.children())
        if simple_name(interval.dataType()) != "DayTimeIntervalType":
            return None
        constant = _constant(interval)
        if constant is None:
            return None
        zoned = type_ == "TimestampType" and abs(constant) >= _DAY
        return first, constant, _SLACK if zoned else 0
    return None


def _constant(expression: JavaObject) -> int | None:
    if simple_name(expression) != "Literal" or expression.value() is None:
        return None
    return int(expression.value())


# ---- expressions -------------------------------------------------------------------------------


def _place(catalyst: Catalyst, place: _Place) -> JavaObject:
    """Where a row stands: at the prefix of the core, unless a sum with it is not what it seems."""
    core = place.core
    # NULLs match nothing: they stand where the fewest ranges find them.
    of_null = LOWEST if place.lows and not place.highs else _NULLS_LAST
    sums = [moved for moved in place.sums if moved.whole is not core]
    if not sums:
        return _without_nulls(catalyst, core, _prefix(catalyst, core), of_null, UNPLACED)
    value = _tried(catalyst, core, _prefix(catalyst, core))
    for moved in sums:
        value = catalyst.expression("If")(_is_plain(catalyst, moved), value, _null(catalyst))
    return _replaced(catalyst, core, value, of_null, UNPLACED)


def _is_plain(catalyst: Catalyst, moved: _Moved) -> JavaObject:
    """Is the sum computed without an error, and not wrapped around?"""
    compared = "GreaterThanOrEqual" if moved.added >= 0 else "LessThanOrEqual"
    tried = catalyst.expression("TryEval")(moved.whole)
    kept = catalyst.expression(compared)(tried, moved.core)
    return catalyst.expression("Coalesce")(catalyst.seq([kept, catalyst.literal("false")]))


def _end(catalyst: Catalyst, bound: JavaObject, added: int, of_null: int, open_: int) -> _End:
    """The end of a range: the prefix of the bound, and a constant added to it."""
    value = _plus(catalyst, _prefix(catalyst, bound), added)
    return _End(_without_nulls(catalyst, bound, value, of_null, open_), _shown(bound, added))


def _shown(bound: JavaObject, added: int) -> str:
    if not added:
        return str(bound.sql())
    amount = f"{abs(added):,}"
    if simple_name(bound.dataType()) in _TIMES:
        amount = f"{abs(added) / 10**6:,g} s"
    return f"{bound.sql()} {'+' if added > 0 else '-'} {amount}"


def _plus(catalyst: Catalyst, value: JavaObject, added: int) -> JavaObject:
    """The sum of a bigint and a constant, or the bigint nearest to it; NULL for NULL."""
    if not added:
        return value
    nearest, limit = ("Least", UNPLACED) if added > 0 else ("Greatest", LOWEST)
    within = catalyst.expression(nearest)(
        catalyst.seq([value, catalyst.literal(f"{limit - added}L")])
    )
    moved = catalyst.expression("Add")(within, catalyst.literal(f"{added}L"))
    # Of NULL and a number the least and the greatest are the number.
    return catalyst.expression("If")(catalyst.expression("IsNull")(value), _null(catalyst), moved)


def _prefix(catalyst: Catalyst, expression: JavaObject) -> JavaObject:
    return bare_prefix(catalyst, ascending(catalyst, expression))


def _null(catalyst: Catalyst) -> JavaObject:
    return catalyst.null(catalyst.data_type("bigint"))


def _without_nulls(
    catalyst: Catalyst, source: JavaObject, value: JavaObject, of_null: int, failed: int
) -> JavaObject:
    """The value, with numbers in its place where the expression it is made of is NULL or fails."""
    if _is_safe(catalyst, source) and not source.nullable():
        return value
    if _is_safe(catalyst, source):
        return catalyst.expression("Coalesce")(
            catalyst.seq([value, catalyst.literal(f"{of_null}L")])
        )
    return _replaced(catalyst, source, _tried(catalyst, source, value), of_null, failed)


def _replaced(
    catalyst: Catalyst, source: JavaObject, value: JavaObject, of_null: int, missing: int
) -> JavaObject:
    """The value, with one number in its place where its source is NULL, and another elsewhere."""
    whole = catalyst.expression("Coalesce")(catalyst.seq([value, catalyst.literal(f"{missing}L")]))
    is_null = _is_null(catalyst, source)
    if is_null is None:
        return whole
    return catalyst.expression("If")(is_null, catalyst.literal(f"{of_null}L"), whole)


def _tried(catalyst: Catalyst, source: JavaObject, value: JavaObject) -> JavaObject:
    """The value, or NULL where the expression that it is made of fails."""
    return value if _is_safe(catalyst, source) else catalyst.expression("TryEval")(value)


def _is_safe(catalyst: Catalyst, expression: JavaObject) -> bool:
    """Is the expression known never to fail?"""
    match simple_name(expression):
        case "AttributeReference":
            return True
        case "GetStructField":
            return _is_safe(catalyst, expression.child())
        case "Cast":
            child, target = expression.child(), expression.dataType()
            cast = catalyst.module("org.apache.spark.sql.catalyst.expressions.Cast")
            numbers = all(_is_number(each) for each in (child.dataType(), target))
            wider = numbers and bool(cast.canUpCast(child.dataType(), target))
            day = simple_name(target) == "DateType" and simple_name(child.dataType()) in _TIMES
            return (wider or day) and _is_safe(catalyst, child)
    return False


def _is_number(data_type: JavaObject) -> bool:
    return simple_name(data_type) in (*_WHOLE, "FloatType", "DoubleType", "DecimalType")


def _is_null(catalyst: Catalyst, expression: JavaObject) -> JavaObject | None:
    """Whether the expression is NULL, in words that cannot fail; None if there are none."""
    is_null = catalyst.expression("IsNull")
    if _is_safe(catalyst, expression):
        return is_null(expression) if expression.nullable() else None
    if not _gives_null_for_null(expression):
        return None
    whole: JavaObject | None = None
    for attribute in items(expression.references().toSeq()):
        if attribute.nullable():
            part = is_null(attribute)
            whole = part if whole is None else catalyst.expression("Or")(whole, part)
    return whole


def _gives_null_for_null(expression: JavaObject) -> bool:
    return all(
        not children_of(node) or bool(node.nullIntolerant())
        for node in visited(expression, children_of)
    )
