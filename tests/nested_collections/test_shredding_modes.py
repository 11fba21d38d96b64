"""Inner collections as dictionaries or as arrays in their rows: the same rows after every step."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import rekindle
from rekindle.errors import RekindleError

VIEWS = {
    "related": """for m in movies
        yield (name: m.name,
               related: for n in movies where n.name <> m.name and n.gen = m.gen yield n.name)""",
    "deep": """for g in genres
        yield (gen: g.gen,
               movies: for m in movies where m.gen = g.gen
                       yield (name: m.name,
                              seen: for s in seen where s.name = m.name
                                    yield (who: s.who)),
               audience: for s in seen, m in movies where m.name = s.name and m.gen = g.gen
                         yield s.who)""",
    "both": """for m in movies
        yield (name: m.name,
               said: (for s in seen where s.name = m.name yield s.who)
                     union (for g in genres where g.gen = m.gen yield g.gen))""",
}
OVER = "for d in deep{0}, m in d.movies, s in m.seen yield (who: s.who, gen: d.gen)"


def _ordered(value: Any) -> Any:
    return tuple(map(_ordered, value)) if isinstance(value, (list, tuple)) else value


def _rows(db: rekindle.Database, view: str) -> list[Any]:
    return sorted((_ordered(tuple(row)) for row in db.table(view).collect()), key=repr)


def _change(tx: Any, chance: random.Random, held: dict[str, list[tuple[Any, ...]]]) -> None:
    kinds = {
        "genres": lambda: (chance.choice(["a", "b", "c", None]),),
        "movies": lambda: (chance.choice("pqrs"), chance.choice(["a", "b", None])),
        "seen": lambda: (chance.choice("pqrs"), chance.choice(["x", "y", None])),
    }
    for table, make in kinds.items():
        for _ in range(chance.randrange(3)):
            row = make()
            tx.insert(table, [row])
            held[table].append(row)
        if held[table] and chance.random() < 0.5:
            row = held[table].pop(chance.randrange(len(held[table])))
            tx.delete(table, [row])


@pytest.mark.parametrize("seed", [1, 2])
def test_modes_hold_the_same_rows_after_every_step(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    held: dict[str, list[tuple[Any, ...]]] = {"genres": [], "movies": [], "seen": []}
    with rekindle.connect(tmp_path / "db", spark) as db:
        db.sql("CREATE TABLE genres (gen STRING)")
        db.sql("CREATE TABLE movies (name STRING, gen STRING)")
        db.sql("CREATE TABLE seen (name STRING, who STRING)")
        with db.transaction() as tx:
            _change(tx, chance, held)
        for name, text in VIEWS.items():
            db.create_view(f"{name}_full", rekindle.comprehension(text), shredding="full")
            db.sql(f"CREATE MATERIALIZED VIEW {name}_none OPTIONS (shredding = 'none') AS {text}")
        for mode in ("_full", "_none"):
            db.create_view(f"over{mode}", rekindle.comprehension(OVER.format(mode)))
        db.create_view("unsaid", rekindle.comprehension(VIEWS["related"]))
        names = [*VIEWS, "over"]
        for _ in range(6):
            with db.transaction() as tx:
                _change(tx, chance, held)
            for name in names:
                assert _rows(db, f"{name}_none") == _rows(db, f"{name}_full"), name
        for name in names:
            db.check(f"{name}_none")
        assert list(db.shredded("deep_none")) == [""]
        assert list(db.shredded("deep_full")) == ["", "movies", "movies.seen", "audience"]
        assert "shredding = 'none'" in db.definition("deep_none")
        assert "by cost" not in str(db.explain("deep_full"))
        said = str(db.explain("unsaid"))
        top, inner = map(int, re.findall(r"^ +(?:top|related) +(\d+) rows", said, re.MULTILINE))
        assert f"shredding = 'full' by cost: {top + inner} rows kept, 1 written" in said
        assert f"as arrays {top + 2 * inner} kept" in said
        assert "in their rows" in str(db.explain("deep_none"))
        before = {name: _rows(db, f"{name}_none") for name in names}
    with rekindle.connect(tmp_path / "db", spark) as db:
        with db.transaction() as tx:
            tx.insert("movies", [("new", "a")])
            tx.insert("seen", [("new", "z")])
        for name in names:
            assert _rows(db, f"{name}_none") == _rows(db, f"{name}_full")
        assert _rows(db, "related_none") != before["related"]


def test_small_bags_stay_in_their_rows_and_large_ones_do_not(
    spark: SparkSession, tmp_path: Path
) -> None:
    with rekindle.connect(tmp_path / "db", spark) as db:
        db.sql("CREATE TABLE genres (gen STRING)")
        db.sql("CREATE TABLE movies (name STRING, gen STRING)")
        db.sql("CREATE TABLE seen (name STRING, who STRING)")
        with db.transaction() as tx:
            tx.insert("genres", [("a",), ("b",), ("b",), (None,)])
            tx.insert("movies", [("p", "a"), ("q", "a"), ("r", "b"), ("r", None)])
            tx.insert("seen", [("p", f"w{i}") for i in range(20)] + [("q", "x"), ("r", None)])
        text = VIEWS["deep"].replace("who: s.who)),", "who: s.who),\n best: " + _LIKED + "),")
        db.sql(f"CREATE MATERIALIZED VIEW some OPTIONS (shredding = 'partial') AS {text}")
        db.create_view("full", rekindle.comprehension(text))
        db.create_view("few", rekindle.comprehension(VIEWS["related"]), shredding="partial")
        # `movies` is small, but `movies.seen` below it is not; `movies.best` is.
        assert list(db.shredded("some")) == ["", "movies", "movies.seen", "audience"]
        assert list(db.shredded("few")) == [""]
        said = str(db.explain("some"))
        assert "bags of movies.best are arrays in their rows" in said
        assert "bags of movies.seen are in a dictionary: shredding = 'partial', the largest" in said
        assert "bags of related are arrays" in str(db.explain("few"))
        assert "shredding = 'partial'" in db.definition("some")
        over = "for d in {0}, m in d.movies, s in m.best yield (who: s, gen: d.gen)"
        for name in ("some", "full"):
            db.create_view(f"over_{name}", rekindle.comprehension(over.format(name)))
        steps: list[list[tuple[str, str, list[Any]]]] = [
            [("insert", "seen", [("q", f"v{i}") for i in range(30)])],
            [
                ("delete", "seen", [("p", f"w{i}") for i in range(19)]),
                ("insert", "genres", [("a",)]),
            ],
            [("delete", "movies", [("r", None), ("q", "a")]), ("insert", "movies", [("q", None)])],
            [],
        ]
        for step in steps:
            with db.transaction() as tx:
                for kind, table, rows in step:
                    getattr(tx, kind)(table, rows)
            assert _rows(db, "some") == _rows(db, "full")
            assert _rows(db, "over_some") == _rows(db, "over_full")
        db.check("few")
    with rekindle.connect(tmp_path / "db", spark) as db:
        db.sql("INSERT INTO seen VALUES ('r', 'last')")
        assert _rows(db, "some") == _rows(db, "full")
        found = db.arrow("some", where={"gen": "b"}).to_pylist()
        assert len(found) == 2 and "last" in str(found)
        db.check("some")


_LIKED = "for o in seen where o.name = m.name and o.who = 'x' yield o.who"


def test_a_word_that_is_no_mode_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with rekindle.connect(tmp_path / "db", spark) as db:
        db.sql("CREATE TABLE movies (name STRING, gen STRING)")
        given = rekindle.comprehension(VIEWS["related"])
        with pytest.raises(RekindleError, match="shredding"):
            db.create_view("v", given, shredding="some")
        with pytest.raises(RekindleError, match="no comprehension"):
            db.create_view("v", "SELECT name FROM movies", shredding="none")


def test_a_function_is_redefined_under_arrays(spark: SparkSession, tmp_path: Path) -> None:
    with rekindle.connect(tmp_path / "db", spark) as db:
        db.sql("CREATE TABLE movies (name STRING, gen STRING)")
        db.sql("INSERT INTO movies VALUES ('p', 'a'), ('q', 'a'), ('r', 'b')")
        db.define("alike", "(m, n) -> m.gen = n.gen")
        text = """for m in movies yield (name: m.name,
                  others: for n in movies where alike(m, n) yield n.name)"""
        for mode in ("full", "none"):
            db.create_view(mode, rekindle.comprehension(text), shredding=mode)
        assert _rows(db, "none") == _rows(db, "full")
        db.redefine("alike", "(m, n) -> m.gen <> n.gen")
        assert _rows(db, "none") == _rows(db, "full")
        assert ("r", ("p", "q")) in _rows(db, "none")
        db.check("none")
