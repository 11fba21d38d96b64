"""Operators that are defined by simpler ones.

A definition is a term over the placeholders `LEFT` and `RIGHT`, so it is of constant size and its
inputs are shared however often it names them. The incremental form of a derived operator is that
of its definition; nothing is derived twice.

    a ⋉ b          = a ⋈ distinct(keys of b)
    a ⋉_θ b        = a ⋈ distinct(the values of a that θ reads, which have a match)
    a ▷ b          = a − a ⋉ b
    a ⟕ b          = a ⋈ b + (a ▷ b) × NULLs
    γ[k; m, n](a)  = γ[k; m](a) ⋈_k γ[k; n](a)
    γ[k; f(distinct x)](a) = γ[k; f(x)](distinct(π[k, x](a)))
    γ[k; mode(x)](a)       = first by n of (first x of γ[k, x; −count as n](a) for each k and n)

Several conditions of a semi join are alternatives: the values that match are those that match by
any of them. This is how NOT IN keeps its keys: x = y, or x is NULL, or y is NULL.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import reduce

from rekindle.aggregates.modes import LeastMode
from rekindle.calculus.bodies import Measures
from rekindle.calculus.scalars import Column, Literal, Scalar, row_of, same_row_of
from rekindle.calculus.schema import Field, Schema
from rekindle.calculus.terms import (
    Aggregate,
    AggregateFunction,
    Answer,
    Condition,
    Distinct,
    Filter,
    Join,
    Linearity,
    Map,
    Measure,
    Negate,
    OuterJoin,
    Padded,
    PerGroup,
    Quantiles,
    SemiJoin,
    Source,
    Term,
    TopRows,
    UnionAll,
    Values,
)
from rekindle.errors import DefinitionError

LEFT = "·left"
RIGHT = "·right"

Named = tuple[str, Scalar]


def definition(term: Term) -> Term:
    """The term over `LEFT` and `RIGHT` that a derived operator stands for."""
    match term:
        case SemiJoin():
            return _semi_join(term)
        case OuterJoin():
            return _outer_join(term)
        case Aggregate() if term.linearity is Linearity.DERIVED:
            return _aggregate(term)
    raise DefinitionError(f"{type(term).__name__} is not a derived operator")


def _columns(schema: Schema, offset: int = 0) -> tuple[Column, ...]:
    return tuple(Column(offset + i, f.type, f.nullable) for i, f in enumerate(schema))


def _kept(schema: Schema, offset: int = 0) -> tuple[Named, ...]:
    return tuple(zip(schema.names, _columns(schema, offset), strict=True))


# ---- semi joins --------------------------------------------------------------------------------


def _semi_join(term: SemiJoin) -> Term:
    left, right = Source(LEFT, term.left.schema), Source(RIGHT, term.right.schema)
    matched = _matched(left, right, term.conditions)
    match term.answer:
        case Answer.MATCHED:
            return matched
        case Answer.UNMATCHED:
            return UnionAll((left, Negate(matched)))
        case Answer.MARKED:
            kept = _kept(left.schema)
            unmatched = UnionAll((left, Negate(matched)))
            return UnionAll(
                tuple(
                    Map(part, (*kept, ("exists", Literal(answer, "boolean"))))
                    for part, answer in ((matched, True), (unmatched, False))
                )
            )


def _matched(left: Source, right: Source, conditions: Sequence[Condition]) -> Term:
    """The left rows with a match, as often as they are there."""
    if len(conditions) == 1 and _is_plain(conditions[0]):
        (condition,) = conditions
        names = [(f"key{i}", key) for i, key in enumerate(condition.right_keys)]
        rows = _filtered(right, condition.right_predicate)
        keys = Distinct(Map(rows, (*names, *(() if names else (_ONE,)))))
        lookups = _columns(keys.schema)[: len(names)]
        return Map(Join(left, keys, condition.left_keys, lookups), _kept(left.schema))
    width = len(left.schema)
    read = sorted({i for condition in conditions for i in _left_references(condition) if i < width})
    values = tuple(_with_match(left, right, condition, read) for condition in conditions)
    return _found_in(left, values[0] if len(values) == 1 else UnionAll(values), read)


def _found_in(rows: Source, values: Term, read: Sequence[int]) -> Term:
    """The rows that have the same in the columns `read` as one of `values`."""
    here = [Column(i, *_type_of(rows, i)) for i in read]
    there = [Column(place, *_type_of(rows, i)) for place, i in enumerate(read)]
    on = ((same_row_of(here),), (same_row_of(there),)) if read else ((), ())
    return Map(Join(rows, Distinct(values), *on), _kept(rows.schema))


_ONE: Named = ("one", Literal(1, "int"))


def _is_plain(condition: Condition) -> bool:
    return condition.residual is None and condition.left_predicate is None


def _left_references(condition: Condition) -> Iterable[int]:
    for scalar in (*condition.left_keys, condition.residual, condition.left_predicate):
        if scalar is not None:
            yield from scalar.references


def _with_match(left: Source, right: Source, condition: Condition, read: Sequence[int]) -> Term:
    """The values of the columns `read` that have a match by the condition; not distinct."""
    width = len(left.schema)
    in_right = {i - width for i in _residual_references(condition) if i >= width}
    in_right.update(*(key.references for key in condition.right_keys))
    in_left = set(_left_references(condition)) & set(range(width)) | set(read)
    ours = masked(_filtered(left, condition.left_predicate), in_left)
    theirs = masked(_filtered(right, condition.right_predicate), in_right)
    pairs = Join(
        ours,
        theirs,
        condition.left_keys,
        condition.right_keys,
        condition.residual,
        condition.band,
    )
    kept = [(left.schema.names[i], Column(i, *_type_of(left, i))) for i in read]
    return Map(pairs, tuple(kept) or (_ONE,))


def _residual_references(condition: Condition) -> frozenset[int]:
    return frozenset() if condition.residual is None else condition.residual.references


def masked(term: Term, needed: set[int]) -> Term:
    """The distinct values of the needed columns, in their places; the other columns are NULL.

    A residual is opaque and reads columns by their places, so those stay as they are. A band reads
    what the residual reads.
    """
    outputs: list[Named] = []
    for i, field in enumerate(term.schema):
        kept = i in needed
        outputs.append(
            (
                field.name,
                Column(i, field.type, field.nullable) if kept else Literal(None, field.type),
            )
        )
    return Distinct(Map(term, tuple(outputs)))


def _type_of(term: Term, position: int) -> tuple[str, bool]:
    field = term.schema.fields[position]
    return field.type, field.nullable


def _filtered(term: Term, predicate: Scalar | None) -> Term:
    return term if predicate is None else Filter(term, predicate)


# ---- outer joins -------------------------------------------------------------------------------


def _outer_join(term: OuterJoin) -> Term:
    left, right = Source(LEFT, term.left.schema), Source(RIGHT, term.right.schema)
    inner = Join(left, right, term.left_keys, term.right_keys, term.residual, term.band)
    nulls_right = tuple((f.name, Literal(None, f.type)) for f in right.schema)
    condition = Condition(term.left_keys, term.right_keys, term.residual, band=term.band)
    alone: Term = SemiJoin(left, right, (condition,), Answer.UNMATCHED)
    parts: list[Term] = [inner, Map(alone, (*_kept(left.schema), *nulls_right))]
    if term.padded is Padded.BOTH:
        nulls_left = tuple((f.name, Literal(None, f.type)) for f in left.schema)
        alone = _right_alone(term, left, right)
        parts.append(Map(alone, (*nulls_left, *_kept(right.schema))))
    return UnionAll(tuple(parts))


def _right_alone(term: OuterJoin, left: Source, right: Source) -> Term:
    """The right rows without a match."""
    if term.residual is None:
        condition = Condition(term.right_keys, term.left_keys)
        return SemiJoin(right, left, (condition,), Answer.UNMATCHED)
    # The residual reads the left columns first, so the sides cannot be swapped below it.
    width = len(left.schema)
    in_left = {i for i in term.residual.references if i < width}
    in_left.update(*(key.references for key in term.left_keys))
    in_right = {i - width for i in term.residual.references if i >= width}
    in_right.update(*(key.references for key in term.right_keys))
    pairs = Join(
        masked(left, in_left),
        masked(right, in_right),
        term.left_keys,
        term.right_keys,
        term.residual,
        term.band,
    )
    read = sorted(in_right)
    kept = [(right.schema.names[i], Column(width + i, *_type_of(right, i))) for i in read]
    return UnionAll((right, Negate(_found_in(right, Map(pairs, tuple(kept) or (_ONE,)), read))))


# ---- aggregates --------------------------------------------------------------------------------


def _aggregate(term: Aggregate) -> Term:
    """One part for each way of computing, joined on the keys; every part has the same groups."""
    source = Source(LEFT, term.child.schema)
    parts = list(_parts(source, term))
    keys = len(term.keys)
    joined = reduce(lambda a, b: _joined_on_keys(a, b, keys), (part for part, _ in parts))
    # By identity: equal measures may stand in one aggregate more than once.
    placed = (measure for _, measures in parts for measure in measures)
    places = {id(measure): keys + i for i, measure in enumerate(placed)}
    outputs = _kept(Schema(term.schema.fields[:keys])) + tuple(
        (m.name, Column(places[id(m)], m.type, m.nullable)) for m in term.measures
    )
    return Map(joined, outputs)


def _joined_on_keys(left: Term, right: Term, keys: int) -> Term:
    """Both parts' measures beside the keys."""
    ours, theirs = (_columns(Schema(part.schema.fields[:keys])) for part in (left, right))
    on = ((row_of(ours),), (row_of(theirs),)) if keys else ((), ())
    joined = Join(left, right, *on)
    width = len(left.schema)
    measures = Schema(right.schema.fields[keys:])
    return Map(joined, (*_kept(left.schema), *_kept(measures, width + keys)))


def _parts(source: Source, term: Aggregate) -> Iterable[tuple[Term, Sequence[Measure]]]:
    linear = [m for m in term.measures if m.is_linear]
    modes = [m for m in term.measures if _is_mode(m)]
    ordered = [m for m in term.measures if m.order is not None and not _is_mode(m)]
    whole = [m for m in term.measures if _needs_all(m)]
    if linear:
        yield Aggregate(source, term.keys, tuple(linear)), linear
    if whole:
        whole += ordered
        yield _grouped(source, term.keys, whole, None), whole
    else:
        for measure in ordered:
            if not measure.fractions:
                yield _grouped(source, term.keys, [measure], measure.order), [measure]
        for order, measures in _alike(m for m in ordered if m.fractions):
            yield _quantiles(source, term.keys, measures, order), measures
    for measure in modes:
        yield _mode(source, term.keys, measure), [measure]
    distinct: dict[tuple[bool, tuple[str, ...]], list[Measure]] = {}
    for measure in term.measures:
        if measure.values is Values.DISTINCT and measure.order is None:
            arguments = tuple(argument.text for argument in measure.arguments)
            distinct.setdefault((measure.function.is_linear, arguments), []).append(measure)
    for measures in distinct.values():
        yield _over_distinct(source, term.keys, measures), measures


def _needs_all(measure: Measure) -> bool:
    return (
        measure.function is AggregateFunction.OTHER
        and measure.values is Values.ALL
        and measure.order is None
    )


def _grouped(
    source: Term, keys: Sequence[Named], measures: Sequence[Measure], order: Scalar | None
) -> PerGroup:
    """Measures that Spark computes from a group's rows, of which only what they read is kept."""
    outputs = list(keys)
    if order is not None:
        outputs.append(("order", order))
    moved = []
    for measure in measures:
        arguments = []
        for argument in measure.arguments:
            arguments.append(Column(len(outputs), argument.type, argument.nullable))
            outputs.append((f"argument{len(outputs)}", argument))
        moved.append(_over(measure, arguments))
    return PerGroup(
        Map(source, tuple(outputs)),
        tuple(range(len(keys))),
        Measures(_schema_of(keys), tuple(moved)),
        None if order is None else TopRows(len(keys), 1),
    )


def _alike(quantiles: Iterable[Measure]) -> Iterable[tuple[Scalar, list[Measure]]]:
    """Quantiles of the same values, which are found together, and the order that they are in."""
    found: dict[tuple[str, ...], tuple[Scalar, list[Measure]]] = {}
    for measure in quantiles:
        assert measure.order is not None
        texts = (measure.order.text, *(argument.text for argument in measure.arguments))
        found.setdefault(texts, (measure.order, []))[1].append(measure)
    return found.values()


def _quantiles(
    source: Term, keys: Sequence[Named], measures: Sequence[Measure], order: Scalar
) -> PerGroup:
    """Measures that the values at some ranks of a group decide; their arguments are the same."""
    arguments = ((f"argument{i}", a) for i, a in enumerate(measures[0].arguments))
    rows = Map(source, (*keys, ("order", order), *arguments))
    columns = _columns(rows.schema)[len(keys) + 1 :]
    fractions = tuple(sorted({f for measure in measures for f in measure.fractions}))
    return PerGroup(
        rows,
        tuple(range(len(keys))),
        Measures(_schema_of(keys), tuple(_over(measure, columns) for measure in measures)),
        Quantiles(len(keys), columns[0].position, columns[-1].position, fractions),
    )


def _is_mode(measure: Measure) -> bool:
    return isinstance(measure.function.aggregate, LeastMode)


def _mode(source: Term, keys: Sequence[Named], measure: Measure) -> PerGroup:
    """The first of the most frequent values: of each frequency the first, and of these the first.

    The numbers of rows are negative, so that the most frequent value comes first.
    """
    assert measure.order is not None
    value, step = measure.arguments
    place = len(keys)
    # A sum of whole numbers is its own last step.
    number = Measure("number", AggregateFunction.SUM, (step,), "bigint", nullable=False)
    counts = Aggregate(source, (*keys, ("value", value), ("order", measure.order)), (number,))
    *groups, value_, order_, number_ = _kept(counts.schema)
    rows = Map(counts, (*groups, number_, order_, value_))
    counted = _columns(rows.schema)
    first = PerGroup(
        rows,
        tuple(range(place + 1)),
        Measures(
            Schema(rows.schema.fields[: place + 1]),
            (_over(measure, [counted[place + 2], counted[place]]),),
        ),
        TopRows(place + 1, 1),
    )
    found = _columns(first.schema)
    return PerGroup(
        first,
        tuple(range(place)),
        Measures(_schema_of(keys), (_over(measure, [found[place + 1], found[place]]),)),
        TopRows(place, 1),
    )


def _over(measure: Measure, columns: Sequence[Column]) -> Measure:
    """The measure of a group whose rows have its arguments in columns, and are given in order."""
    return replace(measure, arguments=tuple(columns), order=None, fractions=())


def _schema_of(keys: Sequence[Named]) -> Schema:
    return Schema(tuple(Field(name, key.type, key.nullable) for name, key in keys))


def _over_distinct(source: Source, keys: Sequence[Named], measures: Sequence[Measure]) -> Term:
    """Measures of the distinct values of their common arguments."""
    arguments = measures[0].arguments
    outputs = (*keys, *((f"argument{i}", a) for i, a in enumerate(arguments)))
    values = Distinct(Map(source, outputs))
    columns = _columns(values.schema)
    named = tuple((name, columns[i]) for i, (name, _) in enumerate(keys))
    inner = tuple(replace(m, arguments=columns[len(keys) :], values=Values.ALL) for m in measures)
    if all(measure.is_linear for measure in inner):
        return Aggregate(values, named, inner)
    return _grouped(values, named, inner, None)
