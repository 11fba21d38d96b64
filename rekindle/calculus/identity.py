"""When two nodes of a graph are equal, found without walking the graph as a tree.

Two nodes are equal if they are of one kind, agree in what is their own, and have equal inputs. A
term that uses each of its parts twice has 2ⁿ leaves as a tree, so `==` as dataclasses define it
compares the same two subterms 2ⁿ times, and `hash` hashes them as often; both end at the depth of
Python's stack. Here a pair of nodes is compared once, a node is hashed once in its life, and both
walks keep their own stack.

Rejected: interning every node when it is made. Scalars, bodies and relations of the front ends are
compared by texts and bytes, and most terms are never compared at all.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import fields
from typing import Any, cast

from rekindle.calculus.walks import fold


class Node:
    """A frozen dataclass, made with `eq=False`, some of whose fields hold other nodes."""

    __slots__ = ("_hash",)
    _hash: int

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return _equal(self, other) if isinstance(other, Node) else NotImplemented

    def __hash__(self) -> int:
        return fold(self, _not_hashed, _hashed)


def _parts(node: Node) -> tuple[tuple[object, ...], tuple[Node, ...]]:
    """What is a node's own, with how many nodes each of its other fields holds, and these nodes."""
    own: list[object] = []
    below: list[Node] = []
    for field in fields(cast(Any, node)):
        if not field.compare:
            continue
        value = getattr(node, field.name)
        listed = value if isinstance(value, tuple) else (value,)
        if listed and all(isinstance(each, Node) for each in listed):
            own.append(len(listed))
            below += listed
        else:
            own.append(value)
    return tuple(own), tuple(below)


def _equal(left: Node, right: Node) -> bool:
    # The nodes of a pair are below the two that are compared, which hold them until the end.
    met: set[tuple[int, int]] = set()
    waiting = [(left, right)]
    while waiting:
        one, other = waiting.pop()
        if one is other or (id(one), id(other)) in met:
            continue
        met.add((id(one), id(other)))
        if type(one) is not type(other) or _differ(one, other):
            return False
        (own, below), (theirs, others) = _parts(one), _parts(other)
        if own != theirs:
            return False
        waiting += zip(below, others, strict=True)
    return True


def _differ(one: Node, other: Node) -> bool:
    """Do two nodes differ for certain, by the hashes that they have already?"""
    hashes = getattr(one, "_hash", None), getattr(other, "_hash", None)
    return None not in hashes and hashes[0] != hashes[1]


def _not_hashed(node: Node) -> tuple[Node, ...]:
    return () if hasattr(node, "_hash") else _parts(node)[1]


def _hashed(node: Node, below: tuple[int, ...]) -> int:
    if not hasattr(node, "_hash"):
        own: Hashable = _parts(node)[0]
        object.__setattr__(node, "_hash", hash((type(node), own, below)))
    return node._hash
