"""Figure 4.4: what a term costs, found by running it on costs in place of values.

The cost of a ground value is a number n ≥ 1 that grows with its size; of a pair, the pair of its
costs; of a function, a function of costs. On costs zero is 1, ⊕ is max, ⊖ is id and a primitive is
its udef°; everything else runs as it does on values. The figure calls this a translation into a
language over ℕ⁺. There delta₀ could not work: the term it has to derive is that of the value, not
that of its cost. So the cost of a function is a closure that still holds the former.

Theorem 13 says cost(δ(h))(ε, εΔ) ≺ cost(h)(ε) where εΔ ≺ ε. The chapter writes ≺, its proof
(A.4.2) uses ≤ throughout, and corollary 4.3.1 needs "strict, except for the bottom element". These
are two theorems, so both orders are here and both are tested:

- `at_most`: ≤ at every ground type. The theorem then asks of the primitives only the same, and says
  little: udef(a ⊕ da) ⊖ udef(a), which computes everything anew, has that property too, for the
  larger of two equal costs is that cost.
- `below`: < at every ground type, unless both are 1. The induction of A.4.2 goes through as it
  stands, and corollary 4.3.1 follows. It asks more of the primitives. Cost n · m does not do for a
  bilinear one: at m = 1 the delta by the first argument still pays n · 1 for a change of the second
  that is zero. Cost 1 + (n − 1)(m − 1) does (`primitives.product_of_sizes`).

The price of the second reading: 1 is then the cost of nothing, and corollary 4.3.1, whose changes
cost 1, is about changes of nothing. What it is after is that constant changes meet constant costs.
For changes of some constant cost that says: from some n on, cost(Δⁿh) no longer depends on ε, which
is tested beside it.

Either way costs are those of terms with every function inlined, an estimate from above.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, assert_never

from rekindle.nested.functions.delta import higher_delta
from rekindle.nested.functions.evaluation import Samples, evaluate
from rekindle.nested.functions.terms import Defined, Term, Value, plus_of, zero_of
from rekindle.nested.functions.types import Function, Ground, Product, Type, Unit

Cost: TypeAlias = Value
"""A value of A°: (), a number of at least 1, a pair of costs, or a closure over costs."""


@dataclass(frozen=True, slots=True)
class Costs:
    """Figure 4.4: cost(0) = 1, cost(⊕) = max, cost(⊖) = id, cost(udef) = udef°."""

    def zero(self, type_: Ground, /) -> Cost:
        return 1

    def plus(self, type_: Ground, left: Cost, right: Cost, /) -> Cost:
        return max(left, right)

    def minus(self, type_: Ground, value: Cost, /) -> Cost:
        return value

    def defined(self, primitive: Defined, value: Cost, /) -> Cost:
        return primitive.cost(value)


COSTS = Costs()


def cost(term: Term, of_input: Cost) -> Cost:
    """cost(h)(ε): what h's output costs, from the cost of its input.

    >>> from rekindle.nested.functions.delta import delta
    >>> from rekindle.nested.functions.primitives import TIMES
    >>> cost(TIMES, (100, 10)), cost(delta(TIMES), ((100, 10), (2, 2)))
    (892, 100)
    """
    return evaluate(term, of_input, COSTS)


def bottom(type_: Type) -> Cost:
    """1°_A: the cost of zero (definition 3); that of a constant change.

    >>> from rekindle.nested.functions.types import BAG, UNIT
    >>> bottom(Product(BAG, UNIT))
    (1, ())
    """
    return cost(zero_of(type_), ())


def larger(type_: Type, left: Cost, right: Cost) -> Cost:
    """max°_A: the cost of a sum (definition 3).

    >>> from rekindle.nested.functions.types import BAG
    >>> larger(Product(BAG, BAG), (1, 5), (3, 2))
    (3, 5)
    """
    return cost(plus_of(type_), (left, right))


def at_most(type_: Type, left: Cost, right: Cost, samples: Samples) -> bool:
    """left ≤_A right: at every ground type, and for functions at every sample.

    >>> from rekindle.nested.functions.types import BAG
    >>> at_most(Product(BAG, BAG), (1, 2), (1, 3), lambda type_: [])
    True
    """
    match type_:
        case Unit():
            return True
        case Ground():
            return bool(left <= right)
        case Product(first, second):
            return at_most(first, left[0], right[0], samples) and at_most(
                second, left[1], right[1], samples
            )
        case Function(argument, result):
            return all(at_most(result, left(a), right(a), samples) for a in samples(argument))
        case _:
            assert_never(type_)


def below(type_: Type, left: Cost, right: Cost, samples: Samples) -> bool:
    """left ≺_A right (definition 2): less at every ground type, unless both are 1 there.

    >>> from rekindle.nested.functions.types import BAG
    >>> below(Product(BAG, BAG), (1, 2), (1, 3), lambda type_: [])
    True
    >>> below(BAG, 2, 2, lambda type_: [])
    False
    """
    match type_:
        case Unit():
            return True
        case Ground():
            return bool(left < right or left == right == 1)
        case Product(first, second):
            return below(first, left[0], right[0], samples) and below(
                second, left[1], right[1], samples
            )
        case Function(argument, result):
            return all(below(result, left(a), right(a), samples) for a in samples(argument))
        case _:
            assert_never(type_)


def cost_of_higher_delta(term: Term, order: int, of_input: Cost, of_change: Cost) -> Cost:
    """cost(Δⁿh)(ε)(εΔ)…(εΔ): what the n-th delta costs for changes of this cost.

    >>> from rekindle.nested.functions.primitives import TIMES
    >>> [cost_of_higher_delta(TIMES, order, (100, 10), (2, 2)) for order in range(4)]
    [892, 100, 2, 1]
    >>> [cost_of_higher_delta(TIMES, order, (100, 10), (1, 1)) for order in range(2)]
    [892, 1]
    """
    found = cost(higher_delta(term, order), of_input)
    for _ in range(order):
        found = found(of_change)
    return found


def order_that_is_constant(term: Term, of_input: Cost, samples: Samples, limit: int) -> int | None:
    """Corollary 4.3.1: the least n ≥ 1 with cost(Δⁿh)(ε)(1°)…(1°) = 1°, or None up to a limit.

    From there on a delta is as cheap to compute as to keep. Where B has functions in it the
    corollary is read at each sample: no n need serve all of their infinitely many arguments.

    >>> from rekindle.nested.functions.primitives import TIMES
    >>> order_that_is_constant(TIMES, (100, 10), lambda type_: [], limit=3)
    1
    """
    change, constant = bottom(term.source), bottom(term.target)
    for order in range(1, limit + 1):
        found = cost_of_higher_delta(term, order, of_input, change)
        if at_most(term.target, found, constant, samples):
            return order
    return None
