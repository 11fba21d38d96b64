"""The reference meaning of a term: a function from the database to a Z-set of rows.

`apply_operator` is the meaning of one node, a function of its inputs' Z-sets; `evaluate` composes
them over a whole term. Everything else (rewrites, the incremental circuit, the kernels on Spark)
is right when it agrees with this module, so it is written for clarity. Only scalars and generators
with a meaning in Python can be evaluated.

An aggregate is a linear map of the group's rows into a ring, then one scalar step. The first half
is a tuple of sums over the rows whose arguments are all present, each row taken as often as its
weight says; both are those of its class in `rekindle.aggregates`.

Quotients of whole numbers are exact `Fraction`s: a reference that rounds could not be compared
with `==`. Floating point arguments are added as Python adds them, and are best kept out of tests
that compare. A group exists when its ring value, with the number of its rows, is not zero: over
a bag that means when it has rows, as in SQL.

DBSP, section 4.2, table 1 and section 7.2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any, TypeAlias, assert_never

from rekindle.aggregates.base import LinearAggregate, Members
from rekindle.algebra.groups import INTEGERS
from rekindle.algebra.relational import distinct, equi_join, filter_rows, flat_map, map_rows
from rekindle.algebra.zset import ZSet
from rekindle.calculus.bodies import EvaluableBody, Measures
from rekindle.calculus.generators import EvaluableGenerator
from rekindle.calculus.scalars import Evaluable, Literal, Row, Scalar
from rekindle.calculus.terms import (
    Aggregate,
    Answer,
    Body,
    Bound,
    Condition,
    Constant,
    Distinct,
    Filter,
    Fix,
    FlatMap,
    Generator,
    Join,
    Linearity,
    Map,
    Measure,
    Negate,
    OuterJoin,
    Padded,
    PerGroup,
    SemiJoin,
    Source,
    Term,
    Triggered,
    UnionAll,
    Values,
)
from rekindle.calculus.walks import fold
from rekindle.errors import DefinitionError, iteration_limit, unknown_name

Rows: TypeAlias = ZSet[Row, int]


def evaluate(term: Term, database: Mapping[str, Rows]) -> Rows:
    """The Z-set that a term denotes when each source has the contents given by `database`.

    >>> from rekindle.calculus.schema import Schema
    >>> t = Source("t", Schema.of(x="int"))
    >>> evaluate(UnionAll((t, t)), {"t": ZSet.from_rows([(1,)])})
    ZSet({(1,): 2})
    """

    def value(node: Term, inputs: tuple[Rows, ...]) -> Rows:
        if isinstance(node, Source):
            if node.name not in database:
                raise unknown_name("source", node.name, database)
            return database[node.name]
        if isinstance(node, Constant):
            return ZSet.from_rows(node.relation.rows())
        if isinstance(node, Fix):
            return _fixed_point(node, database)
        return apply_operator(node, inputs)

    return fold(term, lambda node: () if isinstance(node, Fix) else node.children, value)


def apply_operator(operator: Term, inputs: Sequence[Rows]) -> Rows:
    """The meaning of the node at the root of `operator`, given its inputs' values."""
    match operator:
        case Source():
            raise DefinitionError(f"the source '{operator.name}' is not an operator")
        case Constant():
            raise DefinitionError("a constant relation is not an operator")
        case Fix():
            raise DefinitionError("a recursion reads its own results and is not an operator")
        case Map():
            outputs = _row_function([scalar for _, scalar in operator.outputs])
            return map_rows(inputs[0], outputs)
        case Filter():
            predicate = _evaluable(operator.predicate)
            return filter_rows(inputs[0], lambda row: predicate.evaluate(row) is True)
        case FlatMap():
            generator = _evaluable_generator(operator.generator)
            kept = operator.kept
            return flat_map(
                inputs[0],
                lambda row: (tuple(row[i] for i in kept) + new for new in generator.generate(row)),
            )
        case UnionAll():
            return reduce(ZSet.__add__, inputs)
        case Negate():
            return -inputs[0]
        case Join():
            return _join(operator, inputs[0], inputs[1])
        case SemiJoin():
            return _semi_join(operator, inputs[0], inputs[1])
        case OuterJoin():
            return _outer_join(operator, inputs[0], inputs[1])
        case Distinct():
            return _at_every_stamp(operator, inputs[0]) if operator.stamps else distinct(inputs[0])
        case Aggregate():
            return _aggregate(operator, inputs[0])
        case PerGroup():
            if operator.stamps:
                return _at_every_stamp(operator, inputs[0])
            return _per_group(operator, inputs[0])
        case Triggered():
            return inputs[0]
        case _:
            assert_never(operator)


def _fixed_point(fix: Fix, database: Mapping[str, Rows]) -> Rows:
    """Naive evaluation: every body again, until nothing changes or as often as it may."""
    empty: Rows = ZSet.from_rows([])
    values = [evaluate(seed, database) for seed in fix.seeds] or [empty] * len(fix.bodies)
    for _ in range(fix.limit + (fix.bound is Bound.ERROR)):
        known = {**database, **dict(zip(fix.names, values, strict=True))}
        after = [evaluate(body, known) for body in fix.bodies]
        if after == values:
            return values[fix.output]
        values = after
    if fix.bound is Bound.RESULT:
        return values[fix.output]
    raise iteration_limit(fix.names, fix.limit)


def _at_every_stamp(operator: Distinct | PerGroup, rows: Rows) -> Rows:
    """The operator on the rows stamped at most i, for every i, as changes from one to the next.

    This is for the last stamp, that of the innermost scope; those before it are the operator's own.
    """
    plain = replace(operator, stamps=operator.stamps - 1)
    result: Rows = ZSet.from_rows([])
    before: Rows = ZSet.from_rows([])
    current: Rows = ZSet.from_rows([])
    stamps: set[Any] = {row[-1] for row, _ in rows}
    for stamp in sorted(stamps):
        new = filter_rows(rows, lambda row, stamp=stamp: row[-1] == stamp)  # type: ignore[misc]
        current = current + map_rows(new, lambda row: row[:-1])
        after = apply_operator(plain, [current])
        change = after + -before
        result = result + map_rows(change, lambda row, stamp=stamp: (*row, stamp))  # type: ignore[misc]
        before = after
    return result


def _evaluable(scalar: Scalar) -> Evaluable:
    if not isinstance(scalar, Evaluable):
        raise DefinitionError("a scalar that only Spark can evaluate", detail=scalar.text)
    return scalar


def _evaluable_generator(generator: Generator) -> EvaluableGenerator:
    if not isinstance(generator, EvaluableGenerator):
        raise DefinitionError("a generator that only Spark can evaluate", detail=generator.text)
    return generator


def _row_function(scalars: Sequence[Scalar]) -> Callable[[Row], Row]:
    evaluables = [_evaluable(scalar) for scalar in scalars]
    return lambda row: tuple(scalar.evaluate(row) for scalar in evaluables)


def _join(operator: Join, left: Rows, right: Rows) -> Rows:
    left_key = _row_function(operator.left_keys)
    right_key = _row_function(operator.right_keys)
    # NULL equals nothing, so rows with a NULL in their key are dropped before they can meet.
    pairs = equi_join(
        filter_rows(left, lambda row: None not in left_key(row)),
        filter_rows(right, lambda row: None not in right_key(row)),
        left_key,
        right_key,
        lambda a, b: a + b,
    )
    if operator.residual is None:
        return pairs
    residual = _evaluable(operator.residual)
    return filter_rows(pairs, lambda row: residual.evaluate(row) is True)


def _holds(condition: Condition, left: Row, right: Row) -> bool:
    """Is the condition true of the pair?"""
    ours, theirs = (
        _row_function(keys)(row)
        for keys, row in ((condition.left_keys, left), (condition.right_keys, right))
    )
    if None in ours or ours != theirs:
        return False
    checks = (
        (condition.residual, left + right),
        (condition.left_predicate, left),
        (condition.right_predicate, right),
    )
    return all(scalar is None or _evaluable(scalar).evaluate(row) is True for scalar, row in checks)


def _semi_join(operator: SemiJoin, left: Rows, right: Rows) -> Rows:
    candidates = [row for row, weight in right if weight > 0]

    def matches(row: Row) -> bool:
        return any(_holds(c, row, other) for other in candidates for c in operator.conditions)

    match operator.answer:
        case Answer.MATCHED:
            return filter_rows(left, matches)
        case Answer.UNMATCHED:
            return filter_rows(left, lambda row: not matches(row))
        case Answer.MARKED:
            return map_rows(left, lambda row: (*row, matches(row)))


def _outer_join(operator: OuterJoin, left: Rows, right: Rows) -> Rows:
    condition = Condition(operator.left_keys, operator.right_keys, operator.residual)
    widths = len(operator.left.schema), len(operator.right.schema)
    found: list[tuple[Row, int]] = []
    matched: set[Row] = set()
    for row, weight in left:
        pairs = [(other, w) for other, w in right if _holds(condition, row, other)]
        found += [(row + other, weight * w) for other, w in pairs]
        matched.update(other for other, w in pairs if weight > 0)
        if not any(w > 0 for _, w in pairs):
            found.append((row + (None,) * widths[1], weight))
    if operator.padded is Padded.BOTH:
        found += [((None,) * widths[0] + row, w) for row, w in right if row not in matched]
    return ZSet(found, INTEGERS)


def _per_group(operator: PerGroup, rows: Rows) -> Rows:
    groups: dict[Row, list[Row]] = {} if operator.keys else {(): []}
    for row, weight in rows:
        if weight > 0:
            key = tuple(row[i] for i in operator.keys)
            groups.setdefault(key, []).extend([row] * weight)
    found: list[Row] = []
    for key, members in groups.items():
        found += _body_rows(operator.body, key, members)
    return ZSet.from_rows(found)


def _body_rows(body: Body, key: Row, members: Sequence[Row]) -> Iterable[Row]:
    match body:
        case Measures():
            return [key + tuple(_measured(measure, members) for measure in body.measures)]
        case EvaluableBody():
            return body.apply(key, members)
        case _:
            raise DefinitionError("a body that only Spark can evaluate", detail=body.text)


def _measured(measure: Measure, members: Sequence[Row]) -> Any:
    """The measure's value for a group given by its rows."""
    arguments = [_row_function(measure.arguments)(row) for row in members]
    if measure.values is Values.DISTINCT:
        arguments = list(dict.fromkeys(arguments))
    aggregate = measure.function.aggregate
    if isinstance(aggregate, LinearAggregate):
        return _finished(measure, _ring_value(measure, [(row, 1, 1) for row in arguments]))
    return aggregate.of_rows(measure, [row for row in arguments if None not in row])


def _mixed_aggregate(operator: Aggregate, rows: Rows) -> Rows:
    """An aggregate whose measures are not all linear: of the rows themselves, group by group."""
    key = _row_function([scalar for _, scalar in operator.keys])
    groups: dict[Row, list[Row]] = {} if operator.keys else {(): []}
    for row, weight in rows:
        if weight > 0:
            groups.setdefault(key(row), []).extend([row] * weight)
    return ZSet.from_rows(
        group + tuple(_measured(measure, members) for measure in operator.measures)
        for group, members in groups.items()
    )


def _aggregate(operator: Aggregate, rows: Rows) -> Rows:
    if operator.linearity is Linearity.DERIVED:
        return _mixed_aggregate(operator, rows)
    key = _row_function([scalar for _, scalar in operator.keys])
    arguments = [_row_function(measure.arguments) for measure in operator.measures]
    groups: dict[Row, list[tuple[Row, int]]] = {} if operator.keys else {(): []}
    for row, weight in rows:
        groups.setdefault(key(row), []).append((row, weight))

    merged = Literal(1, "bigint") if operator.merged is None else _evaluable(operator.merged)

    def result(group: Row, members: list[tuple[Row, int]]) -> Row | None:
        rows = [(row, weight, merged.evaluate(row)) for row, weight in members]
        values = [
            _ring_value(measure, [(function(row), weight, stands) for row, weight, stands in rows])
            for measure, function in zip(operator.measures, arguments, strict=True)
        ]
        size = sum(weight * stands for _, weight, stands in rows)
        if operator.keys and size == 0 and not any(any(value) for value in values):
            return None
        return group + tuple(map(_finished, operator.measures, values))

    results = (result(group, members) for group, members in groups.items())
    return ZSet(((row, 1) for row in results if row is not None), INTEGERS)


def _ring_value(measure: Measure, members: Members) -> tuple[Any, ...]:
    return _linear(measure).total(measure, members)


def _finished(measure: Measure, value: tuple[Any, ...]) -> Any:
    return _linear(measure).result(measure, value)


def _linear(measure: Measure) -> LinearAggregate:
    aggregate = measure.function.aggregate
    assert isinstance(aggregate, LinearAggregate)
    return aggregate
