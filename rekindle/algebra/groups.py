"""Monoids, groups and rings as values, with their laws as predicates that can be run.

The idea: an algebraic structure is an object that holds its operations, separate from the values
it operates on. Code that adds changes asks for a `Group`; code that joins asks for a `Ring`. The
same integers, pairs or Z-sets can then take part in several structures, and a structure can be
built from others (`ProductRing` of two rings, Z-sets over a ring, streams over a group).

The laws: addition is associative and commutative with identity 0, every value has an inverse, and
multiplication is associative with identity 1 and distributes over addition. Multiplication need
not commute, so callers keep the order of their factors. The predicates below state one law each
at sample values; a property test supplies the samples.

Why not methods on the values: a Python `int` cannot grow a method, and the zero of an empty
collection must be known without a value at hand.

DBSP §2.2 (abelian groups), §2.3 (linear and bilinear operators).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from operator import eq
from typing import Generic, Protocol, TypeVar

V = TypeVar("V")
W = TypeVar("W")
X = TypeVar("X")


class Monoid(Protocol[V]):
    """A commutative monoid, written additively: (V, +, 0)."""

    @property
    def zero(self) -> V: ...

    def add(self, left: V, right: V, /) -> V: ...


class Group(Monoid[V], Protocol[V]):
    """An abelian group (V, +, 0, −): values whose differences are values again."""

    def negate(self, value: V, /) -> V: ...


class Semiring(Monoid[V], Protocol[V]):
    """A semiring (V, +, 0, ×, 1): a ring without negation, so it has no deletions."""

    @property
    def one(self) -> V: ...

    def multiply(self, left: V, right: V, /) -> V: ...


class Ring(Group[V], Semiring[V], Protocol[V]):
    """A ring with unit (V, +, 0, −, ×, 1); × need not commute."""


@dataclass(frozen=True, slots=True)
class Integers:
    """The ring ℤ: multiplicities of rows."""

    @property
    def zero(self) -> int:
        return 0

    @property
    def one(self) -> int:
        return 1

    def add(self, left: int, right: int, /) -> int:
        return left + right

    def negate(self, value: int, /) -> int:
        return -value

    def multiply(self, left: int, right: int, /) -> int:
        return left * right


@dataclass(frozen=True, slots=True)
class Rationals:
    """The ring ℚ: exact fractions, where the paper writes ℝ.

    Floating point is left out on purpose: its addition is not associative, so it is no group.
    """

    @property
    def zero(self) -> Fraction:
        return Fraction(0)

    @property
    def one(self) -> Fraction:
        return Fraction(1)

    def add(self, left: Fraction, right: Fraction, /) -> Fraction:
        return left + right

    def negate(self, value: Fraction, /) -> Fraction:
        return -value

    def multiply(self, left: Fraction, right: Fraction, /) -> Fraction:
        return left * right


INTEGERS = Integers()
RATIONALS = Rationals()


@dataclass(frozen=True, slots=True)
class ProductGroup(Generic[V, W]):
    """Pairs, added component by component. Wider products nest.

    >>> ProductGroup(INTEGERS, INTEGERS).add((1, 2), (3, 4))
    (4, 6)
    """

    left: Group[V]
    right: Group[W]

    @property
    def zero(self) -> tuple[V, W]:
        return self.left.zero, self.right.zero

    def add(self, left: tuple[V, W], right: tuple[V, W], /) -> tuple[V, W]:
        return self.left.add(left[0], right[0]), self.right.add(left[1], right[1])

    def negate(self, value: tuple[V, W], /) -> tuple[V, W]:
        return self.left.negate(value[0]), self.right.negate(value[1])


@dataclass(frozen=True, slots=True)
class ProductRing(ProductGroup[V, W]):
    """Pairs, added and multiplied component by component.

    >>> ProductRing(INTEGERS, RATIONALS).multiply((2, Fraction(1, 2)), (3, Fraction(1, 2)))
    (6, Fraction(1, 4))
    """

    left: Ring[V]
    right: Ring[W]

    @property
    def one(self) -> tuple[V, W]:
        return self.left.one, self.right.one

    def multiply(self, left: tuple[V, W], right: tuple[V, W], /) -> tuple[V, W]:
        return self.left.multiply(left[0], right[0]), self.right.multiply(left[1], right[1])


def multiple(group: Group[V], value: V, times: int) -> V:
    """value + … + value, or its inverse where `times` is negative; in log₂ |times| additions.

    >>> multiple(INTEGERS, 5, -3)
    -15
    """
    if times < 0:
        value, times = group.negate(value), -times
    found = group.zero
    while times:
        if times % 2:
            found = group.add(found, value)
        value, times = (group.add(value, value), times // 2) if times > 1 else (value, 0)
    return found


def total(monoid: Monoid[V], values: Iterable[V]) -> V:
    """The sum Σ of `values`, zero when there are none.

    Adds neighbours in rounds: when adding costs as much as its operands are large (Z-sets), n
    values then cost n log n and not n².

    >>> total(INTEGERS, [1, 2, 3])
    6
    """
    level = list(values)
    while len(level) > 1:
        odd = level[-1:] if len(level) % 2 else []
        level = [
            monoid.add(left, right) for left, right in zip(level[::2], level[1::2], strict=False)
        ] + odd
    return level[0] if level else monoid.zero


def subtract(group: Group[V], left: V, right: V) -> V:
    """The difference left − right, which is left + (−right).

    >>> subtract(INTEGERS, 5, 3)
    2
    """
    return group.add(left, group.negate(right))


# The laws. Each predicate says whether one law holds at the given samples. `same` decides
# equality; structures whose values cannot be compared outright, such as streams, bring their own.


def is_associative(
    operation: Callable[[V, V], V], a: V, b: V, c: V, same: Callable[[V, V], bool] = eq
) -> bool:
    """(a · b) · c = a · (b · c).

    >>> is_associative(INTEGERS.add, 1, 2, 3)
    True
    """
    return same(operation(operation(a, b), c), operation(a, operation(b, c)))


def is_commutative(
    operation: Callable[[V, V], V], a: V, b: V, same: Callable[[V, V], bool] = eq
) -> bool:
    """a · b = b · a.

    >>> is_commutative(str.__add__, "left", "right")
    False
    """
    return same(operation(a, b), operation(b, a))


def is_identity(
    operation: Callable[[V, V], V], identity: V, a: V, same: Callable[[V, V], bool] = eq
) -> bool:
    """e · a = a = a · e.

    >>> is_identity(INTEGERS.multiply, 1, 7)
    True
    """
    return same(operation(identity, a), a) and same(operation(a, identity), a)


def is_inverse(group: Group[V], a: V, same: Callable[[V, V], bool] = eq) -> bool:
    """a + (−a) = 0.

    >>> is_inverse(INTEGERS, 7)
    True
    """
    return same(group.add(a, group.negate(a)), group.zero)


def is_distributive(ring: Semiring[V], a: V, b: V, c: V, same: Callable[[V, V], bool] = eq) -> bool:
    """a × (b + c) = a × b + a × c, and the same on the right.

    >>> is_distributive(INTEGERS, 2, 3, 4)
    True
    """
    add, multiply = ring.add, ring.multiply
    return same(multiply(a, add(b, c)), add(multiply(a, b), multiply(a, c))) and same(
        multiply(add(b, c), a), add(multiply(b, a), multiply(c, a))
    )


def is_monoid(monoid: Monoid[V], a: V, b: V, c: V, same: Callable[[V, V], bool] = eq) -> bool:
    """The laws of a commutative monoid hold at a, b, c."""
    return (
        is_associative(monoid.add, a, b, c, same)
        and is_commutative(monoid.add, a, b, same)
        and is_identity(monoid.add, monoid.zero, a, same)
    )


def is_group(group: Group[V], a: V, b: V, c: V, same: Callable[[V, V], bool] = eq) -> bool:
    """The laws of an abelian group hold at a, b, c.

    >>> is_group(INTEGERS, 3, -3, 5)
    True
    """
    return is_monoid(group, a, b, c, same) and is_inverse(group, a, same)


def is_semiring(semiring: Semiring[V], a: V, b: V, c: V, same: Callable[[V, V], bool] = eq) -> bool:
    """The laws of a semiring hold at a, b, c: those of a ring, with 0 × a = 0 in place of −.

    >>> is_semiring(INTEGERS, 3, -3, 5)
    True
    """
    zero, multiply = semiring.zero, semiring.multiply
    return (
        is_monoid(semiring, a, b, c, same)
        and is_associative(multiply, a, b, c, same)
        and is_identity(multiply, semiring.one, a, same)
        and is_distributive(semiring, a, b, c, same)
        and same(multiply(zero, a), zero)
        and same(multiply(a, zero), zero)
    )


def is_ring(ring: Ring[V], a: V, b: V, c: V, same: Callable[[V, V], bool] = eq) -> bool:
    """The laws of a ring with unit hold at a, b, c.

    >>> is_ring(ProductRing(INTEGERS, INTEGERS), (1, 2), (3, -4), (0, 5))
    True
    """
    return (
        is_group(ring, a, b, c, same)
        and is_associative(ring.multiply, a, b, c, same)
        and is_identity(ring.multiply, ring.one, a, same)
        and is_distributive(ring, a, b, c, same)
    )


def is_homomorphism(
    function: Callable[[V], W],
    source: Monoid[V],
    target: Monoid[W],
    a: V,
    b: V,
    same: Callable[[W, W], bool] = eq,
) -> bool:
    """f(0) = 0 and f(a + b) = f(a) + f(b).

    >>> is_homomorphism(Fraction, INTEGERS, RATIONALS, 2, 3)
    True
    """
    return same(function(source.zero), target.zero) and same(
        function(source.add(a, b)), target.add(function(a), function(b))
    )


def is_linear(
    function: Callable[[V], W],
    source: Group[V],
    target: Group[W],
    a: V,
    b: V,
    same: Callable[[W, W], bool] = eq,
) -> bool:
    """f is a homomorphism of groups at a and b: it preserves +, 0 and −.

    >>> is_linear(lambda x: 3 * x, INTEGERS, INTEGERS, 2, 5)
    True
    >>> is_linear(lambda x: x * x, INTEGERS, INTEGERS, 2, 5)
    False
    """
    return is_homomorphism(function, source, target, a, b, same) and same(
        function(source.negate(a)), target.negate(function(a))
    )


def is_bilinear(
    function: Callable[[V, W], X],
    left: Group[V],
    right: Group[W],
    target: Group[X],
    lefts: tuple[V, V],
    rights: tuple[W, W],
    same: Callable[[X, X], bool] = eq,
) -> bool:
    """f is linear in each argument while the other is held fixed.

    >>> is_bilinear(INTEGERS.multiply, INTEGERS, INTEGERS, INTEGERS, (2, 3), (5, 7))
    True
    >>> is_bilinear(INTEGERS.add, INTEGERS, INTEGERS, INTEGERS, (2, 3), (5, 7))
    False
    """
    a, b = lefts
    c, d = rights
    return is_linear(lambda value: function(value, c), left, target, a, b, same) and is_linear(
        lambda value: function(a, value), right, target, c, d, same
    )
