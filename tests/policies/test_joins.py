"""What is a join query, and what is said of a term that is none."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from rekindle.calculus.scalars import Call, Column, Literal
from rekindle.calculus.schema import Schema
from rekindle.calculus.terms import (
    Aggregate,
    AggregateFunction,
    Distinct,
    Filter,
    Join,
    Map,
    Measure,
    Negate,
    Source,
    Term,
    Values,
)
from rekindle.incremental.policies.joins import JoinQuery, Refusal, recognise
from tests.policies.arithmetic import PYTHON
from tests.policies.strategies import call, join_terms

ORDERS = Source("orders", Schema.of(id="int", cust="int", rate="int"))
LINES = Source("lines", Schema.of(order="int", price="int", qty="int"))
ID, CUST, RATE = (Column(i, "int") for i in range(3))
ORDER, PRICE, QTY = (Column(i, "int") for i in range(3, 6))
BOTH = Join(ORDERS, LINES, (Column(0, "int"),), (Column(0, "int"),))
COUNT = Measure("n", AggregateFunction.COUNT, (), "bigint", nullable=False)


def total(argument: Call | Column) -> Measure:
    return Measure("s", AggregateFunction.SUM, (argument,), "bigint")


def recognised(term: Term) -> JoinQuery:
    query = recognise(term, PYTHON)
    assert isinstance(query, JoinQuery), query
    return query


def test_leaves_variables_and_factors() -> None:
    revenue = call("multiply", call("multiply", PRICE, QTY), RATE)
    query = recognised(Aggregate(BOTH, (("c", CUST),), (COUNT, total(revenue))))
    assert [str(relation) for relation in query.hypergraph.relations] == [
        "orders[id, cust, rate]",
        "lines[id, value0]",
    ]
    assert query.hypergraph.free == ("cust",)
    # A count and a sum of NULLs as zero: price * qty is computed inside its leaf, as one factor.
    assert [leaf.factors for leaf in query.leaves] == [2, 2]
    assert [len(parts.sums) for parts in query.measures] == [0, 1]


def test_a_sum_becomes_products_with_signs() -> None:
    profit = call("subtract", call("multiply", RATE, PRICE), QTY)
    (parts,) = recognised(Aggregate(BOTH, (), (total(profit),))).measures
    assert [sign for sign, _ in parts.sums] == [1, -1]


def test_a_count_of_all_rows_needs_no_factor() -> None:
    query = recognised(Aggregate(BOTH, (), (COUNT,)))
    assert [leaf.factors for leaf in query.leaves] == [0, 0]
    assert query.measures[0].components == (frozenset(),)


def test_an_equality_above_a_product_is_a_join_key() -> None:
    pairs = Filter(Join(ORDERS, LINES, (), ()), call("equal", ID, ORDER, type_="boolean"))
    above = recognised(Aggregate(pairs, (("c", CUST),), (COUNT,)))
    assert above == recognised(Aggregate(BOTH, (("c", CUST),), (COUNT,)))


def test_equal_leaves_of_a_self_join_are_equal_terms() -> None:
    pairs = Join(ORDERS, ORDERS, (Column(0, "int"),), (Column(0, "int"),))
    left, right = recognised(Aggregate(pairs, (), (COUNT,))).leaves
    assert (left.name, right.name) == ("orders", "orders#2")
    assert left.term == right.term


BOTH_READ = call("coalesce", RATE, PRICE)


@pytest.mark.parametrize(
    ("term", "reason"),
    [
        (BOTH, "it is not an aggregate"),
        (Aggregate(ORDERS, (), (COUNT,)), "it joins nothing"),
        (
            Aggregate(BOTH, (), (Measure("m", AggregateFunction.MOMENTS, (RATE,), "int"),)),
            "'m' is not a count, a sum or an average of all rows",
        ),
        (
            Aggregate(
                BOTH,
                (),
                (Measure("d", AggregateFunction.COUNT, (RATE,), "int", values=Values.DISTINCT),),
            ),
            "'d' is not a count, a sum or an average of all rows",
        ),
        (
            Aggregate(BOTH, (("k", BOTH_READ),), (COUNT,)),
            "the grouping key 'k' is computed from 'orders' and 'lines' together",
        ),
        (
            Aggregate(BOTH, (), (total(BOTH_READ),)),
            f"{BOTH_READ.text} reads 'orders' and 'lines' together: "
            "it is no product, sum or difference",
        ),
        (
            Aggregate(Map(BOTH, (("v", BOTH_READ),)), (), (total(Column(0, "int")),)),
            f"{BOTH_READ.text} reads 'orders' and 'lines' together: "
            "it is no product, sum or difference",
        ),
        (
            Aggregate(Filter(BOTH, call("less", RATE, PRICE, type_="boolean")), (), (COUNT,)),
            "the condition less($2:int, $4:int):boolean reads 'orders' and 'lines' together",
        ),
        (
            Aggregate(Join(BOTH, ORDERS, (BOTH_READ,), (Column(0, "int"),)), (), (COUNT,)),
            "a join key is computed from 'orders' and 'lines' together",
        ),
        (
            Aggregate(Join(ORDERS, Negate(LINES), (), ()), (), (COUNT,)),
            "a part of the join may hold rows of negative weight",
        ),
    ],
)
def test_what_is_not_a_join_query_is_refused_with_a_reason(term: Term, reason: str) -> None:
    assert recognise(term, PYTHON) == Refusal(reason)


def test_a_sum_of_too_many_products_is_refused() -> None:
    sums = call("add", RATE, PRICE)
    power = sums
    for _ in range(4):
        power = call("multiply", power, sums)
    refused = recognise(Aggregate(BOTH, (), (total(power),)), PYTHON)
    assert isinstance(refused, Refusal)
    assert "more than 16 products" in refused.reason


def test_a_leaf_may_be_any_bag_without_a_join() -> None:
    rows = Distinct(
        Filter(LINES, call("less", Column(1, "int"), Literal(9, "int"), type_="boolean"))
    )
    joined = Join(ORDERS, rows, (Column(0, "int"),), (Column(0, "int"),))
    assert [leaf.name for leaf in recognised(Aggregate(joined, (), (COUNT,))).leaves] == [
        "orders",
        "lines",
    ]


@given(join_terms())
@settings(max_examples=100, deadline=None)
def test_every_leaf_has_its_variables_and_factors_for_columns(term: Aggregate) -> None:
    query = recognised(term)
    assert len(query.keys) == len(term.keys)
    for leaf in query.leaves:
        width = len(leaf.variables) + leaf.factors
        assert len(leaf.term.schema) == max(1, width)
