"""Columns that no later stage reads are left out of the stages before it.

`σ[a > 0]` passes on every column of a table, and a sum after it may read two of them. Catalyst
prunes columns inside a plan, but what a plan reads from a trace is opaque to it, and what the
driver hands to the JVM is no plan. So the stages of a branch are narrowed once, from the last to
the first, and what remains for the first is what has to be read at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rekindle.catalyst.jvm import JavaObject, id_of, ids_read
from rekindle.spark.stages import Lowered, Rowwise


@dataclass(frozen=True, slots=True)
class Narrowed:
    """Stages over the columns `read` of a row, given by their positions."""

    read: tuple[int, ...]
    stages: tuple[Lowered, ...]


def narrowed(stages: Sequence[Lowered]) -> Narrowed:
    """One stage or more, with the columns that they need.

    All columns of the last stage are wanted. A generator reads and gives all of its columns.
    """
    found: list[Lowered] = []
    wanted: tuple[int, ...] | None = None
    for place in range(len(stages) - 1, -1, -1):
        stage = stages[place]
        narrow = place == 0 or isinstance(stages[place - 1], Rowwise)
        if not isinstance(stage, Rowwise):
            wanted = None
        else:
            stage = _giving(stage, wanted)
            wanted = _read(stage) if narrow else None
            if wanted is not None:
                stage = replace(stage, attributes=tuple(stage.attributes[i] for i in wanted))
        found.append(stage)
    if wanted is None:
        wanted = tuple(range(len(stages[0].attributes)))
    return Narrowed(wanted, tuple(reversed(found)))


def _giving(stage: Rowwise, wanted: tuple[int, ...] | None) -> Rowwise:
    """The stage with the wanted of its columns only."""
    if wanted is None:
        return stage
    return replace(stage, columns=tuple(stage.columns[i] for i in wanted))


def _read(stage: Rowwise) -> tuple[int, ...] | None:
    """The positions that a stage reads; None for all of them."""
    if stage.marks is not None:
        return None
    computed = [] if stage.predicate is None else [stage.predicate]
    read = set()
    for output in stage.columns:
        place = _place(stage.attributes, output.expression)
        if place is None:
            computed.append(output.expression)
        else:
            read.add(place)
    if computed and len(read) < len(stage.attributes):
        ids = set().union(*map(ids_read, computed))
        read |= {i for i, a in enumerate(stage.attributes) if id_of(a) in ids}
    return None if len(read) == len(stage.attributes) else tuple(sorted(read))


def _place(attributes: Sequence[JavaObject], expression: JavaObject) -> int | None:
    """Where an expression that is one of the attributes stands among them."""
    return next((i for i, a in enumerate(attributes) if a is expression), None)
