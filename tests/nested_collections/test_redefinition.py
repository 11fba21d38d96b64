"""Functions of a database: their uses, and views that follow when one is redefined.

A view is held against what Spark computes from the texts of the functions as they are then, and its
changes against the difference, after every redefinition and transaction.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import rekindle
from rekindle.errors import (
    ConstraintError,
    DefinitionError,
    EvaluationError,
    HistoryError,
    RekindleError,
    UnknownNameError,
)
from rekindle.runtime.database import Database
from rekindle.runtime.epochs.state import ViewEntry
from rekindle.runtime.views.redefinition import BY_DIFFERENCE

MOVIES = [
    ("Drive", "Drama", "Refn", 2011),
    ("Skyfall", "Action", "Mendes", 2012),
    ("Rush", "Action", "Howard", 2013),
    ("Jarhead", "Drama", "Mendes", None),
]
TABLE = "CREATE TABLE movies (name STRING, gen STRING, dir STRING, year INT, PRIMARY KEY (name))"
RELATED = "n.name <> m.name and (n.gen = m.gen or n.dir = m.dir)"
NESTED = """
    for m in movies
    yield (name: m.name, related: for n in movies where related_to(m, n) yield n.name)"""
OTHERS = "for m in movies yield (name: m.name, related: others(m))"
PAIRS = "for m in movies, n in movies where related_to(m, n) yield (a: m.name, b: n.name)"
OVER = "for r in related, x in r.related yield (b: x, a: r.name)"


@pytest.fixture
def movies(db: Database) -> Database:
    prepare(db)
    return db


def prepare(db: Database) -> None:
    db.sql(TABLE)
    insert(db, *MOVIES)
    db.define("related_to", f"(m, n) -> {RELATED}")


def insert(db: Database, *rows: tuple[Any, ...]) -> None:
    with db.transaction() as tx:
        tx.insert("movies", list(rows))


def bag(rows: Any) -> Counter[Any]:
    return Counter(plain(row) for row in rows.collect())


def plain(value: Any) -> Any:
    """A value that has a hash: rows and arrays as tuples."""
    return tuple(map(plain, value)) if isinstance(value, tuple | list) else value


def unnested(db: Database, epoch: int | None = None) -> Counter[Any]:
    """The nested view as pairs."""
    rows = db.table("related", epoch).collect()
    return Counter((row["name"], each) for row in rows for each in row["related"])


def expected(db: Database, condition: str) -> Counter[Any]:
    """The pairs that a condition of Spark SQL relates."""
    return bag(db.sql(f"SELECT m.name, n.name FROM movies m CROSS JOIN movies n WHERE {condition}"))


def kept(db: Database) -> Iterator[str]:
    """Everything that has rows and is a view, or a part of one."""
    for entry in db._engine.state.entries.values():
        if isinstance(entry, ViewEntry) and not entry.stands:
            yield entry.name


def check_laws(db: Database) -> None:
    """Laws 1 and 2, of every view."""
    for view in db.views:
        db.check(view)
    for name in kept(db):
        total: Counter[Any] = Counter()
        for epoch, weight, *row in db.changes(name).collect():
            assert epoch <= db.epoch
            total[plain(row)] += weight
        assert {k: v for k, v in total.items() if v} == bag(db.table(name)), name


def moved(db: Database, name: str, since: int) -> Counter[Any]:
    return Counter({plain(row): weight for _, weight, *row in db.changes(name, since).collect()})


# ---- uses ----------------------------------------------------------------------------------------


def test_a_function_is_used_in_conditions_and_in_what_is_yielded(movies: Database) -> None:
    movies.define("age", "(m) -> 2026 - m.year")
    movies.define("label", "(m, sep) -> concat(m.name, sep, coalesce(age(m), 'unknown'))")
    movies.define("others", "(m) -> for n in movies where related_to(m, n) yield n.name")
    movies.define("busy", "(m) -> count(others(m)) > 1")
    view = (
        "for m in movies where busy(m) and not age(m) > 14 yield (l: label(m, ': '), o: others(m))"
    )
    movies.create_view("v", rekindle.comprehension(view))
    assert bag(movies.sql("SELECT l, o[0], o[1] FROM v")) == {("Skyfall: 14", "Jarhead", "Rush"): 1}
    check_laws(movies)
    assert movies.functions["age"] == "(m) -> 2026 - m.year"
    insert(movies, ("X", "Drama", "Refn", 2024))
    check_laws(movies)


def test_a_function_takes_collections_and_gives_rows(movies: Database) -> None:
    movies.define("span", "(years) -> max(years) - min(years)")
    movies.define("pair", "(a, b) -> (first: a.name, second: b.name)")
    spans = "for n in movies where n.gen = m.gen yield n.year"
    v = f"for m in movies yield (g: m.gen, s: span({spans}))"
    w = "for m in movies, n in movies where m.year < n.year yield pair(m, n)"
    movies.create_view("v", rekindle.comprehension(v))
    movies.create_view("w", rekindle.comprehension(w))
    assert bag(movies.table("v")) == {("Drama", 0): 2, ("Action", 1): 2}
    assert bag(movies.table("w"))[("Drive", "Rush")] == 1
    check_laws(movies)
    movies.redefine("span", "(years) -> cast(count(years) as int)")
    assert bag(movies.table("v")) == {("Drama", 2): 2, ("Action", 2): 2}
    movies.redefine("pair", "(a, b) -> (first: b.name, second: a.name)")
    assert bag(movies.table("w"))[("Rush", "Drive")] == 1
    check_laws(movies)


def test_the_body_sees_its_parameters_only(movies: Database) -> None:
    movies.define("same", "(x, y) -> x = y")
    with pytest.raises(RekindleError, match=r"line 1, column 8"):
        movies.define("stray", "(x) -> m.name = x")
        movies.create_view(
            "v", rekindle.comprehension("for m in movies where stray(m.name) yield m")
        )
    swapped = "for y in movies, x in movies where same(y.gen, x.dir) yield x.name"
    movies.create_view("swapped", rekindle.comprehension(swapped))
    check_laws(movies)


ERRORS = [
    ("for m in movies where relatd_to(m, m) yield m.name", "no function 'relatd_to'", "related_to"),
    ("for m in movies where related_to(m) yield m.name", "takes 2 arguments, and here are 1", "n)"),
    ("for m in movies where related_to(m, m.year) yield m.name", "'n' has no field 'name'", "int"),
    ("for m in movies where m.year = related_to(m, m) yield m", "line 1, column", ""),
]


@pytest.mark.parametrize(("text", "message", "hint"), ERRORS, ids=[e[1] for e in ERRORS])
def test_errors_point_at_the_text(movies: Database, text: str, message: str, hint: str) -> None:
    epoch = movies.epoch
    with pytest.raises(RekindleError) as caught:
        movies.create_view("v", rekindle.comprehension(text))
    assert message in caught.value.message
    assert hint in caught.value.hint
    assert movies.epoch == epoch


def test_functions_are_listed_and_dropped_when_nothing_uses_them(movies: Database) -> None:
    movies.sql("CREATE FUNCTION twice(x) RETURN 2 * x")
    movies.sql("CREATE FUNCTION IF NOT EXISTS twice(x) RETURN 3 * x")
    movies.sql("CREATE FUNCTION fourfold(x) RETURN twice(twice(x))")
    assert list(movies.functions) == ["related_to", "twice", "fourfold"]
    assert movies.sql("SHOW FUNCTIONS").count() == 3
    movies.create_view("v", rekindle.comprehension("for m in movies yield fourfold(m.year)"))
    with pytest.raises(ConstraintError, match="used by v, fourfold"):
        movies.drop_function("twice")
    movies.sql("CREATE OR REPLACE FUNCTION twice(x) RETURN 10 * x")
    assert bag(movies.table("v"))[(201100,)] == 1
    movies.drop_view("v")
    movies.drop_function("fourfold")
    movies.sql("DROP FUNCTION twice")
    movies.sql("DROP FUNCTION IF EXISTS twice")
    assert list(movies.functions) == ["related_to"]
    with pytest.raises(UnknownNameError, match="twice"):
        movies.drop_function("twice")
    for name, text in [
        ("abs", "(x) -> x"),
        ("count", "(x) -> x"),
        ("related_to", "(x) -> x"),
        ("f", "(x, X) -> x"),
        ("f", "x + 1"),
        ("f", "(x) -> f(x)"),
        ("exists", "(x) -> x"),
        ("f", "(x) -> for"),
    ]:
        with pytest.raises(RekindleError):
            movies.define(name, text)
    movies.define("g", "(x) -> x")
    movies.define("h", "(x) -> g(x)")
    with pytest.raises(RekindleError, match="uses itself"):
        movies.redefine("g", "(x) -> h(x)")


def test_a_stored_function_of_somebody_else_runs_no_code(
    movies: Database, warehouse: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    movies.define("home", "(m) -> reflect('java.lang.System', 'getProperty', m.name)")
    movies.close()
    monkeypatch.setattr("rekindle.runtime.trust._MADE", set())
    with rekindle.connect(warehouse, spark=spark) as db:
        view = rekindle.comprehension("for m in movies yield home(m)")
        with pytest.raises(RekindleError, match="reflect"):
            db.create_view("v", view)
        db.create_view("w", rekindle.comprehension(PAIRS))
        check_laws(db)


# ---- redefinitions -------------------------------------------------------------------------------


def test_views_follow_by_the_difference(movies: Database) -> None:
    movies.create_view("related", rekindle.comprehension(NESTED))
    movies.create_view("pairs", rekindle.comprehension(PAIRS))
    movies.create_view("over", rekindle.comprehension(OVER))
    movies.sql("CREATE MATERIALIZED VIEW counts AS SELECT a, count(*) AS n FROM pairs GROUP BY a")
    movies.sql("CREATE MATERIALIZED VIEW sizes AS SELECT name, size(related) AS s FROM related")
    movies.sql("CREATE MATERIALIZED VIEW both AS SELECT a, n, s FROM counts JOIN sizes ON a = name")
    before, epoch = expected(movies, RELATED), movies.epoch
    assert unnested(movies) == bag(movies.table("pairs")) == before

    movies.redefine("related_to", f"(m, n) -> {RELATED} and m.year > 2000")
    now = expected(movies, f"{RELATED} and m.year > 2000")
    assert movies.epoch == epoch + 1
    assert unnested(movies) == bag(movies.table("pairs")) == now
    gone = {("Jarhead", "Drive"): -1, ("Jarhead", "Skyfall"): -1}
    assert moved(movies, "pairs", epoch) == gone
    assert moved(movies, "over", epoch) == {(b, a): w for (a, b), w in gone.items()}
    assert moved(movies, "related·", epoch) == {}
    assert movies.changes("related·related", epoch).count() == 2
    assert moved(movies, "counts", epoch) == {("Jarhead", 2): -1}
    assert moved(movies, "sizes", epoch) == {("Jarhead", 2): -1, ("Jarhead", 0): 1}
    assert moved(movies, "both", epoch) == {("Jarhead", 2, 2): -1}
    check_laws(movies)
    assert unnested(movies, epoch) == bag(movies.table("pairs", epoch)) == before

    step = movies.last_step
    assert step is not None
    node = movies._engine.state.entry("pairs").node
    assert step.nodes[node].rows_out == 2
    assert "redefined" in str(movies.explain("pairs"))
    assert "2 rows moved, a function that it uses was redefined" in str(movies.explain("related"))

    insert(movies, ("Only God Forgives", "Drama", "Refn", 2013))
    check_laws(movies)
    movies.redefine("related_to", f"(m, n) -> {RELATED}")
    assert unnested(movies) == expected(movies, RELATED)
    check_laws(movies)


def test_a_function_that_others_use_is_redefined(movies: Database) -> None:
    movies.define("near", "(a, b) -> abs(a - b) < 2")
    movies.define("alike", "(m, n) -> m.name <> n.name and near(m.year, n.year)")
    movies.create_view(
        "v", rekindle.comprehension("for m in movies, n in movies where alike(m, n) yield m.name")
    )
    movies.create_view("w", rekindle.comprehension("for m in movies yield m.name"))
    epoch = movies.epoch
    movies.redefine("near", "(a, b) -> abs(a - b) < 3")
    assert movies.epoch == epoch + 1
    assert moved(movies, "v", epoch) == {("Drive",): 1, ("Rush",): 1}
    assert moved(movies, "w", epoch) == {}
    movies.redefine("alike", "(m, n) -> m.gen = n.gen")
    check_laws(movies)
    epoch = movies.epoch
    movies.redefine("near", "(a, b) -> false")  # No view uses it any more.
    assert moved(movies, "v", epoch) == {}
    movies.redefine("alike", "(m, n) -> near(m.year, n.year)")
    assert bag(movies.table("v")) == {}
    check_laws(movies)


BAD = [
    ("(m, n) -> n.nam = m.name", "no field 'nam'"),
    ("(m, n) -> 3", "boolean"),
    ("(m) -> true", "takes 1 arguments"),
    ("(m, n) -> related_to(n, m)", "uses itself"),
    ("(m, n) -> (m.year", "too early"),
    ("(m, n) -> assert_true(m.year > 2011) is null", ""),
]


@pytest.mark.parametrize(("text", "message"), BAD, ids=[text for text, _ in BAD])
def test_a_definition_that_fails_changes_nothing(
    movies: Database, warehouse: str, spark: SparkSession, text: str, message: str
) -> None:
    movies.create_view("related", rekindle.comprehension(NESTED))
    movies.create_view("pairs", rekindle.comprehension(PAIRS))
    before, functions, epoch = unnested(movies), movies.functions, movies.epoch
    files = movies._engine.store.list("data")
    with pytest.raises(RekindleError) as caught:
        movies.redefine("related_to", text)
    assert message in str(caught.value)
    if not message:
        assert isinstance(caught.value, EvaluationError)
    assert (movies.functions, movies.epoch) == (functions, epoch)
    assert movies._engine.store.list("data") == files
    assert unnested(movies) == bag(movies.table("pairs")) == before
    insert(movies, ("X", "Drama", "Mendes", 2020))
    assert unnested(movies) == bag(movies.table("pairs")) == expected(movies, RELATED)
    check_laws(movies)
    movies.redefine("related_to", "(m, n) -> m.gen <> n.gen")
    assert unnested(movies) == expected(movies, "m.gen <> n.gen")
    check_laws(movies)


def test_other_columns_are_refused(movies: Database) -> None:
    movies.define("f", "(m) -> m.year")
    movies.create_view("v", rekindle.comprehension("for m in movies yield (name: m.name, f: f(m))"))
    with pytest.raises(DefinitionError, match="the columns of view 'v' would be others"):
        movies.redefine("f", "(m) -> m.gen")
    movies.redefine("f", "(m) -> if(m.year is null, 0, length(m.name))")
    assert bag(movies.sql("SELECT f FROM v WHERE name = 'Jarhead'")) == {(0,): 1}
    movies.redefine("f", "(m) -> cast(null as int)")
    check_laws(movies)


def test_inner_collections_that_a_function_makes(movies: Database) -> None:
    movies.define("others", "(m) -> for n in movies where n.gen = m.gen yield n.name")
    movies.create_view("related", rekindle.comprehension(OTHERS))
    movies.create_view("over", rekindle.comprehension(OVER))
    movies.sql("CREATE MATERIALIZED VIEW sizes AS SELECT name, size(related) AS s FROM related")
    movies.sql("CREATE MATERIALIZED VIEW total AS SELECT sum(s) AS t FROM sizes")
    epoch, before = movies.epoch, unnested(movies)
    assert before == expected(movies, "n.gen = m.gen")
    movies.redefine(
        "others",
        """(m) -> (for k in movies where k.name <> m.name and k.gen = m.gen yield k.name)
             union (for k in movies where k.dir = m.dir and k.gen <> m.gen yield k.name)""",
    )
    assert movies.epoch == epoch + 1
    assert unnested(movies) == expected(movies, RELATED)
    own = Counter({(a, a): -1 for a, *_ in MOVIES})
    own.update({("Jarhead", "Skyfall"): 1, ("Skyfall", "Jarhead"): 1})
    assert moved(movies, "over", epoch) == own
    assert bag(movies.table("over", epoch)) == Counter((b, a) for a, b in before)
    check_laws(movies)
    insert(movies, ("Only God Forgives", "Drama", "Refn", 2013))
    assert unnested(movies) == expected(movies, RELATED)
    check_laws(movies)


def test_parts_with_other_labels(movies: Database, warehouse: str, spark: SparkSession) -> None:
    """Two ways to make labels in the place of one: parts are derived anew, views over them too."""
    inner = "for n in movies where n.gen = m.gen and n.name <> m.name yield n.name"
    other = "for n in movies where n.dir = m.dir and n.name <> m.name yield n.name"
    one = f"for m in movies yield (name: m.name, related: {inner})"
    movies.define("everything", f"() -> {one}")
    movies.create_view("related", rekindle.comprehension("everything()"))
    movies.create_view("over", rekindle.comprehension(OVER))
    movies.sql("CREATE MATERIALIZED VIEW sizes AS SELECT name, size(related) AS s FROM related")
    movies.sql("CREATE MATERIALIZED VIEW total AS SELECT sum(s) AS t FROM sizes")
    epoch, before = movies.epoch, bag(movies.table("over"))
    two = f"for m in movies where m.gen = 'Drama' yield (name: m.name, related: {other})"
    movies.redefine("everything", f"() -> ({one}) union ({two})")
    assert movies.epoch == epoch + 1
    now = expected(movies, "n.gen = m.gen and n.name <> m.name")
    now += expected(movies, "m.gen = 'Drama' and n.dir = m.dir and n.name <> m.name")
    assert unnested(movies) == now
    assert moved(movies, "over", epoch) == {("Skyfall", "Jarhead"): 1}
    assert moved(movies, "sizes", epoch) == {("Drive", 0): 1, ("Jarhead", 1): 1}
    assert moved(movies, "total", epoch) == {(4,): -1, (5,): 1}
    check_laws(movies)
    assert bag(movies.table("over", epoch)) == before
    with pytest.raises(HistoryError, match="derived anew"):
        movies.table("related", epoch)
    movies.close()
    with rekindle.connect(warehouse, spark=spark) as again:
        insert(again, ("Only God Forgives", "Drama", "Refn", 2013))
        check_laws(again)
        again.redefine("everything", f"() -> {one}")
        assert unnested(again) == expected(again, "n.gen = m.gen and n.name <> m.name")
        check_laws(again)
        for view in ("total", "sizes", "over", "related"):
            again.drop_view(view)
        assert not list(kept(again))


def test_a_column_that_was_flat_becomes_nested(db: Database) -> None:
    db.sql("CREATE TABLE posts (id INT, tags ARRAY<STRING>)")
    with db.transaction() as tx:
        tx.insert("posts", [(1, ["a", "b", "b"]), (2, []), (3, ["a", "c"])])
    db.define("shown", "(p) -> p.tags")
    db.create_view("v", rekindle.comprehension("for p in posts yield (id: p.id, tags: shown(p))"))
    db.create_view("w", rekindle.comprehension("for v in v, t in v.tags yield (id: v.id, t: t)"))
    db.redefine("shown", "(p) -> for t in p.tags where t <> 'a' yield t")
    found = {row["id"]: sorted(row["tags"]) for row in db.table("v").collect()}
    assert found == {1: ["b", "b"], 2: [], 3: ["c"]}
    check_laws(db)
    with db.transaction() as tx:
        tx.insert("posts", [(4, ["a", "d"])])
    check_laws(db)
    db.redefine("shown", "(p) -> p.tags")
    assert {row["id"]: sorted(row["tags"]) for row in db.table("v").collect()}[4] == ["a", "d"]
    check_laws(db)


def test_a_redefinition_that_changes_one_percent_moves_one_percent(db: Database) -> None:
    """10,000 pairs, of which 100 are answered otherwise; every row that moves is counted."""
    db.sql("CREATE TABLE items (id INT, a INT, b INT, PRIMARY KEY (id))")
    with db.transaction() as tx:
        tx.insert("items", [(i, i % 10, i % 7) for i in range(100)])
    db.define("fits", "(m, n) -> m.a + n.b >= 0")
    db.create_view(
        "nested",
        rekindle.comprehension(
            "for m in items yield (id: m.id, fits: for n in items where fits(m, n) yield n.id)"
        ),
    )
    db.create_view(
        "flat",
        rekindle.comprehension(
            "for m in items, n in items where fits(m, n) yield (m: m.id, n: n.id)"
        ),
    )
    db.sql("CREATE MATERIALIZED VIEW counts AS SELECT m, count(*) AS c FROM flat GROUP BY m")
    db.create_view("over", rekindle.comprehension("for r in nested, x in r.fits yield (x: x)"))
    epoch = db.epoch
    files = {path for path in db._engine.state.paths if "view-" in path}
    db.redefine("fits", "(m, n) -> m.a + n.b >= 0 and n.id <> 50")
    assert db.changes("flat", epoch).count() == 100
    assert db.changes("nested·fits", epoch).count() == 100
    assert db.changes("nested·", epoch).count() == 0
    assert db.changes("counts", epoch).count() == 200
    assert bag(db.changes("over", epoch).select("x", "_weight")) == {(50, -100): 1}
    assert files <= db._engine.state.paths  # What the views held stays where it is.
    step = db.last_step
    assert step is not None
    nodes, state = step.nodes, db._engine.state
    for name in ("flat", "nested·fits"):
        # Both definitions are asked about all pairs; only those that move come to the view.
        assert nodes[state.entry(name).node].rows_out == 100
        assert nodes[state.entry(name).node].rebuilt == BY_DIFFERENCE
    for name in ("counts", "over"):
        reached = {node.id for node in db._engine.circuit.reachable(state.entry(name).node)}
        views = {state.entry(each).node for each in ("flat", "nested·", "nested·fits")}
        over = [
            key
            for key in reached - views
            if key in nodes and any(k in views for k in db._engine.circuit.nodes[key].inputs)
        ]
        assert over
        assert all(nodes[key].rows_in <= 100 for key in over)
    for view in db.views:
        db.check(view)


# ---- random --------------------------------------------------------------------------------------

ATOMS = st.sampled_from(
    [
        "n.name <> m.name",
        "n.gen = m.gen",
        "n.dir = m.dir",
        "n.year > m.year",
        "abs(n.year - m.year) < 3",
        "m.year > 2010",
        "n.year is null",
        "length(m.name) = length(n.name)",
        "n.gen = 'Drama'",
        "true",
        "false",
    ]
)


@st.composite
def predicates(draw: st.DrawFn, depth: int = 2) -> str:
    """Conditions of Spark SQL on the rows m and n."""
    if depth == 0 or draw(st.booleans()):
        return draw(ATOMS)
    word = draw(st.sampled_from(["and", "or", "not"]))
    left = draw(predicates(depth=depth - 1))
    if word == "not":
        return f"not ({left})"
    return f"({left}) {word} ({draw(predicates(depth=depth - 1))})"


ROWS = st.tuples(
    st.sampled_from("ABCDEF"),
    st.sampled_from(["Drama", "Action", None]),
    st.sampled_from(["Refn", "Mendes", None]),
    st.sampled_from([2009, 2011, 2014, None]),
)
STEPS = st.one_of(
    predicates().map(lambda p: ("redefine", p)),
    st.lists(ROWS, min_size=1, max_size=3, unique_by=lambda row: row[0]).map(
        lambda rows: ("upsert", rows)
    ),
    st.sampled_from("ABCDEF").map(lambda name: ("delete", name)),
    st.just(("reopen", None)),
    st.just(("place", "spark")),
    st.just(("place", "inline")),
)


EXAMPLES = int(os.environ.get("REKINDLE_FUZZ_EXAMPLES", "60"))
STARTS = {"first": predicates(), "steps": st.lists(STEPS, min_size=3, max_size=6)}
UNHURRIED = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


@settings(max_examples=3, suppress_health_check=UNHURRIED)
@given(**STARTS)
def test_random_redefinitions_and_transactions(
    tmp_path_factory: pytest.TempPathFactory, spark: SparkSession, first: str, steps: list[Any]
) -> None:
    follow(tmp_path_factory, spark, first, steps)


@pytest.mark.fuzz
@settings(max_examples=EXAMPLES, suppress_health_check=UNHURRIED)
@given(**STARTS)
def test_many_random_redefinitions_and_transactions(
    tmp_path_factory: pytest.TempPathFactory, spark: SparkSession, first: str, steps: list[Any]
) -> None:
    follow(tmp_path_factory, spark, first, steps)


def follow(
    tmp_path_factory: pytest.TempPathFactory, spark: SparkSession, first: str, steps: list[Any]
) -> None:
    """All laws of views of every kind, after each redefinition and transaction."""
    path = str(Path(tmp_path_factory.mktemp("random")) / "warehouse")
    db = rekindle.connect(path, spark=spark)
    db.sql(TABLE)
    insert(db, *MOVIES)
    db.define("related_to", f"(m, n) -> {first}")
    db.create_view("related", rekindle.comprehension(NESTED))
    db.create_view("pairs", rekindle.comprehension(PAIRS))
    db.create_view("over", rekindle.comprehension(OVER))
    db.sql("CREATE MATERIALIZED VIEW counts AS SELECT a, count(*) AS n FROM pairs GROUP BY a")
    db.create_view(
        "after",  # Uses the function, and reads views that follow it.
        rekindle.comprehension(
            """for c in counts, m in movies where c.a = m.name and
                 exists(n in movies where related_to(m, n) and n.name <> m.name)
               yield (a: c.a, n: c.n)"""
        ),
    )
    predicate, past = first, {}
    try:
        for kind, what in steps:
            past[db.epoch] = expected(db, predicate)
            match kind:
                case "redefine":
                    db.redefine("related_to", f"(m, n) -> {what}")
                    predicate = what
                case "upsert":
                    with db.transaction() as tx:
                        tx.upsert("movies", what)
                case "delete":
                    db.sql(f"DELETE FROM movies WHERE name = '{what}'")
                case "reopen":
                    db.close()
                    db = rekindle.connect(path, spark=spark)
                case "place":
                    db.place(what)
            now = expected(db, predicate)
            assert unnested(db) == bag(db.table("pairs")) == now
            assert bag(db.table("over")) == Counter((b, a) for a, b in now.elements())
            check_laws(db)
        for epoch, pairs in past.items():
            assert unnested(db, epoch) == bag(db.table("pairs", epoch)) == pairs
    finally:
        db.close()


def test_a_planted_bug_is_caught(movies: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the difference is not led on to the views over a view, the laws say so."""
    from rekindle.runtime.views.redefinition import Redefinition

    movies.create_view("pairs", rekindle.comprehension(PAIRS))
    movies.sql("CREATE MATERIALIZED VIEW counts AS SELECT a, count(*) AS n FROM pairs GROUP BY a")
    real = Redefinition._stepped

    def forgetful(self: Any, context: Any, pending: Any) -> Any:
        found = real(self, context, pending)
        found.runs.clear()
        return found

    monkeypatch.setattr(Redefinition, "_stepped", forgetful)
    movies.redefine("related_to", "(m, n) -> true")
    with pytest.raises(RekindleError):
        check_laws(movies)
