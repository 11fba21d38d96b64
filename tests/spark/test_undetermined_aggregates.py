"""Every aggregate function of Spark: taken, or refused since its rows do not determine it.

The list is Spark's own registry: a function that a new version brings must be told here.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import rekindle
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
