"""Terms of any depth: nothing that is done to them depends on Python's recursion limit."""

from __future__ import annotations

import sys

from rekindle.algebra.zset import ZSet
from rekindle.calculus.interpreter import evaluate
from rekindle.calculus.scalars import Call, Column, Literal
from rekindle.calculus.schema import Schema
from rekindle.calculus.terms import (
    Distinct,
    Filter,
    Map,
    OuterJoin,
    Padded,
    Source,
    Term,
    UnionAll,
    sources,
)
from rekindle.calculus.text import parse, to_text
from rekindle.calculus.walks import fold, visited
from rekindle.circuit.circuit import Circuit
from rekindle.circuit.nodes import Table
from rekindle.incremental.pipeline import derive
from rekindle.incremental.stream_text import stream_text
from rekindle.rewrite.pipeline import rewrite

SCHEMA = Schema.of(x="int")
SOURCE = Source("t", SCHEMA)
DEPTH = sys.getrecursionlimit() + 500


def chain(depth: int) -> Term:
    """Filters, maps and distincts over one source, one above the other."""
    term: Term = SOURCE
    for i in range(depth):
        above = Call("greater", (Column(0, "int"), Literal(-i, "int")), "boolean")
        term = (
            Filter(term, above),
            Map(term, (("x", Column(0, "int")),)),
            UnionAll((term, term)) if i < 30 else Filter(term, above),
        )[i % 3]
        if i % 1000 == 999:
            term = Distinct(term)
    return term


def shared(levels: int) -> Term:
    """A graph that has 2ⁿ leaves as a tree."""
    term: Term = SOURCE
    for _ in range(levels):
        term = UnionAll((term, Map(term, (("x", Column(0, "int")),))))
    return term


def joined(count: int) -> Term:
    """A chain of full joins, each on the first column of the one before it."""
    term: Term = SOURCE
    for _ in range(count):
        full = OuterJoin(term, SOURCE, (Column(0, "int"),), (Column(0, "int"),), None, Padded.BOTH)
        term = Map(full, (("x", Column(1, "int")),))
    return term


def test_a_fold_meets_every_object_once() -> None:
    met: list[int] = []

    def count(node: Term, below: tuple[int, ...]) -> int:
        met.append(id(node))
        return 1 + sum(below)

    term = shared(60)
    assert fold(term, lambda node: node.children, count) > 2**60
    assert len(met) == len(set(met)) == 1 + 2 * 60
    assert len(list(visited(term, lambda node: node.children))) == len(met)


def test_deep_terms_are_read_rewritten_evaluated_and_made_incremental() -> None:
    term = chain(DEPTH)
    assert sources(term) == {"t": SCHEMA} and term.schema.names == ("x",)
    # `==` of terms walks down both: their texts are compared instead.
    assert to_text(parse(to_text(chain(900)))) == to_text(chain(900))
    rows = ZSet.from_rows([(1,), (1,), (-10_000,)])
    assert evaluate(rewrite(term), {"t": rows}) == evaluate(term, {"t": rows})
    assert stream_text(derive(term))


def test_a_graph_is_not_walked_as_a_tree() -> None:
    term = shared(60)
    assert sources(term) == {"t": SCHEMA}
    assert evaluate(term, {"t": ZSet.from_rows([(7,)])}) == ZSet.of({(7,): 2**60})


def lowered(count: int) -> Circuit:
    circuit = Circuit()
    circuit.table(Table("t", SCHEMA, (), "first"))
    circuit.view("v", derive(joined(count)), SCHEMA)
    return circuit


def branches(circuit: Circuit) -> int:
    forms = (getattr(node, "form", None) for node in circuit.nodes.values())
    return sum(len(form.branches) for form in forms if form is not None)


def test_the_circuit_of_outer_joins_grows_with_their_number() -> None:
    """One of n joins would have n² branches if each reader had those of all joins before."""
    few, many = lowered(20), lowered(40)
    assert branches(many) < 2.3 * branches(few)
    assert len(many.nodes) < 2.3 * len(few.nodes)
    assert len(lowered(150).nodes) > len(many.nodes)


def test_a_view_that_was_stored_without_gathered_sums_keeps_its_nodes() -> None:
    early = Circuit()
    early.table(Table("t", SCHEMA, (), "first"))
    early._most_branches = None
    stored = early.view("v", derive(joined(8)), SCHEMA)
    now = lowered(8)
    assert now.names["v"] != stored.id
    again = Circuit()
    again.table(Table("t", SCHEMA, (), "first"))
    assert again.view("v", derive(joined(8)), SCHEMA, stored.id).id == stored.id
    assert again.nodes.keys() == early.nodes.keys()
