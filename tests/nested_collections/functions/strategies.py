"""Random well-typed terms of the calculus, values of every type, and costs.

A term is drawn by its types: each construct that can end in the target is a choice, so lambdas,
applications of functions that are arguments, and delta₀ come at any depth. A value of a functional
type is a closure over a drawn term, with drawn values assigned.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from hypothesis import settings
from hypothesis import strategies as st

from rekindle.algebra.zset import ZSet
from rekindle.nested.functions.cost import COSTS, Cost, bottom, cost
from rekindle.nested.functions.delta import delta
from rekindle.nested.functions.evaluation import VALUES, Closure, Meaning, Samples
from rekindle.nested.functions.primitives import PRIMITIVES
from rekindle.nested.functions.terms import (
    Apply,
    Bang,
    Curry,
    Defined,
    Delta0,
    Identity,
    Minus,
    Pair,
    Plus,
    Projection,
    Term,
    Value,
    Zero,
    ignoring,
    pick,
    zero_of,
)
from rekindle.nested.functions.types import BAG, INTEGER, UNIT, Function, Ground, Product, Type

law = settings(deadline=None, max_examples=200)

grounds: st.SearchStrategy[Type] = st.sampled_from([INTEGER, BAG])
first_order: st.SearchStrategy[Type] = st.recursive(
    grounds | st.just(UNIT), lambda inner: st.builds(Product, inner, inner), max_leaves=3
)
types: st.SearchStrategy[Type] = st.recursive(
    grounds | grounds | st.just(UNIT),
    lambda inner: st.builds(Product, inner, inner) | st.builds(Function, inner, inner),
    max_leaves=3,
)

Draw: TypeAlias = st.DrawFn


def _parts(term: Term, wanted: Type) -> list[Term]:
    """Every way to project the wanted type out of what a term gives."""
    found: list[Term] = [term] if term.target == wanted else []
    if isinstance(term.target, Product):
        for index in (1, 2):
            found += _parts(Projection(index, term.target) @ term, wanted)
    return found


@st.composite
def terms(
    draw: Draw,
    source: Type,
    target: Type,
    depth: int = 3,
    primitives: Sequence[Defined] = PRIMITIVES,
) -> Term:
    """A term from `source` to `target`."""

    def smaller(start: Type, end: Type) -> Term:
        return draw(terms(start, end, depth - 1, primitives))

    leaves = _parts(Identity(source), target)
    if depth <= 0:
        return draw(st.sampled_from([*leaves, ignoring(zero_of(target), source)]))

    choices = ["leaf"] * bool(leaves) + ["compose", "apply"]
    makers = [primitive for primitive in primitives if primitive.gives == target]
    match target:
        case Ground():
            choices += ["plus", "minus", "zero"] + ["defined"] * 2 * bool(makers)
        case Product():
            choices += ["pair"] * 3
        case Function(argument, _):
            choices += ["curry"] * 3
            if isinstance(argument, Product) and argument.first == argument.second:
                choices += ["delta0"] * 3
        case _:
            choices += ["bang"]
    match draw(st.sampled_from(choices)), target:
        case "leaf", _:
            return draw(st.sampled_from(leaves))
        case "compose", _:
            between = draw(types)
            return smaller(between, target) @ smaller(source, between)
        case "apply", _:
            function = Function(draw(types), target)
            return Apply(function) @ Pair(
                smaller(source, function), smaller(source, function.argument)
            )
        case "plus", Ground():
            return Plus(target) @ Pair(smaller(source, target), smaller(source, target))
        case "minus", Ground():
            return Minus(target) @ smaller(source, target)
        case "zero", Ground():
            return Zero(target) @ Bang(source)
        case "defined", _:
            primitive = draw(st.sampled_from(makers))
            return primitive @ smaller(source, primitive.takes)
        case "pair", Product(first, second):
            return Pair(smaller(source, first), smaller(source, second))
        case "curry", Function(argument, result):
            return Curry(smaller(Product(source, argument), result))
        case "delta0", Function(Product(argument, _), result):
            derived = Function(argument, result)
            return Delta0(derived) @ smaller(source, derived)
        case _:
            return Bang(source)


bags = st.dictionaries(st.integers(-2, 2), st.integers(-2, 2), max_size=3).map(ZSet.of)


@st.composite
def values(
    draw: Draw, of: Type, depth: int = 2, primitives: Sequence[Defined] = PRIMITIVES
) -> Value:
    """A value of any type."""
    return draw(_values(of, depth, primitives, VALUES))


@st.composite
def costs(draw: Draw, of: Type, depth: int = 2, primitives: Sequence[Defined] = PRIMITIVES) -> Cost:
    """A cost of any type: of functions, that of some term (as the proof of theorem 13 has it)."""
    return draw(_values(of, depth, primitives, COSTS))


@st.composite
def _values(
    draw: Draw, of: Type, depth: int, primitives: Sequence[Defined], meaning: Meaning
) -> Any:
    match of:
        case Ground():
            if meaning is COSTS:
                return draw(st.integers(1, 6))
            return draw(st.integers(-3, 3) if of == INTEGER else bags)
        case Product(first, second):
            return tuple(
                draw(_values(part, depth, primitives, meaning)) for part in (first, second)
            )
        case Function(argument, result):
            free = draw(first_order)
            body = draw(terms(Product(free, argument), result, depth, primitives))
            return Closure(body, draw(_values(free, depth, primitives, meaning)), meaning)
        case _:
            return ()


@st.composite
def smaller_costs(draw: Draw, of: Type, than: Cost, by: int = 0) -> Cost:
    """A cost that is at most the given one, or with by=1 below it.

    Of a function it is that of nothing, or of the same lambda with a smaller change of what is
    free in it: theorem 13 for curry, which the tests check before they build on it.
    """
    match of:
        case Ground():
            return draw(st.integers(1, max(1, than - by)))
        case Product(first, second):
            return (
                draw(smaller_costs(first, than[0], by)),
                draw(smaller_costs(second, than[1], by)),
            )
        case Function():
            if draw(st.booleans()):
                return bottom(of)
            source = than.body.source
            assert isinstance(source, Product)
            change = draw(smaller_costs(source.first, than.assigned, by))
            return cost(delta(Curry(than.body)), (than.assigned, change))
        case _:
            return ()


def drawn(data: st.DataObject, of: Any, **options: Any) -> Samples:
    """Samples that are drawn when they are asked for: two of each type."""
    return lambda type_: [data.draw(of(type_, depth=1, **options)) for _ in range(2)]


def argument_of(type_: Type) -> Term:
    """π₂ of 1 × A: the argument of a lambda with nothing free in it."""
    return pick(Product(UNIT, type_), 2)
