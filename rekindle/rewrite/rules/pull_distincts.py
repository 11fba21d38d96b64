"""Distincts move up: ispositive(i) ⇒ Q(distinct(i)) = distinct(Q(i)) for Q a filter or a join.

Proposition 4.4. The weight of a row of σ(i) is its weight in i, and the weight of a row of a ⋈ b
is a product of two weights: for positive inputs it is positive exactly when both are, so weights
may be cut to one before or after.

Of a join both inputs must be distinct. With a bag on one side, distinct(a) ⋈ b has b's weights
and distinct(a ⋈ b) has lost them. The same goes for maps and unions: they add weights, and the
result of a map over a set is a bag. Only an outer distinct makes that harmless
(`drop_inner_distincts`).

The price: a distinct keeps the integral of its input. Over a filter that is no more than before.
Over an equi-join two distincts become one. Over a product (no keys) it would be all pairs, which
the two distincts below never store, so a product is left alone although the law covers it; under
an outer distinct its distincts go anyway.
"""

from __future__ import annotations

from dataclasses import replace

from rekindle.calculus.terms import Distinct, Filter, Join, Term
from rekindle.rewrite.analyses.positivity import is_positive


def pull_distincts(term: Term) -> Term:
    """The distinct of a filter or equi-join, where the inputs were distinct.

    >>> from rekindle.calculus.scalars import Literal
    >>> from rekindle.calculus.schema import Schema
    >>> from rekindle.calculus.terms import Source
    >>> t, always = Source("t", Schema.of(x="int")), Literal(True, "boolean")
    >>> pull_distincts(Filter(Distinct(t), always)) == Distinct(Filter(t, always))
    True
    """
    match term:
        case Filter(Distinct(child)) if is_positive(child):
            return Distinct(replace(term, child=child))
        case Join(Distinct(left), Distinct(right)) if (
            term.left_keys and is_positive(left) and is_positive(right)
        ):
            return Distinct(replace(term, left=left, right=right))
        case _:
            return term
