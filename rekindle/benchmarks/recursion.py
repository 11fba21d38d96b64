"""Do recursive views follow changes? Steps against evaluation from scratch, program by program.

A step takes edges out of the graph or puts them back. From scratch means two things: Rekindle
filling the same view anew, and Spark evaluating the program naively, one query after another until
nothing changes. The faster of the two is what a step is held against.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from rekindle.benchmarks.graphs import Graph, found_graph, objects
from rekindle.benchmarks.harness import Harness, stepped, timed
from rekindle.benchmarks.report import Bound, Report, Sample, Series, Verdict, ratio_verdict
from rekindle.errors import unknown_name
from rekindle.runtime.database import Database

CHANGED = (1, 10, 100)
LEAST, MOST = 20.0, 1.5


@dataclass(frozen=True, slots=True)
class Program:
    """Rules over a graph; a program over the `small` one derives many rows from each edge."""

    rules: str
    small: bool = False
    is_held: bool = False
    """Whether its steps of ten edges are held against the lower bound."""


PROGRAMS = {
    "reachability": Program("reach(x) :- root(x). reach(y) :- reach(x), edge(x, y).", is_held=True),
    "components": Program(
        """
        label(x, x) :- edge(x, _). label(y, y) :- edge(_, y).
        label(y, min(c)) :- label(x, c), edge(x, y).
        label(x, min(c)) :- label(y, c), edge(x, y).
        """,
        is_held=True,
    ),
    "shortest paths": Program(
        "far(x, 0) :- root(x). far(y, min(d)) :- far(x, e), edge(x, y), d = e + 1."
    ),
    "closure": Program(
        "path(x, y) :- edge(x, y). path(x, z) :- path(x, y), edge(y, z).", small=True
    ),
    "same generation": Program(
        """
        same(x, y) :- edge(p, x), edge(p, y), x < y.
        same(x, y) :- edge(p, x), same(p, q), edge(q, y).
        """,
        small=True,
    ),
    "points-to": Program(
        """
        points(x, o) :- made(x, o).
        points(y, o) :- edge(x, y), points(x, o).
        points(y, o) :- load(x, y), points(x, p), holds(p, o).
        holds(p, o) :- store(x, y), points(y, p), points(x, o).
        """,
        small=True,
    ),
}


def run(harness: Harness) -> Report:
    """Every program in a database of its own."""
    graph = found_graph(harness.request.rows, harness.request.graph)
    series: list[Series] = []
    verdicts: list[Verdict] = []
    facts: dict[str, object] = {}
    for name, program in _chosen(harness.request.queries).items():
        subject = _Subject(harness, name, program, graph)
        found = subject.measure()
        series += found.values()
        scratch = min((found[key] for key in found if "scratch" in key), key=lambda s: s.median)
        for count in CHANGED:
            step = max(
                (found[f"{name}: {verb} {count}"] for verb in ("delete", "insert")),
                key=lambda s: s.median,
            )
            if count == 10 and program.is_held:
                question = f"{name}: from scratch against a step of 10 edges"
                verdicts.append(ratio_verdict(question, scratch, step, Bound.AT_LEAST, LEAST))
            question = f"{name}: a step of {count} edges against from scratch"
            verdicts.append(ratio_verdict(question, step, scratch, Bound.AT_MOST, MOST))
        facts[name] = {
            "edges": len(subject.edges),
            "rows": subject.rows,
            "iterations": subject.iterations,
        }
    return Report(
        name="recursion",
        claim=f"Recursive views against evaluation from scratch, {graph.name}: "
        f"{len(graph.large):,} and {len(graph.small):,} edges",
        series=series,
        verdicts=verdicts,
        machine=harness.machine,
        settings={"graph": graph.name, "edges": [len(graph.large), len(graph.small)]},
        facts=facts,
    )


def _chosen(names: str | None) -> dict[str, Program]:
    """The programs that the user named, or all of them."""
    wanted = [name.strip() for name in names.split(",")] if names else list(PROGRAMS)
    for name in wanted:
        if name not in PROGRAMS:
            raise unknown_name("program", name, PROGRAMS)
    return {name: PROGRAMS[name] for name in wanted}


class _Subject:
    """A program over a graph, and steps that take edges out and put them back."""

    def __init__(self, harness: Harness, name: str, program: Program, graph: Graph) -> None:
        self._harness = harness
        self._name, self._program = name, program
        self.edges = graph.small if program.small else graph.large
        self._db = harness.database(name.replace(" ", "-"))
        self._pick = np.random.default_rng(7)
        self.iterations: dict[str, int] = {}
        tables = {
            "edge": self.edges,
            "root": pa.table({"x": [graph.root]}),
            "made": objects(graph.flows["assign"]),
            "load": graph.flows["load"],
            "store": graph.flows["store"],
        }
        _fill(self._db, tables)
        (self._view,) = self._db.datalog(program.rules)[:1]
        self.rows = self._db.table(self._view).count()

    def measure(self) -> dict[str, Series]:
        rounds = self._harness.rounds(7)
        steps = {
            f"{self._name}: {verb} {count}": action
            for count in CHANGED
            for verb, action in self._moves(count)
        }
        found = self._harness.interleave(steps, rounds, warm_up=2, description=self._name)
        few = min(rounds, 3)
        again = {f"{self._name}: from scratch": self._fill}
        found |= self._harness.interleave(again, few, warm_up=1, description=self._name)
        # Once: a query for each iteration takes so long that noise does not matter.
        by_spark = {f"{self._name}: from scratch on Spark": self._evaluate}
        return found | self._harness.interleave(by_spark, 1, warm_up=0, description=self._name)

    def _evaluate(self) -> Sample:
        return timed(lambda: self._db.recompute(self._view).count())

    def _moves(self, count: int) -> Iterator[tuple[str, partial[Sample]]]:
        taken: list[pa.Table] = []
        yield "delete", partial(self._step, "delete", count, taken)
        yield "insert", partial(self._step, "insert", count, taken)

    def _step(self, verb: str, count: int, taken: list[pa.Table]) -> Sample:
        if verb == "delete":
            chosen = self._pick.choice(len(self.edges), min(count, len(self.edges)), False)
            taken[:] = [self.edges.take(pa.array(chosen))]
        sample = stepped(self._db, lambda tx: getattr(tx, verb)("edge", taken[0]))
        last = self._db.last_step
        steps = [] if last is None else [step.visits for step in last.nodes.values()]
        self.iterations[f"{verb} {count}"] = max(steps, default=0)
        return sample

    def _fill(self) -> Sample:
        """Drop the views and make them again from the edges that are there."""
        _drop_all(self._db)
        return timed(partial(self._db.datalog, self._program.rules))


def _fill(db: Database, tables: Mapping[str, pa.Table]) -> None:
    for name, rows in tables.items():
        columns = ", ".join(f"{column} BIGINT" for column in rows.column_names)
        db.sql(f"CREATE TABLE {name} ({columns})")
    with db.transaction() as tx:
        for name, rows in tables.items():
            tx.insert(name, rows)


def _drop_all(db: Database) -> None:
    for view in reversed(db.views):
        db.drop_view(view)
