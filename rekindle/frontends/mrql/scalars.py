"""Functions of MRQL on scalars, as expressions of Spark SQL.

Where Spark and the language differ the language decides: whole numbers divide towards zero, doubles
divide to infinity or NaN, `=` holds between NULL and NULL. Where the language wraps whole numbers
around, Spark says that they overflow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rekindle.errors import UnsupportedError
from rekindle.frontends.mrql.demands import check_arithmetic, check_call, check_order
from rekindle.frontends.mrql.values import (
    BOOLEAN,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    NUMBERS,
    SHORT,
    STRING,
    Many,
    Scalar,
    Sql,
    Type,
    cast,
    widest,
)

Typing = Callable[[str, Sequence[Type]], Type]
"""The type that Spark gives a template over arguments of types."""

KINDS = {"short": SHORT, "int": INT, "long": LONG, "float": FLOAT, "double": DOUBLE}
_ARITHMETIC = ("+", "-", "*", "/", "mod", "%")
_REAL = {
    **{name: f"{name}({{0}})" for name in ("sin", "cos", "tan", "asin", "acos", "atan", "sqrt")},
    "exp": "exp({0})",
    "pow": "pow({0}, {1})",
    "ceil": "CAST(ceil({0}) AS DOUBLE)",
    "floor": "CAST(floor({0}) AS DOUBLE)",
    "rint": "rint({0})",
    "log": "CASE WHEN {0} > 0 THEN ln({0}) WHEN {0} = 0 THEN double('-infinity') "
    "WHEN {0} IS NOT NULL THEN double('NaN') END",
}
_TEXT: dict[str, tuple[str, Type]] = {
    "toInt": ("CAST(trim({0}) AS INT)", INT),
    "toLong": ("CAST(trim({0}) AS BIGINT)", LONG),
    "toShort": ("CAST(trim({0}) AS SMALLINT)", SHORT),
    "toFloat": ("CAST(trim({0}) AS FLOAT)", FLOAT),
    "toDouble": ("CAST(trim({0}) AS DOUBLE)", DOUBLE),
    "toBool": ("(lower(trim({0})) = 'true')", BOOLEAN),
    "substring": ("substring({0}, CAST({1} AS INT) + 1, CAST({2} - {1} AS INT))", STRING),
    "contains": ("contains({0}, {1})", BOOLEAN),
    "startsWith": ("startswith({0}, {1})", BOOLEAN),
    "replace": ("replace({0}, {1}, {2})", STRING),
    "replaceAll": ("regexp_replace({0}, {1}, {2})", STRING),
    "toLowerCase": ("lower({0})", STRING),
    "toUpperCase": ("upper({0})", STRING),
    "trim": ("trim({0})", STRING),
}
_ORDERS = ("<", "<=", ">", ">=")


def called(name: str, arguments: Sequence[Sql], typing: Typing) -> Sql:
    """A function of the language, or of Spark, on scalars."""
    reads = frozenset().union(*(each.reads for each in arguments))

    def made(template: str, type_: Type, given: Sequence[Sql] = arguments) -> Sql:
        texts = [each.text for each in given]
        return Sql(template.format(*texts), type_, reads)

    check_call(name, arguments)
    if name in _ARITHMETIC:
        return _arithmetic(name, arguments[0], arguments[1], typing)
    if name in _ORDERS:
        check_order(name, *arguments)
        return made(f"({{0}} {name} {{1}})", BOOLEAN)
    if name == "negate":
        return made("(-{0})", arguments[0].type)
    if name == "not":
        return made("(NOT {0})", BOOLEAN)
    if name.startswith("as "):
        return cast(arguments[0], KINDS[name.removeprefix("as ")])
    if name in _REAL:
        return made(_REAL[name], DOUBLE, [cast(each, DOUBLE) for each in arguments])
    if name in _TEXT:
        template, type_ = _TEXT[name]
        return made(template, type_)
    if name == "abs":
        return made("abs({0})", arguments[0].type)
    if name in ("min", "max"):
        type_ = widest(arguments[0].type, arguments[1].type)
        return made(f"{'least' if name == 'min' else 'greatest'}({{0}}, {{1}})", type_)
    if name == "round":
        kind = INT if arguments[0].type == FLOAT else LONG
        return made(f"CAST(floor({{0}} + 0.5D) AS {kind.name})", kind)
    if name == "length" and arguments[0].type == STRING:
        return made("length({0})", INT)
    if name == "string" and arguments[0].type in (INT, LONG, SHORT, BOOLEAN):
        return made("CAST({0} AS STRING)", STRING)
    if name == "trace":
        return arguments[0]
    if name == "split":
        text, pattern, *most = (each.text for each in arguments)
        last = "array_max(transform(a, (t, i) -> if(t <> '', i + 1, 1)))"
        found = f"transform(array(split({text}, {pattern})), a -> slice(a, 1, {last}))[0]"
        if most:
            found = f"if({most[0]} = 0, {found}, split({text}, {pattern}, CAST({most[0]} AS INT)))"
        return Sql(found, Many(STRING, True), reads)
    if name in _OURS:
        raise UnsupportedError(f"the function '{name}' has no form in Spark SQL")
    holes = ", ".join(f"{{{i}}}" for i in range(len(arguments)))
    template = f"{name}({holes})"
    return made(template, typing(template, [each.type for each in arguments]))


_OURS = (
    "replaceFirst",
    "random",
    "hash_code",
    "json",
    "json_object",
    "json_array",
    "xml_children",
    "text",
    "tag",
    "attribute",
    "children",
    "string",
    "inv",
)


def _arithmetic(name: str, left: Sql, right: Sql, typing: Typing) -> Sql:
    reads = left.reads | right.reads
    if name == "+" and left.type == right.type == STRING:
        return Sql(f"concat({left.text}, {right.text})", STRING, reads)
    check_arithmetic(name, left, right)
    if not _is_number(left.type) or not _is_number(right.type):
        template = f"({{0}} {'%' if name == 'mod' else name} {{1}})"
        return Sql(
            template.format(left.text, right.text), typing(template, [left.type, right.type]), reads
        )
    kind = widest(left.type, right.type)
    assert isinstance(kind, Scalar)
    real = kind in (FLOAT, DOUBLE)
    a, b = cast(left, kind).text, cast(right, kind).text
    if name in ("+", "-", "*"):
        return Sql(f"({a} {name} {b})", kind, reads)
    if real and not _is_zero_free(right):
        infinite = f"CASE WHEN {a} > 0 THEN double('infinity') WHEN {a} < 0 THEN "
        infinite += "double('-infinity') ELSE double('NaN') END"
        if name == "/":
            found = f"if({b} = 0, if(isnan({a}), double('NaN'), {infinite}), {a} / {b})"
        else:
            found = f"if({b} = 0, double('NaN'), {a} % {b})"
        return Sql(f"CAST({found} AS {kind.name})", kind, reads)
    if name == "/" and not real:
        return Sql(f"CAST({a} DIV {b} AS {kind.name})", kind, reads)
    return Sql(f"({a} {'/' if name == '/' else '%'} {b})", kind, reads)


def _is_number(type_: Type) -> bool:
    return type_ in NUMBERS


def _is_zero_free(value: Sql) -> bool:
    """Is it a constant other than 0?"""
    text = value.text.removeprefix("CAST(").split(" AS ")[0].rstrip("DLS")
    try:
        return float(text) != 0
    except ValueError:
        return False
