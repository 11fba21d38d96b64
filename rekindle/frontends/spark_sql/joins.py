"""Joins of Catalyst as terms.

Equal keys are found by Spark's own rule. A condition of a semi or anti join that has none of its
own is split into alternatives that do: NOT IN, which Catalyst writes as `x = y OR isnull(x = y)`,
becomes x = y, or x is NULL, or y is NULL, each of which can be looked up. What is left beside the
equal keys may say in which range the other side's rows are to be found (`range_conditions.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from rekindle.calculus.derived import masked
from rekindle.calculus.scalars import Column, Scalar, same_row_of
from rekindle.calculus.schema import Schema
from rekindle.calculus.terms import (
    Aggregate,
    Answer,
    Condition,
    Join,
    Map,
    OuterJoin,
    Padded,
    RangeCondition,
    SemiJoin,
    Term,
)
from rekindle.catalyst.jvm import (
    Catalyst,
    JavaObject,
    children_of,
    id_of,
    ids_read,
    items,
    operands,
    option,
    simple_name,
    type_of,
)
from rekindle.catalyst.refusals import unsupported
from rekindle.frontends.spark_sql import range_conditions
from rekindle.frontends.spark_sql.aggregates import row_count
from rekindle.frontends.spark_sql.translated import Translated

if TYPE_CHECKING:
    from rekindle.frontends.spark_sql.translate import Translator

MAXIMUM_ALTERNATIVES = 16
_PLANS = "org.apache.spark.sql.catalyst.plans"


def join(translator: Translator, plan: JavaObject) -> Translated:
    kind = simple_name(plan.joinType())
    left, right = (translator.translate(side) for side in children_of(plan))
    match kind:
        case "Inner" | "Cross":
            return _inner(translator, plan, left, right)
        case "LeftOuter" | "RightOuter" | "FullOuter":
            return _outer(translator, plan, left, right, kind)
        case "LeftSemi":
            return _semi(translator, plan, left, right, Answer.MATCHED)
        case "LeftAnti":
            return _semi(translator, plan, left, right, Answer.UNMATCHED)
        case "ExistenceJoin":
            found = _semi(translator, plan, left, right, Answer.MARKED)
            return Translated(found.term, (*left.attributes, plan.joinType().exists()))
        case "LeftSingle":
            return _single(translator, plan, left, right)
    raise unsupported(f"a {plan.joinType().sql()} join", plan)


def _inner(
    translator: Translator, plan: JavaObject, left: Translated, right: Translated
) -> Translated:
    both = left.attributes + right.attributes
    keys, residual = _keys(translator, plan, left, right, option(plan.condition()))
    rest = None if residual is None else translator.scalar(residual, both)
    band = _band(translator, residual, left, right)
    return Translated(Join(left.term, right.term, *keys, rest, band), both)


Keys = tuple[tuple[Scalar, ...], tuple[Scalar, ...]]


def _keys(
    translator: Translator,
    plan: JavaObject,
    left: Translated,
    right: Translated,
    condition: JavaObject | None,
) -> tuple[Keys, JavaObject | None]:
    """Equal keys of both sides, and what of the condition is left.

    Texts that a collation does not tell apart have one key, so that a set of keys has each once.
    """
    if condition is None:
        return ((), ()), None
    catalyst = translator.catalyst
    extract = catalyst.module("org.apache.spark.sql.catalyst.planning.ExtractEquiJoinKeys")
    inner = catalyst.module(f"{_PLANS}.Inner")
    probe = catalyst.plan("Join")(
        plan.left(), plan.right(), inner, catalyst.some(condition), plan.hint()
    )
    found = option(extract.unapply(probe))
    if found is None:
        return ((), ()), condition
    ours = items(found._2())
    theirs = [_alike(catalyst, *pair) for pair in zip(items(found._3()), ours, strict=True)]
    keys = (
        tuple(translator.scalar(catalyst.collation_key(key), left.attributes) for key in ours),
        tuple(translator.scalar(catalyst.collation_key(key), right.attributes) for key in theirs),
    )
    return keys, option(found._4())


def _alike(catalyst: Catalyst, key: JavaObject, other: JavaObject) -> JavaObject:
    """A key in the type of another: Spark compares structs whatever their fields are called."""
    if type_of(key) == type_of(other):
        return key
    return catalyst.cast(key, other.dataType())


def _outer(
    translator: Translator, plan: JavaObject, left: Translated, right: Translated, kind: str
) -> Translated:
    output = tuple(items(plan.output()))
    if kind != "RightOuter":
        padded = Padded.BOTH if kind == "FullOuter" else Padded.RIGHT
        return Translated(_outer_term(translator, plan, left, right, padded), output)
    # A right outer join is a left one with the sides exchanged.
    term = _outer_term(translator, _mirrored(translator, plan), right, left, Padded.RIGHT)
    width = len(right.attributes)
    fields = term.schema.fields
    order = [*range(width, len(fields)), *range(width)]
    outputs = tuple((fields[i].name, Column(i, fields[i].type, fields[i].nullable)) for i in order)
    return Translated(Map(term, outputs), output)


def _outer_term(
    translator: Translator,
    plan: JavaObject,
    left: Translated,
    right: Translated,
    padded: Padded,
) -> OuterJoin:
    keys, residual = _keys(translator, plan, left, right, option(plan.condition()))
    both = left.attributes + right.attributes
    rest = None if residual is None else translator.scalar(residual, both)
    band = _band(translator, residual, left, right)
    return OuterJoin(left.term, right.term, *keys, rest, padded, band)


def _band(
    translator: Translator, residual: JavaObject | None, left: Translated, right: Translated
) -> RangeCondition | None:
    conjuncts = [] if residual is None else _conjuncts(residual)
    return range_conditions.range_condition(
        translator, conjuncts, left.attributes, right.attributes
    )


def _mirrored(translator: Translator, plan: JavaObject) -> JavaObject:
    left = translator.catalyst.module(f"{_PLANS}.LeftOuter")
    return translator.catalyst.plan("Join")(
        plan.right(), plan.left(), left, plan.condition(), plan.hint()
    )


# ---- semi joins --------------------------------------------------------------------------------


def _semi(
    translator: Translator,
    plan: JavaObject,
    left: Translated,
    right: Translated,
    answer: Answer,
) -> Translated:
    condition = option(plan.condition())
    conditions: tuple[Condition, ...] = (Condition(),)
    if condition is not None:
        conditions = tuple(
            _condition(translator, plan, left, right, alternative)
            for alternative in _alternatives(translator, plan, left, right, condition)
        )
    return Translated(SemiJoin(left.term, right.term, conditions, answer), left.attributes)


def _condition(
    translator: Translator,
    plan: JavaObject,
    left: Translated,
    right: Translated,
    condition: JavaObject,
) -> Condition:
    keys, rest = _keys(translator, plan, left, right, condition)
    sides: dict[str, list[JavaObject]] = {"left": [], "right": [], "both": []}
    for part in [] if rest is None else _conjuncts(rest):
        sides[_side(part, left.attributes, right.attributes)].append(part)

    def predicate(side: str, inputs: Sequence[JavaObject]) -> Scalar | None:
        whole = translator.catalyst.conjunction(sides[side])
        return None if whole is None else translator.scalar(whole, inputs)

    return Condition(
        *keys,
        predicate("both", left.attributes + right.attributes),
        predicate("left", left.attributes),
        predicate("right", right.attributes),
        range_conditions.range_condition(
            translator, sides["both"], left.attributes, right.attributes
        ),
    )


def _alternatives(
    translator: Translator,
    plan: JavaObject,
    left: Translated,
    right: Translated,
    condition: JavaObject,
) -> list[JavaObject]:
    """Conditions whose disjunction is the condition; itself alone where splitting gains nothing."""
    found = _disjuncts(translator, condition)
    if len(found) == 1 or len(found) > MAXIMUM_ALTERNATIVES:
        return [condition]
    wholes = [translator.catalyst.conjunction(parts) for parts in found]

    def can_be_looked_up(whole: JavaObject) -> bool:
        keys, rest = _keys(translator, plan, left, right, whole)
        return bool(keys[0]) or all(
            _side(part, left.attributes, right.attributes) != "both" for part in _conjuncts(rest)
        )

    return wholes if all(map(can_be_looked_up, wholes)) else [condition]


def _disjuncts(translator: Translator, expression: JavaObject) -> list[list[JavaObject]]:
    """The expression as a disjunction of conjunctions, of at most so many."""
    match simple_name(expression):
        case "Or":
            alternatives = operands(expression, "Or")
            if len(alternatives) > MAXIMUM_ALTERNATIVES:
                return [[expression]]
            return [found for each in alternatives for found in _disjuncts(translator, each)]
        case "And":
            whole: list[list[JavaObject]] = [[]]
            for part in operands(expression, "And"):
                found = _disjuncts(translator, part)
                if len(whole) * len(found) > MAXIMUM_ALTERNATIVES:
                    return [[expression]]
                whole = [a + b for a in whole for b in found]
            return whole
        case "IsNull" if simple_name(expression.child()) == "EqualTo":
            equality = expression.child()
            is_null = translator.catalyst.expression("IsNull")
            return [[is_null(equality.left())], [is_null(equality.right())]]
    return [[expression]]


def _conjuncts(expression: JavaObject) -> list[JavaObject]:
    return operands(expression, "And")


def _side(part: JavaObject, left: Sequence[JavaObject], right: Sequence[JavaObject]) -> str:
    """Which side's columns an expression reads."""
    read = ids_read(part)
    if read <= {id_of(attribute) for attribute in left}:
        return "left"
    if read <= {id_of(attribute) for attribute in right}:
        return "right"
    return "both"


# ---- scalar subqueries -------------------------------------------------------------------------


def _single(
    translator: Translator, plan: JavaObject, left: Translated, right: Translated
) -> Translated:
    """A left outer join in which a second match is an error, as of a scalar subquery."""
    catalyst = translator.catalyst
    keys, residual = _keys(translator, plan, left, right, option(plan.condition()))
    matches = right.term
    if residual is not None:
        matches, keys = _matches(translator, left, right, keys, residual)
    names = tuple((f"key{i}", key) for i, key in enumerate(keys[1]))
    counts = Aggregate(matches, names, (row_count(catalyst),))
    counted = Join(matches, counts, keys[1], _leading(counts, len(names)))
    number = catalyst.attribute("matches", "bigint")
    kept = _named(matches.schema)
    total = Column(len(kept) + len(names), "bigint", nullable=False)
    numbered = Map(counted, (*kept, ("matches", total)))
    joined = OuterJoin(left.term, numbered, *keys, None, Padded.RIGHT)
    read = kept[len(right.attributes) :]
    between = [catalyst.attribute(name, column.type) for name, column in read]
    inputs = (*left.attributes, *right.attributes, *between, number)
    failure = F.expr("raise_error('a scalar subquery gave more than one row')")
    (failed,) = catalyst.analysed([failure], ())
    many = catalyst.expression("GreaterThan")(number, catalyst.literal("1L"))
    outputs = [(str(a.name()), translator.scalar(a, inputs)) for a in left.attributes]
    for attribute in right.attributes:
        target = attribute.dataType()
        cast = catalyst.cast(failed, target)
        checked = catalyst.expression("If")(many, cast, attribute)
        outputs.append((str(attribute.name()), translator.scalar(checked, inputs)))
    return Translated(Map(joined, tuple(outputs)), tuple(items(plan.output())))


def _matches(
    translator: Translator, left: Translated, right: Translated, keys: Keys, residual: JavaObject
) -> tuple[Term, Keys]:
    """The right rows with values of the left columns that a condition reads and that they match.

    Rows that have these values have the same matches, and find them by the values.
    """
    width = len(left.attributes)
    rest = translator.scalar(residual, left.attributes + right.attributes)
    read = {i for scalar in (*keys[0], rest) for i in scalar.references if i < width}
    band = _band(translator, residual, left, right)
    pairs = Join(masked(left.term, read), right.term, *keys, rest, band)
    places = [*range(width, len(pairs.schema)), *sorted(read)]
    named = _named(pairs.schema)
    matches = Map(pairs, tuple(named[i] for i in places))
    if not read:
        return matches, ((), ())
    ours = same_row_of([named[i][1] for i in sorted(read)])
    theirs = same_row_of([column for _, column in _named(matches.schema)[len(right.attributes) :]])
    return matches, ((ours,), (theirs,))


def _named(schema: Schema) -> tuple[tuple[str, Column], ...]:
    return tuple((f.name, Column(i, f.type, f.nullable)) for i, f in enumerate(schema))


def _leading(term: Term, count: int) -> tuple[Column, ...]:
    fields = term.schema.fields[:count]
    return tuple(Column(i, f.type, f.nullable) for i, f in enumerate(fields))
