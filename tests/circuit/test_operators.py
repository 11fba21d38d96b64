"""An operator is a unit: one that the project does not have is explained, checked and run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from rekindle.calculus.scalars import Column
from rekindle.calculus.schema import Schema
from rekindle.calculus.terms import Linearity
from rekindle.circuit.circuit import Circuit
from rekindle.circuit.costs import ChangeSize, parts
from rekindle.circuit.explain import explain
from rekindle.circuit.explain_nodes import Strategy, strategy_of
from rekindle.circuit.frontiers import Frontiers, Scalars
from rekindle.circuit.nodes import (
    OPERATORS,
    Arrangement,
    DistinctRows,
    Formed,
    HalfJoin,
    Indexing,
    Node,
    Passing,
    Table,
)
from rekindle.circuit.operators.bounds import WHOLE, Bounds, Frontier, Need, Seen
from rekindle.circuit.operators.running import Environment, IntegralRead, Moment, Work
from rekindle.circuit.operators.sizes import Cost, Sizes
from rekindle.circuit.operators.soundness import Soundness
from rekindle.circuit.operators.words import Link, Role, Words
from rekindle.circuit.stages import Branch, LinearForm
from rekindle.circuit.stored_nodes import is_stored, stored
from rekindle.shapes import ShapeError
from rekindle.spark.inline import InlineStep
from rekindle.spark.plans import Plans
from rekindle.spark.step import StepContext, TooLargeError
from rekindle.traces.arrays import IDENTITY, KEY, WEIGHT
from rekindle.traces.layout import TraceLayout
from rekindle.traces.reader import TraceReader
from rekindle.traces.store import Store
from rekindle.traces.trace import Trace
from tests.circuit.circuits import view_over_a_view

ROWS = Schema.of(x="bigint")
TABLE = Table("t", ROWS, (), "1")


@dataclass(frozen=True)
class EvenRows(Passing):
    """The rows of a table whose first column is even."""

    table: str
    schema: Schema

    kind = "even rows"
    prefix = "even"
    linearity = Linearity.LINEAR
    colour = "#123456"

    @property
    def identity(self) -> tuple[object, ...]:
        return (self.table,)

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.table,)

    def work(self, environment: Environment, apart: tuple[int, ...] | None = None) -> Work:
        schema = pa.schema([(WEIGHT, pa.int64()), *environment.payload(self.schema)])
        return Work(self.table, (IntegralRead(self.table, Moment.BEFORE),), even, schema)

    def incremental_cost(self, sizes: Sizes) -> Cost:
        rows = sizes.moved[self.table]
        return Cost(rows, rows // 2)

    def full_cost(self, sizes: Sizes, scale: float) -> int:
        return 7

    @property
    def links(self) -> tuple[Link, ...]:
        return (Link(self.table, Role.CHANGE),)

    def name_in(self, words: Words) -> str:
        return f"even {words.name(self.table)}"

    def label_in(self, words: Words) -> str:
        return self.name_in(words)

    def how_in(self, words: Words) -> str:
        return "linear: the even ones of the change"

    def why_in(self, words: Words) -> str:
        return "a row is even by itself"

    def check_sound(self, soundness: Soundness) -> None:
        soundness.check_columns([0], len(soundness.input(self.table).schema))


def even(change: Any, readers: Sequence[TraceReader]) -> Iterator[Any]:
    rows = change.select([WEIGHT, "c0"])
    yield rows.filter(pc.equal(pc.bit_wise_and(rows.column("c0"), 1), 0))


class NoSession:
    """As much of `Plans` as a node of plain columns asks for."""

    def layout(self, node: Indexing) -> TraceLayout:
        return node.laid_out(cast(Any, self))

    def payload(self, schema: Schema) -> pa.Schema:
        return pa.schema([(f"c{i}", pa.int64()) for i in range(len(schema))])

    def under_settings_of(self, node: Node) -> AbstractContextManager[None]:
        return nullcontext()


@pytest.fixture
def circuit() -> Circuit:
    circuit = Circuit()
    circuit.table(TABLE)
    node = EvenRows(TABLE.id, ROWS)
    circuit.nodes[node.id] = node
    return circuit


def changed(*values: int) -> pa.Table:
    keys = np.arange(len(values), dtype=np.int64)
    names = [KEY, *IDENTITY, WEIGHT, "c0"]
    ones = np.ones(len(values), dtype=np.int64)
    return pa.table([keys, keys, keys, ones, pa.array(values, pa.int64())], names=names)


def step(circuit: Circuit, path: Path, most_rows: int | None = None) -> InlineStep:
    plans = cast(Plans, NoSession())
    traces = {TABLE.id: Trace(plans.layout(TABLE))}
    context = StepContext(circuit, traces, Store(str(path)), 1)
    return InlineStep(plans, context, most_rows)


def test_a_new_operator_runs(circuit: Circuit, tmp_path: Path) -> None:
    (node,) = (n for n in circuit.nodes.values() if isinstance(n, EvenRows))
    found = step(circuit, tmp_path).outcome({TABLE.id: changed(1, 2, 3, 4)}, node.id)
    assert found is not None and found.to_pydict() == {WEIGHT: [1, 1], "c0": [2, 4]}


def test_a_new_operator_may_outgrow_the_driver(circuit: Circuit, tmp_path: Path) -> None:
    with pytest.raises(TooLargeError):
        step(circuit, tmp_path, 1).outcome({TABLE.id: changed(2, 4)}, list(circuit.nodes)[-1])


def test_a_new_operator_is_explained(circuit: Circuit) -> None:
    explanation = explain(circuit, list(circuit.nodes)[-1], {})
    first = json.loads(explanation.json())["nodes"][0]
    assert (first["kind"], first["label"], first["strategy"]) == ("even rows", "even t", "linear")
    assert "a row is even by itself" in str(explanation) or "the even ones" in str(explanation)


def test_a_new_operator_has_a_cost(circuit: Circuit) -> None:
    (part,) = parts(circuit, {TABLE.id: ChangeSize(10, 10)}, {TABLE.id: 100}, {})
    assert (part.incremental, part.full) == (10, 110 + 7)


def test_a_new_operator_is_checked(circuit: Circuit) -> None:
    node = EvenRows("elsewhere", ROWS)
    with pytest.raises(ShapeError, match="not there"):
        node.check_sound(Soundness(node.id, circuit.nodes))


@dataclass(frozen=True)
class EvenNewRows(EvenRows):
    """The same, of rows that are no older than the changed ones."""

    prefix = "even new"

    def frontier_in(self, bounds: Bounds) -> Frontier:
        return bounds.of(self.table)

    def needs_in(self, bounds: Bounds) -> Sequence[Need]:
        return [Need(self.table, tuple(bounds.of(self.table).items()))]


@pytest.mark.parametrize("operator", [None, EvenRows, EvenNewRows])
def test_what_a_new_operator_may_read_is_kept_until_it_says_otherwise(
    operator: type[EvenRows] | None,
) -> None:
    circuit = Circuit()
    circuit.table(TABLE)
    form = LinearForm((Branch(TABLE.id, ROWS),), ROWS)
    kept = Arrangement(form, (Column(0, "bigint", False),))
    nodes: list[Node] = [kept, DistinctRows(kept.id, ROWS)]
    if operator is not None:
        nodes.append(operator(kept.id, ROWS))
    circuit.nodes |= {node.id: node for node in nodes}
    frontiers = Frontiers(circuit, {TABLE.id: 0}, frozenset(), cast(Scalars, None))
    assert frontiers.of(kept.id) == {(0, WHOLE): Seen(TABLE.id)}
    removals = frontiers.removals()
    assert set(removals) == {kept.id}, "what is not there for lookups alone loses nothing"
    assert removals[kept.id].is_possible is (operator is not EvenRows)
    assert [reader.node for reader in removals[kept.id].readers] == [n.id for n in nodes[1:]]
    if operator is not None:
        assert frontiers.of(nodes[-1].id) == ({} if operator is EvenRows else frontiers.of(kept.id))


# ---- the list -----------------------------------------------------------------------------------


def test_operators_differ_in_kind_and_prefix() -> None:
    assert len({operator.kind for operator in OPERATORS}) == len(OPERATORS)
    assert len({operator.prefix for operator in OPERATORS}) == len(OPERATORS)


def test_tags_and_prefixes_are_those_that_databases_have() -> None:
    assert {operator.kind: operator.prefix for operator in OPERATORS} == {
        "table": "table",
        "constant": "constant",
        "arrangement": "arrange",
        "exchange": "route",
        "half join": "join",
        "distinct": "distinct",
        "group": "group",
        "group map": "regroup",
        "view": "view",
        "indexed view": "indexed",
        "variable": "variable",
        "recursion": "recur",
    }


def test_stored_forms_have_no_names_of_classes() -> None:
    circuit = view_over_a_view()
    names = {type(node).__name__ for node in circuit.nodes.values()}
    tags: set[str] = set()

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            tags.update([value["is"]] if "is" in value else [])
            for each in value.values():
                walk(each)
        elif isinstance(value, list):
            for each in value:
                walk(each)

    for node in circuit.nodes.values():
        if is_stored(node):
            walk(json.loads(stored(node, repr).form))
    assert {"arrangement", "half join", "group", "view", "form", "branch", "column"} <= tags
    assert not tags & {*names, "LinearForm", "Branch", "Column"}
    assert all(tag == tag.lower() for tag in tags)


def test_what_a_node_has_follows_from_its_classes() -> None:
    for node in view_over_a_view().nodes.values():
        assert node.id.startswith(f"{node.prefix}-")
        assert (node.driving and set(node.driving) <= set(node.inputs)) or isinstance(node, Table)
        assert not isinstance(node, Formed) or node.inputs == node.form.nodes
        if isinstance(node, HalfJoin):
            assert strategy_of(node) is Strategy.BILINEAR
            assert replace(node, moment=Moment.DURING).other_ends is None
