"""Inner bags that stay in their rows: parts that are folded into the part above them.

`fromK` of section 5.2 of Lupei's thesis where shredding would have put a label. The flat queries of
a level and of those below it become named queries of one, which nests them: a row has its bag as an
array, in the order of its elements, and a change of an element makes the array anew. What is
below a bag in a row is in the row too.

A level stays apart where it is the dictionary of another table or view, since that is kept anyway,
and where its elements have no order, since two arrays of the same elements could differ.

Rejected: arrays beside the dictionary. Both would be kept, and one of them read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from rekindle.frontends.comprehension.assembling import SchemaOf, is_orderable, nested_query
from rekindle.frontends.comprehension.parts import Part, Shredded
from rekindle.names import quoted
from rekindle.nested.levels import LABEL, Level


def folded(
    shredded: Shredded, schema_of: SchemaOf, stays: Callable[[str], bool] = lambda path: True
) -> Shredded:
    """The same collection with inner bags in their rows that can be there and, by path, stay."""
    return _Folding(shredded, schema_of, stays).whole()


class _Folding:
    def __init__(
        self, shredded: Shredded, schema_of: SchemaOf, stays: Callable[[str], bool]
    ) -> None:
        self._stays = stays
        self._shredded = shredded
        self._schema_of = schema_of
        self._own: Mapping[str, Part] = {part.name: part for part in shredded.parts}
        self._made: dict[str, Part] = {}

    def whole(self) -> Shredded:
        level = self._level(self._shredded.level, "")
        return Shredded(
            level,
            tuple(self._made[p.name] for p in self._shredded.parts if p.name in self._made),
        )

    def _level(self, level: Level, path: str) -> Level:
        """A level that has a part of its own; adds that and those of levels below it."""
        if level.view not in self._own:
            return level
        paths = {column: f"{path}.{column}" if path else column for column, _ in level.bags}
        inside = [
            (column, below)
            for column, below in level.bags
            if self._stays(paths[column]) and self._can_fold(below)
        ]
        apart = [each for each in level.bags if each not in inside]
        part = self._own[level.view]
        if inside:
            query = self._nested(replace(level, bags=tuple(inside)))
            part = Part(level.view, ((1, query),))
        self._made[level.view] = part
        bags = tuple((column, self._level(below, paths[column])) for column, below in apart)
        return replace(level, bags=bags)

    def _can_fold(self, level: Level) -> bool:
        if level.view not in self._own:
            return False
        fields = [f for f in self._schema_of(level.view).fields if f.name != LABEL]
        return all(is_orderable(f.dataType) for f in fields) and all(
            self._can_fold(below) for _, below in level.bags
        )

    def _nested(self, level: Level) -> str:
        """The query of a level with the levels below it in its rows."""
        names = dict.fromkeys(_views(level))
        ordered = [part for part in self._shredded.parts if part.name in names]
        named = ", ".join(f"{quoted(part.name)} AS ({_summed(part)})" for part in ordered)
        return f"WITH {named} {nested_query(level, self._schema_of)}"


def _views(level: Level) -> Iterator[str]:
    for _, each in level.paths():
        yield each.view


def _summed(part: Part) -> str:
    """The rows of a part as one query; what is taken away is there."""
    added = [f"({query})" for count, query in part.queries for _ in range(count)]
    taken = [f"({query})" for count, query in part.queries for _ in range(-count)]
    text = " UNION ALL ".join(added)
    return f"({text}) EXCEPT ALL ({' UNION ALL '.join(taken)})" if taken else text
