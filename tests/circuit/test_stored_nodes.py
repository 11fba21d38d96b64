"""Nodes come back from their stored form as they were, and nothing else comes out of one."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rekindle.calculus.schema import Schema
from rekindle.calculus.terms import Bound
from rekindle.circuit.circuit import Circuit
from rekindle.circuit.nodes import Node, Variable
from rekindle.circuit.stored_nodes import StoredNode, is_stored, reached, restored, stored
from rekindle.shapes import ShapeError
from tests.circuit.circuits import (
    BITS_AND_MODES,
    BY_REGION,
    LARGE_ORDERS,
    OVER_A_VIEW,
    add_view,
    shop,
)


def circuit() -> Circuit:
    made = shop()
    views = {"by_region": BY_REGION, "large": LARGE_ORDERS, "over": OVER_A_VIEW}
    for name, text in {**views, "bits": BITS_AND_MODES}.items():
        add_view(made, name, text)
    return made


def opaque(value: object) -> str:
    raise AssertionError(f"{value!r} has a form of its own")


def unreadable(text: str) -> object:
    raise AssertionError(text)


CIRCUIT = circuit()
STORED = {key: stored(node, opaque) for key, node in CIRCUIT.nodes.items() if is_stored(node)}
TABLES: dict[str, Node] = {key: node for key, node in CIRCUIT.nodes.items() if not is_stored(node)}


def read(kept: dict[str, StoredNode]) -> dict[str, Node]:
    nodes = dict(TABLES)
    for key in reached(list(kept), kept):
        nodes[key] = restored(key, kept[key], nodes, unreadable)
    return nodes


def test_nodes_come_back() -> None:
    assert len(STORED) > 8
    assert read(STORED) == CIRCUIT.nodes
    assert {key: node.id for key, node in read(STORED).items()} == {k: k for k in CIRCUIT.nodes}


def test_an_identity_is_stored_and_not_computed() -> None:
    renamed = {
        f"old-{key}": StoredNode(
            kept.version,
            tuple(f"old-{each}" if each in STORED else each for each in kept.inputs),
            _renamed(kept.form),
        )
        for key, kept in STORED.items()
    }
    nodes = read(renamed)
    for key in renamed:
        assert nodes[key].id == key


def _renamed(form: str) -> str:
    for key in STORED:
        form = form.replace(f'"{key}"', f'"old-{key}"')
    return form


def test_json() -> None:
    for kept in STORED.values():
        assert StoredNode.from_json(json.loads(json.dumps(kept.to_json()))) == kept


def test_what_a_view_needs_is_known_without_its_forms() -> None:
    unread = {k: StoredNode(9, kept.inputs, "?") for k, kept in STORED.items()}
    for name in ("by_region", "large", "over"):
        root = CIRCUIT.names[name]
        needed = {n.id for n in CIRCUIT.reachable(root) if is_stored(n)}
        assert set(reached([root], unread)) == needed


@pytest.mark.parametrize(
    "form",
    ["", "null", "[]", '{"is":"table"}', '{"is":"column"}', '{"is":"__import__"}', "[" * 9999],
)
def test_a_form_of_no_node(form: str) -> None:
    key, kept = next(iter(STORED.items()))
    with pytest.raises(ShapeError):
        restored(key, StoredNode(1, kept.inputs, form), CIRCUIT.nodes, unreadable)


_VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 300), st.text(max_size=3), st.just([]),
    st.just({}), st.just({"part": 0}), st.just({"is": "column"}), st.floats(),
)  # fmt: skip


@st.composite
def mutated(draw: st.DrawFn) -> tuple[str, StoredNode]:
    """A stored node of which one value, at any depth, is another."""
    key = draw(st.sampled_from(sorted(STORED)))
    form = json.loads(STORED[key].form)
    places: list[tuple[Any, Any]] = []

    def walk(value: Any) -> None:
        inner = value.items() if isinstance(value, dict) else enumerate(value)
        for name, each in inner:
            places.append((value, name))
            if isinstance(each, dict | list):
                walk(each)

    walk(form)
    container, name = draw(st.sampled_from(places))
    container[name] = draw(_VALUES)
    kept = STORED[key]
    return key, StoredNode(kept.version, kept.inputs, json.dumps(form), kept.parts)


@settings(max_examples=400)
@given(mutated())
def test_a_mutated_form_is_refused_or_is_a_node(mutation: tuple[str, StoredNode]) -> None:
    key, kept = mutation
    try:
        node = restored(key, kept, CIRCUIT.nodes, unreadable)
    except ShapeError:
        return
    assert node.id == key and node.inputs == kept.inputs
    assert all(source in CIRCUIT.nodes for source in node.inputs)


def test_a_bound_is_written_where_it_is_no_early_one() -> None:
    early = Variable("digest", "v", Schema.of(x="int", stamp="int"), 9)
    for variable in (early, replace(early, name="w", bound=Bound.RESULT)):
        kept = stored(variable, opaque)
        assert ("bound" in kept.form) == (variable is not early)
        assert restored(variable.id, kept, TABLES, unreadable) == variable
    wrong = replace(kept, form=kept.form.replace('"bound":"result"', '"bound":"never"'))
    with pytest.raises(ShapeError, match="Bound"):
        restored(variable.id, wrong, TABLES, unreadable)
