"""Which parts of a circuit a step rebuilds: decided by sizes, each part by itself."""

from __future__ import annotations

from rekindle.circuit.circuit import Circuit
from rekindle.circuit.costs import ChangeSize, Part, Refresh, parts
from rekindle.circuit.nodes import HalfJoin
from rekindle.runtime.transactions.stepping import fan_outs
from rekindle.spark.step import NodeStep, Placement
from tests.circuit.circuits import LARGE_ORDERS, ORDER_LINES, add_view, shop

ROWS = 100_000
COUNTED = f"""\
aggregate by cust = $1:bigint compute n = count():bigint
  {ORDER_LINES}
"""


def _two_views() -> tuple[Circuit, str, dict[str, str]]:
    """A circuit, the node of its table of orders, and the nodes of a join and a count over it."""
    circuit = shop()
    views = {
        "joined": add_view(circuit, "joined", LARGE_ORDERS).id,
        "counted": add_view(circuit, "counted", COUNTED).id,
    }
    return circuit, circuit.names["orders"], views


def _parts(rows: int, growth: int) -> dict[str, Part]:
    """The part of each view after a change of the first table, all nodes having ROWS rows."""
    circuit, table, views = _two_views()
    stored = dict.fromkeys(circuit.nodes, ROWS)
    found = parts(circuit, {table: ChangeSize(rows, growth)}, stored, {})
    return {name: part for name, key in views.items() for part in found if key in part.nodes}


def test_a_small_change_is_followed() -> None:
    for part in _parts(rows=2_000, growth=0).values():
        assert part.refresh is Refresh.INCREMENTAL


def test_a_table_that_loses_most_rows_is_rebuilt_from_the_rest() -> None:
    for part in _parts(rows=ROWS * 9 // 10, growth=-ROWS * 9 // 10).values():
        assert part.refresh is Refresh.FULL


def test_a_first_load_is_followed() -> None:
    circuit, table, _ = _two_views()
    for part in parts(circuit, {table: ChangeSize(ROWS, ROWS)}, {}, {}):
        assert part.refresh is Refresh.INCREMENTAL


def test_views_that_share_no_state_are_decided_apart() -> None:
    found = _parts(rows=2_000, growth=0)
    assert found["joined"].nodes.isdisjoint(found["counted"].nodes)


def test_what_joins_gave_before_counts() -> None:
    """A join that multiplies rows makes following dearer: each changed row meets many."""
    circuit, table, views = _two_views()
    stored = dict.fromkeys(circuit.nodes, ROWS)
    fanouts = dict.fromkeys(circuit.nodes, 1_000.0)
    change = {table: ChangeSize(60_000, -30_000)}
    plain, many = (parts(circuit, change, stored, f) for f in ({}, fanouts))
    costs = [
        next(p for p in found if views["joined"] in p.nodes).incremental for found in (plain, many)
    ]
    assert costs[1] > 100 * costs[0]


def test_a_join_that_gave_nothing_says_nothing() -> None:
    """When a view is filled, one half of each join meets a side that is still empty."""
    circuit, _, _ = _two_views()
    first, second = (node.id for node in circuit.nodes.values() if isinstance(node, HalfJoin))
    table = circuit.names["orders"]
    steps = {
        first: NodeStep(100, 0, 0.0, Placement.INLINE),
        second: NodeStep(20, 1_000, 0.0, Placement.SPARK),
        table: NodeStep(5, 5, 0.0, Placement.INLINE),
        "join-dropped": NodeStep(5, 5, 0.0, Placement.INLINE),
    }
    assert fan_outs(circuit, steps) == {second: 50.0}


def test_nothing_is_reached_by_nothing() -> None:
    assert parts(Circuit(), {}, {}, {}) == []
