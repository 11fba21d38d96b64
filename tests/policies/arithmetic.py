"""Arithmetic in Python, for the interpreter: whole numbers are exact at any size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from typing import Any, cast

from rekindle.algebra.exact_sums import BITS, FACTORS, NUMBER, ROUNDED, WHOLE, ExactSum
from rekindle.calculus.scalars import Call, Evaluable, Literal, Scalar
from rekindle.calculus.schema import Schema
from rekindle.calculus.terms import AggregateFunction, Measure
from rekindle.incremental.policies.arithmetic import Operation, Shape

_OPERATIONS = {
    "multiply": Operation.PRODUCT,
    "add": Operation.SUM,
    "subtract": Operation.DIFFERENCE,
    "and": Operation.CONJUNCTION,
    "equal": Operation.EQUALITY,
}


def _evaluable(scalar: Scalar) -> Evaluable:
    return cast(Evaluable, scalar)


def _zero_if_null(scalar: Scalar, type_: str) -> Call:
    return Call("coalesce", (_evaluable(scalar), Literal(0, type_)), type_)


@dataclass(frozen=True, slots=True)
class Finished:
    """A measure's last step, from columns that hold its ring value."""

    measure: Measure
    values: tuple[Evaluable, ...]

    @property
    def type(self) -> str:
        return self.measure.type

    @property
    def nullable(self) -> bool:
        return self.measure.nullable

    @property
    def references(self) -> frozenset[int]:
        return frozenset().union(*(value.references for value in self.values))

    @property
    def text(self) -> str:
        inner = ", ".join(value.text for value in self.values)
        return f"finished[{self.measure.function.value}]({inner})"

    def evaluate(self, row: Sequence[Any]) -> Any:
        count, *sums = (value.evaluate(row) or 0 for value in self.values)
        if callable(self.measure.finish):
            return self.measure.finish((count, *sums))
        match self.measure.function:
            case AggregateFunction.COUNT:
                return count
            case AggregateFunction.SUM:
                return sums[0] if count else None
            case _:
                return Fraction(sums[0], count) if count else None


class PythonArithmetic:
    """Payloads are `bigint`s, which Python does not bound."""

    def shape(self, scalar: Scalar) -> Shape | None:
        match scalar:
            case Call(function=name, arguments=(left, right)) if name in _OPERATIONS:
                return Shape(_OPERATIONS[name], left, right)
        return None

    def obstacle(self, scalar: Scalar) -> str:
        return "it is no product, sum or difference"

    def distributes(self, scalar: Scalar) -> bool:
        return True

    def total(self, name: str, summands: Sequence[tuple[int, Scalar]]) -> Measure | None:
        return None

    def present(self, value: Scalar, schema: Schema) -> Scalar:
        absent = Call("is_null", (_evaluable(value),), "boolean")
        return Call("not", (absent,), "bigint")

    def or_zero(self, value: Scalar, schema: Schema) -> Scalar:
        return _zero_if_null(value, value.type)

    def product(self, factors: Sequence[Scalar], schema: Schema) -> Scalar | None:
        first, *rest = map(_evaluable, factors)
        for factor in rest:
            first = Call("multiply", (first, factor), "bigint")
        return first

    def widened(self, payload: Scalar, schema: Schema) -> Scalar:
        return Call("coalesce", (_evaluable(payload),), "bigint")

    def signed_sum(self, summands: Sequence[tuple[int, Scalar]], schema: Schema) -> Scalar:
        total: Evaluable = Literal(0, "bigint")
        for sign, summand in summands:
            name = "add" if sign > 0 else "subtract"
            total = Call(name, (total, _zero_if_null(summand, "bigint")), "bigint")
        return total

    def partial_sum(self, name: str, payload: Scalar) -> Measure:
        return Measure(name, AggregateFunction.SUM, (payload,), "bigint")

    def row_count(self, name: str) -> Measure:
        return Measure(name, AggregateFunction.COUNT, (), "bigint", nullable=False)

    def finished(self, measure: Measure, values: Sequence[Scalar], schema: Schema) -> Scalar:
        return Finished(measure, tuple(map(_evaluable, values)))

    def positive(self, counts: Sequence[Scalar], schema: Schema) -> Scalar:
        zero = Literal(0, "bigint")
        tests = [Call("greater", (_evaluable(count), zero), "boolean") for count in counts]
        return reduce(lambda left, right: Call("and", (left, right), "boolean"), tests)

    def equal(self, left: Scalar, right: Scalar, schema: Schema) -> Scalar:
        return Call("equal", (_evaluable(left), _evaluable(right)), "boolean")


PYTHON = PythonArithmetic()


@dataclass(frozen=True, slots=True)
class Appended:
    """Payloads as one list of factors; NULL, which is zero, if one is."""

    payloads: tuple[Evaluable, ...]
    nullable = True
    type = FACTORS

    @property
    def references(self) -> frozenset[int]:
        return frozenset().union(*(payload.references for payload in self.payloads))

    @property
    def text(self) -> str:
        return f"appended({', '.join(payload.text for payload in self.payloads)})"

    def evaluate(self, row: Sequence[Any]) -> Any:
        found: tuple[float, ...] = ()
        for payload in self.payloads:
            match payload.evaluate(row):
                case None:
                    return None
                case float() as number:
                    found += (NUMBER, number)
                case int() as whole:
                    found += (WHOLE, float(whole >> BITS), float(whole & (2**BITS - 1)))
                case factors:
                    found += factors
        return found


class ExactPythonArithmetic(PythonArithmetic):
    """Doubles as lists of factors, everything else as it is."""

    def distributes(self, scalar: Scalar) -> bool:
        return scalar.type != "double"

    def or_zero(self, value: Scalar, schema: Schema) -> Scalar:
        return value if value.type == "double" else super().or_zero(value, schema)

    def product(self, factors: Sequence[Scalar], schema: Schema) -> Scalar | None:
        if any(factor.type in _OF_DOUBLES for factor in factors):
            return Appended(tuple(map(_evaluable, factors)))
        return super().product(factors, schema)

    def widened(self, payload: Scalar, schema: Schema) -> Scalar:
        if payload.type in _OF_DOUBLES:
            return Appended((_evaluable(payload),))
        return super().widened(payload, schema)

    def partial_sum(self, name: str, payload: Scalar) -> Measure:
        if payload.type in _OF_DOUBLES:
            return exact_sum(name, [(1, payload)], FACTORS)
        return super().partial_sum(name, payload)

    def total(self, name: str, summands: Sequence[tuple[int, Scalar]]) -> Measure | None:
        if all(summand.type in _OF_DOUBLES for _, summand in summands):
            return exact_sum(name, summands, ROUNDED)
        return None


_OF_DOUBLES = ("double", FACTORS)


def exact_sum(name: str, summands: Sequence[tuple[int, Scalar]], gives: str) -> Measure:
    """The exact sum of payloads with signs."""
    finish = ExactSum(tuple(sign for sign, _ in summands), gives)
    arguments = tuple(summand for _, summand in summands)
    function = AggregateFunction.EXACT_SUM
    return Measure(name, function, arguments, gives, False, finish.text, finish)


EXACT = ExactPythonArithmetic()
