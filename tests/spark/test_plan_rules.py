"""The rules on Catalyst's plans: in one order, each comes to rest, and no rule changes columns."""

from __future__ import annotations

import pytest

from rekindle.calculus.walks import visited
from rekindle.catalyst.jvm import Catalyst, JavaObject, children_of, simple_name
from rekindle.catalyst.rules import rewrite
from rekindle.errors import DefinitionError
from rekindle.frontends.spark_sql.analyse import optimise
from rekindle.frontends.spark_sql.rewriting import rewritten, rules
from rekindle.runtime.database import Database

QUERY = """
    SELECT DISTINCT a, b + (SELECT max(b) FROM t WHERE b < (SELECT avg(b) FROM t)) AS c FROM t
    WHERE b > (SELECT min(b) FROM t)
"""


@pytest.fixture
def plan(db: Database) -> JavaObject:
    db.sql("CREATE TABLE t (a STRING COLLATE UTF8_LCASE, b INT)")
    catalog = db._connection.definitions.catalog
    return optimise(catalog.catalyst, catalog.leaves, catalog.resolve(QUERY))


def test_the_order_of_the_rules(db: Database) -> None:
    assert [rule.__name__ for rule in rules(db._connection.leaves)] == [
        "join_scalar_subqueries",
        "open_dictionaries",
        "raise_half_joins",
        "replace_distincts",
        "compute_sessions",
        "group_by_collation_keys",
    ]


def test_a_rewritten_plan_is_at_rest(db: Database, plan: JavaObject) -> None:
    catalyst, leaves = db._connection.catalyst, db._connection.leaves
    found = rewritten(catalyst, leaves, plan)
    assert found is not plan
    assert found.subqueriesAll().isEmpty()
    assert "Distinct" not in {simple_name(node) for node in visited(found, children_of)}
    for rule in rules(leaves):
        assert rule(catalyst, found) is found, rule.__name__
    assert rewritten(catalyst, leaves, found) is found


def test_a_rule_that_does_not_come_to_rest(
    db: Database, plan: JavaObject, monkeypatch: pytest.MonkeyPatch
) -> None:
    def turn_around(catalyst: Catalyst, plan: JavaObject) -> JavaObject:
        below = plan.child() if simple_name(plan) == "Project" else plan
        return catalyst.plan("Project")(plan.output(), below)

    monkeypatch.setattr("rekindle.catalyst.rules.ROUNDS", 3)
    with pytest.raises(DefinitionError, match="do not come to an end") as caught:
        rewrite(db._connection.catalyst, plan, [turn_around])
    assert "turn_around still changed it" in caught.value.detail


def test_a_rule_that_loses_a_column(db: Database, plan: JavaObject) -> None:
    def lose_column(catalyst: Catalyst, plan: JavaObject) -> JavaObject:
        return catalyst.plan("Project")(catalyst.seq([plan.output().head()]), plan)

    with pytest.raises(DefinitionError, match="lose_column changed the columns"):
        rewrite(db._connection.catalyst, plan, [lose_column])
