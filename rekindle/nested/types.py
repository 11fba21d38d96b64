"""Two kinds of types: keys, which are compared, and rings, which are added.

    K := Unit | Scalar | K × K | Label | [R]         a row, or a part of one
    R := Number | R × R | K → R                      what a row counts for

A bag is a mapping from rows to whole numbers, `Bag(K) = K → bigint`. A boxed type [R] is a
collection seen as a part of a row: it is compared as a whole, and nothing can be added to it. A
dictionary `Label → R` holds the same collections as values, where addition reaches them: shredding
(`shredding.py`) turns the first into the second.

Products have names here: `Record` for keys, `RingRecord` for rings. The pairs that a product of
mappings makes have the fields "1" and "2".

Lupei's thesis, section 5.2; the types of NRC+ (section 2.1) are those that are made of Bag.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias, assert_never

from rekindle.errors import DefinitionError


def _distinct_names(names: tuple[str, ...], what: str) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DefinitionError(
            f"{what} has two fields '{twice[0]}'", detail=f"its fields: {', '.join(names)}"
        )


@dataclass(frozen=True, slots=True)
class Scalar:
    """Dom: a value of a Spark type without collections, or NULL.

    >>> str(Scalar("bigint"))
    'bigint'
    """

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Record:
    """K × K: a row with named fields; the one without fields is the unit type.

    >>> str(Record((("name", Scalar("string")), ("year", Scalar("int")))))
    '⟨name: string, year: int⟩'
    """

    fields: tuple[tuple[str, KeyType], ...]

    def __post_init__(self) -> None:
        _distinct_names(self.names, "a record")

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.fields)

    def position(self, name: str) -> int:
        return _position(self, name)

    def field(self, name: str) -> KeyType:
        return self.fields[self.position(name)][1]

    def __str__(self) -> str:
        return f"⟨{', '.join(f'{name}: {type_}' for name, type_ in self.fields)}⟩"


@dataclass(frozen=True, slots=True)
class Label:
    """The name of an inner collection: a static index and the values that it depends on."""

    def __str__(self) -> str:
        return "Label"


@dataclass(frozen=True, slots=True)
class Boxed:
    """[R]: a ring value as a part of a row.

    >>> str(Boxed(Bag(Scalar("string"))))
    '[Bag(string)]'
    """

    ring: RingType

    def __str__(self) -> str:
        return f"[{self.ring}]"


@dataclass(frozen=True, slots=True)
class Number:
    """A ring of numbers: bigint, double or a decimal type."""

    name: str = "bigint"

    def __post_init__(self) -> None:
        if self.name not in ("bigint", "double") and not self.name.startswith("decimal("):
            raise DefinitionError(
                f"no ring of numbers '{self.name}'", detail="there are bigint, double, decimal(p,s)"
            )

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class RingRecord:
    """R × R: several ring values side by side, added field by field."""

    fields: tuple[tuple[str, RingType], ...]

    def __post_init__(self) -> None:
        _distinct_names(self.names, "a ring record")

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.fields)

    def position(self, name: str) -> int:
        return _position(self, name)

    def field(self, name: str) -> RingType:
        return self.fields[self.position(name)][1]

    def __str__(self) -> str:
        return f"({', '.join(f'{name}: {type_}' for name, type_ in self.fields)})"


@dataclass(frozen=True, slots=True)
class Mapping:
    """K → R: keys with ring values, added key by key.

    >>> str(Mapping(Label(), Bag(Scalar("string"))))
    'Label → Bag(string)'
    """

    key: KeyType
    ring: RingType

    def __str__(self) -> str:
        if self.ring == BIGINT:
            return f"Bag({self.key})"
        return f"{self.key} → {self.ring}"


KeyType: TypeAlias = Scalar | Record | Label | Boxed
RingType: TypeAlias = Number | RingRecord | Mapping

UNIT = Record(())
BIGINT = Number("bigint")
DOUBLE = Number("double")
BOOLEAN = Scalar("boolean")


def Bag(key: KeyType) -> Mapping:
    """K → bigint: rows with multiplicities."""
    return Mapping(key, BIGINT)


def pair(left: KeyType, right: KeyType) -> Record:
    """K₁ × K₂ without names: the keys of a product of two mappings."""
    return Record((("1", left), ("2", right)))


def lifted(scalar: Scalar) -> Number | None:
    """The ring in which values of a scalar type are added, if they can be.

    >>> lifted(Scalar("int")), lifted(Scalar("string"))
    (Number(name='bigint'), None)
    """
    if scalar.name in ("tinyint", "smallint", "int", "bigint"):
        return BIGINT
    if scalar.name in ("float", "double"):
        return DOUBLE
    return Number(scalar.name) if scalar.name.startswith("decimal(") else None


def product_type(left: RingType, right: RingType) -> RingType:
    """R₁ · R₂, the type of a product of values of two ring types.

    Numbers multiply into the wider ring, a number scales a mapping, two mappings have the pairs of
    their keys; a ring record is multiplied field by field.

    >>> str(product_type(Bag(Scalar("int")), Bag(Label())))
    'Bag(⟨1: int, 2: Label⟩)'
    """
    match left, right:
        case Number(), Number():
            return _wider(left, right)
        case RingRecord(), RingRecord():
            raise DefinitionError(f"no product of two ring records: {left} and {right}")
        case RingRecord(fields), _:
            return RingRecord(tuple((name, product_type(ring, right)) for name, ring in fields))
        case _, RingRecord(fields):
            return RingRecord(tuple((name, product_type(left, ring)) for name, ring in fields))
        case Mapping(key, ring), Number():
            return Mapping(key, product_type(ring, right))
        case Number(), Mapping(key, ring):
            return Mapping(key, product_type(left, ring))
        case Mapping(), Mapping():
            return Mapping(pair(left.key, right.key), product_type(left.ring, right.ring))
    raise AssertionError(f"{left} · {right}")


def _wider(left: Number, right: Number) -> Number:
    if left == right or right == BIGINT:
        return left
    if left == BIGINT:
        return right
    if DOUBLE in (left, right):
        return DOUBLE
    raise DefinitionError(
        f"no product of {left} and {right}", hint="cast one of them to the type of the other"
    )


def is_flat(type_: KeyType | RingType) -> bool:
    """No row of the type holds a collection, neither boxed nor as a label.

    >>> is_flat(Bag(Record((("tags", Boxed(Bag(Scalar("string")))),))))
    False
    """
    return not any(isinstance(part, Boxed | Label) for part in parts(type_))


def holds_boxes(type_: KeyType | RingType) -> bool:
    """Some row of the type holds a collection that is not shredded."""
    return any(isinstance(part, Boxed) for part in parts(type_))


def parts(type_: KeyType | RingType) -> Iterator[KeyType | RingType]:
    """The type and all types within it."""
    yield type_
    match type_:
        case Scalar() | Label() | Number():
            return
        case Record(fields) | RingRecord(fields):
            for _, field in fields:
                yield from parts(field)
        case Boxed(ring):
            yield from parts(ring)
        case Mapping(key, ring):
            yield from parts(key)
            yield from parts(ring)
        case _:
            assert_never(type_)


def _position(record: Record | RingRecord, name: str) -> int:
    if name not in record.names:
        raise DefinitionError(
            f"no field '{name}' in {record}", detail=f"its fields: {', '.join(record.names)}"
        )
    return record.names.index(name)
