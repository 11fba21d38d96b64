"""What a term of MRQL is while it is compiled: a tuple or record of parts, and SQL for each part.

A tuple that is made and taken apart again never exists in SQL: `(a, b)#0` is the text of `a`. Only
what is an element of an array, or comes out of one, is a struct. A struct with the fields _1, _2,
... is a tuple, any other a record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import count
from typing import TypeAlias

from pyspark.sql import types as T

from rekindle.errors import UnknownNameError, UnsupportedError, did_you_mean
from rekindle.names import quoted

_NUMBERS: ContextVar[Iterator[int]] = ContextVar("numbers", default=count(1))  # noqa: B039


def numbered(prefix: str) -> str:
    """A name that nothing else in the query has."""
    return f"{prefix}{next(_NUMBERS.get())}"


def number_anew() -> None:
    """Let the names of the next query be those that it would have alone."""
    _NUMBERS.set(count(1))


@dataclass(frozen=True, slots=True)
class Scalar:
    """A type of Spark that is neither a struct nor an array, as DDL writes it."""

    name: str


@dataclass(frozen=True, slots=True)
class TupleType:
    items: tuple[Type, ...]


@dataclass(frozen=True, slots=True)
class RecordType:
    fields: tuple[tuple[str, Type], ...]


@dataclass(frozen=True, slots=True)
class Many:
    """A bag, or a list."""

    element: Type
    ordered: bool = False


Type: TypeAlias = Scalar | TupleType | RecordType | Many
VOID = Scalar("void")
BOOLEAN, STRING = Scalar("boolean"), Scalar("string")
SHORT, INT, LONG = Scalar("smallint"), Scalar("int"), Scalar("bigint")
FLOAT, DOUBLE = Scalar("float"), Scalar("double")
WHOLE = (Scalar("tinyint"), SHORT, INT, LONG)
NUMBERS = (*WHOLE, FLOAT, DOUBLE)


@dataclass(frozen=True, slots=True)
class Sql:
    """An expression of SQL, its type, and the aliases that it reads."""

    text: str
    type: Type
    reads: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Tup:
    items: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Rec:
    fields: tuple[tuple[str, Value], ...]


@dataclass(frozen=True, slots=True)
class Inverse:
    """A key of an order that sorts the other way around."""

    value: Value


Value: TypeAlias = Sql | Tup | Rec | Inverse
UNIT = Tup(())


def ddl(type_: Type) -> str:
    """The type as Spark's DDL writes it."""
    match type_:
        case Scalar():
            return type_.name
        case TupleType():
            return f"struct<{', '.join(f'_{i}: {ddl(t)}' for i, t in enumerate(type_.items, 1))}>"
        case RecordType():
            return f"struct<{', '.join(f'{quoted(n)}: {ddl(t)}' for n, t in type_.fields)}>"
        case Many():
            return f"array<{ddl(type_.element)}>"


def type_from(spark: T.DataType) -> Type:
    """The type of a column; arrays are bags, and maps are bags of pairs."""
    match spark:
        case T.StructType() if _is_tuple(spark.names):
            return TupleType(tuple(type_from(field.dataType) for field in spark.fields))
        case T.StructType():
            return RecordType(tuple((f.name, type_from(f.dataType)) for f in spark.fields))
        case T.ArrayType():
            return Many(type_from(spark.elementType))
        case T.MapType():
            return Many(TupleType((type_from(spark.keyType), type_from(spark.valueType))))
        case _:
            return Scalar(spark.simpleString())


def _is_tuple(names: Sequence[str]) -> bool:
    return bool(names) and list(names) == [f"_{i}" for i in range(1, len(names) + 1)]


def column(text: str, spark: T.DataType, reads: frozenset[str]) -> Sql:
    """A column of a table as a value."""
    if isinstance(spark, T.MapType):
        text = f"transform(map_entries({text}), e -> named_struct('_1', e.key, '_2', e.value))"
    return Sql(text, type_from(spark), reads)


def type_of(value: Value) -> Type:
    """The type that a value has in an array."""
    match value:
        case Sql():
            return value.type
        case Tup(()):
            return VOID
        case Tup():
            return TupleType(tuple(map(type_of, value.items)))
        case Rec():
            return RecordType(tuple((name, type_of(item)) for name, item in value.fields))
        case Inverse():
            return type_of(value.value)


def reads(*values: Value) -> frozenset[str]:
    """The aliases that values read."""
    return frozenset().union(*(leaf.reads for value in values for leaf in leaves(value)))


def leaves(value: Value) -> Iterator[Sql]:
    """The SQL in a value, from left to right."""
    match value:
        case Sql():
            yield value
        case Tup():
            for item in value.items:
                yield from leaves(item)
        case Rec():
            for _, item in value.fields:
                yield from leaves(item)
        case Inverse():
            yield from leaves(value.value)


def mapped(value: Value, change: Callable[[Sql], Sql]) -> Value:
    """The value with each SQL in it changed."""
    match value:
        case Sql():
            return change(value)
        case Tup():
            return Tup(tuple(mapped(item, change) for item in value.items))
        case Rec():
            return Rec(tuple((name, mapped(item, change)) for name, item in value.fields))
        case Inverse():
            return Inverse(mapped(value.value, change))


def packed(value: Value) -> Sql:
    """The value as one expression."""
    match value:
        case Sql():
            return value
        case Tup(()):
            return Sql("NULL", VOID)
        case Tup():
            return _struct([(f"_{i}", item) for i, item in enumerate(value.items, 1)], value)
        case Rec():
            return _struct(value.fields, value)
        case Inverse():
            return packed(value.value)


def _struct(fields: Iterable[tuple[str, Value]], value: Value) -> Sql:
    parts = [f"{literal(name)}, {packed(item).text}" for name, item in fields]
    return Sql(f"named_struct({', '.join(parts)})", type_of(value), reads(value))


def literal(name: str) -> str:
    """The name of a field as a text of SQL."""
    return "'" + name.replace("\\", "\\\\").replace("'", "\\'") + "'"


def unpacked(value: Sql) -> Value:
    """A struct as the tuple or record that it is."""
    match value.type:
        case TupleType():
            return Tup(tuple(component(value, i) for i in range(len(value.type.items))))
        case RecordType():
            return Rec(tuple((name, field(value, name)) for name, _ in value.type.fields))
        case _:
            return value


def component(value: Value, index: int) -> Value:
    """`value#index` of a tuple."""
    if isinstance(value, Tup) and index < len(value.items):
        return value.items[index]
    match value:
        case Sql(text, TupleType(items), seen) if index < len(items):
            return Sql(f"{text}._{index + 1}", items[index], seen)
    raise UnsupportedError(
        f"there is no component {index} of {words(type_of(value))}",
        hint="rows of tables are records: write x.column" if _is_record(value) else "",
    )


def field(value: Value, name: str) -> Value:
    """`value.name` of a record."""
    if isinstance(value, Rec):
        for label, item in value.fields:
            if label == name:
                return item
        raise _no_field(name, [label for label, _ in value.fields])
    if isinstance(value, Sql) and isinstance(value.type, RecordType):
        for label, type_ in value.type.fields:
            if label == name:
                return Sql(f"{value.text}.{quoted(name)}", type_, value.reads)
        raise _no_field(name, [label for label, _ in value.type.fields])
    raise UnsupportedError(f"there is no field '{name}' of {words(type_of(value))}")


def _is_record(value: Value) -> bool:
    return isinstance(type_of(value), RecordType)


def _no_field(name: str, known: list[str]) -> UnknownNameError:
    return UnknownNameError(
        f"there is no field '{name}'",
        detail=f"the fields are: {', '.join(known)}",
        hint=did_you_mean(name, known),
    )


def words(type_: Type) -> str:
    """The type for people."""
    match type_:
        case Scalar("void"):
            return "()"
        case Scalar():
            return f"{'an' if type_.name[0] in 'aeiou' else 'a'} {type_.name}"
        case TupleType():
            return f"a tuple of {len(type_.items)}"
        case RecordType():
            return f"a record of {', '.join(name for name, _ in type_.fields)}"
        case Many():
            return "a list" if type_.ordered else "a bag"


def widest(left: Type, right: Type) -> Type:
    """The type that values of both types have; raises `UnsupportedError` if there is none."""
    if left == right or right == VOID:
        return left
    if left == VOID:
        return right
    match left, right:
        case Scalar(), Scalar() if left in NUMBERS and right in NUMBERS:
            return max(left, right, key=NUMBERS.index)
        case TupleType(), TupleType() if len(left.items) == len(right.items):
            return TupleType(tuple(map(widest, left.items, right.items)))
        case RecordType(), RecordType() if _labels(left) == _labels(right):
            both = zip(left.fields, right.fields, strict=True)
            return RecordType(tuple((name, widest(a, b)) for (name, a), (_, b) in both))
        case Many(), Many():
            ordered = left.ordered and right.ordered
            return Many(widest(left.element, right.element), ordered)
        case Scalar(), Scalar() if _decimal(left) and _decimal(right):
            return _wider_decimal(left, right)
        case Scalar(), Scalar() if _decimal(left) and right in NUMBERS:
            return DOUBLE if right in (FLOAT, DOUBLE) else left
        case Scalar(), Scalar() if _decimal(right) and left in NUMBERS:
            return widest(right, left)
    raise UnsupportedError(f"{words(left)} and {words(right)} have no type in common")


def _decimal(type_: Scalar) -> bool:
    return type_.name.startswith("decimal")


def _wider_decimal(left: Scalar, right: Scalar) -> Scalar:
    """The decimal that has the digits of both, before and after the point."""
    (a, b), (c, d) = (
        map(int, each.name.removeprefix("decimal(").removesuffix(")").split(","))
        for each in (left, right)
    )
    after = max(b, d)
    return Scalar(f"decimal({min(max(a - b, c - d) + after, 38)},{after})")


def _labels(type_: RecordType) -> tuple[str, ...]:
    return tuple(name for name, _ in type_.fields)


def cast(value: Sql, to: Type) -> Sql:
    """The value in a wider type."""
    if value.type == to or (isinstance(to, Many) and value.type == Many(to.element)):
        return Sql(value.text, to, value.reads)
    if isinstance(to, Many) and isinstance(value.type, Many) and value.type.element == to.element:
        return Sql(value.text, to, value.reads)
    return Sql(f"CAST({value.text} AS {ddl(to)})", to, value.reads)


def unified(values: Sequence[Value]) -> list[Value]:
    """The values in one form: what a union, a list or a choice has for elements."""
    first = values[0]
    if all(isinstance(v, Inverse) for v in values):
        return [Inverse(v) for v in unified([v.value for v in values])]  # type: ignore[union-attr]
    if all(isinstance(v, Tup) and len(v.items) == len(first.items) for v in values) and (  # type: ignore[union-attr]
        isinstance(first, Tup)
    ):
        columns = [unified([v.items[i] for v in values]) for i in range(len(first.items))]  # type: ignore[union-attr]
        return [Tup(tuple(column[n] for column in columns)) for n in range(len(values))]
    if isinstance(first, Rec) and all(
        isinstance(v, Rec) and [n for n, _ in v.fields] == [n for n, _ in first.fields]
        for v in values
    ):
        names = [name for name, _ in first.fields]
        columns = [unified([field(v, name) for v in values]) for name in names]
        return [
            Rec(tuple(zip(names, (column[n] for column in columns), strict=True)))
            for n in range(len(values))
        ]
    parts = [packed(value) for value in values]
    type_ = parts[0].type
    for part in parts[1:]:
        type_ = widest(type_, part.type)
    return [cast(part, type_) for part in parts]
