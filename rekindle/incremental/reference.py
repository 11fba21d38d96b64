"""The meaning of a circuit: a run over in-memory streams of Z-sets.

It is built from `rekindle.algebra.streams` and the interpreter alone, so that the laws of this
package are tested against definitions and not against themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias, assert_never

from rekindle.algebra import streams
from rekindle.algebra.groups import INTEGERS
from rekindle.algebra.zset import ZSetGroup
from rekindle.calculus.interpreter import Rows, apply_operator, evaluate
from rekindle.calculus.scalars import Row
from rekindle.calculus.terms import Constant, Fix, Source, Term, sources
from rekindle.errors import unknown_name
from rekindle.incremental.stream import (
    Apply,
    Delay,
    Differentiate,
    Incremental,
    Input,
    Integrate,
    Stream,
    Sum,
    Update,
)
from rekindle.incremental.traversal import fold, share

RowStream: TypeAlias = streams.Stream[Rows]

_GROUP: ZSetGroup[Row, int] = ZSetGroup(INTEGERS)


def run(stream: Stream, inputs: Mapping[str, Sequence[Rows]], length: int) -> list[Rows]:
    """The circuit's first `length` values; an input is zero after those that are given.

    >>> from rekindle.algebra.zset import ZSet
    >>> from rekindle.calculus.schema import Schema
    >>> from rekindle.calculus.terms import Source
    >>> t = Input(Source("t", Schema.of(x="int")))
    >>> run(Integrate(t), {"t": [ZSet.from_rows([(1,)]), ZSet.from_rows([(1,)])]}, 3)
    [ZSet({(1,): 1}), ZSet({(1,): 2}), ZSet({(1,): 2})]
    """
    given = {name: streams.Stream.from_list(values, _GROUP) for name, values in inputs.items()}

    def meaning(node: Stream, children: tuple[RowStream, ...]) -> RowStream:
        match node:
            case Input():
                return _input(node.source, given)
            case Apply():
                return _lifted(node.operator, children)
            case Integrate():
                return streams.integrate(children[0])
            case Differentiate():
                return streams.differentiate(children[0])
            case Delay():
                return streams.delay(children[0])
            case Sum():
                return sum(children, streams.StreamGroup(_GROUP).zero)
            case Incremental():
                integrated = tuple(map(streams.integrate, children))
                return streams.differentiate(_lifted(node.operator, integrated))
            case Update():
                return _updated(node.operator, *children)
            case _:
                assert_never(node)

    return fold(share(stream), meaning).take(length)


def _input(source: Source | Constant | Fix, given: Mapping[str, RowStream]) -> RowStream:
    """A source's changes; a constant is δ₀ of its rows, a recursion is evaluated every time."""
    if isinstance(source, Fix):
        states = {name: streams.integrate(given[name]) for name in sources(source)}

        def value(time: int) -> Rows:
            return evaluate(source, {name: state[time] for name, state in states.items()})

        return streams.differentiate(streams.Stream(value, _GROUP))
    if isinstance(source, Constant):
        return streams.delta0(evaluate(source, {}), _GROUP)
    if source.name not in given:
        raise unknown_name("source", source.name, given)
    return given[source.name]


def _lifted(operator: Term, inputs: tuple[RowStream, ...]) -> RowStream:
    def value(time: int) -> Rows:
        return apply_operator(operator, [stream[time] for stream in inputs])

    return streams.Stream(value, _GROUP)


def _updated(operator: Term, previous: RowStream, change: RowStream) -> RowStream:
    """f(x + Δx) − f(x), and f(Δx) at time zero, when nothing has been given out before."""

    def value(time: int) -> Rows:
        before, delta = previous[time], change[time]
        after = apply_operator(operator, [before + delta])
        return after if time == 0 else after - apply_operator(operator, [before])

    return streams.Stream(value, _GROUP)


def recompute(term: Term, inputs: Mapping[str, Sequence[Rows]], length: int) -> list[Rows]:
    """D ∘ ↑term ∘ I by definition: the changes of a view that is evaluated anew every time."""
    states = {
        name: streams.integrate(streams.Stream.from_list(values, _GROUP))
        for name, values in inputs.items()
    }

    def value(time: int) -> Rows:
        return evaluate(term, {name: stream[time] for name, stream in states.items()})

    return streams.differentiate(streams.Stream(value, _GROUP)).take(length)
