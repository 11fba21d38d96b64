"""The change when a function is redefined: old result + change = new result, and no row more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rekindle.algebra.relational import equi_join, product
from rekindle.algebra.zset import ZSet
from rekindle.nested.functions.delta import delta
from rekindle.nested.functions.evaluation import evaluate
from rekindle.nested.functions.primitives import FOR_EACH, function_of_rows
from rekindle.nested.functions.redefinition import (
    Place,
    Use,
    applied,
    beside,
    kept,
    redefined,
    redefined_in,
    replaced,
)
from rekindle.nested.functions.terms import minus_of, plus_of
from rekindle.nested.functions.types import BAG, INTEGER, Function
from tests.nested_collections.functions.strategies import law

ROWS = range(-2, 3)
rows = st.dictionaries(st.sampled_from(ROWS), st.integers(-2, 2)).map(ZSet.of)


def functions(answers: st.SearchStrategy[Any]) -> st.SearchStrategy[Callable[[int], Any]]:
    """Functions of a row, by their table."""
    return st.fixed_dictionaries({row: answers for row in ROWS}).map(
        lambda table: table.__getitem__
    )


predicates = functions(st.sampled_from([True, False, None]))
scalars = functions(st.integers(0, 2))
PLACES = [(predicates, kept), (scalars, replaced), (scalars, beside)]
NAMES = ["kept", "replaced", "beside"]


@pytest.mark.parametrize(("definitions", "place"), PLACES, ids=NAMES)
@given(st.data())
def test_old_result_plus_change_is_new_result(
    definitions: st.SearchStrategy[Any], place: Place[int, Any, Any], data: st.DataObject
) -> None:
    given_ = data.draw(rows)
    old, new = data.draw(definitions), data.draw(definitions)
    found = redefined(given_, old, new, place)
    assert applied(given_, old, place) + found.change == applied(given_, new, place)
    if place is kept:
        differing = {row for row, _ in given_ if bool(old(row)) != bool(new(row))}
    else:
        differing = {row for row, _ in given_ if old(row) != new(row)}
    assert found.moved.support() == differing
    assert all(found.moved.weight(row) == given_.weight(row) for row in differing)


@law
@given(st.lists(rows, min_size=2, max_size=2), rows, predicates, predicates)
def test_several_uses_telescope(
    given_: list[ZSet[int, int]], shared: ZSet[int, int], old: Any, new: Any
) -> None:
    """A self join, and a join with another table; the third use is the first collection again."""
    uses = [Use(collection, kept) for collection in (*given_, shared, given_[0])]

    def body(*parts: ZSet[int, int]) -> ZSet[Any, int]:
        one, two, three, four = parts
        joined = equi_join(one, two, abs, abs, lambda left, right: (left, right))
        return product(joined, product(three, four))

    before = body(*(applied(use.rows, old, use.place) for use in uses))
    after = body(*(applied(use.rows, new, use.place) for use in uses))
    assert before + redefined_in(body, uses, old, new) == after


@law
@given(rows, predicates, predicates)
def test_uses_on_one_row_are_one_use(given_: ZSet[int, int], old: Any, new: Any) -> None:
    """f(row) AND NOT f(−row): only rows on which the whole condition differs move."""

    def under(f: Callable[[int], bool | None]) -> Callable[[int], bool]:
        return lambda row: bool(f(row)) and not f(-row)

    found = redefined(given_, under(old), under(new), kept)
    assert applied(given_, under(old), kept) + found.change == applied(given_, under(new), kept)
    assert len(found.moved) == sum(under(old)(row) != under(new)(row) for row, _ in given_)


@law
@given(rows, predicates, predicates)
def test_it_is_the_delta_of_application_without_a_change_of_the_argument(
    given_: ZSet[int, int], old: Any, new: Any
) -> None:
    """δ(for)((f, a), (g ⊖ f, 0)), in the calculus, is the change."""
    lambdas = Function(INTEGER, BAG)
    f = function_of_rows("f", lambda row: kept(row, old(row)))
    g = function_of_rows("g", lambda row: kept(row, new(row)))
    df = evaluate(plus_of(lambdas), (g, evaluate(minus_of(lambdas), f)))
    change = evaluate(delta(FOR_EACH), ((f, given_), (df, ZSet.of({}))))
    assert change == redefined(given_, old, new, kept).change


def test_a_union_is_no_body() -> None:
    """A union is linear in both parts at once, not in each: the telescope counts parts twice."""
    use = Use(ZSet.from_rows([1, 2]), kept)

    def old(row: int) -> bool:
        return row == 1

    def new(row: int) -> bool:
        return row == 2

    wrong = redefined_in(lambda left, right: left + right, [use, use], old, new)
    change = redefined(use.rows, old, new, kept).change
    assert change + change == ZSet.of({1: -2, 2: 2}) != wrong


def test_a_change_with_the_old_argument_on_both_sides_is_caught() -> None:
    """The telescope without its new parts: what both changes do together is lost."""
    use = Use(ZSet.from_rows([1, 2]), kept)
    before = applied(use.rows, lambda row: row == 1, kept)
    change = redefined(use.rows, lambda row: row == 1, lambda row: row == 2, kept).change
    lost = product(change, before) + product(before, change)
    assert redefined_in(product, [use, use], lambda r: r == 1, lambda r: r == 2) != lost
