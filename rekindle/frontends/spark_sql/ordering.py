"""Windows and limits as functions of a group's rows.

Where an order leaves rows level, Spark may take any of them first. A view must be a function of
its tables, so here the remaining columns decide: they are added to the order wherever a result
could depend on which of two level rows comes first, and never where they must count as level
(rank, RANGE frames). A function that picks rows from a RANGE frame needs both: its frame is that of
the order as written, and the rows are put into the total order first.

A limit reads the beginning of an ordered trace: its order is Spark's own 64-bit sort prefix of the
first sort expression, and rows that the prefix leaves level are sorted by Spark in full.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rekindle.calculus.terms import (
    Distance,
    Map,
    PerGroup,
    Reach,
    RunningFrame,
    SlidingFrame,
    TopRows,
)
from rekindle.catalyst import bodies
from rekindle.catalyst.jvm import (
    Catalyst,
    JavaObject,
    child_of,
    id_of,
    is_collated,
    items,
    simple_name,
    type_of,
    variant_bytes,
)
from rekindle.catalyst.numbering import ascending, windowed
from rekindle.frontends.spark_sql import reaches
from rekindle.frontends.spark_sql.reaches import Frame, Running, Sight
from rekindle.frontends.spark_sql.running import continued
from rekindle.frontends.spark_sql.translated import Translated

if TYPE_CHECKING:
    from rekindle.frontends.spark_sql.translate import Translator

UNLIMITED = 2**31 - 1
_PEERS = ("Rank", "DenseRank", "PercentRank", "CumeDist")
"""Ranking functions that give level rows the same value."""
_PICKING = ("First", "Last", "NthValue", "CollectList", "AnyValue", "ListAgg")
_IN_64_BITS = (
    "ByteType",
    "ShortType",
    "IntegerType",
    "LongType",
    "FloatType",
    "DoubleType",
    "YearMonthIntervalType",
    "DayTimeIntervalType",
)
_UNSIGNED = ("StringType", "BinaryType", "FloatType", "DoubleType")


def prefix(catalyst: Catalyst, order: JavaObject) -> JavaObject:
    """A bigint that ascends with the order; level where the order's first 64 bits are."""
    value = bare_prefix(catalyst, order)
    first = simple_name(order.nullOrdering()) == "NullsFirst"
    of_null = catalyst.literal(f"{-(2**63) if first else 2**63 - 1}L")
    return catalyst.expression("Coalesce")(catalyst.seq([value, of_null]))


def bare_prefix(catalyst: Catalyst, order: JavaObject) -> JavaObject:
    """The same, but NULL for a NULL."""
    if _begins(order.child().dataType()):
        # A struct is ordered by its first field first; its NULLs come before all, so it has none.
        first = catalyst.expression("GetStructField")(order.child(), 0, catalyst.none())
        return bare_prefix(catalyst, order.withNewChildren(catalyst.seq([first])))
    if is_collated(order.child().dataType()):
        # Spark's prefix of a text is that of its bytes, whatever order its collation has.
        order = order.withNewChildren(catalyst.seq([catalyst.collation_key(order.child())]))
    if _is_rounded(order.child().dataType()):
        double = catalyst.cast(order.child(), catalyst.data_type("double"))
        order = order.withNewChildren(catalyst.seq([double]))
    value = catalyst.expression("SortPrefix")(order)
    if _is_unsigned(order.child().dataType()):
        value = catalyst.expression("BitwiseXor")(value, catalyst.literal(f"{-(2**63)}L"))
    if simple_name(order.direction()) == "Descending":
        value = catalyst.expression("BitwiseNot")(value)
    return value


def _is_rounded(data_type: JavaObject) -> bool:
    """Does Spark round a decimal to 18 digits to make its prefix?

    It does so in place, in the value that it was given, and a value that the rounding makes too
    large for 18 digits comes before all others.
    """
    if simple_name(data_type) != "DecimalType":
        return False
    return bool(data_type.precision() > 18 >= data_type.precision() - data_type.scale())


def has_exact_prefix(expression: JavaObject) -> bool:
    """Do values of this type that share a prefix compare as equal? A NULL may share one."""
    data_type = expression.dataType()
    if simple_name(data_type) == "DecimalType":
        return bool(data_type.precision() <= 18)
    return simple_name(data_type) in _IN_64_BITS


def _begins(data_type: JavaObject) -> bool:
    """Is this a struct whose first field is never NULL?"""
    if simple_name(data_type) != "StructType" or not data_type.length():
        return False
    return not data_type.fields()[0].nullable()


def _is_unsigned(data_type: JavaObject) -> bool:
    """Does Spark compare the prefix of a type without a sign? A wide decimal's is a double's."""
    kind = simple_name(data_type)
    if kind == "DecimalType":
        return bool(data_type.precision() - data_type.scale() > 18)
    return kind in _UNSIGNED


def total_order(
    catalyst: Catalyst, order: Sequence[JavaObject], attributes: Sequence[JavaObject]
) -> list[JavaObject]:
    """The order, and after it whatever of the columns it leaves undecided."""
    named = {id_of(o.child()) for o in order if simple_name(o.child()) == "AttributeReference"}
    rest = [
        ascending(catalyst, deciding)
        for a in attributes
        if id_of(a) not in named or is_collated(a.dataType())
        for deciding in _deciding(catalyst, a)
    ]
    return [*order, *rest]


def _deciding(catalyst: Catalyst, column: JavaObject) -> tuple[JavaObject, ...]:
    """Expressions in an order of which values that differ are not level."""
    if simple_name(column.dataType()) == "VariantType":
        return variant_bytes(catalyst.jvm, column)
    if not _is_orderable(column.dataType()):
        return (catalyst.cast(column, catalyst.data_type("string")),)
    return (catalyst.without_collation(column) if is_collated(column.dataType()) else column,)


def _is_orderable(data_type: JavaObject) -> bool:
    match simple_name(data_type):
        case "MapType" | "VariantType" | "CalendarIntervalType":
            return False
        case "ArrayType":
            return _is_orderable(data_type.elementType())
        case "StructType":
            return all(_is_orderable(field.dataType()) for field in data_type.fields())
    return True


# ---- limits ------------------------------------------------------------------------------------


def limit(translator: Translator, plan: JavaObject) -> Translated:
    """ORDER BY, LIMIT and OFFSET together, or any of the latter alone."""
    last, offset, node = UNLIMITED, 0, plan
    while True:
        kind = simple_name(node)
        if kind == "GlobalLimit":
            last = min(last, int(node.limitExpr().eval(None)))
        elif kind == "Offset":
            passed = int(node.offsetExpr().eval(None))
            offset, last = offset + passed, min(last + passed, UNLIMITED)
        elif kind != "LocalLimit":
            break
        node = node.child()
    if simple_name(node) == "Project" and simple_name(node.child()) == "Sort":
        chosen = _top(translator, node.child(), offset, last)
        return translator.map(chosen, items(node.projectList()))
    return _top(translator, node, offset, last)


def _top(translator: Translator, node: JavaObject, offset: int, last: int) -> Translated:
    catalyst = translator.catalyst
    order: list[JavaObject] = []
    if simple_name(node) == "Sort":
        order, node = items(node.order()), node.child()
    child = translator.translate(node)
    rank = catalyst.expression("RowNumber")()
    total = total_order(catalyst, order, child.attributes)
    return _first(translator, child, (), rank, total, offset, last)


def group_limit(translator: Translator, plan: JavaObject) -> Translated:
    """The rows of each window partition that a filter on their rank can leave."""
    child = translator.translate(child_of(plan))
    child, keys = with_keys(translator, child, items(plan.partitionSpec()))
    order = items(plan.orderSpec())
    rank = plan.rankLikeFunction()
    if simple_name(rank) == "RowNumber":
        order = total_order(translator.catalyst, order, child.attributes)
    return _first(translator, child, keys, rank, order, 0, int(plan.limit()))


def _first(
    translator: Translator,
    child: Translated,
    keys: tuple[int, ...],
    rank: JavaObject,
    order: Sequence[JavaObject],
    offset: int,
    last: int,
) -> Translated:
    """The rows of rank in (offset, last] of each group, read from the beginning of its order."""
    ordered, first = child, None
    if order and last < UNLIMITED and simple_name(rank) != "DenseRank":
        ordered = _with_order(translator, child, order)
        first = TopRows(len(child.attributes), last)
    body = bodies.top(translator.catalyst, rank, order, ordered.attributes, offset, last)
    kept = tuple((str(a.name()), translator.scalar(a, child.attributes)) for a in child.attributes)
    return Translated(Map(PerGroup(ordered.term, keys, body, first), kept), child.attributes)


def _with_order(
    translator: Translator, child: Translated, order: Sequence[JavaObject]
) -> Translated:
    """The rows with one column more: the order that they are stored in."""
    catalyst, attributes = translator.catalyst, child.attributes
    kept = [(str(a.name()), translator.scalar(a, attributes)) for a in attributes]
    value = translator.scalar(prefix(catalyst, order[0]), attributes)
    term = Map(child.term, (*kept, ("order", value)))
    return Translated(term, (*attributes, catalyst.attribute("order", "bigint")))


# ---- windows -----------------------------------------------------------------------------------


def window(translator: Translator, plan: JavaObject) -> Translated:
    """Window functions of each partition.

    Catalyst puts a group limit below a window whose rank is then filtered. The functions see only
    what comes before a row, so the first rows of a partition are enough: the limit is not computed
    for itself, and the filter drops what is level with the last row but beyond it.
    """
    sorted_ = _in_the_order_below(translator.catalyst, plan)
    if sorted_ is not None:
        return translator.translate(sorted_)
    below = child_of(plan)
    limited = simple_name(below) == "WindowGroupLimit" and _is_limit_of(below, plan)
    child = translator.translate(child_of(below) if limited else below)
    width = len(child.attributes)
    order = items(plan.orderSpec())
    keyed, keys = with_keys(translator, child, items(plan.partitionSpec()))
    results = items(plan.windowExpressions())
    # Where Catalyst takes a correlated subquery apart, columns of its own stand among them.
    computed = [result for result in results if simple_name(result) != "AttributeReference"]
    for result in computed:
        translator.refuse_inner(result)
    expressions, around = _apart(translator.catalyst, computed)
    total = total_order(translator.catalyst, order, child.attributes)
    parts = _picking(expressions, order, total)
    for ties, used in ((Distance.VALUES, order), (Distance.ROWS, total)):
        group = [e for e in expressions if ties_of(e.child()) is ties]
        if limited and group:
            parts.append(_Part(group, used, ties, int(below.limit())))
        elif group:
            parts += [_Part(e, used, ties, sight) for e, sight in reaches.parts(group, used, ties)]
    place = len(keyed.attributes)
    current = keyed
    if any(part.sight is not None for part in parts):
        current = _with_order(translator, keyed, total)
    told: list[JavaObject] = []
    for part in parts:
        if part.ties is Distance.ROWS:
            # Rows that are equal in all columns have places too, the same for every part.
            part = replace(part, order=[*part.order, *told])
        current = _windowed(translator.catalyst, current, keys, part, place)
        match current.term:
            case PerGroup(reach=RunningFrame(rows=rows)) if part.ties is Distance.ROWS:
                told = [ascending(translator.catalyst, current.attributes[rows])]
    output = [*child.attributes[:width], *(result.toAttribute() for result in results)]
    outputs = tuple(
        (str(a.name()), translator.scalar(around.get(id_of(a), a), current.attributes))
        for a in output
    )
    return Translated(Map(current.term, outputs), tuple(output))


def _in_the_order_below(catalyst: Catalyst, plan: JavaObject) -> JavaObject | None:
    """The window in the order of a sort below it, if it has none of its own.

    Catalyst numbers the rows of a correlated subquery with a limit in this way, where its order is
    by columns that it does not give.
    """
    below = child_of(plan)
    columns = items(below.output())
    if simple_name(below) == "Project":
        columns, below = items(below.projectList()), below.child()
    if items(plan.orderSpec()) or simple_name(below) != "Sort":
        return None
    named = [catalyst.named(order.child(), "order") for order in items(below.order())]
    order = [
        order.withNewChildren(catalyst.seq([column.toAttribute()]))
        for order, column in zip(items(below.order()), named, strict=True)
    ]
    rows = catalyst.plan("Project")(catalyst.seq([*columns, *named]), below.child())
    numbered = windowed(
        catalyst, items(plan.windowExpressions()), items(plan.partitionSpec()), order, rows
    )
    return catalyst.plan("Project")(plan.output(), numbered)


@dataclass(frozen=True, slots=True)
class _Part:
    """Window functions in one order that see alike: so many first rows, or what `reaches` says."""

    named: list[JavaObject]
    order: list[JavaObject]
    ties: Distance
    sight: Sight | int | None
    total: tuple[JavaObject, ...] = ()
    """The order of the rows, where that is not the one of the frames."""


def _picking(
    expressions: Sequence[JavaObject], order: list[JavaObject], total: Sequence[JavaObject]
) -> list[_Part]:
    """The functions that pick rows from frames of values."""
    group = [e for e in expressions if ties_of(e.child()) is None]
    found = reaches.parts(group, order, Distance.VALUES)
    if any(sight is Running.RUNNING for _, sight in found):
        # Level rows would have to be told apart by the row before them.
        found = [(group, None)]
    return [_Part(e, order, Distance.VALUES, sight, tuple(total)) for e, sight in found]


def _windowed(
    catalyst: Catalyst, child: Translated, keys: tuple[int, ...], part: _Part, place: int
) -> Translated:
    """The rows, whose order stands at a place, with the values of window functions."""
    attributes, named = child.attributes, part.named
    reach: Reach | None = None
    match part.sight:
        case Frame(before, after, distance):
            reach = SlidingFrame(place, before, after, distance)
        case int(rows):
            reach = TopRows(place, rows)
        case Running.RUNNING:
            made = continued(catalyst, named, part.ties)
            reach = RunningFrame(place, len(attributes) + made.rows)
            named = made.named
    body = bodies.window(catalyst, named, part.order, attributes)
    if part.total:
        body = bodies.picking(catalyst, body, part.total)
    if part.sight is Running.RUNNING:
        body = bodies.running(body, len(part.named), made.moment, made.going_on)
    return Translated(
        PerGroup(child.term, keys, body, reach),
        (*attributes, *(e.toAttribute() for e in named)),
    )


def _apart(
    catalyst: Catalyst, results: Sequence[JavaObject]
) -> tuple[list[JavaObject], dict[int, JavaObject]]:
    """The window functions, and by the id of a result the expression that stands around them.

    Catalyst computes sums of small decimals as sums of integers, with a conversion around them.
    """
    functions: list[JavaObject] = []
    around = {}

    def cut(node: JavaObject) -> JavaObject | None:
        if simple_name(node) != "WindowExpression":
            return None
        functions.append(catalyst.named(node, f"function{len(functions)}"))
        return functions[-1].toAttribute()

    for result in results:
        if simple_name(result.child()) == "WindowExpression":
            functions.append(result)
        else:
            around[id_of(result)] = catalyst.transform(result.child(), cut)
    return functions, around


def _is_limit_of(group_limit: JavaObject, plan: JavaObject) -> bool:
    """Is this the window's own limit, and one by rows? dense_rank() counts values instead."""
    return (
        simple_name(group_limit.rankLikeFunction()) != "DenseRank"
        and group_limit.partitionSpec().equals(plan.partitionSpec())
        and group_limit.orderSpec().equals(plan.orderSpec())
    )


def ties_of(call: JavaObject) -> Distance | None:
    """Whether level rows are told apart, or count as one; None: by the function, not its frame."""
    function = reaches.function_of(call)
    if simple_name(function) in _PEERS:
        return Distance.VALUES
    frame = call.windowSpec().frameSpecification()
    if simple_name(frame.frameType()) != "RangeFrame":
        return Distance.ROWS
    if simple_name(function) not in _PICKING:
        return Distance.VALUES
    return Distance.ROWS if _picks_an_end(function, frame) else None


def _picks_an_end(function: JavaObject, frame: JavaObject) -> bool:
    """Does it pick the same row of the partition wherever a frame cuts level rows?"""
    starts = simple_name(frame.lower()) == "UnboundedPreceding"
    ends = simple_name(frame.upper()) == "UnboundedFollowing"
    if starts and ends:
        return True
    if simple_name(frame.upper() if starts else frame.lower()) != "CurrentRow":
        return False
    match simple_name(function):
        case "First":
            return starts and not function.ignoreNulls()
        case "Last":
            return ends and not function.ignoreNulls()
    return False


def with_keys(
    translator: Translator, child: Translated, expressions: Sequence[JavaObject]
) -> tuple[Translated, tuple[int, ...]]:
    """The rows with a column for each expression, and where these columns are."""
    places = {id_of(a): i for i, a in enumerate(child.attributes)}
    outputs = [(str(a.name()), translator.scalar(a, child.attributes)) for a in child.attributes]
    attributes = list(child.attributes)
    keys = []
    for i, expression in enumerate(expressions):
        if simple_name(expression) == "AttributeReference":
            keys.append(places[id_of(expression)])
            continue
        keys.append(len(outputs))
        outputs.append((f"key{i}", translator.scalar(expression, child.attributes)))
        attributes.append(translator.catalyst.attribute(f"key{i}", type_of(expression)))
    if len(attributes) == len(child.attributes):
        return child, tuple(keys)
    return Translated(Map(child.term, tuple(outputs)), tuple(attributes)), tuple(keys)
