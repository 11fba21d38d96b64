"""Monoids: as aggregates of SQL where Spark has one, else as a fold of the elements' array.

What an aggregate gives of no elements is the zero of its monoid. Spark has none for min and max:
they are NULL there, where the language has an infinity.
"""

from __future__ import annotations

from collections.abc import Callable

from rekindle.errors import UnsupportedError
from rekindle.frontends.mrql import arrays
from rekindle.frontends.mrql.demands import check_total, truth
from rekindle.frontends.mrql.values import (
    BOOLEAN,
    DOUBLE,
    FLOAT,
    LONG,
    NUMBERS,
    VOID,
    Inverse,
    Many,
    Rec,
    Sql,
    Tup,
    Type,
    Value,
    cast,
    ddl,
    packed,
    unpacked,
    words,
)
from rekindle.mrql_language.monoids import APPEND, MAX, MIN, PRODUCT, SUM, UNION, Basic, Monoid

AVERAGE = Basic("avg")
"""No monoid, but an aggregate of SQL: the sum over the count."""
Merge = Callable[[Value, Value], Value]


def total_type(type_: Type) -> Type:
    """Whole numbers are added as bigint, reals as double, decimals as they are."""
    if type_ in (FLOAT, DOUBLE):
        return DOUBLE
    if type_ in NUMBERS or type_ == VOID:
        return LONG
    check_total("sum", type_)
    return type_


def collected(head: Value, where: str) -> Sql:
    """The bag of the heads of rows that satisfy a condition."""
    part = packed(head)
    filtered = f" FILTER (WHERE {where})" if where else ""
    if not part.reads:
        value = "CAST(NULL AS BOOLEAN)" if part.type == VOID else part.text
        return Sql(f"array_repeat({value}, CAST(count(*){filtered} AS INT))", Many(part.type))
    text = f"array_sort(collect_list({part.text}){filtered} RESPECT NULLS)"
    return Sql(text, Many(part.type), part.reads)


def zero_of(monoid: Monoid | None, type_: Type) -> str:
    """What there is of no rows; None stands for the bag of the rows."""
    match monoid:
        case None | Basic("⊎") | Basic("++"):
            return arrays.empty(type_)
        case Basic("+"):
            return "0"
        case Basic("avg"):
            return "double('NaN')"
        case Basic("*"):
            return "1"
        case Basic("∧"):
            return "true"
        case Basic("∨"):
            return "false"
        case _:
            return ""


def aggregated(monoid: Monoid, head: Value, where: str) -> Value | None:
    """The merge of the heads of rows as an aggregate of SQL; None where SQL has none."""
    if monoid in (MIN, MAX) and isinstance(head, Inverse):
        found = aggregated(MAX if monoid == MIN else MIN, head.value, where)
        return None if found is None else Inverse(found)
    if monoid in (MIN, MAX) and _descends(head):
        raise UnsupportedError(
            "the least of several keys of which some descend has no aggregate of SQL",
            hint="order by one key, or evaluate the query by db.mrql",
        )
    part = packed(head)
    filtered = f" FILTER (WHERE {where})" if where else ""
    match monoid:
        case Basic("+") if isinstance(part.type, Many):
            return None
        case Basic("+") if part.text == "1":
            return Sql(f"count(*){filtered}", LONG)
        case Basic("+"):
            kind = total_type(part.type)
            text = f"coalesce(sum({cast(part, kind).text}){filtered}, 0)"
            return Sql(text, kind, part.reads)
        case Basic("avg"):
            check_total("avg", part.type)
            text = f"coalesce(CAST(avg({part.text}){filtered} AS DOUBLE), double('NaN'))"
            return Sql(text, DOUBLE, part.reads)
        case Basic("min") | Basic("max"):
            return Sql(f"{monoid.symbol}({part.text}){filtered}", part.type, part.reads)
        case Basic("∧"):
            truth(part, "each value that 'all' is of")
            return Sql(f"coalesce(bool_and({part.text}){filtered}, true)", BOOLEAN, part.reads)
        case Basic("∨"):
            truth(part, "each value that 'some' is of")
            return Sql(f"coalesce(bool_or({part.text}){filtered}, false)", BOOLEAN, part.reads)
        case _:
            return None


def _descends(head: Value) -> bool:
    """Is a part of it in descending order?"""
    match head:
        case Inverse():
            return True
        case Tup():
            return any(map(_descends, head.items))
        case Rec():
            return any(_descends(item) for _, item in head.fields)
        case _:
            return False


def folded(monoid: Monoid, array: Sql, user: Callable[[Sql], Sql]) -> Sql:
    """The merge of the elements of an array; `user` folds by a monoid of the script."""
    element = arrays.element_of(array)

    def fold(start: str, type_: Type, step: str) -> Sql:
        text = f"aggregate({array.text}, CAST({start} AS {ddl(type_)}), (a, x) -> {step})"
        return Sql(text, type_, array.reads)

    match monoid:
        case Basic("+"):
            kind = total_type(element)
            step = f"a + coalesce(CAST(x AS {ddl(kind)}), 0)"
            return fold("0", kind, step)
        case Basic("avg"):
            total = folded(SUM, array, user)
            number = f"nullif(size({array.text}), 0)"
            text = f"coalesce(CAST({total.text} AS DOUBLE) / {number}, double('NaN'))"
            return Sql(text, DOUBLE, array.reads)
        case _ if monoid == PRODUCT:
            return fold("1", element, f"CAST(a * x AS {ddl(element)})")
        case _ if monoid in (MIN, MAX):
            name = "array_min" if monoid == MIN else "array_max"
            return Sql(f"{name}({array.text})", element, array.reads)
        case Basic("∧"):
            return Sql(f"coalesce(forall({array.text}, x -> x), true)", BOOLEAN, array.reads)
        case Basic("∨"):
            return Sql(f"coalesce(exists({array.text}, x -> x), false)", BOOLEAN, array.reads)
        case _ if monoid in (UNION, APPEND) and isinstance(element, Many):
            return Sql(f"flatten({array.text})", element, array.reads)
        case _:
            return user(array)


def fold_of_user(array: Sql, start: Sql, merge: Merge) -> Sql:
    """The elements of an array merged by a function of the script, in the order of the array."""
    a, x = arrays.variable(start.type), arrays.variable(arrays.element_of(array))
    step = packed(merge(unpacked(a), unpacked(x)))
    kind = step.type
    if kind != start.type:
        # The start is an `int` where what is merged is a `double`: begin with what comes out.
        a = arrays.variable(kind)
        step = packed(merge(unpacked(a), unpacked(x)))
        if step.type != kind:
            raise UnsupportedError(
                "an aggregation has no type",
                detail=f"it makes {words(step.type)} of {words(kind)}",
            )
    begin = cast(start, kind)
    text = f"aggregate({array.text}, {begin.text}, ({a.text}, {x.text}) -> {step.text})"
    reads = array.reads | begin.reads | (step.reads - {a.text, x.text})
    return Sql(text, kind, reads)
