"""A derived operator means what its definition says, and follows changes as that does."""

from __future__ import annotations

import pytest
from hypothesis import find, given

from rekindle.algebra.zset import ZSet
from rekindle.calculus import derived
from rekindle.calculus.derived import LEFT, RIGHT, definition
from rekindle.calculus.interpreter import Rows, evaluate
from rekindle.calculus.scalars import Column
from rekindle.calculus.terms import (
    Aggregate,
    Answer,
    Condition,
    Linearity,
    OuterJoin,
    Padded,
    SemiJoin,
    Term,
)
from rekindle.calculus.text import parse, to_text_with_table
from rekindle.errors import DefinitionError
from rekindle.incremental.laws.eliminate_distincts import eliminate_distincts
from rekindle.incremental.pipeline import derive
from rekindle.incremental.reference import recompute, run
from tests.calculus.strategies import LENGTH, QUICK, R, S, databases, derived_terms, transactions


def _agrees_with_definition(term: Term, database: dict[str, Rows]) -> bool:
    if term.linearity is not Linearity.DERIVED:
        return True
    values = [evaluate(child, database) for child in term.children]
    given_ = dict(zip((LEFT, RIGHT), values, strict=False))
    return evaluate(definition(term), given_) == evaluate(term, database)


@given(derived_terms(), databases())
def test_an_operator_equals_its_definition(term: Term, database: dict[str, Rows]) -> None:
    assert _agrees_with_definition(term, database)


@given(derived_terms(), databases())
def test_rewriting_changes_nothing(term: Term, database: dict[str, Rows]) -> None:
    assert evaluate(eliminate_distincts(term), database) == evaluate(term, database)


@given(derived_terms(), transactions())
def test_changes_equal_those_of_recomputation(term: Term, changes: dict[str, list[Rows]]) -> None:
    assert run(derive(term), changes, LENGTH) == recompute(term, changes, LENGTH)


@given(derived_terms())
def test_the_text_parses_back(term: Term) -> None:
    assert parse(*to_text_with_table(term)) == term


def test_a_definition_that_forgets_the_unmatched_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Negative control: without the minus, an anti join keeps everything."""
    monkeypatch.setattr(derived, "Negate", lambda term: term)

    def differs(case: tuple[Term, dict[str, Rows]]) -> bool:
        return not _agrees_with_definition(*case)

    from hypothesis import strategies as st

    find(st.tuples(derived_terms(), databases()), differs, settings=QUICK)


def _keyed(answer: Answer) -> SemiJoin:
    key = Column(0, "int")
    return SemiJoin(R, S, (Condition((key,), (key,)),), answer)


def test_null_matches_nothing_and_is_kept_by_an_anti_join() -> None:
    database = {"r": ZSet.from_rows([(None, 1), (1, 1)]), "s": ZSet.from_rows([(None, 2), (1, 2)])}
    assert evaluate(_keyed(Answer.MATCHED), database) == ZSet.from_rows([(1, 1)])
    assert evaluate(_keyed(Answer.UNMATCHED), database) == ZSet.from_rows([(None, 1)])
    marked = evaluate(_keyed(Answer.MARKED), database)
    assert marked == ZSet.from_rows([(None, 1, False), (1, 1, True)])


def test_both_sides_are_padded() -> None:
    key = Column(0, "int")
    term = OuterJoin(R, S, (key,), (key,), None, Padded.BOTH)
    database = {"r": ZSet.from_rows([(1, 1), (2, 2)]), "s": ZSet.from_rows([(2, 5), (3, 6)])}
    assert evaluate(term, database) == ZSet.from_rows(
        [(1, 1, None, None), (2, 2, 2, 5), (None, None, 3, 6)]
    )


def test_other_operators_have_no_definition() -> None:
    with pytest.raises(DefinitionError):
        definition(Aggregate(R, (), ()))
