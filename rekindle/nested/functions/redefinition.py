"""The change of a result when a function that its query names is given another definition.

The delta of application with da = 0: app(f ⊕ df, a) = app(f, a) ⊕ app(df, a). A query applies f to
every row of a collection, so with df = g ⊖ f the change is the same query under df. Where f and g
answer alike df is zero and the row takes no part.

What f gives must be of a group, or df is no value. A predicate gives a row once or not at all; a
scalar function gives a collection of one row. `Place` says which: how an answer enters the result,
as a Z-set. 3 ⊖ 2 would be no change of a mapped row, {3} ⊖ {2} is.

Uses of f on one row, as in f(a) AND NOT f(b), are one use: the function is then the whole
condition, under either definition. Uses on several collections are the arguments of a body. If that
is linear in each, as joins and products are, its change is a telescope, one use at a time:

    Q(g, …, g) ⊖ Q(f, …, f) = Σᵢ Q(g, …, g, dfᵢ, f, …, f)

A union is not (it is linear in both at once): the change of a union is the sum of the changes.

To find where f and g differ both are asked about every row, unless the answers of f were kept. What
is saved is everything behind: only rows that move go on.

Lupei, chapter 4, introduction, and A.4.1.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Generic, TypeAlias, TypeVar

from rekindle.algebra.groups import INTEGERS
from rekindle.algebra.zset import ZSet

Row = TypeVar("Row", bound=Hashable)
Made = TypeVar("Made", bound=Hashable)
Result = TypeVar("Result", bound=Hashable)
Answer = TypeVar("Answer")

Place: TypeAlias = Callable[[Row, Answer], "ZSet[Made, int]"]
"""How the answer of the function about a row enters the result."""


def kept(row: Row, answer: bool | None) -> ZSet[Row, int]:
    """The place of a predicate: the row, if the answer is true and not NULL.

    >>> kept("a", True), kept("a", None)
    (ZSet({'a': 1}), ZSet({}))
    """
    return ZSet.of({row: 1} if answer else {})


def replaced(row: Hashable, answer: Made) -> ZSet[Made, int]:
    """The place of a scalar function whose answer is all that is selected.

    >>> replaced("a", 3)
    ZSet({3: 1})
    """
    return ZSet.of({answer: 1})


def beside(row: Row, answer: Made) -> ZSet[tuple[Row, Made], int]:
    """The place of a scalar function whose answer is one more column.

    >>> beside("a", 3)
    ZSet({('a', 3): 1})
    """
    return ZSet.of({(row, answer): 1})


@dataclass(frozen=True, slots=True)
class Redefinition(Generic[Row, Made]):
    """The change of the result, and the rows on which the answers differ."""

    change: ZSet[Made, int]
    moved: ZSet[Row, int]


def applied(
    rows: ZSet[Row, int], function: Callable[[Row], Answer], place: Place[Row, Answer, Made]
) -> ZSet[Made, int]:
    """app(f, a): what the function makes of the rows.

    >>> applied(ZSet.of({1: 1, 2: 3}), lambda row: row > 1, kept)
    ZSet({2: 3})
    """
    return ZSet(
        (
            (made, weight * times)
            for row, weight in rows
            for made, times in place(row, function(row))
        ),
        INTEGERS,
    )


def redefined(
    rows: ZSet[Row, int],
    old: Callable[[Row], Answer],
    new: Callable[[Row], Answer],
    place: Place[Row, Answer, Made],
) -> Redefinition[Row, Made]:
    """app(df, a): the change that the new definition makes, from the rows that move.

    >>> rows = ZSet.of({1: 1, 2: 3, 3: 1})
    >>> redefined(rows, lambda row: row > 1, lambda row: row > 2, kept)
    Redefinition(change=ZSet({2: -3}), moved=ZSet({2: 3}))
    >>> redefined(rows, lambda row: row % 2, lambda row: row % 3, replaced)
    Redefinition(change=ZSet({2: 3, 0: -2, 1: -1}), moved=ZSet({2: 3, 3: 1}))
    """
    moved: list[tuple[Row, int]] = []
    change: list[tuple[Made, int]] = []
    for row, weight in rows:
        difference = place(row, new(row)) - place(row, old(row))
        if len(difference):
            moved.append((row, weight))
            change.extend((made, weight * times) for made, times in difference)
    return Redefinition(ZSet(change, INTEGERS), ZSet(moved, INTEGERS))


@dataclass(frozen=True, slots=True)
class Use(Generic[Row, Answer, Made]):
    """One use of the function in a query: the rows it is asked about, and where the answer goes."""

    rows: ZSet[Row, int]
    place: Place[Row, Answer, Made]


def redefined_in(
    body: Callable[..., ZSet[Result, int]],
    uses: Sequence[Use[Any, Any, Any]],
    old: Callable[[Any], Any],
    new: Callable[[Any], Any],
) -> ZSet[Result, int]:
    """Σᵢ Q(g, …, dfᵢ, …, f): the change of a body that is linear in each of its uses.

    `body` takes one collection for each use. A use in which nothing moves costs nothing.

    >>> from rekindle.algebra.relational import product
    >>> small = Use(ZSet.from_rows([1, 2, 3]), kept)
    >>> redefined_in(product, [small, small], lambda row: row < 2, lambda row: row == 3)
    ZSet({(1, 1): -1, (3, 3): 1})
    """
    before = [applied(use.rows, old, use.place) for use in uses]
    changes = [redefined(use.rows, old, new, use.place).change for use in uses]
    after = [given + change for given, change in zip(before, changes, strict=True)]
    summands = (
        body(*after[:i], change, *before[i + 1 :])
        for i, change in enumerate(changes)
        if len(change)
    )
    nothing: ZSet[Result, int] = ZSet((), INTEGERS)
    return reduce(lambda total, summand: total + summand, summands, nothing)
