"""A term over stamped rows means, at every iteration, what the term means there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rekindle.algebra.relational import filter_rows, map_rows
from rekindle.algebra.zset import ZSet
from rekindle.calculus.interpreter import Rows, evaluate
from rekindle.calculus.nested_time import stamped, stamped_bodies
from rekindle.calculus.scalars import Call, Column, Literal, Row
from rekindle.calculus.schema import Schema
from rekindle.calculus.terms import (
    STAMPED,
    Bound,
    Distinct,
    Filter,
    Fix,
    Join,
    Map,
    PerGroup,
    Source,
    Term,
    TopRows,
    UnionAll,
    sources,
)
from rekindle.calculus.text import parse, to_text_with_table
from rekindle.calculus.while_loops import while_any
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


@dataclass(frozen=True)
class FirstRows:
    """The first rows of a group in the order of a column and then of all, as a limit gives them."""

    schema: Schema
    column: int
    rows: int
    text: str = "first rows"

    def apply(self, key: Row, rows: Sequence[Row]) -> list[Row]:
        def order(row: Row) -> list[tuple[bool, int]]:
            return [(value is not None, value or 0) for value in (row[self.column], *row)]

        return sorted(rows, key=order)[: self.rows]


@settings(max_examples=100, deadline=None)
@given(st.lists(bags(S.schema), min_size=4, max_size=4), st.sampled_from(((), (0,), (0, 1))))
def test_a_function_of_groups_is_stamped(values: list[Rows], keys: tuple[int, ...]) -> None:
    """Also without keys; which rows it would see first is of one iteration, and all are given."""
    term = PerGroup(S, keys, FirstRows(S.schema, 1, 2), TopRows(1, 2))
    lifted = stamped(term, {"s": Source("s", S.schema + STAMPED)})
    assert isinstance(lifted, PerGroup) and lifted.reach is None and lifted.stamps == 1
    found = evaluate(lifted, {"s": _stamps(values)})
    for iteration in range(ITERATIONS):
        assert _until(found, iteration) == evaluate(term, {"s": values[iteration]})


def _solved(fix: Fix, database: dict[str, Rows]) -> Rows:
    """The stamped equations solved as a step does: nothing is led back at the limit."""
    bodies = stamped_bodies(fix)
    known = dict.fromkeys(fix.names, NOTHING)
    for iteration in range(fix.limit - 1):
        given_ = [evaluate(body, {**database, **known}) for body in bodies]
        for name, rows in zip(fix.names, given_, strict=True):
            now = filter_rows(rows, lambda row, i=iteration: row[-1] == i)  # type: ignore[misc]
            later = map_rows(now, lambda row: (*row[:-1], row[-1] + 1))
            known[name] = known[name] + later
    found = evaluate(bodies[fix.output], {**database, **known})
    assert all(row[-1] < fix.limit for row, _ in found)
    return map_rows(found, lambda row: row[:-1])


_VALUE = Source("v", Schema.of(x="int", y="int"))


def _turning(limit: int, keys: tuple[int, ...]) -> Fix:
    """Of each group the first row in an order, turned, and what the table has beside it."""
    first = PerGroup(_VALUE, keys, FirstRows(_VALUE.schema, 1, 1))
    turned = Map(first, (("x", _column(1)), ("y", Call("add", (_column(0), _column(1)), "int"))))
    return Fix(("v",), (UnionAll((turned, S)),), (R,), limit=limit, bound=Bound.RESULT)


@settings(max_examples=100, deadline=None)
@given(databases(), st.integers(1, 5), st.sampled_from(((), (0,))))
def test_a_limit_gives_what_so_many_iterations_do(
    database: dict[str, Rows], limit: int, keys: tuple[int, ...]
) -> None:
    fix = _turning(limit, keys)
    value = database["r"]
    for _ in range(limit):
        value = evaluate(fix.bodies[0], {**database, "v": value})
    assert evaluate(fix, database) == value
    assert _solved(fix, database) == value


@settings(max_examples=100, deadline=None)
@given(databases(), st.integers(1, 5), st.sampled_from(((0,), (1,), (0, 1))))
def test_a_recursion_ends_when_its_bodies_say_so(
    database: dict[str, Rows], limit: int, tell: tuple[int, ...]
) -> None:
    """Two relations that become each other, as long as any row of those that tell is small."""
    a, b = (Source(name, Schema.of(x="int", y="int")) for name in "ab")

    def after(of: Source, by: int, tells: bool) -> Map:
        x = Call("add", (_column(0), Literal(by, "int")), "int")
        small = Call("less", (x, Literal(3, "int")), "boolean")
        columns = (("x", x), ("y", _column(1)), ("small", small))
        return Map(of, columns if tells else columns[:2])

    bodies = (after(b, 1, 0 in tell), after(a, 2, 1 in tell))
    fix = while_any(("a", "b"), bodies, (R, S), tell, "g", limit, Bound.RESULT)
    values = [database["r"], database["s"]]
    for _ in range(limit):
        given_ = [evaluate(body, dict(zip("ab", values, strict=True))) for body in bodies]
        values = [map_rows(rows, lambda row: row[:2]) for rows in given_]
        if not any(row[2] is True for i in tell for row, _ in given_[i]):
            break
    for output, expected in enumerate(values):
        assert evaluate(replace(fix, output=output), database) == expected
        assert _solved(replace(fix, output=output), database) == expected


def test_a_recursion_has_a_text() -> None:
    text, table = to_text_with_table(CLOSURE)
    assert parse(text, table) == CLOSURE
    assert list(sources(CLOSURE)) == ["edge"]
    for limit in (1, 7):
        text, table = to_text_with_table(replace(CLOSURE, limit=limit, bound=Bound.RESULT))
        assert f"at most {limit}" in text
        assert parse(text, table) == replace(CLOSURE, limit=limit, bound=Bound.RESULT)
    with pytest.raises(DefinitionError, match="one iteration at least"):
        replace(CLOSURE, limit=0, bound=Bound.RESULT)


def test_a_relation_is_read_with_its_own_columns() -> None:
    with pytest.raises(DefinitionError, match="read with columns that it does not have"):
        Fix(("path",), (Map(PATH, (("a", _column(0)),)),))


def test_a_total_of_a_relation_is_not_part_of_its_recursion() -> None:
    from rekindle.calculus.terms import Aggregate, AggregateFunction, Measure

    total = Aggregate(R, (), (Measure("n", AggregateFunction.COUNT, (), "bigint"),))
    with pytest.raises(UnsupportedError, match="recursion"):
        stamped(total, {"r": Source("r", R.schema + STAMPED)})
