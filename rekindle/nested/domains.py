"""Which labels a dictionary has to define, and when it need not be told.

A query's dictionary {ι⟨x, ..⟩ => r} has a definition for all values that there could be. What is
kept of it are the labels that occur: those in the flat collection, or in the definitions one level
up. As a query, with Q for that collection,

    D(ι) = for q in Q collect fromK(q.path, {ι⟨x, ..⟩ => sng(⟨x, ..⟩)})

which simplifies to a query that makes no label at all: for `related` it is
for m in M yield ⟨m.name, m.gen, m.dir⟩. A label is in the domain while its count is not zero.

Domains are maintained with the dictionaries (section 3.1.2). A change may bring a label that had no
definition; it is defined from the new tables in full. A label that nothing refers to any more is
dropped. Every other definition gets its change added.

To compute a dictionary, its domain is joined with r. The join is spared where r itself says which
labels it belongs to (section 5.1): each value in the label is equal, by a condition in r, to
something that r's own generators have; or is the label of a stored collection that r ranges over;
or follows from a primary key whose columns are given that way. Then r is computed once, for all
labels, and grouped. `determined_by` lists these bindings, for each summand of r.

Hazard: rows of negative count that share a label with others may cancel in D. What a view holds is
not negative, so this matters only for collections that are changes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias, assert_never

from rekindle.nested import contexts
from rekindle.nested.contexts import Context, Empty, Fields, Inner, Pair
from rekindle.nested.labels import Definitions, Finite, undefined
from rekindle.nested.shredding import Shredded
from rekindle.nested.simplify import simplified
from rekindle.nested.terms import (
    Add,
    Apply,
    Change,
    Field,
    For,
    FromKey,
    KeyTerm,
    KeyVariable,
    LabelDictionary,
    LabelUnion,
    Let,
    MakeRecord,
    Negate,
    Predicate,
    Product,
    Relation,
    RingField,
    RingTerm,
    Singleton,
    Sum,
    Term,
    Variable,
    free_variables,
)
from rekindle.nested.text import text
from rekindle.nested.types import Mapping as MappingType
from rekindle.nested.types import Record
from rekindle.nested.values import RingValue, add
from rekindle.nested.variables import substitute


@dataclass(frozen=True, slots=True)
class Equal:
    """A condition makes a value of the label equal to something of the body's generators."""

    parameter: str
    key: KeyTerm

    def __str__(self) -> str:
        return f"{self.parameter} = {text(self.key)}"


@dataclass(frozen=True, slots=True)
class OwnLabel:
    """The body ranges over the stored collection of that label."""

    parameter: str
    dictionary: str

    def __str__(self) -> str:
        return f"{self.parameter} is a label of {self.dictionary}"


@dataclass(frozen=True, slots=True)
class PrimaryKey:
    """A value belongs to a row of a table whose primary key is given."""

    parameter: str
    table: str
    key: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.parameter} follows from the key of {self.table} ({', '.join(self.key)})"


Binding: TypeAlias = Equal | OwnLabel | PrimaryKey


@dataclass(frozen=True, slots=True)
class Domain:
    """The labels of one index at one path, as a flat query of the values in them."""

    path: str
    dictionary: LabelDictionary
    query: RingTerm
    determined_by: tuple[tuple[Binding, ...], ...] | None

    @property
    def index(self) -> int:
        return self.dictionary.index


@dataclass(frozen=True, slots=True)
class Branch:
    """A summand of a collection: what it ranges over, under which conditions, and what it adds."""

    generators: tuple[tuple[KeyVariable, RingTerm], ...]
    conditions: tuple[KeyTerm, ...]
    head: RingTerm


def domains(
    shredded: Shredded, primary_keys: Mapping[str, Collection[str]] | None = None
) -> tuple[Domain, ...]:
    """The domains of all dictionaries that a shredded query defines itself, outer ones first."""
    keys = {table: tuple(columns) for table, columns in (primary_keys or {}).items()}
    return tuple(_domains(shredded.flat, shredded.context, "", keys))


def _domains(
    collection: RingTerm,
    context: Context[RingTerm],
    path: str,
    keys: Mapping[str, tuple[str, ...]],
) -> Iterator[Domain]:
    """The domains below a collection of rows; `collection` has the labels of all of them."""
    match context:
        case Empty():
            return
        case Pair(key, value):
            assert isinstance(collection.type, MappingType)
            row = KeyVariable("row", collection.type.key)
            for at, names, inner in _boxes(key, path, ()):
                yield from _at(collection, row, names, inner, at, keys)
            yield from _domains(Sum(collection), value, contexts.joined(path, "=>"), keys)
        case Fields(fields):
            for name, branch in fields:
                below = RingField(collection, name)
                yield from _domains(below, branch, contexts.joined(path, name), keys)
        case Inner():
            raise AssertionError("a box where a collection is")
        case _:
            assert_never(context)


def _boxes(
    context: Context[RingTerm], path: str, names: tuple[str, ...]
) -> Iterator[tuple[str, tuple[str, ...], Inner[RingTerm]]]:
    """The collections in a row: their path, the fields that lead to them, their dictionary."""
    match context:
        case Inner():
            yield (path if names else contexts.joined(path, "[]")), names, context
        case Fields(fields):
            for name, branch in fields:
                yield from _boxes(branch, contexts.joined(path, name), (*names, name))
        case _:
            return


def _at(
    collection: RingTerm,
    row: KeyVariable,
    names: tuple[str, ...],
    inner: Inner[RingTerm],
    path: str,
    keys: Mapping[str, tuple[str, ...]],
) -> Iterator[Domain]:
    label: KeyTerm = row
    for name in names:
        label = Field(label, name)
    for dictionary in parts(inner.dictionary):
        if not isinstance(dictionary, LabelDictionary):
            continue  # a stored dictionary, whose labels are stored as well
        held = MakeRecord(tuple((each.name, each) for each in dictionary.parameters))
        pattern = LabelDictionary(dictionary.index, dictionary.parameters, Singleton(held))
        query = simplified(For(row, collection, FromKey(label, pattern)))
        yield Domain(path, dictionary, query, _determined(dictionary, query, keys))
        assert isinstance(held.type, Record)
        each = KeyVariable("label", held.type)
        values: dict[Term, Term] = {p: Field(each, p.name) for p in dictionary.parameters}
        below = For(each, query, substitute(dictionary.body, values))
        yield from _domains(below, inner.below, path, keys)


def parts(dictionary: RingTerm) -> Iterator[RingTerm]:
    """The dictionaries that a label union unites."""
    if isinstance(dictionary, LabelUnion):
        yield from parts(dictionary.left)
        yield from parts(dictionary.right)
    else:
        yield dictionary


def branches(term: RingTerm) -> Iterator[Branch]:
    """The summands of a collection."""
    match term:
        case Add(left, right):
            yield from branches(left)
            yield from branches(right)
        case Negate(below) | Let(_, _, below):
            yield from branches(below)
        case For(variable, source, body):
            for each in branches(body):
                yield Branch(((variable, source), *each.generators), each.conditions, each.head)
        case Product(Predicate(key), body):
            for each in branches(body):
                conditions = (*conjuncts(key), *each.conditions)
                yield Branch(each.generators, conditions, each.head)
        case Singleton(key, Product(Predicate(condition), value)):
            for each in branches(Singleton(key, value)):
                conditions = (*conjuncts(condition), *each.conditions)
                yield Branch(each.generators, conditions, each.head)
        case Singleton(_, Predicate(condition)) | Predicate(condition):
            yield Branch((), tuple(conjuncts(condition)), term)
        case _:
            yield Branch((), (), term)


def conjuncts(condition: KeyTerm) -> Iterator[KeyTerm]:
    """The conditions that a condition joins by AND."""
    if isinstance(condition, Apply) and _template(condition) == "{0} AND {1}":
        for argument in condition.arguments:
            yield from conjuncts(argument)
    else:
        yield condition


def _template(condition: Apply) -> str:
    """The text of a function without brackets around it, in capitals."""
    written = " ".join(condition.function.text.upper().split())
    while written.startswith("(") and written.endswith(")"):
        written = written[1:-1].strip()
    return written


def _determined(
    dictionary: LabelDictionary, query: RingTerm, keys: Mapping[str, tuple[str, ...]]
) -> tuple[tuple[Binding, ...], ...] | None:
    found = []
    for branch in branches(simplified(dictionary.body)):
        bindings = _bindings(dictionary.parameters, branch)
        by_key = _by_primary_key(dictionary.parameters, bindings, query, keys)
        if len(bindings) + len(by_key) < len(dictionary.parameters):
            return None
        found.append((*bindings.values(), *by_key))
    return tuple(found)


def _bindings(parameters: tuple[KeyVariable, ...], branch: Branch) -> dict[KeyVariable, Binding]:
    """The values of a label that a summand gives, one after the other."""
    found: dict[KeyVariable, Binding] = {}
    known: dict[Term, Term] = {}
    # The rows that can be ranged over without knowing the label.
    own: set[KeyVariable | Variable] = set()
    for variable, source in branch.generators:
        match source:
            case FromKey(KeyVariable() as label, Relation(name) | Change(name)) if (
                label in parameters
            ):
                found.setdefault(label, OwnLabel(label.name, name))
                own.add(variable)
            case _ if free_variables(source) <= own:
                own.add(variable)
    while True:
        before = len(found)
        for condition in branch.conditions:
            if not isinstance(condition, Apply) or _template(condition) != "{0} = {1}":
                continue
            for one, other in (condition.arguments, reversed(condition.arguments)):
                if not isinstance(one, KeyVariable) or one in found or one not in parameters:
                    continue
                value = substitute(other, known)
                if free_variables(value) <= own:
                    known[one] = value
                    found[one] = Equal(one.name, value)
        if len(found) == before:
            return found


def _by_primary_key(
    parameters: tuple[KeyVariable, ...],
    bindings: Mapping[KeyVariable, Binding],
    query: RingTerm,
    keys: Mapping[str, tuple[str, ...]],
) -> list[Binding]:
    """The other values, where they are columns of a row whose primary key is bound."""
    summands = list(branches(query))
    if len(summands) != 1 or not isinstance(summands[0].head, Singleton):
        return []
    made = summands[0].head.key
    if not isinstance(made, MakeRecord):
        return []
    origin = dict(zip(parameters, (value for _, value in made.fields), strict=True))
    tables = {v: s.name for v, s in summands[0].generators if isinstance(s, Relation)}
    given = {origin[parameter] for parameter in bindings}
    found: list[Binding] = []
    for parameter in parameters:
        match origin[parameter]:
            case Field(KeyVariable() as row) if row in tables and parameter not in bindings:
                key = keys.get(tables[row], ())
                if key and all(Field(row, column) in given for column in key):
                    found.append(PrimaryKey(parameter.name, tables[row], key))
    return found


def maintained(
    stored: Finite, change: Definitions, definition: Definitions, labels: Iterable[object]
) -> Finite:
    """The definitions of the labels that occur now, after a change.

    `change` is the delta of the dictionary and `definition` the dictionary on the new tables, which
    is asked for new labels only.

    >>> after = maintained(Finite({"a": 1, "b": 2}), Finite({"a": 10}), Finite({"c": 7}), "ac")
    >>> after.definitions
    {'a': 11, 'c': 7}
    """
    kept: dict[object, RingValue] = {}
    for label in labels:
        old = stored.find(label)
        if old is None:
            new = definition.find(label)
            if new is None:
                raise undefined(label)
            kept[label] = new
        else:
            added = change.find(label)
            kept[label] = old if added is None else add(old, added)
    return Finite(kept)
