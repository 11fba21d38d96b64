"""Scalars, stages and quantities in words, for people.

A stage refers to columns by position; here it is shown with the names that the columns have where
it stands. A scalar of Spark brings its own text (`display`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import assert_never

from rekindle.calculus.scalars import Call, Column, Literal, Scalar
from rekindle.calculus.schema import Schema
from rekindle.calculus.terms import Measure
from rekindle.circuit.stages import Branch, Finish, Generate, Match, Project, Stage, Where

_INFIX = {
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "equal": "=",
    "less": "<",
    "greater": ">",
    "and": "and",
    "or": "or",
    "concat": "||",
}


def on_one_line(text: str) -> str:
    """The text with every run of white space as one space."""
    return " ".join(text.split())


def scalar_words(scalar: Scalar, schema: Schema) -> str:
    """An expression with the names of the columns that it reads.

    >>> total = Call("greater", (Column(1, "int"), Literal(2, "int")), "boolean")
    >>> scalar_words(total, Schema.of(id="int", total="int"))
    'total > 2'
    """
    if isinstance(scalar, Column):
        return schema.names[scalar.position]
    if isinstance(scalar, Literal):
        return scalar.text.rpartition(":")[0]
    if isinstance(scalar, Call):
        parts = [scalar_words(argument, schema) for argument in scalar.arguments]
        if scalar.function in _INFIX and len(parts) == 2:
            nested = [
                f"({part})" if isinstance(argument, Call) and argument.function in _INFIX else part
                for argument, part in zip(scalar.arguments, parts, strict=True)
            ]
            return f" {_INFIX[scalar.function]} ".join(nested)
        return f"{scalar.function}({', '.join(parts)})"
    return on_one_line(str(getattr(scalar, "display", scalar.text)))


def measure_words(measure: Measure, schema: Schema) -> str:
    """An aggregate over rows of the given schema, such as `sum(total)`."""
    arguments = ", ".join(scalar_words(argument, schema) for argument in measure.arguments)
    return f"{measure.function.value}({arguments or '*'})"


def stage_words(stage: Stage, schema: Schema) -> str:
    """What a stage does to rows of the given schema.

    >>> stage_words(Where(Call("is_null", (Column(0, "int"),), "boolean")), Schema.of(x="int"))
    'filter is_null(x)'
    """
    match stage:
        case Project():
            return "map " + ", ".join(
                _output_words(name, scalar_words(scalar, schema)) for name, scalar in stage.outputs
            )
        case Where():
            return f"filter {scalar_words(stage.predicate, schema)}"
        case Generate():
            shown = getattr(stage.generator, "display", stage.generator.text)
            return f"flatmap {on_one_line(str(shown))}"
        case Match():
            left = Schema(schema.fields[: stage.left_width])
            right = Schema(schema.fields[stage.left_width :])
            conditions = [
                f"{scalar_words(a, left)} = {scalar_words(b, right)}"
                for a, b in zip(stage.left_keys, stage.right_keys, strict=True)
            ]
            if stage.residual is not None:
                conditions.append(scalar_words(stage.residual, schema))
            return "on " + " and ".join(conditions)
        case Finish():
            return "finish " + ", ".join(measure.name for measure in stage.measures)
        case _:
            assert_never(stage)


def _output_words(name: str, value: str) -> str:
    return name if value == name else f"{value} as {name}"


def branch_words(branch: Branch) -> tuple[str, ...]:
    """The stages of a branch, each over the columns that the ones before it give."""
    words, schema = [], branch.schema
    for stage in branch.stages:
        words.append(stage_words(stage, schema))
        schema = stage.output(schema)
    return tuple(words)


def listed(items: Iterable[str]) -> str:
    """Words with commas, the last one after `and`.

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    *init, last = items
    return f"{', '.join(init)} and {last}" if init else last


def count_words(number: int, noun: str) -> str:
    """A number of things.

    >>> count_words(1, "run"), count_words(1200, "row")
    ('1 run', '1,200 rows')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def size_words(size: int) -> str:
    """A number of bytes, in the largest unit that it reaches.

    >>> size_words(512), size_words(38_120), size_words(2_500_000_000)
    ('512 B', '38.1 kB', '2.5 GB')
    """
    if size < 1000:
        return f"{size} B"
    amount, units = float(size), iter(("kB", "MB", "GB", "TB", "PB"))
    unit = "B"
    while round(amount, 1) >= 1000 and (larger := next(units, None)):
        amount, unit = amount / 1000, larger
    return f"{amount:.1f} {unit}"


def duration_words(seconds: float) -> str:
    """A time span with at most three digits, or a dash where it is no number.

    >>> duration_words(0.00042), duration_words(0.25), duration_words(93.0)
    ('0.42 ms', '250 ms', '93 s')
    """
    if not math.isfinite(seconds):
        return "-"
    if seconds < 1:
        return f"{seconds * 1000:.3g} ms" if round(seconds * 1000) < 1000 else "1 s"
    return f"{seconds:.3g} s" if seconds < 100 else f"{seconds:,.0f} s"
