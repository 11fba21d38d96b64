"""Walking circuits as the graphs they are.

The change of a join uses each of its inputs twice, and so does the change of a per-key operator.
Written as a tree a circuit of n such operators has 2ⁿ leaves; as a graph it grows linearly. The
steps therefore keep shared nodes shared: every walk here visits a node once, told apart by
identity, and `nodes` tells apart by equality without comparing whole subtrees.

Keep to these functions: `==` and `hash` of a large circuit walk the tree.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import TypeVar, assert_never

from rekindle.calculus import walks
from rekindle.calculus.terms import Linearity
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

T = TypeVar("T")


def fold(stream: Stream, combine: Callable[[Stream, tuple[T, ...]], T]) -> T:
    """`combine` of the root and the results for its inputs; called once for each node object."""
    return walks.fold(stream, lambda node: node.inputs, combine)


def with_inputs(stream: Stream, inputs: tuple[Stream, ...]) -> Stream:
    """The same node over other inputs; the node itself when they are the ones it has."""
    if len(inputs) == len(stream.inputs) and all(map(_is_same, inputs, stream.inputs)):
        return stream
    match stream:
        case Input():
            return stream
        case Apply() | Incremental() | Sum():
            return replace(stream, inputs=inputs)
        case Integrate() | Differentiate() | Delay():
            (child,) = inputs
            return replace(stream, child=child)
        case Update():
            previous, change = inputs
            return replace(stream, previous=previous, change=change)
        case _:
            assert_never(stream)


def _is_same(left: Stream, right: Stream) -> bool:
    return left is right


def transform(stream: Stream, law: Callable[[Stream], Stream]) -> Stream:
    """The circuit with the law applied once at each node, the inputs of a node first."""
    return fold(stream, lambda node, inputs: law(with_inputs(node, inputs)))


def nodes(stream: Stream) -> tuple[Stream, ...]:
    """Every node of the circuit once, inputs first; equal nodes are one.

    >>> from rekindle.calculus.schema import Schema
    >>> from rekindle.calculus.terms import Source
    >>> t = Input(Source("t", Schema.of(x="int")))
    >>> len(nodes(Sum((Integrate(t), Integrate(t)))))
    3
    """
    interned: dict[Hashable, Stream] = {}

    def intern(node: Stream, inputs: tuple[Stream, ...]) -> Stream:
        return interned.setdefault(_identity(node, inputs), with_inputs(node, inputs))

    fold(stream, intern)
    return tuple(interned.values())


def _identity(node: Stream, inputs: tuple[Stream, ...]) -> Hashable:
    """What makes two nodes equal, given that equal inputs are already one object."""
    match node:
        case Input():
            own: Hashable = node.source
        case Apply() | Incremental() | Update():
            own = node.operator
        case Integrate() | Differentiate() | Delay() | Sum():
            own = None
        case _:
            assert_never(node)
    return type(node), own, tuple(map(id, inputs))


def share(stream: Stream) -> Stream:
    """An equal circuit in which equal nodes are one object."""
    return nodes(stream)[-1]


def joins(stream: Stream) -> tuple[Apply, ...]:
    """The applications of bilinear operators."""
    return tuple(
        node
        for node in nodes(stream)
        if isinstance(node, Apply) and node.operator.linearity is Linearity.BILINEAR
    )
