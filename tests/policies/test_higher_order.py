"""Triggers give the changes of the query, from views on its deltas and from nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st

from rekindle.algebra.zset import ZSet
from rekindle.calculus.interpreter import Rows
from rekindle.calculus.scalars import Column
from rekindle.calculus.schema import Field, Schema
from rekindle.calculus.terms import (
    Aggregate,
    AggregateFunction,
    Join,
    Measure,
    Source,
    Term,
    Triggered,
)
from rekindle.calculus.text import parse, to_text_with_table
from rekindle.circuit.circuit import Circuit
from rekindle.circuit.costs import ChangeSize, Refresh, parts
from rekindle.circuit.explain import explain
from rekindle.circuit.nodes import Arrangement, Exchange, Group, HalfJoin, Moment, Stateful, Table
from rekindle.errors import DefinitionError
from rekindle.incremental.pipeline import derive, intermediate_streams
from rekindle.incremental.policies.decisions import Factorised
from rekindle.incremental.policies.deltas import Deltas, Lookup, When, _Search
from rekindle.incremental.policies.higher_order import _Compiler, follow_deltas
from rekindle.incremental.policies.joins import Refusal
from rekindle.incremental.policies.payloads import Builder
from rekindle.incremental.policies.payloads import Rows as BuiltRows
from rekindle.incremental.reference import recompute, run
from tests.calculus.strategies import QUICK
from tests.incremental.circuits import integrals
from tests.policies.arithmetic import PYTHON
from tests.policies.strategies import (
    LENGTH,
    SNOWFLAKE,
    SQUARE,
    TRIANGLE,
    R,
    S,
    Shape,
    T,
    chain,
    column,
    join_terms,
    joined,
    star,
    transactions,
)
from tests.policies.test_view_tree import Named, factorised

COUNT = Measure("n", AggregateFunction.COUNT, (), "bigint", nullable=False)


def triggered(term: Term) -> Factorised:
    """The term with triggers; they must exist."""
    found = follow_deltas(term, PYTHON)
    assert all(isinstance(decision.outcome, Deltas) for decision in found.decisions), found
    return found


@given(join_terms(), transactions())
@settings(max_examples=60, deadline=None)
def test_the_triggers_give_the_changes_of_the_query(
    term: Aggregate, changes: dict[str, list[Rows]]
) -> None:
    """Three tables at once, joined with themselves and each other, NULLs, deletes, emptied."""
    found = triggered(term).term
    assert found.schema == term.schema
    assert run(derive(found), changes, LENGTH) == recompute(term, changes, LENGTH)


@given(join_terms((TRIANGLE, chain(3))), transactions())
@settings(max_examples=20, deadline=None)
def test_every_step_of_the_pipeline_gives_them(
    term: Aggregate, changes: dict[str, list[Rows]]
) -> None:
    wanted = recompute(term, changes, LENGTH)
    for name, stream in intermediate_streams(triggered(term).term):
        assert run(stream, changes, LENGTH) == wanted, name


@given(join_terms())
@settings(max_examples=30, deadline=None)
def test_the_text_of_triggers_parses_back(term: Aggregate) -> None:
    found = triggered(term).term
    assert isinstance(found, Triggered)
    assert parse(*to_text_with_table(found)) == found


@given(transactions())
@settings(max_examples=20, deadline=None)
def test_an_aggregate_of_aggregates_has_triggers_at_both_levels(
    changes: dict[str, list[Rows]],
) -> None:
    inner = Aggregate(joined(chain(2), (R, S)), (("x", column(0, 0)),), (COUNT,))
    pairs = Join(inner, T, (Column(0, "int"),), (Column(0, "int"),))
    total = Measure("v", AggregateFunction.SUM, (Column(1, "bigint", False),), "bigint")
    term = Aggregate(pairs, (("y", Column(3, "int")),), (total,))
    found = triggered(term)
    assert len(found.decisions) == 2
    assert run(derive(found.term), changes, LENGTH) == recompute(term, changes, LENGTH)


# ---- what is kept, and what is read ------------------------------------------------------------


def r_s_t() -> Aggregate:
    """Q[a] = Σ R(a, b)·S(b, c)·T(c, d)·d."""
    r = Source("r", Schema.of(a="int", b="int"))
    s = Source("s", Schema.of(b="int", c="int"))
    t = Source("t", Schema((Field("c", "int"), Field("d", "int", nullable=False))))
    first = Join(r, s, (Column(1, "int"),), (Column(0, "int"),))
    both = Join(first, t, (Column(3, "int"),), (Column(0, "int"),))
    total = Measure("q", AggregateFunction.SUM, (Column(5, "int", False),), "bigint")
    return Aggregate(both, (("a", Column(0, "int")),), (total,))


def circuit_of(**terms: Term) -> Circuit:
    found = Circuit()
    for name, columns in (("r", "ab"), ("s", "bc"), ("t", "cd")):
        fields = tuple(Field(c, "int", nullable=c != "d") for c in columns)
        found.table(Table(name, Schema(fields), (), ""))
    for name, term in terms.items():
        found.view(name, derive(term), term.schema)
    return found


def test_the_views_of_the_three_way_join() -> None:
    (decision,) = triggered(r_s_t()).decisions
    assert str(decision).splitlines() == [
        "(a, q) is kept by",
        "M(t)[c] += Δt",
        "M(s)[b, c] += Δs",
        "M(s, t)[b] += Δs · M(t)[c] + Δt · M(s)[b, c]′",
        "M(r)[a, b] += Δr",
        "M(r, s)[a, c] += Δr · M(s)[b, c] + Δs · M(r)[a, b]′",
        "M(r, s, t)[a] += Δr · M(s, t)[b] + Δs · M(r)[a, b]′ · M(t)[c] + Δt · M(r, s)[a, c]′",
    ]
    circuit = circuit_of(q=triggered(r_s_t()).term)
    arranged = [
        (node.schema.names, tuple(key.text for key in node.keys or ()))
        for node in circuit.nodes.values()
        if isinstance(node, Arrangement)
    ]
    b, c = "$0:int", "$1:int"
    assert sorted(arranged) == [
        (("a", "b"), (c,)),  # M(r)[a, b], which Δs looks up by b
        (("a", "c"), (c,)),  # M(r, s)[a, c], which Δt looks up by c
        (("b", "c"), (b,)),  # M(s)[b, c], by b for Δr
        (("b", "c"), (c,)),  # and by c for Δt
        (("b", "count", "sum1"), (b,)),  # M(s, t)[b]
        (("c", "count", "sum1"), (b,)),  # M(t)[c]
    ]
    groups = [node for node in circuit.nodes.values() if isinstance(node, Group)]
    assert len(groups) == 3  # of M(t), M(s, t) and the result, whose input is not kept


def looked_up(circuit: Circuit, table: str) -> list[tuple[str, ...]]:
    """The columns of what the result's joins with the change of one table read, one after another.

    Followed from the result back to the table, along changes only.
    """
    view = circuit.nodes[circuit.names["q"]]
    (root,) = (circuit.nodes[key] for key in view.inputs)

    def paths(key: str) -> Iterator[list[tuple[str, ...]]]:
        node = circuit.nodes[key]
        if isinstance(node, Table):
            if node.name == table:
                yield []
        elif isinstance(node, HalfJoin):
            against = circuit.nodes[node.against]
            assert isinstance(against, Arrangement)
            for path in paths(node.change):
                yield [*path, against.schema.names]
        elif isinstance(node, Arrangement | Exchange):
            for source in node.inputs:
                yield from paths(source)

    (path,) = (path for key in root.inputs for path in paths(key))
    return path


def test_an_update_reads_views_on_deltas_and_no_base_table() -> None:
    """Law 6: for the result, Δr meets one row of M(s, t) and Δt one set of rows of M(r, s)."""
    circuit = circuit_of(q=triggered(r_s_t()).term)
    assert looked_up(circuit, "r") == [("b", "count", "sum1")]  # M(s, t)[b]
    assert looked_up(circuit, "t") == [("a", "c")]  # M(r, s)[a, c]
    assert looked_up(circuit, "s") == [("a", "b"), ("c", "count", "sum1")]  # M(r), then M(t)
    by_t = [
        node
        for node in circuit.nodes.values()
        if isinstance(node, Arrangement | Exchange) and node.inputs == (circuit.names["t"],)
    ]
    assert [type(node) for node in by_t] == [Exchange]  # no row of t is kept, only M(t)[c]


def test_a_chain_never_joins_two_changes() -> None:
    circuit = circuit_of(q=triggered(r_s_t()).term)
    moments = {node.moment for node in circuit.nodes.values() if isinstance(node, HalfJoin)}
    assert moments == {Moment.BEFORE, Moment.AFTER}


def test_the_residual_of_a_delta_is_the_view_of_a_tree() -> None:
    """Q[a] = Σ R(a,b)·S(b,c)·c: M(s)[b] and the tree's view over c are one arrangement."""
    r = Source("r", Schema.of(a="int", b="int"))
    s = Source("s", Schema.of(b="int", c="int"))
    argument = Column(3, "int")
    total = Measure("q", AggregateFunction.SUM, (argument,), "bigint")
    pairs = Join(r, s, (Column(1, "int"),), (Column(0, "int"),))
    term = Aggregate(pairs, (("a", Column(0, "int")),), (COUNT, total))

    def kept(found: Term) -> set[str]:
        circuit = circuit_of(q=found)
        return {
            node.id
            for node in circuit.nodes.values()
            if isinstance(node, Arrangement | Group) and node.schema.names[0] == "b"
        }

    shared = kept(triggered(term).term) & kept(factorised(term).term)
    assert len(shared) == 2  # the accumulators of each b, and their results by b


def test_state_and_work_do_not_grow_with_the_join() -> None:
    term = triggered(Aggregate(joined(star(3), (R, S, T)), (), (COUNT,))).term
    rows = ZSet.from_rows([(0, i, i) for i in range(20)])
    changes = {name: [rows] for name in "rst"}
    assert run(derive(term), changes, 1) == [ZSet.from_rows([(8000,)])]
    sizes = [len(run(each, changes, 1)[0]) for each in integrals(derive(term))]
    assert max(sizes) == 1


def test_explain_shows_what_is_kept_and_what_only_passes() -> None:
    circuit = circuit_of(q=triggered(r_s_t()).term)
    found = explain(circuit, circuit.names["q"], {})
    kinds = Counter(node.kind for node in found.nodes)
    # Δs · M(r) is computed once, for M(r, s) and for the result.
    assert (kinds["arrangement"], kinds["exchange"], kinds["half join"]) == (6, 2, 7)
    assert "this step's rows by c, not kept" in str(found)
    assert "half 1 of 2" not in str(found)
    assert "</svg>" in found.svg()


def test_a_join_of_two_changes_is_shown_as_one() -> None:
    term = triggered(Aggregate(joined(TRIANGLE, (R, S, T)), (), (COUNT,))).term
    circuit = Circuit()
    for source in (R, S, T):
        circuit.table(Table(source.name, source.schema, (), ""))
    circuit.view("q", derive(term), term.schema)
    moments = Counter(n.moment for n in circuit.nodes.values() if isinstance(n, HalfJoin))
    assert moments[Moment.DURING] == 1
    assert "against the change of" in str(explain(circuit, circuit.names["q"], {}))


def test_a_change_of_everything_is_rebuilt_and_one_row_is_followed() -> None:
    circuit = circuit_of(q=triggered(r_s_t()).term)
    stored = {key: 100_000 for key, node in circuit.nodes.items() if isinstance(node, Stateful)}
    table = circuit.names["r"]
    for rows, refresh in ((90_000, Refresh.FULL), (1, Refresh.INCREMENTAL)):
        (part,) = parts(circuit, {table: ChangeSize(rows, -rows)}, stored, {})
        assert part.refresh is refresh


# ---- what is refused ---------------------------------------------------------------------------


def _reason(term: Term) -> str:
    found = follow_deltas(term, PYTHON)
    assert found.term is term
    (decision,) = found.decisions
    assert isinstance(decision.outcome, Refusal)
    return decision.outcome.reason


def test_more_leaves_than_can_be_followed_stay_as_they_are() -> None:
    term = Aggregate(joined(chain(7), (R, S, T, R, S, T, R)), (), (COUNT,))
    assert "it joins 7 tables" in _reason(term)


def test_triggers_that_read_what_is_not_there_cannot_be_built() -> None:
    wrong = Source("before 0", R.schema)
    with pytest.raises(DefinitionError, match="trigger 0 cannot read 'before 0'"):
        Triggered(R, (R,), (wrong,))


# ---- negative controls -------------------------------------------------------------------------


def _differs(shapes: tuple[Shape, ...]) -> bool:
    """Is there a query and a stream on which the triggers and recomputation differ?"""

    def fails(case: tuple[Aggregate, dict[str, list[Rows]]]) -> bool:
        term, changes = case
        found = follow_deltas(term, PYTHON).term
        return run(derive(found), changes, LENGTH) != recompute(term, changes, LENGTH)

    find(st.tuples(join_terms(shapes), transactions()), fails, settings=QUICK)
    return True


LOOKED_UP, AGGREGATED = _Compiler._looked_up, Builder.aggregated


def _all_before(
    self: _Compiler, rows: BuiltRows, lookup: Lookup, needed: frozenset[str], relation: str
) -> BuiltRows:
    """A part that is read in between as if all its leaves came later."""
    when = When.BEFORE if lookup.when is When.BETWEEN else lookup.when
    return LOOKED_UP(self, rows, Lookup(lookup.part, when), needed, relation)


def test_leaves_that_change_together_need_the_deltas_in_between(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_Compiler, "_looked_up", _all_before)
    assert _differs((TRIANGLE, SQUARE, SNOWFLAKE))


def test_weights_that_are_taken_for_counts_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def unmerged(
        self: Builder, rows: BuiltRows, named: Named, key: Sequence[str], merged: object = None
    ) -> BuiltRows:
        return AGGREGATED(self, rows, named, key)

    monkeypatch.setattr(Builder, "aggregated", unmerged)
    assert _differs((chain(2), chain(3)))


def test_a_change_must_not_be_counted_with_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Search, "_when", lambda self, relation, part: When.AFTER)
    assert _differs((chain(2), star(3)))
