"""Plans of DataFrames as they are stored: every leaf that stands for a table is a named marker.

So a plan can be kept with a view and, when the view is checked, be run over the tables as they are
then.
"""

from __future__ import annotations

from collections.abc import Sequence

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame

from rekindle.catalyst.jvm import Catalyst, JavaObject, analysed_plan, items, simple_name
from rekindle.catalyst.stored_plans import plans_to_text, restored, storable
from rekindle.errors import DefinitionError, UnsupportedError
from rekindle.frontends.catalog import ContentsOf
from rekindle.frontends.spark_sql.analyse import Leaves, with_instant
from rekindle.frontends.spark_sql.nested_frames import nested_name

MARK = "rekindle."


def stored_plans(catalyst: Catalyst, name: str, plans: Sequence[JavaObject]) -> str:
    """The text of the marked plans of a view."""
    try:
        return plans_to_text(catalyst, plans)
    except Py4JJavaError as error:
        raise DefinitionError(
            f"the DataFrame of view '{name}' cannot be stored",
            detail=str(error.java_exception),
            hint="define the view by SQL text; a DataFrame may not have subqueries inside "
            "(scalar(), exists()), but may be a join",
        ) from error


def marked(catalyst: Catalyst, leaves: Leaves, frame: DataFrame) -> JavaObject:
    """The plan of a frame in the form that is stored, with markers for the tables."""
    alias = catalyst.module("org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias")

    def mark(node: JavaObject) -> JavaObject | None:
        name = nested_name(leaves, node)
        if name is None and simple_name(node) != "LogicalRDD":
            return None
        name = name or leaves.name_of(node)
        if name is None:
            raise UnsupportedError(
                "the view reads data that is not a table of this database",
                hint="build the DataFrame from db.table(...), or load the data into a table",
            )
        local = catalyst.plan("LocalRelation")(
            node.output(), catalyst.seq(()), False, catalyst.none()
        )
        return alias.apply(MARK + name, local)

    # Storable first: a lateral join does not show its subquery's leaves among its children.
    plan = analysed_plan(frame)
    return catalyst.transform(storable(catalyst, plan), mark)


def filled(catalyst: Catalyst, plan: JavaObject, contents: ContentsOf) -> DataFrame:
    """The DataFrame that a marked plan stands for, over the rows that its markers do."""

    def fill(node: JavaObject) -> JavaObject | None:
        if simple_name(node) != "SubqueryAlias" or not str(node.alias()).startswith(MARK):
            return None
        rows = analysed_plan(contents(str(node.alias())[len(MARK) :]))
        renamed = [
            catalyst.alias(column, wanted.name(), wanted.exprId())
            for column, wanted in zip(
                items(rows.output()), items(node.child().output()), strict=True
            )
        ]
        return catalyst.plan("Project")(catalyst.seq(renamed), rows)

    frame = catalyst.dataframe(restored(catalyst, catalyst.transform(plan, fill)))
    return with_instant(catalyst, frame)
