"""Walks over trees and graphs of any depth.

A query of a thousand operators is as deep as it is long, and Python ends a recursion after a
thousand calls, its user's own among them. So whatever walks over something that a user's query
determines keeps its own stack. Every object is visited once, told apart by identity: terms, plans
and streams are graphs, and walked as trees one of n levels may have 2ⁿ nodes.

Rejected: threads with a larger stack and another recursion limit. The limit is the process's, and
belongs to the user.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

N = TypeVar("N")
T = TypeVar("T")


def fold(
    root: N, children: Callable[[N], Sequence[N]], combine: Callable[[N, tuple[T, ...]], T]
) -> T:
    """`combine` of the root and the results for its children; called once for each object.

    >>> fold(4, lambda n: [n - 1] if n else [], lambda n, below: n + sum(below))
    10
    """
    results: dict[int, T] = {}
    # The objects are held as well: an identity is one's own only as long as one is there.
    held: dict[int, tuple[N, Sequence[N]]] = {}
    waiting = [root]
    while waiting:
        node = waiting[-1]
        if id(node) in results:
            waiting.pop()
            continue
        if id(node) not in held:
            below = children(node)
            held[id(node)] = node, below
            missing = [child for child in below if id(child) not in results]
            if missing:
                waiting += reversed(missing)
                continue
        below = held[id(node)][1]
        results[id(node)] = combine(node, tuple(results[id(child)] for child in below))
        waiting.pop()
    return results[id(root)]


def visited(root: N, children: Callable[[N], Sequence[N]]) -> Iterator[N]:
    """The root and all that is below it, each object once, a node before its children.

    >>> list(visited(3, lambda n: range(n)))
    [3, 0, 1, 2]
    """
    seen: dict[int, N] = {}
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if id(node) not in seen:
            seen[id(node)] = node
            yield node
            waiting += reversed(children(node))
