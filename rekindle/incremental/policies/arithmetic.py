"""The scalars that a factorised term needs and that only an evaluator of scalars can make.

The calculus treats scalars as opaque, so whoever evaluates them (Spark, or Python in tests) says
how a value is taken apart (`shape`) and how payloads are multiplied and added. Payloads are
columns of numbers that are never NULL inside a tree, but for doubles, of which NULL is zero.

Types are the implementation's: a partial sum must hold what any sub-join can sum up to, which may
exceed the result's own type. Integers are summed as bigint or decimal(38,0), decimals as
decimal(38,s) of their own scale, doubles exactly, as lists of digits (`algebra.exact_sums`).
`finished` returns to the measure's type.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from rekindle.calculus.scalars import Scalar
from rekindle.calculus.schema import Schema
from rekindle.calculus.terms import Measure


class Operation(enum.Enum):
    """What stands at the root of a scalar, where factorisation can use it."""

    PRODUCT = "product"
    SUM = "sum"
    DIFFERENCE = "difference"
    CONJUNCTION = "conjunction"
    EQUALITY = "equality"


@dataclass(frozen=True, slots=True)
class Shape:
    """A scalar as an operation of two others over the same row."""

    operation: Operation
    left: Scalar
    right: Scalar


class Arithmetic(Protocol):
    """Takes scalars apart and makes new ones; `schema` is that of the row they read."""

    def shape(self, scalar: Scalar) -> Shape | None:
        """The operation at the root, or None for all else.

        A product, sum or difference must be NULL exactly where one of its operands is, and must
        distribute: where it may round, or wrap around instead of failing, the answer is None.
        """

    def obstacle(self, scalar: Scalar) -> str:
        """Why `shape` takes a scalar for a whole."""

    def distributes(self, scalar: Scalar) -> bool:
        """Whether a product is what its parts give where one factor is a sum.

        One of doubles is not: (2 − 1)·∞ is ∞, and 2·∞ − 1·∞ is NaN.
        """

    def present(self, value: Scalar, schema: Schema) -> Scalar:
        """1 where the value is not NULL, else 0: a whole number, never NULL."""

    def or_zero(self, value: Scalar, schema: Schema) -> Scalar:
        """The value as a payload, zero where it is NULL."""

    def product(self, factors: Sequence[Scalar], schema: Schema) -> Scalar | None:
        """The product of two or more payloads, or None if its type cannot hold it exactly."""

    def widened(self, payload: Scalar, schema: Schema) -> Scalar:
        """The payload in the type that `partial_sum` of it has, and of that sum again."""

    def signed_sum(self, summands: Sequence[tuple[int, Scalar]], schema: Schema) -> Scalar:
        """The sum of payloads, each with a sign of +1 or −1; a NULL stands for zero."""

    def partial_sum(self, name: str, payload: Scalar) -> Measure:
        """The linear measure that sums a payload and gives a payload; NULL only over no rows."""

    def total(self, name: str, summands: Sequence[tuple[int, Scalar]]) -> Measure | None:
        """The linear measure that sums payloads with signs to a number that is rounded once.

        None where sums of payloads are numbers already.
        """

    def row_count(self, name: str) -> Measure:
        """The linear measure that counts rows, each as often as its weight says."""

    def finished(self, measure: Measure, values: Sequence[Scalar], schema: Schema) -> Scalar:
        """The measure's result from its ring value: n for a count, n and Σx for sum and average.

        A NULL stands for zero. The scalar has the measure's type and nullability.
        """

    def positive(self, counts: Sequence[Scalar], schema: Schema) -> Scalar:
        """Whether all of some whole numbers are above zero."""

    def equal(self, left: Scalar, right: Scalar, schema: Schema) -> Scalar:
        """SQL's `=`: a boolean, NULL where an operand is NULL."""
