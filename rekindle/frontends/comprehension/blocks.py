"""The normal form of a term: a sum of blocks, each of which a SELECT can say.

    ± for x₁ in R₁, .., xₙ in Rₙ where p  yield k₁ => .. => kₘ => c·v₁·v₂..

A `for` over a collection that a term makes is the `for`s of that term, with its rows put in the
place of the variable: no intermediate collection is built, and what was nested and is opened again
is never nested. The laws are those of a ring: `for` distributes over sums and negation, and
multiplies what its source counts for.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import assert_never

from rekindle.errors import UnsupportedError
from rekindle.nested import terms as core
from rekindle.nested.terms import KeyTerm, RingTerm
from rekindle.nested.types import Mapping as MappingType
from rekindle.nested.types import Number, Scalar
from rekindle.nested.variables import substitute


@dataclass(frozen=True, slots=True)
class Table:
    """The rows of a table or view."""

    name: str


@dataclass(frozen=True, slots=True)
class Inner:
    """The elements of an inner bag that a row of an earlier generator has."""

    path: KeyTerm


Source = Table | Inner


@dataclass(frozen=True, slots=True)
class Block:
    """One summand of a collection."""

    generators: tuple[tuple[core.KeyVariable, Source], ...] = ()
    conditions: tuple[KeyTerm, ...] = ()
    absent: tuple[RingTerm, ...] = ()
    """Numbers that have to be 0."""
    keys: tuple[KeyTerm, ...] = ()
    factors: tuple[KeyTerm, ...] = ()
    """Scalars that the element counts for, multiplied."""
    count: int = 1
    """How often the element counts, less than 0 to be taken away."""

    def times(self, other: Block) -> Block:
        """The block for each element of another: first what this ranges over, then the other."""
        return Block(
            self.generators + other.generators,
            self.conditions + other.conditions,
            self.absent + other.absent,
            other.keys,
            self.factors + other.factors,
            self.count * other.count,
        )


def blocks(term: RingTerm) -> list[Block]:
    """The summands of a collection or a number."""
    return _Normaliser().blocks(term)


@dataclass(slots=True)
class _Normaliser:
    _fresh: int = 0
    _taken: set[str] = field(default_factory=set)

    def blocks(self, term: RingTerm) -> list[Block]:
        match term:
            case core.Zero():
                return []
            case core.Constant(value):
                if isinstance(value, int):
                    return [Block(count=value)] if value else []
                return [Block(factors=(core.KeyConstant(value, Scalar("double")),))]
            case core.Relation(name, type_):
                assert isinstance(type_, MappingType)
                row = self._variable(type_)
                return [Block(((row, Table(name)),), keys=(row,))]
            case core.Add(left, right):
                return self.blocks(left) + self.blocks(right)
            case core.Negate(inner):
                return [replace(each, count=-each.count) for each in self.blocks(inner)]
            case core.For(variable, source, body):
                return self._for(variable, source, body)
            case core.Product(left, right):
                return self._product(left, right)
            case core.Sum(inner):
                return [replace(each, keys=each.keys[1:]) for each in self.blocks(inner)]
            case core.Singleton(key, value):
                made = self.key(key)
                return [replace(each, keys=(made, *each.keys)) for each in self.blocks(value)]
            case core.Predicate(key):
                return [Block(conditions=(self.key(key),))]
            case core.Not(core.Not(core.Not() as inner)):
                return self.blocks(inner)
            case core.Not(core.Predicate(key)):
                return [Block(conditions=(_negated(self.key(key)),))]
            case core.Not(core.Not(inner)):
                count = core.Measure("count", inner, Scalar("bigint"))
                return [Block(conditions=(core.Apply(_POSITIVE, (count,)),))]
            case core.Not(inner):
                return [Block(absent=(inner,))]
            case core.Lift(key):
                return [Block(factors=(self.key(key),))]
            case core.FromKey(key, None):
                return self._opened(self.key(key), term.type)
            case core.Let(variable, value, body):
                return self.blocks(substitute(body, {variable: value}))
            case _:
                raise UnsupportedError(f"{type(term).__name__} cannot stand in a view")

    def _for(self, variable: core.KeyVariable, source: RingTerm, body: RingTerm) -> list[Block]:
        found = []
        for outer in self.blocks(source):
            (row,) = outer.keys
            if outer == Block(outer.generators[:1], keys=(row,)) and row == outer.generators[0][0]:
                # The variable that the user wrote names what it ranges over.
                row = core.KeyVariable(self._unused(variable.name), variable.type)
                outer = Block(((row, outer.generators[0][1]),), keys=(row,))
            found += [outer.times(each) for each in self.blocks(substitute(body, {variable: row}))]
        return found

    def _unused(self, name: str) -> str:
        """The name, or one like it if a generator has it already."""
        found, i = name, 1
        while found in self._taken:
            i += 1
            found = f"{name}·{i}"
        self._taken.add(found)
        return found

    def _product(self, left: RingTerm, right: RingTerm) -> list[Block]:
        pairs = [(one, other) for one in self.blocks(left) for other in self.blocks(right)]
        if isinstance(left.type, Number):
            return [one.times(other) for one, other in pairs]
        if isinstance(right.type, Number):
            return [other.times(one) for one, other in pairs]
        found = []
        for one, other in pairs:
            if len(one.keys) != 1 or len(other.keys) != 1:
                raise UnsupportedError("no product of collections with collections as values")
            both = core.MakeRecord((("1", one.keys[0]), ("2", other.keys[0])))
            found.append(replace(one.times(other), keys=(both,)))
        return found

    def _opened(self, key: KeyTerm, type_: object) -> list[Block]:
        """The elements of a bag that is part of a row."""
        if isinstance(key, core.ToKey):
            return self.blocks(key.ring)
        assert isinstance(type_, MappingType)
        row = self._variable(type_)
        return [Block(((row, Inner(key)),), keys=(row,))]

    def _variable(self, type_: MappingType) -> core.KeyVariable:
        self._fresh += 1
        return core.KeyVariable(f"row_{self._fresh}", type_.key)

    def key(self, key: KeyTerm) -> KeyTerm:
        """A row with the fields of rows that are made in it taken out."""
        match key:
            case core.Field(inner, name):
                row = self.key(inner)
                if isinstance(row, core.MakeRecord):
                    return dict(row.fields)[name]
                return core.Field(row, name)
            case core.MakeRecord(fields):
                return core.MakeRecord(tuple((name, self.key(each)) for name, each in fields))
            case core.Apply(function, arguments):
                return core.Apply(function, tuple(map(self.key, arguments)))
            case core.KeyConstant() | core.KeyVariable() | core.ToKey() | core.Measure():
                return key
            case core.NewLabel():
                raise UnsupportedError("labels cannot stand in a view")
            case _:
                assert_never(key)


_POSITIVE = core.ScalarFunction("({0} > 0)", Scalar("boolean"))


def _negated(key: KeyTerm) -> KeyTerm:
    """True where a condition is false or NULL."""
    return core.Apply(core.ScalarFunction("NOT coalesce({0}, false)", Scalar("boolean")), (key,))
