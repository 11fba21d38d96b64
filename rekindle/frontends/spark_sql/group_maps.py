"""Python functions of all rows of a group.

Spark gives a function the rows of a group in any order. Here it sees them in the order of their
columns, so that what it gave before a change can be computed again.

A function of cogroups sees the rows of a key in two tables. They are one collection with a column
that says which table a row is of, and NULLs in place of the columns of the other:

    f(a, b) by k = f(side 0, side 1) by k of (0, k, a, NULL) + (1, k, NULL, b)
"""

from __future__ import annotations

from collections.abc import Sequence
from inspect import getfullargspec
from typing import TYPE_CHECKING

from rekindle.calculus.scalars import Literal, Scalar
from rekindle.calculus.terms import Map, PerGroup, UnionAll
from rekindle.catalyst import bodies
from rekindle.catalyst.evaluations import refuse_random, unpickled
from rekindle.catalyst.jvm import (
    JavaObject,
    child_of,
    children_of,
    id_of,
    ids_read,
    is_collated,
    items,
    simple_name,
    type_of,
)
from rekindle.catalyst.refusals import unsupported
from rekindle.catalyst.table_functions import Partitions
from rekindle.errors import UndeterminedError
from rekindle.frontends.spark_sql.ordering import total_order, with_keys
from rekindle.frontends.spark_sql.translated import Translated

if TYPE_CHECKING:
    from rekindle.frontends.spark_sql.translate import Translator


def group_map(translator: Translator, plan: JavaObject) -> Translated:
    """What a Python function gives for the rows of each group."""
    catalyst = translator.catalyst
    refuse_random([plan.functionExpr()])
    child = translator.translate(child_of(plan))
    # Catalyst puts the keys in front of the columns that the function is given.
    groups = items(plan.groupingAttributes())
    _refuse_collated_key(plan.functionExpr(), groups)
    given = child.attributes[len(groups) :]
    known = {id_of(a) for a in given}
    others = [key for key in groups if id_of(key) not in known]
    keyed, places = with_keys(
        translator,
        translator.map(child, [*given, *others]),
        [catalyst.normalised(key) for key in groups],
    )
    body = bodies.group_map(
        catalyst,
        simple_name(plan),
        plan.functionExpr(),
        given,
        items(plan.output()),
        total_order(catalyst, (), given),
        keyed.attributes,
    )
    return Translated(PerGroup(keyed.term, places, body), tuple(items(plan.output())))


def table_map(translator: Translator, plan: JavaObject, parted: Partitions) -> Translated:
    """What a Python table function gives for the rows of each partition of its argument."""
    catalyst = translator.catalyst
    child = translator.translate(parted.rows)
    keys = [catalyst.normalised(key) for key in parted.keys]
    keyed, places = with_keys(translator, child, keys)
    results = items(plan.resultAttrs())
    body = bodies.group_map(
        catalyst,
        "Generate",
        plan.udtf(),
        parted.columns,
        results,
        total_order(catalyst, parted.order, child.attributes),
        keyed.attributes,
    )
    return Translated(PerGroup(keyed.term, places, body), tuple(results))


def cogroup_map(translator: Translator, plan: JavaObject) -> Translated:
    """What a Python function gives for the rows of each key in two tables."""
    catalyst, function = translator.catalyst, plan.functionExpr()
    refuse_random([function])
    sides = [translator.translate(child) for child in children_of(plan)]
    lengths = (int(plan.leftGroupingLen()), int(plan.rightGroupingLen()))
    groups = [side.attributes[:length] for side, length in zip(sides, lengths, strict=True)]
    left, right = (s.attributes[length:] for s, length in zip(sides, lengths, strict=True))
    if any(is_collated(key.dataType()) for key in (*groups[0], *groups[1])):
        # Spark fails where the texts of the two sides differ.
        raise unsupported("cogroup() by a text with a collation", plan)
    types = [[type_of(key) for key in keys] for keys in groups]
    if types[0] != types[1]:
        raise unsupported(
            f"cogroup() by keys of the types ({', '.join(types[0])}) and ({', '.join(types[1])})",
            plan,
        )
    referred = ids_read(function)
    if not referred.issuperset(id_of(a) for a in (*left, *right)):
        # Spark gives the right side new columns, and may drop those that the function misses.
        raise unsupported("cogroup() of a DataFrame with itself", plan)
    names = ["side", *(f"key{i}" for i in range(lengths[0])), *_names(left), *_names(right)]

    def tagged(number: int) -> Map:
        own, attributes = sides[number], sides[number].attributes
        values: list[Scalar] = [Literal(number, "int")]
        values += [translator.scalar(catalyst.normalised(k), attributes) for k in groups[number]]
        for side, columns in enumerate((left, right)):
            values += [
                translator.scalar(column, attributes)
                if side == number
                else Literal(None, type_of(column))
                for column in columns
            ]
        return Map(own.term, tuple(zip(names, values, strict=True)))

    rows = UnionAll((tagged(0), tagged(1)))
    places = tuple(range(1, 1 + lengths[0]))
    inputs = (
        catalyst.attribute("side", "int"),
        *(catalyst.attribute(names[place], rows.schema.types[place]) for place in places),
        *left,
        *right,
    )
    order, other = (total_order(catalyst, (), columns) for columns in (left, right))
    both = bodies.group_map(
        catalyst,
        simple_name(plan),
        function,
        [*left, *right],
        items(plan.output()),
        [*order, *other],
        inputs,
    )
    body = bodies.cogroup_map(both, len(left), len(order))
    return Translated(PerGroup(rows, places, body), tuple(items(plan.output())))


def _names(columns: Sequence[JavaObject]) -> list[str]:
    return [str(column.name()) for column in columns]


def _refuse_collated_key(function: JavaObject, keys: Sequence[JavaObject]) -> None:
    """Raise if a function of a group is given a key that is not determined.

    The texts that a collation takes for one are one group, and Spark says the text of any row.
    """
    if not any(is_collated(key.dataType()) for key in keys):
        return
    written, _ = unpickled(function)
    if len(getfullargspec(written).args) > 1:
        raise UndeterminedError(
            f"the function {function.name()} is given the key of a group, a text with a collation",
            detail="of the texts that the collation takes for one, Spark gives it any",
            hint="a function of the rows alone is given all of them",
        )
