"""Random join queries of known shapes over three small tables, and streams of their changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from hypothesis import strategies as st

from rekindle.algebra.groups import INTEGERS
from rekindle.algebra.zset import ZSet
from rekindle.calculus.interpreter import Rows
from rekindle.calculus.scalars import Call, Column, Evaluable, Literal
from rekindle.calculus.schema import Schema
from rekindle.calculus.terms import (
    Aggregate,
    AggregateFunction,
    Filter,
    Join,
    Map,
    Measure,
    Source,
    Term,
)

Draw: TypeAlias = Callable[[st.SearchStrategy[Any]], Any]

R = Source("r", Schema.of(x="int", y="int", z="int"))
S = Source("s", Schema.of(x="int", y="int", z="int"))
T = Source("t", Schema.of(x="int", y="int", z="int"))
SOURCES = (R, S, T)
WIDTH = 3
LENGTH = 4
"""How many transactions a stream has."""


_KEYS = st.sampled_from((0, 1, 0, 1, 0, 1, 2, None))
"""Few values, or joins of five tables would nearly always be empty."""
_NUMBERS = st.sampled_from((1, 2, 3, None))
"""What is summed: often NULL, never zero, which would hide a factor."""


def bags() -> st.SearchStrategy[Rows]:
    """Some rows, with duplicates, or now and then none."""
    rows = st.tuples(_KEYS, _KEYS, _NUMBERS)
    pairs = st.tuples(rows, st.sampled_from((1, 1, 2)))
    full = st.lists(pairs, min_size=4, max_size=6)
    found = st.one_of(full, full, full, st.lists(pairs, max_size=2))
    return found.map(lambda pairs: ZSet(pairs, INTEGERS))


def databases() -> st.SearchStrategy[dict[str, Rows]]:
    """A bag for each of the tables."""
    return st.fixed_dictionaries({s.name: bags() for s in SOURCES})


def transactions() -> st.SearchStrategy[dict[str, list[Rows]]]:
    """A stream of inserts and deletes for each of the tables."""
    return st.fixed_dictionaries({s.name: _changes() for s in SOURCES})


@st.composite
def _changes(draw: Draw) -> list[Rows]:
    """Inserts mixed with deletes of rows that are there; sometimes nothing, sometimes all goes."""
    state: Rows = ZSet.of({})
    found: list[Rows] = []
    for _ in range(LENGTH):
        kind = draw(st.sampled_from(("insert", "mixed", "mixed", "empty", "delete all")))
        change: Rows = draw(bags()) if kind in ("insert", "mixed") else ZSet.of({})
        if kind == "delete all":
            change = -state
        elif kind == "mixed" and len(state):
            gone = draw(st.sets(st.sampled_from(sorted((row for row, _ in state), key=repr))))
            change = change - ZSet(((row, 1) for row in gone), INTEGERS)
        state = state + change
        found.append(change)
    return found


Edge: TypeAlias = tuple[int, int, int, int]
"""Leaf, column, an earlier leaf, its column: the two are equated."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A named way of joining some leaves."""

    name: str
    leaves: int
    edges: tuple[Edge, ...]


def star(leaves: int) -> Shape:
    return Shape(f"star of {leaves}", leaves, tuple((i, 0, 0, 0) for i in range(1, leaves)))


def chain(leaves: int) -> Shape:
    return Shape(f"chain of {leaves}", leaves, tuple((i, 0, i - 1, 1) for i in range(1, leaves)))


SNOWFLAKE = Shape("snowflake", 5, ((1, 0, 0, 0), (2, 0, 0, 1), (3, 0, 1, 1), (4, 0, 2, 1)))
TRIANGLE = Shape("triangle", 3, ((1, 0, 0, 1), (2, 0, 1, 1), (2, 1, 0, 0)))
SQUARE = Shape("square", 4, ((1, 0, 0, 1), (2, 0, 1, 1), (3, 0, 2, 1), (3, 1, 0, 0)))
TWO_KEYS = Shape("two keys", 3, ((1, 0, 0, 0), (1, 1, 0, 1), (2, 0, 1, 1)))
ONE_COLUMN_TWICE = Shape("one column twice", 2, ((1, 0, 0, 0), (1, 0, 0, 1)))
PRODUCT = Shape("product", 3, ((1, 0, 0, 0),))
PLAIN_PRODUCT = Shape("plain product", 2, ())
SHAPES = (
    *map(star, (2, 3, 4, 5)),
    *map(chain, (2, 3, 4, 5)),
    SNOWFLAKE,
    TRIANGLE,
    SQUARE,
    TWO_KEYS,
    ONE_COLUMN_TWICE,
    PRODUCT,
    PLAIN_PRODUCT,
)


def column(leaf: int, position: int) -> Column:
    """A column of a leaf in the row of the whole join."""
    return Column(leaf * WIDTH + position, "int")


def joined(shape: Shape, leaves: tuple[Term, ...]) -> Term:
    """The leaves joined from left to right."""
    term = leaves[0]
    for i in range(1, shape.leaves):
        edges = [edge for edge in shape.edges if edge[0] == i]
        left = tuple(column(there, theirs) for _, _, there, theirs in edges)
        right = tuple(Column(ours, "int") for _, ours, _, _ in edges)
        term = Join(term, leaves[i], left, right)
    return term


def call(name: str, *arguments: Evaluable, type_: str = "int") -> Call:
    return Call(name, arguments, type_)


_TWO = Literal(2, "int")


def _on_leaf(leaf: int) -> st.SearchStrategy[Evaluable]:
    plain = st.sampled_from((0, 1, 2, 2)).map(lambda position: column(leaf, position))
    sums = st.builds(lambda a, b: call("add", a, b), plain, plain)
    return st.one_of(plain, plain, plain, sums, st.just(_TWO))


@st.composite
def _argument(draw: Draw, leaves: int) -> Evaluable:
    """A factor of one leaf, or a product, sum or difference of such."""
    value: Evaluable = draw(_on_leaf(draw(st.integers(0, leaves - 1))))
    for _ in range(draw(st.integers(0, 2))):
        other = draw(_on_leaf(draw(st.integers(0, leaves - 1))))
        value = call(draw(st.sampled_from(("multiply", "add", "subtract"))), value, other)
    return value


@st.composite
def _measure(draw: Draw, leaves: int, name: str) -> Measure:
    function = draw(
        st.sampled_from((AggregateFunction.SUM, AggregateFunction.AVERAGE, AggregateFunction.COUNT))
    )
    if function is AggregateFunction.COUNT:
        arguments = tuple(draw(st.lists(_argument(leaves), max_size=2)))
        return Measure(name, function, arguments, "bigint", nullable=False)
    return Measure(name, function, (draw(_argument(leaves)),), "bigint")


def _condition(leaf: int) -> st.SearchStrategy[Evaluable]:
    comparisons = st.builds(
        lambda a, b: call("less", a, b, type_="boolean"), _on_leaf(leaf), st.just(_TWO)
    )
    equal = st.builds(
        lambda a, b: call("equal", a, b, type_="boolean"), _on_leaf(leaf), _on_leaf(leaf)
    )
    tests = _on_leaf(leaf).map(lambda value: call("is_null", value, type_="boolean"))
    present = tests.map(lambda test: call("not", test, type_="boolean"))
    return st.one_of(comparisons, comparisons, equal, present)


@st.composite
def join_terms(draw: Draw, shapes: tuple[Shape, ...] = SHAPES) -> Aggregate:
    """Aggregates over joins, with filters and computed columns in between; all are join queries."""
    shape = draw(st.sampled_from(shapes))
    leaves = tuple(draw(st.sampled_from(SOURCES)) for _ in range(shape.leaves))
    term = joined(shape, leaves)
    for _ in range(draw(st.sampled_from((0, 0, 1, 2)))):
        predicate = draw(_condition(draw(st.integers(0, shape.leaves - 1))))
        if draw(st.booleans()):
            other = draw(_condition(draw(st.integers(0, shape.leaves - 1))))
            predicate = call("and", predicate, other, type_="boolean")
        term = Filter(term, predicate)
    keys = draw(st.lists(_on_leaf(draw(st.integers(0, shape.leaves - 1))), max_size=2))
    keys += draw(st.lists(_on_leaf(draw(st.integers(0, shape.leaves - 1))), max_size=1))
    count = draw(st.integers(0 if keys else 1, 3))
    measures = [draw(_measure(shape.leaves, f"m{i}")) for i in range(count)]
    if draw(st.booleans()):
        return _over_projection(term, keys, measures)
    named = tuple((f"k{i}", key) for i, key in enumerate(keys))
    return Aggregate(term, named, tuple(measures))


def _over_projection(term: Term, keys: list[Evaluable], measures: list[Measure]) -> Aggregate:
    """The same aggregate over a projection that computes the keys and arguments first."""
    outputs: list[tuple[str, Evaluable]] = []

    def moved(scalar: Evaluable) -> Column:
        outputs.append((f"c{len(outputs)}", scalar))
        return Column(len(outputs) - 1, scalar.type, scalar.nullable)

    named = tuple((f"k{i}", moved(key)) for i, key in enumerate(keys))
    over = tuple(
        Measure(m.name, m.function, tuple(moved(a) for a in m.arguments), m.type, m.nullable)  # type: ignore[arg-type]
        for m in measures
    )
    return Aggregate(Map(term, tuple(outputs) or (("one", Literal(1, "int")),)), named, over)
