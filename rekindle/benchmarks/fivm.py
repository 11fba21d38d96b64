"""What does a model over a join cost to keep? One vector along a view tree against scalar sums.

All that a regression needs of its columns are the sums of the products of two of them. They are
kept as one model, whose vectors follow a view tree; and as a view for each sum, first order and
higher order, as a system without such rings would keep them. A batch brings rows to all relations
and takes those of the batch before away. The model over all columns, for which scalar views would
be hundreds, is measured alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import combinations_with_replacement

import pyarrow as pa
from rich import box
from rich.table import Table

from rekindle.benchmarks.fivm_data import SHAPES, Rows, Shape
from rekindle.benchmarks.harness import Harness, stepped, timed
from rekindle.benchmarks.report import Bound, Report, Sample, Series, Verdict, duration
from rekindle.circuit.nodes import Arrangement, Group, Stateful, View
from rekindle.circuit.nodes import Table as TableNode
from rekindle.incremental.policies.choice import Policy
from rekindle.runtime.transactions.transaction import Transaction

BATCH = 1000
SIZE = 1000
COLUMNS = 2
"""Of each relation so many columns have part in what all strategies keep."""
LEAST = 10.0
MODEL, EVERYTHING = "view tree", "view tree, all columns"
SCALAR = {"first order": Policy.FIRST_ORDER, "higher order": Policy.HIGHER_ORDER}


@dataclass(frozen=True, slots=True)
class Found:
    """What one strategy took: its views and their state, and its batches."""

    sums: int
    views: int
    size: int
    batches: Series


def run(harness: Harness) -> Report:
    """Every strategy on both databases, batches side by side."""
    found: dict[str, dict[str, Found]] = {}
    scratch: dict[str, Series] = {}
    for shape in SHAPES:
        found[shape.name], scratch[shape.name] = _measured(harness, shape)
    every = [(name, kind, f) for name, kinds in found.items() for kind, f in kinds.items()]
    return Report(
        name="fivm",
        claim=f"The sums of a regression over a join, batches of {BATCH:,} changed rows",
        series=[*(f.batches for _, _, f in every), *scratch.values()],
        verdicts=[v for shape in SHAPES for v in _verdicts(shape, found[shape.name])],
        machine=harness.machine,
        settings={"batch": BATCH, "size": harness.rows(SIZE), "columns": COLUMNS},
        facts={
            name: {
                kind: {
                    "sums": f.sums,
                    "views": f.views,
                    "state_bytes": f.size,
                    "batch_seconds": f.batches.median,
                }
                for kind, f in kinds.items()
            }
            | {"recomputation_seconds": scratch[name].median}
            for name, kinds in found.items()
        },
        table=_table(found, scratch),
    )


def _measured(harness: Harness, shape: Shape) -> tuple[dict[str, Found], Series]:
    kinds = (MODEL, EVERYTHING, *SCALAR)
    subjects: dict[str, _Subject] = {}
    with harness.phase(shape.name, len(kinds)) as advance:
        for kind in kinds:
            subjects[kind] = _Subject(harness, shape, kind)
            advance()
    actions = {f"{shape.name}: {kind}": partial(subjects[kind].batch) for kind in kinds}
    batches = harness.interleave(actions, harness.rounds(5), warm_up=2, description=shape.name)
    name = f"{shape.name}: recomputation"
    scratch = harness.interleave(
        {name: subjects[MODEL].recompute}, min(3, harness.rounds(3)), warm_up=1, description=name
    )
    found = {
        kind: Found(subject.sums, subject.views, subject.size, batches[f"{shape.name}: {kind}"])
        for kind, subject in subjects.items()
    }
    return found, scratch[name]


class _Subject:
    """One database under one strategy."""

    def __init__(self, harness: Harness, shape: Shape, kind: str) -> None:
        self._shape = shape
        self._rows = Rows(shape, harness.rows(SIZE))
        self._db = harness.database(f"{shape.name}-{kind.replace(', ', '-')}", retain=1)
        for name, relation in shape.relations.items():
            columns = ", ".join(
                f"{c} BIGINT NOT NULL" for c in (*relation.keys, *relation.features)
            )
            self._db.sql(f"CREATE TABLE {name} ({columns})")
        with self._db.transaction() as tx:
            for name in shape.relations:
                tx.insert(name, self._rows.first(name))
        every = [c for r in shape.relations.values() for c in r.features]
        single = [c for r in shape.relations.values() for c in r.features[:COLUMNS]]
        chosen = every if kind == EVERYTHING else single
        products = [*((c,) for c in chosen), *combinations_with_replacement(chosen, 2)]
        self.sums = 1 + len(products)
        if kind in SCALAR:
            for i, product in enumerate([(), *products]):
                self._scalar(f"s{i}", product, SCALAR[kind])
        else:
            features = [c for c in chosen if c != shape.label]
            query = f"SELECT * FROM {shape.joined}"
            self._db.create_model("m", query, label=shape.label, features=features)
        self._taken: dict[str, pa.Table] = {}

    def _scalar(self, name: str, product: tuple[str, ...], policy: Policy) -> None:
        measure = f"sum({' * '.join(product)})" if product else "count(*)"
        query = f"SELECT {measure} AS s FROM {self._shape.joined}"
        self._db.create_view(name, query, policy=policy.value)

    @property
    def views(self) -> int:
        """How many different views are kept; sums and their index for a join are one."""
        nodes = self._db._engine.circuit.nodes
        indexes = [
            key
            for key in self._kept
            if isinstance(node := nodes[key], Arrangement | View)
            and [type(nodes[branch.node]) for branch in node.form.branches] == [Group]
        ]
        return len(self._kept) - len(indexes)

    @property
    def size(self) -> int:
        """Its bytes."""
        traces = self._db._engine.state.traces
        return sum(s.size for key in self._kept for s in traces[key].segments)

    @property
    def _kept(self) -> list[str]:
        return [
            key
            for key, node in self._db._engine.circuit.nodes.items()
            if isinstance(node, Stateful) and not isinstance(node, TableNode)
        ]

    def batch(self) -> Sample:
        """Rows come to every relation, and those of the batch before leave."""
        each = BATCH // 2 // len(self._shape.relations)
        new = {name: self._rows.more(name, each) for name in self._shape.relations}
        old, self._taken = self._taken, new

        def change(tx: Transaction) -> None:
            for name, rows in new.items():
                tx.insert(name, rows)
            for name, rows in old.items():
                tx.delete(name, rows)

        return stepped(self._db, change)

    def recompute(self) -> Sample:
        return timed(lambda: self._db.recompute("m").collect())


def _verdicts(shape: Shape, found: Mapping[str, Found]) -> list[Verdict]:
    """A tree over n relations has n views of one each, n - 2 joins of some, and the result."""
    name, tree = shape.name, found[MODEL]
    most = 2 * len(shape.relations) - 1
    verdicts = [Verdict(f"{name}: views of the tree", tree.views, Bound.AT_MOST, most, "")]
    for kind in SCALAR:
        other = found[kind]
        verdicts += [
            Verdict(
                f"{name}: a batch {kind} against the tree",
                other.batches.median / tree.batches.median,
                Bound.AT_LEAST,
                LEAST,
            ),
            Verdict(
                f"{name}: state {kind} against the tree",
                other.size / tree.size,
                Bound.AT_LEAST,
                LEAST,
            ),
        ]
    return verdicts


def _table(found: Mapping[str, Mapping[str, Found]], scratch: Mapping[str, Series]) -> Table:
    table = Table(box=box.ROUNDED, border_style="dim", header_style="bold")
    table.add_column("strategy")
    for name in ("sums", "views", "state", "batch"):
        table.add_column(name, justify="right")
    for name, kinds in found.items():
        for kind, f in kinds.items():
            size = f"{f.size / 1e6:,.1f} MB"
            table.add_row(
                f"{name}: {kind}", f"{f.sums:,}", f"{f.views:,}", size, duration(f.batches.median)
            )
        table.add_row(f"{name}: recomputation", "", "", "", duration(scratch[name].median))
        table.add_section()
    return table
