"""Recursive A-normal form: every plan of a join is the join."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rekindle.errors import UnsupportedError
from rekindle.nested.cost import Sizes, cost, size, steps
from rekindle.nested.delta import delta
from rekindle.nested.meaning import meaning
from rekindle.nested.nrc import bag, boxed, for_in, path, row, sng, where
from rekindle.nested.recursive_anf import (
    Alternation,
    Node,
    Plan,
    RecursiveAnf,
    Scan,
    Strategy,
    recursive_anf,
)
from rekindle.nested.scalars import both, equal, greater, less, number
from rekindle.nested.terms import For, KeyTerm, KeyVariable, RingTerm, free_variables
from rekindle.nested.types import Bag, Record, Scalar
from rekindle.nested.values import add
from tests.nested_collections.strategies import Draw, rings

INT = Scalar("bigint")
PAIR = Record((("a", INT), ("b", INT)))
TABLES = {name: bag(name, PAIR) for name in "RST"}


@st.composite
def joins(draw: Draw) -> RingTerm:
    """Joins of one to four collections, of which some may be the same."""
    sources = draw(st.lists(st.sampled_from("RST"), min_size=1, max_size=4))
    rows = [KeyVariable(f"x{i}", PAIR) for i in range(len(sources))]
    columns = [path(each, name) for each in rows for name in "ab"]

    def condition() -> KeyTerm:
        make = draw(st.sampled_from([equal, equal, less]))
        one = draw(st.sampled_from(columns))
        other = draw(st.sampled_from([*columns, number(1)]))
        return make(one, other)

    conditions = [condition() for _ in range(draw(st.integers(0, 3)))]
    if len(conditions) > 1 and draw(st.booleans()):
        conditions[:2] = [both(*conditions[:2])]
    names = draw(st.lists(st.sampled_from(columns), min_size=0, max_size=3))
    found: RingTerm = sng(row(**{f"c{i}": each for i, each in enumerate(names)}))
    for each in reversed(conditions):
        found = where(each, found)
    for variable, source in reversed([*zip(rows, sources, strict=True)]):
        found = For(variable, TABLES[source], found)
    return found


@settings(max_examples=150, deadline=None)
@given(joins(), st.sampled_from(Strategy), st.booleans(), st.data())
def test_every_plan_is_the_query(
    query: RingTerm, strategy: Strategy, products: bool, data: Any
) -> None:
    form = recursive_anf(query, strategy, products=products)
    tables = {name: data.draw(rings(Bag(PAIR))) for name in TABLES}
    change = {name: data.draw(rings(Bag(PAIR))) for name in TABLES}
    after = {name: add(tables[name], change[name]) for name in TABLES}
    for plan in _some(form):
        term = form.term(plan)
        assert not free_variables(term)
        assert meaning(term, tables) == meaning(query, tables)
        moved = meaning(delta(term, set(TABLES)), tables, change)
        assert add(meaning(term, tables), moved) == meaning(query, after)


def _some(form: RecursiveAnf) -> list[Plan]:
    """Some of the plans: there are many of four collections."""
    plans = list(form.plans())
    return plans[:: max(1, len(plans) // 5)]


def _nodes(node: Node, found: dict[str, Node]) -> dict[str, Node]:
    assert found.setdefault(node.name, node) is node, "a part was expanded twice"
    for step in node.steps if isinstance(node, Alternation) else ():
        _nodes(step.outer, found)
        _nodes(step.inner, found)
    return found


@pytest.mark.parametrize(
    ("strategy", "plans"),
    [
        (Strategy.AS_WRITTEN, 1),
        (Strategy.RIGHT_DEEP, 6),
        (Strategy.LEFT_DEEP, 6),
        (Strategy.ALL, 12),
    ],
)
def test_parts_are_shared(strategy: Strategy, plans: int) -> None:
    """All orders of three collections, over at most seven parts, each of which is there once."""
    form = recursive_anf(_chain(), strategy)
    assert len(list(form.plans())) == plans
    assert len(_nodes(form.root, {})) == (5 if strategy is Strategy.AS_WRITTEN else 7)


def _chain() -> RingTerm:
    def inner(r: KeyTerm, s: KeyTerm, t: KeyTerm) -> RingTerm:
        condition = both(equal(path(r, "b"), path(s, "a")), equal(path(s, "b"), path(t, "a")))
        return where(condition, sng(row(a=path(r, "a"), b=path(t, "b"))))

    return for_in(
        "r",
        TABLES["R"],
        lambda r: for_in(
            "s", TABLES["S"], lambda s: for_in("t", TABLES["T"], lambda t: inner(r, s, t))
        ),
    )


def test_steps_that_pair_everything_can_be_left_out() -> None:
    form = recursive_anf(_chain(), Strategy.ALL, products=False)
    assert "Q_RT" not in str(form) and "Q_RT" in str(recursive_anf(_chain(), Strategy.ALL))
    crossed = for_in(
        "r", TABLES["R"], lambda r: for_in("s", TABLES["S"], lambda s: sng(row(r=r, s=s)))
    )
    assert len(list(recursive_anf(crossed, products=False).plans())) == 2


def test_the_cheapest_plan_is_chosen_by_size() -> None:
    """The estimate says at once which of two orders pairs the small collections first."""
    form = recursive_anf(_chain())
    row_ = {(i, i): 1 for i in range(50)}
    small = {(1, 1): 1, (2, 2): 1}
    sizes = Sizes(
        {"R": size(row_, Bag(PAIR)), "S": size(small, Bag(PAIR)), "T": size(small, Bag(PAIR))}
    )
    costs = [steps(cost(form.term(plan), sizes)) for plan in form.plans()]
    assert steps(cost(form.term(form.cheapest(sizes)), sizes)) == min(costs)


def test_a_single_collection_and_whole_rows() -> None:
    query = for_in("r", TABLES["R"], lambda r: where(greater(path(r, "a"), number(0)), sng(r)))
    form = recursive_anf(query)
    assert isinstance(form.root, Scan)
    assert str(form) == "Q = for(⟨a, b⟩ ← R if a > 0) yield ⟨a, b⟩"
    assert meaning(form.term(next(form.plans())), {"R": {(1, 2): 3, (0, 1): 1}}) == {(1, 2): 3}


def test_what_is_no_join_is_refused() -> None:
    inner = for_in("r", TABLES["R"], lambda r: sng(row(x=boxed(sng(r)))))
    recursive_anf(inner)
    numbers = bag("N", INT)
    for query in (TABLES["R"], for_in("n", numbers, sng), for_in("r", inner, sng)):
        with pytest.raises(UnsupportedError):
            recursive_anf(query)
