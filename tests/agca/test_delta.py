"""Changes are exact, and lower the degree (propositions 5.1 and 5.2, theorem 5.5)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rekindle.algebra.relations import Tuple
from rekindle.algebra.zset import ZSet
from rekindle.errors import DefinitionError
from rekindle.frontends.agca.ast import Formula, Query
from rekindle.frontends.agca.parse import parse_formula, parse_term
from rekindle.frontends.agca.variables import check_formula, check_term
from tests.agca.reference.arithmetic import number
from tests.agca.reference.delta import (
    Event,
    Sign,
    apply_update,
    degree,
    formula_delta,
    has_simple_conditions,
    term_delta,
)
from tests.agca.reference.semantics import Database, Row, evaluate_formula, evaluate_term

from .strategies import DOMAIN, SCHEMA, Shape, databases, formulae, law, queries, updates

ARGUMENTS = {"R": ("u", "v"), "S": ("t",)}
EVENTS = [Event(sign, relation, ARGUMENTS[relation]) for relation in SCHEMA for sign in Sign]


@law
@given(queries(Shape(conditions=True, literals=True)), databases, updates, st.data())
def test_proposition_5_2_the_change_of_a_term_is_exact(
    query: Query, database: Database, update: tuple[Sign, str, Row], data: st.DataObject
) -> None:
    sign, relation, row = update
    bound = {name: data.draw(st.sampled_from(DOMAIN)) for name in query.group}
    arguments = dict(zip(ARGUMENTS[relation], row, strict=True))
    change = term_delta(query.term, Event(sign, relation, ARGUMENTS[relation]), query.group)
    check_term(change, frozenset(bound) | frozenset(arguments))
    before = number(evaluate_term(query.term, database, bound))
    after = evaluate_term(query.term, apply_update(database, *update), bound)
    assert after == before + number(evaluate_term(change, database, {**bound, **arguments}))


@law
@given(formulae(frozenset("xa"), Shape(conditions=True, literals=True)), databases, updates)
def test_proposition_5_2_the_change_of_a_formula_is_exact(
    formula: Formula, database: Database, update: tuple[Sign, str, Row]
) -> None:
    sign, relation, row = update
    arguments = dict(zip(ARGUMENTS[relation], row, strict=True))
    bound = {"x": 1, "a": 2, **arguments}
    change = formula_delta(formula, Event(sign, relation, ARGUMENTS[relation]), "xa")
    check_formula(change, frozenset(bound))
    before = evaluate_formula(formula, database, bound)
    after = evaluate_formula(formula, apply_update(database, *update), bound)
    assert after == before + evaluate_formula(change, database, bound)


@law
@given(queries(Shape(literals=True)))
def test_theorem_5_5_no_change_has_a_higher_degree(query: Query) -> None:
    assert has_simple_conditions(query.term)
    for event in EVENTS:
        assert degree(term_delta(query.term, event, query.group)) <= max(0, degree(query.term) - 1)


@law
@given(queries(Shape()))
def test_theorem_5_5_some_update_lowers_the_degree_by_exactly_one(query: Query) -> None:
    reached = max(degree(term_delta(query.term, event, query.group)) for event in EVENTS)
    assert reached == max(0, degree(query.term) - 1)


@law
@given(queries(Shape(), depth=1))
def test_theorem_5_5_the_change_of_that_order_reads_no_relation(query: Query) -> None:
    term, bound = query.term, query.group
    for step in range(degree(term)):
        arguments = (f"u{step}", f"v{step}")
        term = term_delta(term, Event(Sign.PLUS, "R", arguments), bound)
        bound += arguments
    assert degree(term) == 0


def test_control_a_condition_on_an_aggregate_keeps_the_degree() -> None:
    term = parse_term("Sum(1, S(x) * (Sum(1, R(x, y)) > 1))")
    assert not has_simple_conditions(term)
    assert degree(term_delta(term, EVENTS[0], ())) > degree(term) - 1


def test_control_leaving_out_the_product_of_changes_is_caught() -> None:
    database: Database = {"S": ZSet.of({(0,): 1})}
    formula = parse_formula("S(x) * S(y)")
    event = Event(Sign.PLUS, "S", ("t",))
    change = parse_formula("(x = t) * S(y) + S(x) * (y = t)")
    given_row = Tuple(t=1)
    before = evaluate_formula(formula, database, given_row)
    after = evaluate_formula(formula, apply_update(database, Sign.PLUS, "S", (1,)), given_row)
    assert after != before + evaluate_formula(change, database, given_row)
    exact = formula_delta(formula, event, ())
    assert after == before + evaluate_formula(exact, database, given_row)


def test_a_variable_that_the_change_makes_safe_captures_no_other() -> None:
    """y has no value after the sum, so the inner y is another; in the change it has one."""
    term = parse_term("Sum(Sum(1, R(y, x)), S(x) + R(y, y))")
    database: Database = {"R": ZSet.of({(1, 0): 1}), "S": ZSet.of({})}
    change = term_delta(term, Event(Sign.PLUS, "R", ("u", "v")), ())
    after = apply_update(database, Sign.PLUS, "R", (0, 0))
    found = evaluate_term(change, database, {"u": 0, "v": 0})
    assert found == evaluate_term(term, after, {}) == 2
    assert evaluate_term(term, database, {}) == 0


def test_an_update_needs_variables_of_its_own() -> None:
    with pytest.raises(DefinitionError, match="reuses the variable 'x'"):
        term_delta(parse_term("Sum(x, S(x))"), Event(Sign.PLUS, "S", ("x",)), ())
    with pytest.raises(DefinitionError, match="differ in width"):
        term_delta(parse_term("Sum(x, S(x))"), Event(Sign.PLUS, "S", ("t", "u")), ())
