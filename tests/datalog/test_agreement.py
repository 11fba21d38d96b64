"""Rules in any order, and rules that do not agree: the error names both lines and the column."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import rekindle
from rekindle.errors import RekindleError
from rekindle.runtime.database import Database
from tests.property.oracle import bag
from tests.spark.helpers import rows


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Database]:
    with rekindle.connect(str(tmp_path_factory.mktemp("graph")), spark=spark) as db:
        db.create_table("edge", "a int, b int")
        db.create_table("word", "w string")
        with db.transaction() as tx:
            tx.insert("edge", [(1, 2), (2, 3)])
            tx.insert("word", [("it's",)])
        yield db


def test_a_rule_may_recur_before_the_one_that_begins(graph: Database) -> None:
    graph.datalog("path(x, z) :- path(x, y), edge(y, z).\npath(a, b) :- edge(a, b).")
    assert rows(graph, "path") == bag([(1, 2), (2, 3), (1, 3)])
    with graph.transaction() as tx:
        tx.delete("edge", [(1, 2)])
    assert rows(graph, "path") == bag([(2, 3)])
    with graph.transaction() as tx:
        tx.insert("edge", [(1, 2)])
    graph.sql("DROP VIEW path")


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (
            "r(x) :- edge(x, _).\nr(w) :- word(w).",
            ["line 2", "column 1", "STRING", "INT", "line 1"],
        ),
        (
            "r(x) :- edge(x, _).\nr(z) :- r(x), edge(x, z).\nr(w) :- word(w).",
            ["line 3", "'r'", "STRING", "INT", "line 1"],
        ),
        ("r(x) :- edge(x, _).\nr(x, y) :- edge(x, y).", ["line 2", "2 columns", "line 1"]),
        ("r(x) :- edge(x, _).\ns(y) :- edge(x, _).", ["line 2", "'y'", "unsafe"]),
        ("r(x) :- edge(x, _), !word(y).", ["line 1", "'y'", "unsafe"]),
        ("r(_) :- edge(_, _).", ["line 1", "'_'"]),
        ("\nr(x) :- nosuch(x).", ["line 2", "nosuch"]),
        ("\nedge(x, y) :- edge(y, x).", ["line 2", "'edge'", "exists already"]),
        ("r(x) :- !r(x), edge(x, _).", ["line 1", "not stratified"]),
    ],
)
def test_mistakes_name_their_lines(graph: Database, program: str, words: list[str]) -> None:
    before = graph.epoch
    with pytest.raises(RekindleError) as caught:
        graph.datalog(program)
    assert [word for word in words if word not in str(caught.value)] == []
    assert graph.epoch == before


def test_rules_that_agree_are_taken(graph: Database) -> None:
    graph.datalog("n(x, 'it\\'s') :- edge(x, _). n(x + 0.5, w) :- edge(x, _), word(w). n(7, NULL).")
    assert len(graph.table("n").collect()) == 5
    graph.sql("DROP VIEW n")
