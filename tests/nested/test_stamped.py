"""Recursions inside recursions over stamped rows, against naive evaluation in Python."""

from __future__ import annotations

import random

import pytest

from rekindle.algebra.relational import filter_rows, map_rows
from rekindle.algebra.zset import ZSet
from rekindle.calculus.interpreter import Rows, evaluate
from rekindle.calculus.nested_time import stamped, stamped_bodies
from rekindle.calculus.terms import STAMPED, Fix, Source, Term
from rekindle.calculus.text import parse, to_text_with_table
from rekindle.errors import IterationLimitError
from rekindle.incremental.pipeline import trace_steps
from tests.nested.programs import (
    EndlessError,
    Pairs,
    Program,
    random_program,
    result,
    with_functions,
)
from tests.nested.terms import PAIR, fix, outer_body

NOTHING: Rows = ZSet.from_rows([])
SEEDS = range(40)


def made(seed: int, pick: random.Random) -> Program:
    """A random program; every other has functions of groups and iterations that are over."""
    program = random_program(pick)
    return with_functions(program, pick) if seed % 2 else program


def graph(pick: random.Random, size: int = 3) -> Pairs:
    return frozenset(
        (pick.randrange(size), pick.randrange(size)) for _ in range(pick.randint(0, 5))
    )


def _until(rows: Rows, iteration: int) -> Rows:
    return map_rows(filter_rows(rows, lambda row: row[-1] <= iteration), lambda row: row[:-1])


@pytest.mark.parametrize("seed", SEEDS)
def test_a_term_of_nested_recursions_means_what_the_program_does(seed: int) -> None:
    pick = random.Random(seed)
    program, edges = made(seed, pick), graph(pick)
    database = {"e": ZSet.from_rows(edges)}
    try:
        expected = result(program, edges)
    except EndlessError:
        with pytest.raises(IterationLimitError):
            evaluate(fix(program), database)
    else:
        assert evaluate(fix(program), database) == ZSet.from_rows(expected)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_lifted_recursion_is_the_recursion_at_every_iteration(seed: int) -> None:
    """↑fix(R) = fix(↑R), with its bound: an end within it is one at every outer iteration."""
    pick = random.Random(seed)
    program, edges = made(seed, pick), graph(pick)
    _, inner = outer_body(program)
    values = [ZSet.from_rows(graph(pick)) for _ in range(4)]
    changes = [after + -before for before, after in zip([NOTHING, *values], values, strict=False)]
    x = NOTHING
    for i, change in enumerate(changes):
        x = x + map_rows(change, lambda row, i=i: (*row, i))  # type: ignore[misc]
    lifted = stamped(inner, {"x": Source("x", PAIR + STAMPED)})
    database = {"e": ZSet.from_rows(edges)}
    try:
        expected = [evaluate(inner, {**database, "x": value}) for value in values]
    except IterationLimitError:
        with pytest.raises(IterationLimitError):
            evaluate(lifted, {**database, "x": x})
        return
    found = evaluate(lifted, {**database, "x": x})
    assert [_until(found, i) for i in range(len(values))] == expected


@pytest.mark.parametrize("seed", SEEDS[:12])
def test_nested_equations_are_solved_in_the_order_of_a_dictionary(seed: int) -> None:
    """What a step runs: at each pair of iterations, only what is stamped with it is led back.

    At the last iteration of a recursion that is over by then nothing is.
    """
    pick = random.Random(seed)
    program, edges = made(seed, pick), graph(pick)
    try:
        expected = result(program, edges)
    except EndlessError:
        return
    outer = fix(program)
    (outer_stamped,) = stamped_bodies(outer)
    inner = _inside(outer_stamped)
    database = {"e": ZSet.from_rows(edges)}
    x, y = NOTHING, NOTHING
    turns = [program.limit + 1 if n is None else n - 1 for n in program.steps]
    for first in range(turns[0] + 1):
        if inner is not None:
            (inner_stamped,) = stamped_bodies(inner)
            for second in range(turns[1]):
                given = evaluate(inner_stamped, {**database, "x": x, "y": y})
                y = y + _led_back(given, (first, second))
        given = evaluate(outer_stamped, {**database, "x": x})
        if first < turns[0]:
            x = x + _led_back(given, (first,))
    assert map_rows(evaluate(outer_stamped, {**database, "x": x}), lambda row: row[:-1]) == (
        ZSet.from_rows(expected)
    )
    if inner is not None:
        solved = evaluate(inner_stamped, {**database, "x": x, "y": y})
        assert map_rows(solved, lambda row: row[:-1]) == evaluate(inner, {**database, "x": x})


def _led_back(rows: Rows, time: tuple[int, ...]) -> Rows:
    """The rows of one time, stamped one later in its last part."""
    now = filter_rows(rows, lambda row: row[-len(time) :] == time)
    return map_rows(now, lambda row: (*row[:-1], row[-1] + 1))


def _inside(term: Term) -> Fix | None:
    """The recursion inside a stamped body, if it still depends on the outer one."""
    if isinstance(term, Fix) and term.names == ("y",):
        return term
    found = (_inside(child) for child in term.children)
    return next((fix for fix in found if fix is not None), None)


def test_lifted_recursions_have_a_text() -> None:
    lifted = 0
    for seed in SEEDS:
        (body,) = stamped_bodies(fix(random_program(random.Random(seed))))
        inner = _inside(body)
        for term in (body, *(() if inner is None else stamped_bodies(inner))):
            text, table = to_text_with_table(term)
            assert parse(text, table) == term
            lifted += "stamped stamped" in text
    assert lifted


def test_the_steps_show_what_runs_inside_both() -> None:
    program = random_program(random.Random(1))
    (body,) = stamped_bodies(fix(program))
    assert _inside(body) is not None
    steps = dict(trace_steps(fix(program)))
    assert "inside μ: x" in steps and "inside μ: y" in steps
    assert "μ" in steps["inside μ: x"]


def test_most_programs_come_to_an_end_and_some_do_not() -> None:
    """Otherwise the tests above would show little."""
    ends: dict[bool, list[Pairs]] = {True: [], False: []}
    for seed in SEEDS:
        pick = random.Random(seed)
        program, edges = random_program(pick), graph(pick)
        try:
            ends[True].append(result(program, edges))
        except EndlessError:
            ends[False].append(edges)
    assert len(ends[True]) > len(SEEDS) // 2
    assert len(ends[False]) > 3
    assert len({found for found in ends[True]}) > 10
