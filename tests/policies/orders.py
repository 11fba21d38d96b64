"""Variable orders as text, as the paper draws them in a line."""

from __future__ import annotations

import ast

from rekindle.incremental.policies.orders import Node, VariableOrder


def parse_order(text: str) -> VariableOrder:
    """The order that a text such as `A(B, C(D, E))` writes; it has the form of calls in Python.

    >>> str(parse_order("A(B, C(D)), r.x"))
    'A(B, C(D)), r.x'
    """
    roots = ast.parse(f"({text},)", mode="eval").body
    assert isinstance(roots, ast.Tuple)
    return VariableOrder(tuple(map(_node, roots.elts)))


def _node(written: ast.expr) -> Node:
    if isinstance(written, ast.Call):
        return Node(ast.unparse(written.func), tuple(map(_node, written.args)))
    return Node(ast.unparse(written))
