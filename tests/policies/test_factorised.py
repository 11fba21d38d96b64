"""A factorised join means what the join means: its count, its tuples, after every transaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from math import prod
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rekindle.algebra.groups import INTEGERS
from rekindle.algebra.zset import ZSet
from rekindle.calculus.interpreter import Rows, evaluate
from rekindle.calculus.scalars import Column, Evaluable
from rekindle.calculus.schema import Schema
from rekindle.calculus.terms import (
    Aggregate,
    AggregateFunction,
    Filter,
    Join,
    Map,
    Measure,
    OuterJoin,
    Padded,
    Source,
    Term,
)
from rekindle.incremental.pipeline import derive
from rekindle.incremental.policies.factorised import Factorisation, Kept, factorise_rows
from rekindle.incremental.policies.joins import Refusal, RowQuery, recognise_rows
from rekindle.incremental.reference import run
from rekindle.kernels.enumerate import Linked, enumerate_tuples, link
from tests.policies.arithmetic import PYTHON
from tests.policies.strategies import (
    LENGTH,
    SHAPES,
    SNOWFLAKE,
    SOURCES,
    TRIANGLE,
    WIDTH,
    Draw,
    R,
    S,
    Shape,
    T,
    call,
    chain,
    column,
    databases,
    joined,
    star,
    transactions,
)

Tuples: TypeAlias = "Counter[tuple[Any, ...]]"


@st.composite
def row_terms(draw: Draw, shapes: tuple[Shape, ...] = SHAPES) -> Term:
    """Joins of rows, with conditions and columns on one leaf each."""
    shape = draw(st.sampled_from(shapes))
    leaves = tuple(draw(st.sampled_from(SOURCES)) for _ in range(shape.leaves))
    term = joined(shape, leaves)
    places = st.tuples(st.integers(0, shape.leaves - 1), st.integers(0, WIDTH - 1))
    if draw(st.booleans()):
        value = column(*draw(places))
        term = Filter(term, call("not", call("is_null", value, type_="boolean"), type_="boolean"))
    outputs: list[tuple[str, Evaluable]] = []
    for number, (leaf, position) in enumerate(draw(st.lists(places, min_size=1, max_size=5))):
        shown: Evaluable = column(leaf, position)
        if draw(st.sampled_from((False, False, True))):
            shown = call("add", shown, column(leaf, 2))
        outputs.append((f"o{number}", shown))
    return Map(term, tuple(outputs))


def kept(term: Term) -> Kept:
    query = recognise_rows(term, PYTHON)
    assert isinstance(query, RowQuery), query
    return factorise_rows(query, "v")


def counted(rows: Rows) -> Tuples:
    return Counter({row: weight for row, weight in rows})


def linked(found: Factorisation, contents: Mapping[str, Rows]) -> list[Linked]:
    """The collections as arrays."""
    links: list[Linked] = []
    for each in found.collections:
        items = list(contents[each.view])
        width = len(each.key) + len(each.values)
        columns = [pa.array([row[i] for row, _ in items], pa.int64()) for i in range(width)]
        weights = np.array([weight for _, weight in items], dtype=np.int64)
        multiplicities = weights if each.is_leaf else None
        if each.parent is None:
            links.append(link(columns, multiplicities))
            continue
        above = found.collections[each.parent]
        names = (*above.key, *above.values)
        keys = [links[each.parent].columns[names.index(name)] for name in each.key]
        links.append(link(columns, multiplicities, each.parent, keys))
    return links


def enumerated(found: Factorisation, contents: Mapping[str, Rows], rows: int = 3) -> Tuples:
    links = linked(found, contents)
    places = [found.place(name) for name in found.outputs]
    result: Tuples = Counter()
    for chosen in enumerate_tuples(links, rows):
        assert 0 < len(chosen[0]) <= rows
        columns = [links[c].columns[i].take(pa.array(chosen[c])).to_pylist() for c, i in places]
        result.update(zip(*columns, strict=True))
    return result


def total(found: Factorisation, contents: Mapping[str, Rows]) -> int:
    return prod(sum(w for _, w in contents[root.view]) for root in found.roots)


def evaluated(found: Kept, database: Mapping[str, Rows]) -> dict[str, Rows]:
    known = dict(database)
    for name, term in found.terms.items():
        known[name] = evaluate(term, known)
    return known


@given(row_terms(), databases(), st.sampled_from((1, 2, 7, 1000)))
@settings(max_examples=300, deadline=None)
def test_the_collections_hold_the_join(term: Term, database: dict[str, Rows], rows: int) -> None:
    found = kept(term)
    contents = evaluated(found, database)
    expected = counted(evaluate(term, database))
    assert enumerated(found.factorisation, contents, rows) == expected
    assert total(found.factorisation, contents) == expected.total()


@given(row_terms(), transactions())
@settings(max_examples=60, deadline=None)
def test_the_collections_follow_changes(term: Term, changes: dict[str, list[Rows]]) -> None:
    found = kept(term)
    streams: dict[str, list[Rows]] = dict(changes)
    for name, part in found.terms.items():
        streams[name] = run(derive(part), streams, LENGTH)
    state: dict[str, Rows] = {name: ZSet([], INTEGERS) for name in streams}
    for step in range(LENGTH):
        state = {name: rows + streams[name][step] for name, rows in state.items()}
        tables = {source.name: state[source.name] for source in SOURCES}
        expected = counted(evaluate(term, tables))
        assert enumerated(found.factorisation, state) == expected
        assert total(found.factorisation, state) == expected.total()


@given(row_terms(), databases())
@settings(max_examples=100, deadline=None)
def test_no_descent_is_in_vain(term: Term, database: dict[str, Rows]) -> None:
    """Constant delay: a row of a collection that is not a leaf has rows in each child."""
    found = kept(term)
    for each in linked(found.factorisation, evaluated(found, database)):
        if each.parent is not None:
            assert (each.counts > 0).all()


def test_the_tree_of_a_snowflake() -> None:
    term = joined(SNOWFLAKE, (R, S, T, R, S))
    found = kept(Map(term, tuple((f"z{i}", column(i, 2)) for i in range(5)))).factorisation
    assert found.text({"v·0": "7 rows"}).splitlines() == [
        "x: 7 rows",
        "├─ y by x",
        "│  ├─ t.y by y",
        "│  │  ├─ t(t.z) by y, t.y",
        "│  │  └─ s#2(s#2.z) by t.y",
        "│  └─ r(z) by x, y",
        "└─ s.y by x",
        "   ├─ s(s.z) by x, s.y",
        "   └─ r#2(r#2.z) by s.y",
    ]
    assert Factorisation.from_json(found.to_json()) == found


def test_variables_without_a_join_in_between_are_one_collection() -> None:
    shape = Shape("two keys", 2, ((1, 0, 0, 0), (1, 1, 0, 1)))
    found = kept(Map(joined(shape, (R, S)), (("z", column(0, 2)),))).factorisation
    assert [each.values for each in found.collections] == [("x", "y"), ("z",), ()]


def test_a_star_is_kept_in_its_tables() -> None:
    """A join of n³ tuples: every collection has n rows at most."""
    size = 40
    rows = ZSet((((1, i, i), 1) for i in range(size)), INTEGERS)
    term = Map(joined(star(3), (R, S, T)), tuple((f"y{i}", column(i, 1)) for i in range(3)))
    found = kept(term)
    contents = evaluated(found, {"r": rows, "s": rows, "t": rows})
    assert total(found.factorisation, contents) == size**3
    assert max(len(contents[each.view]) for each in found.factorisation.collections) == size
    batches = enumerate_tuples(linked(found.factorisation, contents), 1000)
    assert [len(chosen[0]) for chosen in batches] == [1000] * 64


def test_a_planted_mistake_is_caught() -> None:
    """Counts that are forgotten show in the total."""
    rows = ZSet([((1, 1, 1), 2), ((1, 2, 1), 1)], INTEGERS)
    found = kept(Map(joined(chain(2), (R, S)), (("x", column(0, 0)),)))
    contents = evaluated(found, {"r": rows, "s": rows, "t": rows})
    right = total(found.factorisation, contents)
    root = found.factorisation.roots[0].view
    contents[root] = ZSet(((row, 1) for row, _ in contents[root]), INTEGERS)
    assert total(found.factorisation, contents) != right


COUNT = Measure("n", AggregateFunction.COUNT, (), "bigint", nullable=False)
PAIR = joined(chain(2), (R, S))
DOUBLES = Source("d", Schema.of(x="double"))


@pytest.mark.parametrize(
    ("term", "reason"),
    [
        (Aggregate(PAIR, (), (COUNT,)), "an aggregate"),
        (Map(R, (("x", Column(0, "int")),)), "the rows of one table"),
        (
            OuterJoin(R, S, (Column(0, "int"),), (Column(0, "int"),), None, Padded.RIGHT),
            "an outer join",
        ),
        (Map(PAIR, (("s", call("add", column(0, 0), column(1, 0))),)), "'r' and 's' together"),
        (
            Filter(PAIR, call("less", column(0, 0), column(1, 0), type_="boolean")),
            "reads 'r' and 's' together",
        ),
        (
            Join(DOUBLES, DOUBLES, (Column(0, "double"),), (Column(0, "double"),)),
            "values of the type double",
        ),
    ],
)
def test_what_is_no_join_of_rows_is_refused(term: Term, reason: str) -> None:
    found = recognise_rows(term, PYTHON)
    assert isinstance(found, Refusal)
    assert reason in found.reason


def test_a_triangle_is_kept_too() -> None:
    term = Map(joined(TRIANGLE, (R, S, T)), tuple((f"z{i}", column(i, 2)) for i in range(3)))
    rows = ZSet((((a, b, 1), 1) for a in range(4) for b in range(4)), INTEGERS)
    found = kept(term)
    contents = evaluated(found, {"r": rows, "s": rows, "t": rows})
    assert enumerated(found.factorisation, contents) == {(1, 1, 1): 64}
