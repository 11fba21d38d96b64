"""Generators for the laws: Z-sets, streams of changes, random functions and operators.

Rows come from a tiny domain so that they collide: deletions meet insertions, duplicates add up,
keys match. Streams of changes mix fresh batches with empty ones, repeats, batches that undo the
one before and batches that delete everything so far.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from typing import TypeAlias, TypeVar, assert_never

from hypothesis import Phase, find, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample

from rekindle.algebra.groups import INTEGERS
from rekindle.algebra.relational import (
    distinct,
    distinct_change,
    equi_join,
    filter_rows,
    map_rows,
)
from rekindle.algebra.streams import (
    Stream,
    StreamGroup,
    agree,
    delay,
    differentiate,
    integrate,
    lift,
    lift2,
)
from rekindle.algebra.zset import FiniteMapGroup, ZSet, ZSetGroup, indexed_group

X = TypeVar("X")

Rows: TypeAlias = ZSet[int, int]
Changes: TypeAlias = Stream[Rows]
Unary: TypeAlias = Callable[[Changes], Changes]
Binary: TypeAlias = Callable[[Changes, Changes], Changes]

DOMAIN = 4
BATCHES = 5
HORIZON = BATCHES + 2

ZSETS: ZSetGroup[int, int] = ZSetGroup(INTEGERS)
INDEXED: FiniteMapGroup[int, Rows] = indexed_group(INTEGERS)
STREAMS: StreamGroup[Rows] = StreamGroup(ZSETS)

law = settings(deadline=None, max_examples=100)
same_stream = partial(agree, until=HORIZON)

rows = st.integers(0, DOMAIN - 1)
zsets: st.SearchStrategy[Rows] = st.dictionaries(rows, st.integers(-3, 3)).map(ZSet.of)
positive_zsets: st.SearchStrategy[Rows] = st.dictionaries(rows, st.integers(0, 3)).map(ZSet.of)
integer_streams = st.lists(st.integers(-5, 5), max_size=BATCHES).map(
    lambda values: Stream.from_list(values, INTEGERS)
)


class Batch(Enum):
    """The kinds of batches that a stream of changes is made of."""

    FRESH = auto()
    EMPTY = auto()
    REPEAT = auto()
    UNDO = auto()
    WIPE = auto()


@st.composite
def change_lists(draw: st.DrawFn) -> list[Rows]:
    """Batches with deletes, duplicates, cancelling and empty ones; sums may go negative."""
    batches: list[Rows] = []
    previous, total = ZSETS.zero, ZSETS.zero
    for kind in draw(st.lists(st.sampled_from(Batch), max_size=BATCHES)):
        match kind:
            case Batch.FRESH:
                batch = draw(zsets)
            case Batch.EMPTY:
                batch = ZSETS.zero
            case Batch.REPEAT:
                batch = previous
            case Batch.UNDO:
                batch = -previous
            case Batch.WIPE:
                batch = -total
            case _:
                assert_never(kind)
        batches.append(batch)
        previous, total = batch, total + batch
    return batches


changes: st.SearchStrategy[Changes] = change_lists().map(
    lambda batches: Stream.from_list(batches, ZSETS)
)


@dataclass(frozen=True, slots=True)
class Table:
    """A random function on the rows, given by its values."""

    values: tuple[int, ...]

    def __call__(self, row: int) -> int:
        return self.values[row]

    def holds(self, row: int) -> bool:
        return self.values[row] > 0


tables = st.builds(Table, st.tuples(*[rows] * DOMAIN))


def join(left: Rows, right: Rows) -> Rows:
    """A join by parity whose result rows are again small integers."""
    return equi_join(
        left, right, lambda a: a % 2, lambda b: b // 2, lambda a, b: (a + 3 * b) % DOMAIN
    )


def square(zset: Rows) -> Rows:
    return join(zset, zset)


def with_marker(zset: Rows) -> Rows:
    """Maps the empty Z-set to one that is not, so its lifting is not time-invariant."""
    return zset + ZSet.of({0: 1})


lifted_distinct = lift(distinct, ZSETS)
lifted_join = lift2(join, ZSETS)


def relation_to_stream_join(relation: Changes, events: Changes) -> Changes:
    """T(s, t) = I(s) ↑⋈ t of §7.5."""
    return lifted_join(integrate(relation), events)


def add_streams(left: Changes, right: Changes) -> Changes:
    return left + right


def negate_stream(stream: Changes) -> Changes:
    return -stream


LINEAR_OPERATORS: tuple[Unary, ...] = (
    lift(lambda zset: filter_rows(zset, lambda row: row > 1), ZSETS),
    lift(lambda zset: map_rows(zset, lambda row: row // 2), ZSETS),
    negate_stream,
    delay,
    integrate,
    differentiate,
)

OTHER_OPERATORS: tuple[Unary, ...] = (
    lifted_distinct,
    lift(square, ZSETS),
    lift(with_marker, ZSETS),
)

BILINEAR_OPERATORS: tuple[Binary, ...] = (lifted_join, relation_to_stream_join)

OTHER_BINARY_OPERATORS: tuple[Binary, ...] = (
    add_streams,
    lift2(distinct_change, ZSETS),
    lift2(lambda left, right: distinct(left) - square(right), ZSETS),
)


def compose(outer: Unary, inner: Unary) -> Unary:
    return lambda stream: outer(inner(stream))


linear_operators = st.sampled_from(LINEAR_OPERATORS) | st.builds(
    compose, st.sampled_from(LINEAR_OPERATORS), st.sampled_from(LINEAR_OPERATORS)
)
operators = st.sampled_from(LINEAR_OPERATORS + OTHER_OPERATORS) | st.builds(
    compose, st.sampled_from(LINEAR_OPERATORS), st.sampled_from(OTHER_OPERATORS)
)
bilinear_operators = st.sampled_from(BILINEAR_OPERATORS)
binary_operators = st.sampled_from(BILINEAR_OPERATORS + OTHER_BINARY_OPERATORS)


def counterexample(strategy: st.SearchStrategy[X], holds: Callable[[X], bool]) -> X:
    """A value at which the property fails; an assertion error when none is found."""
    search = settings(deadline=None, max_examples=1000, database=None, phases=[Phase.generate])
    try:
        return find(strategy, lambda value: not holds(value), settings=search)
    except NoSuchExample:
        raise AssertionError("a false law was not refuted by any generated example") from None
