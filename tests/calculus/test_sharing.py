"""Terms are graphs: what is done to one visits a shared subterm once, and so grows with its nodes.

Visits are counted, not timed: 14 levels of a query that uses each level twice are 2¹⁴ leaves as a
tree, and about twice the nodes of 7 levels as a graph.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rekindle.algebra.zset import ZSet
from rekindle.calculus import identity, nested_time, walks
from rekindle.calculus.interpreter import evaluate
from rekindle.calculus.scalars import Call, Column, Literal, Scalar
from rekindle.calculus.schema import Schema
from rekindle.calculus.terms import (
    Aggregate,
    AggregateFunction,
    Distinct,
    Filter,
    Fix,
    Join,
    Map,
    Measure,
    Negate,
    Source,
    Term,
    UnionAll,
    replaced,
    with_children,
)
from rekindle.calculus.text import MOST_AS_TREE, parse, to_text, to_tree_text_with_table
from rekindle.circuit.circuit import Circuit
from rekindle.circuit.nodes import Table
from rekindle.errors import DefinitionError
from rekindle.incremental.pipeline import derive, trace_steps
from rekindle.incremental.policies.joins import Refusal, recognise
from rekindle.incremental.reference import run
from rekindle.incremental.traversal import nodes
from tests.policies.arithmetic import PYTHON

SCHEMA = Schema.of(k="bigint", v="bigint")
TABLE = Source("t", SCHEMA)
KEY, VALUE = Column(0, "bigint"), Column(1, "bigint")


def nested(levels: int, base: Term = TABLE) -> Term:
    """Self joins of self joins: SELECT a.k, a.v + b.v AS v FROM q a JOIN q b ON a.k = b.k."""
    term = base
    for _ in range(levels):
        added = Call("add", (VALUE, Column(3, "bigint")), "bigint")
        term = Map(Join(term, term, (KEY,), (KEY,)), (("k", KEY), ("v", added)))
    return term


def filtered(levels: int) -> Term:
    term: Term = TABLE
    for i in range(levels):
        above = Call("greater", (VALUE, Literal(-i, "bigint")), "boolean")
        term = Filter(term, above)
    return term


def distinct_nodes(term: Term) -> list[Term]:
    return list(walks.visited(term, lambda node: node.children))


def as_tree(term: Term) -> Term:
    """An equal term in which nothing is shared."""
    return with_children(term, tuple(map(as_tree, term.children)))


@pytest.fixture
def visits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many nodes folds have combined, and how many parts of nodes were compared or hashed."""
    count = [0]
    parts = identity._parts

    def counted(node: identity.Node) -> object:
        count[0] += 1
        return parts(node)

    monkeypatch.setattr(identity, "_parts", counted)
    return count


def test_equal_graphs_are_compared_and_hashed_once(visits: list[int]) -> None:
    one, other = nested(14), nested(14)
    size = len(distinct_nodes(one))
    assert one == other and visits[0] <= 2 * size
    visits[0] = 0
    assert hash(one) == hash(other) and visits[0] <= 4 * 2 * size
    visits[0] = 0
    assert hash(one) == hash(other) and one != nested(13) and visits[0] <= 4 * size


def test_terms_that_differ_far_down_are_not_equal() -> None:
    other = nested(14, Source("u", SCHEMA))
    assert nested(14) != other and Negate(TABLE) != Distinct(TABLE)
    assert UnionAll((TABLE, TABLE)) != UnionAll((TABLE, TABLE, TABLE))
    assert len({nested(3), nested(3), nested(4), other}) == 3


def test_a_deep_term_is_compared_and_hashed() -> None:
    one, other = filtered(3_000), filtered(3_000)
    assert one == other and hash(one) == hash(other) and one != filtered(2_999)


def test_a_text_grows_with_the_graph_and_gives_it_back() -> None:
    few, many = to_text(nested(7)), to_text(nested(14))
    assert len(many) < 2.1 * len(few)
    again = parse(many)
    assert again == nested(14) and to_text(again) == many
    # Leaves are written where they are used, so the lowest join has two of them.
    assert len(distinct_nodes(again)) == len(distinct_nodes(nested(14))) + 1


def test_a_term_that_shares_nothing_has_the_text_that_it_had() -> None:
    joined = Join(Distinct(TABLE), Negate(TABLE), (KEY,), (KEY,))
    source = "source t (k: bigint, v: bigint)"
    assert to_text(joined).splitlines() == [
        "join on $0:bigint = $0:bigint",
        "  distinct",
        f"    {source}",
        "  negate",
        f"    {source}",
    ]


def test_a_shared_term_as_a_tree_has_the_text_of_an_equal_one() -> None:
    shared = nested(5)
    assert to_tree_text_with_table(shared) == to_tree_text_with_table(as_tree(shared))
    assert to_tree_text_with_table(as_tree(shared))[0] == to_text(as_tree(shared))
    assert parse(to_tree_text_with_table(shared)[0]) == shared
    large = nested(14)
    assert len(to_tree_text_with_table(large)[0].splitlines()) < MOST_AS_TREE


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("let 0\n  source t (x: int)", "there is none after what it shares"),
        ("let 1\n  source t (x: int)\nuse 0", "expected the shared term 0"),
        ("use 0", "not one of the 0 before"),
        ("let 0\n  use 0\nuse 0", "not one of the 0 before"),
        ("union\n  let 0\n    source t (x: int)", "before the term that uses it"),
        ("let 0\nuse 0", "let takes 1 input"),
        ("let\n  source t (x: int)\nuse 0", "expected the number of a shared term"),
    ],
)
def test_a_text_that_shares_wrongly_is_refused(text: str, message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        parse(text)


def test_a_small_text_of_many_columns_is_refused() -> None:
    lines = ["let 0", "  join", *["    source t (k: bigint, v: bigint)"] * 2]
    for number in range(60):
        lines += [f"let {number + 1}", "  join", *[f"    use {number}"] * 2]
    with pytest.raises(DefinitionError, match="too many columns"):
        parse("\n".join([*lines, "use 60"]))


def test_streams_and_circuits_grow_with_the_graph() -> None:
    few, many = derive(nested(7)), derive(nested(14))
    assert len(nodes(many)) <= 2 * len(nodes(few))
    sizes = []
    for levels in (7, 14):
        circuit = Circuit()
        circuit.table(Table("t", SCHEMA, (), "first"))
        circuit.view("v", derive(nested(levels)), SCHEMA)
        sizes.append(len(circuit.nodes))
    assert sizes[1] <= 2 * sizes[0]
    assert all(len(text) < 20_000 for _, text in trace_steps(nested(14)))


class Counting:
    """A scalar that counts how often its references are asked for, as constructors do."""

    def __init__(self) -> None:
        self.asked = 0

    type, nullable, text, deterministic = "boolean", False, "counting", True

    @property
    def references(self) -> frozenset[int]:
        self.asked += 1
        return frozenset({0})


def test_nested_filters_are_visited_a_number_of_times_each() -> None:
    def asked(levels: int) -> int:
        scalar: Scalar = Counting()  # type: ignore[assignment]
        term: Term = TABLE
        for _ in range(levels):
            term = Filter(term, scalar)
        derive(term)
        to_text(term)
        return scalar.asked  # type: ignore[attr-defined, no-any-return]

    assert asked(400) <= 2.2 * asked(200)


def test_a_join_of_too_many_leaves_is_no_join_query() -> None:
    total = Measure("s", AggregateFunction.SUM, (VALUE,), "bigint")
    found = recognise(Aggregate(nested(14), (("k", KEY),), (total,)), PYTHON)
    assert isinstance(found, Refusal) and "more than 64" in found.reason


def test_a_recursion_over_shared_terms_is_stamped_node_by_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = 0
    original = nested_time._Lifting._made

    def counted(self: nested_time._Lifting, term: Term) -> Term:
        nonlocal made
        made += 1
        return original(self, term)

    monkeypatch.setattr(nested_time._Lifting, "_made", counted)
    body = UnionAll((TABLE, nested(14, Source("r", SCHEMA))))
    (stamped,) = nested_time.stamped_bodies(Fix(("r",), (body,)))
    assert made <= len(distinct_nodes(body))
    assert len(distinct_nodes(stamped)) <= 4 * len(distinct_nodes(body))
    deep: Term = Source("r", SCHEMA)
    for _ in range(3_000):
        deep = Filter(deep, Literal(True, "boolean"))
    assert nested_time.stamped_bodies(Fix(("r",), (deep,)))[0].schema.names == ("k", "v", "_stamp")


def test_a_subterm_is_replaced_once() -> None:
    asked: list[Term] = []

    def change(node: Term) -> Term | None:
        asked.append(node)
        return Source("u", SCHEMA) if node == TABLE else None

    assert replaced(nested(14), change) == nested(14, Source("u", SCHEMA))
    assert len(asked) == len(distinct_nodes(nested(14)))


BAGS = st.dictionaries(
    st.tuples(st.integers(0, 2), st.integers(-1, 1)), st.integers(0, 2), max_size=4
)


@given(st.lists(BAGS, min_size=1, max_size=4), st.integers(1, 3))
def test_the_changes_of_a_graph_are_those_of_its_tree(
    bags: list[dict[tuple[int, int], int]], levels: int
) -> None:
    graph = Distinct(UnionAll((nested(levels), nested(1, Distinct(TABLE)))))
    tables = [ZSet.of(bag) for bag in bags]
    befores = [ZSet.of({}), *tables]
    inputs = {"t": [now - before for before, now in zip(befores, tables, strict=False)]}
    by_graph = run(derive(graph), inputs, len(tables))
    assert by_graph == run(derive(as_tree(graph)), inputs, len(tables))
    whole = ZSet.of({})
    for table, change in zip(tables, by_graph, strict=True):
        whole = whole + change
        assert whole == evaluate(graph, {"t": table})
