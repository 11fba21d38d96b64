"""Recursive views follow edges that come and go, exactly."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle
from rekindle.errors import DefinitionError, IterationLimitError, StatementError
from rekindle.runtime.database import Database
from rekindle.spark.step import Placement
from tests.spark.helpers import bag, refused, rows, strays, weighted

Edge = tuple[int, int]

PATHS = """
path(x, y) :- edge(x, y).
path(x, z) :- path(x, y), edge(y, z).          // left recursion
root(0). root(7).
even(x) :- root(x).
even(y) :- odd(x), edge(x, y).
odd(y) :- even(x), edge(x, y).
"""
PROGRAM = f"""{PATHS}
node(x) :- edge(x, _).   node(x) :- edge(_, x).
apart(x, y) :- node(x), node(y), !path(x, y).
degree(x, n) :- node(x), n = count : {{ edge(x, _) }}.
same(x, y) :- edge(p, x), edge(p, y), x != y.
same(x, y) :- edge(p, x), same(p, q), edge(q, y).
label(x, x) :- node(x).
label(y, min(c)) :- label(x, c), edge(x, y).
label(x, min(c)) :- label(y, c), edge(x, y).
"""


@pytest.fixture
def graph(db: Database) -> Database:
    db.sql("CREATE TABLE edge (src INT, dst INT)")
    db.datalog(PROGRAM)
    return db


@pytest.fixture
def paths(db: Database) -> Database:
    db.sql("CREATE TABLE edge (src INT, dst INT)")
    db.datalog(PATHS)
    return db


@pytest.fixture(scope="module")
def unchanged(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """A database for all that is refused, which changes nothing of it."""
    with rekindle.connect(str(tmp_path_factory.mktemp("unchanged")), spark=spark) as db:
        db.sql("CREATE TABLE edge (src INT, dst INT)")
        db.sql("INSERT INTO edge VALUES (1, 2)")
        db.datalog("path(x, y) :- edge(x, y). node(x) :- edge(x, _).")
        yield db


def _step(db: Database, live: list[Edge], pick: random.Random) -> None:
    gone = [live.pop(pick.randrange(len(live))) for _ in range(min(len(live), pick.randint(0, 4)))]
    new = [(pick.randint(0, 8), pick.randint(0, 8)) for _ in range(pick.randint(0, 4))]
    live += new
    with db.transaction() as tx:
        tx.insert("edge", new)
        tx.delete("edge", gone)


def _closure(edges: Iterable[Edge]) -> set[Edge]:
    found = set(edges)
    while True:
        more = {(a, d) for a, b in found for c, d in found if b == c} - found
        if not more:
            return found
        found |= more


def _derived(edges: set[Edge]) -> dict[str, set[tuple[object, ...]]]:
    """What the program says, in Python."""
    nodes = {x for edge in edges for x in edge}
    path = _closure(edges)
    walks, more = set[Edge](), {(x, 0) for x in (0, 7)}
    while more - walks:
        walks |= more
        more = {(y, 1 - odd) for x, odd in walks for z, y in edges if z == x}
    same, more = set[Edge](), {(x, y) for p, x in edges for q, y in edges if p == q and x != y}
    while more - same:
        same |= more
        more = {(x, y) for p, x in edges for q, y in edges if (p, q) in same}
    joined = _closure({*edges, *((y, x) for x, y in edges), *((x, x) for x in nodes)})
    return {
        "path": set(path),
        "node": {(x,) for x in nodes},
        "apart": {(x, y) for x in nodes for y in nodes if (x, y) not in path},
        "degree": {(x, sum(a == x for a, _ in edges)) for x in nodes},
        "even": {(x,) for x, odd in walks if not odd},
        "odd": {(x,) for x, odd in walks if odd},
        "same": set(same),
        "label": {(x, min(y for a, y in joined if a == x)) for x in nodes},
    }


@pytest.mark.parametrize("place", ["inline", "spark"])
def test_a_program_follows_random_changes(graph: Database, place: str) -> None:
    graph.place(place)
    pick, live = random.Random(5), list[Edge]()
    for _ in range(8 if place == "inline" else 2):
        _step(graph, live, pick)
        for view, expected in _derived(set(live)).items():
            assert rows(graph, view) == bag(expected), view
    if place == "inline":
        for view in graph.views:
            graph.check(view)
    total = weighted(graph.changes("path"))
    assert {row: n for row, n in total.items() if n} == rows(graph, "path")


def test_large_iterations_are_spark_jobs(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rekindle.spark.inline.MAXIMUM_TURN_ROWS", 3)
    db.sql("CREATE TABLE edge (src INT, dst INT)")
    db.place("spark")
    path, label = db.datalog(
        """
        path(x, y) :- edge(x, y).
        path(x, z) :- path(x, y), edge(y, z).
        label(x, x) :- edge(x, _).
        label(y, min(c)) :- label(x, c), edge(x, y).
        """
    )
    for deleted, inserted in (
        ([], [(1, 2), (2, 3), (3, 1), (3, 4)]),
        ([(3, 1)], [(4, 0), (5, 4)]),
    ):
        with db.transaction() as tx:
            tx.delete("edge", deleted)
            tx.insert("edge", inserted)
        db.check(path)
        db.check(label)
        steps = db.last_step.nodes if db.last_step is not None else {}
        iterated = [step for step in steps.values() if step.visits > 1]
        assert iterated
        assert any(step.placement is Placement.SPARK for step in iterated)
    assert strays(db) == []


FORMS = """
node(x), seen(x) :- edge(x, _) ; edge(_, x).
busy(x, count : { edge(x, _) }) :- node(x), 2 * max y : edge(x, y) > x.
empty() :- !edge(_, _).
looped() :- edge(x, x).
looped() :- looped(), edge(_, _).                 // holds until the last loop goes
lone(x) :- node(x), looped(), edge(y, z), z > y.  // the loop and the rise are about no x
next(y) :- edge(x, _), y = explode(sequence(x, x + 1)).
before(day) :- edge(day + 1, month), edge(day, month).
most(n) :- n = max m : { node(y), m = sum z : { edge(y, z) } }.
ways(x, n) :- node(x), n = max m : { node(y), m = count : { edge(x, z), edge(z, y) } }.
steps(0) :- node(_).
steps(n + 1) :- steps(n), n < 4, edge(n, _), edge(_, _).
"""


def _forms(edges: set[Edge]) -> dict[str, set[tuple[object, ...]]]:
    """What the program says, in Python."""
    nodes = {x for edge in edges for x in edge}
    after = {x: {b for a, b in edges if a == x} for x in nodes}
    looped = any(a == b for a, b in edges)
    sums = [sum(after[x]) for x in nodes]
    ways = {x: max(sum(y in after[z] for z in after[x]) for y in nodes) for x in nodes}
    reached = [n for n in range(5) if nodes and all(after.get(m) for m in range(n))]
    return {
        "node": {(x,) for x in nodes},
        "seen": {(x,) for x in nodes},
        "busy": {(x, len(after[x])) for x in nodes if 2 * max(after[x], default=-1) > x},
        "empty": set() if edges else {(True,)},
        "looped": {(True,)} if looped else set(),
        "lone": {(x,) for x in nodes if looped and any(z > y for y, z in edges)},
        "next": {(x + i,) for x, _ in edges for i in (0, 1)},
        "before": {(a,) for a, b in edges if (a + 1, b) in edges},
        "most": {(max(sums),)} if sums else set(),
        "ways": set(ways.items()),
        "steps": {(n,) for n in reached},
    }


def test_every_form_of_a_rule_follows_random_changes(db: Database) -> None:
    db.sql("CREATE TABLE edge (src INT, dst INT)")
    db.datalog(FORMS)
    pick, live = random.Random(11), list[Edge]()
    for _ in range(6):
        _step(db, live, pick)
        for view, expected in _forms(set(live)).items():
            assert rows(db, view) == bag(expected), view
    with db.transaction() as tx:
        tx.delete("edge", live)
    for view, expected in _forms(set()).items():
        assert rows(db, view) == bag(expected), view
        db.check(view)


def test_alternative_derivations_are_not_deleted(paths: Database) -> None:
    paths.sql("INSERT INTO edge VALUES (1, 2), (2, 4), (1, 3), (3, 4)")
    paths.sql("DELETE FROM edge WHERE src = 2")
    assert rows(paths, "path") == bag([(1, 2), (1, 3), (3, 4), (1, 4)])


def test_a_cycle_does_not_support_itself(paths: Database) -> None:
    paths.sql("INSERT INTO edge VALUES (0, 1), (1, 2), (2, 3), (3, 1)")
    paths.sql("DELETE FROM edge WHERE src = 0")
    assert rows(paths, "path") == bag([(a, b) for a in (1, 2, 3) for b in (1, 2, 3)])
    assert rows(paths, "odd") == bag([])
    paths.sql("INSERT INTO edge VALUES (0, 1)")
    assert rows(paths, "odd") == bag([(1,), (2,), (3,)])


@pytest.mark.parametrize("place", ["inline", "spark"])
def test_relations_that_the_optimiser_finds_apart(db: Database, place: str) -> None:
    """`y < y` is never true: nothing leads from a to b any more, and b is no longer recursive."""
    db.place(place)
    db.sql("CREATE TABLE edge (src INT, dst INT)")
    db.sql("INSERT INTO edge VALUES (0, 1)")
    db.datalog(
        """
        a(w, y) :- edge(z, y), b(x, w), z <= w.
        b(y, x) :- edge(y, x), x < y.
        b(y, y) :- b(x, z), edge(y, x), a(z, y), y < y.
        """
    )
    db.sql("INSERT INTO edge VALUES (1, 0), (0, 5)")
    assert (rows(db, "a"), rows(db, "b")) == (bag([(0, 1), (0, 5)]), bag([(1, 0)]))
    db.sql("DELETE FROM edge WHERE dst = 1")
    assert rows(db, "a") == bag([(0, 5)])
    db.sql("DELETE FROM edge WHERE src = 1")
    assert (rows(db, "a"), rows(db, "b")) == (bag([]), bag([]))


def test_duplicates_count_once(paths: Database) -> None:
    paths.sql("INSERT INTO edge VALUES (1, 2), (1, 2), (NULL, 1)")
    paths.sql("DELETE FROM edge WHERE src IS NULL")
    with paths.transaction() as tx:
        tx.delete("edge", [(1, 2)])
    assert rows(paths, "path") == bag([(1, 2)])
    assert weighted(paths.changes("path", since=paths.epoch - 1)) == {}


def test_a_small_change_touches_few_rows(paths: Database) -> None:
    """A chain of 60 edges has 1,830 paths; one edge at its end adds 61."""
    with paths.transaction() as tx:
        tx.insert("edge", [(i, i + 1) for i in range(100, 160)])
    paths.sql("INSERT INTO edge VALUES (160, 161)")
    assert sum(weighted(paths.changes("path", since=paths.epoch - 1)).values()) == 61
    last = paths.last_step
    assert last is not None
    behind = {node.id for node in paths.explain("path").nodes}
    assert sum(step.rows_in for key, step in last.nodes.items() if key in behind) < 800


def test_recursive_views_are_found_again(warehouse: str, spark: SparkSession) -> None:
    with rekindle.connect(warehouse, spark=spark) as db:
        db.sql("CREATE TABLE edge (src INT, dst INT)")
        db.datalog(PROGRAM)
        db.sql("INSERT INTO edge VALUES (0, 1), (1, 2), (2, 0)")
    with rekindle.connect(warehouse, spark=spark) as db:
        db.sql("DELETE FROM edge WHERE src = 2")
        for view in db.views:
            db.check(view)
        db.create_view("out", "SELECT x, count(*) AS n FROM path GROUP BY x")
        assert rows(db, "out") == bag([(0, 2), (1, 1)])
        text = str(db.explain("out"))
        assert "recursion of path" in text and "one iteration ago" in text
        assert "↑z⁻¹" in db.explain("path").svg()


def test_with_recursive(db: Database) -> None:
    db.sql("CREATE TABLE part (whole INT, piece INT, n INT)")
    db.sql(
        "CREATE MATERIALIZED VIEW needs AS WITH RECURSIVE r(whole, piece, n) AS ("
        "SELECT whole, piece, n FROM part UNION ALL "
        "SELECT r.whole, p.piece, r.n * p.n FROM r JOIN part p ON r.piece = p.whole) "
        "SELECT whole, piece, sum(n) AS n FROM r GROUP BY whole, piece"
    )
    db.sql("INSERT INTO part VALUES (1, 2, 3), (2, 3, 4), (1, 3, 1), (3, 4, 2)")
    assert rows(db, "needs")[(1, 4, 26)] == 1
    db.check("needs")
    db.sql("DELETE FROM part WHERE whole = 2")
    db.check("needs")
    with refused(db, IterationLimitError, "100 iterations"):
        db.sql("INSERT INTO part VALUES (4, 1, 0)")
    db.sql("UPDATE part SET n = 5 WHERE whole = 1")
    db.check("needs")


def test_recursive_parts_that_are_not_linear_see_one_iteration(db: Database) -> None:
    """As Spark evaluates them: what is distinct, or joined, is what the iteration before gave."""
    db.sql("CREATE TABLE t (g INT, x INT)")
    for name, part in {
        "distinct": "SELECT DISTINCT g, x + 1 FROM r WHERE x < 6",
        "met": "SELECT a.g, b.x + 1 FROM r a JOIN r b ON a.g = b.g AND a.x <= b.x WHERE b.x < 4",
    }.items():
        db.sql(
            f"CREATE MATERIALIZED VIEW {name} AS WITH RECURSIVE r(g, x) AS "
            f"(SELECT g, x FROM t UNION ALL {part}) SELECT * FROM r"
        )
    for statement in (
        "INSERT INTO t VALUES (1, 2), (1, 2), (1, 3), (2, 4), (NULL, 4)",
        "DELETE FROM t WHERE x = 3",
    ):
        db.sql(statement)
        db.check("distinct")
        db.check("met")
    assert rows(db, "distinct")[(1, 2)] == 2 and rows(db, "distinct")[(1, 3)] == 1


def test_a_fixpoint_of_functions(db: Database) -> None:
    """Not monotone: at every step all marks move on, and those at the end stay."""
    db.sql("CREATE TABLE mark (at INT)")
    db.sql("CREATE TABLE next (at INT, then INT)")

    def move(marks: DataFrame) -> DataFrame:
        moved = marks.join(db.table("next"), "at", "left")
        return moved.selectExpr("coalesce(then, at) AS at").distinct()

    db.create_view("ends", rekindle.fixpoint(db.table("mark").distinct(), move))
    db.sql("INSERT INTO next VALUES (1, 2), (2, 3), (4, 3), (5, 6)")
    db.sql("INSERT INTO mark VALUES (1), (2), (5), (9)")
    assert rows(db, "ends") == bag([(3,), (6,), (9,)])
    db.check("ends")
    db.sql("DELETE FROM next WHERE at = 2")
    assert rows(db, "ends") == bag([(2,), (6,), (9,)])
    db.check("ends")


def test_a_fixpoint_that_alternates_is_refused(db: Database) -> None:
    db.sql("CREATE TABLE t (x INT)")
    view = rekindle.fixpoint(db.table("t"), lambda rows: rows.selectExpr("-x AS x"), iterations=30)
    db.create_view("v", view)
    db.sql("INSERT INTO t VALUES (0)")
    with refused(db, IterationLimitError, "30 iterations"):
        db.sql("INSERT INTO t VALUES (1)")
    with refused(db, DefinitionError, "other columns"):
        db.create_view("w", rekindle.fixpoint(db.table("t"), lambda r: r.selectExpr("'a' AS x")))


def test_a_program_without_end_leaves_the_database(db: Database) -> None:
    db.sql("CREATE TABLE t (x INT)")
    db.datalog("up(x) :- t(x). up(x + 1) :- up(x), x < 1000.", iterations=20)
    with refused(db, IterationLimitError, "up", "20 iterations"):
        db.sql("INSERT INTO t VALUES (1)")
    db.sql("INSERT INTO t VALUES (990)")
    assert sum(rows(db, "up").values()) == 11


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("p(x) :- q(x).", "unknown relation 'q'"),
        ("path(x, y) :- edge(x, y).", "'path' exists already"),
        ("\np(x, y) :- edge(x, _).", "line 2: the variable 'y' is unsafe"),
        ("p(x) :- !edge(x, _), edge(_, _).", "it occurs only in a negation"),
        ("p(x) :- edge(x, _), !p(x).", "not stratified"),
        ("p(x) :- edge(x, _), n = count : { p(x) }.", "not stratified"),
        ("p(x) :- edge(x).", "'edge' has 2 columns, not 1"),
        ("p(x) :- p(x).", "no rule that begins it"),
        ("p(x) :- edge(x, _)", "a rule is not ended"),
        ("p(1). p(1, 2).", "2 columns here and 1 at line 1"),
        ("p(x) :- edge(x, _), no_such(x) > 2.", "no_such"),
        ("p(_) :- edge(x, _).", "cannot have '_'"),
        ("3 :- edge(x, _).", "is not a head"),
        ("", "no rules"),
        ("p(n) :- n = count : { edge(_, _) ; node(_) }.", "has alternatives"),
        ("p() :- edge().", "'edge' has 2 columns, not 0"),
        ("a(x) :- edge(x, _). b(y) :- nowhere(y).", "unknown relation 'nowhere'"),
    ],
)
def test_errors_name_the_rule(unchanged: Database, program: str, words: str) -> None:
    with refused(unchanged, StatementError, words):
        unchanged.datalog(program)


def test_sums_and_counts_inside_a_recursion(db: Database) -> None:
    """What a part costs: its own price and the costs of its parts, however deep."""
    db.sql("CREATE TABLE price (part STRING, cents BIGINT)")
    db.sql("CREATE TABLE needs (whole STRING, part STRING, n BIGINT)")

    def costs(known: DataFrame) -> DataFrame:
        parts = db.table("needs").join(known, "part").selectExpr("whole AS part", "n * cents AS c")
        own = db.table("price").selectExpr("part", "cents AS c")
        return own.union(parts).groupBy("part").agg(F.sum("c").alias("cents"))

    db.create_view("cost", rekindle.fixpoint(db.table("price"), costs))
    db.sql("INSERT INTO price VALUES ('bike', 100), ('wheel', 20), ('spoke', 1), ('bell', 7)")
    db.sql("INSERT INTO needs VALUES ('bike', 'wheel', 2), ('wheel', 'spoke', 30)")
    assert rows(db, "cost") == bag([("bike", 200), ("wheel", 50), ("spoke", 1), ("bell", 7)])
    db.check("cost")
    db.sql("UPDATE price SET cents = 2 WHERE part = 'spoke'")
    db.sql("INSERT INTO needs VALUES ('bike', 'bell', 1)")
    assert rows(db, "cost") == bag([("bike", 267), ("wheel", 80), ("spoke", 2), ("bell", 7)])
    db.check("cost")
    db.sql("DELETE FROM needs WHERE part = 'spoke'")
    db.check("cost")
    assert db.last_step is not None
    assert not any(step.rebuilt for step in db.last_step.nodes.values())


def test_ranks_of_pages_follow_their_links(db: Database) -> None:
    """Whole numbers, so that the ranks settle: a page passes on half of what it has."""
    db.sql("CREATE TABLE link (src INT, dst INT)")

    def ranks(known: DataFrame) -> DataFrame:
        links = db.table("link").distinct()
        out = links.groupBy("src").agg(F.count("*").alias("n"))
        passed = links.join(known, links.src == known.page).join(out, "src")
        shares = passed.selectExpr("dst AS page", "rank DIV (2 * n) AS rank")
        base = links.selectExpr("src AS page").union(links.selectExpr("dst")).distinct()
        return (
            shares.union(base.selectExpr("page", "200L AS rank"))
            .groupBy("page")
            .agg(F.sum("rank").alias("rank"))
        )

    first = db.table("link").selectExpr("src AS page", "1000L AS rank").distinct()
    db.create_view("rank", rekindle.fixpoint(first, ranks, iterations=50))
    for statement in (
        "INSERT INTO link VALUES (1, 2), (2, 3), (3, 1), (3, 4)",
        "INSERT INTO link VALUES (4, 1), (4, 2), (5, 4)",
        "DELETE FROM link WHERE src = 3 AND dst = 1",
        "DELETE FROM link WHERE src = 4",
    ):
        db.sql(statement)
        assert rows(db, "rank") == bag(_ranks([*rows(db, "link")]).items())


def _ranks(links: list[tuple[int, int]]) -> dict[int, int]:
    ranks = {source: 1000 for source, _ in links}
    while True:
        after = {page: 200 for link in links for page in link}
        for source, target in links:
            out = sum(1 for link in links if link[0] == source)
            after[target] += ranks.get(source, 0) // (2 * out)
        if after == ranks:
            return ranks
        ranks = after


def test_rules_in_sql(db: Database) -> None:
    db.sql("CREATE TABLE edge (src INT, dst INT)")
    db.sql("DATALOG reach(y) :- edge(0, y). reach(y) :- reach(x), edge(x, y).")
    db.sql("INSERT INTO edge VALUES (0, 5), (5, 6)")
    assert rows(db, "reach") == bag([(5,), (6,)])
