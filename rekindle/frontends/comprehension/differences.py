"""What a part changes by when conditions in it are others: the rows on which they disagree.

app(df, a) for a predicate f (Lupei, chapter 4). A part is a sum of selections. If those of two
definitions differ in their conditions alone, the change from one to the other is

    Σ  select where common and new and not old   −   select where common and old and not new

with NULL as false under `not`. Rows on which both agree are in neither.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace

from rekindle.frontends.comprehension.blocks import Block
from rekindle.frontends.comprehension.parts import Part
from rekindle.frontends.comprehension.scope import Known
from rekindle.frontends.comprehension.select import Select
from rekindle.nested import terms as core
from rekindle.nested.terms import KeyTerm
from rekindle.nested.types import Scalar

_BOOLEAN = Scalar("boolean")


def difference(old: Part, new: Part, known: Mapping[str, Known]) -> Part | None:
    """new − old as a part, with some of its queries taken away; None if more than conditions is."""
    if not old.rows or len(old.rows) != len(new.rows):
        return None
    numbers = itertools.count()
    queries: list[tuple[int, str]] = []
    for (before, columns), (after, others) in zip(old.rows, new.rows, strict=True):
        if before.domain != after.domain or columns != others:
            return None
        if replace(before.block, conditions=after.block.conditions) != after.block:
            return None
        if before.block == after.block:
            continue
        for sign, one, other in ((1, after.block, before.block), (-1, before.block, after.block)):
            select = Select(known, _without(one, other), after.domain, numbers)
            queries.append((sign * one.count, select.sql(columns)))
    return Part(new.name, tuple(queries)) if queries else None


def _without(one: Block, other: Block) -> Block:
    """The rows of one block that are not rows of another, which differs in its conditions."""
    more = [each for each in other.conditions if each not in one.conditions]
    return replace(one, conditions=(*one.conditions, _not_all(more)))


def _not_all(conditions: Sequence[KeyTerm]) -> KeyTerm:
    """True where one of the conditions is false or NULL."""
    holes = " AND ".join(f"{{{i}}}" for i in range(len(conditions)))
    text = f"NOT coalesce({holes}, false)" if conditions else "false"
    return core.Apply(core.ScalarFunction(text, _BOOLEAN), tuple(conditions))
