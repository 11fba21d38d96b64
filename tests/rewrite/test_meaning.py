"""Rewriting keeps the meaning of random terms on random bags, and a wrong rule would be seen."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import find, given, settings

from rekindle.calculus.derived import LEFT, RIGHT
from rekindle.calculus.interpreter import Rows, evaluate
from rekindle.calculus.schema import Schema
from rekindle.calculus.terms import (
    Answer,
    Distinct,
    Join,
    Map,
    Negate,
    SemiJoin,
    Source,
    Term,
    UnionAll,
)
from rekindle.errors import DefinitionError
from rekindle.incremental.laws import expand_derived
from rekindle.incremental.laws.lift import lift
from rekindle.rewrite.analyses.positivity import is_positive
from rekindle.rewrite.analyses.setness import is_set
from rekindle.rewrite.pipeline import RULES, Rule, apply_everywhere, rewrite
from tests.calculus.strategies import QUICK, R, S, databases, terms


def keeps_meaning(rule: Rule, term: Term, database: dict[str, Rows]) -> bool:
    return evaluate(apply_everywhere(rule, term), database) == evaluate(term, database)


@given(terms(), databases())
@settings(max_examples=250, deadline=None)
def test_rewrite_keeps_meaning_and_schema(term: Term, database: dict[str, Rows]) -> None:
    rewritten = rewrite(term)
    assert evaluate(rewritten, database) == evaluate(term, database)
    assert rewritten.schema == term.schema


@given(terms().map(Distinct), databases())
@settings(max_examples=200, deadline=None)
def test_each_rule_keeps_meaning(term: Term, database: dict[str, Rows]) -> None:
    for rule in RULES:
        assert keeps_meaning(rule, term, database), rule.__name__


@given(terms())
@settings(max_examples=150, deadline=None)
def test_a_rewritten_term_is_a_fixed_point_with_no_more_distincts(term: Term) -> None:
    rewritten = rewrite(term)
    assert rewrite(rewritten) == rewritten
    assert _distincts(rewritten) <= _distincts(term)


@given(terms(), databases())
@settings(max_examples=200, deadline=None)
def test_the_analyses_say_what_holds(term: Term, database: dict[str, Rows]) -> None:
    rows = evaluate(term, database)
    assert rows.is_positive() or not is_positive(term)
    assert rows.is_set() or not is_set(term)


def _distincts(term: Term) -> int:
    return isinstance(term, Distinct) + sum(map(_distincts, term.children))


def _pull_from_one_side(term: Term) -> Term:
    match term:
        case Join(Distinct(left)):
            return Distinct(replace(term, left=left))
        case _:
            return term


def _pull_from_map(term: Term) -> Term:
    match term:
        case Map(Distinct(child)):
            return Distinct(replace(term, child=child))
        case _:
            return term


def _drop_without_positivity(term: Term) -> Term:
    match term:
        case Distinct(UnionAll((Distinct(first), *others))):
            return Distinct(UnionAll((first, *others)))
        case _:
            return term


@pytest.mark.parametrize(
    ("rule", "term"),
    [
        (_pull_from_one_side, Join(Distinct(R), R, (), ())),
        (_pull_from_map, Map(Distinct(R), ())),
        (_drop_without_positivity, Distinct(UnionAll((Distinct(R), Negate(S))))),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_planted_wrong_rule_is_caught(rule: Rule, term: Term) -> None:
    find(databases(), lambda database: not keeps_meaning(rule, term, database), settings=QUICK)


def test_a_rule_that_changes_the_schema_is_refused() -> None:
    def rename(term: Term) -> Term:
        return Source("r", Schema.of(z="int")) if isinstance(term, Source) else term

    with pytest.raises(DefinitionError, match="changed the schema"):
        rewrite(R, (rename,))


def test_rules_that_never_rest_are_named() -> None:
    def restless(term: Term) -> Term:
        return Source(term.name, term.schema) if isinstance(term, Source) else term

    with pytest.raises(DefinitionError, match="do not come to an end") as caught:
        rewrite(R, (restless,))
    assert "restless" in caught.value.detail


def test_a_definition_inside_itself_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    itself = SemiJoin(Source(LEFT, R.schema), Source(RIGHT, R.schema), (), Answer.MATCHED)
    monkeypatch.setattr(expand_derived, "definition", lambda _: itself)
    with pytest.raises(DefinitionError, match="do not come to an end on a circuit") as caught:
        expand_derived.expand_derived(lift(SemiJoin(R, R, (), Answer.MATCHED)))
    assert "SemiJoin" in caught.value.detail
