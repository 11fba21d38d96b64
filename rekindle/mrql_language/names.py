"""The names that expressions and patterns mention, and a pattern as the expression of its names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, is_dataclass

from rekindle.mrql_language import syntax as s


def mentioned(node: object) -> Iterable[str]:
    """The names that an expression mentions, bound in it or not."""
    if isinstance(node, s.Name):
        yield node.name
    elif isinstance(node, tuple):
        for part in node:
            yield from mentioned(part)
    elif is_dataclass(node) and not isinstance(node, type):
        for each in fields(node):
            yield from mentioned(getattr(node, each.name))


def pattern_names(pattern: s.Pattern) -> Iterable[str]:
    """The variables of a pattern, from left to right."""
    match pattern:
        case s.Variable():
            yield pattern.name
        case s.TuplePattern() | s.ListPattern() | s.ConstructorPattern():
            for item in pattern.items:
                yield from pattern_names(item)
        case s.RecordPattern():
            for _, item in pattern.fields:
                yield from pattern_names(item)
        case s.TypedPattern():
            yield from pattern_names(pattern.pattern)


def pattern_expression(pattern: s.Pattern) -> s.Expression:
    """`group by p` means `group by p: p`."""
    match pattern:
        case s.Variable():
            return s.Name(pattern.name, pattern.place)
        case s.TuplePattern():
            return s.TupleOf(tuple(map(pattern_expression, pattern.items)))
        case s.RecordPattern():
            return s.RecordOf(tuple((n, pattern_expression(item)) for n, item in pattern.fields))
        case s.TypedPattern():
            return s.Cast(pattern_expression(pattern.pattern), pattern.type)
        case s.Constant():
            return pattern.value
        case _:
            raise s.Place(1, 1).error("this pattern of a group by needs a key after ':'")
