"""Explain: golden text, complete JSON and well-formed drawings, for given and random views."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings

from rekindle.calculus.terms import Linearity, Term
from rekindle.calculus.text import parse
from rekindle.circuit.circuit import Circuit
from rekindle.circuit.explain import Explanation, NodeFacts, explain
from rekindle.circuit.nodes import Table
from rekindle.errors import DefinitionError
from rekindle.incremental.pipeline import derive, trace_steps
from tests.calculus.strategies import SOURCES, terms
from tests.circuit.circuits import (
    BY_REGION,
    ORDER_LINES,
    add_view,
    joined_and_grouped,
    section_4_5,
    shop,
    some_facts,
    view_over_a_view,
)

GOLDEN = Path(__file__).parent / "join_and_group.txt"

CASES: tuple[tuple[Callable[[], Circuit], str], ...] = (
    (joined_and_grouped, "by_region"),
    (section_4_5, "v"),
    (view_over_a_view, "by_nation"),
)


def _explained(build: Callable[[], Circuit], view: str) -> tuple[Circuit, Explanation]:
    circuit = build()
    return circuit, explain(circuit, circuit.names[view], some_facts(circuit))


def _json(explanation: Explanation) -> dict[str, Any]:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    found: dict[str, Any] = json.loads(explanation.json(), parse_constant=refuse)
    return found


def _ids(svg: str) -> set[str]:
    return {e.attrib["id"] for e in ElementTree.fromstring(svg).iter() if "id" in e.attrib}


def test_the_text_of_a_join_and_group_by() -> None:
    """Run with REKINDLE_UPDATE_GOLDEN=1 to write the file anew."""
    circuit = joined_and_grouped()
    shown = explain(
        circuit,
        circuit.names["by_region"],
        some_facts(circuit),
        derivation=trace_steps(parse(BY_REGION)),
    )
    if os.environ.get("REKINDLE_UPDATE_GOLDEN"):
        GOLDEN.write_text(f"{shown}\n", encoding="utf-8")
    assert f"{shown}\n" == GOLDEN.read_text(encoding="utf-8")


@pytest.mark.parametrize(("build", "view"), CASES)
def test_every_node_is_in_every_form(build: Callable[[], Circuit], view: str) -> None:
    circuit, explanation = _explained(build, view)
    wanted = {node.id for node in circuit.reachable(circuit.names[view])}
    assert {node["id"] for node in _json(explanation)["nodes"]} == wanted
    assert wanted <= _ids(explanation.svg())
    text = str(explanation)
    for node in explanation.nodes:
        assert text.count(f"[{node.number}] ") >= 1
        assert node.how in text and node.why in text
    assert "nan" not in explanation.svg().lower()


@pytest.mark.parametrize(("build", "view"), CASES)
def test_a_shared_node_is_shown_in_full_once(build: Callable[[], Circuit], view: str) -> None:
    _, explanation = _explained(build, view)
    lines = str(explanation).splitlines()
    for node in explanation.nodes:
        headed = [ln for ln in lines if f"[{node.number}] " in ln and f"{node.label}  " in ln]
        assert len(headed) == 1


@pytest.mark.parametrize(("build", "view"), CASES)
def test_strategies_are_the_three_classes(build: Callable[[], Circuit], view: str) -> None:
    _, explanation = _explained(build, view)
    for node in _json(explanation)["nodes"]:
        assert node["strategy"] in ("linear", "bilinear", "per key")
        assert node["why"]
        if node["linearity"] != Linearity.SOURCE.value:
            assert node["linearity"] == node["strategy"]


@pytest.mark.parametrize(("build", "view"), CASES)
def test_half_joins_come_in_pairs(build: Callable[[], Circuit], view: str) -> None:
    _, explanation = _explained(build, view)
    nodes = {node["id"]: node for node in _json(explanation)["nodes"]}
    halves = [node for node in nodes.values() if node["kind"] == "half join"]
    assert halves
    for half in halves:
        other = nodes[half["join"]["other_half"]]
        assert other["join"]["other_half"] == half["id"]
        assert other["join"]["number"] == half["join"]["number"]
        assert {half["join"]["half"], other["join"]["half"]} == {1, 2}
        assert f"join {half['join']['number']}, half {half['join']['half']} of 2" in half["label"]
        assert len(half["reads"]) == 1


def test_a_self_join_has_two_halves_of_one_arrangement() -> None:
    circuit = shop()
    view = add_view(
        circuit, "v", f"join on $1:bigint = $1:bigint\n  {ORDER_LINES}\n  {ORDER_LINES}"
    )
    nodes = _json(explain(circuit, view.id, {}))["nodes"]
    first, second = (node for node in nodes if node["kind"] == "half join")
    assert first["reads"] == second["reads"]
    assert first["join"]["other_half"] == second["id"]
    assert [i["role"] for i in first["inputs"]] == ["change", "integral after this step"]
    assert [i["role"] for i in second["inputs"]] == ["change", "integral before this step"]


def test_sharing_across_views_is_counted() -> None:
    circuit, explanation = _explained(view_over_a_view, "by_nation")
    nodes = {node["id"]: node for node in _json(explanation)["nodes"]}
    assert nodes[circuit.names["orders"]]["shared"] == 2
    assert nodes[circuit.names["orders"]]["views"] == ["by_region", "large", "by_nation"]
    assert nodes[circuit.names["nations"]]["views"] == ["by_nation"]
    assert "for views by_region, large and by_nation" in str(explanation)


def test_a_product_says_that_it_reads_all_of_the_other_side() -> None:
    circuit = shop()
    view = add_view(
        circuit, "v", f"join\n  {ORDER_LINES}\n  source nations (id: bigint, name: string)"
    )
    explanation = explain(circuit, view.id, {})
    halves = [node for node in explanation.nodes if node.half is not None]
    assert all("every stored row" in half.why for half in halves)
    assert "a product" in explanation.svg()


def test_the_derivation_is_whole_in_json_and_last_in_text() -> None:
    circuit = section_4_5()
    steps = [("lift", "first form"), ("simplify_per_key", "last form")]
    explanation = explain(circuit, circuit.names["v"], {}, derivation=steps)
    assert [tuple(step.values()) for step in _json(explanation)["derivation"]] == steps
    assert "last form" in str(explanation)
    assert "first form" not in str(explanation)


def test_what_is_not_known_is_left_out() -> None:
    circuit = joined_and_grouped()
    explanation = explain(circuit, circuit.names["by_region"], {})
    assert all(n["state"] is None and n["last_step"] is None for n in _json(explanation)["nodes"])
    assert "None" not in str(explanation) + explanation.svg()


def test_an_infinite_or_undefined_time_is_not_shown() -> None:
    circuit = joined_and_grouped()
    facts = {key: NodeFacts(seconds=float("nan"), epoch=1) for key in circuit.nodes}
    explanation = explain(circuit, circuit.names["by_region"], facts)
    assert all(node["last_step"]["seconds"] is None for node in _json(explanation)["nodes"])
    assert "nan" not in str(explanation)
    assert ">nan" not in explanation.svg()


def test_nodes_that_did_not_run_in_the_last_epoch_say_when_they_did() -> None:
    circuit = joined_and_grouped()
    facts = {key: NodeFacts(rows_in=1, rows_out=1, epoch=5) for key in circuit.nodes}
    facts[circuit.names["customers"]] = NodeFacts(rows_in=7, rows_out=7, epoch=2)
    text = str(explain(circuit, circuit.names["by_region"], facts))
    assert "7 → 7 rows, at epoch 2" in text
    assert "epoch 5, 6 of 7 nodes ran" in text


def test_names_are_escaped_and_cut() -> None:
    circuit = Circuit()
    name = '<a & "b">\x00' + "long" * 40
    circuit.table(Table(name, shop().nodes[shop().names["orders"]].schema, (0,), "1"))
    svg = explain(circuit, circuit.names[name], {}).svg()
    texts = ["".join(element.itertext()) for element in ElementTree.fromstring(svg).iter()]
    assert any(text.endswith("…") for text in texts)
    assert any(text.startswith('table <a & "b">\ufffdlong') for text in texts)


def test_an_unknown_root_is_an_error() -> None:
    with pytest.raises(DefinitionError, match="no node 'view-0'"):
        explain(shop(), "view-0", {})


@given(terms())
@settings(max_examples=60, deadline=None)
def test_any_view_can_be_explained(term: Term) -> None:
    circuit = Circuit()
    for source in SOURCES:
        circuit.table(Table(source.name, source.schema, (), "1"))
    view = circuit.view("v", derive(term), term.schema)
    explanation = explain(circuit, view.id, some_facts(circuit))
    wanted = {node.id for node in circuit.reachable(view.id)}
    assert {node["id"] for node in _json(explanation)["nodes"]} == wanted
    assert wanted <= _ids(explanation.svg())
    assert str(explanation).startswith("view v\n")
