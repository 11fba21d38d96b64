"""Figure 4.2, lemmas 19 and 20, the axiom of delta₀ and theorem 12, on random terms and values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample

from rekindle.algebra.zset import ZSet
from rekindle.errors import DefinitionError
from rekindle.nested.functions import delta as deltas
from rekindle.nested.functions import evaluation
from rekindle.nested.functions.delta import (
    delta,
    delta_by_first,
    delta_by_second,
    higher_delta,
)
from rekindle.nested.functions.equations import (
    Equation,
    application_distributes,
    associativity,
    axiom_of_delta0,
    currying,
    currying_back,
    discarding,
    group_laws,
    identities,
    incrementality,
    pairing,
    projections,
)
from rekindle.nested.functions.evaluation import Closure, evaluate, same
from rekindle.nested.functions.primitives import PRIMITIVES, TIMES, bilinear, linear
from rekindle.nested.functions.terms import (
    Apply,
    Curry,
    Defined,
    Delta0,
    Identity,
    Pair,
    Plus,
    Projection,
    Term,
    pick,
    plus_of,
    side_by_side,
    zero_of,
)
from rekindle.nested.functions.types import BAG, INTEGER, UNIT, Function, Product, Type, twice
from tests.nested_collections.functions.strategies import (
    drawn,
    grounds,
    law,
    terms,
    types,
    values,
)


def holds(data: st.DataObject, *equations: Equation) -> bool:
    """Each equation holds for a drawn input."""
    return all(
        equation.holds(data.draw(values(equation.left.source)), drawn(data, values))
        for equation in equations
    )


@law
@given(st.data())
def test_figure_4_2_composition(data: st.DataObject) -> None:
    a, b, c, d = (data.draw(types) for _ in range(4))
    f, g, h = (data.draw(terms(*ends, 2)) for ends in ((a, b), (b, c), (c, d)))
    assert holds(data, *identities(f), associativity(h, g, f), discarding(f))


@law
@given(st.data())
def test_figure_4_2_pairs(data: st.DataObject) -> None:
    a, b, c, d = (data.draw(types) for _ in range(4))
    f = data.draw(terms(a, b, 2))
    g1, g2 = data.draw(terms(b, c, 2)), data.draw(terms(b, d, 2))
    assert holds(data, *projections(g1, g2), pairing(g1, g2, f))


@law
@given(st.data())
def test_figure_4_2_lambdas(data: st.DataObject) -> None:
    a, b, c = (data.draw(types) for _ in range(3))
    f = data.draw(terms(Product(c, a), b))
    g = data.draw(terms(c, Function(a, b)))
    assert holds(data, currying(f), currying_back(g), axiom_of_delta0(f))


@law
@given(st.data(), types)
def test_lemmas_19_and_20_every_type_is_a_group(data: st.DataObject, type_: Type) -> None:
    assert holds(data, *group_laws(type_))


@law
@given(st.data(), types, types)
def test_application_distributes(data: st.DataObject, argument: Type, result: Type) -> None:
    assert holds(data, application_distributes(Function(argument, result)))


@pytest.mark.parametrize("primitive", PRIMITIVES, ids=lambda primitive: primitive.name)
@given(data=st.data())
def test_theorem_12_for_each_primitive(primitive: Defined, data: st.DataObject) -> None:
    assert holds(data, incrementality(primitive))


@law
@given(st.data(), types, types)
def test_theorem_12_incrementality(data: st.DataObject, source: Type, target: Type) -> None:
    assert holds(data, incrementality(data.draw(terms(source, target))))


@law
@given(st.data(), types, types)
def test_theorem_12_for_functions_that_are_arguments(
    data: st.DataObject, argument: Type, result: Type
) -> None:
    function = Function(argument, result)
    applied = data.draw(terms(Product(function, argument), result))
    assert holds(data, incrementality(Apply(function)), incrementality(applied))
    assert holds(data, incrementality(Delta0(function)))


@law
@given(st.data(), types, types, types)
def test_partial_deltas_are_of_one_argument(
    data: st.DataObject, first: Type, second: Type, target: Type
) -> None:
    """h(c ⊕ dc, a) = h(c, a) ⊕ δ_{C,-}(h)((c, dc), a), and the same for the second."""
    h = data.draw(terms(Product(first, second), target, 2))
    c, dc = (data.draw(values(first)) for _ in range(2))
    a, da = (data.draw(values(second)) for _ in range(2))
    before = evaluate(h, (c, a))

    def after(change: Any) -> Any:
        return evaluate(plus_of(target), (before, change))

    new_c = evaluate(plus_of(first), (c, dc))
    new_a = evaluate(plus_of(second), (a, da))
    by_first = after(evaluate(delta_by_first(h), ((c, dc), a)))
    by_second = after(evaluate(delta_by_second(h), (c, (a, da))))
    assert same(target, evaluate(h, (new_c, a)), by_first, drawn(data, values))
    assert same(target, evaluate(h, (c, new_a)), by_second, drawn(data, values))


@settings(law, max_examples=40)
@given(st.data(), grounds, types, st.integers(1, 2))
def test_higher_deltas_are_maintained_by_the_next(
    data: st.DataObject, source: Type, target: Type, order: int
) -> None:
    """Δⁿh(a ⊕ da) = Δⁿh(a) ⊕ Δⁿ⁺¹h(a)(da)."""
    h = data.draw(terms(source, target, 2))
    nth, next_ = higher_delta(h, order), higher_delta(h, order + 1)
    a, da = data.draw(values(source)), data.draw(values(source))
    new = evaluate(nth, evaluate(plus_of(source), (a, da)))
    kept = evaluate(plus_of(nth.target), (evaluate(nth, a), evaluate(next_, a)(da)))
    assert same(nth.target, new, kept, drawn(data, values))


@law
@given(st.data(), types, types)
def test_a_change_of_nothing_changes_nothing(
    data: st.DataObject, source: Type, target: Type
) -> None:
    h = data.draw(terms(source, target))
    a = data.draw(values(source))
    change = evaluate(delta(h), (a, evaluate(zero_of(source), ())))
    assert same(target, change, evaluate(zero_of(target), ()), drawn(data, values))


ILL_TYPED: list[Callable[[], object]] = [
    lambda: Identity(BAG) @ Identity(INTEGER),
    lambda: Pair(Identity(BAG), Identity(INTEGER)),
    lambda: Curry(Identity(INTEGER)),
    lambda: Apply(INTEGER),
    lambda: Delta0(Product(INTEGER, INTEGER)),
    lambda: Projection(1, INTEGER),
    lambda: Projection(3, twice(INTEGER)),
    lambda: Plus(INTEGER) @ Identity(INTEGER),
    lambda: delta_by_first(Identity(INTEGER)),
    lambda: Equation(Identity(INTEGER), Identity(BAG)),
    lambda: delta(Defined("odd", INTEGER, BAG, ZSet.from_rows, lambda _: Plus(BAG), int)),
]


@pytest.mark.parametrize("build", ILL_TYPED)
def test_an_ill_typed_term_cannot_be_built(build: Callable[[], object]) -> None:
    with pytest.raises(DefinitionError) as raised:
        build()
    assert raised.value.detail


def test_delta0_finds_the_term_of_a_closure() -> None:
    scaled = evaluate(Curry(TIMES), 7)
    assert isinstance(scaled, Closure) and scaled.body == TIMES and scaled.assigned == 7
    assert evaluate(Delta0(Function(INTEGER, INTEGER)), scaled)((100, 2)) == 14


# Planted bugs: the laws above see each of them.


SCALING = Function(INTEGER, INTEGER)
CHANGEABLE: tuple[Term, ...] = (
    Apply(SCALING),
    Curry(TIMES),
    Apply(SCALING) @ side_by_side(Curry(TIMES), Identity(INTEGER)),
)
"""Terms whose deltas use every rule that is planted below."""


@st.composite
def _inputs(draw: st.DrawFn, of: Type) -> Any:
    match of:
        case Product(first, second):
            return draw(_inputs(first)), draw(_inputs(second))
        case Function():
            return Closure(draw(st.sampled_from([TIMES, Plus(INTEGER)])), draw(st.integers(-3, 3)))
        case _:
            return draw(values(of))


@st.composite
def _incrementality_fails(draw: st.DrawFn) -> bool:
    equation = incrementality(draw(st.sampled_from(CHANGEABLE)))
    return not equation.holds(draw(_inputs(equation.left.source)), lambda type_: [0, 1, 2])


def is_caught() -> bool:
    """Theorem 12 fails for some function, argument and changes of both."""
    try:
        find(
            _incrementality_fails(),
            lambda failed: failed,
            settings=settings(max_examples=300, phases=[Phase.generate], deadline=None),
        )
    except NoSuchExample:
        return False
    return True


def application_of_the_old_function(type_: Type) -> Term:
    """δ(app) without its second summand: what the change of the function does."""
    assert isinstance(type_, Function)
    pair = Product(type_, type_.argument)
    derived = Delta0(type_)
    functions = side_by_side(pick(pair, 1), pick(pair, 1))
    arguments = side_by_side(pick(pair, 2), pick(pair, 2))
    old = derived @ pick(functions.target, 1) @ functions
    return Apply(derived.target) @ Pair(old, arguments)


def application_to_the_old_argument(type_: Type) -> Term:
    """δ(app) with the change of the function applied to the argument as it was."""
    assert isinstance(type_, Function)
    both = twice(Product(type_, type_.argument))
    change = Apply(type_) @ Pair(pick(both, 1, 2), pick(both, 2, 1))
    return plus_of(type_.result) @ Pair(application_of_the_old_function(type_), change)


def delta0_of_nothing_assigned(function: Closure) -> Closure:
    """delta₀ that derives the term but loses what was assigned to it."""
    source = function.body.source
    assert isinstance(source, Product)
    nothing = evaluate(zero_of(source.first), (), function.meaning)
    return Closure(delta_by_second(function.body), nothing, function.meaning)


def delta0_by_the_wrong_argument(term: Term) -> Term:
    """A partial delta in which the other argument changes with it, from itself to its double."""
    assert isinstance(term.source, Product)
    given = Product(term.source.first, twice(term.source.second))
    return delta(term) @ Pair(
        Pair(pick(given, 1), pick(given, 1, 2)), Pair(pick(given, 1), pick(given, 2, 2))
    )


@pytest.mark.parametrize(
    ("module", "name", "planted"),
    [
        (deltas, "delta_of_application", application_of_the_old_function),
        (deltas, "delta_of_application", application_to_the_old_argument),
        (deltas, "delta_by_first", lambda term: delta(term) @ _first_only(term)),
        (evaluation, "delta0", delta0_of_nothing_assigned),
        (evaluation, "delta_by_second", delta0_by_the_wrong_argument),
    ],
    ids=[
        "app without its second summand",
        "app to the old argument",
        "curry that changes its argument",
        "delta₀ that ignores its closure",
        "delta₀ that changes its closure",
    ],
)
def test_a_planted_bug_is_caught(
    module: Any, name: str, planted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, name, planted)
    assert is_caught()


def _first_only(term: Term) -> Term:
    assert isinstance(term.source, Product)
    given = Product(twice(term.source.first), term.source.second)
    return Pair(Pair(pick(given, 1, 1), pick(given, 2)), Pair(pick(given, 2, 1), pick(given, 2)))


def test_nothing_planted_nothing_caught() -> None:
    assert not is_caught()


def test_a_primitive_with_a_wrong_delta_is_caught() -> None:
    square = Defined("square", INTEGER, INTEGER, lambda value: value * value, linear, int)
    assert not incrementality(square).holds((3, 1), lambda type_: [])
    plus = Defined("plus", twice(INTEGER), INTEGER, sum, bilinear, max)
    assert not incrementality(plus).holds(((3, 1), (1, 1)), lambda type_: [])


def test_the_strategy_reaches_what_is_hard() -> None:
    """Lambdas that are arguments of lambdas, and delta₀ of an application, are drawn."""

    def has(term: Term, kind: type) -> bool:
        inner = [
            getattr(term, name, None) for name in ("outer", "inner", "first", "second", "body")
        ]
        return isinstance(term, kind) or any(has(part, kind) for part in inner if part is not None)

    def hard(term: Term) -> bool:
        return has(term, Apply) and has(term, Curry) and has(term, Delta0)

    found = find(
        terms(Function(UNIT, INTEGER), INTEGER),
        hard,
        settings=settings(max_examples=3000, phases=[Phase.generate], deadline=None),
    )
    assert found.target == INTEGER
