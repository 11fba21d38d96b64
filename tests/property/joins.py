"""Random joins of every kind, and subqueries of every kind, which become joins."""

from __future__ import annotations

from collections.abc import Sequence

from tests.property.relations import (
    OPAQUE,
    Drawing,
    Query,
    Relation,
    collated_pair,
    expressions,
    pair,
    predicate,
    ranges,
    selected,
    where,
)

CONDITIONS = (
    "equality",
    "two equalities",
    "null-safe equality",
    "equality of a collation",
    "range",
    "range of two ends",
    "equality and range",
    "equality and range of two ends",
    "inequality",
    "true",
)
CONDITIONAL = ("two tables", "itself", "three tables")
INNER = (*CONDITIONAL, "cross", "USING")
OUTER = ("LEFT", "RIGHT", "FULL", "LEFT SEMI", "LEFT ANTI")


def condition(draw: Drawing, left: Relation, right: Relation) -> str:
    """A condition of a join between `a` and `b`."""
    one_end, two_ends = ranges(draw, left, right)
    forms = {
        "equality": pair(draw, left, right),
        "two equalities": " AND ".join(filter(None, (pair(draw, left, right), "a.k = b.k")))
        if left.of("integer") and "k" in dict(left.columns) and "k" in dict(right.columns)
        else "",
        "null-safe equality": pair(draw, left, right, "<=>"),
        "equality of a collation": collated_pair(draw, left, right),
        "range": one_end,
        "range of two ends": two_ends,
        "inequality": pair(draw, left, right, "<>"),
        "true": "true",
    }
    for bounds in ("range", "range of two ends"):
        if forms["equality"] and forms[bounds]:
            forms[f"equality and {bounds}"] = f"{forms['equality']} AND {forms[bounds]}"
    return draw.pick("join condition", {name: text for name, text in forms.items() if text})


def join(draw: Drawing, relations: Sequence[Relation]) -> Query:
    left, right = draw.among(relations), draw.among(relations)
    how = draw.name("inner join", CONDITIONAL if "join condition" in draw.aims else INNER)
    if how == "itself":
        right = left
    both = [n for n in left.of("integer") if n in right.of("integer")]
    if how == "USING" and both and left.name != right.name:
        shared = draw.among(both)
        text, columns = selected(draw, [(f"x.{shared}", left.type(shared))])
        return Query(
            f"SELECT {text} FROM {left.name} x JOIN {right.name} USING ({shared})", columns
        )
    source = f"{left.name} a CROSS JOIN {right.name} b"
    if how != "cross":
        source = f"{left.name} a JOIN {right.name} b ON {condition(draw, left, right)}"
    text, columns = selected(draw, expressions(left, "a.") + expressions(right, "b."))
    if how == "three tables":
        other = draw.among(relations)
        if "k" in dict(left.columns) and "k" in dict(other.columns):
            source += f" JOIN {other.name} c ON c.k = a.k"
    return Query(f"SELECT {text} FROM {source}{where(draw, left, 'a.')}", columns)


def outer_join(draw: Drawing, relations: Sequence[Relation]) -> Query:
    left, right = draw.among(relations), draw.among(relations)
    word = draw.name("outer join", OUTER)
    on = condition(draw, left, right)
    options = expressions(left, "a.")
    if word in ("LEFT", "RIGHT", "FULL"):
        options += expressions(right, "b.")
    text, columns = selected(draw, options)
    return Query(f"SELECT {text} FROM {left.name} a {word} JOIN {right.name} b ON {on}", columns)


SUBQUERIES = (
    "EXISTS",
    "NOT EXISTS",
    "IN",
    "NOT IN",
    "IN, correlated",
    "NOT IN, correlated",
    "IN of two columns",
    "IN groups",
    "EXISTS in EXISTS",
    "EXISTS as a value",
    "IN as a value",
)
SCALARS = (
    "alone",
    "correlated",
    "correlated by an inequality",
    "in a condition",
    "correlated in a condition",
    "nested",
    "beside an aggregate",
)


def subquery(draw: Drawing, relations: Sequence[Relation]) -> Query:
    """EXISTS and IN, as a condition or as a value."""
    left, right = draw.among(relations), draw.among(relations)
    text, columns = selected(draw, expressions(left, "a."))
    on = condition(draw, left, right)
    pairs = [
        (one, two)
        for one in left.ordered
        for two in right.ordered
        if left.type(one) == right.type(two)
    ]
    how = draw.name(
        "subquery", SUBQUERIES if pairs else [s for s in SUBQUERIES if "IN" not in s[:6]]
    )
    one, two = draw.among(pairs) if pairs else ("", "")
    negated = "NOT " if how.startswith("NOT") else ""
    inner = f"SELECT b.{two} FROM {right.name} b"
    match how:
        case "EXISTS" | "NOT EXISTS" | "EXISTS as a value":
            test = f"{negated}EXISTS (SELECT 1 FROM {right.name} b WHERE {on})"
        case "EXISTS in EXISTS":
            # Tables have a column b, which would hide the alias two levels up.
            outer = on.replace("b.", "m.")
            deep = f"EXISTS (SELECT 1 FROM {left.name} c WHERE {outer.replace('a.', 'c.')})"
            test = f"EXISTS (SELECT 1 FROM {right.name} m WHERE {outer} AND {deep})"
        case "IN, correlated" | "NOT IN, correlated":
            test = f"a.{one} {negated}IN ({inner} WHERE {on})"
        case "IN of two columns":
            three, four = draw.among(pairs)
            test = f"(a.{one}, a.{three}) IN (SELECT b.{two}, b.{four} FROM {right.name} b)"
        case "IN groups":
            test = f"a.{one} IN ({inner} GROUP BY b.{two} HAVING count(*) > 1)"
        case _:
            test = f"a.{one} {negated}IN ({inner})"
    if how.endswith("as a value"):
        return Query(f"SELECT {text}, {test} AS e FROM {left.name} a", columns)
    if draw.now_and_then("subquery", "in a disjunction"):
        test = f"({test} OR {predicate(draw, left, 'a.')})"
    return Query(f"SELECT {text} FROM {left.name} a WHERE {test}", columns)


def scalar_subquery(draw: Drawing, relations: Sequence[Relation]) -> Query:
    usable = [r for r in relations if r.of("integer")]
    left, right = draw.among(usable), draw.among(usable)
    mine, other = draw.among(left.of("integer")), draw.among(right.of("integer"))
    function = draw.among(["min", "max", "count", "sum"])
    how = draw.name("scalar subquery", SCALARS)
    on = ""
    if how == "correlated by an inequality":
        on = f" WHERE b.{other} {draw.among(['<', '>=', '<>'])} a.{mine}"
    elif how.startswith("correlated"):
        on = f" WHERE {pair(draw, left, right)}"
    elif how == "nested":
        on = f" WHERE b.{other} < (SELECT max(c.{mine}) FROM {left.name} c)"
    inner = f"(SELECT {function}(b.{other}) FROM {right.name} b{on})"
    columns = (("o0", left.type(mine)),)
    if how.endswith("condition"):
        compared = draw.among([">=", "<", "=", "<>"])
        test = f"a.{mine} {compared} {inner}"
        return Query(f"SELECT a.{mine} AS o0 FROM {left.name} a WHERE {test}", columns)
    if how == "beside an aggregate":
        calls = f"count(*) AS o1, max(a.{mine}) AS o2, {inner} AS o3"
        return Query(
            f"SELECT a.{mine} AS o0, {calls} FROM {left.name} a GROUP BY a.{mine}", columns
        )
    return Query(f"SELECT a.{mine} AS o0, {inner} AS o1 FROM {left.name} a", columns)


LATERALS = ("rows", "LEFT", "aggregate", "first rows", "expression", "table function")


def lateral(draw: Drawing, relations: Sequence[Relation]) -> Query:
    """A join whose right side reads the row on its left."""
    usable = [r for r in relations if r.of("integer")]
    left, right = draw.among(usable), draw.among(usable)
    mine, other = draw.among(left.of("integer")), draw.among(right.of("integer"))
    on = pair(draw, left, right)
    source = f"FROM {right.name} b WHERE {on}"
    how = draw.name("lateral join", LATERALS)
    match how:
        case "rows" | "LEFT":
            inner = f"(SELECT b.{other} AS y {source})"
        case "aggregate":
            inner = f"(SELECT count(*) AS y, max(b.{other}) AS z {source})"
        case "first rows":
            inner = f"(SELECT b.{other} AS y {source} ORDER BY b.{other} DESC LIMIT 2)"
        case "expression":
            inner = f"(SELECT a.{mine} + 1L AS y)"
        case _:
            inner = f"explode(array(a.{mine}, 7L)) AS l(y)"
    word = "LEFT JOIN" if how == "LEFT" else draw.among(["CROSS JOIN", ","])
    named = "" if how == "table function" else " l"
    end = " ON true" if how == "LEFT" else ""
    return Query(
        f"SELECT a.{mine} AS o0, l.* FROM {left.name} a {word} LATERAL {inner}{named}{end}",
        (("o0", left.type(mine)), ("y", OPAQUE)),
    )
