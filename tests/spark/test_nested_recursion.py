"""Fixpoints inside the steps of fixpoints, and aggregates of all rows of a relation in its step."""

from __future__ import annotations

import random

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle
from rekindle.errors import DefinitionError, IterationLimitError
from rekindle.frontends.fixpoints.fixpoint import Fixpoint
from rekindle.runtime.database import Database
from rekindle.spark.step import Placement
from tests.nested.frames import fixpoint
from tests.nested.programs import EndlessError, random_program, result, with_functions
from tests.spark.helpers import bag, refused, rows, strays

Edge = tuple[int, int]


def components(db: Database) -> Fixpoint:
    """Strongly connected components by colours, as the reference has it: (vertex, component).

    Every round spreads the greatest vertex that reaches each one forwards along the edges between
    vertices that are not settled; then those that reach the vertex of their own colour backwards,
    through vertices of that colour, are a component and are settled.
    """
    edge = db.table("edge").distinct()
    vertex = edge.selectExpr("src AS v").union(edge.selectExpr("dst")).distinct()

    def settle(settled: DataFrame) -> DataFrame:
        left = vertex.join(settled, "v", "left_anti")
        among = edge.join(left.selectExpr("v AS src"), "src")
        among = among.join(left.selectExpr("v AS dst"), "dst")

        def spread(colour: DataFrame) -> DataFrame:
            further = among.join(colour, among.src == colour.v).selectExpr("dst AS v", "c")
            own = left.selectExpr("v", "v AS c")
            return own.union(further).groupBy("v").agg(F.max("c").alias("c"))

        colour = rekindle.fixpoint(left.selectExpr("v", "v AS c"), spread).dataframe()
        root = colour.where("v = c")

        def back(member: DataFrame) -> DataFrame:
            before = member.selectExpr("v AS dst", "c AS d").join(among, "dst")
            found = before.selectExpr("src AS v", "d").join(colour, "v").where("c = d")
            return root.union(found.select("v", "c")).distinct()

        return settled.union(rekindle.fixpoint(root, back).dataframe()).distinct()

    nothing = edge.where("false").selectExpr("src AS v", "dst AS c")
    return rekindle.fixpoint(nothing, settle)


def _components(edges: set[Edge]) -> set[Edge]:
    reach = {(x, x) for edge in edges for x in edge} | edges
    while more := {(a, d) for a, b in reach for c, d in reach if b == c} - reach:
        reach |= more
    return {(x, max(y for a, y in reach if a == x and (y, x) in reach)) for x, _ in reach}


def _step(db: Database, live: list[Edge], pick: random.Random, size: int = 6) -> None:
    gone = [live.pop(pick.randrange(len(live))) for _ in range(min(len(live), pick.randint(0, 3)))]
    new = [(pick.randint(0, size), pick.randint(0, size)) for _ in range(pick.randint(1, 4))]
    live += new
    with db.transaction() as tx:
        tx.insert("edge", new)
        tx.delete("edge", gone)


def _touched(db: Database) -> int:
    """How many rows the last step read."""
    assert db.last_step is not None
    return sum(step.rows_in for step in db.last_step.nodes.values())


def test_components_follow_random_changes(db: Database) -> None:
    db.sql("CREATE TABLE edge (src INT, dst INT)")
    db.create_view("component", components(db))
    pick, live = random.Random(3), list[Edge]()
    for _ in range(5):
        _step(db, live, pick)
        assert rows(db, "component") == bag(_components(set(live)))
        assert db.last_step is not None
        assert not any(step.rebuilt for step in db.last_step.nodes.values())
    with db.transaction() as tx:
        tx.delete("edge", live)
    assert rows(db, "component") == bag([])
    ring = [(i, i + 1) for i in range(100, 140)] + [(140, 100)]
    with db.transaction() as tx:
        tx.insert("edge", [*ring, (1, 2)])
    whole = _touched(db)
    db.sql("INSERT INTO edge VALUES (2, 1)")
    assert rows(db, "component") == bag(_components({*ring, (1, 2), (2, 1)}))
    # The ring is neither read nor iterated through, though its colours took 40 iterations.
    assert 10 * _touched(db) < whole
    last = db.last_step
    assert last is not None and max(step.visits for step in last.nodes.values()) < 12


@pytest.mark.parametrize(("seed", "functions"), [(11, False), (19, False), (6, True), (12, True)])
def test_random_programs_follow_random_changes(db: Database, seed: int, functions: bool) -> None:
    """Also where they do not end: then nothing is applied."""
    program = random_program(random.Random(seed))
    if functions:
        program = with_functions(program, random.Random(seed))
    db.sql("CREATE TABLE edge (a INT, b INT)")
    db.create_view("v", fixpoint(program, db.table("edge").distinct()))
    pick, live, endless = random.Random(seed + 1000), list[Edge](), 0
    for _ in range(6):
        before = list(live)
        try:
            _step(db, live, pick, size=3)
        except IterationLimitError:
            with pytest.raises(EndlessError):
                result(program, frozenset(live))
            live, endless = before, endless + 1
        assert rows(db, "edge") == bag(live)
        assert rows(db, "v") == bag(result(program, frozenset(live)))
    assert endless < 6


def _reach(db: Database, iterations: int = 100) -> Fixpoint:
    """The vertices that 0 reaches, of which each round takes the greatest away."""
    edge = db.table("edge")

    def peel(gone: DataFrame) -> DataFrame:
        def walk(reached: DataFrame) -> DataFrame:
            there = edge.join(reached, F.col("src") == F.col("v")).selectExpr("dst AS v")
            return start.union(there).distinct().join(gone, "v", "left_anti")

        start = edge.where("src = 0").selectExpr("src AS v").distinct()
        reached = rekindle.fixpoint(start, walk, iterations=iterations).dataframe()
        last = reached.where("v > 0").agg(F.max("v").alias("v")).where("v IS NOT NULL")
        return gone.union(last).distinct()

    nothing = edge.where("src IS NULL AND src IS NOT NULL").selectExpr("src AS v")
    return rekindle.fixpoint(nothing, peel, iterations=iterations)


def _peeled(edges: list[Edge]) -> set[tuple[int]]:
    gone = set[int]()
    while True:
        reached = {0} if any(a == 0 for a, _ in edges) else set[int]()
        while more := {b for a, b in edges if a in reached} - reached - gone:
            reached |= more
        if not reached - {0}:
            return {(v,) for v in gone}
        gone.add(max(reached))


def test_large_iterations_inside_others_are_spark_jobs(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rekindle.spark.inline.MAXIMUM_TURN_ROWS", 1)
    db.sql("CREATE TABLE edge (src INT, dst INT)")
    db.create_view("peeled", _reach(db))
    db.place("spark")
    live = [(0, 1), (1, 2), (0, 2)]
    with db.transaction() as tx:
        tx.insert("edge", live)
    assert rows(db, "peeled") == bag(_peeled(live))
    steps = db.last_step.nodes if db.last_step is not None else {}
    assert any(s.visits > 1 and s.placement is Placement.SPARK for s in steps.values())
    with db.transaction() as tx:
        tx.delete("edge", [(0, 2)])
    assert rows(db, "peeled") == bag(_peeled(live[:2]))
    assert strays(db) == []


def test_nested_recursions_are_checked_and_found_again(warehouse: str, spark: SparkSession) -> None:
    live = [(0, 3), (3, 1), (0, 1)]
    with rekindle.connect(warehouse, spark=spark) as db:
        db.sql("CREATE TABLE edge (src INT, dst INT)")
        db.create_view("peeled", _reach(db))
        with db.transaction() as tx:
            tx.insert("edge", live)
    with rekindle.connect(warehouse, spark=spark) as db:
        with db.transaction() as tx:
            tx.delete("edge", [(3, 1)])
        assert rows(db, "peeled") == bag(_peeled([(0, 3), (0, 1)]))
        db.check("peeled")
        text = str(db.explain("peeled"))
        assert "recursion of ·peeled.walk" in text
        assert "↑z⁻¹" in db.explain("peeled").svg()
        assert "rebuilt" not in text
        db.sql("DROP VIEW peeled")
        db.sql("INSERT INTO edge VALUES (1, 2)")


def test_either_bound_undoes_a_transaction(db: Database) -> None:
    """The outer recursion counts up to one number, and inside every round another to a second."""
    db.sql("CREATE TABLE ends (up INT, within INT)")

    def outer(rows: DataFrame) -> DataFrame:
        def inner(counting: DataFrame) -> DataFrame:
            return counting.selectExpr("n", "up", "within", "if(m < within, m + 1, m) AS m")

        begun = rows.selectExpr("n", "up", "within", "0 AS m")
        counted = rekindle.fixpoint(begun, inner, iterations=10).dataframe()
        return counted.selectExpr("if(n < up, n + 1, n) AS n", "up", "within")

    first = db.table("ends").selectExpr("0 AS n", "up", "within")
    db.create_view("v", rekindle.fixpoint(first, outer, iterations=8))
    db.sql("INSERT INTO ends VALUES (5, 7), (5, 7), (8, 10), (NULL, NULL)")
    assert rows(db, "v") == bag([(5, 5, 7), (5, 5, 7), (8, 8, 10), (0, None, None)])
    with refused(db, IterationLimitError, "recursion of v did not end within 8 iterations"):
        db.sql("INSERT INTO ends VALUES (9, 1)")
    with refused(db, IterationLimitError, "recursion of v.inner did not end within 10 iterations"):
        db.sql("INSERT INTO ends VALUES (1, 11)")
    db.sql("DELETE FROM ends WHERE up = 5")
    assert rows(db, "v") == bag([(8, 8, 10), (0, None, None)])


def test_a_step_may_give_a_fixpoint(db: Database) -> None:
    """The inner one halves what is even, the outer one takes 1 from what is odd and above 1."""
    db.sql("CREATE TABLE t (x INT)")

    def halve(rows: DataFrame) -> DataFrame:
        return rows.selectExpr("if(x % 2 = 0 AND x > 0, x DIV 2, x) AS x").selectExpr("int(x) AS x")

    def odd(rows: DataFrame) -> Fixpoint:
        return rekindle.fixpoint(rows.selectExpr("if(x > 1 AND x % 2 = 1, x - 1, x) AS x"), halve)

    db.create_view("v", rekindle.fixpoint(db.table("t"), odd))
    db.sql("INSERT INTO t VALUES (13), (6), (0), (NULL)")
    assert rows(db, "v") == bag([(1,), (1,), (0,), (None,)])
    db.sql("UPDATE t SET x = -x WHERE x = 6")
    assert rows(db, "v") == bag([(1,), (-6,), (0,), (None,)])


def test_what_is_no_nested_fixpoint_is_refused(db: Database) -> None:
    db.sql("CREATE TABLE t (x INT)")
    table = db.table("t")

    def wrong(rows: DataFrame) -> DataFrame:
        return rows.selectExpr("'a' AS x")

    with refused(db, DefinitionError, "outside of the step of another", "db.table(name)"):
        rekindle.fixpoint(table, lambda rows: rows).dataframe()
    with refused(db, DefinitionError, "the step of 'v.wrong' gives other columns"):
        db.create_view("v", rekindle.fixpoint(table, lambda rows: rekindle.fixpoint(rows, wrong)))
    with refused(db, DefinitionError, "the step of 'v' gives a NoneType"):
        db.create_view("v", rekindle.fixpoint(table, lambda rows: None))  # type: ignore[arg-type,return-value]
    with refused(db, DefinitionError, "begins with a DataFrame, not with a Fixpoint"):
        rekindle.fixpoint(rekindle.fixpoint(table, lambda rows: rows), wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("place", ["inline", "spark"])
def test_aggregates_of_all_rows_inside_a_recursion(db: Database, place: str) -> None:
    """A number above the greatest is added until there are 4, beginning from none as well."""
    db.sql("CREATE TABLE t (x INT)")

    def grow(rows: DataFrame) -> DataFrame:
        whole = rows.agg(F.max("x").alias("most"), F.count("*").alias("n"), F.sum("x").alias("s"))
        return rows.union(whole.where("n < 4").selectExpr("coalesce(most + 1, n - 7L, 0)"))

    grown = rekindle.fixpoint(db.table("t"), lambda r: grow(r).selectExpr("int(x) AS x"))
    with refused(db, DefinitionError, "recomputing a part of it as a whole"):
        db.create_view("v", grown, incremental="required")
    db.create_view("v", grown)
    assert "recomputed" in str(db.explain("v"))
    db.place(place)
    assert rows(db, "v") == bag([(-7,), (-6,), (-5,), (-4,)])
    db.sql("INSERT INTO t VALUES (5), (5)")
    assert rows(db, "v") == bag([(5,), (5,), (6,), (7,)])
    if place == "inline":
        db.sql("INSERT INTO t VALUES (9), (1), (NULL)")
        assert rows(db, "v") == bag([(5,), (5,), (9,), (1,), (None,)])
        db.sql("UPDATE t SET x = NULL")
        db.sql("DELETE FROM t")
        assert rows(db, "v") == bag([(-7,), (-6,), (-5,), (-4,)])
        db.sql("INSERT INTO t VALUES (NULL)")
        assert rows(db, "v") == bag([(None,), (-6,), (-5,), (-4,)])
        db.check("v")
