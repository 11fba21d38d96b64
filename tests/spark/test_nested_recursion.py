"""Fixpoints inside the steps of fixpoints, and aggregates of all rows of a relation in its step."""

from __future__ import annotations

import random

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import rekindle
from rekindle.runtime.database import Database
from rekindle.runtime.recursion import Fixpoint
from tests.spark.helpers import bag, rows

Edge = tuple[int, int]


def components(db: Database) -> Fixpoint:
    """Strongly connected components by colours: (vertex, the component's least colour).

    Every round spreads the greatest vertex that reaches each one forwards along the edges between
    vertices that are not settled; then those that reach the vertex of their own colour backwards,
    through vertices of that colour, are a component and are settled.
    """
    edge = db.table("edge").distinct()
    nodes = edge.selectExpr("src AS v").union(edge.selectExpr("dst")).distinct()

    def settle(settled: DataFrame) -> DataFrame:
        left = nodes.join(settled, "v", "left_anti")
        ends = left.selectExpr("v AS src").join(edge, "src")
        among = ends.join(left.selectExpr("v AS dst"), "dst").select("src", "dst")

        def spread(colours: DataFrame) -> DataFrame:
            further = among.join(colours, F.col("src") == F.col("v")).selectExpr("dst AS v", "c")
            own = left.selectExpr("v", "v AS c")
            return own.union(further).groupBy("v").agg(F.max("c").alias("c"))

        colour = rekindle.fixpoint(left.selectExpr("v", "v AS c"), spread).dataframe()

        def back(found: DataFrame) -> DataFrame:
            into = found.selectExpr("v AS dst", "c AS d").join(among, "dst")
            same = into.selectExpr("src AS v", "d").join(colour, "v").where("c = d")
            return roots.union(same.select("v", "c")).distinct()

        roots = colour.where("v = c")
        member = rekindle.fixpoint(roots, back).dataframe()
        return settled.union(member).distinct()

    nothing = edge.where("false").selectExpr("src AS v", "dst AS c")
    return rekindle.fixpoint(nothing, settle)


def _components(edges: set[Edge]) -> set[Edge]:
    reach = {(x, x) for edge in edges for x in edge} | edges
    while more := {(a, d) for a, b in reach for c, d in reach if b == c} - reach:
        reach |= more
    return {(x, max(y for a, y in reach if a == x and (y, x) in reach)) for x, _ in reach}


@pytest.mark.parametrize("place", ["inline", "spark"])
def test_components_follow_random_changes(db: Database, place: str) -> None:
    db.sql("CREATE TABLE edge (src INT, dst INT)")
    db.create_view("component", components(db))
    db.place(place)
    pick, live = random.Random(3), list[Edge]()
    for turn in range(12 if place == "inline" else 2):
        gone = [
            live.pop(pick.randrange(len(live))) for _ in range(min(len(live), pick.randint(0, 3)))
        ]
        new = [(pick.randint(0, 6), pick.randint(0, 6)) for _ in range(pick.randint(1, 4))]
        live += new
        with db.transaction() as tx:
            tx.insert("edge", new)
            tx.delete("edge", gone)
        assert rows(db, "component") == bag(_components(set(live))), turn
    assert db.last_step is not None
    assert not any(step.rebuilt for step in db.last_step.nodes.values())
    db.check("component")
