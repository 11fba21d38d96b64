"""Random programs of two nested fixpoints over a graph, and what they mean in Python.

    repeat x := outer(x, y) from the seed of x,
        where y is the end of: repeat y := inner(x, y) from the seed of y, which may read x

All relations are sets of pairs. A program may grow, shrink or alternate; one that does not come to
its end within a bound is an error at every place where it is run.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

Pair: TypeAlias = tuple[int, int]
Pairs: TypeAlias = frozenset[Pair]
Names: TypeAlias = Mapping[str, Pairs]


@dataclass(frozen=True, slots=True)
class Named:
    name: str


@dataclass(frozen=True, slots=True)
class Swap:
    of: Expression


@dataclass(frozen=True, slots=True)
class Both:
    """Union."""

    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Without:
    """Set difference, which makes a program not monotone."""

    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class After:
    """Composition: (a, c) for (a, b) on the left and (b, c) on the right."""

    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Least:
    """(a, the least b) for each a: a group by key."""

    of: Expression


@dataclass(frozen=True, slots=True)
class Count:
    """(n, n) of the number n of pairs modulo 3, also of none: a group of all rows."""

    of: Expression


@dataclass(frozen=True, slots=True)
class Last:
    """The two greatest b for each a: a window by key."""

    of: Expression


@dataclass(frozen=True, slots=True)
class First:
    """The three least pairs: a limit of all rows."""

    of: Expression


Expression: TypeAlias = Named | Swap | Both | Without | After | Least | Count | Last | First


@dataclass(frozen=True, slots=True)
class Program:
    outer: Expression
    inner: Expression
    outer_seed: Expression
    inner_seed: Expression
    limit: int
    steps: tuple[int | None, int | None] = (None, None)
    """After how many the outer and the inner iteration are over, if they are."""


class EndlessError(Exception):
    """A program that did not come to its end."""


def meaning(expression: Expression, given: Names) -> Pairs:
    match expression:
        case Named():
            return given[expression.name]
        case Swap():
            return frozenset((b, a) for a, b in meaning(expression.of, given))
        case Least():
            found = meaning(expression.of, given)
            return frozenset((a, min(d for c, d in found if c == a)) for a, _ in found)
        case Count():
            n = len(meaning(expression.of, given)) % 3
            return frozenset({(n, n)})
        case Last():
            found = meaning(expression.of, given)
            return frozenset(
                (a, b) for a, b in found if sum(c == a and d > b for c, d in found) < 2
            )
        case First():
            return frozenset(sorted(meaning(expression.of, given))[:3])
    left, right = meaning(expression.left, given), meaning(expression.right, given)
    match expression:
        case Both():
            return left | right
        case Without():
            return left - right
        case After():
            return frozenset((a, d) for a, b in left for c, d in right if b == c)


def result(program: Program, edges: Pairs) -> Pairs:
    """The end of the outer iteration, by naive evaluation."""
    outer, inner = program.steps

    def after(x: Pairs) -> Pairs:
        def within(y: Pairs) -> Pairs:
            return meaning(program.inner, {"e": edges, "x": x, "y": y})

        seed = meaning(program.inner_seed, {"e": edges, "x": x})
        y = _end(seed, within, inner, program.limit)
        return meaning(program.outer, {"e": edges, "x": x, "y": y})

    return _end(meaning(program.outer_seed, {"e": edges}), after, outer, program.limit)


def _end(value: Pairs, step: Callable[[Pairs], Pairs], steps: int | None, limit: int) -> Pairs:
    for _ in range(limit + 1 if steps is None else steps):
        after = step(value)
        if after == value:
            return value
        value = after
    if steps is None:
        raise EndlessError
    return value


def random_program(pick: random.Random, limit: int = 6) -> Program:
    """Both bodies read both relations in most cases."""
    return Program(
        Both(_expression(pick, "exy", 1), _expression(pick, "xyy", 2)),
        Both(_expression(pick, "exy", 1), _expression(pick, "xyye", 2)),
        _expression(pick, "e", 1),
        _expression(pick, "ex", 1),
        limit,
    )


def _expression(pick: random.Random, names: str, depth: int) -> Expression:
    if depth == 0 or pick.random() < 0.15:
        return Named(pick.choice(names))
    kind = pick.choice((Swap, Least, Count, Both, Without, After, After))
    if kind in (Swap, Least, Count):
        return kind(_expression(pick, names, depth - 1))  # type: ignore[call-arg]
    sides = (_expression(pick, names, depth - 1) for _ in range(2))
    return kind(*sides)  # type: ignore[call-arg]


def with_functions(program: Program, pick: random.Random) -> Program:
    """The program with first and last rows here and there, and ends to its iterations."""

    def changed(expression: Expression) -> Expression:
        match expression:
            case Both() | Without() | After():
                sides = changed(expression.left), changed(expression.right)
                expression = type(expression)(*sides)
            case Swap() | Least() | Count():
                expression = type(expression)(changed(expression.of))
        return pick.choice((Last, First))(expression) if pick.random() < 0.3 else expression

    steps = pick.choice((None, 1, 2, 4)), pick.choice((None, 1, 2, 3))
    return replace(program, outer=changed(program.outer), inner=changed(program.inner), steps=steps)
