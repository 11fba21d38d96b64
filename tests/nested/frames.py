"""The random programs as functions of DataFrames."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import rekindle
from rekindle.frontends.fixpoints.fixpoint import Fixpoint
from tests.nested.programs import (
    After,
    Both,
    Count,
    Expression,
    First,
    Last,
    Least,
    Named,
    Program,
    Swap,
    Without,
)


def frame(expression: Expression, given: dict[str, DataFrame]) -> DataFrame:
    """A DataFrame of distinct pairs (a, b)."""
    match expression:
        case Named():
            return given[expression.name]
        case Swap():
            return frame(expression.of, given).selectExpr("b AS a", "a AS b")
        case Least():
            return frame(expression.of, given).groupBy("a").agg(F.min("b").alias("b"))
        case Count():
            counted = frame(expression.of, given).agg(F.count("*").alias("n"))
            return counted.selectExpr("int(n % 3) AS a", "int(n % 3) AS b")
        case Last():
            number = "row_number() OVER (PARTITION BY a ORDER BY b DESC) AS n"
            numbered = frame(expression.of, given).selectExpr("*", number)
            return numbered.where("n <= 2").select("a", "b")
        case First():
            return frame(expression.of, given).orderBy("a", "b").limit(3)
    left, right = frame(expression.left, given), frame(expression.right, given)
    match expression:
        case Both():
            return left.union(right).distinct()
        case Without():
            return left.join(right.selectExpr("a AS c", "b AS d"), F.expr(_SAME), "left_anti")
        case After():
            return (
                left.selectExpr("a", "b AS m")
                .join(right.selectExpr("a AS m", "b"), "m")
                .select("a", "b")
                .distinct()
            )


_SAME = "a = c AND b = d"


def fixpoint(program: Program, edges: DataFrame) -> Fixpoint:
    """The program as a fixpoint whose step uses another."""

    def outer(x: DataFrame) -> DataFrame:
        seed = frame(program.inner_seed, {"e": edges, "x": x})
        y = rekindle.fixpoint(
            seed,
            lambda y: frame(program.inner, {"e": edges, "x": x, "y": y}),
            **_until(program.steps[1], program.limit),
        ).dataframe()
        return frame(program.outer, {"e": edges, "x": x, "y": y})

    first = frame(program.outer_seed, {"e": edges})
    return rekindle.fixpoint(first, outer, **_until(program.steps[0], program.limit))


def _until(steps: int | None, limit: int) -> dict[str, int]:
    return {"iterations": limit} if steps is None else {"limit": steps}
