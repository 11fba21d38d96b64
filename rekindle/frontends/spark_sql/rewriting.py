"""The rules on Catalyst's optimised plans, and their order, before a plan is translated.

Catalyst optimises for one run over all rows. What is worse to maintain, or has no term of its own,
is brought into another shape here, by rules that each give an equal plan. Queries of a WITH clause
are divided before they are resolved, so that is no rule on plans (`shared_queries.py`).
"""

from __future__ import annotations

from rekindle.catalyst.jvm import Catalyst, JavaObject
from rekindle.catalyst.rules import Rule, rewrite
from rekindle.frontends.spark_sql.analyse import Leaves
from rekindle.frontends.spark_sql.rules.compute_sessions import compute_sessions
from rekindle.frontends.spark_sql.rules.group_by_collation_keys import group_by_collation_keys
from rekindle.frontends.spark_sql.rules.join_scalar_subqueries import join_scalar_subqueries
from rekindle.frontends.spark_sql.rules.open_dictionaries import open_dictionaries
from rekindle.frontends.spark_sql.rules.raise_half_joins import raise_half_joins
from rekindle.frontends.spark_sql.rules.replace_distincts import replace_distincts


def rules(leaves: Leaves) -> tuple[Rule, ...]:
    """The rules, in order, over what the leaves of plans stand for."""
    return (
        join_scalar_subqueries(leaves),  # first: the others do not look into expressions
        open_dictionaries(leaves),  # the others shall see the joins with dictionaries
        raise_half_joins,
        replace_distincts,
        compute_sessions,  # before groups have other keys than it knows sessions by
        group_by_collation_keys,
    )


def rewritten(catalyst: Catalyst, leaves: Leaves, plan: JavaObject) -> JavaObject:
    """An optimised plan as it is translated."""
    return rewrite(catalyst, plan, rules(leaves))
