"""The list of classes lets through what Spark's own functions are, and nothing that runs code."""

from __future__ import annotations

import re

import pytest
from pyspark.sql import SparkSession

from rekindle.catalyst import stored_objects
from rekindle.catalyst.jvm import Catalyst, items
from rekindle.catalyst.stored_objects import read_listed
from rekindle.errors import RekindleError, UntrustedError
from rekindle.frontends.spark_sql.analyse import parse
from rekindle.frontends.spark_sql.stored_queries import refuse_code
from tests.hostile.corpus import HOSTILE_SQL, PROPERTY
from tests.hostile.payloads import java_payloads

CODE = {"java_method", "reflect", "try_reflect", "schema_of_xml"}
"""Functions whose expressions are not on the list; the last one only loses time."""

SOME = [
    *("day", "aes_encrypt", "to_json", "parse_url", "transform", "approx_percentile"),
    *("parse_json", "date_format"),
]


def refusals(spark: SparkSession, names: list[str]) -> dict[str, str]:
    """The functions of which an example does not come back from its stored form, and why."""
    catalyst = Catalyst(spark)
    replace = catalyst.module("org.apache.spark.sql.catalyst.optimizer.ReplaceExpressions")
    catalog = spark._jsparkSession.sessionState().catalog()  # type: ignore[attr-defined]
    identifier = catalyst.class_("org.apache.spark.sql.catalyst.FunctionIdentifier")
    refused: dict[str, str] = {}
    for name in names:
        examples = catalog.lookupFunctionInfo(identifier(name)).getExamples()
        for query in re.findall(r"> (SELECT.*?);\s*$", examples, re.DOTALL | re.MULTILINE):
            try:
                plan = replace.apply(spark.sql(query)._jdf.queryExecution().analyzed())
                data = catalyst.serialise([plan])
                catalyst.deserialise(data)
            except Exception:
                continue  # Spark itself does not take or does not write the example.
            try:
                (again,) = read_listed(catalyst, data)
                # Tags of a tree are not stored, and some say by which name it is shown.
                assert again.schema().json() == plan.schema().json()
                assert again.getClass().getName() == plan.getClass().getName()
            except UntrustedError as error:
                refused[name] = error.detail
    return refused


def test_some_functions_come_back(spark: SparkSession) -> None:
    assert refusals(spark, SOME) == {}
    assert set(refusals(spark, ["reflect"])) == {"reflect"}


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_every_function_of_spark_comes_back(spark: SparkSession) -> None:
    registry = spark._jsparkSession.sessionState().functionRegistry()  # type: ignore[attr-defined]
    names = sorted({str(each.funcName()) for each in items(registry.listFunction())})
    assert len(names) > 400
    assert set(refusals(spark, names)) <= CODE


def outcomes(spark: SparkSession) -> tuple[list[str], list[str]]:
    """The payloads that were read as expressions, and those of which objects were made at all."""
    catalyst = Catalyst(spark)
    read, made = [], []
    for name, data in java_payloads(spark).items():
        try:
            read_listed(catalyst, data)
            read.append(name)
        except UntrustedError as error:
            if "no expressions" in error.detail:
                made.append(name)
    return read, made


def test_payloads_are_refused(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    read, made = outcomes(spark)
    assert read == [] and set(made) <= {"a length that lies"}  # No more than bytes.
    assert spark._jvm.System.getProperty(PROPERTY) is None  # type: ignore[union-attr]
    # Without the filter their objects are made.
    monkeypatch.setattr(stored_objects, "FILTER", "*")
    assert {"a map of a URL", "a lambda of another class", "a file"} <= set(outcomes(spark)[1])


@pytest.mark.parametrize("name", HOSTILE_SQL)
def test_hostile_queries_are_refused(spark: SparkSession, name: str) -> None:
    catalyst = Catalyst(spark)
    with pytest.raises(RekindleError):
        refuse_code(catalyst, parse(catalyst, HOSTILE_SQL[name]), ["t", "n"])


@pytest.mark.parametrize(
    "query",
    [
        "WITH q AS (SELECT k FROM t) SELECT q.k, abs(t.x) FROM q JOIN t USING (k)",
        "SELECT k, count(*) FILTER (WHERE x > 1) OVER (PARTITION BY k) FROM t WHERE k IN "
        "(SELECT k FROM n) ORDER BY k LIMIT 3",
        "SELECT k, transform(array(x), e -> e + 1) FROM t LATERAL VIEW explode(array(1)) AS e",
        "SELECT * FROM t PIVOT (sum(x) FOR k IN (1, 2))",
        "SELECT k FROM t UNION ALL VALUES (1), (2)",
        "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT * "
        "FROM r, range(3)",
        "SELECT k, sum(x) FROM t GROUP BY CUBE (k, x) HAVING sum(x) > 1",
        "SELECT * FROM t, LATERAL (SELECT name FROM n WHERE n.k = t.k)",
    ],
)
def test_plain_queries_pass(spark: SparkSession, query: str) -> None:
    catalyst = Catalyst(spark)
    refuse_code(catalyst, parse(catalyst, query), ["t", "n"])
