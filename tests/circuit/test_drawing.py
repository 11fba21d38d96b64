"""The layout of drawings: lines run to the right, nothing overlaps, few lines cross."""

from __future__ import annotations

from itertools import combinations, pairwise
from xml.etree import ElementTree

from hypothesis import given, settings
from hypothesis import strategies as st

from rekindle.circuit.drawing_layout import Line, assign_columns, lay_out
from rekindle.circuit.explain import explain
from tests.circuit.circuits import joined_and_grouped

GAP = 20.0


@st.composite
def graphs(draw: st.DrawFn) -> tuple[dict[str, float], list[Line]]:
    """Blocks of some heights, and lines from earlier blocks to later ones."""
    count = draw(st.integers(1, 12))
    heights = {f"b{i}": float(draw(st.integers(20, 120))) for i in range(count)}
    pairs = list(combinations(heights, 2))
    chosen = draw(st.lists(st.sampled_from(pairs), max_size=20)) if pairs else []
    return heights, [(a, b, draw(st.sampled_from(("x", "y")))) for a, b in chosen]


@given(graphs())
@settings(max_examples=150, deadline=None)
def test_blocks_and_waypoints_of_a_column_keep_their_distance(
    graph: tuple[dict[str, float], list[Line]],
) -> None:
    heights, lines = graph
    layout = lay_out(heights, lines, GAP)
    spans: dict[int, set[tuple[float, float]]] = {}
    for block, height in heights.items():
        middle = layout.middles[block]
        spans.setdefault(layout.columns[block], set()).add((middle - height / 2, height))
    for route in layout.routes.values():
        for column, middle in route:
            spans.setdefault(column, set()).add((middle, 0.0))
    for found in spans.values():
        ordered = sorted(found)
        for (top, height), (following, _) in pairwise(ordered):
            assert following - (top + height) >= GAP - 1e-6
        assert ordered[0][0] >= -1e-6
        assert ordered[-1][0] + ordered[-1][1] <= layout.height + 1e-6


@given(graphs())
@settings(max_examples=150, deadline=None)
def test_lines_run_to_the_right_through_every_column(
    graph: tuple[dict[str, float], list[Line]],
) -> None:
    heights, lines = graph
    layout = lay_out(heights, lines, GAP)
    for line in lines:
        start, end = layout.columns[line[0]], layout.columns[line[1]]
        assert start < end
        assert [column for column, _ in layout.routes[line]] == list(range(start + 1, end))


def test_a_block_stands_next_to_its_first_reader() -> None:
    edges = [("a", "b"), ("b", "c"), ("late", "c")]
    assert assign_columns(["a", "b", "c", "late"], edges) == {"a": 0, "b": 1, "c": 2, "late": 1}


def test_crossings_are_removed() -> None:
    heights = dict.fromkeys(("a", "b", "c", "d"), 20.0)
    layout = lay_out(heights, [("a", "d", ""), ("b", "c", "")], GAP)
    above = layout.middles["a"] < layout.middles["b"]
    assert above == (layout.middles["d"] < layout.middles["c"])


def test_a_drawing_needs_no_style() -> None:
    """Renderers without CSS draw all of it: what is seen is said by attributes alone."""
    circuit = joined_and_grouped()
    root = ElementTree.fromstring(explain(circuit, circuit.names["by_region"], {}).svg())
    drawn = list(root.iter())
    assert not [e for e in drawn if e.tag.endswith("}style")]
    assert not [e for e in drawn if {"style", "class"} & {*e.attrib}]
    assert float(root.attrib["width"]) > 0 and float(root.attrib["height"]) > 0
    shapes = [e for e in drawn if e.tag.rpartition("}")[2] in ("rect", "path", "text")]
    assert len(shapes) > 20
    assert all({"fill", "stroke"} & {*shape.attrib} for shape in shapes)
