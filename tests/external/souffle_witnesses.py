"""Witnesses: `tallest(s, n) :- n = max h : { student(s, h) }` also gives who is so tall.

A clause whose head has a variable that occurs only inside a `min` or `max` says the aggregate's
body once more, with the result for the value; inside the aggregate the variables get other names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tests.external.souffle_syntax import (
    Aggregate,
    Argument,
    Atom,
    Call,
    Clause,
    Comparison,
    Either,
    Literal,
    Variable,
)
from tests.external.souffle_types import inner_variables, variables


def with_witnesses(clause: Clause) -> Clause:
    """The same clause, in which every variable of the head has a value outside of aggregates."""
    outside = {name for literal in clause.body for name in variables(literal)}
    wanted = {name for head in clause.heads for name in variables(head)} - outside
    body: list[Literal] = []
    for literal in clause.body:
        match literal:
            case Comparison(
                "=", Variable() as result, Aggregate("min" | "max", value, inner) as found
            ):
                if wanted & inner_variables(found) and value is not None:
                    own = {name: f"{name}_inside" for name in inner_variables(found) - outside}
                    body.append(Comparison("=", result, _renamed(found, own)))
                    body += [*inner, Comparison("=", result, value)]
                    continue
        body.append(literal)
    return replace(clause, body=tuple(body))


def _renamed(argument: Argument, names: Mapping[str, str]) -> Argument:
    match argument:
        case Variable(name):
            return Variable(names.get(name, name))
        case Call(name, arguments):
            return Call(name, tuple(_renamed(a, names) for a in arguments))
        case Aggregate(function, value, body):
            inner = None if value is None else _renamed(value, names)
            return Aggregate(function, inner, tuple(_renamed_literal(x, names) for x in body))
    return argument


def _renamed_literal(literal: Literal, names: Mapping[str, str]) -> Literal:
    match literal:
        case Atom(name, arguments, negated):
            return Atom(name, tuple(_renamed(a, names) for a in arguments), negated)
        case Comparison(operator, left, right):
            return Comparison(operator, _renamed(left, names), _renamed(right, names))
        case Either(options):
            renamed = (tuple(_renamed_literal(x, names) for x in option) for option in options)
            return Either(tuple(renamed))
