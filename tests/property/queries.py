"""Random queries of the supported language, as SQL text with the columns that they give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from tests.property import values
from tests.property.schemas import TableSpec
from tests.property.values import Type


@dataclass(frozen=True)
class Relation:
    """Something a query can read: a table or an earlier view."""

    name: str
    columns: tuple[tuple[str, Type], ...]

    def of(self, *families: str) -> list[str]:
        return [name for name, type_ in self.columns if type_.family in families]

    @property
    def numbers(self) -> list[str]:
        return [name for name, type_ in self.columns if type_.is_number]

    @property
    def keys(self) -> list[str]:
        return [name for name, type_ in self.columns if type_.is_key]

    @property
    def ordered(self) -> list[str]:
        """Columns of which equal values are the same value: neither floats nor nested ones."""
        families = ("integer", "decimal", "string", "date", "timestamp", "timestamp_ntz")
        return [name for name in self.keys if self.type(name).family in families]

    def type(self, name: str) -> Type:
        return dict(self.columns)[name]


@dataclass(frozen=True)
class Query:
    """SQL text; `columns` are those a later view may read further."""

    sql: str
    columns: tuple[tuple[str, Type], ...]
    kind: str


BIGINT = Type("bigint", None, st.nothing(), "integer")
OPAQUE = Type("?", None, st.nothing(), "opaque")


def relation_of(spec: TableSpec) -> Relation:
    return Relation(spec.name, tuple((c.name, c.type) for c in spec.columns))


def _some(draw: st.DrawFn, items: Sequence[str], least: int, most: int) -> list[str]:
    if not items:
        return []
    most = min(most, len(items))
    return draw(
        st.lists(st.sampled_from(items), min_size=min(least, most), max_size=most, unique=True)
    )


def predicate(draw: st.DrawFn, relation: Relation, prefix: str = "") -> str:
    """A condition that some rows meet."""
    options = []
    for name, type_ in relation.columns:
        column = prefix + name
        options.append(f"{column} IS NOT NULL")
        if type_.is_number:
            options += [
                f"{column} > 0",
                f"{column} BETWEEN -1 AND 1",
                f"{column} <> 0 AND 4 / {column} > 1",
            ]
        if type_.family == "boolean":
            options += [column, f"NOT {column}", f"{column} IS NOT TRUE"]
        if type_.family == "string":
            options += [f"{column} LIKE 'a%'", f"length({column}) > 1", f"{column} IN ('a', '')"]
        if type_.family == "special":
            options += [f"{column} >= 0", f"isnan({column})"]
        if type_.family == "variant":
            options += [
                f"is_variant_null({column})",
                f"try_variant_get({column}, '$.a', 'int') = 1",
            ]
        if type_.family == "collated":
            options += [f"{column} = 'a'", f"{column} > 'A'", f"{column} IN ('B', 'ß')"]
    one = draw(st.sampled_from(options))
    if draw(st.integers(0, 3)) == 0:
        return f"({one}) {draw(st.sampled_from(['AND', 'OR']))} ({draw(st.sampled_from(options))})"
    return one


def where(draw: st.DrawFn, relation: Relation, prefix: str = "") -> str:
    return f" WHERE {predicate(draw, relation, prefix)}" if draw(st.booleans()) else ""


def expressions(relation: Relation, prefix: str = "") -> list[tuple[str, Type]]:
    """Expressions over a relation that fail on no row."""
    found: list[tuple[str, Type]] = []
    for name, type_ in relation.columns:
        column = prefix + name
        found.append((column, type_))
        found.append((f"{column} IS NULL", values.BOOLEAN))
        match type_.family:
            case "integer":
                found += [
                    (f"CAST({column} AS BIGINT) * 2 + 1", BIGINT),
                    (f"CASE WHEN {column} > 0 THEN 1 ELSE {column} END", OPAQUE),
                    (f"coalesce(CAST({column} AS INT), 7)", values.INT),
                ]
            case "float" | "decimal":
                found += [(f"-{column}", OPAQUE), (f"CAST({column} AS DOUBLE) * 0.5D", OPAQUE)]
            case "string":
                found += [(f"concat({column}, '!')", OPAQUE), (f"length({column})", values.INT)]
            case "array":
                found += [
                    (f"size({column})", values.INT),
                    (f"transform({column}, e -> e + 1)", values.ARRAY),
                    (f"try_element_at({column}, 1)", values.INT),
                ]
            case "struct":
                found += [(f"{column}.f", values.INT), (f"{column}.g", OPAQUE)]
            case "map":
                found += [(f"element_at({column}, 'a')", values.INT)]
            case "date":
                found += [(f"year({column})", values.INT)]
            case "timestamp" | "timestamp_ntz":
                found += [(f"hour({column})", values.INT)]
            case "boolean":
                found += [(f"NOT {column}", values.BOOLEAN)]
            case "variant":
                found += [
                    (f"try_variant_get({column}, '$.a', 'int')", values.INT),
                    (f"schema_of_variant({column})", OPAQUE),
                    (f"to_json({column})", OPAQUE),
                ]
            case "collated":
                found += [
                    (f"{column} = 'a'", values.BOOLEAN),
                    (f"contains({column}, 'B')", values.BOOLEAN),
                    (f"length({column})", values.INT),
                ]
    return found


def _selected(
    draw: st.DrawFn, options: Sequence[tuple[str, Type]], most: int = 4
) -> tuple[str, tuple[tuple[str, Type], ...]]:
    chosen = draw(st.lists(st.sampled_from(options), min_size=1, max_size=most))
    columns = tuple((f"o{i}", type_) for i, (_, type_) in enumerate(chosen))
    text = ", ".join(f"{e} AS o{i}" for i, (e, _) in enumerate(chosen))
    return text, columns


def projection(draw: st.DrawFn, relations: Sequence[Relation]) -> Query:
    relation = draw(st.sampled_from(relations))
    text, columns = _selected(draw, expressions(relation))
    order = " ORDER BY o0" if draw(st.integers(0, 4)) == 0 and columns[0][1].is_key else ""
    return Query(
        f"SELECT {text} FROM {relation.name}{where(draw, relation)}{order}", columns, "projection"
    )


def _pair(draw: st.DrawFn, left: Relation, right: Relation) -> str:
    """An equality of two columns, of one type or of two integer types."""
    pairs = [
        f"a.{one} = b.{two}"
        for one, first in left.columns
        for two, second in right.columns
        if first.is_key
        and (first == second or (first.family == second.family == "integer"))
        and first.family != "opaque"
    ]
    return draw(st.sampled_from(pairs)) if pairs else ""


def _range(draw: st.DrawFn, left: Relation, right: Relation) -> str:
    """A comparison of columns of both sides by their order, with one end or two."""
    families = (*_SHIFTS, *_COMPARED)
    pairs = [
        (one, two, first.family)
        for one, first in left.columns
        for two, second in right.columns
        if first == second and first.family in families
    ]
    pairs += [(one, two, "number") for one in left.numbers for two in right.numbers]
    if not pairs:
        return ""
    one, two, family = draw(st.sampled_from(pairs))
    others = [other for a, other, _ in pairs if a == one]
    below, above = draw(st.sampled_from((("<", ">"), ("<=", ">="), ("<", ">="))))
    forms = [
        f"a.{one} {below} b.{two}",
        f"a.{one} {above} b.{two}",
        f"a.{one} BETWEEN b.{two} AND b.{draw(st.sampled_from(others))}",
    ]
    if family in _SHIFTS:
        shift = _SHIFTS[family]
        forms.append(f"a.{one} {above} b.{two} - {shift} AND a.{one} {below} b.{two} + {shift}")
    return draw(st.sampled_from(forms))


_SHIFTS = {
    "date": "2",
    "timestamp": "INTERVAL 90 MINUTES",
    "timestamp_ntz": "INTERVAL 1 DAY",
}
"""What can be added to any value of a family that tables hold, without an error."""
_COMPARED = (
    "boolean", "integer-payload", "decimal", "float", "special", "string", "collated", "binary",
    "duration", "months",
)  # fmt: skip


def join(draw: st.DrawFn, relations: Sequence[Relation]) -> Query:
    left, right = draw(st.sampled_from(relations)), draw(st.sampled_from(relations))
    between = _range(draw, left, right) if draw(st.integers(0, 2)) == 0 else ""
    conditions = []
    if not between or draw(st.booleans()):
        conditions = [c for c in (_pair(draw, left, right),) if c]
    if conditions and draw(st.integers(0, 3)) == 0:
        conditions.append(_pair(draw, left, right))
    conditions += [between] if between else []
    text, columns = _selected(draw, expressions(left, "a.") + expressions(right, "b."))
    source = f"{left.name} a JOIN {right.name} b" + (
        f" ON {' AND '.join(conditions)}" if conditions else " ON true"
    )
    kind = "self join" if left == right else "join"
    if between:
        kind += " on a range" if conditions == [between] else " on keys and a range"
    third = ""
    if draw(st.integers(0, 4)) == 0:
        other = draw(st.sampled_from(relations))
        if "k" in dict(left.columns) and "k" in dict(other.columns):
            third, kind = f" JOIN {other.name} c ON c.k = a.k", "three-way join"
    return Query(f"SELECT {text} FROM {source}{third}{where(draw, left, 'a.')}", columns, kind)


def _condition(draw: st.DrawFn, left: Relation, right: Relation) -> tuple[str, str]:
    """A condition of a join, and its kind."""
    between = _range(draw, left, right) if draw(st.booleans()) else ""
    conditions = []
    if not between or draw(st.integers(0, 2)):
        conditions = [c for c in (_pair(draw, left, right),) if c]
    kind = "equality" if conditions else "no equality"
    if between:
        conditions.append(between)
        kind += " and inequality"
    return " AND ".join(conditions) or "true", kind


def outer_join(draw: st.DrawFn, relations: Sequence[Relation]) -> Query:
    left, right = draw(st.sampled_from(relations)), draw(st.sampled_from(relations))
    word = draw(st.sampled_from(["LEFT", "RIGHT", "FULL"]))
    condition, kind = _condition(draw, left, right)
    text, columns = _selected(draw, expressions(left, "a.") + expressions(right, "b."))
    return Query(
        f"SELECT {text} FROM {left.name} a {word} JOIN {right.name} b ON {condition}",
        columns,
        f"{word.lower()} join, {kind}",
    )


def semi_join(draw: st.DrawFn, relations: Sequence[Relation]) -> Query:
    left, right = draw(st.sampled_from(relations)), draw(st.sampled_from(relations))
    text, columns = _selected(draw, expressions(left, "a."))
    condition, kind = _condition(draw, left, right)
    negated = draw(st.sampled_from(["", "NOT "]))
    exists = f"{negated}EXISTS (SELECT 1 FROM {right.name} b WHERE {condition})"
    word = f"{negated}exists, {kind}".lower()
    pairs = [
        (one, two)
        for one in left.ordered
        for two in right.ordered
        if left.type(one) == right.type(two)
    ]
    if pairs and draw(st.booleans()):
        one, two = draw(st.sampled_from(pairs))
        correlated = f" WHERE {condition}" if draw(st.booleans()) else ""
        exists = f"a.{one} {negated}IN (SELECT b.{two} FROM {right.name} b{correlated})"
        word = f"{negated}in{', correlated' if correlated else ''}".lower()
    if draw(st.integers(0, 3)) == 0:
        exists, word = f"({exists} OR {predicate(draw, left, 'a.')})", word + " in a disjunction"
    return Query(f"SELECT {text} FROM {left.name} a WHERE {exists}", columns, word)


FRAMES = (
    "ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING",
    "ROWS UNBOUNDED PRECEDING",
    "RANGE BETWEEN CURRENT ROW AND CURRENT ROW",
    "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
)


def window(draw: st.DrawFn, relations: Sequence[Relation]) -> Query:
    relation = draw(st.sampled_from(relations))
    if not relation.ordered:
        return aggregate(draw, relations)
    order = draw(st.sampled_from(relation.ordered))
    direction = draw(st.sampled_from(["", " DESC", " DESC NULLS FIRST"]))
    keys = _some(draw, relation.ordered, 0, 1)
    partition = f"PARTITION BY {keys[0]} " if keys else ""
    over = f"OVER ({partition}ORDER BY {order}{direction})"
    functions = [
        f"rank() {over}",
        f"dense_rank() {over}",
        f"count(*) {over}",
        f"max({order}) OVER ({partition})",
        f"cume_dist() {over}",
        *(f"{function} {over}" for function in (f"lag({order}, 2)", f"lead({order})")),
        *(f"{function} {over}" for function in ("row_number()", f"first_value({order})")),
        *(
            f"{function}({order}) OVER ({partition}ORDER BY {order}{direction} {frame})"
            for function in ("count", "min")
            for frame in FRAMES
        ),
    ]
    if relation.type(order).family == "integer":
        functions += [f"sum({order} % 7) {over}", f"avg({order}) {over}"]
    chosen = draw(st.lists(st.sampled_from(functions), min_size=1, max_size=3, unique=True))
    text = ", ".join(f"{f} AS w{i}" for i, f in enumerate(chosen))
    kind = "window" if keys else "window over all rows"
    query = f"SELECT {order} AS o0, {text} FROM {relation.name}"
    if draw(st.booleans()):
        query = f"SELECT * FROM (SELECT {order} AS o0, rank() {over} AS w0 FROM {relation.name})"
        query, kind = f"{query} WHERE w0 <= 2", kind + " with a limit on the rank"
    return Query(query, (("o0", relation.type(order)),), kind)


def limit(draw: st.DrawFn, relations: Sequence[Relation]) -> Query:
    relation = draw(st.sampled_from(relations))
    keys = _some(draw, relation.ordered, 1, 3)
    if not keys:
        return projection(draw, relations)
    text = ", ".join(f"{key} AS o{i}" for i, key in enumerate(keys))
    directions = [draw(st.sampled_from(["", " DESC", " DESC NULLS FIRST"])) for _ in keys]
    order = ", ".join(f"o{i}{word}" for i, word in enumerate(directions))
    offset = draw(st.sampled_from(["", "", " OFFSET 1"]))
    return Query(
        f"SELECT {text} FROM {relation.name} ORDER BY {order} "
        f"LIMIT {draw(st.integers(1, 4))}{offset}",
        tuple((f"o{i}", relation.type(key)) for i, key in enumerate(keys)),
        "limit" + offset.lower()[:7],
    )


def scalar_subquery(draw: st.DrawFn, relations: Sequence[Relation]) -> Query:
    left, right = draw(st.sampled_from(relations)), draw(st.sampled_from(relations))
    if not left.of("integer") or not right.of("integer"):
        return semi_join(draw, relations)
    mine, other = draw(st.sampled_from(left.of("integer"))), right.of("integer")[0]
    function = draw(st.sampled_from(["min", "max", "count"]))
    condition = _pair(draw, left, right) if draw(st.booleans()) else ""
    where_ = f" WHERE {condition}" if condition else ""
    inner = f"(SELECT {function}(b.{other}) FROM {right.name} b{where_})"
    word = "scalar subquery" + (", correlated" if condition else "")
    if draw(st.booleans()):
        return Query(
            f"SELECT a.{mine} AS o0, {inner} AS o1 FROM {left.name} a",
            (("o0", left.type(mine)),),
            word,
        )
    return Query(
        f"SELECT a.{mine} AS o0 FROM {left.name} a WHERE a.{mine} >= {inner}",
        (("o0", left.type(mine)),),
        word + " in a condition",
    )


def cross(draw: st.DrawFn, relations: Sequence[Relation]) -> Query:
    left, right = draw(st.sampled_from(relations)), draw(st.sampled_from(relations))
    text, columns = _selected(draw, expressions(left, "a.") + expressions(right, "b."))
    return Query(
        f"SELECT {text} FROM {left.name} a CROSS JOIN {right.name} b{where(draw, left, 'a.')}",
        columns,
        "cross join",
    )


def _aggregates(draw: st.DrawFn, relation: Relation) -> list[tuple[str, Type]]:
    options: list[tuple[str, Type]] = [("count(*)", BIGINT)]
    options += [(f"count({name})", BIGINT) for name, _ in relation.columns]
    for name in relation.numbers:
        double = f"CAST({name} AS DOUBLE)"
        options += [
            (f"sum({name})", OPAQUE),
            (f"avg({name})", OPAQUE),
            (f"stddev({double})", OPAQUE),
            (f"stddev_pop({double})", OPAQUE),
            (f"variance({double})", OPAQUE),
            (f"var_pop({double})", OPAQUE),
            (f"covar_pop({double}, {double} * 2)", OPAQUE),
            (f"covar_samp({double}, CAST(length('ab') AS DOUBLE))", OPAQUE),
            (f"corr({double}, {double} * {double})", OPAQUE),
            (f"sum({name}) + count(*)", OPAQUE),
        ]
    options += [
        e
        for name in relation.of("special")
        for e in [(f"sum({name})", OPAQUE), (f"avg({name})", OPAQUE)]
    ]
    options += [
        e
        for name in relation.of("boolean")
        for e in [
            (f"bool_and({name})", values.BOOLEAN),
            (f"bool_or({name})", values.BOOLEAN),
            (f"count_if({name})", BIGINT),
        ]
    ]
    for name in relation.ordered:
        options += [
            (f"min({name})", relation.type(name)),
            (f"max({name})", relation.type(name)),
            (f"count(DISTINCT {name})", BIGINT),
        ]
    for name in relation.of("collated"):
        options += [
            (f"count(DISTINCT {name})", BIGINT),
            (f"lower(CAST(min({name}) AS STRING))", OPAQUE),
            (f"lower(CAST(max({name}) AS STRING))", OPAQUE),
        ]
    for name in relation.of("integer"):
        options += [
            (f"sort_array(collect_list({name}))", OPAQUE),
            (f"percentile({name}, 0.5)", OPAQUE),
            (f"sum(DISTINCT CAST({name} AS BIGINT))", OPAQUE),
            (f"bit_xor({name})", OPAQUE),
        ]
    chosen = draw(st.lists(st.sampled_from(options), min_size=1, max_size=4))
    found = []
    for text, type_ in chosen:
        if draw(st.integers(0, 4)) == 0 and text.count("(") - text.count("CAST(") == 1:
            text = f"{text} FILTER (WHERE {predicate(draw, relation)})"
        found.append((text, type_))
    return found


def aggregate(draw: st.DrawFn, relations: Sequence[Relation]) -> Query:
    relation = draw(st.sampled_from(relations))
    keys = _some(draw, [k for k in relation.keys if relation.type(k).family != "opaque"], 0, 2)
    measures = _aggregates(draw, relation)
    outputs = [(key, relation.type(key)) for key in keys] + measures
    columns = tuple((f"o{i}", type_) for i, (_, type_) in enumerate(outputs))
    text = ", ".join(f"{e} AS o{i}" for i, (e, _) in enumerate(outputs))
    group, kind = "", "global aggregate"
    if keys:
        form = draw(st.sampled_from(["{}", "{}", "{}", "ROLLUP({})", "CUBE({})"]))
        group, kind = " GROUP BY " + form.format(", ".join(keys)), "aggregate"
        if form != "{}":
            kind = form[:-4].lower()
    having = draw(st.sampled_from(["", "", "", " HAVING count(*) > 1", " HAVING sum(1) < 3"]))
    return Query(
        f"SELECT {text} FROM {relation.name}{where(draw, relation)}{group}{having}", columns, kind
    )


def distinct(draw: st.DrawFn, relations: Sequence[Relation]) -> Query:
    relation = draw(st.sampled_from(relations))
    keys = _some(draw, relation.keys, 1, 3)
    if not keys:
        return aggregate(draw, relations)
    text = ", ".join(f"{key} AS o{i}" for i, key in enumerate(keys))
    columns = tuple((f"o{i}", relation.type(key)) for i, key in enumerate(keys))
    return Query(
        f"SELECT DISTINCT {text} FROM {relation.name}{where(draw, relation)}", columns, "distinct"
    )


def union(draw: st.DrawFn, relations: Sequence[Relation]) -> Query:
    left, right = draw(st.sampled_from(relations)), draw(st.sampled_from(relations))
    both = [
        (one, two, first)
        for one, first in left.columns
        for two, second in right.columns
        if first == second and first.is_key and first.family != "opaque"
    ]
    if not both:
        return aggregate(draw, relations)
    # Spark cannot plan INTERSECT ALL of a query that gives one column twice.
    chosen = draw(
        st.lists(st.sampled_from(both), min_size=1, max_size=3, unique_by=(lambda p: p[0],))
    )
    words = ["UNION ALL", "UNION", "INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL"]
    word = draw(st.sampled_from(words))
    one = ", ".join(f"{a} AS o{i}" for i, (a, _, _) in enumerate(chosen))
    two = ", ".join(b for _, b, _ in chosen)
    columns = tuple((f"o{i}", type_) for i, (_, _, type_) in enumerate(chosen))
    return Query(
        f"SELECT {one} FROM {left.name}{where(draw, left)} {word} "
        f"SELECT {two} FROM {right.name}{where(draw, right)}",
        columns,
        word.lower(),
    )


def generated(draw: st.DrawFn, relations: Sequence[Relation]) -> Query:
    options = [
        (relation, name)
        for relation in relations
        for name in relation.of("array", "map", "array-of-structs")
    ]
    if not options:
        return distinct(draw, relations)
    relation, name = draw(st.sampled_from(options))
    kept = draw(st.sampled_from([c for c, _ in relation.columns]))
    outer = draw(st.sampled_from(["", "OUTER "]))
    family = relation.type(name).family
    functions = {"array": ["explode", "posexplode"], "map": ["explode", "posexplode"]}
    function = draw(st.sampled_from(functions.get(family, ["inline", "explode"])))
    width = {"explode": 1, "posexplode": 2, "inline": 2}[function] + (family == "map")
    names = ", ".join(f"e{i}" for i in range(width))
    text = ", ".join([f"{kept} AS o0", *(f"e{i} AS o{i + 1}" for i in range(width))])
    columns = ((("o0", relation.type(kept))), *((f"o{i + 1}", OPAQUE) for i in range(width)))
    return Query(
        f"SELECT {text} FROM {relation.name} LATERAL VIEW {outer}{function}({name}) g AS {names}"
        f"{where(draw, relation)}",
        columns,
        f"{outer.lower()}{function}",
    )


KINDS = (
    projection,
    join,
    join,
    cross,
    aggregate,
    aggregate,
    aggregate,
    distinct,
    union,
    generated,
    outer_join,
    outer_join,
    semi_join,
    semi_join,
    window,
    limit,
    scalar_subquery,
)


@st.composite
def views(draw: st.DrawFn, specs: Sequence[TableSpec], count: int) -> dict[str, Query]:
    """Named queries; later ones may read earlier ones."""
    relations = [relation_of(spec) for spec in specs]
    found: dict[str, Query] = {}
    for i in range(count):
        kind = draw(st.sampled_from(KINDS))
        query = kind(draw, relations)
        found[f"v{i}"] = query
        readable = tuple((n, t) for n, t in query.columns if t.family != "opaque")
        if readable:
            relations.append(Relation(f"v{i}", readable))
    return found
