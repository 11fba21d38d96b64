"""The kit itself: what counts as equal, what ties leave open, and that a difference is seen."""

from __future__ import annotations

from decimal import Decimal

import pytest

from rekindle.runtime.database import Database
from tests.external.compare import Difference, Row, compare, differing, require_equal, require_top
from tests.external.ordering import top_rows
from tests.external.outcomes import Outcome, Results
from tests.external.strategy import recomputed_nodes

NAN = float("nan")


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ([(1, "a"), (1, "a")], [(1, "a"), (1, "a")]),
        ([(0.1 + 0.2,)], [(0.3,)]),
        ([(1e15 + 0.125,)], [(1e15,)]),
        ([(NAN, 1)], [(NAN, 1)]),
        ([({"a": [NAN]},)], [({"a": [NAN]},)]),
        ([(Decimal("1.50"),)], [(Decimal("1.5"),)]),
        ([(None,), (0.5,)], [(0.5,), (None,)]),
    ],
)
def test_equal_bags(ours: list[Row], theirs: list[Row]) -> None:
    require_equal("v", ours, theirs)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ([(1,)], [(1,), (1,)]),
        ([(0.1,)], [(0.1001,)]),
        ([(None,)], [(0,)]),
        ([(NAN,)], [(None,)]),
        ([(1.0, "a")], [(1.0, "b")]),
    ],
)
def test_different_bags(ours: list[Row], theirs: list[Row]) -> None:
    with pytest.raises(Difference):
        require_equal("v", ours, theirs)


def test_nearly_equal_rows_are_paired_one_to_one() -> None:
    assert differing([(1.0,), (1.0,)], [(1.0 + 1e-12,)]) == ([(1.0,)], [])


def test_ties_at_the_limit_may_fall_either_way() -> None:
    top = top_rows("SELECT k, v FROM t ORDER BY v DESC LIMIT 2")
    assert top is not None and top.positions(["k", "v"]) == [1]
    ordered = [("a", 9), ("b", 5), ("c", 5), ("d", 1)]
    require_top("v", [("a", 9), ("c", 5)], ordered, top, [1])
    require_top("v", [("b", 5), ("a", 9)], ordered, top, [1])
    for wrong in ([("a", 9)], [("a", 9), ("d", 1)], [("a", 9), ("e", 5)], [("b", 5), ("c", 5)]):
        with pytest.raises(Difference):
            require_top("v", wrong, ordered, top, [1])


def test_a_limit_inside_the_query_is_not_the_query_s() -> None:
    assert top_rows("SELECT * FROM (SELECT a FROM t ORDER BY a LIMIT 2) ORDER BY 1") is None
    found = top_rows(
        "SELECT count(*) n FROM (SELECT a FROM t ORDER BY a) ORDER BY n, f(x, y) LIMIT 1"
    )
    assert found is not None and found.keys == ("n", "f(x, y)")
    assert found.positions(["n"]) is None


def test_a_case_that_failed_once_stays_failed() -> None:
    results = Results("s", "about")
    results.add("a", Outcome.PASSED)
    results.add("a", Outcome.FAILED, "wrong\n  row | column")
    results.add("a", Outcome.PASSED)
    results.add("b", Outcome.REFUSED, "no")
    assert results.summary == "2 cases: 1 failed, 1 refused"
    assert "| a | failed | wrong row \\| column |" in results.markdown()


def test_a_view_is_compared_with_spark(db: Database) -> None:
    db.sql("CREATE TABLE t (k STRING, x DOUBLE)")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT k, sum(x) AS s FROM t GROUP BY k")
    db.sql("INSERT INTO t VALUES ('a', 0.1), ('a', 0.2), ('b', double('NaN')), (NULL, NULL)")
    assert compare(db, "v", "SELECT k, sum(x) AS s FROM t GROUP BY k") == 3
    assert recomputed_nodes(db, "v") == []
    with pytest.raises(Difference, match="too many"):
        compare(db, "v", "SELECT k, sum(x) AS s FROM t WHERE k = 'a' OR k IS NULL GROUP BY k")
    with pytest.raises(Difference, match="types"):
        compare(db, "v", "SELECT k, count(x) AS s FROM t GROUP BY k")
    assert not db.spark.catalog.tableExists("t")
