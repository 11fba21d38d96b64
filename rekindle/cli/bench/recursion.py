"""Do recursive views follow changes? Steps against evaluation from scratch, program by program.

The graph is generated: `rows` edges in clusters of some dozens of nodes, a tree in each with a few
edges across and back. For programs that start at one node a tree of edges leads from cluster to
cluster, for the others each cluster is a component. A step takes edges out or puts them
back. From scratch means two things: Rekindle filling the same view anew, and Spark evaluating the
program naively, one query after another until nothing changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow as pa

from rekindle.cli.bench.harness import Harness, stepped, timed
from rekindle.cli.bench.report import Bound, Report, Sample, Series, Verdict, ratio_verdict
from rekindle.errors import unknown_name
from rekindle.runtime.database import Database

CLUSTER = 40
CHANGED = (1, 10, 100)
LEAST, MOST = 20.0, 1.5
PROGRAMS = {
    "reachability": "reach(x) :- root(x). reach(y) :- reach(x), edge(x, y).",
    "components": """
        label(x, x) :- edge(x, _). label(y, y) :- edge(_, y).
        label(y, min(c)) :- label(x, c), edge(x, y).
        label(x, min(c)) :- label(y, c), edge(x, y).
    """,
    "shortest paths": "far(x, 0) :- root(x). far(y, min(d)) :- far(x, e), edge(x, y), d = e + 1.",
    "closure": "path(x, y) :- edge(x, y). path(x, z) :- path(x, y), edge(y, z).",
    "same generation": """
        same(x, y) :- edge(p, x), edge(p, y), x < y.
        same(x, y) :- edge(p, x), same(p, q), edge(q, y).
    """,
}
FROM_ONE = ("reachability", "shortest paths")
"""The programs that start at one node."""
HELD = ("reachability", "components")
"""The programs whose steps of ten edges are held against the lower bound."""


def run(harness: Harness) -> Report:
    """Every program in a database of its own."""
    rows = harness.rows(20_000)
    series: list[Series] = []
    verdicts: list[Verdict] = []
    facts: dict[str, object] = {}
    for name, program in _chosen(harness.request.queries).items():
        edges = _graph(rows, from_one=name in FROM_ONE)
        subject = _Subject(harness, name, program, edges)
        found = subject.measure()
        series += found.values()
        scratch = min((found[key] for key in found if "scratch" in key), key=lambda s: s.median)
        for count in CHANGED:
            step = max(
                (found[f"{name}: {verb} {count}"] for verb in ("delete", "insert")),
                key=lambda s: s.median,
            )
            if count == 10 and name in HELD:
                question = f"{name}: from scratch against a step of 10 edges"
                verdicts.append(ratio_verdict(question, scratch, step, Bound.AT_LEAST, LEAST))
            question = f"{name}: a step of {count} edges against from scratch"
            verdicts.append(ratio_verdict(question, step, scratch, Bound.AT_MOST, MOST))
        facts[name] = {"edges": len(edges), "rows": subject.rows, "iterations": subject.iterations}
    return Report(
        name="recursion",
        claim=f"Recursive views against evaluation from scratch, {rows:,} edges",
        series=series,
        verdicts=verdicts,
        machine=harness.machine,
        settings={"rows": rows, "cluster": CLUSTER},
        facts=facts,
    )


def _chosen(names: str | None) -> dict[str, str]:
    """The programs that the user named, or all of them."""
    wanted = [name.strip() for name in names.split(",")] if names else list(PROGRAMS)
    for name in wanted:
        if name not in PROGRAMS:
            raise unknown_name("program", name, PROGRAMS)
    return {name: PROGRAMS[name] for name in wanted}


class _Subject:
    """A program over a graph, and steps that take edges out and put them back."""

    def __init__(self, harness: Harness, name: str, program: str, edges: pa.Table) -> None:
        self._harness = harness
        self._name, self._program, self._edges = name, program, edges
        self._db = harness.database(name.replace(" ", "-"))
        self._pick = np.random.default_rng(7)
        self.iterations: dict[str, int] = {}
        self._db.sql("CREATE TABLE edge (src BIGINT, dst BIGINT)")
        self._db.sql("CREATE TABLE root (x BIGINT)")
        with self._db.transaction() as tx:
            tx.insert("edge", edges)
            tx.insert("root", [(0,)])
        (self._view,) = self._db.datalog(program)[-1:]
        self.rows = self._db.table(self._view).count()

    def measure(self) -> dict[str, Series]:
        rounds = self._harness.rounds(7)
        steps = {
            f"{self._name}: {verb} {count}": action
            for count in CHANGED
            for verb, action in self._moves(count)
        }
        found = self._harness.interleave(steps, rounds, warm_up=2, description=self._name)
        scratch = {
            f"{self._name}: from scratch": self._fill,
            f"{self._name}: from scratch on Spark": lambda: timed(
                lambda: self._db.recompute(self._view).count()
            ),
        }
        few = min(rounds, 3)
        return found | self._harness.interleave(scratch, few, warm_up=1, description=self._name)

    def _moves(self, count: int) -> Iterator[tuple[str, partial[Sample]]]:
        taken: list[pa.Table] = []
        yield "delete", partial(self._step, "delete", count, taken)
        yield "insert", partial(self._step, "insert", count, taken)

    def _step(self, verb: str, count: int, taken: list[pa.Table]) -> Sample:
        if verb == "delete":
            chosen = self._pick.choice(len(self._edges), min(count, len(self._edges)), False)
            taken[:] = [self._edges.take(pa.array(chosen))]
        sample = stepped(self._db, lambda tx: getattr(tx, verb)("edge", taken[0]))
        last = self._db.last_step
        steps = [] if last is None else [step.visits for step in last.nodes.values()]
        self.iterations[f"{verb} {count}"] = max(steps, default=0)
        return sample

    def _fill(self) -> Sample:
        """Drop the views and make them again from the edges that are there."""
        _drop_all(self._db)
        return timed(partial(self._db.datalog, self._program))


def _drop_all(db: Database) -> None:
    for view in reversed(db.views):
        db.drop_view(view)


def _graph(edges: int, *, from_one: bool) -> pa.Table:
    """Clusters of trees, with edges across and back in each; a tree of clusters, if asked for."""
    pick = np.random.default_rng(3)
    clusters = max(1, edges * 3 // 4 // CLUSTER)
    nodes = np.arange(clusters * CLUSTER, dtype=np.int64)
    first = nodes - nodes % CLUSTER
    inner = nodes[nodes % CLUSTER > 0]
    pairs = [np.stack([first[inner] + (inner % CLUSTER - 1) // 2, inner], 1)]
    sources = pick.choice(nodes, max(1, edges - len(inner)))
    pairs.append(np.stack([sources, first[sources] + pick.integers(0, CLUSTER, len(sources))], 1))
    if from_one:
        below = np.arange(1, clusters)
        above = (below - 1) // 2 * CLUSTER + pick.integers(0, CLUSTER, len(below))
        pairs.append(np.stack([above, below * CLUSTER], 1))
    found = np.unique(np.concatenate(pairs), axis=0)
    return pa.table({"src": found[:, 0], "dst": found[:, 1]})
