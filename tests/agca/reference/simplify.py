"""Simplify: a change as a sum of monomials over the bound variables, ifs outermost.

Four steps. (1) `polynomial`: a sum of recursively monomial terms. (2) `factorise` each. (3)
`eliminate_variables`: an equality x = y gives a local variable the other's name and goes. (4)
`lift_ifs`: comparisons of bound variables leave their aggregates and become one condition around
the monomial,

    Sum(t, φ * ψ) = Sum(Sum(t, φ), ψ)        t * Sum(s, ψ) = Sum(t * s, ψ)

because such a Sum(t, ψ) is `if ψ then t else 0`, and a condition on the key of a map tells which
entries of the map a statement has to touch.

Then the monomial is factorised once more, which the paper does not do. Eliminating variables can
leave Sum(u, S(v)) with both bound; kept as it is, in a map with the key u, an update of S would
have to change it at every u there may be. As u * Sum(1, S(v)) it is kept for v alone.

Section 7.1 (lemma 7.1), section 7.2.
"""

from __future__ import annotations

from collections.abc import Iterable

from rekindle.frontends.agca.ast import (
    ONE,
    Aggregate,
    Atom,
    Call,
    Comparison,
    Term,
    conjunction,
    multiplication,
    within,
)
from rekindle.frontends.agca.renaming import substitute
from rekindle.frontends.agca.variables import Names, occurring, safe
from tests.agca.reference.factorise import factorise, factors_within
from tests.agca.reference.monomials import (
    Monomial,
    Part,
    Polynomial,
    as_term,
    body_parts,
    collected,
    polynomial,
    sum_factors,
    value_factors,
)


def simplify(term: Term, bound: Iterable[str]) -> Polynomial:
    """Simplify(t, B): an equal sum of monomials, each `if ψ then` a product of aggregates.

    >>> from tests.agca.reference.monomials import written_polynomial
    >>> from rekindle.frontends.agca.parse import parse_term
    >>> change = parse_term("Sum(x * z, (x = u) * (y = v) * S(y, z))")
    >>> written_polynomial(simplify(change, ["u", "v"]))
    'u * Sum(z, S(v, z))'
    """
    known = frozenset(bound)
    sum_ = collected(
        (monomial.sign, _conditioned(_reduced(monomial.factors, known), known))
        for monomial in polynomial(term, known)
    )
    # Collecting may have put a number before an if, which has to stay outermost.
    return tuple(Monomial(each.sign, sum_factors(each.factors, ())) for each in sum_)


def _conditioned(factors: Iterable[Term], bound: Names) -> tuple[Term, ...]:
    """The product with its ifs lifted, and then factorised again."""
    conditions, kept = _lifted(factors, bound)
    parts = [part for factor in kept for part in factors_within(factor)]
    return sum_factors(parts, _without_repetition(conditions))


def _reduced(factors: Iterable[Term], bound: Names) -> list[Term]:
    """Factorised, then rid of the variables that equal others."""
    return [
        reduced
        for factor in factors
        for piece in (factorise(factor) if isinstance(factor, Aggregate) else (factor,))
        for reduced in eliminate_variables(piece, bound)
    ]


def eliminate_variables(term: Term, bound: Names) -> tuple[Term, ...]:
    """The factors of an equal term whose variables are bound or occur in atoms.

    >>> from rekindle.frontends.agca.parse import parse_term
    >>> from rekindle.frontends.agca.text import written
    >>> monomial = parse_term("Sum(x, R(x, y) * (y = z) * (z = u))")
    >>> [written(factor) for factor in eliminate_variables(monomial, frozenset("u"))]
    ['Sum(x, R(x, u))']
    """
    if isinstance(term, Call):
        return (Call(term.function, tuple(_tidied(each, bound) for each in term.arguments)),)
    if not isinstance(term, Aggregate):
        return (term,)
    value, parts = term.value, list(body_parts(term.body))
    while (found := _superfluous(parts, bound)) is not None:
        equality, names = found
        parts.remove(equality)
        value = substitute(value, names)
        parts = [substitute(part, names) for part in parts]
    inner = safe(conjunction(parts), bound)
    values = [
        factor for each in value_factors(value) for factor in eliminate_variables(each, inner)
    ]
    return sum_factors(values, _without_repetition(_tidied_part(part, inner) for part in parts))


def _tidied_part(part: Part, bound: Names) -> Part:
    match part:
        case Comparison(left, operator, right):
            return Comparison(_tidied(left, bound), operator, _tidied(right, bound))
        case _:
            return part


def _tidied(term: Term, bound: Names) -> Term:
    """What stands inside a comparison or a function, simplified on its own."""
    aggregates = any(isinstance(part, Aggregate) for part in within(term))
    return as_term(simplify(term, bound)) if aggregates else term


def _superfluous(parts: Iterable[Part], bound: Names) -> tuple[Part, dict[str, str]] | None:
    """An equality that need not stay, with the renaming that replaces it."""
    for part in parts:
        if not isinstance(part, Comparison) or part.equated is None:
            continue
        left, right = part.equated
        if left == right:
            return part, {}
        if left not in bound and right in bound:
            return part, {left: right}
        if right not in bound:
            return part, {right: left}
    return None


def _without_repetition(parts: Iterable[Part]) -> list[Part]:
    """Comparisons are 0 or 1, so saying one twice changes nothing; atoms are not."""
    kept: list[Part] = []
    for part in parts:
        if isinstance(part, Atom) or part not in kept:
            kept.append(part)
    return kept


def lift_ifs(term: Term, bound: Names) -> Term:
    """LiftIfs(t, B): comparisons of bound variables only, moved outside a monomial term."""
    conditions, factors = _lifted(value_factors(term), bound)
    if not conditions:
        return multiplication(factors)
    kept = [factor for factor in factors if factor != ONE]
    return Aggregate(multiplication(kept), conjunction(_without_repetition(conditions)))


def _lifted(factors: Iterable[Term], bound: Names) -> tuple[list[Part], list[Term]]:
    conditions: list[Part] = []
    kept: list[Term] = []
    for factor in factors:
        if not isinstance(factor, Aggregate):
            kept.append(factor)
            continue
        inner_conditions, values = _lifted(value_factors(factor.value), bound)
        parts = body_parts(factor.body)
        own = [part for part in parts if isinstance(part, Comparison) and _within(part, bound)]
        rest = [part for part in parts if part not in own]
        conditions += own + inner_conditions
        kept += [Aggregate(multiplication(values), conjunction(rest))] if rest else values
    return conditions, kept


def _within(part: Part, bound: Names) -> bool:
    return bound.issuperset(occurring(part))
