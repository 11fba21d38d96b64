"""How a plan that has no term is refused."""

from __future__ import annotations

from rekindle.calculus.walks import visited
from rekindle.catalyst.jvm import (
    JavaObject,
    children_of,
    full_name,
    items,
    position,
    simple_name,
)
from rekindle.errors import UnsupportedError

NEXT = "see docs/reference.md for what can stand in a materialized view"


def unsupported(words: str, *nodes: JavaObject) -> UnsupportedError:
    """The refusal of a construct, with its place in the query."""
    found = [i for node in nodes for e in _expressions(node) for i in visited(e, children_of)]
    joins = [node for node in nodes if simple_name(node) == "Join"]
    where = position(*joins, *found, *nodes)
    return UnsupportedError(
        f"{words} is not maintained incrementally yet",
        detail=f"at {where} of the view's query" if where else "in the view's query",
        hint=NEXT,
    )


def _expressions(node: JavaObject) -> list[JavaObject]:
    is_plan = ".plans." in full_name(node)
    return items(node.expressions()) if is_plan else items(node.children())
