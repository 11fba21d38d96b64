"""What formulae and terms mean (section 4)."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given

from rekindle.algebra.relations import Tuple
from rekindle.algebra.zset import ZSet
from rekindle.errors import DefinitionError, EvaluationError, RekindleError
from rekindle.frontends.agca.ast import Comparison, Formula, Product, Value, within
from rekindle.frontends.agca.parse import parse_formula, parse_query, parse_term
from tests.agca.reference.semantics import (
    RELATIONS,
    Database,
    active_domain,
    evaluate_formula,
    evaluate_query,
    evaluate_term,
)

from .strategies import Shape, databases, formulae, law

DATA: Database = {
    "R": ZSet.of({(1, 1): 2, (1, 2): 1, (2, 3): -1}),
    "S": ZSet.of({(1,): 1, (3,): 4}),
    "N": ZSet.of({(1, "US"): 1, (2, "UK"): 1}),
}


@law
@given(
    formulae(frozenset(), Shape(inequalities=False)),
    formulae(frozenset(), Shape(inequalities=False)),
    databases,
)
def test_without_comparisons_formulae_multiply_in_the_ring(
    left: Formula, right: Formula, database: Database
) -> None:
    whole = Product(left, right)
    if any(isinstance(part, Comparison) for part in within(whole)):
        return
    expected = RELATIONS.multiply(
        evaluate_formula(left, database, {}), evaluate_formula(right, database, {})
    )
    assert evaluate_formula(whole, database, {}) == expected
    assert evaluate_formula(Product(right, left), database, {}) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("R(x, x)", {Tuple(x=1): 2}),
        ("R(x, y) * S(y)", {Tuple(x=1, y=1): 2, Tuple(x=2, y=3): -4}),
        (
            "S(x) + R(x, y)",
            {
                Tuple(x=1): 1,
                Tuple(x=3): 4,
                Tuple(x=1, y=1): 2,
                Tuple(x=1, y=2): 1,
                Tuple(x=2, y=3): -1,
            },
        ),
        ("S(x) - S(x)", {}),
        ("S(x) * (x = y)", {Tuple(x=1, y=1): 1, Tuple(x=3, y=3): 4}),
        ("S(x) * (x > 1) * true", {Tuple(x=3): 4}),
        ("S(x) * (Sum(y, R(x, y)) = 4)", {Tuple(x=1): 1}),
        ("N(x, n) * (n = 'UK')", {Tuple(x=2, n="UK"): 1}),
        ("false", {}),
    ],
)
def test_formulae(text: str, expected: dict[Tuple, int]) -> None:
    assert evaluate_formula(parse_formula(text), DATA, {}) == ZSet.of(expected)


def test_bound_variables_select_and_stay_in_the_result() -> None:
    found = evaluate_formula(parse_formula("R(x, y) * (y = z)"), DATA, {"x": 1, "z": 2})
    assert found == ZSet.of({Tuple(x=1, y=2, z=2): 1})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Sum(1, R(x, y))", 2),
        ("Sum(x * y, R(x, y)) - 1/2", Fraction(-5, 2)),
        ("Sum(Sum(y, R(x, y)), S(x))", 4),
        (
            "abs(-3) + least(4, 2) * greatest(1, 5) + floor(5/2) + divide(1, 2) + divide(1, 0)",
            Fraction(31, 2),
        ),
        ("Sum(1, S(x)) * Sum(x, S(x))", 65),
    ],
)
def test_terms(text: str, expected: Value) -> None:
    assert evaluate_term(parse_term(text), DATA, {}) == expected


def test_a_query_is_a_map_from_groups() -> None:
    query = parse_query("q[x] = Sum(y, R(x, y))")
    assert evaluate_query(query, {"R": DATA["R"]}) == {(1,): 4, (2,): -3}
    assert evaluate_query(query, DATA, [1]) == {(1,): 4}
    assert set(active_domain(DATA)) == {1, 2, 3, "US", "UK"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Sum(1, T(x))", "unknown relation 'T'"),
        ("Sum(1, S(x, y))", "does not fit a row of 1 values"),
        ("Sum(n, N(x, n))", "is not a number"),
        ("Sum(1, N(x, n) * (n < x))", "has no answer"),
        ("sqrt(2)", "unknown function 'sqrt'"),
        ("abs(1, 2)", "abs\\(1, 2\\) has no value"),
        ("m[]", "only in a trigger program"),
    ],
)
def test_what_has_no_value_says_why(text: str, message: str) -> None:
    with pytest.raises(RekindleError, match=message):
        evaluate_term(parse_term(text), DATA, {})


def test_errors_are_of_the_right_kind() -> None:
    with pytest.raises(EvaluationError):
        evaluate_term(parse_term("'a' * 2"), DATA, {})
    with pytest.raises(DefinitionError):
        evaluate_term(parse_term("m[x]"), DATA, {"x": 1})
