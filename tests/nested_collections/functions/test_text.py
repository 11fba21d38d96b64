"""Terms and their deltas as the chapter writes them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rekindle.nested.functions.delta import delta, delta_by_first, delta_by_second
from rekindle.nested.functions.primitives import COUNT, FOR_EACH, TIMES
from rekindle.nested.functions.terms import (
    Apply,
    Curry,
    Delta0,
    Identity,
    Projection,
    minus_of,
    plus_of,
    rassoc,
    zero_of,
)
from rekindle.nested.functions.text import explained, text
from rekindle.nested.functions.types import BAG, INTEGER, Function, Product, Type, twice
from tests.nested_collections.functions.strategies import law, terms, types

HIGHER = Function(Function(INTEGER, BAG), Product(BAG, INTEGER))


def test_figure_4_3_reads_as_printed() -> None:
    assert text(delta(Identity(BAG))) == "π₂"
    assert text(delta(Projection(1, twice(BAG)))) == "π₁₂"
    assert text(delta(Delta0(HIGHER))) == "delta₀ ∘ π₂"
    assert text(delta(COUNT @ FOR_EACH)).startswith("count ∘ π₂ ∘ ⟨for ∘ π₁, ")
    assert text(delta(Apply(HIGHER))) == ("⊕⟨app ∘ ((delta₀ ∘ π₁) × id), app ∘ (π₂ × ⊕)⟩ ∘ repair")
    assert text(delta(Curry(COUNT @ FOR_EACH))).endswith("∘ ⟨⟨π₁₁, π₂⟩, ⟨π₂₁, 0!⟩⟩)")
    assert text(delta_by_first(TIMES)).endswith("∘ ⟨⟨π₁₁, π₂⟩, ⟨π₂₁, 0!⟩⟩")
    assert text(delta_by_second(TIMES)).endswith("∘ ⟨⟨π₁, π₁₂⟩, ⟨0!, π₂₂⟩⟩")


def test_groups_and_operators_keep_their_names() -> None:
    assert [text(make(HIGHER)) for make in (zero_of, plus_of, minus_of)] == ["0", "⊕", "⊖"]
    assert text(rassoc(BAG, INTEGER, BAG)) == "⟨π₁₁, ⟨π₂₁, π₂⟩⟩"


@law
@given(st.data(), types, types)
def test_every_term_can_be_explained(data: st.DataObject, source: Type, target: Type) -> None:
    lines = explained(data.draw(terms(source, target))).splitlines()
    assert lines[0] == f"h: {source} → {target}" and len(lines) == 4
    assert all(line.count("(") == line.count(")") for line in lines)
