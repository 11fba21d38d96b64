"""ElimLV: loops over variables whose value is known are no loops.

    foreach x, y do m[x, y] ±= if (x=u) then t else 0    is    foreach y do m[u, y] ±= t

Section 7.2.
"""

from __future__ import annotations

from dataclasses import replace

from rekindle.frontends.agca.ast import Aggregate, Comparison, conjunction
from rekindle.frontends.agca.renaming import substitute
from tests.agca.reference.monomials import Part, body_parts
from tests.agca.reference.programs import Statement


def eliminate_loops(statement: Statement) -> Statement:
    """The statement without the loop variables that its condition equates with others."""
    if not isinstance(statement.term, Aggregate):
        return statement
    parts = body_parts(statement.term.body)
    for part in parts:
        known = _replacement(part, statement.loops)
        if known is not None:
            kept = [substitute(each, known) for each in parts if each is not part]
            body = [each for each in kept if not _is_trivial(each)]
            value = substitute(statement.term.value, known)
            return eliminate_loops(
                replace(
                    statement,
                    keys=tuple(known.get(name, name) for name in statement.keys),
                    loops=tuple(name for name in statement.loops if name not in known),
                    term=Aggregate(value, conjunction(body)) if body else value,
                    initial=substitute(statement.initial, known),
                )
            )
    return statement


def _replacement(part: Part, loops: tuple[str, ...]) -> dict[str, str] | None:
    """The loop variable that an equality replaces, by an argument of the update if it can."""
    if not isinstance(part, Comparison) or part.equated is None:
        return None
    left, right = part.equated
    if left in loops and right not in loops:
        return {left: right}
    return {right: left} if right in loops else None


def _is_trivial(part: Part) -> bool:
    return isinstance(part, Comparison) and part.equated is not None and part.left == part.right
