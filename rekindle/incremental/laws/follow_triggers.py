"""A term with triggers changes as they say: (↑op)^Δ of `Triggered` is the last of its triggers.

A trigger is already written over changes and integrals, so nothing is derived here. It becomes a
stream node by node: a source is the stream that it reads, an aggregate is the update of its groups
by the change that its input denotes (and that is never integrated beyond those groups), and any
other operator is applied to changes, a join to a change and an integral.

Why the sum of products of a trigger is exact is said where they are made
(`incremental/policies/deltas.py`); the tests hold each step against recomputation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from rekindle.calculus.terms import Aggregate, Linearity, Reading, Source, Term, Triggered, read_by
from rekindle.calculus.walks import fold
from rekindle.incremental.stream import Apply, Delay, Incremental, Integrate, Stream, Update
from rekindle.incremental.traversal import transform


def follow_triggers(stream: Stream) -> Stream:
    """The circuit with every term that has triggers replaced by what they compute."""
    return transform(stream, _follow)


def _follow(node: Stream) -> Stream:
    if not isinstance(node, Incremental) or node.operator.linearity is not Linearity.GIVEN:
        return node
    assert isinstance(node.operator, Triggered)
    _, *changes = node.inputs
    given: list[Stream] = []
    for trigger in node.operator.triggers:
        given.append(_stream(trigger, changes, given))
    return given[-1]


def _stream(term: Term, changes: Sequence[Stream], given: Sequence[Stream]) -> Stream:
    def step(node: Term, inputs: tuple[Stream, ...]) -> Stream:
        match node:
            case Source():
                return _read(node, changes, given)
            case Aggregate():
                (change,) = inputs
                return Update(node, Delay(Integrate(change)), change)
            case _:
                return Apply(node, inputs)

    return fold(term, lambda node: node.children, step)


def _read(source: Source, changes: Sequence[Stream], given: Sequence[Stream]) -> Stream:
    read, number = read_by(source)
    match read:
        case Reading.CHANGE:
            return changes[number]
        case Reading.GIVEN:
            return given[number]
        case Reading.BEFORE:
            return Delay(Integrate(given[number]))
        case Reading.AFTER:
            return Integrate(given[number])
    assert_never(read)
