"""Equal parts of views are one node, and live as long as any view needs them."""

from __future__ import annotations

from rekindle.circuit.circuit import Circuit
from rekindle.circuit.nodes import Arrangement, DistinctRows, HalfJoin, Table, View
from tests.circuit.circuits import (
    BY_REGION,
    CUSTOMER_LINES,
    LARGE_ORDERS,
    ORDER_LINES,
    OVER_A_VIEW,
    add_view,
    joined_and_grouped,
    shop,
    view_over_a_view,
)


def _ids(circuit: Circuit, kind: type) -> set[str]:
    return {key for key, node in circuit.nodes.items() if isinstance(node, kind)}


def test_a_view_that_joins_the_same_inputs_adds_only_itself() -> None:
    circuit = joined_and_grouped()
    before = set(circuit.nodes)
    view = add_view(circuit, "large", LARGE_ORDERS)
    assert set(circuit.nodes) - before == {view.id}


def test_equal_subterms_of_one_view_are_one_node() -> None:
    circuit = shop()
    filtered = f"filter greater($2:double, 0:double):boolean\n    {ORDER_LINES}"
    add_view(circuit, "pairs", f"join on $1:bigint = $1:bigint\n  {filtered}\n  {filtered}")
    assert len(_ids(circuit, Arrangement)) == 1
    halves = [node for node in circuit.nodes.values() if isinstance(node, HalfJoin)]
    assert len(halves) == 2
    assert {half.change for half in halves} == {half.against for half in halves}


def test_views_of_equal_definitions_are_one_node() -> None:
    circuit = joined_and_grouped()
    before = set(circuit.nodes)
    add_view(circuit, "again", BY_REGION)
    assert set(circuit.nodes) == before
    assert circuit.names["again"] == circuit.names["by_region"]
    assert circuit.drop("by_region") == ()
    assert circuit.names["again"] in circuit.nodes


def test_a_table_keyed_by_the_join_key_serves_as_the_arrangement() -> None:
    circuit = joined_and_grouped()
    (arrangement,) = (n for n in circuit.nodes.values() if isinstance(n, Arrangement))
    assert arrangement.inputs == (circuit.names["orders"],)
    halves = [node for node in circuit.nodes.values() if isinstance(node, HalfJoin)]
    assert {half.against for half in halves} == {arrangement.id, circuit.names["customers"]}


def test_a_table_keyed_otherwise_does_not() -> None:
    circuit = shop()
    add_view(circuit, "v", f"join on $1:bigint = $2:bigint\n  {ORDER_LINES}\n  {CUSTOMER_LINES}")
    assert len(_ids(circuit, Arrangement)) == 2


def test_a_filtered_table_does_not() -> None:
    circuit = shop()
    add_view(
        circuit,
        "v",
        f"join on $1:bigint = $0:bigint\n  {ORDER_LINES}\n"
        "  filter greater($0:bigint, 3:bigint):boolean\n"
        f"    {CUSTOMER_LINES}",
    )
    assert len(_ids(circuit, Arrangement)) == 2


def test_distinct_reads_a_table_without_a_key_directly() -> None:
    circuit = Circuit()
    keyless = Table("t", shop().nodes[shop().names["nations"]].schema, (), "1")
    circuit.table(keyless)
    add_view(circuit, "v", "distinct\n  source t (id: bigint, name: string)")
    (distinct,) = (n for n in circuit.nodes.values() if isinstance(n, DistinctRows))
    assert distinct.arrangement == keyless.id


def test_dropping_a_view_frees_only_what_no_other_needs() -> None:
    circuit = view_over_a_view()
    needed = {n.id for n in circuit.reachable(circuit.names["large"])}
    gone = {node.id for node in circuit.drop("by_nation")}
    assert gone
    assert not gone & needed
    assert {n.id for n in circuit.reachable(circuit.names["large"])} == needed
    assert {circuit.names["by_region"], circuit.names["orders"]} <= set(circuit.nodes)


def test_dropping_in_any_order_leaves_the_tables() -> None:
    circuit = view_over_a_view()
    for name in ("by_region", "by_nation", "large"):
        circuit.drop(name)
    assert _ids(circuit, Table) == set(circuit.nodes) == set(circuit.names.values())


def test_a_view_made_again_has_the_same_nodes() -> None:
    circuit = view_over_a_view()
    before = set(circuit.nodes)
    circuit.drop("by_nation")
    add_view(circuit, "by_nation", OVER_A_VIEW)
    assert set(circuit.nodes) == before
    assert len(_ids(circuit, View)) == 3
