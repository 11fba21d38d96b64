"""A term over stamped rows means, at every iteration, what the term means there."""

from __future__ import annotations

from functools import reduce

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rekindle.algebra.relational import filter_rows, map_rows
from rekindle.algebra.zset import ZSet
from rekindle.calculus.interpreter import Rows, evaluate
from rekindle.calculus.nested_time import stamped, stamped_bodies
from rekindle.calculus.scalars import Call, Column, Literal
from rekindle.calculus.schema import Schema
from rekindle.calculus.terms import (
    STAMPED,
    Distinct,
    Filter,
    Fix,
    Join,
    Map,
    Source,
    Term,
    UnionAll,
    sources,
)
from rekindle.calculus.text import parse, to_text_with_table
from rekindle.errors import DefinitionError, IterationLimitError, UnsupportedError
from tests.calculus.strategies import R, S, bags, databases, derived_terms, terms

ITERATIONS = 4
NOTHING: Rows = ZSet.from_rows([])


def _until(rows: Rows, iteration: int) -> Rows:
    """The collection at an iteration: the rows stamped so far, without their stamps."""
    return map_rows(filter_rows(rows, lambda row: row[-1] <= iteration), lambda row: row[:-1])


def _stamps(values: list[Rows]) -> Rows:
    """The changes from one value to the next, stamped."""
    changes = [after + -before for before, after in zip([NOTHING, *values], values, strict=False)]
    parts = [map_rows(c, lambda row, i=i: (*row, i)) for i, c in enumerate(changes)]  # type: ignore[misc]
    return reduce(ZSet.__add__, parts, NOTHING)


@settings(max_examples=200, deadline=None)
@given(terms() | derived_terms(), databases(), st.lists(bags(S.schema), min_size=4, max_size=4))
def test_a_stamped_term_is_the_term_at_every_iteration(
    term: Term, database: dict[str, Rows], values: list[Rows]
) -> None:
    variable = Source("s", S.schema + STAMPED)
    try:
        lifted = stamped(term, {"s": variable})
    except UnsupportedError:
        assume(False)
    found = evaluate(lifted, {**database, "s": _stamps(values)})
    for iteration in range(ITERATIONS):
        expected = evaluate(term, {**database, "s": values[iteration]})
        assert _until(found, iteration) == expected


EDGE = Source("edge", Schema.of(a="int", b="int"))
PATH = Source("path", Schema.of(a="int", b="int"))


def _column(position: int) -> Column:
    return Column(position, "int")


CLOSURE = Fix(
    ("path",),
    (
        Distinct(
            UnionAll(
                (
                    EDGE,
                    Map(
                        Join(PATH, EDGE, (_column(1),), (_column(0),)),
                        (("a", _column(0)), ("b", _column(3))),
                    ),
                )
            )
        ),
    ),
)


@settings(max_examples=60, deadline=None)
@given(st.sets(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=8))
def test_a_recursion_solves_its_stamped_equation(edges: set[tuple[int, int]]) -> None:
    """x = ↑z⁻¹(R(x)) is solved iteration by iteration, and ∫ of R(x) is the fixed point."""
    (body,) = stamped_bodies(CLOSURE)
    database = {"edge": ZSet.from_rows(edges)}
    variable = NOTHING
    for iteration in range(len(edges) + 2):
        given_ = evaluate(body, {**database, "path": variable})
        now = filter_rows(given_, lambda row, i=iteration: row[-1] == i)  # type: ignore[misc]
        variable = variable + map_rows(now, lambda row: (*row[:-1], row[-1] + 1))
    assert map_rows(evaluate(body, {**database, "path": variable}), lambda row: row[:-1]) == (
        evaluate(CLOSURE, database)
    )


def test_a_recursion_begins_with_its_seed() -> None:
    """Halving until nothing changes: not monotone, every value replaces the one before."""
    x = _column(0)
    half = Map(
        Source("v", Schema.of(x="int")), (("x", Call("subtract", (x, Literal(1, "int")), "int")),)
    )
    kept = Filter(Source("v", Schema.of(x="int")), Call("less", (x, Literal(1, "int")), "boolean"))
    more = Filter(half, Call("less", (Literal(-1, "int"), x), "boolean"))
    fix = Fix(("v",), (UnionAll((more, kept)),), (Source("t", Schema.of(x="int")),))
    assert evaluate(fix, {"t": ZSet.from_rows([(3,)])}) == ZSet.from_rows([(0,)])


def test_a_recursion_without_end_is_an_error() -> None:
    grows = Map(
        PATH, (("a", Call("add", (_column(0), Literal(1, "int")), "int")), ("b", _column(1)))
    )
    fix = Fix(("path",), (UnionAll((EDGE, grows)),), limit=20)
    with pytest.raises(IterationLimitError, match="path did not end within 20 iterations"):
        evaluate(fix, {"edge": ZSet.from_rows([(1, 1)])})


def test_a_recursion_has_a_text() -> None:
    text, table = to_text_with_table(CLOSURE)
    assert parse(text, table) == CLOSURE
    assert list(sources(CLOSURE)) == ["edge"]


def test_a_relation_is_read_with_its_own_columns() -> None:
    with pytest.raises(DefinitionError, match="read with columns that it does not have"):
        Fix(("path",), (Map(PATH, (("a", _column(0)),)),))


def test_a_total_of_a_relation_is_not_part_of_its_recursion() -> None:
    from rekindle.calculus.terms import Aggregate, AggregateFunction, Measure

    total = Aggregate(R, (), (Measure("n", AggregateFunction.COUNT, (), "bigint"),))
    with pytest.raises(UnsupportedError, match="recursion"):
        stamped(total, {"r": Source("r", R.schema + STAMPED)})
