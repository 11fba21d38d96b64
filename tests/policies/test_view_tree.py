"""The term of a view tree means what the original term means, at every transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st

from rekindle.calculus.interpreter import Rows, evaluate
from rekindle.calculus.scalars import Column, Literal, Scalar
from rekindle.calculus.schema import Field, Schema
from rekindle.calculus.terms import (
    Aggregate,
    AggregateFunction,
    Distinct,
    Join,
    Measure,
    Source,
    Term,
)
from rekindle.calculus.text import to_text
from rekindle.errors import DefinitionError
from rekindle.incremental.pipeline import derive
from rekindle.incremental.policies.decisions import Factorised
from rekindle.incremental.policies.joins import JoinQuery
from rekindle.incremental.policies.orders import find_order
from rekindle.incremental.policies.payloads import Builder
from rekindle.incremental.policies.payloads import Rows as BuiltRows
from rekindle.incremental.policies.trees import View, view_tree
from rekindle.incremental.policies.view_tree import Plan, factorise
from rekindle.incremental.reference import recompute, run
from tests.calculus.strategies import QUICK
from tests.policies.arithmetic import PYTHON, PythonArithmetic
from tests.policies.orders import parse_order
from tests.policies.strategies import (
    LENGTH,
    PRODUCT,
    SHAPES,
    R,
    S,
    Shape,
    T,
    chain,
    databases,
    join_terms,
    joined,
    transactions,
)

Named: TypeAlias = tuple[tuple[str, Scalar], ...]
SIZES = {
    f"{name}{mark}": st.sampled_from((1, 10, 1000)) for name in "rst" for mark in ("", "#2", "#3")
}
AGGREGATED, PROJECTED = Builder.aggregated, Builder.projected


def factorised(term: Term) -> Factorised:
    """The tree's term; it must exist."""
    found = factorise(term, PYTHON)
    assert all(isinstance(decision.outcome, View) for decision in found.decisions), found.decisions
    return found


@given(join_terms(), databases())
@settings(max_examples=300, deadline=None)
def test_the_tree_means_what_the_query_means(term: Aggregate, database: dict[str, Rows]) -> None:
    found = factorised(term)
    assert found.term.schema == term.schema
    assert evaluate(found.term, database) == evaluate(term, database)


@given(join_terms(), transactions())
@settings(max_examples=100, deadline=None)
def test_the_derived_stream_of_the_tree_gives_the_changes_of_the_query(
    term: Aggregate, changes: dict[str, list[Rows]]
) -> None:
    found = factorised(term)
    assert run(derive(found.term), changes, LENGTH) == recompute(term, changes, LENGTH)


@given(join_terms(), databases(), st.fixed_dictionaries(SIZES))
@settings(max_examples=100, deadline=None)
def test_every_order_gives_the_same(
    term: Aggregate, database: dict[str, Rows], sizes: dict[str, int]
) -> None:
    """Sizes as they come make the search take one order or another."""

    def plan(query: JoinQuery) -> View:
        return view_tree(find_order(query.hypergraph, sizes), query.hypergraph)

    assert evaluate(factorise(term, PYTHON, plan).term, database) == evaluate(term, database)


def test_the_term_of_a_tree() -> None:
    """Q[a] = Σ R(a,b)·S(b,c)·c: the sum over c is kept by b, as its own view."""
    r = Source("r", Schema((Field("a", "int"), Field("b", "int"))))
    s = Source("s", Schema((Field("b", "int"), Field("c", "int", nullable=False))))
    total = Measure("total", AggregateFunction.SUM, (Column(3, "int", False),), "bigint")
    pairs = Join(r, s, (Column(1, "int"),), (Column(0, "int"),))
    term = Aggregate(pairs, (("a", Column(0, "int")),), (total,))
    assert to_text(factorised(term).term).splitlines() == [
        "map a = $0:int, total = @0",
        "  aggregate by a = $0:int compute count = sum($1:bigint!):bigint,"
        " sum1 = sum($2:bigint):bigint",
        "    map a = $3:int, count = $1:bigint!, sum1 = $2:bigint",
        "      join on $0:int = $1:int",
        "        aggregate by b = $0:int compute count = count():bigint!,"
        " sum1 = sum($1:int!):bigint",
        "          map b = $0:int, factor0 = $1:int!",
        "            source s (b: int, c: int!)",
        "        map a = $0:int, b = $1:int",
        "          source r (a: int, b: int)",
    ]


def test_a_given_order_is_followed_or_refused() -> None:
    count = Measure("n", AggregateFunction.COUNT, (), "bigint", nullable=False)
    term = Aggregate(joined(chain(3), (R, S, T)), (), (count,))

    def follow(text: str) -> Plan:
        return lambda query: view_tree(parse_order(text), query.hypergraph)

    found = factorise(term, PYTHON, follow("s.y(y)"))
    assert str(found.decisions[0]).startswith("(n) follows\nV@s.y[]\n")
    with pytest.raises(DefinitionError, match=r"leaves out 's\.y'"):
        factorise(term, PYTHON, follow("y"))


# ---- negative controls -------------------------------------------------------------------------


class CountsNulls(PythonArithmetic):
    """Takes a NULL for a value that is present."""

    def present(self, value: Scalar, schema: Schema) -> Scalar:
        return Literal(1, "bigint")


class AddsOnly(PythonArithmetic):
    """Forgets the signs."""

    def signed_sum(self, summands: Sequence[tuple[int, Scalar]], schema: Schema) -> Scalar:
        return super().signed_sum([(1, summand) for _, summand in summands], schema)


def _keyless(
    self: Builder,
    rows: BuiltRows,
    named: Named,
    key: Sequence[str],
    merged: Scalar | None = None,
) -> BuiltRows:
    """A view without variables as one row, also over no input."""
    keyless = tuple(each for each in named if each[0] != "one")
    return AGGREGATED(self, rows, keyless, key, merged)


def _weightless(self: Builder, rows: BuiltRows, key: Sequence[str]) -> BuiltRows:
    """A count of rows as a set of rows."""
    found = PROJECTED(self, rows, key)
    return replace(found, term=Distinct(found.term))


def _differs(arithmetic: PythonArithmetic, shapes: tuple[Shape, ...] = SHAPES) -> bool:
    """Is there a query and a database on which the tree and the query differ?"""

    def fails(case: tuple[Aggregate, dict[str, Rows]]) -> bool:
        term, database = case
        return evaluate(factorise(term, arithmetic).term, database) != evaluate(term, database)

    find(st.tuples(join_terms(shapes), databases()), fails, settings=QUICK)
    return True


@pytest.mark.parametrize("arithmetic", [CountsNulls(), AddsOnly()])
def test_wrong_arithmetic_is_caught(arithmetic: PythonArithmetic) -> None:
    assert _differs(arithmetic)


def test_a_view_that_has_a_row_over_no_input_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Builder, "aggregated", _keyless)
    assert _differs(PYTHON, (PRODUCT,))


def test_counts_that_are_forgotten_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Builder, "projected", _weightless)
    assert _differs(PYTHON, (chain(3),))
