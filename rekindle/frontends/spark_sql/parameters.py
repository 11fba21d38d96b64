"""Values for the parameters of a statement: `:name` and `?`, as in `spark.sql(text, args)`.

Spark's parser puts a literal in the place of each parameter, so a value is never read as SQL text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from pyspark.sql import functions as F

from rekindle.catalyst.jvm import Catalyst, JavaObject, analysed_plan, items, simple_name
from rekindle.errors import StatementError
from rekindle.frontends.spark_sql.analyse import check_text, resolving

Arguments: TypeAlias = Mapping[str, Any] | Sequence[Any]
"""Values by the names of parameters, or in the order of their question marks."""

_PARSER = "org.apache.spark.sql.catalyst.parser"


def parse_with(catalyst: Catalyst, text: str, arguments: Arguments) -> JavaObject:
    """The unresolved plan of one SQL statement, with values in the place of its parameters."""
    check_text(text)
    if isinstance(arguments, Mapping):
        wrong = [name for name in arguments if not isinstance(name, str) or not name]
        if wrong:
            raise StatementError(
                f"{wrong[0]!r} is not the name of a parameter",
                hint="that of :id is the text 'id'",
            )
        values = {name: _literal(catalyst, f":{name}", v) for name, v in arguments.items()}
        named = catalyst.class_("org.apache.spark.api.python.PythonUtils").toScalaMap(values)
        given = catalyst.class_(f"{_PARSER}.NamedParameterContext")(named)
    elif isinstance(arguments, Sequence) and not isinstance(arguments, str | bytes | bytearray):
        listed = [_literal(catalyst, f"? number {i + 1}", v) for i, v in enumerate(arguments)]
        given = catalyst.class_(f"{_PARSER}.PositionalParameterContext")(catalyst.seq(listed))
    else:
        raise StatementError(
            f"the arguments of a statement cannot be a {type(arguments).__name__}",
            hint="give a dict for :names, or a list for question marks",
        )
    with resolving(()):
        return catalyst.session.sessionState().sqlParser().parsePlanWithParameters(text, given)


def _literal(catalyst: Catalyst, parameter: str, value: Any) -> JavaObject:
    """A Python value, or a column of constants, as one literal."""
    try:
        frame = catalyst.spark.range(1).select(F.lit(value).alias("value"))
        folded = catalyst.module("org.apache.spark.sql.catalyst.optimizer.ConstantFolding").apply(
            analysed_plan(frame)
        )
        (column,) = items(folded.projectList())
        literal = column.child()
    except Exception as error:  # Whatever py4j and PySpark make of a value that is none.
        raise _refused(parameter, value, error) from error
    if simple_name(literal) != "Literal":
        raise StatementError(
            f"the parameter {parameter} is not a constant",
            hint="give a Python value, or a column of literals such as create_map(lit(...), ...)",
        )
    return literal


def _refused(parameter: str, value: Any, error: Exception) -> StatementError:
    return StatementError(
        f"the parameter {parameter} cannot be the value {value!r}",
        detail=str(error).strip().split("\n")[0],
        hint="give a value that spark.sql(text, args) takes",
    )
