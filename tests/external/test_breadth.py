"""Bounded parts of the suites of many small cases, and what their readers make of a text."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rekindle.runtime.database import Database
from tests.external import feldera, feldera_steps, openivm, pg_ivm, sqllogictest
from tests.external.batches import Batches, Case, Stage
from tests.external.compare import Difference
from tests.external.grouped import grouped_markdown
from tests.external.material import absent, material
from tests.external.openivm_dialect import Record, read_records, require_recorded
from tests.external.openivm_views import Tally, Views
from tests.external.outcomes import Outcome, Results
from tests.external.transcript import read_steps, require_printed


def place_of(name: str) -> Path:
    place = material(name)
    if place is None:
        pytest.skip(absent(name))
    return place


def quiet(_: str) -> None:
    pass


def test_a_wrong_result_is_seen(db: Database) -> None:
    """Negative controls: a view of another query, a published result that Spark does not give, and
    a query that Spark refuses."""
    db.sql("CREATE TABLE t (x INT)")

    def require(rows: list[tuple[object, ...]]) -> None:
        if sorted(rows) != [(1,), (2,)]:
            raise Difference(f"{rows}")

    stages = [
        Stage("at first", {"t": []}),
        Stage("after inserts", {"t": [(1,), (2,)]}, published=True),
        Stage("after inserts again", {"t": [(1,)]}, published=True, suffices=True),
    ]
    batches = Batches(db, Results("s", "about"), quiet)
    wrong = Case(
        "wrong", "SELECT x FROM t", require, (("p", "SELECT x FROM t"),), "SELECT -x FROM p"
    )
    right = Case("right", "SELECT x FROM t", require)
    batches.run([wrong, right, Case("refused", "SELECT y FROM t")], stages)
    outcomes = {name: result.outcome for name, result in batches.results.cases.items()}
    assert outcomes == {
        "wrong": Outcome.FAILED,
        "right": Outcome.PASSED,
        "refused": Outcome.NOT_APPLICABLE,
    }
    assert list(batches.disagreeing) == ["right"]
    assert db.views == []
    assert "SELECT x FROM t" in grouped_markdown(
        batches.results, batches.queries, batches.recomputed
    )


def test_a_view_that_raises_is_told_from_its_neighbours(db: Database) -> None:
    db.sql("CREATE TABLE t (x INT)")
    stages = [Stage("at first", {"t": [(1,)]}), Stage("after inserts", {"t": [(1,), (0,)]})]
    batches = Batches(db, Results("s", "about"), quiet)
    cases = [Case("a", "SELECT x FROM t"), Case("b", "SELECT 1 / x AS y FROM t")]
    batches.run([*cases, Case("c", "SELECT x + 1 AS y FROM t")], stages)
    outcomes = [batches.results.cases[name].outcome for name in "abc"]
    assert outcomes == [Outcome.PASSED, Outcome.NOT_APPLICABLE, Outcome.PASSED]


def test_some_of_sqllogictest(spark: SparkSession, tmp_path: Path) -> None:
    root = place_of("sqllogictest") / "full"
    every = sqllogictest.every_segment(root, ["groupby/slt_good_13"])
    segments = sqllogictest.chosen_segments(every, 5, random.Random(3))
    batches = sqllogictest.replay(spark, tmp_path, segments, 3, quiet)
    assert batches.results.summary == "5 cases: 5 passed"


def test_views_of_sqllogictest_are_views() -> None:
    views = {"v": " SELECT x FROM t WHERE x > 1", "w": " SELECT x + 1 AS y FROM v"}
    segment = sqllogictest.Segment({"t": "(x BIGINT)"}, {"t": []}, views, [])
    case = sqllogictest.case_of(segment, "f:3", sqllogictest.Record("SELECT y FROM w", "I"), [])
    assert case.top == "SELECT y FROM w_f_3"
    assert case.parents == (("v_f_3", views["v"]), ("w_f_3", " SELECT x + 1 AS y FROM v_f_3"))


def test_some_of_pg_ivm(spark: SparkSession, tmp_path: Path) -> None:
    results = Results("pg_ivm", "")
    place = place_of("pg_ivm") / "expected" / "pg_ivm.out"
    pg_ivm.replay_file(spark, tmp_path, place, lambda db: Batches(db, results, quiet), limit=22)
    assert results.summary == "1 cases: 1 passed"


def test_some_of_openivm(spark: SparkSession, tmp_path: Path) -> None:
    tally = Tally(Results("openivm", ""), quiet)
    place = place_of("openivm") / "test" / "sql" / "ducklake_distinct.test"
    openivm.replay_file(spark, tmp_path, place, tally, limit=14)
    assert tally.results.summary == "1 cases: 1 passed"
    assert (tally.comparisons, tally.recorded, tally.disagreeing) == (4, 3, {})


def test_a_wrong_view_of_openivm_is_seen(db: Database) -> None:
    """A view that is not the query, a wrong record, and columns that come, change names and go."""
    script = """CREATE TABLE t (a INT, b INT)
INSERT INTO t VALUES (1, 2)
CREATE MATERIALIZED VIEW v AS SELECT a AS k, sum(b) AS s FROM t GROUP BY a
ALTER TABLE t ADD COLUMN c INT
INSERT INTO t VALUES (1, 3, 4)
ALTER TABLE t RENAME COLUMN a TO d
ALTER TABLE t DROP COLUMN c
INSERT INTO t VALUES (2, 5)"""
    run = openivm.Replay("f", Views(db, Tally(Results("s", ""), quiet)))
    for number, sql in enumerate(script.splitlines(), start=1):
        run.step(Record(number, sql))
    run.step(Record(9, "PRAGMA refresh('v')"))
    run.step(Record(10, "SELECT * FROM v", (("1", "5"), ("2", "5"))))
    run.step(Record(11, "SELECT s FROM v", (("5",),)))
    assert run.tally.results.summary == "1 cases: 1 passed"
    assert list(run.tally.disagreeing) == ["f:11"]
    view = run.views.now["v"]
    view.case = Case(view.case.name, "SELECT d AS k, sum(b) + 1 AS s FROM t GROUP BY d")
    run.step(Record(12, "DELETE FROM t WHERE b = 3"))
    run.finish()
    assert run.tally.results.summary == "1 cases: 1 failed"


def test_some_of_feldera(spark: SparkSession, tmp_path: Path) -> None:
    root = place_of("feldera") / "spark_sql_fixtures"
    fixtures = [f for f in feldera.read_fixtures(root / "multiple_views")][:2]
    batches = feldera.replay(spark, tmp_path, fixtures, 3, quiet)
    assert batches.results.summary == "2 cases: 2 passed"


def test_some_steps_of_feldera(spark: SparkSession, tmp_path: Path) -> None:
    wanted = ("steps/StreamingTests.issue3542", "steps/StreamingTests.testAggregate")
    tests = [t for t in feldera_steps.read_tests(place_of("feldera")) if t.name in wanted]
    batches = feldera_steps.replay_steps(spark, tmp_path, tests, Results("feldera", ""), quiet)
    assert batches.results.summary == "2 cases: 2 passed"
    assert batches.disagreeing == {}


def test_published_changes_add_up() -> None:
    steps = (("", " x | weight\n---\n 1 | 2\n | 1"), ("", " x | weight\n---\n 1 | -1"))
    first, second = feldera_steps.published(feldera_steps.StepTest("t", "", steps, True))
    first([(1,), (None,), (1,)])
    second([(None,), (1,)])
    with pytest.raises(Difference):
        second([(1,), (None,), (1,)])


def test_a_transcript_has_statements_tables_and_errors() -> None:
    text = "BEGIN;\nSELECT a\n FROM t; -- why\n a | __ivm_count__ \n---+---\n 1 | 2\n   | 1\n"
    begin, select, wrong = read_steps(text + "(2 rows)\n\nDROP TABLE t;\nERROR:  no\nHINT:  none\n")
    assert (begin.sql, wrong.error) == ("BEGIN;", "no")
    require_printed([(None,), (1,)], select)
    for rows in ([(1,)], [(1,), (0,)], [(1,), (None,), (None,)]):
        with pytest.raises(Difference):
            require_printed(rows, select)


def test_records_of_a_loop_are_those_of_its_threads() -> None:
    text = "concurrentloop i 0 2\n\nonlyif i=1\nloop k 0 2\n\nstatement ok\nA ${i} ${k};\n\n"
    text += "endloop\n\nonlyif i>=0\nstatement error\nB ${i}\n----\nno\n\nendloop\n"
    found = [(record.sql, record.fails) for record in read_records(text)]
    assert found == [("B 0", True), ("A 1 0", False), ("A 1 1", False), ("B 1", True)]
    with pytest.raises(Difference):
        require_recorded([(1,), (2,)], Record(1, "", (("1",),)))


def test_recorded_values_are_those_of_a_hash() -> None:
    record = sqllogictest.Record("", "I", "rowsort", ("10", "9"))
    check = sqllogictest.expectation(record, [(9,), (10,)])
    assert check is not None
    check([(10.0,), (9,)])
    with pytest.raises(Difference):
        check([(9,), (9,)])
    assert sqllogictest.expectation(record, [(9,), (11,)]) is None


def test_names_of_a_case_are_its_own() -> None:
    text = "CREATE TABLE t (a INT) USING parquet PARTITIONED BY (a);\n"
    stack = "CREATE VIEW v AS SELECT a FROM t;\nCREATE VIEW w AS SELECT * FROM v WHERE a > 1;"
    made = feldera.prepared(feldera.Fixture("f", text, "INSERT INTO t VALUES (1);", stack, ""), 7)
    assert isinstance(made, feldera.Prepared)
    assert made.creations == ("CREATE TABLE t_k7 (a INT)",)
    assert made.case.parents == (("v_k7", "SELECT a FROM t_k7"),)
    assert made.case.query == (
        "WITH v_k7 AS (SELECT a FROM t_k7) SELECT * FROM (SELECT * FROM v_k7 WHERE a > 1)"
    )
