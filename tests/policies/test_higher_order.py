from __future__ import annotations
from hypothesis import given, settings
from rekindle.calculus.interpreter import Rows
from rekindle.calculus.terms import Aggregate, Term, Triggered
from rekindle.calculus.text import parse, to_text_with_table
from rekindle.incremental.pipeline import derive
from rekindle.incremental.policies.decisions import Factorised
from rekindle.incremental.policies.deltas import Deltas
from rekindle.incremental.policies.higher_order import follow_deltas
from rekindle.incremental.reference import recompute, run
from tests.policies.arithmetic import PYTHON
from tests.policies.strategies import LENGTH, join_terms, transactions


def triggered(term: Term) -> Factorised:
    found = follow_deltas(term, PYTHON)
    assert all(isinstance(decision.outcome, Deltas) for decision in found.decisions)
    assert any(isinstance(decision.outcome, Deltas) for decision in found.decisions)
    return found


@given(join_terms(), transactions())
@settings(max_examples=200, deadline=None)
def test_the_triggers_give_the_changes_of_the_query(
    term: Aggregate, changes: dict[str, list[Rows]]
) -> None:
    found = triggered(term)
    assert run(derive(found.term), changes, LENGTH) == recompute(term, changes, LENGTH)


@given(join_terms())
@settings(max_examples=30, deadline=None)
def test_the_text_of_triggers_parses_back(term: Aggregate) -> None:
    found = triggered(term).term
    assert isinstance(found, Triggered)
    assert parse(*to_text_with_table(found)) == found
