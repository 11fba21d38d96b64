"""Random windows, and the first rows of an order.

Where rows are level in an order Spark takes them in any order, so what a query shows of them is
the same for all that are level: the columns it orders and partitions by, and functions of these, or
functions of whole peers.
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.property.relations import Drawing, Query, Relation, where

RANKS = {
    "rank": "rank()",
    "dense_rank": "dense_rank()",
    "percent_rank": "percent_rank()",
    "cume_dist": "cume_dist()",
    "row_number": "row_number()",
    "ntile": "ntile(2)",
    "lag": "lag({o}, 2)",
    "lead": "lead({o})",
    "lag with a default": "lag({o}, 1, {o})",
    "lag IGNORE NULLS": "lag({o}) IGNORE NULLS",
}
"""Functions of an order, which take no frame."""
FRAMED = {
    "count": "count({o})",
    "min": "min({o})",
    "max": "max({o})",
    "first_value": "first_value({o})",
    "last_value": "last_value({o})",
    "last_value IGNORE NULLS": "last_value({o}) IGNORE NULLS",
    "nth_value": "nth_value({o}, 2)",
    "collect_list": "collect_list({o})",
    "approx_count_distinct": "approx_count_distinct({o})",
    "bool_or": "bool_or({o} IS NULL)",
    "FILTER": "count({o}) FILTER (WHERE {o} IS NOT NULL)",
}
NUMERIC = {
    "sum": "sum({o} % 7)",
    "avg": "avg({o})",
    "stddev": "stddev(CAST({o} AS DOUBLE))",
    "bit_xor": "bit_xor({o})",
    "median": "median({o})",
}
"""Functions of integers."""
FRAMES = {
    "default": "",
    "ROWS around": "ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING",
    "ROWS before": "ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING",
    "ROWS after": "ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING",
    "ROWS running": "ROWS UNBOUNDED PRECEDING",
    "ROWS onwards": "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
    "RANGE peers": "RANGE BETWEEN CURRENT ROW AND CURRENT ROW",
    "RANGE running": "RANGE UNBOUNDED PRECEDING",
    "RANGE onwards": "RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
    "whole": "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
}
_STEPS = {
    "integer": "1",
    "decimal": "1.5",
    "date": "INTERVAL '2' DAY",
    "timestamp": "INTERVAL '90' MINUTE",
    "timestamp_ntz": "INTERVAL '1' DAY",
}
VALUE_FRAMES = {
    "RANGE around": "RANGE BETWEEN {s} PRECEDING AND {s} FOLLOWING",
    "RANGE before": "RANGE BETWEEN {s} PRECEDING AND CURRENT ROW",
    "RANGE from a distance": "RANGE BETWEEN UNBOUNDED PRECEDING AND {s} PRECEDING",
}
"""Frames by the distance of values, of an order by one column."""
PARTITIONS = ("by a column", "by two columns", "all rows")
RANK_LIMITS = ("rank() <= 2", "row_number() = 1", "dense_rank() < 3")


def _over(draw: Drawing, relation: Relation) -> tuple[list[str], list[str], str]:
    """Columns to partition by, columns to order by, and the text of both."""
    how = draw.name("partition", PARTITIONS)
    width = {"by a column": 1, "by two columns": 2, "all rows": 0}[how]
    keys = draw.some(relation.ordered, width, width) if width else []
    orders = draw.some(relation.ordered, 1, 2)
    # Groups of several rows whose order tells them apart: elsewhere most rows are alone.
    if keys and "k" in relation.ordered and not draw.one_in(3):
        keys = ["k", *[key for key in keys if key not in ("k", "o")][: width - 1]]
    if "o" in relation.ordered and not draw.one_in(3):
        orders = ["o", *[order for order in orders[1:] if order != "o"]]
    words = [draw.among(["", " DESC", " DESC NULLS FIRST", " NULLS LAST"]) for _ in orders]
    order = "ORDER BY " + ", ".join(o + word for o, word in zip(orders, words, strict=True))
    partition = f"PARTITION BY {', '.join(keys)} " if keys else ""
    return keys, orders, partition + order


def window(draw: Drawing, relations: Sequence[Relation]) -> Query:
    relation = draw.among([r for r in relations if r.ordered])
    keys, orders, over = _over(draw, relation)
    functions = []
    for _ in range(draw.number(1, 3)):
        functions.append(_function(draw, relation, orders, over))
    shown = list(dict.fromkeys([*keys, *orders]))
    text = ", ".join(
        [*(f"{c} AS o{i}" for i, c in enumerate(shown))]
        + [f"{f} AS w{i}" for i, f in enumerate(functions)]
    )
    return Query(
        f"SELECT {text} FROM {relation.name}{where(draw, relation)}",
        tuple((f"o{i}", relation.type(c)) for i, c in enumerate(shown)),
        may_recompute=not keys,
    )


def _function(draw: Drawing, relation: Relation, orders: Sequence[str], over: str) -> str:
    column = draw.among(orders)
    framed = FRAMED | (NUMERIC if relation.type(column).family == "integer" else {})
    names = {**dict.fromkeys(RANKS, True), **dict.fromkeys(framed, False)}
    if "frame" in draw.aims:
        names = dict.fromkeys(framed, False)
    is_rank = draw.pick("window function", names)
    name = draw.features[-1][1]
    if is_rank:
        return f"{RANKS[name].format(o=column)} OVER ({over})"
    frames = dict(FRAMES)
    step = _STEPS.get(relation.type(orders[0]).family)
    if len(orders) == 1 and step:
        frames |= {key: frame.format(s=step) for key, frame in VALUE_FRAMES.items()}
    if name == "median":
        # Spark has it over whole partitions only.
        order = over.index("ORDER BY")
        return f"median({column}) OVER ({over[:order]})"
    frame = draw.pick("frame", frames)
    return f"{framed[name].format(o=column)} OVER ({over} {frame})"


def rank_limit(draw: Drawing, relations: Sequence[Relation]) -> Query:
    """The first rows of each partition."""
    relation = draw.among([r for r in relations if r.ordered])
    keys, orders, over = _over(draw, relation)
    rank, compared = draw.name("rank with a limit", RANK_LIMITS).split(" ", 1)
    shown = list(dict.fromkeys([*keys, *orders]))
    text = ", ".join(f"{c} AS o{i}" for i, c in enumerate(shown))
    columns = tuple((f"o{i}", relation.type(c)) for i, c in enumerate(shown))
    kept = draw.among(["*", ", ".join(name for name, _ in columns)])
    inner = f"SELECT {text}, {rank} OVER ({over}) AS w0 FROM {relation.name}"
    return Query(
        f"SELECT {kept} FROM ({inner}) WHERE w0 {compared}", columns, may_recompute=not keys
    )


LIMITS = ("LIMIT", "LIMIT and OFFSET", "OFFSET", "in a join")


def limit(draw: Drawing, relations: Sequence[Relation]) -> Query:
    relation = draw.among([r for r in relations if r.ordered])
    keys = draw.some(relation.ordered, 1, 3)
    text = ", ".join(f"{key} AS o{i}" for i, key in enumerate(keys))
    directions = [draw.among(["", " DESC", " DESC NULLS FIRST"]) for _ in keys]
    order = ", ".join(f"o{i}{word}" for i, word in enumerate(directions))
    how = draw.name("limit", LIMITS)
    words = "" if how == "OFFSET" else f" LIMIT {draw.number(1, 4)}"
    words += " OFFSET 1" if "OFFSET" in how else ""
    sql = f"SELECT {text} FROM {relation.name} ORDER BY {order}{words}"
    if how == "in a join":
        other = draw.among([r for r in relations if r.ordered])
        shown = ", ".join(f"f.o{i}" for i in range(len(keys)))
        sql = f"SELECT {shown} FROM ({sql}) f JOIN {other.name} g ON f.o0 IS NOT NULL"
    columns = tuple((f"o{i}", relation.type(key)) for i, key in enumerate(keys))
    # All rows but the first: each of them matters.
    return Query(sql, columns, may_recompute=how == "OFFSET")
