"""PageRank over a graph of which a hundredth of the edges changes: what moves, and what it costs.

Half of the changed edges go, and as many come between pages that are there. The graph is the one of
`bench recursion`: WordNet's nouns and verbs where it is at hand, one that is made, or `--graph`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

import rekindle
from rekindle.benchmarks.graphs import found_graph
from rekindle.benchmarks.harness import Harness, run_to_nowhere, stepped, timed
from rekindle.benchmarks.report import Sample, Series
from rekindle.runtime.database import Database
from rekindle.runtime.transactions.transaction import Transaction

CHANGED = 0.01
ROUNDS = 3
NAME = "PageRank-graph"


@dataclass(frozen=True, slots=True)
class Moved:
    """The series of the steps and of evaluation from scratch, and what was seen."""

    series: tuple[Series, Series]
    facts: Mapping[str, object]


def moved(harness: Harness, query: str, schema: str) -> Moved:
    """Steps that each change a hundredth of the edges, against evaluation from scratch."""
    graph = found_graph(harness.request.rows, harness.request.graph)
    draw = np.random.default_rng(7)
    db, edges = harness.database(NAME), graph.large
    db.create_table("G", schema)
    stepped(db, lambda tx: tx.insert("G", edges))
    db.create_view("q", rekindle.mrql(query), incremental="required")
    many = max(2, int(len(edges) * CHANGED))
    samples: list[Sample] = []
    ranks, counts = _ranks(db), []
    with harness.phase(NAME, ROUNDS) as advance:
        for _ in range(ROUNDS):
            edges, change = _changed(edges, many // 2, draw)
            samples.append(stepped(db, change))
            after = _ranks(db)
            counts.append(_different(ranks, after))
            ranks = after
            advance()
    db.check("q")
    again = {"scratch": partial(timed, lambda: run_to_nowhere(db.recompute("q")))}
    scratch = harness.interleave(again, 2, warm_up=1, description=f"{NAME}: from scratch")
    facts = {
        "graph": graph.name,
        "edges": len(graph.large),
        "edges_changed": many // 2 * 2,
        "ranks": len(ranks),
        "ranks_moved": counts,
    }
    title = f"{NAME}: {many // 2 * 2:,} of {len(graph.large):,} edges"
    steps = Series(title, samples)
    return Moved((steps, Series(f"{NAME}: from scratch", scratch["scratch"].samples)), facts)


def _changed(
    edges: pa.Table, many: int, draw: np.random.Generator
) -> tuple[pa.Table, partial[None]]:
    """The edges after a change of so many that go and come, and the change."""
    picked = np.zeros(len(edges), dtype=bool)
    picked[draw.choice(len(edges), many, replace=False)] = True
    gone, kept = edges.filter(pa.array(picked)), edges.filter(pa.array(~picked))
    pages = np.unique(np.concatenate([edges[name].to_numpy() for name in ("src", "dst")]))
    came = pa.table({name: draw.choice(pages, many) for name in ("src", "dst")})
    return pa.concat_tables([kept, came]), partial(_exchange, gone, came)


def _exchange(gone: pa.Table, came: pa.Table, tx: Transaction) -> None:
    tx.delete("G", gone)
    tx.insert("G", came)


def _ranks(db: Database) -> dict[int, float]:
    found = db.arrow("q")
    return dict(zip(found["id"].to_pylist(), found["rank"].to_pylist(), strict=True))


def _different(before: Mapping[int, float], after: Mapping[int, float]) -> int:
    """How many pages have another rank, or came or went."""
    return sum(before.get(page) != after.get(page) for page in before.keys() | after.keys())
