"""Aggregates, each a class of its own in a file of its own, and the one list of them.

A new aggregate is a file with its class (`base`), a line in `AggregateFunction` and its test; see
docs/design/aggregates.md.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

from rekindle.aggregates.base import GroupAggregate, LinearAggregate, SparkForm
from rekindle.aggregates.bits import BitAnd, BitOr, BitXor
from rekindle.aggregates.booleans import All, Some
from rekindle.aggregates.counts import Count
from rekindle.aggregates.exact_sums import ExactSums
from rekindle.aggregates.extremes import Greatest, Least
from rekindle.aggregates.higher_moments import FourthMoments
from rekindle.aggregates.modes import GreatestMode, LeastMode
from rekindle.aggregates.moments import SecondComoments, SecondMoments
from rekindle.aggregates.others import Other
from rekindle.aggregates.polynomials import PolynomialSums
from rekindle.aggregates.ring_sums import RingSums
from rekindle.aggregates.sums import Average, Sum


class AggregateFunction(enum.Enum):
    """Every aggregate. The value of a member is the word that is stored, its tag.

    >>> AggregateFunction("sum").aggregate.is_mergeable
    True
    """

    _value_: str
    aggregate: LinearAggregate | GroupAggregate

    def __new__(cls, aggregate: LinearAggregate | GroupAggregate) -> AggregateFunction:
        member = object.__new__(cls)
        member._value_ = aggregate.tag
        member.aggregate = aggregate
        return member

    COUNT = Count()
    SUM = Sum()
    AVERAGE = Average()
    MOMENTS = SecondMoments()
    COMOMENTS = SecondComoments()
    HIGHER_MOMENTS = FourthMoments()
    ALL = All()
    ANY = Some()
    BIT_AND = BitAnd()
    BIT_OR = BitOr()
    BIT_XOR = BitXor()
    POLYNOMIALS = PolynomialSums()
    EXACT_SUM = ExactSums()
    RING = RingSums()
    LEAST = Least()
    GREATEST = Greatest()
    MODE = LeastMode()
    MODE_DESCENDING = GreatestMode()
    OTHER = Other()

    @property
    def is_linear(self) -> bool:
        return isinstance(self.aggregate, LinearAggregate)

    @property
    def is_mergeable(self) -> bool:
        """Can it go on from sums over some of the rows?"""
        return isinstance(self.aggregate, LinearAggregate) and self.aggregate.is_mergeable


def linear_call(
    kind: str, types: Sequence[str], mode: str
) -> tuple[AggregateFunction, SparkForm] | None:
    """The linear aggregate that a call of Spark's class `kind` over such arguments is, if any.

    >>> linear_call("Min", ["boolean"], "")[0]
    <AggregateFunction.ALL: 'all'>
    >>> linear_call("Min", ["int"], "") is None
    True
    """
    for function in AggregateFunction:
        aggregate = function.aggregate
        if not isinstance(aggregate, LinearAggregate) or kind not in aggregate.calls:
            continue
        if aggregate.takes(types, mode):
            return function, aggregate.calls[kind]
    return None


def ordered_call(kind: str) -> tuple[AggregateFunction, str] | None:
    """The aggregate that a class of Spark's is whose result the first rows decide, and the order.

    >>> ordered_call("MaxBy")
    (<AggregateFunction.GREATEST: 'greatest'>, 'Descending')
    """
    for function in AggregateFunction:
        aggregate = function.aggregate
        if isinstance(aggregate, GroupAggregate) and kind in aggregate.calls:
            return function, aggregate.direction
    return None
