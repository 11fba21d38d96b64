"""The text form parses back, and text that does not parse is refused with its place."""

from __future__ import annotations

import pytest
from hypothesis import given

from rekindle.errors import StatementError
from rekindle.frontends.agca.ast import Formula, Negation, Product, Query, Term
from rekindle.frontends.agca.parse import parse_formula, parse_query, parse_term
from rekindle.frontends.agca.text import written, written_query

from .strategies import any_formulae, any_queries, any_terms, law


@law
@given(any_terms)
def test_a_term_parses_back(term: Term) -> None:
    assert parse_term(written(term)) == term


@law
@given(any_formulae)
def test_a_formula_parses_back(formula: Formula) -> None:
    assert parse_formula(written(formula)) == formula


@law
@given(any_queries)
def test_a_query_parses_back(query: Query) -> None:
    assert parse_query(written_query(query)) == query


@pytest.mark.parametrize(
    "text",
    [
        "q[c1] = Sum(1, C(c1, n1) * C(c2, n2) * (n1 = n2))",
        "q[] = Sum(x * Sum(v, R(v, z)), y = z) * Sum(u, R(x, u))",
        "q[x] = Sum(1, S(x) * (Sum(1, C(y) * (Sum(1, T(x, y)) = 0)) = 0))",
        "q[a] = Sum(-1/2 * abs(x - 3), R(a, x) - `sales 2026`(a, x)) - (2 - x)",
    ],
)
def test_printed_text_is_a_fixed_point(text: str) -> None:
    assert written_query(parse_query(text)) == text


def test_comparisons_reach_as_far_as_terms_do() -> None:
    assert parse_formula("R(x) * x + 1 < 2 * y") == parse_formula("R(x) * ((x + 1) < (2 * y))")
    assert parse_formula("x = y * R(x)") == parse_formula("(x = y) * R(x)")
    assert parse_formula("S(x) * Sum(1, T(x)) = 0") == parse_formula("S(x) * (Sum(1, T(x)) = 0)")


def test_decimals_comments_and_negations() -> None:
    assert parse_term("2.5 # half\n * x") == parse_term("5/2 * x")
    assert parse_term("-x * y") == Product(Negation(parse_term("x")), parse_term("y"))


def test_deep_nesting_is_read_once() -> None:
    depth = 150
    assert parse_formula("(" * depth + "x = y" + ")" * depth) == parse_formula("x = y")


def test_bottomless_nesting_is_refused() -> None:
    depth = 100_000
    with pytest.raises(StatementError, match="nested too deeply"):
        parse_formula("(" * depth + "x = y" + ")" * depth)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("q[a] = Sum(1, R(a)", "line 1, column 19: expected ')', found the end"),
        ("q[a] =\n  Sum(1; R(a))", "line 2, column 8: unexpected character ';'"),
        ("q[a] = Sum(1, R(2))", "line 1, column 17: expected a variable, found '2'"),
        ("q[a] = R(a)", "line 1, column 8: expected a term, found 'R'"),
        ("q[a] = 1 +", "line 1, column 11: expected a term, found the end of the text"),
        ("Q[a] = 1", "line 1, column 1: expected a query name, found 'Q'"),
        ("q[a] = Sum(1, x * R(a))", "line 1, column 19: expected a term, found 'R'"),
        ("q[a] = Sum(x < 3, R(a))", "line 1, column 14: expected a term, found '<'"),
        ("q[a] = Sum(1, x + 1)", "line 1, column 15: expected a formula, found 'x'"),
        ("q[a] = Sum(1, x < 3 < y)", "line 1, column 21: expected an operator, found '<'"),
        ("q[a] = 1)", "line 1, column 9: expected the end, found ')'"),
        ("q[true] = 1", "line 1, column 3: expected a variable, found 'true'"),
        ("q[a] = Sum(1, Abs(a) < 3)", "'Abs' is read as a relation"),
    ],
)
def test_errors_name_the_place(text: str, message: str) -> None:
    with pytest.raises(StatementError) as caught:
        parse_query(text)
    assert message in str(caught.value)
    assert caught.value.detail.startswith("in: ")
