"""Safe variables (figure 1) and names kept apart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rekindle.errors import DefinitionError
from rekindle.frontends.agca.ast import Aggregate, Query, within
from rekindle.frontends.agca.parse import parse_formula, parse_query, parse_term
from rekindle.frontends.agca.renaming import rename_apart
from rekindle.frontends.agca.variables import check_formula, check_query, check_term, safe
from tests.agca.reference.semantics import Database, evaluate_term

from .strategies import DOMAIN, Shape, databases, law, queries

EXAMPLE = "Sum(u * f(z), (R(x, z) + (y = z)) * (z = w))"


@pytest.mark.parametrize(
    ("formula", "bound", "expected"),
    [
        ("R(x, y)", "", "xy"),
        ("R(x, y) * S(z)", "b", "bxyz"),
        ("R(x, y) + S(x)", "", "x"),
        ("-R(x, y)", "", "xy"),
        ("x = y", "", ""),
        ("x = y", "x", "xy"),
        ("x = y", "y", "xy"),
        ("x < y", "x", "x"),
        ("R(x) * (x = y) * (y = z)", "", "xyz"),
        ("(x = y) * R(x)", "", "x"),
        ("true", "b", "b"),
    ],
)
def test_figure_1(formula: str, bound: str, expected: str) -> None:
    assert safe(parse_formula(formula), frozenset(bound)) == frozenset(expected)


def test_example_4_1() -> None:
    with pytest.raises(DefinitionError) as caught:
        check_term(parse_term(EXAMPLE), frozenset("y"))
    assert caught.value.message == "variable 'u' has no value"
    assert caught.value.detail == f"in: {EXAMPLE}; variables that have one there: w, y, z"
    check_term(parse_term(EXAMPLE), frozenset("uy"))


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("q[] = Sum(1, R(x) * (x < y))", "y"),
        ("q[] = Sum(1, (x < 3) * R(x))", "x"),
        ("q[] = Sum(x, R(x)) * x", "x"),
        ("q[] = Sum(1, x = y)", "x"),
        ("q[] = Sum(1, R(x) * (Sum(z, S(y)) = x))", "z"),
        ("q[] = Sum(1, (R(x, y) + S(x)) * (y < 3))", "y"),
    ],
)
def test_a_variable_without_a_value_is_named(query: str, name: str) -> None:
    with pytest.raises(DefinitionError, match=f"variable '{name}' has no value"):
        check_query(parse_query(query))


def test_a_group_variable_is_named_once() -> None:
    with pytest.raises(DefinitionError, match="names 'a' twice"):
        check_query(parse_query("q[a, a] = 1"))


def test_a_formula_is_checked_from_left_to_right() -> None:
    check_formula(parse_formula("R(x) * (x < 3)"), frozenset())
    with pytest.raises(DefinitionError):
        check_formula(parse_formula("(x < 3) * R(x)"), frozenset())


@law
@given(queries(Shape(conditions=True)))
def test_generated_queries_are_safe(query: Query) -> None:
    check_query(query)


@law
@given(queries(Shape(conditions=True, literals=True)), databases, st.data())
def test_names_kept_apart_mean_the_same(
    query: Query, database: Database, data: st.DataObject
) -> None:
    bound = {name: data.draw(st.sampled_from(DOMAIN)) for name in query.group}
    apart = rename_apart(query.term, query.group)
    assert evaluate_term(apart, database, bound) == evaluate_term(query.term, database, bound)


def test_own_variables_of_aggregates_get_names_of_their_own() -> None:
    term = parse_term("Sum(x, R(x) * (Sum(1, S(x, y)) = Sum(1, T(y)))) * Sum(x, R(x))")
    apart = rename_apart(term, ["y"])
    assert apart == parse_term("Sum(x, R(x) * (Sum(1, S(x, y)) = Sum(1, T(y)))) * Sum(x2, R(x2))")
    assert sum(isinstance(part, Aggregate) for part in within(apart)) == 4
