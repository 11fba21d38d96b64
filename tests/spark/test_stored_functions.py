"""Python functions of a database are run by the Python of the session that opens it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from rekindle.catalyst.jvm import Catalyst
from rekindle.catalyst.stored_functions import _functions, read_trusted
from rekindle.catalyst.stored_plans import storable

ELSEWHERE = "/another/machine/bin/python"


def _projected(rows: DataFrame) -> DataFrame:
    plus = F.udf(lambda a: a + 1, "bigint")
    return rows.select((F.lit(1) + plus(plus("id"))).alias("x")).where(plus("x") > 3)


def _grouped(rows: DataFrame) -> DataFrame:
    return rows.groupBy("id").applyInPandas(lambda group: group, "id bigint")


def _cogrouped(rows: DataFrame) -> DataFrame:
    groups = rows.groupBy("id").cogroup(rows.groupBy("id"))
    return groups.applyInPandas(lambda left, right: left, "id bigint")


def _generated(rows: DataFrame) -> DataFrame:
    @F.udtf(returnType="y bigint")
    class Twice:
        def eval(self, x: int):  # type: ignore[no-untyped-def]
            yield (2 * x,)

    return rows.lateralJoin(Twice(F.col("id").outer()))


@pytest.mark.parametrize("made", [_projected, _grouped, _cogrouped, _generated])
def test_the_interpreter_is_that_of_the_session(
    made: Callable[[DataFrame], DataFrame], spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalyst = Catalyst(spark)
    with monkeypatch.context() as patch:
        patch.setattr(spark.sparkContext, "pythonExec", ELSEWHERE)
        plan = storable(catalyst, made(spark.range(3))._jdf.queryExecution().analyzed())
    assert {str(each.pythonExec()) for each in _functions([plan])} == {ELSEWHERE}
    read = read_trusted(catalyst, catalyst.serialise([plan]))
    found = [str(each.pythonExec()) for each in _functions(read)]
    assert found and set(found) == {spark.sparkContext.pythonExec}


@pytest.mark.parametrize("made", [_projected, _grouped, _cogrouped, _generated])
def test_a_function_is_stored_and_read_any_number_of_times(
    made: Callable[[DataFrame], DataFrame], spark: SparkSession
) -> None:
    """As each upgrade does it that fills a view anew."""
    catalyst = Catalyst(spark)
    plan = storable(catalyst, made(spark.range(3, 6))._jdf.queryExecution().analyzed())
    for _ in range(4):
        (plan,) = read_trusted(catalyst, catalyst.serialise([plan]))
    assert _functions([plan])


def test_a_function_that_was_read_again_and_again_still_runs(spark: SparkSession) -> None:
    catalyst = Catalyst(spark)
    rows = _projected(spark.range(3, 6))
    plan = storable(catalyst, rows._jdf.queryExecution().analyzed())
    for _ in range(4):
        (plan,) = read_trusted(catalyst, catalyst.serialise([plan]))
    assert sorted(catalyst.dataframe(plan).collect()) == sorted(rows.collect())
