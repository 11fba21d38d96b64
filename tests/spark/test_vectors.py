"""Expressions on Arrow columns give what Spark gives."""

from __future__ import annotations

import datetime as dt
import itertools
import math
import random
from decimal import Context, Decimal

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession

from rekindle.catalyst.jvm import Catalyst, items
from rekindle.catalyst.numbering import nulls_last
from rekindle.errors import EvaluationError
from rekindle.frontends.spark_sql.ordering import prefix
from rekindle.runtime.database import Database
from rekindle.spark.compiled_stages import Channel
from rekindle.spark.vectors import Vectors
from tests.spark.helpers import refused, rows

KNOWN = [
    "a = b",
    "a < b AND b <= 3",
    "a > b OR b >= 0",
    "NOT (a = b)",
    "a IS NULL OR b IS NOT NULL",
    "s = 'x'",
    "s < t",
    "d <= date '2024-01-02'",
    "a + b * 2 - 1",
    "CAST(i AS BIGINT) + a",
    "CAST(a AS DOUBLE)",
    "CAST(a * 3002399751580331 AS DOUBLE)",  # 3 times this has one bit more than a double
    "CAST(i * 5592407 AS FLOAT)",  # and this than a float
    "i + i",
    "greatest(a, b)",
    "coalesce(a, b, 7L)",
    "f AND a = 1",
    "x + y * 2.5D - 1D",
    "coalesce(x, y)",
    "x = y",
    "x < y",
    "x <= n",
    "n > x",
    "n >= n",
    "n = x",
    "n <=> x",
    "x / y",
    "a <=> b",
    "s <=> t",
    "m * (1.00 - m)",
    "CAST(a AS DECIMAL(32, 4)) * CAST(i AS DECIMAL(16, 2))",  # more digits than there are
    "m + k",
    "m - k < 0.000",
    "m <= 12.34",
    "CAST(a AS DECIMAL(25, 3)) * k",
    "CAST(m AS DECIMAL(20, 4))",
    "a IN (1L, 3L)",
    "s IN ('x', 'é', 'z')",
    "d IN (date '2024-01-01')",
    "CASE WHEN a > 0 THEN a WHEN b > 0 THEN b ELSE 0L END",
    "CASE WHEN a > b THEN m END",
    "CASE WHEN s = 'x' THEN 'one' ELSE t END",
    "if(a = b, x, y)",
    "year(d)",
    "s LIKE 'x%'",
    "s LIKE '%y'",
    "s LIKE '%x%'",
    "w LIKE '%a_c%d%'",
    "w LIKE '_'",
    "w LIKE 'a.c'",
    "substring(w, 2, 3)",
    "substring(w, 1, 0)",
    "CAST(m AS DECIMAL(15, 1))",
    "CAST(m AS DOUBLE)",
    "CAST(k AS DECIMAL(38, 9)) / 3.7",
    "k / CAST(7 AS DECIMAL(38, 4))",
    "m / 7.0",
    "m / 8BD",
    "CAST(a AS DECIMAL(38, 0)) / 3.0",
    "CAST(k AS DECIMAL(30, 20)) / CAST(3 AS DECIMAL(38, 0))",
    "struct(a, s) = struct(b, t)",
    "struct(k, d) = struct(k, d)",
    "a ^ b",
    "named_struct('i', 0, 's', s, 'r', struct(a, x))",
    "struct(a, s).s",
    "r.w",
    "r.q.x = w",
    "r = q",
    "r <=> q",
    "r = q AND r.a > 0L",
    "named_struct('a', a, 'r', r).r <=> q",
]
UNKNOWN = [
    "a % b",
    "try_divide(x, y)",
    "upper(s)",
    "s = t COLLATE UTF8_LCASE",
    "a IN (1, NULL)",
    "a IN (b, 2)",
    "rand() < 1",
    "struct(a, x) = struct(b, x)",
    "struct(a, s) < struct(b, t)",
    "r < q",
    "struct(z)",
    "struct(z).z",
    "CAST(k AS DECIMAL(38, 9)) * CAST(k AS DECIMAL(38, 9))",  # more digits than there are
    "w LIKE 'a!%' ESCAPE '!'",
    "substring(w, -2, 1)",
    "substring(w, i, 1)",
]


def _rows() -> pa.Table:
    numbers = [None, -3, 0, 1, 3]
    pairs = list(itertools.product(numbers, numbers))
    texts = itertools.cycle([None, "", "x", "é", "xy", "X"])
    days = itertools.cycle([None, dt.date(2024, 1, 1), dt.date(2024, 1, 3), dt.date(1582, 10, 4)])
    flags = itertools.cycle([None, True, False, True])
    floats = itertools.cycle([None, 0.1, -0.0, 1e308])
    others = itertools.cycle([2.0, -1e308, 0.3])
    odd = itertools.cycle([math.nan, 0.0, math.inf, None, -0.0, math.nan, -1.5])
    prices = itertools.cycle([None, Decimal("12.34"), Decimal("-9999999999999.99"), Decimal(0)])
    rates = itertools.cycle([Decimal("0.050"), None, Decimal("-1.000")])
    words = itertools.cycle(["abcd", None, "", "a\nc\nd", "é", "xaécxdx", "a.c", "ac", "𝄞bc"])
    cycles = [texts, texts, days, flags, floats, others, odd, prices, rates, words]
    given = [(a, b, b, *map(next, cycles)) for a, b in pairs for _ in range(3)]
    types = [pa.int64(), pa.int64(), pa.int32(), pa.string(), pa.string(), pa.date32()]
    types += [pa.bool_(), pa.float64(), pa.float64(), pa.float64()]
    types += [pa.decimal128(15, 2), pa.decimal128(6, 3), pa.string()]
    columns = [
        pa.array(values, type_)
        for values, type_ in zip(zip(*given, strict=True), types, strict=True)
    ]
    table = pa.Table.from_arrays(columns, names=list("abistdfxynmkw"))
    texts, others = table["w"].to_pylist(), table["s"].to_pylist()
    inner = [None if n % 3 else {"x": text} for n, text in enumerate(others)]
    numbers = table["a"].to_pylist()
    found = [
        {"a": a, "w": w, "q": q} if n % 5 else None
        for n, (a, w, q) in enumerate(zip(numbers, texts, inner, strict=True))
    ]
    moved = [*found[:20], None, *found[20:-1]]
    type_ = pa.struct(
        [("a", pa.int64()), ("w", pa.string()), ("q", pa.struct([("x", pa.string())]))]
    )
    table = table.append_column("r", pa.array(found, type_))
    table = table.append_column("q", pa.array(moved, type_))
    return table.append_column("z", pa.array([[1]] * len(table)))


@pytest.mark.parametrize("text", KNOWN)
def test_a_known_shape_means_what_spark_says(spark: SparkSession, text: str) -> None:
    table = _rows()
    frame = spark.createDataFrame(table).selectExpr("*", f"{text} AS result")
    plan = frame._jdf.queryExecution().analyzed()
    compiled = Vectors(items(plan.child().output())).vector(items(plan.projectList())[-1].child())
    assert compiled is not None
    # As a task does it, which gets it pickled.
    found = cloudpickle.loads(cloudpickle.dumps(compiled))(table.columns)
    expected = frame.select("result").toArrow().column(0)
    # Stored rows may have NULL in every field.
    assert str(found.type) == str(expected.type).replace(" not null", "")
    assert list(map(repr, found.to_pylist())) == list(map(repr, expected.to_pylist()))


@pytest.mark.parametrize("text", UNKNOWN)
def test_any_other_shape_is_left_to_spark(spark: SparkSession, text: str) -> None:
    plan = spark.createDataFrame(_rows()).selectExpr(f"{text} AS r")._jdf.queryExecution()
    analysed = plan.analyzed()
    inputs = items(analysed.child().output())
    assert Vectors(inputs).vector(items(analysed.projectList())[0].child()) is None


@pytest.mark.parametrize("direction", ["Ascending", "Descending"])
def test_a_prefix_of_an_order_is_sparks(spark: SparkSession, direction: str) -> None:
    table = _rows().select(["a", "i"])
    frame = spark.createDataFrame(table)
    inputs = items(frame._jdf.queryExecution().analyzed().output())
    catalyst = Catalyst(spark)
    for position, attribute in enumerate(inputs):
        expression = prefix(catalyst, nulls_last(catalyst, attribute, direction))
        compiled = Vectors(inputs).vector(expression)
        assert compiled is not None
        values = table.column(position).to_pylist()
        sign = 1 if direction == "Ascending" else -1
        ordered = sorted(zip(compiled(table.columns).to_pylist(), values, strict=True))
        by_value = sorted(values, key=lambda v: (v is None, sign * (v or 0)))
        assert [value for _, value in ordered] == by_value


DIGITS = [(5, 2), (15, 2), (18, 4), (20, 0), (25, 10), (38, 0), (38, 4), (38, 20), (38, 37)]


@pytest.mark.parametrize(
    ("sign", "name", "least"),
    [
        ("+", "try_add", 1400),
        ("-", "try_subtract", 1400),
        ("*", "try_multiply", 1500),
        ("/", "try_divide", 3000),
    ],
)
def test_arithmetic_of_decimals_of_all_sizes_is_sparks(
    spark: SparkSession, sign: str, name: str, least: int
) -> None:
    """Where results are computed at all, they have every digit, and Spark's type."""
    chance = random.Random(5)

    def value(precision: int, scale: int) -> Decimal:
        size = chance.randrange(1, precision + 1)
        number = chance.choice([1, -1]) * (chance.randrange(10**size - 1) + 1)
        return Decimal(number).scaleb(-scale, Context(prec=40))

    table = pa.table(
        {
            f"{side}{i}": pa.array([value(*digits) for _ in range(60)], pa.decimal128(*digits))
            for side in "xy"
            for i, digits in enumerate(DIGITS)
        }
    )
    frame = spark.createDataFrame(table)
    inputs = items(frame._jdf.queryExecution().analyzed().output())
    pairs = list(itertools.product(range(len(DIGITS)), repeat=2))
    results = frame.selectExpr(*(f"{name}(x{i}, y{j}) AS q{i}_{j}" for i, j in pairs)).toArrow()
    computed = 0
    for i, j in pairs:
        expected = results.column(f"q{i}_{j}")
        plan = frame.selectExpr(f"x{i} {sign} y{j} AS q")._jdf.queryExecution().analyzed()
        compiled = Vectors(inputs).vector(items(plan.projectList())[0].child())
        if compiled is None:
            continue
        for row in range(len(table)):
            part = table.slice(row, 1)
            try:
                found = compiled(part.columns)
            except pa.ArrowInvalid:
                continue  # Spark is asked then.
            computed += 1
            assert found.type == expected.type, (DIGITS[i], DIGITS[j])
            assert found.to_pylist() == [expected[row].as_py()], (DIGITS[i], DIGITS[j])
    assert computed > least


def test_a_product_of_too_many_digits_is_sparks(db: Database) -> None:
    db.sql("CREATE TABLE t (m DECIMAL(30, 2), k DECIMAL(16, 2))")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT m * k AS p FROM t")
    db.sql("INSERT INTO t VALUES (1e27, 2.5)")  # only the type of m has room for it
    assert rows(db, "v") == {(Decimal("2500000000000000000000000000.0000"),): 1}
    with refused(db, EvaluationError, "NUMERIC_VALUE_OUT_OF_RANGE"):
        db.sql("INSERT INTO t VALUES (1e27, 99999999999999.99)")


def test_an_overflow_is_sparks_error(db: Database) -> None:
    db.sql("CREATE TABLE t (a BIGINT, b BIGINT)")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT a, a + b AS s FROM t WHERE b > 0")
    db.sql(f"INSERT INTO t VALUES ({2**63 - 1}, -1), (1, 2)")
    assert rows(db, "v") == {(1, 3): 1}
    with refused(db, EvaluationError, "overflow"):
        db.sql(f"INSERT INTO t VALUES ({2**63 - 1}, 1)")


def test_sums_averages_and_limits_of_decimals_need_no_jvm(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    db.sql("CREATE TABLE t (k INT, p DECIMAL(15, 2), q DECIMAL(15, 2))")
    db.create_view(
        "v",
        "SELECT k, sum(p * (1 - q)) AS s, avg(p) AS a, sum(p) / 7.0 AS d FROM t "
        "GROUP BY k ORDER BY s DESC, k LIMIT 2",
    )
    monkeypatch.setattr(Channel, "exchange", None)
    some = [(i % 4, Decimal(i * i) / 4, Decimal(i) / 100) for i in range(40)]
    with db.transaction() as tx:
        tx.insert("t", [*some, (5, None, Decimal(1)), (None, Decimal("-0.01"), Decimal(0))])
    assert db.check("v").rows == 2
    with db.transaction() as tx:
        tx.delete("t", some[3::4])
    assert db.check("v").rows == 2
