"""Graphs for the recursive benchmarks: a real one where it is at hand, or one that is made.

The real graph is WordNet 3.1: its nouns and verbs with the pointers between them, as a Parquet file
of (src, symbol, dst). The made one has clusters of some dozens of nodes, a tree in each with a few
edges across and back, and a tree of edges from cluster to cluster.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rekindle.errors import PrerequisiteError

CLUSTER = 40
_FILE = Path("graph_wordnet31") / "pointer.parquet"
_PARENT_TO_CHILD = "~"
_OTHERS = {"load": "$", "store": "^"}
_KEPT_OBJECTS = 50
"""One node in so many is an object of its own in the points-to analysis."""


@dataclass(frozen=True, slots=True)
class Graph:
    """A large and a small graph, the large one's root, and flows of values in the small one."""

    name: str
    large: pa.Table
    small: pa.Table
    root: int
    flows: Mapping[str, pa.Table]


def found_graph(rows: int | None, given: Path | None) -> Graph:
    """The graph of the given file, else WordNet if it is here, else one that is made."""
    if given is not None and not given.is_file():
        raise PrerequisiteError(f"there is no file '{given}'", hint="--graph names a Parquet file")
    place = given or _material()
    if place is None or (given is None and rows is not None):
        return made_graph(20_000 if rows is None else rows)
    return _read(place)


def _material() -> Path | None:
    given = os.environ.get("REKINDLE_MATERIAL")
    place = (Path(given) if given else Path("..") / "shared" / "material") / _FILE
    return place if place.is_file() else None


def _read(place: Path) -> Graph:
    pointers = pq.read_table(place, columns=["src", "symbol", "dst"])
    nodes = pc.unique(pa.chunked_array([*pointers["src"].chunks, *pointers["dst"].chunks]))
    numbered = pa.table(
        {
            "src": pc.index_in(pointers["src"], nodes).cast(pa.int64()),
            "symbol": pointers["symbol"],
            "dst": pc.index_in(pointers["dst"], nodes).cast(pa.int64()),
            "verb": pc.starts_with(pointers["src"], "v"),
        }
    )
    down = numbered.filter(pc.equal(numbered["symbol"], _PARENT_TO_CHILD))
    large = _edges(down)
    small = _edges(down.filter(down["verb"]))
    verbs = numbered.filter(numbered["verb"])
    flows = {
        name: _edges(verbs.filter(pc.equal(verbs["symbol"], symbol)))
        for name, symbol in _OTHERS.items()
    }
    return Graph(place.parent.name, large, small, _root(large), {"assign": small, **flows})


def _edges(pointers: pa.Table) -> pa.Table:
    found = np.unique(np.stack([pointers["src"].to_numpy(), pointers["dst"].to_numpy()], 1), axis=0)
    return pa.table({"src": found[:, 0], "dst": found[:, 1]})


def _root(edges: pa.Table) -> int:
    """The node without a parent that the first edges lead from."""
    source, target = edges["src"].to_numpy(), edges["dst"].to_numpy()
    return int(source[~np.isin(source, target)][0])


def made_graph(rows: int) -> Graph:
    """A graph of about so many edges."""
    large, small = _clusters(rows, joined=True), _clusters(rows, joined=False)
    pick = np.random.default_rng(5)
    nodes = pc.unique(small["src"]).to_numpy()
    flows = {
        name: pa.table(
            {
                "src": pick.choice(nodes, len(small) // 20),
                "dst": pick.choice(nodes, len(small) // 20),
            }
        )
        for name in _OTHERS
    }
    return Graph("made", large, small, 0, {"assign": small, **flows})


def objects(edges: pa.Table) -> pa.Table:
    """Some of the nodes of a graph, each with an object of its own."""
    nodes = np.unique(np.concatenate([edges["src"].to_numpy(), edges["dst"].to_numpy()]))
    chosen = nodes[::_KEPT_OBJECTS]
    return pa.table({"node": chosen, "object": chosen + 10_000_000})


def _clusters(edges: int, *, joined: bool) -> pa.Table:
    """Clusters of trees, with edges across and back in each; a tree of clusters, if asked for."""
    pick = np.random.default_rng(3)
    clusters = max(1, edges * 3 // 4 // CLUSTER)
    nodes = np.arange(clusters * CLUSTER, dtype=np.int64)
    first = nodes - nodes % CLUSTER
    inner = nodes[nodes % CLUSTER > 0]
    pairs = [np.stack([first[inner] + (inner % CLUSTER - 1) // 2, inner], 1)]
    sources = pick.choice(nodes, max(1, edges - len(inner)))
    pairs.append(np.stack([sources, first[sources] + pick.integers(0, CLUSTER, len(sources))], 1))
    if joined:
        below = np.arange(1, clusters)
        above = (below - 1) // 2 * CLUSTER + pick.integers(0, CLUSTER, len(below))
        pairs.append(np.stack([above, below * CLUSTER], 1))
    found = np.unique(np.concatenate(pairs), axis=0)
    return pa.table({"src": found[:, 0], "dst": found[:, 1]})
