"""Random aggregates over joins for every policy, and joins for every representation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.property.relations import Drawing

POLICIES = ("first_order", "view_tree", "higher_order", "factored", "factorised")
SHAPES: Mapping[str, str] = {
    "chain of two": "{a} a JOIN {b} b ON a.j = b.i",
    "chain of three": "{a} a JOIN {b} b ON a.j = b.i JOIN {c} c ON b.j = c.i",
    "star": "{a} a JOIN {b} b ON a.i = b.i JOIN {c} c ON a.i = c.i",
    "triangle": "{a} a JOIN {b} b ON a.j = b.i JOIN {c} c ON b.j = c.i AND c.j = a.i",
    "itself": "{a} a JOIN {a} b ON a.j = b.i",
}
_AGGREGATES = {
    "one product": ("sum({v}) AS o1",),
    "several": ("count(*) AS o1", "sum({v}) AS o2", "avg(a.v) AS o3", "count(b.v) AS o4"),
    "sums": ("sum(a.v + b.v) AS o1", "sum(a.v * 2) AS o2"),
    "count": ("count(*) AS o1",),
}


def policy_views(draw: Drawing, tables: Sequence[str]) -> tuple[str, str]:
    """An aggregate over a join, and the join itself in rows."""
    shape = draw.pick("query under policies", SHAPES)
    source = shape.format(a=tables[0], b=tables[1], c=tables[2])
    last = "c" if " c " in source else "b"
    keys = draw.among([[], ["a.i"], ["a.i", f"{last}.j"], ["b.i"]])
    product = draw.among([f"a.v * {last}.v", "a.v * b.v", "b.v"])
    measures = [m.format(v=product) for m in _AGGREGATES[draw.among(list(_AGGREGATES))]]
    condition = draw.among(["", "", " WHERE b.v > 0", " WHERE a.i <> 1 AND b.v < 3"])
    shown = ", ".join([*(f"{key} AS k{i}" for i, key in enumerate(keys)), *measures])
    group = f" GROUP BY {', '.join(keys)}" if keys else ""
    listing = f"SELECT a.i AS i, a.j AS j, {last}.j AS l, b.v AS v FROM {source}{condition}"
    return f"SELECT {shown} FROM {source}{condition}{group}", listing
