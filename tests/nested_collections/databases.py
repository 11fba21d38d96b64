"""Random databases of nested tables with changes to them, shallow and deep.

A database is kept shredded: flat collections, and dictionaries of inner ones. A shallow change adds
rows to a flat collection, or takes them away. A deep one adds to the definition of a label that is
there. Both may bring collections with labels of their own (definition 5 of the thesis).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from rekindle.nested import contexts
from rekindle.nested.labels import Finite, LabelValue
from rekindle.nested.meaning import Environment
from rekindle.nested.nesting import ShreddedValue, nest, new_labels, shred
from rekindle.nested.shredding import dictionary_name, flat_name, shredded_names
from rekindle.nested.terms import Relation
from rekindle.nested.types import Boxed, Mapping, Record, RingType
from rekindle.nested.values import add, negate
from tests.nested_collections.strategies import WEIGHTS, Draw, rings


@dataclass(frozen=True)
class Database:
    """Nested tables in shredded form, and the change that is about to be applied."""

    types: dict[str, RingType]
    shredded: dict[str, Any]
    change: dict[str, Any]

    @property
    def names(self) -> list[str]:
        return [n for name, type_ in self.types.items() for n in shredded_names(name, type_)]

    @property
    def nested(self) -> dict[str, Any]:
        return {name: self._nested(name) for name in self.types}

    def _nested(self, name: str) -> Any:
        type_ = self.types[name]
        context = contexts.context_of(
            type_, lambda path, _: self.shredded[dictionary_name(name, path)]
        )
        return nest(ShreddedValue(type_, self.shredded[flat_name(name, type_)], context))

    @property
    def scope(self) -> Environment:
        return Environment(self.shredded, {(name, 1): v for name, v in self.change.items()})

    def changed(self) -> Database:
        after = {
            name: add(value, self.change[name]) if name in self.change else value
            for name, value in self.shredded.items()
        }
        return replace(self, shredded=after, change={})


def stored(
    values: dict[str, Any], tables: tuple[Relation, ...], labels: Iterator[LabelValue]
) -> Database:
    shredded: dict[str, Any] = {}
    for table in tables:
        shredded |= shred(values[table.name], table.type, labels).as_tables(table.name)
    return Database({table.name: table.type for table in tables}, shredded, {})


@st.composite
def databases(
    draw: Draw, tables: tuple[Relation, ...], weights: st.SearchStrategy[int] = WEIGHTS
) -> tuple[Database, Iterator[LabelValue]]:
    labels = new_labels()
    values = {table.name: draw(rings(table.type, weights)) for table in tables}
    return stored(values, tables, labels), labels


def with_change(draw: Draw, database: Database, labels: Iterator[LabelValue]) -> Database:
    """The database with a change: rows and definitions that come and go."""
    change: dict[str, Any] = {}

    def bring(name: str, value: Any) -> None:
        change[name] = add(change[name], value) if name in change else value

    for name, type_ in database.types.items():
        if draw(st.integers(0, 3)) == 0:
            continue
        flat = flat_name(name, type_)
        new = shred(draw(rings(type_)), type_, labels)
        for part, value in new.as_tables(name).items():
            bring(part, value)
        there = database.shredded[flat]
        if isinstance(there, dict) and there:
            row = draw(st.sampled_from(sorted(there, key=repr)))
            bring(flat, {row: negate(there[row])})
        for path, inner in inner_types(type_):
            _deepen(draw, database, labels, name, path, inner, bring)
    return replace(database, change=change)


def _deepen(
    draw: Draw,
    database: Database,
    labels: Iterator[LabelValue],
    name: str,
    path: str,
    inner: RingType,
    bring: Callable[[str, Any], None],
) -> None:
    dictionary = dictionary_name(name, path)
    known = sorted(database.shredded[dictionary].definitions, key=repr)
    if not known or draw(st.booleans()):
        return
    label = draw(st.sampled_from(known))
    new = shred(draw(rings(inner)), inner, labels)
    bring(dictionary, Finite({label: new.flat}))
    for below, value in contexts.named(new.context):
        bring(dictionary_name(name, contexts.joined(path, below)), value)


def inner_types(type_: Any, path: str = "") -> list[tuple[str, RingType]]:
    """The collections within a type, by path."""
    match type_:
        case Record(fields):
            found = [inner_types(part, contexts.joined(path, name)) for name, part in fields]
            return [each for some in found for each in some]
        case Boxed(ring):
            return [(path, ring), *inner_types(ring, path)]
        case Mapping(key, ring):
            rows = contexts.joined(path, "[]") if isinstance(key, Boxed) else path
            return [*inner_types(key, rows), *inner_types(ring, contexts.joined(path, "=>"))]
        case _:
            return []
