"""The reference meaning of a term: a function from the database to a Z-set of rows.

`apply_operator` is the meaning of one node, a function of its inputs' Z-sets; `evaluate` composes
them over a whole term. Everything else (rewrites, the incremental circuit, the kernels on Spark)
is right when it agrees with this module, so it is written for clarity. Only scalars and generators
with a meaning in Python can be evaluated.

An aggregate is a linear map of the group's rows into a ring, then one scalar step. `_ring_value`
gives the first half as a tuple of sums over the rows whose arguments are all present, each row
taken as often as its weight says:

| function  | the ring value                    | the result when the measure has no `finish`    |
|-----------|-----------------------------------|------------------------------------------------|
| count     | n                                 | n                                              |
| sum       | n, Σx                             | Σx, or NULL when n = 0                         |
| average   | n, Σx                             | Σx / n, or NULL when n = 0                     |
| moments   | n, Σx, Σx²                        | the population variance, or NULL when n = 0    |
| comoments | n, Σx, Σy, Σx², Σxy, Σy²          | the population covariance, or NULL when n = 0  |
| all, any  | n, how often true                 | a boolean, or NULL when n = 0                  |

Quotients of whole numbers are exact `Fraction`s: a reference that rounds could not be compared
with `==`. Floating point arguments are added as Python adds them, and are best kept out of tests
that compare. A group exists when its ring value, with the number of its rows, is not zero: over
a bag that means when it has rows, as in SQL.

DBSP, section 4.2, table 1 and section 7.2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import reduce
from typing import Any, TypeAlias, assert_never

from rekindle.algebra.groups import INTEGERS
from rekindle.algebra.relational import distinct, equi_join, filter_rows, flat_map, map_rows
from rekindle.algebra.zset import ZSet
from rekindle.calculus.generators import EvaluableGenerator
from rekindle.calculus.scalars import Evaluable, Row, Scalar
from rekindle.calculus.terms import (
    Aggregate,
    AggregateFunction,
    Distinct,
    Filter,
    FlatMap,
    Generator,
    Join,
    Map,
    Measure,
    Negate,
    Source,
    Term,
    UnionAll,
)
from rekindle.errors import DefinitionError, unknown_name

Rows: TypeAlias = ZSet[Row, int]


def evaluate(term: Term, database: Mapping[str, Rows]) -> Rows:
    """The Z-set that a term denotes when each source has the contents given by `database`.

    >>> from rekindle.calculus.schema import Schema
    >>> t = Source("t", Schema.of(x="int"))
    >>> evaluate(UnionAll((t, t)), {"t": ZSet.from_rows([(1,)])})
    ZSet({(1,): 2})
    """
    if isinstance(term, Source):
        if term.name not in database:
            raise unknown_name("source", term.name, database)
        return database[term.name]
    return apply_operator(term, [evaluate(child, database) for child in term.children])


def apply_operator(operator: Term, inputs: Sequence[Rows]) -> Rows:
    """The meaning of the node at the root of `operator`, given its inputs' values."""
    match operator:
        case Source():
            raise DefinitionError(f"the source '{operator.name}' is not an operator")
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
        case Distinct():
            return distinct(inputs[0])
        case Aggregate():
            return _aggregate(operator, inputs[0])
        case _:
            assert_never(operator)


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


def _aggregate(operator: Aggregate, rows: Rows) -> Rows:
    key = _row_function([scalar for _, scalar in operator.keys])
    arguments = [_row_function(measure.arguments) for measure in operator.measures]
    groups: dict[Row, list[tuple[Row, int]]] = {} if operator.keys else {(): []}
    for row, weight in rows:
        groups.setdefault(key(row), []).append((row, weight))

    def result(group: Row, members: list[tuple[Row, int]]) -> Row | None:
        values = [
            _ring_value(measure, [(function(row), weight) for row, weight in members])
            for measure, function in zip(operator.measures, arguments, strict=True)
        ]
        size = sum(weight for _, weight in members)
        if operator.keys and size == 0 and not any(any(value) for value in values):
            return None
        return group + tuple(map(_finished, operator.measures, values))

    results = (result(group, members) for group, members in groups.items())
    return ZSet(((row, 1) for row in results if row is not None), INTEGERS)


_COMPONENTS: Mapping[AggregateFunction, Callable[..., tuple[Any, ...]]] = {
    AggregateFunction.COUNT: lambda *_: (1,),
    AggregateFunction.SUM: lambda x: (1, x),
    AggregateFunction.AVERAGE: lambda x: (1, x),
    AggregateFunction.MOMENTS: lambda x: (1, x, x * x),
    AggregateFunction.COMOMENTS: lambda x, y: (1, x, y, x * x, x * y, y * y),
    AggregateFunction.ALL: lambda x: (1, int(x)),
    AggregateFunction.ANY: lambda x: (1, int(x)),
}
"""What one row adds to its group's ring value."""

_WIDTHS: Mapping[AggregateFunction, int] = {
    AggregateFunction.COUNT: 1,
    AggregateFunction.SUM: 2,
    AggregateFunction.AVERAGE: 2,
    AggregateFunction.MOMENTS: 3,
    AggregateFunction.COMOMENTS: 6,
    AggregateFunction.ALL: 2,
    AggregateFunction.ANY: 2,
}


def _ring_value(measure: Measure, members: Sequence[tuple[Row, int]]) -> tuple[Any, ...]:
    """The sum of the components of the rows whose arguments are all present, by weight."""
    total: tuple[Any, ...] = (0,) * _WIDTHS[measure.function]
    components = _COMPONENTS[measure.function]
    for arguments, weight in members:
        if None not in arguments:
            row = components(*arguments)
            total = tuple(t + weight * c for t, c in zip(total, row, strict=True))
    return total


def _finished(measure: Measure, value: tuple[Any, ...]) -> Any:
    """The measure's result: its own `finish` of the ring value, or the usual last step."""
    if measure.finish is not None:
        if not callable(measure.finish):
            raise DefinitionError(
                f"the last step of '{measure.name}' is one that only Spark can do"
            )
        return measure.finish(value)
    count, *sums = value
    if measure.function is AggregateFunction.COUNT:
        return count
    if count == 0:
        return None
    match measure.function:
        case AggregateFunction.SUM:
            return sums[0]
        case AggregateFunction.AVERAGE:
            return _quotient(sums[0], count)
        case AggregateFunction.MOMENTS:
            x, xx = sums
            return _quotient(xx, count) - _quotient(x, count) ** 2
        case AggregateFunction.COMOMENTS:
            x, y, _, xy, _ = sums
            return _quotient(xy, count) - _quotient(x, count) * _quotient(y, count)
        case AggregateFunction.ALL:
            return bool(sums[0] == count)
        case AggregateFunction.ANY:
            return bool(sums[0] != 0)
        case _:
            assert_never(measure.function)


def _quotient(value: Any, count: int) -> Any:
    return Fraction(value, count) if isinstance(value, int) else value / count
