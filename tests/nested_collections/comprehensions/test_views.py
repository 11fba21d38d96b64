"""Nested views on Spark: the forms of the language, reopening, reading, errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import rekindle
from rekindle.errors import (
    ConstraintError,
    DefinitionError,
    RekindleError,
    StatementError,
    UnsupportedError,
)
from rekindle.runtime.database import Database

RELATED = """
    for m in movies
    yield (name: m.name,
           related: for n in movies where n.name <> m.name and (n.gen = m.gen or n.dir = m.dir)
                    yield n.name)"""


@pytest.fixture
def db(spark: SparkSession, tmp_path: Path) -> Iterator[Database]:
    found = rekindle.connect(str(tmp_path / "db"), spark=spark)
    found.sql("CREATE TABLE movies (name STRING, gen STRING, dir STRING)")
    found.sql(
        "INSERT INTO movies VALUES ('Drive', 'Drama', 'Refn'), ('Skyfall', 'Action', 'Mendes'), "
        "('Rush', 'Action', 'Howard')"
    )
    yield found
    found.close()


def plain(value: Any) -> Any:
    """Rows as tuples and arrays as sorted lists."""
    if isinstance(value, tuple):
        return tuple(plain(each) for each in value)
    if isinstance(value, list):
        return sorted((plain(each) for each in value), key=repr)
    return value


def rows(db: Database, view: str) -> Any:
    return plain(db.table(view).collect())


def test_jarhead_changes_the_bags_and_nothing_else(db: Database) -> None:
    db.create_view("related", rekindle.comprehension(RELATED))
    assert rows(db, "related") == [("Drive", []), ("Rush", ["Skyfall"]), ("Skyfall", ["Rush"])]
    before = db.epoch
    db.sql("INSERT INTO movies VALUES ('Jarhead', 'Drama', 'Mendes')")
    assert rows(db, "related") == [
        ("Drive", ["Jarhead"]),
        ("Jarhead", ["Drive", "Skyfall"]),
        ("Rush", ["Skyfall"]),
        ("Skyfall", ["Jarhead", "Rush"]),
    ]
    moved = {path: db.changes(f"related·{path}", before).count() for path in ("", "related")}
    assert moved == {"": 1, "related": 4}
    assert db.check("related").rows == 4


def test_the_flat_tables_are_those_of_the_thesis(db: Database) -> None:
    db.create_view("related", rekindle.comprehension(RELATED))
    found = db.shredded("related")
    assert list(found) == ["", "related"]
    assert found[""].columns == ["name", "related"]
    assert found["related"].columns == ["_label", "value"]
    labels = {row["name"]: tuple(row["related"]) for row in found[""].collect()}
    assert labels["Drive"] == (0, "Drive", "Drama", "Refn")
    held = [(tuple(row["_label"])[1], row["value"]) for row in found["related"].collect()]
    assert sorted(held) == [("Rush", "Skyfall"), ("Skyfall", "Rush")]


def test_a_label_that_vanishes_loses_its_definition(db: Database) -> None:
    db.create_view("related", rekindle.comprehension(RELATED))
    db.sql("DELETE FROM movies WHERE name = 'Rush'")
    assert db.shredded("related")["related"].count() == 0
    db.sql("DELETE FROM movies")
    assert rows(db, "related") == []
    assert db.check("related").rows == 0


def test_views_are_found_again(db: Database, spark: SparkSession) -> None:
    db.create_view("related", rekindle.comprehension(RELATED))
    db.create_view(
        "pairs", rekindle.comprehension("for r in related, x in r.related yield (r.name, x: x)")
    )
    db.close()
    again = rekindle.connect(db.path, spark=spark)
    again.sql("INSERT INTO movies VALUES ('Jarhead', 'Drama', 'Mendes')")
    for view in ("related", "pairs"):
        again.check(view)
    assert len(rows(again, "pairs")) == 6
    assert again.views == ["related", "pairs"]
    assert "for m in movies" in again.definition("related")
    with pytest.raises(ConstraintError, match="pairs"):
        again.drop_view("related")
    again.drop_view("pairs")
    again.drop_view("related")
    assert again.views == []
    again.close()


def test_sql_makes_and_reads_nested_views(db: Database) -> None:
    db.sql(f"CREATE MATERIALIZED VIEW related AS {RELATED}")
    db.sql("CREATE MATERIALIZED VIEW sizes AS SELECT name, size(related) AS n FROM related")
    db.sql(
        "CREATE MATERIALIZED VIEW flat AS "
        "SELECT name, x FROM related LATERAL VIEW explode(related) AS x"
    )
    db.sql("INSERT INTO movies VALUES ('Jarhead', 'Drama', 'Mendes')")
    assert rows(db, "sizes") == [("Drive", 1), ("Jarhead", 2), ("Rush", 1), ("Skyfall", 2)]
    assert len(rows(db, "flat")) == 6
    for view in ("related", "sizes", "flat"):
        db.check(view)
    found = db.sql("SELECT name FROM related WHERE array_contains(related, 'Drive')").collect()
    assert [row["name"] for row in found] == ["Jarhead"]


def test_inner_collections_of_inner_collections(db: Database) -> None:
    db.create_view(
        "tree",
        rekindle.comprehension(
            """for m in movies yield (
                        gen: m.gen,
                        same: for n in movies where n.gen = m.gen yield (
                            name: n.name,
                            by: for o in movies where o.dir = n.dir and o.gen = m.gen
                                yield o.name))"""
        ),
    )
    assert list(db.shredded("tree")) == ["", "same", "same.by"]
    db.sql(
        "INSERT INTO movies VALUES ('Spectre', 'Action', 'Mendes'), ('Spectre', 'Action', 'Mendes')"
    )
    found = dict(rows(db, "tree"))
    assert found["Drama"] == [("Drive", ["Drive"])]
    assert ("Skyfall", ["Skyfall", "Spectre", "Spectre"]) in found["Action"]
    assert db.check("tree").rows == 5
    db.sql("DELETE FROM movies WHERE name = 'Skyfall'")
    db.check("tree")


def test_values_are_added_by_key(db: Database) -> None:
    db.create_view("counts", rekindle.comprehension("for m in movies yield m.gen => 1"))
    db.create_view(
        "groups",
        rekindle.comprehension(
            "for m in movies yield (g: m.gen) "
            "=> (for n in movies where n.name = m.name yield n.name)"
        ),
    )
    assert rows(db, "counts") == [("Action", 2), ("Drama", 1)]
    assert rows(db, "groups") == [("Action", ["Rush", "Skyfall"]), ("Drama", ["Drive"])]
    db.sql("DELETE FROM movies WHERE gen = 'Drama'")
    assert rows(db, "counts") == [("Action", 2)]
    assert rows(db, "groups") == [("Action", ["Rush", "Skyfall"])]
    for view in ("counts", "groups"):
        db.check(view)


def test_values_have_values(db: Database) -> None:
    db.create_view(
        "tree",
        rekindle.comprehension(
            "for m in movies yield (i: m.gen) => (for n in movies where n.name = m.name "
            "yield (o: n.dir) => (for k in movies where k.gen = n.gen yield k.name))"
        ),
    )
    assert list(db.shredded("tree")) == ["", "value", "value.value"]
    whole = [
        ("Action", [("Howard", ["Rush", "Skyfall"]), ("Mendes", ["Rush", "Skyfall"])]),
        ("Drama", [("Refn", ["Drive"])]),
    ]
    assert rows(db, "tree") == whole
    before = db.epoch
    db.sql("INSERT INTO movies VALUES ('Jarhead', 'Drama', 'Mendes')")
    assert rows(db, "tree") == [
        whole[0],
        ("Drama", [("Mendes", ["Drive", "Jarhead"]), ("Refn", ["Drive", "Jarhead"])]),
    ]
    moved = {path: db.changes(f"tree·{path}", before).count() for path in db.shredded("tree")}
    assert moved == {"": 0, "value": 1, "value.value": 3}
    db.sql("DELETE FROM movies WHERE gen = 'Action'")
    assert [gen for gen, _ in rows(db, "tree")] == ["Drama"]
    assert db.check("tree").rows == 1


ORDERS = """for c in customers yield (id: c.id,
    orders: for o in orders where {}
            yield (okey: o.okey, lines: for l in lines where l.okey = o.okey yield l.part))"""


@pytest.mark.parametrize(
    ("condition", "is_own"),
    [("o.cust = c.id", True), ("c.id == o.cust", True), ("o.cust >= c.id", False)],
)
def test_labels_of_rows_that_keys_tell_apart(db: Database, condition: str, is_own: bool) -> None:
    """Two customers share an order by an inequality, and the label of its lines with it."""
    db.sql("CREATE TABLE customers (id INT, PRIMARY KEY (id))")
    db.sql("CREATE TABLE orders (okey INT, cust INT, PRIMARY KEY (okey))")
    db.sql("CREATE TABLE lines (okey INT, part STRING)")
    db.create_view("v", rekindle.comprehension(ORDERS.format(condition)))
    for statement in (
        "INSERT INTO customers VALUES (1), (2)",
        "INSERT INTO orders VALUES (10, 1), (11, 2), (12, 2), (13, NULL)",
        "INSERT INTO lines VALUES (10, 'a'), (11, 'a'), (11, 'b'), (13, 'c')",
        "UPDATE orders SET cust = 2 WHERE okey = 10",
        "DELETE FROM customers WHERE id = 1",
        "DELETE FROM orders WHERE okey = 11",
    ):
        db.sql(statement)
        assert rows(db, "v") == _ordered(db, condition)
        db.check("v")
    (query,) = db._engine.state.entry("v·orders.lines").definition.queries  # type: ignore[union-attr]
    assert ("DISTINCT" not in query) is is_own


def _ordered(db: Database, condition: str) -> Any:
    lines = [tuple(row) for row in db.table("lines").collect()]
    orders = [tuple(row) for row in db.table("orders").collect()]
    holds = (lambda o, c: o is not None and o >= c) if ">=" in condition else lambda o, c: o == c
    found = [
        (c, [(k, [part for key, part in lines if key == k]) for k, o in orders if holds(o, c)])
        for (c,) in db.table("customers").collect()
    ]
    return plain(found)


def test_sums_of_decimals_keep_their_digits(db: Database) -> None:
    db.sql("CREATE TABLE prices (k INT, d DECIMAL(38, 18), a ARRAY<INT>)")
    db.sql("INSERT INTO prices VALUES (1, 0.000000000000000001, array(3, 1)), (1, 2, NULL)")
    text = """for p in prices yield (a: sort_array(p.a),
              s: sum(for q in prices where q.k = p.k yield q.d))"""
    db.create_view("v", rekindle.comprehension(text))
    assert rows(db, "v") == [
        (None, Decimal("2.000000000000000001")),
        ([1, 3], Decimal("2.000000000000000001")),
    ]
    db.sql("DELETE FROM prices WHERE d = 2")
    assert rows(db, "v") == [([1, 3], Decimal("0.000000000000000001"))]
    db.check("v")


def test_elements_that_count_for_numbers(db: Database) -> None:
    db.sql("CREATE TABLE stock (part STRING, n INT)")
    db.sql("INSERT INTO stock VALUES ('bolt', 2), ('bolt', 1), ('nut', 0), ('cog', NULL)")
    counted = "(for s in stock yield s.part => s.n)"
    db.create_view("each", rekindle.comprehension(f"for p in {counted} yield (p: p)"))
    db.create_view(
        "of",
        rekindle.comprehension(f"for p in {counted} yield (p: p, x: for q in {counted} yield q)"),
    )
    assert rows(db, "each") == [("bolt",)] * 3
    assert rows(db, "of") == [("bolt", ["bolt"] * 3)] * 3
    db.sql("UPDATE stock SET n = n - 1")
    with pytest.raises(RekindleError, match=r"less than no times|negative"):
        rows(db, "each")
    db.sql("DELETE FROM stock WHERE n < 0")
    assert rows(db, "each") == [("bolt",)]
    for view in ("each", "of"):
        db.check(view)
    with pytest.raises(UnsupportedError, match="not whole"):
        text = "for p in (for s in stock yield s.part => s.n / 2) yield p"
        db.create_view("half", rekindle.comprehension(text))


def test_a_nested_view_gets_another_definition(db: Database, spark: SparkSession) -> None:
    db.create_view("v", rekindle.comprehension(RELATED))
    epoch = db.epoch
    for text, names in (
        (
            "FOR m IN movies YIELD (gen: m.gen, related: FOR n IN movies WHERE n.gen = m.gen "
            "YIELD (dir: n.dir, by: FOR o IN movies WHERE o.dir = n.dir YIELD o.name))",
            ["", "related", "related.by"],
        ),
        ("SELECT gen, count(*) AS n FROM movies GROUP BY gen", None),
        ("SELECT gen, collect_list(name) AS names FROM movies GROUP BY gen", ["", "names"]),
        (RELATED, ["", "related"]),
    ):
        db.sql(f"CREATE OR REPLACE MATERIALIZED VIEW v AS {text}")
        epoch += 1
        assert db.epoch == epoch and db.views == ["v"]
        if isinstance(names, list):
            assert list(db.shredded("v")) == names
        db.sql(f"INSERT INTO movies VALUES ('film {epoch}', 'Drama', 'Mendes')")
        epoch += 1
        db.check("v")
    for text in ("FOR r IN v YIELD r.name", "SELECT name FROM v", "FOR m IN movies YIELD m.nme"):
        with pytest.raises(RekindleError, match=r"reads the view itself|no field 'nme'"):
            db.sql(f"CREATE OR REPLACE MATERIALIZED VIEW v AS {text}")
    assert db.epoch == epoch
    db.create_view("over", rekindle.comprehension("for r in v, x in r.related yield x"))
    with pytest.raises(ConstraintError, match="read by over"):
        db.sql("ALTER MATERIALIZED VIEW v AS FOR m IN movies YIELD m.name")
    db.close()
    again = rekindle.connect(db.path, spark=spark)
    again.sql("DELETE FROM movies WHERE name = 'Rush'")
    for view in ("v", "over"):
        again.check(view)
    again.close()


def test_a_sum_with_something_taken_away(db: Database) -> None:
    db.create_view(
        "others",
        rekindle.comprehension(
            "movies union negate(for m in movies where m.gen = 'Action' yield m)"
        ),
    )
    assert rows(db, "others") == [("Drive", "Drama", "Refn")]
    db.sql("INSERT INTO movies VALUES ('Jarhead', 'Drama', 'Mendes')")
    assert len(rows(db, "others")) == 2
    db.check("others")


def test_bags_of_different_places_in_one_column(db: Database) -> None:
    db.create_view(
        "both",
        rekindle.comprehension(
            "(for m in movies "
            "yield (n: m.name, xs: for n in movies where n.gen = m.gen yield n.dir)) "
            "union (for m in movies "
            "yield (n: m.gen, xs: for n in movies where n.dir = m.dir yield n.name))"
        ),
    )
    db.sql("INSERT INTO movies VALUES ('Jarhead', 'Drama', 'Mendes')")
    found = rows(db, "both")
    assert ("Jarhead", ["Mendes", "Refn"]) in found
    assert ("Drama", ["Jarhead", "Skyfall"]) in found
    assert db.check("both").rows == 8


def test_measures_in_rows_and_conditions(db: Database) -> None:
    db.create_view(
        "measured",
        rekindle.comprehension(
            "for m in movies where count(for n in movies where n.gen = m.gen yield n) >= 1 "
            "and not exists(n in movies where n.gen = m.gen and n.name < m.name) "
            "yield (gen: m.gen, n: count(for n in movies where n.gen = m.gen yield n) * 10, "
            "last: max(for n in movies where n.gen = m.gen yield n.name), "
            "all: forall(n in movies: n.gen = m.gen))"
        ),
    )
    assert rows(db, "measured") == [("Action", 20, "Skyfall", False), ("Drama", 10, "Drive", False)]
    db.sql("DELETE FROM movies WHERE gen = 'Action'")
    assert rows(db, "measured") == [("Drama", 10, "Drive", True)]
    db.check("measured")


def test_one_number(db: Database) -> None:
    db.create_view("total", rekindle.comprehension("count(movies) + 1"))
    assert rows(db, "total") == [(4,)]
    db.sql("DELETE FROM movies")
    assert rows(db, "total") == [(1,)]
    db.check("total")


def test_a_transaction_sees_nested_views_as_it_made_them(db: Database) -> None:
    db.create_view("related", rekindle.comprehension(RELATED))
    before = db.epoch
    with db.transaction() as tx:
        tx.insert("movies", [("Jarhead", "Drama", "Mendes")])
        assert ("Drive", ["Jarhead"]) in rows(db, "related")
        tx.rollback()
    assert ("Drive", []) in rows(db, "related")
    db.sql("INSERT INTO movies VALUES ('Jarhead', 'Drama', 'Mendes')")
    assert ("Drive", []) in plain(db.table("related", epoch=before).collect())


@pytest.mark.parametrize("policy", ["first_order", "higher_order", "view_tree"])
def test_policies_keep_dictionaries(db: Database, policy: str) -> None:
    text = (
        "for m in movies yield (m.name, n: sum(for n in movies, o in movies "
        "where n.gen = m.gen and o.dir = n.dir yield 1))"
    )
    try:
        db.create_view("v", rekindle.comprehension(text), policy=policy)
    except UnsupportedError:
        pytest.skip(f"{policy} has no use here")
    db.sql("INSERT INTO movies VALUES ('Jarhead', 'Drama', 'Mendes')")
    db.check("v")


@pytest.mark.parametrize("placement", ["inline", "spark"])
def test_placements_agree(db: Database, placement: str) -> None:
    db.create_view("related", rekindle.comprehension(RELATED))
    db.place(placement)
    db.sql("INSERT INTO movies VALUES ('Jarhead', 'Drama', 'Mendes')")
    db.sql("DELETE FROM movies WHERE name = 'Rush'")
    assert rows(db, "related") == [
        ("Drive", ["Jarhead"]),
        ("Jarhead", ["Drive", "Skyfall"]),
        ("Skyfall", ["Jarhead"]),
    ]
    assert db.last_step is not None and db.last_step.placement.value == placement
    db.place(None)


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        ("for m in movie yield m", StatementError, "line 1, column 10: unknown table or view"),
        ("for m in movies yield m.nme", StatementError, "'m' has no field 'nme'"),
        ("for m in movies where m.name yield m", StatementError, "a condition is boolean"),
        ("for m in movies, x in m.name yield x", StatementError, "'m.name' is of type string"),
        ("for m in movies yield nosuch(m.name)", StatementError, "line 1, column 23"),
        ("movies union (for m in movies yield m.name)", StatementError, "different types"),
        ("flatten(movies)", StatementError, "flatten takes a collection of collections"),
        ("sum(movies)", StatementError, "sum takes a collection of scalars"),
        ("for m in movies yield (a: 1, a: 2)", RekindleError, "two fields 'a'"),
        ("for m in movies yield sum(m.name)", StatementError, "an aggregate of rows cannot stand"),
        ("for m in movies where count(*) > 1 yield 1", StatementError, "column 23: an aggregate"),
        ("for m in movies yield rank() over (order by 1)", StatementError, "a window function"),
        ("for m in movies yield explode(array(m.name))", StatementError, "that gives rows cannot"),
        ("for m in movies where m.gen = 'a' and yield 1", StatementError, "and' is no expression"),
        ("for m in movies yield m.name m.gen", StatementError, "'m.name m.gen' is no expression"),
        ("for m in movies yield 1 + ", StatementError, "'1 +' is no expression of Spark SQL"),
        ("for m in movies yield lower(name)", StatementError, "column 29: unknown name 'name'"),
        ("for m in movies yield lower(name)", StatementError, "did you mean m.name?"),
        ("for movie in movies yield moovie.name", StatementError, "did you mean 'movie'?"),
        ("for m in movies yield", StatementError, "expected: an expression"),
        ("sum(for m in movies yield m.name)", StatementError, "sum takes numbers, not string"),
        ("for m in movies yield (x: movies) => 1", UnsupportedError, "a collection in them: 'x'"),
        ("for m in movies yield (value: 1) => 1", DefinitionError, "a field called 'value'"),
    ],
)
def test_errors_name_what_is_wrong(
    db: Database, text: str, error: type[RekindleError], said: str
) -> None:
    epoch = db.epoch
    with pytest.raises(error) as raised:
        db.create_view("v", rekindle.comprehension(text))
    assert said in str(raised.value)
    assert db.epoch == epoch and db.views == []


def test_what_cannot_be_done_is_refused(db: Database) -> None:
    db.create_view("related", rekindle.comprehension(RELATED))
    with pytest.raises(DefinitionError, match="exists already"):
        db.create_view("related", rekindle.comprehension(RELATED))
    with pytest.raises(UnsupportedError, match="nested"):
        db.create_view("f", rekindle.comprehension(RELATED), representation="factorised")
    with pytest.raises(DefinitionError, match="part of the view"):
        db.drop_view("related·related")


def test_a_planted_bug_in_the_domain_is_caught(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Labels without DISTINCT define a bag that two rows share twice."""
    from rekindle.frontends.comprehension import parts

    real: Callable[..., Any] = parts._domain
    wrong = lambda part, place, variant, single: _without_distinct(  # noqa: E731
        real(part, place, variant, single)
    )
    monkeypatch.setattr(parts, "_domain", wrong)
    text = "for m in movies yield (g: m.gen, xs: for n in movies where n.gen = m.gen yield n.name)"
    db.create_view("v", rekindle.comprehension(text))
    assert ("Action", ["Rush", "Skyfall"]) not in rows(db, "v")


def _without_distinct(domain: Any) -> Any:
    from dataclasses import replace

    return replace(domain, relation=domain.relation.replace("DISTINCT ", ""))


MAPS = {
    "inner": "for r in maps yield (id: r.id, big: for e in r.m where e.value > 1 yield e.key)",
    "measured": (
        "for r in maps where exists(e in r.m where e.value > 1) "
        "and forall(e in r.m: e.key <> 'z') "
        "yield (id: r.id, n: count(r.m), s: sum(for e in r.m yield e.value))"
    ),
    "passed": (
        "for o in movies yield (n: o.name, rs: for r in maps where r.name = o.name "
        "yield (m: r.m, ks: for e in r.m yield e.key))"
    ),
    "held": (
        "for r in maps yield (id: r.id, os: for o in movies where o.name = r.name "
        "yield (m: r.m, es: for e in r.m where e.value > 0 yield (k: e.key, d: o.dir)))"
    ),
    "either": (
        "(for r in maps yield (xs: for e in r.m yield e.key)) "
        "union (for o in movies yield (xs: for r in maps where r.name = o.name yield r.name))"
    ),
}


def _of_maps(maps: list[tuple[int, str, dict[str, int] | None]], films: Any) -> dict[str, Any]:
    """The rows of each view of maps."""
    entries = [(i, name, sorted((m or {}).items()), m) for i, name, m in maps]
    return {
        "inner": [(i, [k for k, v in es if v > 1]) for i, _, es, _ in entries],
        "measured": [
            (i, len(es), sum(v for _, v in es))
            for i, _, es, _ in entries
            if any(v > 1 for _, v in es) and all(k != "z" for k, _ in es)
        ],
        "passed": [
            (film, [(m, [k for k, _ in es]) for _, name, es, m in entries if name == film])
            for film, _, _ in films
        ],
        "held": [
            (i, [(m, [(k, d) for k, v in es if v > 0]) for film, _, d in films if film == name])
            for i, name, es, m in entries
        ],
        "either": [
            *(([k for k, _ in es],) for _, _, es, _ in entries),
            *(([film for _, name, _, _ in entries if name == film],) for film, _, _ in films),
        ],
    }


@pytest.mark.parametrize("view", MAPS)
@pytest.mark.parametrize("key", ["", ", PRIMARY KEY (id)"])
def test_maps_are_bags_wherever_they_stand(db: Database, view: str, key: str) -> None:
    """In labels, in what aggregates depend on, and passed on, whatever order entries come in."""
    db.sql(f"CREATE TABLE maps (id INT, name STRING, m MAP<STRING, INT>{key})")
    db.create_view("v", rekindle.comprehension(MAPS[view]))
    held: list[tuple[int, str, dict[str, int] | None]] = []
    films = [tuple(row) for row in db.table("movies").collect()]
    for added, gone in (
        ([(1, "Drive", {"a": 1, "b": 2}), (2, "Rush", {"b": 2, "a": 1}), (3, "Rush", None)], []),
        ([(4, "Drive", {}), (5, "Skyfall", {"z": 3})], [(2, "Rush", {"b": 2, "a": 1})]),
        ([], [(1, "Drive", {"a": 1, "b": 2}), (3, "Rush", None)]),
    ):
        with db.transaction() as tx:
            tx.insert("maps", added)
            tx.delete("maps", gone)
        held = [row for row in held + added if row not in gone]
        expected = _of_maps(held, films)[view]
        assert _bags(rows(db, "v")) == _bags(expected)
        db.check("v")


def _bags(value: Any) -> Any:
    """A value in which lists are bags."""
    if isinstance(value, list):
        return sorted(map(_bags, value), key=repr)
    if isinstance(value, dict):
        return tuple(sorted(value.items()))
    return tuple(map(_bags, value)) if isinstance(value, tuple) else value
