"""What a term costs to compute, from the sizes of its tables, level by level of nesting.

    Base° = 1        (A × B)° = A° × B°        Bag(C)° = n{C°}

n{c} says: at most n rows, of which none is larger than c. So a bag of three bags, the largest of
two rows, is 3{2{1}}. Sizes have an order, and a change is incremental if it is smaller than the
table, size(ΔR) < size(R).

    C(R) = size(R)                             C(for x in e₁ union e₂) = n₁·n₂{c₂}, x being c₁
    C(e₁ ⊎ e₂) = sup(C(e₁), C(e₂))             C(e₁ × e₂) = n₁·n₂{⟨c₁, c₂⟩}
    C(sng(e)) = 1{C(e)}                        C(flatten(e)) = n·m{c} for C(e) = n{m{c}}

`steps` multiplies a cost out: that many steps, up to a constant, compute the term.

    law: steps(C(δ(r))) < steps(C(r)) for an incremental change     theorems 4 and 5

The estimate is coarse on purpose: a union costs its larger side, every predicate is kept. It is
meant to tell a delta from its term, and does.

A number is a bag of empty rows, bigint ≅ Bag(1), so sums and counts cost the rows that they add up.
A mapping with collections for values is priced as rows with those collections in them.

Lupei's thesis, section 3.2.2 and figure 3.2; labels in section 3.3.2.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, assert_never

from rekindle.nested import types
from rekindle.nested.delta import delta
from rekindle.nested.labels import Finite
from rekindle.nested.terms import (
    Add,
    Apply,
    Change,
    Constant,
    Dictionary,
    Field,
    For,
    FromKey,
    KeyConstant,
    KeyTerm,
    KeyVariable,
    LabelDictionary,
    LabelUnion,
    Let,
    Lift,
    MakeRecord,
    MakeRingRecord,
    Measure,
    Multiply,
    Negate,
    NewLabel,
    Not,
    Predicate,
    Product,
    Relation,
    RingField,
    RingTerm,
    Singleton,
    Sum,
    Term,
    ToKey,
    Variable,
    Zero,
    children,
)


@dataclass(frozen=True, slots=True)
class One:
    """1: a scalar or a label."""

    def __str__(self) -> str:
        return "1"


@dataclass(frozen=True, slots=True)
class Each:
    """⟨c, ..⟩: a cost for each field."""

    costs: tuple[Cost, ...]

    def __str__(self) -> str:
        return f"⟨{', '.join(map(str, self.costs))}⟩"


@dataclass(frozen=True, slots=True)
class Many:
    """n{c}: rows, none of which is larger than c."""

    count: int
    row: Cost

    def __str__(self) -> str:
        return f"{'' if self.count == 1 else self.count}{{{self.row}}}"


Cost: TypeAlias = One | Each | Many
ONE = One()


def least(type_: types.KeyType | types.RingType) -> Cost:
    """1_A: the least cost of a type."""
    match type_:
        case types.Scalar() | types.Label():
            return ONE
        case types.Record(fields) | types.RingRecord(fields):
            return Each(tuple(least(part) for _, part in fields))
        case types.Boxed(ring):
            return least(ring)
        case types.Number():
            return Many(1, ONE)
        case types.Mapping(key, ring):
            return Many(1, _entry(least(key), least(ring), ring))
        case _:
            assert_never(type_)


def _entry(key: Cost, value: Cost, ring: types.RingType) -> Cost:
    return key if isinstance(ring, types.Number) else Each((key, value))


def size(value: Any, type_: types.KeyType | types.RingType) -> Cost:
    """size_A: the cost of a value, counting rows as often as they occur.

    >>> row = types.Record((("gen", types.Scalar("string")), ("year", types.Scalar("int"))))
    >>> str(size({("Comedy", 2011): 1, ("Drama", 2013): 2}, types.Bag(row)))
    '3{⟨1, 1⟩}'
    """
    match type_:
        case types.Scalar() | types.Label():
            return ONE
        case types.Record(fields) | types.RingRecord(fields):
            pairs = zip(value, fields, strict=True)
            return Each(tuple(size(part, field_type) for part, (_, field_type) in pairs))
        case types.Boxed(ring):
            return size(value.open(), ring)
        case types.Number():
            return Many(1, ONE)
        case types.Mapping(key, ring):
            items = value.definitions.items() if isinstance(value, Finite) else value.items()
            plain = isinstance(ring, types.Number)
            count = sum(abs(part) if plain else 1 for _, part in items)
            row = least(type_)
            assert isinstance(row, Many)
            largest = row.row
            for each, part in items:
                largest = sup(largest, _entry(size(each, key), size(part, ring), ring))
            return Many(max(1, int(count)), largest)
        case _:
            assert_never(type_)


def sup(left: Cost, right: Cost) -> Cost:
    """The least cost that is at least both."""
    match left, right:
        case One(), One():
            return left
        case Each(ours), Each(theirs):
            return Each(tuple(sup(a, b) for a, b in zip(ours, theirs, strict=True)))
        case Many(), Many():
            return Many(max(left.count, right.count), sup(left.row, right.row))
    raise AssertionError(f"{left} and {right}")


def at_most(left: Cost, right: Cost) -> bool:
    """left ≼ right."""
    match left, right:
        case One(), One():
            return True
        case Each(ours), Each(theirs):
            return all(at_most(a, b) for a, b in zip(ours, theirs, strict=True))
        case Many(), Many():
            return left.count <= right.count and at_most(left.row, right.row)
    raise AssertionError(f"{left} and {right}")


def less(left: Cost, right: Cost) -> bool:
    """left ≺ right: a change of size `left` is incremental for a table of size `right`."""
    match left, right:
        case One(), One():
            return False
        case Each(ours), Each(theirs):
            return all(less(a, b) for a, b in zip(ours, theirs, strict=True))
        case Many(), Many():
            return left.count < right.count and at_most(left.row, right.row)
    raise AssertionError(f"{left} and {right}")


def steps(cost: Cost) -> int:
    """tcost: the steps that a cost amounts to.

    >>> steps(Many(3, Each((ONE, Many(3, ONE)))))
    12
    """
    match cost:
        case One():
            return 1
        case Each(costs):
            return max(1, sum(steps(part) for part in costs))
        case Many(count, row):
            return count * steps(row)
        case _:
            assert_never(cost)


@dataclass(frozen=True, slots=True)
class Sizes:
    """Costs of tables and of changes by name and order, and of what is bound."""

    tables: Mapping[str, Cost] = field(default_factory=dict)
    changes: Mapping[tuple[str, int], Cost] = field(default_factory=dict)
    lets: Mapping[str, Cost] = field(default_factory=dict)
    keys: Mapping[str, Cost] = field(default_factory=dict)

    def with_key(self, name: str, cost: Cost) -> Sizes:
        return replace(self, keys={**self.keys, name: cost})


def cost(term: RingTerm, sizes: Sizes) -> Cost:
    """C(r)."""
    match term:
        case Zero() | Constant() | Predicate() | Lift():
            return least(term.type)
        case Relation(name):
            return sizes.tables.get(name, least(term.type))
        case Change(name, _, order):
            return sizes.changes.get((name, order), least(term.type))
        case Variable(name):
            return sizes.lets[name]
        case Let(variable, value, body):
            bound = {**sizes.lets, variable.name: cost(value, sizes)}
            return cost(body, replace(sizes, lets=bound))
        case Add(left, right) | LabelUnion(left, right):
            return sup(cost(left, sizes), cost(right, sizes))
        case Negate(below) | Not(below):
            return cost(below, sizes)
        case Product(left, right):
            return _product(cost(left, sizes), left.type, cost(right, sizes), right.type)
        case Multiply(left, right):
            return _multiplied(cost(left, sizes), left.type, cost(right, sizes), right.type)
        case Sum(below):
            assert isinstance(below.type, types.Mapping)
            count, _, each = _rows(cost(below, sizes), below.type)
            return _scaled(count, each)
        case For(variable, source, body):
            assert isinstance(source.type, types.Mapping)
            count, row, each = _rows(cost(source, sizes), source.type)
            inner = cost(body, sizes.with_key(variable.name, row))
            return _scaled(count, _product(each, source.type.ring, inner, body.type))
        case MakeRingRecord(fields):
            return Each(tuple(cost(part, sizes) for _, part in fields))
        case RingField(record, name):
            whole = cost(record, sizes)
            assert isinstance(whole, Each) and isinstance(record.type, types.RingRecord)
            return whole.costs[record.type.position(name)]
        case Dictionary(variable, body):
            row = least(variable.type)
            return _single(row, cost(body, sizes.with_key(variable.name, row)), body.type)
        case LabelDictionary(_, parameters, body):
            for parameter in parameters:
                sizes = sizes.with_key(parameter.name, least(parameter.type))
            return _single(ONE, cost(body, sizes), body.type)
        case Singleton(key, value):
            return _single(key_cost(key, sizes), cost(value, sizes), value.type)
        case FromKey(key, None):
            return key_cost(key, sizes)
        case FromKey(_, dictionary):
            assert dictionary is not None and isinstance(dictionary.type, types.Mapping)
            found = cost(dictionary, sizes)
            if isinstance(dictionary.type.ring, types.Number):
                assert isinstance(found, Many)
                return Many(found.count, ONE)
            return _rows(found, dictionary.type)[2]
        case _:
            assert_never(term)


def key_cost(term: KeyTerm, sizes: Sizes) -> Cost:
    """C(e) of a row."""
    match term:
        case KeyConstant() | Apply() | NewLabel() | Measure():
            return ONE
        case KeyVariable(name, type_):
            return sizes.keys.get(name, least(type_))
        case MakeRecord(fields):
            return Each(tuple(key_cost(part, sizes) for _, part in fields))
        case Field(key, name):
            whole = key_cost(key, sizes)
            assert isinstance(whole, Each) and isinstance(key.type, types.Record)
            return whole.costs[key.type.position(name)]
        case ToKey(_, ring):
            return cost(ring, sizes)
        case _:
            assert_never(term)


def _single(key: Cost, value: Cost, ring: types.RingType) -> Cost:
    """A key with its value; a number costs the rows that it adds up."""
    if isinstance(ring, types.Number):
        assert isinstance(value, Many)
        return Many(value.count, key)
    return Many(1, Each((key, value)))


def _rows(whole: Cost, type_: types.Mapping) -> tuple[int, Cost, Cost]:
    """The number of rows of a mapping, and what its keys and its values cost."""
    assert isinstance(whole, Many)
    if isinstance(type_.ring, types.Number):
        return whole.count, whole.row, Many(1, ONE)
    assert isinstance(whole.row, Each)
    key, value = whole.row.costs
    return whole.count, key, value


def _scaled(count: int, whole: Cost) -> Cost:
    match whole:
        case Many(rows, row):
            return Many(count * rows, row)
        case Each(costs):
            return Each(tuple(_scaled(count, part) for part in costs))
        case _:
            return whole


def _product(
    left: Cost, left_type: types.RingType, right: Cost, right_type: types.RingType
) -> Cost:
    match left_type, right_type:
        case types.RingRecord(fields), _:
            assert isinstance(left, Each)
            ours = zip(left.costs, fields, strict=True)
            return Each(tuple(_product(part, t, right, right_type) for part, (_, t) in ours))
        case _, types.RingRecord(fields):
            assert isinstance(right, Each)
            theirs = zip(right.costs, fields, strict=True)
            return Each(tuple(_product(left, left_type, part, t) for part, (_, t) in theirs))
        case types.Number(), _:
            assert isinstance(left, Many)
            return _scaled(left.count, right)
        case _, types.Number():
            assert isinstance(right, Many)
            return _scaled(right.count, left)
        case types.Mapping(), types.Mapping():
            first, key, value = _rows(left, left_type)
            second, other_key, other_value = _rows(right, right_type)
            ring = types.product_type(left_type.ring, right_type.ring)
            inner = _product(value, left_type.ring, other_value, right_type.ring)
            return Many(first * second, _entry(Each((key, other_key)), inner, ring))
    raise AssertionError(f"{left_type} · {right_type}")


def _multiplied(
    left: Cost, left_type: types.RingType, right: Cost, right_type: types.RingType
) -> Cost:
    match left_type, right_type:
        case types.Mapping(), types.Mapping():
            first, key, value = _rows(left, left_type)
            second, other_key, other_value = _rows(right, right_type)
            ring = types.product_type(left_type.ring, right_type.ring)
            inner = _product(value, left_type.ring, other_value, right_type.ring)
            return Many(first * second, _entry(sup(key, other_key), inner, ring))
        case types.RingRecord(ours), types.RingRecord(theirs):
            assert isinstance(left, Each) and isinstance(right, Each)
            parts = zip(left.costs, ours, right.costs, theirs, strict=True)
            return Each(tuple(_multiplied(a, s, b, t) for a, (_, s), b, (_, t) in parts))
        case _:
            return _product(left, left_type, right, right_type)


@dataclass(frozen=True, slots=True)
class Prices:
    """The estimated cost of computing a term, and of computing its change."""

    whole: Cost
    change: Cost

    @property
    def ratio(self) -> float:
        """How many times cheaper the change is."""
        return steps(self.whole) / steps(self.change)

    def __str__(self) -> str:
        return f"{steps(self.whole):,} steps in full, {steps(self.change):,} for a change"


def prices(
    term: RingTerm, tables: Mapping[str, int | Cost], changes: Mapping[str, int | Cost]
) -> Prices:
    """What a term and its delta cost on tables and changes of measured sizes.

    A size is a number of rows, or a cost where the rows hold collections whose sizes are known.

    >>> from rekindle.nested.nrc import bag, times
    >>> R = bag("R", types.Scalar("int"))
    >>> print(prices(times(R, R), {"R": 1000}, {"R": 10}))
    2,000,000 steps in full, 20,000 for a change
    """
    found = {part.name: part.type for part in tables_of(term)}
    known = {name: _sized(rows, found[name]) for name, rows in tables.items() if name in found}
    changed = {
        (name, 1): _sized(rows, found[name]) for name, rows in changes.items() if name in found
    }
    sizes = Sizes(known, changed)
    return Prices(cost(term, sizes), cost(delta(term, list(changes)), sizes))


def _sized(rows: int | Cost, type_: types.RingType) -> Cost:
    if not isinstance(rows, int):
        return rows
    return _scaled(max(1, rows), least(type_))


def tables_of(term: Term) -> Collection[Relation]:
    """The tables that a term reads, once for every time."""
    if isinstance(term, Relation):
        return [term]
    return [table for below in children(term) for table in tables_of(below)]
