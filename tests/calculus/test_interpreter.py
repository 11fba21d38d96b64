"""The reference meaning: SQL's NULLs, weighted aggregates, and the linearity that nodes claim."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rekindle.algebra.groups import INTEGERS, is_bilinear, is_linear
from rekindle.algebra.zset import ZSet, ZSetGroup
from rekindle.calculus.generators import Explode, ExplodeOuter
from rekindle.calculus.interpreter import Rows, apply_operator, evaluate
from rekindle.calculus.scalars import Call, Column, Literal, Row
from rekindle.calculus.schema import Field
from rekindle.calculus.terms import (
    Aggregate,
    AggregateFunction,
    Filter,
    FlatMap,
    Join,
    Linearity,
    Measure,
    Negate,
    Positivity,
    Term,
    UnionAll,
)
from rekindle.errors import DefinitionError, UnknownNameError
from tests.calculus.strategies import BASKETS, R, S, bags, terms, zsets

GROUP: ZSetGroup[Row, int] = ZSetGroup(INTEGERS)
X, Y = Column(0, "int"), Column(1, "int")


def bag(*rows: Row) -> Rows:
    return ZSet.from_rows(rows)


def measure(function: AggregateFunction, *arguments: Any, finish: object = None) -> Measure:
    return Measure("m", function, arguments, "int", finish=finish)


def test_a_filter_drops_false_and_null() -> None:
    term = Filter(R, Call("greater", (X, Literal(1, "int")), "boolean"))
    assert evaluate(term, {"r": bag((None, 0), (1, 0), (2, 0))}) == bag((2, 0))


def test_null_keys_do_not_join_and_weights_multiply() -> None:
    term = Join(R, S, (X,), (X,))
    left: Rows = ZSet.of({(None, 1): 1, (1, 1): 2})
    right: Rows = ZSet.of({(None, 2): 1, (1, 2): 3, (2, 2): 1})
    assert evaluate(term, {"r": left, "s": right}) == ZSet.of({(1, 1, 1, 2): 6})


def test_a_residual_must_be_true() -> None:
    less = Call("less", (Y, Column(3, "int")), "boolean")
    term = Join(R, S, (), (), less)
    found = evaluate(term, {"r": bag((0, 1)), "s": bag((0, None), (0, 1), (0, 2))})
    assert found == bag((0, 1, 0, 2))


def test_explode_inner_and_outer() -> None:
    contents = {"baskets": bag((1, (7, 7)), (2, ()), (3, None))}
    inner = FlatMap(BASKETS, Explode(1, Field("item", "int", False)), (0,))
    outer = FlatMap(BASKETS, ExplodeOuter(1, Field("item", "int", False)), (0,))
    assert evaluate(inner, contents) == ZSet.of({(1, 7): 2})
    assert evaluate(outer, contents) == ZSet.of({(1, 7): 2, (2, None): 1, (3, None): 1})
    assert not inner.schema.fields[1].nullable
    assert outer.schema.fields[1].nullable


@pytest.mark.parametrize(
    ("aggregate", "result", "over_nothing"),
    [
        (measure(AggregateFunction.COUNT), 5, 0),
        (measure(AggregateFunction.COUNT, Y), 4, 0),
        (measure(AggregateFunction.COUNT, X, Y), 4, 0),
        (measure(AggregateFunction.SUM, Y), 11, None),
        (measure(AggregateFunction.AVERAGE, Y), Fraction(11, 4), None),
        (measure(AggregateFunction.MOMENTS, Y), Fraction(27, 16), None),
        (measure(AggregateFunction.COMOMENTS, X, Y), Fraction(9, 16), None),
        (measure(AggregateFunction.ALL, Call("equal", (Y, Y), "boolean")), True, None),
        (measure(AggregateFunction.ANY, Call("less", (Y, X), "boolean")), False, None),
        (measure(AggregateFunction.SUM, Y, finish=lambda value: value), (4, 11), (0, 0)),
    ],
)
def test_aggregates_are_weighted_and_skip_null(
    aggregate: Measure, result: object, over_nothing: object
) -> None:
    # y: 2 three times, 5 once, NULL once.
    contents: Rows = ZSet.of({(1, 2): 3, (2, 5): 1, (2, None): 1})
    term = Aggregate(R, (), (aggregate,))
    assert evaluate(term, {"r": contents}) == bag((result,))
    assert evaluate(term, {"r": bag()}) == bag((over_nothing,))
    assert evaluate(Aggregate(R, (("k", X),), (aggregate,)), {"r": bag()}) == bag()


def test_nulls_form_a_group() -> None:
    term = Aggregate(R, (("k", X),), (measure(AggregateFunction.SUM, Y),))
    found = evaluate(term, {"r": bag((None, 1), (None, 2), (1, None))})
    assert found == bag((None, 3), (1, None))


def test_a_group_exists_while_its_ring_value_is_not_zero() -> None:
    term = Aggregate(R, (("k", X),), (measure(AggregateFunction.SUM, Y),))
    assert evaluate(term, {"r": ZSet.of({(1, 2): 1, (1, 5): -1})}) == bag((1, None))
    assert evaluate(term, {"r": ZSet.of({(1, None): 1, (1, 5): -1})}) == bag((1, -5))
    assert evaluate(Aggregate(R, (("k", X),), ()), {"r": bag()}) == bag()


def test_only_python_can_be_evaluated() -> None:
    class Opaque:
        type, nullable, references, text = "boolean", True, frozenset[int](), "catalyst"

    with pytest.raises(DefinitionError, match="only Spark"):
        evaluate(Filter(R, Opaque()), {"r": bag()})
    last_step = measure(AggregateFunction.COUNT, finish="sqrt")
    with pytest.raises(DefinitionError, match="only Spark"):
        evaluate(Aggregate(R, (), (last_step,)), {"r": bag()})


def test_an_unknown_source_is_named() -> None:
    with pytest.raises(UnknownNameError, match="unknown source 's'"):
        evaluate(S, {"r": bag()})


def test_a_union_adds_and_a_negation_cancels() -> None:
    assert evaluate(UnionAll((R, Negate(R))), {"r": bag((1, 1))}) == bag()


@given(terms(2), st.data())
@settings(max_examples=200, deadline=None)
def test_every_node_has_the_linearity_it_claims(term: Term, data: st.DataObject) -> None:
    groups = [data.draw(st.tuples(*[zsets(c.schema)] * 2), label="inputs") for c in term.children]
    match term.linearity:
        case Linearity.LINEAR if len(groups) == 1:
            assert is_linear(lambda value: apply_operator(term, [value]), GROUP, GROUP, *groups[0])
        case Linearity.LINEAR:
            sums = [a + b for a, b in groups]
            lefts, rights = [a for a, _ in groups], [b for _, b in groups]
            assert apply_operator(term, sums) == apply_operator(term, lefts) + apply_operator(
                term, rights
            )
        case Linearity.BILINEAR:
            assert is_bilinear(
                lambda a, b: apply_operator(term, [a, b]), GROUP, GROUP, GROUP, groups[0], groups[1]
            )
        case Linearity.PER_KEY | Linearity.SOURCE:
            assume(False)


@given(terms(2), st.data())
@settings(max_examples=150, deadline=None)
def test_every_node_that_claims_positivity_maps_bags_to_bags(
    term: Term, data: st.DataObject
) -> None:
    assume(term.positivity is Positivity.POSITIVE and term.children)
    inputs = [data.draw(bags(child.schema), label="input") for child in term.children]
    assert apply_operator(term, inputs).is_positive()


@given(terms(3), st.data())
@settings(max_examples=100, deadline=None)
def test_a_term_means_its_root_applied_to_its_inputs(term: Term, data: st.DataObject) -> None:
    contents = {source.name: data.draw(bags(source.schema)) for source in (R, S, BASKETS)}
    rows = evaluate(term, contents)
    assert all(len(row) == len(term.schema) for row, _ in rows)
    if term.children:
        assert rows == apply_operator(term, [evaluate(c, contents) for c in term.children])


@given(bags(R.schema))
@settings(max_examples=50, deadline=None)
def test_aggregates_of_parts_merge_into_those_of_the_whole(rows: Rows) -> None:
    count = AggregateFunction.COUNT
    summed = (AggregateFunction.SUM, AggregateFunction.AVERAGE)
    by_x = (("x", X),)
    whole = Aggregate(R, by_x, (measure(count), *(measure(f, Y) for f in summed)))
    parts = Aggregate(R, (*by_x, ("y", Y)), (measure(count), measure(summed[0], Y)))
    number, total = Column(2, "int"), Column(3, "int")
    merged = Aggregate(
        parts, by_x, (measure(count), *(measure(f, total) for f in summed)), merged=number
    )
    assert evaluate(merged, {"r": rows}) == evaluate(whole, {"r": rows})


def test_what_has_no_partial_sums_cannot_be_merged() -> None:
    with pytest.raises(DefinitionError, match="'m' cannot be merged"):
        Aggregate(R, (), (measure(AggregateFunction.MOMENTS, X),), merged=Y)
