"""The policy `view_tree` for any join: a tree where one is narrow, lookups where none is.

The views of a tree over an acyclic join have a row of one relation for each of theirs. Over a cycle
no order is like that: the triangle R(a, b), S(b, c), T(c, a) sums out a variable of two relations
that share only it, and the view over the other two has |R|·|S| rows in the worst case. F-IVM bounds
that view by an indicator projection of the third relation, ∃T(c, a), which takes a join of three at
once; joins of two would keep the join of the first two all the same.

So a cyclic join is kept by triggers instead (`deltas.narrow_deltas`): a change meets one relation
after another, each by all the variables that are bound by then. Nothing is kept but relations and
narrow views, and nothing of a change but what closes the cycle.

Triggers are for exact sums and few relations. A cyclic join that they refuse follows a tree.
"""

from __future__ import annotations

from rekindle.calculus.terms import Aggregate, Term
from rekindle.incremental.policies.arithmetic import Arithmetic
from rekindle.incremental.policies.decisions import Built, Factorised, apply_policy
from rekindle.incremental.policies.deltas import MAXIMUM_LEAVES, has_wide_parts, narrow_deltas
from rekindle.incremental.policies.higher_order import triggered
from rekindle.incremental.policies.hypergraph import Hypergraph
from rekindle.incremental.policies.joins import JoinQuery, Refusal
from rekindle.incremental.policies.view_tree import follow_best_order, tree_term


def is_cyclic(query: Hypergraph) -> bool:
    """Has every tree of a join of few relations a view that is wider than they are?"""
    return 2 < len(query.relations) <= MAXIMUM_LEAVES and has_wide_parts(query)


def follow_narrow_views(term: Term, arithmetic: Arithmetic) -> Factorised:
    """An equal term of the same schema, in which every join query keeps narrow views."""

    def build(query: JoinQuery, aggregate: Aggregate) -> Built | Refusal:
        if is_cyclic(query.hypergraph):
            looked_up = triggered(query, aggregate, arithmetic, narrow_deltas)
            if isinstance(looked_up, Built):
                return looked_up
        tree = follow_best_order(query)
        found = tree_term(query, tree, arithmetic)
        return found if isinstance(found, Refusal) else Built(found, tree)

    return apply_policy(term, arithmetic, build)
