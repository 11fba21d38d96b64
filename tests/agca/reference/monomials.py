"""Terms as sums of monomials: no + and no − inside, only between.

Rings distribute, and Sum is linear in both places, so every term is a sum ±t ± ... of recursively
monomial terms. The rules, applied from left to right, bottom up:

    Sum(s + t, φ) = Sum(s, φ) + Sum(t, φ)      Sum(t, φ + ψ) = Sum(t, φ) + Sum(t, ψ)
    Sum(-t, φ) = -Sum(t, φ) = Sum(t, -φ)       Sum(t, true) = t
    Sum(t, false) = 0 = Sum(0, φ)              a + (-a) = 0, a + a = 2 * a
    Sum(s * Sum(t, ψ), φ) = Sum(s * t, φ * ψ)  if ψ has comparisons only

Arguments of functions and sides of comparisons stay as they are: no ring rule leads out of them.

Section 4 (proposition 4.5); the last rule is one of section 7.2's for lifting ifs. Adding equal
monomials is not in the paper, which only cancels them: it saves statements.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias, assert_never

from rekindle.errors import DefinitionError
from rekindle.frontends.agca.ast import (
    ONE,
    ZERO,
    Aggregate,
    Atom,
    Call,
    Comparison,
    Constant,
    Formula,
    MapAccess,
    Negation,
    Plus,
    Product,
    Term,
    Truth,
    Variable,
    conjunction,
    multiplication,
)
from rekindle.frontends.agca.renaming import rename_apart
from rekindle.frontends.agca.text import written
from tests.agca.reference.arithmetic import compare
from tests.agca.reference.delta import Sign

Part: TypeAlias = Atom | Comparison
"""A factor of the body of a monomial aggregate."""


@dataclass(frozen=True, slots=True)
class Monomial:
    """± the product of its factors; aggregates among them are monomial in turn."""

    sign: Sign
    factors: tuple[Term, ...]

    @property
    def term(self) -> Term:
        """The product without its sign."""
        return multiplication(self.factors)

    @property
    def opposite(self) -> Monomial:
        return Monomial(self.sign * Sign.MINUS, self.factors)


Polynomial: TypeAlias = tuple[Monomial, ...]


@dataclass(frozen=True, slots=True)
class _Body:
    """± the product of its parts."""

    sign: Sign
    parts: tuple[Part, ...]


def polynomial(term: Term, bound: Iterable[str]) -> Polynomial:
    """The term as a sum of recursively monomial terms, names kept apart first.

    >>> from rekindle.frontends.agca.parse import parse_term
    >>> written_polynomial(polynomial(parse_term("Sum(1, -A(x) * (-B(x) + C(x)))"), ()))
    'Sum(1, A(x) * B(x)) - Sum(1, A(x) * C(x))'
    """
    return _expanded(rename_apart(term, bound))


def _expanded(term: Term) -> Polynomial:
    return collected(_products(term))


def _products(term: Term) -> Iterator[tuple[Sign, tuple[Term, ...]]]:
    match term:
        case Plus(left, right):
            yield from _products(left)
            yield from _products(right)
        case Negation(operand):
            for monomial in _expanded(operand):
                yield monomial.sign * Sign.MINUS, monomial.factors
        case Product(left, right):
            rights = _expanded(right)
            for one in _expanded(left):
                for other in rights:
                    yield one.sign * other.sign, one.factors + other.factors
        case Aggregate(value, body):
            bodies = list(_expanded_formula(body))
            for monomial in _expanded(value):
                for product in bodies:
                    factors = sum_factors(monomial.factors, product.parts)
                    yield monomial.sign * product.sign, factors
        case Constant() | Variable() | Call() | MapAccess():
            yield Sign.PLUS, (term,)
        case _:
            assert_never(term)


def _expanded_formula(formula: Formula) -> Iterator[_Body]:
    match formula:
        case Plus(left, right):
            yield from _expanded_formula(left)
            yield from _expanded_formula(right)
        case Negation(operand):
            for body in _expanded_formula(operand):
                yield _Body(body.sign * Sign.MINUS, body.parts)
        case Product(left, right):
            rights = list(_expanded_formula(right))
            for one in _expanded_formula(left):
                for other in rights:
                    yield _Body(one.sign * other.sign, one.parts + other.parts)
        case Truth(value):
            if value:
                yield _Body(Sign.PLUS, ())
        case Comparison(Constant(left), operator, Constant(right)):
            if compare(left, operator, right):
                yield _Body(Sign.PLUS, ())
        case Comparison() | Atom():
            yield _Body(Sign.PLUS, (formula,))
        case _:
            assert_never(formula)


def sum_factors(values: Iterable[Term], parts: Iterable[Part]) -> tuple[Term, ...]:
    """Sum(Π values, Π parts) as factors: aggregates of comparisons inside move into the body."""
    flat: list[Term] = []
    body = list(parts)
    for value in values:
        inner = body_parts(value.body) if isinstance(value, Aggregate) else ()
        if isinstance(value, Aggregate) and all(isinstance(part, Comparison) for part in inner):
            flat += value_factors(value.value)
            body += inner
        else:
            flat.append(value)
    if not body:
        return tuple(flat)
    return (Aggregate(multiplication([each for each in flat if each != ONE]), conjunction(body)),)


def value_factors(term: Term) -> tuple[Term, ...]:
    """The factors of a product of terms, flat."""
    match term:
        case Product(left, right):
            return value_factors(left) + value_factors(right)
        case _:
            return (term,)


def body_parts(formula: Formula) -> tuple[Part, ...]:
    """The factors of a monomial body, flat; true has none."""
    match formula:
        case Product(left, right):
            return body_parts(left) + body_parts(right)
        case Atom() | Comparison():
            return (formula,)
        case Truth(True):
            return ()
        case _:
            raise DefinitionError(
                f"'{written(formula)}' is not a product of relations and comparisons",
                hint="bring the term into monomials first",
            )


def collected(monomials: Iterable[tuple[Sign, Iterable[Term]]]) -> Polynomial:
    """The sum with one monomial for each product of factors, numbers multiplied in front.

    >>> from rekindle.frontends.agca.ast import Variable
    >>> x = Variable("x")
    >>> sum_ = [(Sign.PLUS, [Constant(2), x]), (Sign.MINUS, [Constant(3), x])]
    >>> written_polynomial(collected(sum_))
    '-x'
    """
    coefficients: dict[tuple[Term, ...], Fraction] = {}
    for sign, factors in monomials:
        coefficient, others = _coefficient(factors)
        coefficients[others] = coefficients.get(others, Fraction(0)) + sign.weight * coefficient
    return tuple(
        _monomial(coefficient, factors)
        for factors, coefficient in coefficients.items()
        if coefficient
    )


def _coefficient(factors: Iterable[Term]) -> tuple[Fraction, tuple[Term, ...]]:
    """The product of the numbers, and what else there is."""
    coefficient = Fraction(1)
    others: list[Term] = []
    for factor in factors:
        match factor:
            case Constant(int() | Fraction() as value):
                coefficient *= value
            case _:
                others.append(factor)
    return coefficient, tuple(others)


def _monomial(coefficient: Fraction, factors: tuple[Term, ...]) -> Monomial:
    sign = Sign.PLUS if coefficient > 0 else Sign.MINUS
    size = abs(coefficient)
    number = Constant(size.numerator if size.denominator == 1 else size)
    return Monomial(sign, factors if number == ONE else (number, *factors))


def opposite(sum_: Polynomial) -> Polynomial:
    """−(±t ± ...)."""
    return tuple(monomial.opposite for monomial in sum_)


def as_term(sum_: Polynomial) -> Term:
    """The sum as one term, 0 when it is empty."""
    if not sum_:
        return ZERO
    first, *others = sum_
    result = first.term if first.sign is Sign.PLUS else Negation(first.term)
    for monomial in others:
        signed = monomial.term if monomial.sign is Sign.PLUS else Negation(monomial.term)
        result = Plus(result, signed)
    return result


def written_polynomial(sum_: Polynomial) -> str:
    """The sum as text, `0` when it is empty."""
    return written(as_term(sum_))
