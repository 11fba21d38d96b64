"""Random terms, databases and streams of transactions over three small tables.

Values come from a tiny domain with NULL, so that rows collide, keys match and groups shift. A
transaction inserts, deletes rows that are there, undoes the one before, empties a table or does
nothing: tables are bags at every time, which the rewrites take as a premise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from hypothesis import Phase, settings
from hypothesis import strategies as st

from rekindle.algebra.groups import INTEGERS
from rekindle.algebra.zset import ZSet
from rekindle.calculus.generators import Explode, ExplodeOuter
from rekindle.calculus.interpreter import Rows
from rekindle.calculus.scalars import Call, Column, Evaluable, Literal, Row
from rekindle.calculus.schema import Field, Schema
from rekindle.calculus.terms import (
    Aggregate,
    AggregateFunction,
    Answer,
    Condition,
    Distinct,
    Filter,
    FlatMap,
    Join,
    Map,
    Measure,
    Negate,
    OuterJoin,
    Padded,
    Range,
    RangeCondition,
    SemiJoin,
    Source,
    Term,
    UnionAll,
    Values,
)

Draw: TypeAlias = Callable[[st.SearchStrategy[Any]], Any]

R = Source("r", Schema.of(x="int", y="int"))
S = Source("s", Schema.of(x="int", y="int"))
BASKETS = Source("baskets", Schema.of(id="int", items="array<int>"))
SOURCES = (R, S, BASKETS)

LENGTH = 5
"""How many transactions a stream has."""

QUICK = settings(
    max_examples=2000, phases=(Phase.generate,), database=None, deadline=None, derandomize=True
)
"""For `find`: any counterexample will do, it need not be small."""

_VALUES: Mapping[str, st.SearchStrategy[Any]] = {
    "int": st.sampled_from((None, 0, 1, 2)),
    "boolean": st.sampled_from((None, False, True)),
    "array<int>": st.sampled_from((None, (), (0,), (1, 1), (0, None))),
}


def rows(schema: Schema) -> st.SearchStrategy[Row]:
    """Rows that fit a schema."""
    return st.tuples(*(_VALUES[type_] for type_ in schema.types))


def zsets(schema: Schema) -> st.SearchStrategy[Rows]:
    """Z-sets with weights of either sign."""
    pairs = st.tuples(rows(schema), st.integers(-2, 2))
    return st.lists(pairs, max_size=5).map(lambda found: ZSet(found, INTEGERS))


def bags(schema: Schema) -> st.SearchStrategy[Rows]:
    """Z-sets with positive weights."""
    pairs = st.tuples(rows(schema), st.integers(1, 2))
    return st.lists(pairs, max_size=5).map(lambda found: ZSet(found, INTEGERS))


def databases() -> st.SearchStrategy[dict[str, Rows]]:
    """A bag for each of the tables."""
    return st.fixed_dictionaries({source.name: bags(source.schema) for source in SOURCES})


@st.composite
def _changes(draw: Draw, schema: Schema) -> list[Rows]:
    state: Rows = ZSet.of({})
    changes: list[Rows] = []
    for _ in range(LENGTH):
        kind = draw(st.sampled_from(("insert", "mixed", "undo", "empty", "delete all")))
        change: Rows = ZSet.of({})
        if kind in ("insert", "mixed"):
            change = draw(bags(schema))
        if kind == "mixed" and len(state):
            gone = draw(st.sets(st.sampled_from(sorted((row for row, _ in state), key=repr))))
            change = change - ZSet(((row, 1) for row in gone), INTEGERS)
        if kind == "undo" and changes and (state - changes[-1]).is_positive():
            change = -changes[-1]
        if kind == "delete all":
            change = -state
        state = state + change
        assert state.is_positive()
        changes.append(change)
    return changes


def transactions() -> st.SearchStrategy[dict[str, list[Rows]]]:
    """A stream of changes for each of the tables."""
    return st.fixed_dictionaries({source.name: _changes(source.schema) for source in SOURCES})


def _integers(schema: Schema) -> st.SearchStrategy[Evaluable]:
    columns: list[Evaluable] = [
        Column(i, field.type, field.nullable)
        for i, field in enumerate(schema)
        if field.type == "int"
    ]
    leaves = st.sampled_from([*columns, Literal(1, "int"), Literal(None, "int")])
    calls = st.builds(
        lambda function, a, b: Call(function, (a, b), "int"),
        st.sampled_from(("add", "subtract", "coalesce")),
        leaves,
        leaves,
    )
    return st.one_of(leaves, calls) if not columns else st.one_of(st.sampled_from(columns), calls)


def _booleans(schema: Schema) -> st.SearchStrategy[Evaluable]:
    integers = _integers(schema)
    comparisons = st.builds(
        lambda function, a, b: Call(function, (a, b), "boolean"),
        st.sampled_from(("equal", "less", "greater")),
        integers,
        integers,
    )
    tests = st.builds(lambda a: Call("is_null", (a,), "boolean"), integers)
    simple = st.one_of(comparisons, tests)
    logic = st.builds(
        lambda function, a, b: Call(function, (a, b), "boolean"),
        st.sampled_from(("and", "or")),
        simple,
        simple,
    )
    return st.one_of(simple, logic, simple.map(lambda a: Call("not", (a,), "boolean")))


def _measures(schema: Schema) -> st.SearchStrategy[Measure]:
    integers, booleans = _integers(schema), _booleans(schema)
    numeric = st.sampled_from(
        (
            AggregateFunction.SUM,
            AggregateFunction.AVERAGE,
            AggregateFunction.MOMENTS,
            AggregateFunction.BIT_AND,
            AggregateFunction.BIT_OR,
            AggregateFunction.BIT_XOR,
        )
    )
    logical = st.sampled_from((AggregateFunction.ALL, AggregateFunction.ANY))
    return st.one_of(
        st.builds(
            lambda arguments: Measure("m", AggregateFunction.COUNT, tuple(arguments), "int", False),
            st.lists(integers, max_size=2),
        ),
        st.builds(lambda function, a: Measure("m", function, (a,), "int"), numeric, integers),
        st.builds(
            lambda a, b: Measure("m", AggregateFunction.COMOMENTS, (a, b), "int"),
            integers,
            integers,
        ),
        st.builds(lambda function, a: Measure("m", function, (a,), "boolean"), logical, booleans),
    )


@st.composite
def terms(draw: Draw, depth: int = 4) -> Term:
    """Terms of every operator, up to `depth` operators high, often with distincts."""
    if depth == 0:
        leaf: Term = draw(st.sampled_from((R, S)))
        return leaf
    kind = draw(st.sampled_from(_OPERATORS))
    child = draw(terms(draw(st.integers(0, depth - 1))))
    match kind:
        case "map":
            return _projected(draw, child, draw(st.integers(1, 3)))
        case "filter":
            return Filter(child, draw(_booleans(child.schema)))
        case "flatmap":
            generator = draw(st.sampled_from((Explode, ExplodeOuter)))(1, Field("item", "int"))
            return FlatMap(BASKETS, generator, (0,))
        case "union":
            other = draw(terms(depth - 1))
            return UnionAll((_projected(draw, child, 2), _projected(draw, other, 2)))
        case "difference":
            other = draw(terms(depth - 1))
            return UnionAll((_projected(draw, child, 2), Negate(_projected(draw, other, 2))))
        case "negate":
            return Negate(child)
        case "join":
            other = draw(st.one_of(st.just(child), terms(depth - 1)))
            return _joined(draw, child, other)
        case "distinct":
            return Distinct(child)
        case _:
            keys = draw(st.lists(_integers(child.schema), max_size=2))
            measures = draw(st.lists(_measures(child.schema), max_size=2))
            named = tuple((f"k{i}", key) for i, key in enumerate(keys))
            return Aggregate(child, named, tuple(measures))


def _conditions(left: Schema, right: Schema) -> st.SearchStrategy[Condition]:
    key = st.tuples(_integers(left), _integers(right))
    return st.builds(
        lambda keys, both, ours, theirs: Condition(
            tuple(a for a, _ in keys), tuple(b for _, b in keys), both, ours, theirs
        ),
        st.lists(key, max_size=1),
        st.one_of(st.none(), _booleans(left + right)),
        st.one_of(st.none(), _booleans(left)),
        st.one_of(st.none(), _booleans(right)),
    )


def _mixed_measures(schema: Schema) -> st.SearchStrategy[Measure]:
    integers = _integers(schema)
    extremes = st.sampled_from((AggregateFunction.LEAST, AggregateFunction.GREATEST))
    distinct = st.sampled_from((AggregateFunction.COUNT, AggregateFunction.SUM))
    modes = st.sampled_from((AggregateFunction.MODE, AggregateFunction.MODE_DESCENDING))
    values = st.sampled_from(Values)
    return st.one_of(
        _measures(schema),
        st.builds(lambda f, a: Measure("m", f, (a,), "int", order=a), extremes, integers),
        st.builds(
            lambda f, a: Measure("m", f, (a,), "int", values=Values.DISTINCT), distinct, integers
        ),
        st.builds(lambda f, a: _mode(f, a), modes, integers),
        st.builds(
            lambda a, v: Measure(
                "m", AggregateFunction.OTHER, (a,), "string", text="all", finish=listed, values=v
            ),
            integers,
            values,
        ),
    )


def _mode(function: AggregateFunction, value: Evaluable) -> Measure:
    """A mode; a row adds −1 to the number of its value, and 0 where that is NULL."""
    absent = Call("is_null", (value,), "bigint")
    step = Call("subtract", (absent, Literal(1, "bigint")), "bigint")
    return Measure("m", function, (value, step), "int", order=value)


def listed(rows: list[Row]) -> str:
    """An aggregate that depends on every row of its group."""
    return repr(sorted(rows, key=repr))


@st.composite
def derived_terms(draw: Draw) -> Term:
    """Derived operators, one upon another, over bags."""
    left: Term = draw(st.sampled_from((R, S)))
    for _ in range(draw(st.integers(1, 2))):
        right = draw(st.sampled_from((R, S)))
        match draw(st.sampled_from(("semi", "outer", "aggregate"))):
            case "semi":
                found = st.lists(_conditions(left.schema, right.schema), min_size=1, max_size=2)
                left = SemiJoin(left, right, tuple(draw(found)), draw(st.sampled_from(Answer)))
            case "outer":
                joined = _joined(draw, left, right)
                padded = draw(st.sampled_from(Padded))
                left = OuterJoin(
                    left,
                    right,
                    joined.left_keys,
                    joined.right_keys,
                    joined.residual,
                    padded,
                    joined.band,
                )
            case _:
                keys = draw(st.lists(_integers(left.schema), max_size=2))
                found_measures = st.lists(_mixed_measures(left.schema), min_size=1, max_size=3)
                named = tuple((f"k{i}", key) for i, key in enumerate(keys))
                left = Aggregate(left, named, tuple(draw(found_measures)))
    return left


_OPERATORS = (
    "map", "filter", "flatmap", "union", "difference", "negate", "join", "distinct", "distinct",
    "aggregate",
)  # fmt: skip


def _projected(draw: Draw, term: Term, width: int) -> Term:
    outputs = tuple((f"c{i}", draw(_integers(term.schema))) for i in range(width))
    return Map(term, outputs)


def _joined(draw: Draw, left: Term, right: Term) -> Join:
    count = draw(st.integers(0, 1))
    left_keys = tuple(draw(_integers(left.schema)) for _ in range(count))
    right_keys = tuple(draw(_integers(right.schema)) for _ in range(count))
    residual = draw(st.one_of(st.none(), _booleans(left.schema + right.schema)))
    band = None if residual is None else draw(_BANDS)
    return Join(left, right, left_keys, right_keys, residual, band)


_NUMBERS = st.builds(Literal, st.integers(-2, 2), st.just("bigint"))
_RANGES = st.one_of(
    st.builds(Range, _NUMBERS, _NUMBERS, _NUMBERS),
    st.builds(Range, _NUMBERS, st.none(), _NUMBERS),
    st.builds(Range, _NUMBERS, _NUMBERS, st.none()),
)
_BANDS = st.one_of(
    st.none(),
    st.builds(RangeCondition, _RANGES, _RANGES),
    st.builds(RangeCondition, _RANGES, st.none()),
    st.builds(RangeCondition, st.none(), _RANGES),
)
"""What a band says of a join is not looked at where its meaning is computed."""
