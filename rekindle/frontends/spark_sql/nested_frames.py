"""DataFrames of nested tables and views, recognised in the definitions of views.

A user is given nested rows as a plan that assembles them from the rows of the parts. In a view that
is defined by a DataFrame such a plan stands for the table or view, as a leaf does for a flat one:
it has the name around it, and becomes the leaf again before the optimiser looks inside.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from rekindle.catalyst.jvm import Catalyst, JavaObject, analysed_plan, items, simple_name
from rekindle.frontends.spark_sql.analyse import Leaves
from rekindle.names import HIDDEN


def marked_nested(catalyst: Catalyst, name: str, rows: DataFrame) -> JavaObject:
    """The plan of nested rows with the name around it."""
    alias = catalyst.module("org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias")
    return alias.apply(HIDDEN + name, analysed_plan(rows))


def nested_name(leaves: Leaves, plan: JavaObject) -> str | None:
    """The nested table or view that a plan stands for; None also if it has been dropped since."""
    if simple_name(plan) != "SubqueryAlias" or not str(plan.alias()).startswith(HIDDEN):
        return None
    name = str(plan.alias())[len(HIDDEN) :]
    if name not in leaves.levels:
        return None
    rows = [leaf for leaf in items(plan.collectLeaves()) if simple_name(leaf) == "LogicalRDD"]
    return name if all(leaves.name_of(leaf) is not None for leaf in rows) else None


def with_leaves(catalyst: Catalyst, leaves: Leaves, frame: DataFrame) -> DataFrame:
    """A DataFrame with leaves in the place of nested rows."""
    if not leaves.levels:
        return frame

    def change(node: JavaObject) -> JavaObject | None:
        name = nested_name(leaves, node)
        if name is None:
            return None
        leaf = leaves.plans[name].newInstance()
        columns = [
            catalyst.alias(new, old.name(), old.exprId())
            for new, old in zip(items(leaf.output()), items(node.output()), strict=True)
        ]
        return catalyst.plan("Project")(catalyst.seq(columns), leaf)

    plan = analysed_plan(frame)
    changed = catalyst.transform(plan, change)
    return frame if changed is plan else catalyst.dataframe(changed)
