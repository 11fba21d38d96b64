"""Random aggregates: every function of Spark that the rows of a group determine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.property import values
from tests.property.relations import BIGINT, OPAQUE, Drawing, Query, Relation, predicate, where
from tests.property.values import Type

NUMBERS = ("integer", "decimal", "float")
LEVEL = ("integer", "decimal", "string", "date", "timestamp", "timestamp_ntz")
"""Types of which equal values are the same value."""
COMPARED = (
    *LEVEL, "integer-payload", "boolean", "binary", "duration", "months", "time", "special",
    "struct", "array",
)  # fmt: skip
COLLECTED = tuple(family for family in COMPARED if family != "months")
"""Types of which an array can be stored."""


@dataclass(frozen=True)
class Form:
    """An aggregate of a column `{c}` of some families; `{d}` is a number as DOUBLE.

    `is_followed` says that it needs no more than a bounded part of a group without a key. A `plain`
    one is a call that FILTER can follow. One that is `alone` is the only one of its query: Spark
    fails on several DISTINCTs, or one with a FILTER, where any has an order; and beside one that
    needs all rows of a group the others are computed from them too.
    """

    text: str
    families: tuple[str, ...] = NUMBERS
    is_followed: bool = False
    plain: bool = True
    alone: bool = False
    type: Type | None = OPAQUE
    """None is the type of the column."""


def _followed(text: str, *families: str, plain: bool = True, type_: Type | None = OPAQUE) -> Form:
    return Form(text, families or NUMBERS, is_followed=True, plain=plain, type=type_)


AGGREGATES: Mapping[str, Form] = {
    "count(*)": _followed("count(*)", type_=BIGINT),
    "count": _followed("count({c})", *COMPARED, "map", "variant", "collated", type_=BIGINT),
    "count of two": _followed("count({c}, {d})", type_=BIGINT),
    "count_if": _followed("count_if({c})", "boolean", type_=BIGINT),
    "sum": _followed("sum({c})"),
    "avg": _followed("avg({c})"),
    "sum and count": _followed("sum({c}) + count(*)", plain=False),
    "sum of NaN and infinity": _followed("sum({c})", "special"),
    "avg of NaN and infinity": _followed("avg({c})", "special"),
    "stddev": _followed("stddev({d})"),
    "stddev_pop": _followed("stddev_pop({d})"),
    "variance": _followed("variance({d})"),
    "var_pop": _followed("var_pop({d})"),
    "covar_pop": _followed("covar_pop({d}, {d} * 2)"),
    "covar_samp": _followed("covar_samp({d}, CAST(length('ab') AS DOUBLE))"),
    "corr": _followed("corr({d}, {d} * {d})"),
    "regr_count": _followed("regr_count({d}, {d})", type_=BIGINT),
    "bool_and": _followed("bool_and({c})", "boolean", type_=values.BOOLEAN),
    "bool_or": _followed("bool_or({c})", "boolean", type_=values.BOOLEAN),
    "min": _followed("min({c})", *COMPARED, type_=None),
    "max": _followed("max({c})", *COMPARED, type_=None),
    "min_by": _followed("min_by({c}, named_struct('o', {k}, 'c', {c}))", *LEVEL),
    "max_by": _followed("max_by({c}, named_struct('o', {k}, 'c', {c}))", *LEVEL),
    "min of a collation": _followed("lower(CAST(min({c}) AS STRING))", "collated", plain=False),
    "max of a collation": _followed("lower(CAST(max({c}) AS STRING))", "collated", plain=False),
    "count(DISTINCT)": _followed("count(DISTINCT {c})", *COMPARED, "collated", type_=BIGINT),
    "count(DISTINCT) of two": _followed("count(DISTINCT {c}, {k})", *LEVEL, type_=BIGINT),
    "sum(DISTINCT)": _followed("sum(DISTINCT {c})"),
    "avg(DISTINCT)": _followed("avg(DISTINCT {c})"),
    "collect_list": Form("sort_array(collect_list({c}))", COLLECTED, plain=False),
    "array_agg": Form("size(array_agg({c}))", COLLECTED, plain=False),
    "collect_set": Form("sort_array(collect_set({c}))", LEVEL, plain=False),
    "percentile": Form("percentile({c}, 0.3)"),
    "percentile of several": Form("percentile({c}, array(0.0, 0.75))"),
    "percentile_cont": Form("percentile_cont(0.25) WITHIN GROUP (ORDER BY {c})"),
    "percentile_disc": Form("percentile_disc(0.25) WITHIN GROUP (ORDER BY {c} DESC)"),
    "median": Form("median({c})"),
    "median alone": Form("median({c})", ("integer", "float"), is_followed=True, alone=True),
    "mode": Form("mode({c}, true)", LEVEL),
    "mode within group": Form("mode() WITHIN GROUP (ORDER BY {c} DESC)", LEVEL),
    "listagg": Form("listagg({c}, ',') WITHIN GROUP (ORDER BY {c})", ("string",), alone=True),
    "listagg(DISTINCT)": Form(
        "listagg(DISTINCT {c}) WITHIN GROUP (ORDER BY {c})", ("string",), alone=True
    ),
    "approx_count_distinct": Form("approx_count_distinct({c})", LEVEL),
    "approx_percentile": Form("approx_percentile({c}, 0.5)"),
    "approx_top_k": Form(
        "array_max(transform(approx_top_k({c}), e -> e.count))", ("integer",), plain=False
    ),
    "hll_sketch": Form(
        "hll_sketch_estimate(hll_sketch_agg(CAST({c} AS INT)))", ("integer",), plain=False
    ),
    "count_min_sketch": Form(
        "hex(count_min_sketch({c}, 0.5D, 0.5D, 1))", ("integer",), plain=False
    ),
    "bit_and": Form("bit_and({c})", ("integer", "integer-payload")),
    "bit_or": Form("bit_or({c})", ("integer", "integer-payload")),
    "bit_xor": Form("bit_xor({c})", ("integer", "integer-payload")),
    "skewness": _followed("skewness({d})"),
    "kurtosis": _followed("kurtosis({d})"),
    **{
        f"regr_{name}": _followed(f"regr_{name}({{d}}, CAST({{k}} AS DOUBLE))")
        for name in ("slope", "intercept", "r2", "avgx", "avgy", "sxx", "sxy", "syy")
    },
    # Equal values from two partitions are two bins.
    "histogram_numeric": Form(
        "array_distinct(transform(histogram_numeric({c}, 100), b -> b.x))", plain=False
    ),
    # A sum of long integers depends on the order in which it overflows, and is refused.
    "try_sum": Form("try_sum(try_cast({c} AS INT))"),
    "try_avg": Form("try_avg(try_cast({c} AS INT))"),
    "sum of intervals": Form("sum({c})", ("duration", "months")),
    "avg of intervals": Form("avg({c})", ("duration",)),
}
GROUPINGS = ("keys", "ROLLUP", "CUBE", "GROUPING SETS", "grouping()", "no keys", "a collated key")
MODIFIERS = ("FILTER", "HAVING", "several DISTINCTs")


def measures(draw: Drawing, relation: Relation) -> tuple[list[tuple[str, Type]], bool]:
    """Aggregates of a relation, and whether each can be followed without a key."""
    usable = {
        name: (form, relation.of(*form.families))
        for name, form in AGGREGATES.items()
        if relation.of(*form.families) and ("{k}" not in form.text or relation.of("integer"))
    }
    usable.setdefault("count(*)", (AGGREGATES["count(*)"], [""]))
    found: list[tuple[str, Type]] = []
    followed = True
    together = {name: each for name, each in usable.items() if not each[0].alone}
    for _ in range(draw.number(1, 4)):
        form, columns = draw.pick("aggregate", together if found else usable)
        followed &= form.is_followed
        text, type_ = _filled(draw, relation, form, columns)
        if form.alone:
            return [(text, type_)], followed
        if form.plain and draw.now_and_then("modifier", "FILTER", 5):
            text = f"{text} FILTER (WHERE {predicate(draw, relation)})"
        found.append((text, type_))
    distinct = [name for name in relation.ordered if relation.of("integer")]
    if distinct and draw.now_and_then("modifier", "several DISTINCTs", 8):
        number = draw.among(relation.of("integer"))
        found += [
            (f"count(DISTINCT {draw.among(distinct)})", BIGINT),
            (f"sum(DISTINCT CAST({number} AS BIGINT) % 3)", OPAQUE),
        ]
    return found, followed


def _filled(
    draw: Drawing, relation: Relation, form: Form, columns: Sequence[str]
) -> tuple[str, Type]:
    column = draw.among(columns)
    key = draw.among(relation.of("integer") or [column])
    text = form.text.format(c=column, d=f"CAST({column} AS DOUBLE)", k=key)
    return text, relation.type(column) if form.type is None else form.type


def aggregate(draw: Drawing, relations: Sequence[Relation]) -> Query:
    relation = draw.among(relations)
    keys = draw.some([k for k in relation.keys if relation.type(k).family != "opaque"], 1, 2)
    collated = relation.of("collated")
    offered = [
        name
        for name in GROUPINGS
        if (keys or name in ("no keys", "a collated key")) and (collated or "collated" not in name)
    ]
    grouping = draw.name("grouping", offered)
    found, followed = measures(draw, relation)
    shown = [(key, relation.type(key)) for key in keys]
    listed = ", ".join(keys)
    match grouping:
        case "keys":
            group = f" GROUP BY {listed}"
        case "no keys":
            shown, group = [], ""
        case "a collated key":
            key = draw.among(collated)
            shown, group = [(f"lower(CAST({key} AS STRING))", OPAQUE)], f" GROUP BY {key}"
        case "GROUPING SETS":
            group = f" GROUP BY GROUPING SETS (({listed}), ({keys[-1]}), ())"
        case "grouping()":
            shown += [(f"grouping({keys[0]})", OPAQUE), ("grouping_id()", OPAQUE)]
            group = f" GROUP BY CUBE({listed})"
        case _:
            group = f" GROUP BY {grouping}({listed})"
    outputs = shown + found
    columns = tuple((f"o{i}", type_) for i, (_, type_) in enumerate(outputs))
    text = ", ".join(f"{e} AS o{i}" for i, (e, _) in enumerate(outputs))
    having = ""
    if draw.now_and_then("modifier", "HAVING"):
        having = draw.among([" HAVING count(*) > 1", " HAVING sum(1) < 3"])
    return Query(
        f"SELECT {text} FROM {relation.name}{where(draw, relation)}{group}{having}",
        columns,
        may_recompute=not followed and grouping == "no keys",
    )


def aggregate_over_join(draw: Drawing, relations: Sequence[Relation]) -> Query:
    """Sums over a join of two, by a key of either."""
    left, right = draw.among(relations), draw.among(relations)
    mine, other = left.of("integer"), right.of("integer")
    if not mine or not other:
        return aggregate(draw, relations)
    one, two = draw.among(mine), draw.among(other)
    key = draw.among([f"a.{name}" for name in mine] + [f"b.{name}" for name in other])
    product = f"sum(CAST(a.{one} AS BIGINT) * b.{two})"
    return Query(
        f"SELECT {key} AS o0, count(*) AS o1, {product} AS o2, max(b.{two}) AS o3 "
        f"FROM {left.name} a JOIN {right.name} b ON a.{draw.among(mine)} = b.{two} GROUP BY {key}",
        (("o0", BIGINT), ("o1", BIGINT)),
    )
