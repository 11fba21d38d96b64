"""The four experiments of the MRQL paper: does an increment cost less than evaluation from scratch?

A group-by, a join with a group-by, k-means and PageRank, each a view in MRQL over rows that are
there, followed by nine increments of each of four sizes. Evaluation from scratch is Spark's, of the
view's query over all rows, in the same run, and the view has to be equal to it in the end. The
paper's approximate iteration is not used: every view is exact. How near it would have come is said
beside it (`mrql_approximate.py`), and how PageRank follows a real graph (`mrql_graph.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

import rekindle
from rekindle.benchmarks.chart import Line, line_chart
from rekindle.benchmarks.harness import Harness, run_to_nowhere, stepped, timed
from rekindle.benchmarks.mrql_approximate import followed
from rekindle.benchmarks.mrql_graph import NAME as GRAPH
from rekindle.benchmarks.mrql_graph import moved
from rekindle.benchmarks.report import Bound, Report, Series, Verdict, ratio_verdict
from rekindle.errors import unknown_name
from rekindle.runtime.transactions.transaction import Transaction

INCREMENTS = 9
SHARES = (0.0001, 0.001, 0.005, 0.01)
"""The sizes of increments, as shares of the rows that are there at the start."""
FASTER, FLAT = 10, 1.5
NEAR = 0.02
"""How far a centroid of the approximate algorithm may be from an exact one, of a side of 1."""
MOST_POINTS = 2000
"""What it is tried on: an interpreter evaluates it."""
APPROXIMATE = "k-means-approximate"
Rows = Mapping[str, pa.Table]

GROUP = "select (k, avg(s.v)) from s in S group by k: s.k"
JOIN = "select (k, avg(y.d)) from x in S1, y in S2 where x.b = y.c group by k: x.a"
K_MEANS = """
type point = < X: double, Y: double >;
function distance ( x: point, y: point ): double { sqrt(pow(x.X-y.X,2) + pow(x.Y-y.Y,2)) };
repeat centroids = { <X: 0.2, Y: 0.2>, <X: 0.8, Y: 0.2>, <X: 0.2, Y: 0.8>, <X: 0.8, Y: 0.8> }
  step select ( < X: avg(s.X), Y: avg(s.Y) >, true ) from s in P
        group by k: (select c from c in centroids order by distance(c, s))[0]
  limit 3
"""
PAGERANK = """
graph = select (src, dst) from e in G, src = e.src, dst = e.dst group by src;
repeat nodes = select < id: key, rank: 1.0, adjacent: al > from (key, al) in graph
  step select ( < id: m.id, rank: n.rank, adjacent: m.adjacent >, true )
         from n in (select < id: key, rank: 0.15 + 0.85 * sum(rank) >
                      from c in (select < id: a, rank: n.rank / count(n.adjacent) >
                                   from n in nodes, a in n.adjacent), rank = c.rank
                     group by key: c.id), m in nodes
        where n.id = m.id
  limit 3
"""


@dataclass(frozen=True, slots=True)
class Experiment:
    """A query, its tables, and rows of them: as many as asked for."""

    query: str
    schemas: Mapping[str, str]
    rows: Callable[[np.random.Generator, int], Rows]
    share: float = 1.0
    """The rows at the start, as a share of those of the group-by."""
    is_bounded: bool = True
    """Has an increment to be so much faster than evaluation from scratch?"""


def _pairs(draw: np.random.Generator, rows: int) -> Rows:
    keys = draw.integers(0, max(10, rows // 10), rows)
    return {"S": pa.table({"k": keys, "v": draw.integers(0, 1000, rows)})}


def _joined(draw: np.random.Generator, rows: int) -> Rows:
    keys = max(10, rows // 10)
    ones = pa.table({"a": draw.integers(0, 1000, rows), "b": draw.integers(0, keys, rows)})
    return {"S1": ones, "S2": pa.table({"c": draw.integers(0, keys, rows), "d": draw.random(rows)})}


def _points(draw: np.random.Generator, rows: int) -> Rows:
    return {"P": pa.table({"X": draw.random(rows), "Y": draw.random(rows)})}


def _r_mat(draw: np.random.Generator, rows: int) -> Rows:
    """Edges of an R-MAT graph with the probabilities 0.30, 0.25, 0.25 and 0.20."""
    levels = max(3, int(np.log2(max(8, rows // 10))))
    quarter = draw.choice(4, (rows, levels), p=(0.30, 0.25, 0.25, 0.20))
    place = 1 << np.arange(levels)
    edges = {"src": (quarter // 2) @ place, "dst": (quarter % 2) @ place}
    return {"G": pa.table(edges)}


EXPERIMENTS = {
    "groupBy": Experiment(GROUP, {"S": "k BIGINT, v BIGINT"}, _pairs),
    "join-groupBy": Experiment(
        JOIN, {"S1": "a BIGINT, b BIGINT", "S2": "c BIGINT, d DOUBLE"}, _joined, 0.1
    ),
    "k-means": Experiment(K_MEANS, {"P": "X DOUBLE, Y DOUBLE"}, _points, 0.01, is_bounded=False),
    "PageRank": Experiment(
        PAGERANK, {"G": "src BIGINT, dst BIGINT"}, _r_mat, 0.01, is_bounded=False
    ),
}


def run(harness: Harness) -> Report:
    """Increments against evaluation from scratch, and the last increments against the first."""
    rows = harness.rows(1_000_000)
    series: list[Series] = []
    verdicts: list[Verdict] = []
    pictures: dict[str, str] = {}
    facts: dict[str, object] = {}
    for name in _chosen(harness.request.only):
        if name == GRAPH:
            page_rank = EXPERIMENTS["PageRank"]
            graph = moved(harness, page_rank.query, page_rank.schemas["G"])
            series += graph.series
            facts[name] = graph.facts
            continue
        if name == APPROXIMATE:
            lines, verdict, facts[name] = _approximate(min(rows, MOST_POINTS))
            series += lines
            verdicts.append(verdict)
            continue
        experiment = EXPERIMENTS[name]
        start = max(1000, int(rows * experiment.share))
        found, scratch = _measured(harness, name, experiment, start)
        series += [*found.values(), scratch]
        smallest = next(iter(found.values()))
        if experiment.is_bounded:
            words = f"{name}: evaluation from scratch against the smallest increment"
            verdicts.append(ratio_verdict(words, scratch, smallest, Bound.AT_LEAST, FASTER))
        first, last = Series("first", smallest.samples[:3]), Series("last", smallest.samples[-3:])
        words = f"{name}: the last three increments against the first three"
        verdicts.append(ratio_verdict(words, last, first, Bound.AT_MOST, FLAT))
        pictures[name] = _picture(name, found, scratch)
        facts[name] = {"rows_at_the_start": start}
    return Report(
        name="mrql",
        claim="Views in MRQL: increments against evaluation from scratch",
        series=series,
        verdicts=verdicts,
        machine=harness.machine,
        settings={"rows": rows, "increments": INCREMENTS, "shares": list(SHARES)},
        facts=facts,
        pictures=pictures,
    )


def _chosen(names: str | None) -> list[str]:
    known = [*EXPERIMENTS, APPROXIMATE, GRAPH]
    wanted = [name.strip() for name in names.split(",")] if names else known
    for name in wanted:
        if name not in known:
            raise unknown_name("experiment", name, known)
    return wanted


def _approximate(rows: int) -> tuple[list[Series], Verdict, dict[str, object]]:
    """K-means by the approximate algorithm: its increments, and its distance from the exact one."""
    draw = np.random.default_rng(7)
    first, size = _points(draw, rows)["P"], max(1, rows // 100)
    increments = [_points(draw, size)["P"] for _ in range(INCREMENTS)]
    found = followed(K_MEANS, first, increments)
    series = [
        Series(f"{APPROXIMATE}: {size:,} rows", found.approximate),
        Series(f"{APPROXIMATE}: from scratch", found.scratch),
    ]
    words = f"{APPROXIMATE}: how far its centroids are from the exact ones, at the most"
    verdict = Verdict(words, max(found.apart), Bound.AT_MOST, NEAR, unit="")
    return series, verdict, {"rows_at_the_start": rows, "apart": list(found.apart)}


def _measured(
    harness: Harness, name: str, experiment: Experiment, rows: int
) -> tuple[dict[str, Series], Series]:
    draw = np.random.default_rng(7)
    db = harness.database(name)
    for table, schema in experiment.schemas.items():
        db.create_table(table, schema)
    stepped(db, partial(_inserted, experiment.rows(draw, rows)))
    db.create_view("q", rekindle.mrql(experiment.query), incremental="required")
    found: dict[str, Series] = {}
    for share in SHARES:
        size = max(1, int(rows * share))
        title = f"{name}: {size:,} rows"
        with harness.phase(title, INCREMENTS) as advance:
            samples = []
            for _ in range(INCREMENTS):
                more = experiment.rows(draw, size)
                samples.append(stepped(db, partial(_inserted, more)))
                advance()
        found[title] = Series(title, samples)
    db.check("q")
    again = {f"{name}: from scratch": partial(timed, lambda: run_to_nowhere(db.recompute("q")))}
    scratch = harness.interleave(again, 3, warm_up=1, description=f"{name}: from scratch")
    return found, scratch[f"{name}: from scratch"]


def _inserted(rows: Rows, tx: Transaction) -> None:
    for table, more in rows.items():
        tx.insert(table, more)


def _picture(name: str, found: Mapping[str, Series], scratch: Series) -> str:
    lines = [
        Line(
            title.partition(": ")[2],
            [(i, [each.seconds * 1000]) for i, each in enumerate(line.samples, 1)],
        )
        for title, line in found.items()
    ]
    return line_chart(
        f"{name}: each increment, and evaluation from scratch",
        "increment",
        "milliseconds",
        lines,
        limit=(scratch.median * 1000, "from scratch"),
        logarithmic=False,
    )
