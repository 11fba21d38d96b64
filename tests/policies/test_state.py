"""What a tree keeps: few views, and rows that follow the tables and not their join."""

from __future__ import annotations

from rekindle.algebra.zset import ZSet
from rekindle.calculus.interpreter import Rows, evaluate
from rekindle.calculus.schema import Schema
from rekindle.calculus.terms import Aggregate, AggregateFunction, Measure, Source, Term
from rekindle.circuit.circuit import Circuit
from rekindle.circuit.nodes import Arrangement, Group, Table
from rekindle.incremental.pipeline import derive
from rekindle.incremental.reference import run
from tests.incremental.circuits import integrals
from tests.policies.strategies import call, column, joined, star
from tests.policies.test_view_tree import factorised

COUNT = Measure("n", AggregateFunction.COUNT, (), "bigint", nullable=False)
STAR = joined(
    star(5), tuple(Source(name, Schema.of(x="int", y="int", z="int")) for name in "abcde")
)
TOTAL = Measure(
    "s",
    AggregateFunction.SUM,
    (call("multiply", call("multiply", column(0, 1), column(2, 1)), column(4, 2)),),
    "bigint",
)


def kept_rows(term: Term, tables: dict[str, Rows]) -> list[int]:
    """The rows of every integral once the tables are loaded."""
    changes = {name: [rows] for name, rows in tables.items()}
    return [len(run(each, changes, 1)[0]) for each in integrals(derive(term))]


def skewed(rows: int) -> dict[str, Rows]:
    """Five tables in which nearly all rows have one key."""
    return {
        name: ZSet.from_rows([(0 if i else 1, i % 3, i) for i in range(rows)]) for name in "abcde"
    }


def test_a_star_of_five_keeps_nine_views_and_never_the_join() -> None:
    term = factorised(Aggregate(STAR, (), (COUNT,))).term
    kept = integrals(derive(term))
    assert len(kept) <= 9
    tables = skewed(6)
    sizes = kept_rows(term, tables)
    assert max(sizes) == 2  # one row for each of the two keys


def test_the_circuit_arranges_the_views_and_nothing_else() -> None:
    term = factorised(Aggregate(STAR, (), (COUNT,))).term
    circuit = Circuit()
    for name in "abcde":
        circuit.table(Table(name, Schema.of(x="int", y="int", z="int"), (), ""))
    circuit.view("v", derive(term), term.schema)
    kept = [node for node in circuit.nodes.values() if isinstance(node, Arrangement | Group)]
    assert len(kept) == 9
    assert all(len(node.schema) == 1 for node in kept)


def test_state_grows_with_the_tables_and_not_with_their_join() -> None:
    """Of 20 rows under one key the join has 3.2 million; the tree keeps tables at the most."""
    term = factorised(Aggregate(STAR, (("x", column(1, 0)),), (COUNT, TOTAL))).term
    for rows in (5, 10, 20):
        assert max(kept_rows(term, skewed(rows))) <= rows
    (row, _), *_ = evaluate(Aggregate(STAR, (("x", column(1, 0)),), (COUNT,)), skewed(3))
    assert row[1] in (1, 2**5)


def test_the_original_term_grows_with_the_join() -> None:
    """The control: measured in the same way, first order exceeds its tables."""
    assert max(kept_rows(Aggregate(STAR, (), (COUNT,)), skewed(4))) > 4
