"""Every aggregate function of Spark: taken, or refused since its rows do not determine it.

The list is Spark's own registry: a function that a new version brings must be told here.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import rekindle
from rekindle.errors import UndeterminedError
from rekindle.runtime.database import Database

PICKS = "takes any row of the group"
OVERFLOW = "is NULL if the sum of some rows is out of range"
TAKEN = "is followed, exactly or by Spark from the rows of the touched groups"

CALLS = {
    **dict.fromkeys(["any_value", "first", "first_value", "last", "last_value"], ("{f}(b)", PICKS)),
    "try_sum": ("try_sum(b)", OVERFLOW),
    **dict.fromkeys(
        [
            "any", "approx_count_distinct", "avg", "bit_and", "bit_or", "bit_xor", "bool_and",
            "bool_or", "collect_list", "collect_set", "count", "array_agg", "every", "kurtosis",
            "max", "mean", "median", "min", "mode", "skewness", "some", "std", "stddev",
            "stddev_pop", "stddev_samp", "sum", "try_avg", "var_pop", "var_samp", "variance",
            "count_if", "listagg", "string_agg",
        ],
        ("", TAKEN),
    ),
}  # fmt: skip
BOOLEANS = ("any", "bool_and", "bool_or", "every", "some", "count_if")
TEXTS = ("listagg", "string_agg")


def registered(spark: SparkSession) -> set[str]:
    """The aggregate functions that Spark knows."""
    jvm = spark._jvm
    assert jvm is not None
    infos = jvm.org.apache.spark.sql.api.python.PythonSQLUtils.listBuiltinFunctionInfos()
    return {str(info.getName()) for info in infos if str(info.getGroup()) == "agg_funcs"}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Database]:
    with rekindle.connect(str(tmp_path_factory.mktemp("shop")), spark=spark) as db:
        db.sql(
            "CREATE TABLE t (k INT, gid INT, i INT, b BIGINT, d DOUBLE, s STRING, f BOOLEAN,"
            " n DECIMAL(28, 2), w DECIMAL(38, 2), y INTERVAL YEAR TO MONTH)"
        )
        yield db


def call_of(name: str) -> str:
    form, _ = CALLS[name]
    if form:
        return form.format(f=name)
    return f"{name}({'f' if name in BOOLEANS else 's' if name in TEXTS else 'i'})"


@pytest.mark.parametrize("name", sorted(CALLS))
def test_each_is_taken_or_refused_for_its_reason(shop: Database, name: str) -> None:
    query = f"SELECT k, {call_of(name)} AS x FROM t GROUP BY k"
    if CALLS[name][1] is TAKEN:
        shop.create_view("v", query)
        shop.sql("DROP VIEW v")
        return
    with pytest.raises(UndeterminedError, match="not determined"):
        shop.create_view("v", query)


@pytest.mark.parametrize(
    ("call", "taken"),
    [
        ("try_sum(i)", True),
        ("try_sum(d)", True),
        ("try_sum(n)", True),
        ("try_avg(b)", True),
        ("try_sum(b)", False),
        ("try_sum(w)", False),
        ("try_avg(w)", False),
        ("try_sum(y)", False),
        ("try_avg(y)", False),
        ("sum(b)", True),
        ("kll_sketch_agg_bigint(b)", False),
        ("kll_sketch_agg_double(d)", False),
        # A user's own column may be called as the number is by which Catalyst tells copies apart.
        ("first(i) FILTER (WHERE gid = 1)", False),
        ("count(DISTINCT i), sum(DISTINCT b), count(*)", True),
    ],
)
def test_what_depends_on_the_order_of_rows_is_refused(
    shop: Database, call: str, taken: bool
) -> None:
    calls = ", ".join(f"{each} AS x{i}" for i, each in enumerate(call.split(", ")))
    query = f"SELECT k, {calls} FROM t GROUP BY k"
    if taken:
        shop.create_view("v", query)
        shop.sql("DROP VIEW v")
        return
    with pytest.raises(UndeterminedError, match="not determined"):
        shop.create_view("v", query)


def test_a_window_in_a_correlated_subquery_follows_changes(shop: Database) -> None:
    shop.sql("CREATE TABLE o (item INT, a INT)")
    shop.sql("CREATE TABLE p (id INT)")
    shop.create_view(
        "numbered",
        "SELECT id, a, n FROM p, LATERAL (SELECT a, row_number() OVER (ORDER BY a) AS n"
        " FROM o WHERE o.item = p.id)",
    )
    with shop.transaction() as tx:
        tx.insert("p", [(1,), (2,)])
        tx.insert("o", [(1, 5), (1, 3), (2, 9), (3, 1)])
    assert sorted(map(tuple, shop.table("numbered").collect())) == [(1, 3, 1), (1, 5, 2), (2, 9, 1)]
    with shop.transaction() as tx:
        tx.delete("o", [(1, 3)])
        tx.delete("p", [(2,)])
    assert sorted(map(tuple, shop.table("numbered").collect())) == [(1, 5, 1)]


def test_every_registered_aggregate_is_told_here(shop: Database, spark: SparkSession) -> None:
    """A function that a new version of Spark brings is to be told of above."""
    unknown = sorted(registered(spark) - CALLS.keys() - OTHERS.keys())
    assert unknown == [], "say of each whether its rows determine it"


ELSEWHERE = "is taken; tests of its own try it"
SKETCH = "is taken: Spark computes the sketch of the touched groups anew; not tried here"
DRAWN = "draws at random which values it keeps: refused"
NO_AGGREGATE = "stands for a number of GROUPING SETS, or for a measure of a metric view"
OTHERS: dict[str, str] = {
    **dict.fromkeys(
        [
            "approx_percentile",
            "percentile_approx",
            "corr",
            "covar_pop",
            "covar_samp",
            "max_by",
            "min_by",
            "percentile",
            "percentile_cont",
            "percentile_disc",
            "regr_avgx",
            "regr_avgy",
            "regr_count",
            "regr_intercept",
            "regr_r2",
            "regr_slope",
            "regr_sxx",
            "regr_sxy",
            "regr_syy",
        ],
        ELSEWHERE,
    ),
    **dict.fromkeys(
        [
            "approx_top_k",
            "approx_top_k_accumulate",
            "approx_top_k_combine",
            "bitmap_and_agg",
            "bitmap_construct_agg",
            "bitmap_or_agg",
            "collect_union",
            "count_min_sketch",
            "histogram_numeric",
            "hll_sketch_agg",
            "hll_union_agg",
            "theta_intersection_agg",
            "theta_sketch_agg",
            "theta_union_agg",
            "tuple_intersection_agg_double",
            "tuple_intersection_agg_integer",
            "tuple_sketch_agg_double",
            "tuple_sketch_agg_integer",
            "tuple_union_agg_double",
            "tuple_union_agg_integer",
        ],
        SKETCH,
    ),
    **dict.fromkeys(
        [
            "kll_merge_agg_bigint",
            "kll_merge_agg_double",
            "kll_merge_agg_float",
            "kll_sketch_agg_bigint",
            "kll_sketch_agg_double",
            "kll_sketch_agg_float",
        ],
        DRAWN,
    ),
    **dict.fromkeys(["grouping", "grouping_id", "measure"], NO_AGGREGATE),
}
"""The rest, of more columns or of sketches."""
