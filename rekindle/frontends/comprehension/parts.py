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
from rekindle.frontends.comprehension.blocks import Block, Inner, blocks
from rekindle.frontends.comprehension.elaborate import TOP, Elaborated
from rekindle.frontends.comprehension.own_labels import has_own_labels
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
from rekindle.nested.types import Boxed, KeyType, Record, Scalar
from rekindle.nested.types import Mapping as MappingType

KEY = "key"
_WHOLE = ("tinyint", "smallint", "int", "bigint")


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
_Group: TypeAlias = Sequence[list[tuple[str, Cell]]]
"""The columns of the keys that the elements of a block are values of, from the outside in."""


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
            return self._grouped(path, type_, sources)
        return self._listed(path, type_, sources, valued, ())

    def _listed(
        self,
        path: str,
        type_: MappingType,
        sources: Sequence[_Source],
        valued: bool,
        groups: Sequence[_Group],
    ) -> Level:
        """The same; with a group for each block, its columns are part of the label."""
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
            _refuse_key(path or self._view, type_.key)
            queries = [(1, _summed(selects, [_keyed(each) for each in columns], groups))]
        else:
            queries = [
                query
                for i, (select, each) in enumerate(zip(selects, columns, strict=True))
                for query in self._rows(path, select, each, groups[i] if groups else ())
            ]
        numbers = any(select.block.factors for select in selects)
        is_plain = not (valued or groups or numbers)
        plain = tuple(zip(selects, map(tuple, columns), strict=True)) if is_plain else ()
        self.parts.append(Part(name, tuple(queries), plain))
        for each in made:
            bags.append(self._below(name, path, each))
        order = [".".join(place) or VALUE for place, _ in _bags_in(type_.key)]
        bags.sort(key=lambda each: order.index(each[0]))
        return Level(name, tuple(bags), not isinstance(type_.key, Record) and not valued)

    def _rows(
        self, path: str, select: Select, columns: list[tuple[str, Cell]], group: _Group
    ) -> list[tuple[int, str]]:
        """The queries of a block, and how often the rows of each count."""
        if not select.block.factors:
            return [(select.block.count, _rows(select, columns, group))]
        for factor in select.block.factors:
            if not isinstance(factor.type, Scalar) or factor.type.name not in _WHOLE:
                raise UnsupportedError(
                    f"the elements of '{path or self._view}' count for numbers of type "
                    f"{factor.type}, which are not whole",
                    hint="put the number into the row, or yield key => number",
                )
        return _repeated(select, columns)

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
                index, tuple(read), select.scope, inner, has_own_labels(select, read, self._known)
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

    def _grouped(self, path: str, type_: MappingType, sources: Sequence[_Source]) -> Level:
        """The level of a collection whose values are collections, with the dictionary of these.

        The values may have values that are collections in turn: the innermost dictionary comes
        first, and each level lists the labels that the one below it has elements for.
        """
        paths, below = [path], type_
        while isinstance(below.ring, MappingType):
            _refuse_key(path or self._view, below.key)
            paths.append(f"{paths[-1]}.{VALUE}" if paths[-1] else VALUE)
            below = below.ring
        depth = len(paths) - 1
        groups = [
            tuple(_keyed(_columns(key, {})) for key in block.keys[:depth])
            for _, found in sources
            for block in found
        ]
        inner: list[_Source] = [
            (domain, [replace(block, keys=block.keys[depth:]) for block in found])
            for domain, found in sources
        ]
        # The values are numbers unless every block counts its elements.
        numbers = any(block.factors for _, found in sources for block in found)
        level = self._listed(paths[-1], below, inner, numbers, groups)
        label = quoted(LABEL)
        for place in reversed(range(depth)):
            is_inner = place > 0 or sources[0][0] is not None
            shown = [f"{label}.o AS {label}"] if is_inner else []
            names = [name for name, _ in groups[0][place]]
            for name, held in zip(names, _held_as(names), strict=True):
                shown.append(f"{label}.{quoted(held)} AS {quoted(name)}")
            shown.append(f"{label} AS {quoted(VALUE)}")
            name = f"{self._view}{HIDDEN}{paths[place]}"
            text = f"SELECT DISTINCT {', '.join(shown)} FROM {quoted(level.view)}"
            self.parts.append(Part(name, ((1, text),)))
            level = Level(name, ((VALUE, level),))
        return level


def _rows(select: Select, columns: list[tuple[str, Cell]], group: _Group) -> str:
    """The rows of a block; with a group, labels are made of its columns."""
    if not group:
        return select.sql(columns)
    inner = select.sql([*_renamed(group), *columns])
    shown = [_group_label(select, group), *(quoted(name) for name, _ in columns)]
    return f"SELECT {', '.join(shown)} FROM ({inner})"


def _repeated(select: Select, columns: list[tuple[str, Cell]]) -> list[tuple[int, str]]:
    """Rows that count for whole numbers: so many copies, to be taken away below 0."""
    names = [name for name, _ in columns]
    weight = _unlike("w", names)
    inner = select.sql(columns, weight=weight)
    shown = ", ".join(map(quoted, names if select.domain is None else [LABEL, *names]))
    return [
        (
            sign,
            f"SELECT {shown} FROM ({inner}) "
            f"LATERAL VIEW explode(array_repeat(0, CAST({sign} * {weight} AS INT))) "
            f"AS {quoted(HIDDEN)}",
        )
        for sign in (1, -1)
    ]


def _renamed(group: _Group) -> list[tuple[str, Cell]]:
    cells = [cell for columns in group for _, cell in columns]
    return [(f"_key{i}", cell) for i, cell in enumerate(cells)]


def _group_label(select: Select, group: _Group) -> str:
    """The label of the innermost key, which holds that of the key around it, and so on."""
    made = "" if select.domain is None else quoted(LABEL)
    numbers = itertools.count()
    for columns in group:
        names = _held_as([name for name, _ in columns])
        outer = [f"'o', {made}"] if made else []
        keys = [f"{sql_text(name)}, _key{next(numbers)}" for name in names]
        fields = ", ".join(["'i', 0", *outer, *keys])
        made = f"named_struct({fields})"
    return f"{made} AS {quoted(LABEL)}"


def _held_as(names: Sequence[str]) -> list[str]:
    """What the columns of a key are called in a label, which has an `i` and an `o` of its own."""
    return [f"_key_{name}" if name.lower() in ("i", "o") else name for name in names]


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


def _refuse_key(what: str, key: KeyType) -> None:
    """Raise if equal keys could not be told by their columns, or one is called as their value."""
    for place, _ in _bags_in(key):
        # Labels say where a collection comes from, and arrays have an order: neither is equality.
        raise UnsupportedError(
            f"the keys of '{what}' have a collection in them: "
            f"'{'.'.join(place) or KEY}', and collections are not compared",
            hint="leave it out of the key; sort_array(...) of an array of scalars is a scalar",
        )
    names = key.names if isinstance(key, Record) else ()
    taken = [name for name in names if name.lower() == VALUE]
    if taken:
        raise DefinitionError(
            f"the keys of '{what}' cannot have a field called '{taken[0]}'",
            detail=f"what a key counts for is the column '{VALUE}'",
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
    groups: Sequence[_Group],
) -> str:
    """Keys with the sums of what they count for, unless that is 0."""
    names = [name for name, _ in columns[0]]
    weight = _unlike("w", names)
    rows = []
    for i, (select, each) in enumerate(zip(selects, columns, strict=True)):
        if not groups:
            rows.append(select.sql(each, weight=weight))
            continue
        inner = select.sql([*_renamed(groups[i]), *each], weight=weight)
        shown = [_group_label(select, groups[i]), *(quoted(name) for name, _ in each), weight]
        rows.append(f"SELECT {', '.join(shown)} FROM ({inner})")
    keys = [quoted(name) for name in names]
    if groups or selects[0].domain is not None:
        keys.insert(0, quoted(LABEL))
    by = f" GROUP BY {', '.join(keys)}" if keys else ""
    shown = [*keys, f"sum({weight}) AS {quoted(VALUE)}"]
    text = f"SELECT {', '.join(shown)} FROM ({' UNION ALL '.join(rows)}){by}"
    return f"{text} HAVING sum({weight}) <> 0"


def _unlike(name: str, names: Sequence[str]) -> str:
    """The name, or one like it that is not among others."""
    taken = {each.lower() for each in names}
    while name in taken:
        name += "_"
    return name


def _keyed(columns: list[tuple[str, Cell]]) -> list[tuple[str, Cell]]:
    """The columns of a key; one that is a scalar is called so."""
    return [(KEY, columns[0][1])] if [name for name, _ in columns] == [VALUE] else columns
