"""Shredding: the flat queries that keep a nested collection, and the tree of them.

Inner bags are replaced by labels. A label is a struct of the place in the text where the bag is
made, `i`, and of the values that the bag depends on there. The dictionary of a place joins the
labels that the level above holds with the query of the bag: labels that appear get their
definition, labels that vanish lose it, and a bag that several rows share is kept once. A bag that
comes from a collection that is shredded already keeps its label, and its dictionary is that of the
source. Figures 3.3 and 5.2 of Lupei's thesis, over normal forms (`blocks.py`).

    for m in movies yield (name: m.name, related: for n in movies where .. yield n.name)

    related·          SELECT m.name, {0, m.name, m.gen, m.dir} AS related FROM movies m
    related·related   SELECT d._label, n.name AS value
                      FROM (SELECT DISTINCT related AS _label, .. FROM related·) d, movies n

A collection with collections as values, `yield k => q`, goes the other way round: the dictionary
comes first, its labels are the keys, and the top lists the labels that have elements.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from rekindle.errors import DefinitionError, UnsupportedError
from rekindle.frontends.comprehension.blocks import Block, Inner, Table, blocks
from rekindle.frontends.comprehension.elaborate import TOP, Elaborated
from rekindle.frontends.comprehension.scope import Known, Path, Scope, path_of, paths_in
from rekindle.frontends.comprehension.select import (
    Cell,
    Domain,
    LabelTerm,
    Select,
    StructTerm,
)
from rekindle.names import HIDDEN, quoted, sql_text
from rekindle.nested import terms as core
from rekindle.nested.levels import LABEL, POSITION, VALUE, Level
from rekindle.nested.terms import KeyTerm
from rekindle.nested.types import Boxed, KeyType, Record
from rekindle.nested.types import Mapping as MappingType

KEY = "key"


@dataclass(frozen=True, slots=True)
class Part:
    """A view of flat rows: the sum of queries, each so many times, less than 0 to be taken away."""

    name: str
    queries: tuple[tuple[int, str], ...]
    rows: tuple[tuple[Select, tuple[tuple[str, Cell], ...]], ...] = field(
        default=(), compare=False, repr=False
    )
    """What each query selects, and as which columns, where the queries are that and no more."""


@dataclass(frozen=True, slots=True)
class Shredded:
    """A nested collection as flat parts, each after those that it reads."""

    level: Level
    parts: tuple[Part, ...]


def shred(name: str, given: Elaborated, known: Mapping[str, Known]) -> Shredded:
    """The parts of a view of that name."""
    type_ = given.term.type
    if not isinstance(type_, MappingType):
        raise DefinitionError(f"view '{name}' is of type {type_}, and no collection")
    shredding = _Shredding(name, known, given)
    level = shredding.level("", type_, [(None, blocks(given.term))], TOP in given.valued)
    return Shredded(level, tuple(shredding.parts))


_Source: TypeAlias = tuple[Domain | None, list[Block]]


@dataclass(frozen=True, slots=True)
class _Variant:
    """One way in which the labels of a column are made, and what their bags are."""

    index: int
    paths: tuple[Path, ...]
    scope: Scope
    blocks: list[Block]
    unique: bool
    """Has every row a label of its own?"""

    def column(self, number: int) -> str:
        return f"x{self.index}_{number}"


@dataclass(frozen=True, slots=True)
class _Bags:
    """A column of new labels."""

    path: Path
    ring: MappingType
    variants: list[_Variant]
    valued: bool


class _Shredding:
    """Shreds one view."""

    def __init__(self, view: str, known: Mapping[str, Known], given: Elaborated) -> None:
        self.parts: list[Part] = []
        self._view = view
        self._known = known
        self._valued = given.valued
        self._applies = given.applies
        self._numbers = itertools.count()

    def level(
        self, path: str, type_: MappingType, sources: Sequence[_Source], valued: bool
    ) -> Level:
        """The level of a collection, a sum of blocks over some domains; adds its parts."""
        if isinstance(type_.ring, MappingType):
            return self._grouped(path, type_, type_.ring, sources)
        return self._listed(path, type_, sources, valued, ())

    def _listed(
        self,
        path: str,
        type_: MappingType,
        sources: Sequence[_Source],
        valued: bool,
        group: Sequence[list[tuple[str, Cell]]],
    ) -> Level:
        """The same; with the columns of a `group` for each block, they are part of the label."""
        name = f"{self._view}{HIDDEN}{path}"
        _refuse_names(path or self._view, type_.key, labelled=bool(path))
        selects = [
            Select(self._known, block, domain, self._numbers)
            for domain, found in sources
            for block in found
        ]
        if not selects:
            raise UnsupportedError(f"'{path or self._view}' is always empty")
        rows = [select.block.keys[0] for select in selects]
        bags: list[tuple[str, Level]] = []
        made: list[_Bags] = []
        cells: list[dict[Path, LabelTerm]] = [{} for _ in selects]
        for place, ring in _bags_in(type_.key):
            terms = [_at(row, place) for row in rows]
            below = [_dictionary(select, term) for select, term in zip(selects, terms, strict=True)]
            new = any(path_of(term) is None for term in terms)
            if not new and all(each == below[0] for each in below):
                # All of them are arrays in their rows, or labels of the same dictionary.
                if below[0] is not None:
                    bags.append((".".join(place) or VALUE, below[0]))
                continue
            found, labels = self._labels(place, ring, selects, terms)
            made.append(found)
            for cell, label in zip(cells, labels, strict=True):
                cell[place] = label
        columns = [_columns(row, found) for row, found in zip(rows, cells, strict=True)]
        if valued:
            queries = [(1, _summed(selects, [_keyed(each) for each in columns], group))]
        else:
            self._refuse_numbers(path, selects)
            queries = [
                (select.block.count, _rows(select, each, group[i] if group else []))
                for i, (select, each) in enumerate(zip(selects, columns, strict=True))
            ]
        plain = () if valued or group else tuple(zip(selects, map(tuple, columns), strict=True))
        self.parts.append(Part(name, tuple(queries), plain))
        for each in made:
            bags.append(self._below(name, path, each))
        order = [".".join(place) or VALUE for place, _ in _bags_in(type_.key)]
        bags.sort(key=lambda each: order.index(each[0]))
        return Level(name, tuple(bags), not isinstance(type_.key, Record) and not valued)

    def _refuse_numbers(self, path: str, selects: Sequence[Select]) -> None:
        if any(select.block.factors for select in selects):
            raise UnsupportedError(
                f"the elements of '{path or self._view}' count for numbers",
                hint="put the number into the row, or yield key => number",
            )

    def _below(self, name: str, path: str, bags: _Bags) -> tuple[str, Level]:
        """The level of a column of new labels, with its name."""
        column = ".".join(bags.path) or VALUE
        single = len(bags.variants) == 1
        sources: list[_Source] = [
            (_domain(name, bags.path, each, single), each.blocks) for each in bags.variants
        ]
        inner = f"{path}.{column}" if path else column
        return column, self.level(inner, bags.ring, sources, bags.valued)

    def _labels(
        self,
        place: Path,
        ring: MappingType,
        selects: Sequence[Select],
        terms: Sequence[KeyTerm],
    ) -> tuple[_Bags, list[LabelTerm]]:
        """The ways in which a column of labels is made, and the label of each block."""
        variants: list[_Variant] = []
        fields: list[list[tuple[str, KeyType, KeyTerm]]] = []
        for index, (select, term) in enumerate(zip(selects, terms, strict=True)):
            if isinstance(term, core.ToKey):
                inner = blocks(term.ring)
            else:
                row = core.KeyVariable(f"element·{index}", ring.key)
                inner = [Block(((row, Inner(term)),), keys=(row,))]
            paths = [*paths_in(term, select.scope)]
            if self._applies:
                # The body of a function may name them in another order when it is redefined.
                paths.sort(key=lambda each: each[0])
            read = dict(paths)
            variant = _Variant(
                index, tuple(read), select.scope, inner, _is_unique(select, read, self._known)
            )
            variants.append(variant)
            fields.append(
                [
                    (variant.column(n), type_, _term_at(path, type_))
                    for n, (path, type_) in enumerate(read.items())
                ]
            )
        labels = [
            LabelTerm(
                index,
                tuple(
                    (name, type_, term if other == index else None)
                    for other, each in enumerate(fields)
                    for name, type_, term in each
                ),
            )
            for index in range(len(variants))
        ]
        is_valued = any(isinstance(t, core.ToKey) and t.index in self._valued for t in terms)
        return _Bags(place, ring, variants, is_valued), labels

    def _grouped(
        self,
        path: str,
        type_: MappingType,
        ring: MappingType,
        sources: Sequence[_Source],
    ) -> Level:
        """The level of a collection whose values are collections, with the dictionary of these."""
        if any(_bags_in(type_.key)):
            raise UnsupportedError(
                "a key with a collection in it cannot have a collection as value"
            )
        if isinstance(ring.ring, MappingType):
            raise UnsupportedError("a collection as value cannot have collections as values itself")
        group = [_keyed(_columns(b.keys[0], {})) for _, found in sources for b in found]
        inner: list[_Source] = [
            (domain, [replace(block, keys=block.keys[1:]) for block in found])
            for domain, found in sources
        ]
        # The values are numbers unless every block counts its elements.
        numbers = any(block.factors for _, found in sources for block in found)
        path_below = f"{path}.{VALUE}" if path else VALUE
        below = self._listed(path_below, ring, inner, numbers, group)
        names = [quoted(name) for name, _ in group[0]]
        label = quoted(LABEL)
        shown = [f"{label}.o AS {label}"] if sources[0][0] is not None else []
        shown += [f"{label}.{name} AS {name}" for name in names]
        shown.append(f"{label} AS {quoted(VALUE)}")
        name = f"{self._view}{HIDDEN}{path}"
        text = f"SELECT DISTINCT {', '.join(shown)} FROM {quoted(below.view)}"
        self.parts.append(Part(name, ((1, text),)))
        return Level(name, ((VALUE, below),))


def _rows(select: Select, columns: list[tuple[str, Cell]], group: list[tuple[str, Cell]]) -> str:
    """The rows of a block; with a group, labels are made of its columns."""
    if not group:
        return select.sql(columns)
    inner = select.sql([*_renamed(group), *columns])
    shown = [_group_label(select, group), *(quoted(name) for name, _ in columns)]
    return f"SELECT {', '.join(shown)} FROM ({inner})"


def _renamed(group: list[tuple[str, Cell]]) -> list[tuple[str, Cell]]:
    return [(f"_key{i}", cell) for i, (_, cell) in enumerate(group)]


def _group_label(select: Select, group: list[tuple[str, Cell]]) -> str:
    outer = [] if select.domain is None else [f"'o', {quoted(LABEL)}"]
    keys = [f"{sql_text(name)}, _key{i}" for i, (name, _) in enumerate(group)]
    parts = ", ".join(["'i', 0", *outer, *keys])
    return f"named_struct({parts}) AS {quoted(LABEL)}"


def _columns(row: KeyTerm, labels: Mapping[Path, LabelTerm]) -> list[tuple[str, Cell]]:
    """The columns of a row, with labels in the place of its new bags."""
    if not isinstance(row.type, Record):
        return [(VALUE, labels.get((), row))]
    return [(name, _cell(_at(row, (name,)), (name,), labels)) for name, _ in row.type.fields]


def _cell(term: KeyTerm, place: Path, labels: Mapping[Path, LabelTerm]) -> Cell:
    if place in labels:
        return labels[place]
    if not any(each[: len(place)] == place for each in labels):
        return term
    assert isinstance(term.type, Record)
    fields = tuple(
        (name, _cell(_at(term, (name,)), (*place, name), labels)) for name, _ in term.type.fields
    )
    return StructTerm(fields, None if isinstance(term, core.MakeRecord) else term)


def _refuse_names(what: str, row: KeyType, *, labelled: bool) -> None:
    """Raise if a column has the name of one of ours, or one that a part cannot be called after."""
    names = row.names if isinstance(row, Record) else ()
    taken = [name for name in names if labelled and name.lower() in (LABEL, POSITION)]
    if taken:
        raise DefinitionError(
            f"the elements of '{what}' cannot have a field called '{taken[0]}'",
            hint="give the field another name",
        )
    for place, _ in _bags_in(row):
        dotted = [name for name in place if "." in name or HIDDEN in name]
        if dotted:
            raise DefinitionError(
                f"'{dotted[0]}' holds collections, and its name has a dot in it",
                hint="give the field another name",
            )


def _bags_in(type_: KeyType, place: Path = ()) -> Iterator[tuple[Path, MappingType]]:
    """The inner bags of a row, by the fields that lead to them."""
    match type_:
        case Record(fields):
            for name, field in fields:
                yield from _bags_in(field, (*place, name))
        case Boxed(MappingType() as ring):
            yield place, ring


def _at(term: KeyTerm, place: Path) -> KeyTerm:
    """A part of a row."""
    for name in place:
        if isinstance(term, core.MakeRecord):
            term = dict(term.fields)[name]
        else:
            term = core.Field(term, name)
    return term


def _term_at(path: Path, type_: KeyType) -> KeyTerm:
    """A path as a term; of the types on the way only that of the end is of interest."""
    for name in reversed(path[1:]):
        type_ = Record(((name, type_),))
    return _at(core.KeyVariable(path[0], type_), path[1:])


def _dictionary(select: Select, term: KeyTerm) -> Level | None:
    path = path_of(term)
    return None if path is None else select.scope.bag(path)


def _is_unique(select: Select, read: Mapping[Path, KeyType], known: Mapping[str, Known]) -> bool:
    """Does a label hold the primary key of the one table that its block ranges over?"""
    if select.domain is not None or len(select.block.generators) != 1:
        return False
    ((row, source),) = select.block.generators
    if not isinstance(source, Table):
        return False
    key = known[source.name].key
    return bool(key) and all((row.name, column) in read for column in key)


def _domain(part: str, place: Path, variant: _Variant, single: bool) -> Domain:
    """The labels that a level holds of one way to make them."""
    column = ".".join(map(quoted, place or (VALUE,)))
    names = [variant.column(n) for n in range(len(variant.paths))]
    shown = [f"{column} AS {quoted(LABEL)}", *(f"{column}.{name} AS {name}" for name in names)]
    distinct = "" if variant.unique and single else "DISTINCT "
    text = f"SELECT {distinct}{', '.join(shown)} FROM {quoted(part)}"
    conditions = [] if single else [f"{column}.i = {variant.index}"]
    if len(place) > 1:
        conditions.append(f"{column} IS NOT NULL")
    if conditions:
        text += f" WHERE {' AND '.join(conditions)}"
    columns = {path: f"d.{name}" for path, name in zip(variant.paths, names, strict=True)}
    return Domain(f"({text})", variant.scope.computed(columns), (LABEL,))


def _summed(
    selects: Sequence[Select],
    columns: Sequence[list[tuple[str, Cell]]],
    group: Sequence[list[tuple[str, Cell]]],
) -> str:
    """Keys with the sums of what they count for, unless that is 0."""
    rows = []
    for i, (select, each) in enumerate(zip(selects, columns, strict=True)):
        if not group:
            rows.append(select.sql(each, weight="w"))
            continue
        inner = select.sql([*_renamed(group[i]), *each], weight="w")
        shown = [_group_label(select, group[i]), *(quoted(name) for name, _ in each), "w"]
        rows.append(f"SELECT {', '.join(shown)} FROM ({inner})")
    keys = [quoted(name) for name, _ in columns[0]]
    if group or selects[0].domain is not None:
        keys.insert(0, quoted(LABEL))
    by = f" GROUP BY {', '.join(keys)}" if keys else ""
    shown = [*keys, f"sum(w) AS {quoted(VALUE)}"]
    return f"SELECT {', '.join(shown)} FROM ({' UNION ALL '.join(rows)}){by} HAVING sum(w) <> 0"


def _keyed(columns: list[tuple[str, Cell]]) -> list[tuple[str, Cell]]:
    """The columns of a key; one that is a scalar is called so."""
    return [(KEY, columns[0][1])] if [name for name, _ in columns] == [VALUE] else columns
