"""The steps of the compiler keep the meaning: monomials, factors, names, ifs, extraction."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import assume, given
from hypothesis import strategies as st

from rekindle.frontends.agca.ast import (
    Aggregate,
    Atom,
    Comparison,
    MapAccess,
    Negation,
    Plus,
    Product,
    Query,
    Term,
    Value,
    multiplication,
    within,
)
from rekindle.frontends.agca.variables import check_term, occurring
from tests.agca.reference.delta import Event, Sign, degree, term_delta
from tests.agca.reference.extract import accesses, extract
from tests.agca.reference.factorise import factorise
from tests.agca.reference.monomials import Polynomial, as_term, body_parts, polynomial
from tests.agca.reference.semantics import Database, evaluate_term
from tests.agca.reference.simplify import eliminate_variables, simplify

from .strategies import DOMAIN, Shape, databases, law, queries

SMALL = 3


@st.composite
def cases(draw: st.DrawFn, shape: Shape) -> tuple[Query, Database, Mapping[str, Value]]:
    query = draw(queries(shape))
    assume(degree(query.term) <= SMALL)
    bound = {name: draw(st.sampled_from(DOMAIN)) for name in query.group}
    return query, draw(databases), bound


def is_monomial(term: Term) -> bool:
    """No + and no −, except inside functions and comparisons."""
    match term:
        case Plus() | Negation():
            return False
        case Product(left, right):
            return is_monomial(left) and is_monomial(right)
        case Aggregate(value, body):
            return is_monomial(value) and all(
                isinstance(part, Atom | Comparison) for part in body_parts(body)
            )
        case _:
            return True


def aggregates(sum_: Polynomial) -> list[Aggregate]:
    return [factor for each in sum_ for factor in each.factors if isinstance(factor, Aggregate)]


@law
@given(cases(Shape(conditions=True, literals=True)))
def test_proposition_4_5(case: tuple[Query, Database, Mapping[str, Value]]) -> None:
    query, database, bound = case
    sum_ = polynomial(query.term, query.group)
    assert all(is_monomial(each.term) for each in sum_)
    expected = evaluate_term(query.term, database, bound)
    assert evaluate_term(as_term(sum_), database, bound) == expected


def _has_conditions(term: Term) -> bool:
    return any(isinstance(part, Comparison) and degree(part) for part in within(term))


@law
@given(cases(Shape(conditions=True)))
def test_factors_multiply_to_the_aggregate(
    case: tuple[Query, Database, Mapping[str, Value]],
) -> None:
    query, database, bound = case
    for aggregate in aggregates(polynomial(query.term, query.group)):
        factors = factorise(aggregate)
        names = [name for factor in factors for name in occurring(factor)]
        assert len(names) == len(set(names))
        expected = evaluate_term(aggregate, database, bound)
        assert evaluate_term(multiplication(factors), database, bound) == expected


@law
@given(cases(Shape(conditions=True)))
def test_lemma_7_1(case: tuple[Query, Database, Mapping[str, Value]]) -> None:
    query, database, bound = case
    for aggregate in aggregates(polynomial(query.term, query.group)):
        factors = eliminate_variables(aggregate, frozenset(bound))
        left = multiplication(factors)
        check_term(left, frozenset(bound))
        expected = evaluate_term(aggregate, database, bound)
        assert evaluate_term(left, database, bound) == expected
        if not _has_conditions(aggregate):
            atoms = [part for part in within(left) if isinstance(part, Atom)]
            covered = {name for atom in atoms for name in atom.variables}
            assert set(occurring(left)) <= covered | set(bound)


@law
@given(cases(Shape(conditions=True, literals=True)))
def test_simplify_keeps_the_meaning_of_a_change(
    case: tuple[Query, Database, Mapping[str, Value]],
) -> None:
    query, database, bound = case
    change = term_delta(query.term, Event(Sign.MINUS, "R", ("u", "v")), query.group)
    known = {**bound, "u": 1, "v": 2}
    simplified = as_term(simplify(change, known))
    check_term(simplified, frozenset(known))
    assert evaluate_term(simplified, database, known) == evaluate_term(change, database, known)


@law
@given(cases(Shape()))
def test_extraction_can_be_undone(case: tuple[Query, Database, Mapping[str, Value]]) -> None:
    query, _, _ = case
    kept: dict[str, Term] = {}

    def keeper(aggregate: Aggregate, keys: tuple[str, ...]) -> str:
        kept[f"m{len(kept) + 1}"] = aggregate
        return f"m{len(kept)}"

    for monomial in simplify(query.term, query.group):
        kept.clear()
        rest = extract(monomial.term, frozenset(query.group), keeper)
        assert degree(rest) == 0
        assert {access.name for access in accesses(rest)} == set(kept)
        assert _restored(rest, kept) == monomial.term


def _restored(term: Term, kept: Mapping[str, Term]) -> Term:
    """The term with the aggregates back in place; extraction leaves products and ifs."""
    match term:
        case MapAccess(name):
            return kept[name]
        case Aggregate(value, body):
            return Aggregate(_restored(value, kept), body)
        case Product(left, right):
            return Product(_restored(left, kept), _restored(right, kept))
        case _:
            return term
