"""Random queries of the supported language, as SQL text with the columns that they give."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from random import Random

from tests.property import aggregates, joins, windows
from tests.property.relations import (
    BIGINT,
    OPAQUE,
    Drawing,
    Query,
    Relation,
    expressions,
    relation_of,
    selected,
    where,
)
from tests.property.schemas import TableSpec

Kind = Callable[[Drawing, Sequence[Relation]], Query]


def projection(draw: Drawing, relations: Sequence[Relation]) -> Query:
    relation = draw.among(relations)
    text, columns = selected(draw, expressions(relation))
    order = " ORDER BY o0" if draw.one_in(5) and columns[0][1].is_key else ""
    return Query(f"SELECT {text} FROM {relation.name}{where(draw, relation)}{order}", columns)


DISTINCTS = ("DISTINCT", "DISTINCT of a collation")


def distinct(draw: Drawing, relations: Sequence[Relation]) -> Query:
    relation = draw.among([r for r in relations if r.keys])
    collated = relation.of("collated")
    if draw.name("distinct", DISTINCTS if collated else DISTINCTS[:1]) != "DISTINCT":
        # Which of the texts that are level is shown is not determined.
        inner = f"SELECT DISTINCT {draw.among(collated)} AS c FROM {relation.name}"
        return Query(f"SELECT lower(CAST(c AS STRING)) AS o0 FROM ({inner})", (("o0", OPAQUE),))
    keys = draw.some(relation.keys, 1, 3)
    text = ", ".join(f"{key} AS o{i}" for i, key in enumerate(keys))
    columns = tuple((f"o{i}", relation.type(key)) for i, key in enumerate(keys))
    return Query(f"SELECT DISTINCT {text} FROM {relation.name}{where(draw, relation)}", columns)


SETS = ("UNION ALL", "UNION", "INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL")


def set_operation(draw: Drawing, relations: Sequence[Relation]) -> Query:
    left, right = draw.among(relations), draw.among(relations)
    both = [
        (one, two, first)
        for one, first in left.columns
        for two, second in right.columns
        if first == second and first.is_key and first.family != "opaque"
    ]
    if not both:
        right = left
        both = [(name, name, type_) for name, type_ in left.columns if type_.is_key]
    if not both:
        return projection(draw, relations)
    # Spark cannot plan INTERSECT ALL of a query that gives one column twice.
    chosen = list({pair[0]: pair for pair in draw.some(both, 1, 3)}.values())
    word = draw.name("set operation", SETS)
    one = ", ".join(f"{a} AS o{i}" for i, (a, _, _) in enumerate(chosen))
    two = ", ".join(b for _, b, _ in chosen)
    columns = tuple((f"o{i}", type_) for i, (_, _, type_) in enumerate(chosen))
    return Query(
        f"SELECT {one} FROM {left.name}{where(draw, left)} {word} "
        f"SELECT {two} FROM {right.name}{where(draw, right)}",
        columns,
    )


_GENERATORS: Mapping[str, tuple[tuple[str, ...], str, int]] = {
    "explode an array": (("array",), "explode({c})", 1),
    "posexplode an array": (("array",), "posexplode({c})", 2),
    "explode a map": (("map",), "explode({c})", 2),
    "posexplode a map": (("map",), "posexplode({c})", 3),
    "explode structs": (("array-of-structs",), "explode({c})", 1),
    "inline": (("array-of-structs",), "inline({c})", 2),
    "stack": (("integer",), "stack(2, CAST({c} AS BIGINT), 'x', {c} + 1L, NULL)", 2),
    "json_tuple": (("string",), """json_tuple('{{"a": 1, "b": null}}', 'a', {c})""", 2),
    "explode a sequence": (("integer",), "explode(sequence(1, CAST({c} AS INT)))", 1),
}
"""The families that a generator takes, its call, and how many columns it gives."""
GENERATORS = (*_GENERATORS, "OUTER", "in SELECT")


def generator(draw: Drawing, relations: Sequence[Relation]) -> Query:
    """Several rows of one."""
    options = {
        name: (relation, form)
        for name, form in _GENERATORS.items()
        for relation in relations
        if relation.of(*form[0])
    }
    if not options:
        return projection(draw, relations)
    relation, (families, call, width) = draw.pick("generator", options)
    call = call.format(c=draw.among(relation.of(*families)))
    kept = draw.among([c for c, _ in relation.columns])
    columns = (("o0", relation.type(kept)), *((f"o{i + 1}", OPAQUE) for i in range(width)))
    if width == 1 and draw.now_and_then("generator", "in SELECT"):
        return Query(f"SELECT {kept} AS o0, {call} AS o1 FROM {relation.name}", columns)
    outer = "OUTER " if draw.now_and_then("generator", "OUTER", 2) else ""
    names = ", ".join(f"e{i}" for i in range(width))
    text = ", ".join([f"{kept} AS o0", *(f"e{i} AS o{i + 1}" for i in range(width))])
    return Query(
        f"SELECT {text} FROM {relation.name} LATERAL VIEW {outer}{call} g AS {names}"
        f"{where(draw, relation)}",
        columns,
    )


PIVOTS = ("PIVOT", "PIVOT of two aggregates", "UNPIVOT", "UNPIVOT INCLUDE NULLS")


def pivot(draw: Drawing, relations: Sequence[Relation]) -> Query:
    usable = [r for r in relations if r.of("integer")]
    relation = draw.among(usable)
    one, two = (draw.among(relation.of("integer")) for _ in range(2))
    how = draw.name("pivot", PIVOTS)
    if how.startswith("PIVOT"):
        key = draw.among(relation.keys)
        calls = "sum(n) AS s, count(*) AS c" if "two" in how else draw.among(["sum(n)", "max(n)"])
        return Query(
            f"SELECT * FROM (SELECT {key} AS o0, {one} AS p, {two} AS n FROM {relation.name}) "
            f"PIVOT ({calls} FOR p IN (0 AS zero, 1 AS one, -1 AS less))",
            (("o0", relation.type(key)),),
        )
    kept = draw.among([c for c, _ in relation.columns])
    nulls = " INCLUDE NULLS" if "NULLS" in how else ""
    return Query(
        f"SELECT o0, name, value FROM (SELECT {kept} AS o0, CAST({one} AS BIGINT) AS p, "
        f"CAST({two} AS BIGINT) + 1 AS q FROM {relation.name}) "
        f"UNPIVOT{nulls} (value FOR name IN (p, q))",
        (("o0", relation.type(kept)), ("value", BIGINT)),
    )


CONSTANTS = ("VALUES joined", "VALUES in a union", "range()", "VALUES grouped", "without a table")
_VALUES = "(VALUES (0L, 'a'), (1L, 'b'), (1L, 'b'), (NULL, 'c')) AS t(v, w)"


def constant(draw: Drawing, relations: Sequence[Relation]) -> Query:
    """Relations that no table has a part in, or only one side."""
    relation = draw.among([r for r in relations if r.of("integer")])
    column = draw.among(relation.of("integer"))
    match draw.name("constant", CONSTANTS):
        case "VALUES joined":
            word = draw.among(["JOIN", "LEFT JOIN", "FULL JOIN", "RIGHT JOIN"])
            sql = (
                f"SELECT a.{column} AS o0, w AS o1 FROM {relation.name} a {word} {_VALUES} "
                f"ON a.{column} = t.v"
            )
        case "VALUES in a union":
            sql = f"SELECT {column} AS o0 FROM {relation.name} UNION ALL SELECT v FROM {_VALUES}"
        case "range()":
            sql = (
                f"SELECT r.id AS o0, count(a.{column}) AS o1 FROM range(3) r "
                f"LEFT JOIN {relation.name} a ON a.{column} = r.id GROUP BY r.id"
            )
        case "VALUES grouped":
            sql = f"SELECT v AS o0, count(*) AS o1 FROM {_VALUES} GROUP BY v"
        case _:
            sql = f"SELECT 1L AS o0, (SELECT count(*) FROM {relation.name}) AS o1"
    return Query(sql, (("o0", BIGINT),))


SHARED = ("joined with itself", "in a union", "in a subquery", "in another", "in a condition")


def shared(draw: Drawing, relations: Sequence[Relation]) -> Query:
    """A common table expression that several parts of the query read."""
    relation = draw.among([r for r in relations if r.of("integer")])
    column = draw.among(relation.of("integer"))
    body = draw.among(
        [
            f"SELECT {column} AS c, count(*) AS n FROM {relation.name} GROUP BY {column}",
            f"SELECT DISTINCT {column} AS c, 1L AS n FROM {relation.name}",
            f"SELECT {column} AS c, CAST({column} AS BIGINT) * 2 AS n FROM {relation.name}",
        ]
    )
    uses = {
        "joined with itself": "SELECT x.c AS o0, y.n AS o1 FROM w x JOIN w y ON x.c = y.n",
        "in a union": "SELECT c AS o0 FROM w UNION ALL SELECT n FROM w WHERE n > 1",
        "in a subquery": "SELECT c AS o0 FROM w WHERE n = (SELECT max(n) FROM w)",
        "in another": "SELECT z.c AS o0, z.m AS o1 FROM z LEFT JOIN w ON z.m = w.n",
        "in a condition": "SELECT c AS o0 FROM w WHERE c NOT IN (SELECT n FROM w)",
    }
    use = draw.pick("shared part", uses)
    more = ", z AS (SELECT c, sum(n) AS m FROM w GROUP BY c)" if "FROM z" in use else ""
    return Query(f"WITH w AS ({body}){more} {use}", (("o0", BIGINT),))


RECURSIONS = ("counts on", "follows a table", "with a group after it")


def recursion(draw: Drawing, relations: Sequence[Relation]) -> Query:
    """WITH RECURSIVE, within a few levels."""
    relation = draw.among([r for r in relations if r.of("integer")])
    one, two = (draw.among(relation.of("integer")) for _ in range(2))
    how = draw.name("recursion", RECURSIONS)
    start = f"SELECT CAST({one} AS BIGINT), 0 FROM {relation.name}"
    step = "SELECT x + 1, level + 1 FROM t WHERE level < 3 AND x < 3"
    if how == "follows a table":
        # Each level once for a value, or the number of rows would grow as a power.
        start = f"SELECT DISTINCT CAST({one} AS BIGINT), 0 FROM {relation.name}"
        step = (
            f"SELECT e.y, level + 1 FROM t JOIN (SELECT DISTINCT CAST({one} AS BIGINT) AS x, "
            f"CAST({two} AS BIGINT) AS y FROM {relation.name}) e ON e.x = t.x WHERE level < 2"
        )
    end = "SELECT x AS o0, level AS o1 FROM t"
    if how == "with a group after it":
        end = "SELECT x AS o0, count(*) AS o1, max(level) AS o2 FROM t GROUP BY x"
    return Query(
        f"WITH RECURSIVE t(x, level) AS ({start} UNION ALL {step}) {end}", (("o0", BIGINT),)
    )


KINDS: Mapping[str, tuple[Kind, int]] = {
    "projection": (projection, 1),
    "join": (joins.join, 3),
    "outer join": (joins.outer_join, 3),
    "subquery": (joins.subquery, 3),
    "scalar subquery": (joins.scalar_subquery, 2),
    "lateral join": (joins.lateral, 1),
    "aggregate": (aggregates.aggregate, 5),
    "aggregate over a join": (aggregates.aggregate_over_join, 1),
    "distinct": (distinct, 1),
    "set operation": (set_operation, 2),
    "generator": (generator, 2),
    "pivot": (pivot, 1),
    "constant": (constant, 1),
    "shared part": (shared, 1),
    "recursion": (recursion, 1),
    "window": (windows.window, 3),
    "rank with a limit": (windows.rank_limit, 1),
    "limit": (windows.limit, 1),
}
"""The kinds of queries, and how often each is drawn beside the others."""
_DRAWN = [name for name, (_, share) in KINDS.items() for _ in range(share)]

FEATURES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "query": ("", tuple(KINDS)),
    "inner join": ("join", joins.INNER),
    "join condition": ("join", joins.CONDITIONS),
    "outer join": ("outer join", joins.OUTER),
    "subquery": ("subquery", (*joins.SUBQUERIES, "in a disjunction")),
    "scalar subquery": ("scalar subquery", joins.SCALARS),
    "lateral join": ("lateral join", joins.LATERALS),
    "aggregate": ("aggregate", tuple(aggregates.AGGREGATES)),
    "grouping": ("aggregate", aggregates.GROUPINGS),
    "modifier": ("aggregate", aggregates.MODIFIERS),
    "distinct": ("distinct", DISTINCTS),
    "set operation": ("set operation", SETS),
    "generator": ("generator", GENERATORS),
    "pivot": ("pivot", PIVOTS),
    "constant": ("constant", CONSTANTS),
    "shared part": ("shared part", SHARED),
    "recursion": ("recursion", RECURSIONS),
    "window function": ("window", (*windows.RANKS, *windows.FRAMED, *windows.NUMERIC)),
    "frame": ("window", (*windows.FRAMES, *windows.VALUE_FRAMES)),
    "partition": ("window", windows.PARTITIONS),
    "rank with a limit": ("rank with a limit", windows.RANK_LIMITS),
    "limit": ("limit", windows.LIMITS),
}
"""What a campaign must have met: for each title the kind of query that offers it, and the names."""


def views(
    random: Random, specs: Sequence[TableSpec], count: int, aims: Sequence[tuple[str, str]] = ()
) -> dict[str, Query]:
    """Named queries; later ones may read earlier ones.

    Those with an aim, a title and a name of `FEATURES`, read tables alone and have that feature.
    """
    tables = [relation_of(spec) for spec in specs]
    relations = list(tables)
    found: dict[str, Query] = {}
    for i in range(len(aims) or count):
        title, name = aims[i] if aims else ("", "")
        draw = Drawing(random, {title: name})
        kind = FEATURES[title][0] or name if title else draw.among(_DRAWN)
        draw.features.append(("query", kind))
        query = KINDS[kind][0](draw, tables if title else relations)
        # A view is made of the parts of the views that it reads.
        read = [other for key, other in found.items() if re.search(rf"\b{key}\b", query.sql)]
        query = replace(
            query,
            may_recompute=query.may_recompute or any(other.may_recompute for other in read),
            features=tuple(dict.fromkeys(draw.features)),
        )
        found[f"v{i}"] = query
        readable = tuple((n, t) for n, t in query.columns if t.family != "opaque")
        if readable:
            relations.append(Relation(f"v{i}", readable))
    return found
