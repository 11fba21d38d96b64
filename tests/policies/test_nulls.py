"""SQL's hard corners, each on a database small enough to check by hand."""

from __future__ import annotations

from fractions import Fraction

import pytest

from rekindle.algebra.zset import ZSet
from rekindle.calculus.interpreter import Rows, evaluate
from rekindle.calculus.scalars import Column, Row
from rekindle.calculus.terms import Aggregate, AggregateFunction, Join, Measure, Term
from tests.policies.strategies import ONE_COLUMN_TWICE, R, S, T, call, chain, column, joined
from tests.policies.test_view_tree import factorised

PAIRS = joined(chain(2), (R, S))
"""r.y = s.x"""
OURS, THEIRS = column(0, 2), column(1, 2)


def bag(*rows: Row) -> Rows:
    return ZSet.from_rows(rows)


def measure(function: AggregateFunction, *arguments: Column) -> Measure:
    nullable = function is not AggregateFunction.COUNT
    return Measure("m", function, arguments, "bigint", nullable)


def result(term: Aggregate, **tables: Rows) -> Rows:
    """The tree's result, which must be that of the term."""
    database = {name: tables.get(name, bag()) for name in "rst"}
    found = evaluate(factorised(term).term, database)
    assert found == evaluate(term, database)
    return found


SUM, COUNT, AVERAGE = AggregateFunction.SUM, AggregateFunction.COUNT, AggregateFunction.AVERAGE
BOTH = call("add", OURS, THEIRS)


@pytest.mark.parametrize(
    ("aggregate", "value", "over_nothing"),
    [
        (measure(COUNT), 3, 0),
        (measure(COUNT, OURS), 2, 0),
        (Measure("m", COUNT, (BOTH,), "bigint", nullable=False), 1, 0),
        (measure(SUM, OURS), 8, None),
        (measure(AVERAGE, OURS), Fraction(8, 2), None),
        # 3 + NULL and NULL + 7 are NULL, so that only 5 + 7 is added.
        (Measure("m", SUM, (BOTH,), "bigint"), 12, None),
        (Measure("m", AVERAGE, (BOTH,), "bigint"), Fraction(12), None),
        (Measure("m", SUM, (call("subtract", OURS, THEIRS),), "bigint"), -2, None),
        (Measure("m", SUM, (call("multiply", OURS, THEIRS),), "bigint"), 35, None),
    ],
)
def test_global_aggregates(aggregate: Measure, value: object, over_nothing: object) -> None:
    term = Aggregate(PAIRS, (), (aggregate,))
    ours = bag((0, 1, 5), (0, 2, 3), (0, 1, None), (0, None, 100))
    theirs = bag((1, 0, 7), (2, 0, None), (None, 0, 100))
    assert result(term, r=ours, s=theirs) == bag((value,))
    assert result(term) == bag((over_nothing,))
    assert result(term, r=ours) == bag((over_nothing,))


def test_the_last_step_is_the_front_ends_own() -> None:
    raw = Measure("m", SUM, (OURS,), "bigint", text="raw", finish=lambda value: value)
    term = Aggregate(PAIRS, (), (raw,))
    assert result(term, r=bag((0, 1, 5), (0, 1, None)), s=bag((1, 0, 0))) == bag(((1, 5),))
    assert result(term) == bag(((0, 0),))


def test_a_sum_of_nulls_only_is_null() -> None:
    term = Aggregate(PAIRS, (("k", column(0, 0)),), (measure(SUM, THEIRS), measure(COUNT, THEIRS)))
    assert result(term, r=bag((1, 1, 1)), s=bag((1, 0, None), (1, 1, None))) == bag((1, None, 0))


def test_null_is_a_group_and_matches_nothing() -> None:
    term = Aggregate(PAIRS, (("k", column(0, 0)), ("j", column(0, 1))), (measure(COUNT),))
    ours, theirs = bag((None, 1, 1), (None, None, 1)), bag((1, 0, 0), (None, 0, 0))
    assert result(term, r=ours, s=theirs) == bag((None, 1, 1))


def test_duplicates_multiply() -> None:
    term = Aggregate(PAIRS, (), (measure(COUNT), measure(SUM, OURS)))
    ours: Rows = ZSet.of({(0, 1, 5): 3})
    theirs: Rows = ZSet.of({(1, 0, 0): 2})
    assert result(term, r=ours, s=theirs) == bag((6, 30))


@pytest.mark.parametrize("keys", [(), (("k", column(0, 0)),)])
def test_a_product_with_an_empty_table_has_no_groups(keys: tuple[tuple[str, Column], ...]) -> None:
    pairs: Term = Join(R, S, (), ())
    term = Aggregate(pairs, keys, (measure(SUM, THEIRS), measure(COUNT)))
    assert result(term, r=bag((1, 1, 1))) == (bag() if keys else bag((None, 0)))
    expected = bag((1, 4, 1)) if keys else bag((4, 1))
    assert result(term, r=bag((1, 1, 1)), s=bag((2, 2, 4))) == expected


def test_two_columns_that_equal_a_third_are_equal() -> None:
    term = Aggregate(joined(ONE_COLUMN_TWICE, (R, S)), (), (measure(COUNT),))
    ours = bag((1, 1, 0), (1, 2, 0), (2, 2, 0), (None, 1, 0))
    assert result(term, r=ours, s=bag((1, 0, 0), (2, 0, 0), (2, 1, 0))) == bag((3,))


def test_grouping_by_both_sides_of_a_key() -> None:
    term = Aggregate(PAIRS, (("a", column(1, 0)), ("b", column(0, 1))), (measure(COUNT),))
    assert result(term, r=bag((0, 1, 0)), s=bag((1, 0, 0))) == bag((1, 1, 1))


def test_an_aggregate_over_an_aggregate_over_joins() -> None:
    inner = Aggregate(PAIRS, (("k", column(0, 0)),), (measure(SUM, OURS),))
    over = Join(inner, T, (Column(0, "int"),), (Column(0, "int"),))
    term = Aggregate(over, (), (measure(SUM, Column(1, "bigint")),))
    ours, theirs = bag((1, 1, 5), (2, 1, 7)), bag((1, 0, 0), (1, 1, 1))
    assert result(term, r=ours, s=theirs, t=bag((1, 0, 0), (1, 1, 0))) == bag((20,))
    assert len(factorised(term).decisions) == 2
