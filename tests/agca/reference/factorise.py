"""Monomial aggregates as products of smaller ones.

    Sum(s * t, φ * ψ) = Sum(s, φ) * Sum(t, ψ)    if (s, φ) and (t, ψ) share no variable

The factors are the connected components of the parts of an aggregate, connected by common
variables. Each can be kept in a map of its own, so that no map holds a cross product. Bound
variables connect as well: two maps of one statement then never have a key variable in common,
which is part of the definition of NC0C.

Section 7.2 (proposition 7.5).
"""

from __future__ import annotations

from rekindle.frontends.agca.ast import ONE, Aggregate, Term, conjunction, multiplication
from rekindle.frontends.agca.variables import occurring
from tests.agca.reference.monomials import Part, body_parts, value_factors


class _Component:
    """Values and body parts that belong together."""

    def __init__(self) -> None:
        self.values: list[tuple[int, Term]] = []
        self.parts: list[tuple[int, Part]] = []
        self.names: set[str] = set()

    def absorb(self, other: _Component) -> None:
        self.values += other.values
        self.parts += other.parts
        self.names |= other.names

    @property
    def term(self) -> Aggregate:
        values = [value for _, value in sorted(self.values, key=lambda numbered: numbered[0])]
        parts = [part for _, part in sorted(self.parts, key=lambda numbered: numbered[0])]
        return Aggregate(multiplication(values), conjunction(parts))


def factorise(aggregate: Aggregate) -> tuple[Aggregate, ...]:
    """The factors of a monomial aggregate, as many as there can be, aggregates inside first.

    >>> from rekindle.frontends.agca.parse import parse_term
    >>> from rekindle.frontends.agca.text import written
    >>> [written(each) for each in factorise(parse_term("Sum(x, R(x) * S(y))"))]
    ['Sum(x, R(x))', 'Sum(1, S(y))']
    """
    components: list[_Component] = []
    values = [part for value in value_factors(aggregate.value) for part in factors_within(value)]
    for number, value in enumerate(value for value in values if value != ONE):
        component = _joined(components, occurring(value))
        component.values.append((number, value))
    for number, part in enumerate(body_parts(aggregate.body)):
        component = _joined(components, occurring(part))
        component.parts.append((number, part))
    return tuple(component.term for component in components if component.values or component.parts)


def factors_within(value: Term) -> tuple[Term, ...]:
    """The factors of a term; one without a body is no aggregate any more."""
    if not isinstance(value, Aggregate):
        return (value,)
    return tuple(
        part
        for factor in factorise(value)
        for part in (value_factors(factor.value) if not body_parts(factor.body) else (factor,))
    )


def _joined(components: list[_Component], names: tuple[str, ...]) -> _Component:
    """The component of these variables; those that share one become one, at the first's place."""
    touched = [each for each in components if not each.names.isdisjoint(names)]
    if not touched:
        components.append(_Component())
        touched = components[-1:]
    first, *others = touched
    for other in others:
        first.absorb(other)
        components.remove(other)
    first.names.update(names)
    return first
