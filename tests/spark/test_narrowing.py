"""A branch reads the columns that its stages need, and no others."""

from __future__ import annotations

import pytest

from rekindle.circuit.nodes import Arrangement, Group, Table, View
from rekindle.runtime.database import Database
from rekindle.spark.step import Placement
from tests.spark.helpers import rows

Forms = Arrangement | Group | View

VIEWS = {
    "SELECT count(*) AS n FROM t": (),
    "SELECT sum(e) AS s FROM t WHERE b > 0 AND c = 'x'": (1, 2, 4),
    "SELECT d, count(*) AS n FROM t WHERE upper(c) = 'X' GROUP BY d": (2, 3),
    "SELECT a + e AS s, c FROM t WHERE b <> 0 AND 10 / b > 1": (0, 1, 2, 4),
    "SELECT x, d FROM t LATERAL VIEW explode(array(a, e)) AS x WHERE b > 0": (0, 1, 3, 4),
}


@pytest.mark.parametrize("placement", [Placement.INLINE, Placement.SPARK])
def test_what_the_stages_over_a_table_read(db: Database, placement: Placement) -> None:
    db.sql("CREATE TABLE t (a INT, b INT, c STRING, d DATE, e BIGINT)")
    db.sql("INSERT INTO t VALUES (1, 1, 'x', DATE '2020-01-01', 5), (2, 0, 'x', NULL, 7)")
    for i, query in enumerate(VIEWS):
        db.sql(f"CREATE MATERIALIZED VIEW v{i} AS {query}")
    db._engine.placing.forced = placement
    db.sql("INSERT INTO t VALUES (3, 4, 'x', DATE '2020-01-01', 9), (NULL, NULL, NULL, NULL, NULL)")
    db.sql("DELETE FROM t WHERE a = 1")
    for i, (query, expected) in enumerate(VIEWS.items()):
        db.check(f"v{i}")
        assert rows(db, f"v{i}"), query
        assert _read(db, f"v{i}") == expected, query


def _read(db: Database, view: str) -> tuple[int, ...]:
    """The columns of the table that nodes behind a view read."""
    engine = db._engine
    nodes = engine.circuit.nodes
    read: set[int] = set()
    waiting, seen = [engine.state.entry(view).node], set()
    while waiting:
        node = nodes[waiting.pop()]
        seen.add(node.id)
        waiting += [key for key in node.inputs if key not in seen]
        for branch in node.form.branches if isinstance(node, Forms) else ():
            if isinstance(nodes[branch.node], Table):
                read.update(engine.plans.lowered(node, branch).read)
    return tuple(sorted(read))
