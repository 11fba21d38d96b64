"""Collections within rows: arrays, and the functions of Spark that take functions.

A bag is an array in the order of its elements, so that it is the same array each time it is made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from rekindle.errors import UnsupportedError
from rekindle.frontends.mrql.values import (
    BOOLEAN,
    VOID,
    Many,
    Rec,
    RecordType,
    Scalar,
    Sql,
    Tup,
    TupleType,
    Type,
    Value,
    cast,
    component,
    ddl,
    numbered,
    packed,
    reads,
    unified,
    unpacked,
    widest,
    words,
)


def variable(type_: Type) -> Sql:
    """A parameter of a lambda, with a name of its own."""
    name = numbered("x")
    return Sql(name, type_, frozenset((name,)))


def element_of(array: Sql) -> Type:
    """The type of the elements; raises `UnsupportedError` if it is no collection."""
    if isinstance(array.type, Many):
        return array.type.element
    if array.type == VOID:
        return VOID
    raise UnsupportedError(f"{words(array.type)} is no collection")


def _over(array: Sql, inner: Sql, parameter: Sql, form: str, type_: Type) -> Sql:
    text = form.format(array.text, f"{parameter.text} -> {inner.text}")
    return Sql(text, type_, array.reads | (inner.reads - parameter.reads))


def transform(array: Sql, head: Callable[[Value], Value]) -> Sql:
    """{head(x) | x ∈ array}"""
    x = variable(element_of(array))
    made = packed(head(unpacked(x)))
    if made.text == x.text:
        return array
    return _over(array, made, x, "transform({0}, {1})", _like(array, made.type))


def filtered(array: Sql, test: Callable[[Value], Sql]) -> Sql:
    """{x | x ∈ array, test(x)}"""
    x = variable(element_of(array))
    return _over(array, test(unpacked(x)), x, "filter({0}, {1})", array.type)


def flat_mapped(array: Sql, body: Callable[[Value], Sql]) -> Sql:
    """{z | x ∈ array, z ∈ body(x)}"""
    x = variable(element_of(array))
    made = body(unpacked(x))
    type_ = _like(array, element_of(made))
    return _over(array, made, x, "flatten(transform({0}, {1}))", type_)


def _like(array: Sql, element: Type) -> Many:
    return Many(element, isinstance(array.type, Many) and array.type.ordered)


def array_of(values: Sequence[Value], ordered: bool) -> Sql:
    """The collection of these elements."""
    if not values:
        return Sql("array()", Many(VOID, ordered))
    parts = [packed(each) for each in unified(values)]
    texts = ", ".join(part.text for part in parts)
    return Sql(f"array({texts})", Many(parts[0].type, ordered), reads(*parts))


def concatenated(left: Sql, right: Sql) -> Sql:
    """Both collections together; a bag and a list make a bag."""
    type_ = widest(left.type, right.type)
    a, b = cast(left, type_), cast(right, type_)
    return Sql(f"concat({a.text}, {b.text})", type_, a.reads | b.reads)


def bound(value: Sql, body: Callable[[Sql], Sql]) -> Sql:
    """`body(value)` with the value computed once."""
    x = variable(value.type)
    made = body(x)
    return _over(
        Sql(f"array({value.text})", VOID, value.reads), made, x, "transform({0}, {1})[0]", made.type
    )


def canonical(value: Sql) -> Sql:
    """The value with its bags in the order of their elements: equal for equal bags."""
    match value.type:
        case Many():
            inner = (
                transform(value, lambda x: canonical(packed(x)))
                if _has_bags(value.type.element)
                else value
            )
            if value.type.ordered:
                return inner
            return Sql(f"array_sort({inner.text})", value.type, value.reads)
        case TupleType() | RecordType() if _has_bags(value.type):
            parts = unpacked(value)
            if isinstance(parts, Tup):
                return packed(Tup(tuple(canonical(packed(item)) for item in parts.items)))
            assert isinstance(parts, Rec)
            return packed(Rec(tuple((n, canonical(packed(item))) for n, item in parts.fields)))
        case _:
            return value


def _has_bags(type_: Type) -> bool:
    match type_:
        case Many():
            return not type_.ordered or _has_bags(type_.element)
        case TupleType():
            return any(map(_has_bags, type_.items))
        case RecordType():
            return any(_has_bags(inner) for _, inner in type_.fields)
        case Scalar():
            return False


def equal(left: Sql, right: Sql) -> Sql:
    """`left = right`; NULL is equal to NULL, and bags are equal as multisets."""
    both = widest(left.type, right.type)
    a, b = (
        canonical(side if side.type == VOID else _comparable(side, both)) for side in (left, right)
    )
    return Sql(f"({a.text} <=> {b.text})", BOOLEAN, a.reads | b.reads)


def _comparable(side: Sql, both: Type) -> Sql:
    """Numbers are compared by Spark as they are; what is made of them needs one type."""
    return side if isinstance(both, Scalar) else cast(side, both)


def grouped(pairs: Sql) -> Sql:
    """groupBy of pairs within a row: each key with the bag of its values."""
    type_ = element_of(pairs)
    if not isinstance(type_, TupleType) or len(type_.items) != 2:
        raise UnsupportedError(f"only pairs are grouped, and this is {words(type_)}")

    def of(all_: Sql) -> Sql:
        keys = transform(all_, lambda x: canonical(packed(component(x, 0))))
        distinct = Sql(f"array_distinct({keys.text})", keys.type, keys.reads)

        def group(key: Value) -> Value:
            same = filtered(all_, lambda x: equal(packed(component(x, 0)), packed(key)))
            return Tup((key, transform(same, lambda x: component(x, 1))))

        return transform(distinct, group)

    found = bound(pairs, of)
    return Sql(found.text, Many(element_of(found)), found.reads)


def cogrouped(left: Sql, right: Sql) -> Sql:
    """coGroup of pairs within a row."""

    def of(xs: Sql) -> Sql:
        def both(ys: Sql) -> Sql:
            keys = concatenated(
                *(
                    transform(side, lambda x: canonical(packed(component(x, 0))))
                    for side in (xs, ys)
                )
            )
            distinct = Sql(f"array_distinct({keys.text})", keys.type, keys.reads)

            def group(key: Value) -> Value:
                def values(side: Sql) -> Sql:
                    same = filtered(side, lambda x: equal(packed(component(x, 0)), packed(key)))
                    return transform(same, lambda x: component(x, 1))

                return Tup((key, Tup((values(xs), values(ys)))))

            return transform(distinct, group)

        return bound(right, both)

    return bound(left, of)


Directions: TypeAlias = "int | tuple[Directions, ...]"
"""Which way each part of a key sorts: 1 up, -1 down."""


def ordered(pairs: Sql, directions: Directions) -> Sql:
    """The values of pairs in the order of their keys; equal keys in the order of the pairs."""
    element = element_of(pairs)
    a, b = variable(element), variable(element)
    keys = (packed(component(a, 0)), packed(component(b, 0)))
    test = " ".join(
        f"WHEN {x} < {y} OR ({x} IS NOT NULL AND {y} IS NULL) THEN {-way} "
        f"WHEN {x} > {y} OR ({x} IS NULL AND {y} IS NOT NULL) THEN {way}"
        for x, y, way in _steps(directions, *keys)
    )
    first = f"array_sort({pairs.text})"
    if test:
        first = f"array_sort({first}, ({a.text}, {b.text}) -> CASE {test} ELSE 0 END)"
    listed = transform(Sql(first, pairs.type, pairs.reads), lambda x: component(x, 1))
    return Sql(listed.text, Many(element_of(listed), True), listed.reads)


def _steps(directions: Directions, a: Sql, b: Sql) -> list[tuple[str, str, int]]:
    if isinstance(directions, int):
        return [(a.text, b.text, directions)]
    return [
        step
        for i, part in enumerate(directions)
        for step in _steps(part, packed(component(a, i)), packed(component(b, i)))
    ]


def empty(type_: Type) -> str:
    """An empty collection of a type."""
    return f"CAST(array() AS {ddl(type_)})"


def indexed(array: Sql, at: Sql) -> Sql:
    """`array[at]`: an element of a list by its place, a value of a map by its key.

    NULL where there is none, not an error: a row may be there for a moment within a step.
    """
    assert isinstance(array.type, Many)
    if array.type.ordered:
        return Sql(f"get({array.text}, {at.text})", array.type.element, array.reads | at.reads)
    pair = array.type.element
    if not isinstance(pair, TupleType) or len(pair.items) != 2:
        raise UnsupportedError("a bag is indexed by the keys of its pairs; this has none")
    found = filtered(array, lambda x: equal(packed(component(x, 0)), at))
    return Sql(f"get({found.text}, 0)._2", pair.items[1], found.reads)
