"""Streams over a group, and the operators that turn queries into incremental queries.

The idea: a stream is a function of time, and a computation over changing data is a function from
streams to streams. I sums a stream of changes into a stream of states, D takes states back to
changes, and the incremental version of an operator Q is D ∘ Q ∘ I.

The laws: I and D are inverse to each other; both are causal, linear and time-invariant; a strict
operator has exactly one fixed point; incremental versions compose (the chain rule), so a query is
made incremental one operator at a time.

Why this shape: a stream carries its group, so operators are plain functions of streams and
compose as such. A stream computes its values in order of time and remembers them: feedback loops
then terminate, recursion is as deep as the circuit and not as long as time, and every value is
computed once. Streams have no equality (they are infinite); `agree` compares prefixes.

DBSP §2 (streams, fix, I, D), §3 (incremental versions), §5 (δ₀, ∫), §6 (nested streams).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, overload

from rekindle.algebra.groups import Group, subtract
from rekindle.errors import RekindleError

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")


class StrictnessError(RekindleError):
    """A value of a stream that depends on itself: a feedback loop without a delay."""


class DivergenceError(RekindleError):
    """A stream that did not become zero within its bound."""


@dataclass(slots=True)
class _Memory(Generic[A]):
    """The values computed so far, from time 0 on; `busy` while the next one is computed."""

    values: list[A] = field(default_factory=list)
    busy: bool = False


@dataclass(frozen=True, slots=True)
class _Prefix(Generic[A]):
    """The rule of a finite stream; a value, so that a failing test can print it."""

    values: tuple[A, ...]
    zero: A

    def __call__(self, time: int) -> A:
        return self.values[time] if time < len(self.values) else self.zero


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Stream(Generic[A]):
    """S_A: a value of a group at each time 0, 1, 2, …, given by a rule.

    >>> from rekindle.algebra.groups import INTEGERS
    >>> Stream(lambda time: time * time, INTEGERS)[3]
    9
    """

    rule: Callable[[int], A]
    group: Group[A]
    _memory: _Memory[A] = field(init=False, default_factory=_Memory)

    @staticmethod
    def from_list(values: Sequence[B], group: Group[B]) -> Stream[B]:
        """The stream that starts with `values` and is zero ever after.

        >>> from rekindle.algebra.groups import INTEGERS
        >>> Stream.from_list([5, 6], INTEGERS).take(4)
        [5, 6, 0, 0]
        """
        return Stream(_Prefix(tuple(values), group.zero), group)

    def __getitem__(self, time: int) -> A:
        if time < 0:
            raise IndexError(f"a stream starts at time 0, asked for {time}")
        memory = self._memory
        while len(memory.values) <= time:
            if memory.busy:
                raise StrictnessError(
                    f"the value of a stream at time {len(memory.values)} depends on itself",
                    hint="put a delay on every feedback loop",
                )
            memory.busy = True
            try:
                memory.values.append(self.rule(len(memory.values)))
            finally:
                memory.busy = False
        return memory.values[time]

    def __repr__(self) -> str:
        known = "".join(f"{value!r}, " for value in self._memory.values)
        return f"Stream[{known}…]"

    def take(self, length: int) -> list[A]:
        """The values at the times 0 to length − 1."""
        return [self[time] for time in range(length)]

    def __add__(self, other: Stream[A]) -> Stream[A]:
        return Stream(lambda time: self.group.add(self[time], other[time]), self.group)

    def __neg__(self) -> Stream[A]:
        return Stream(lambda time: self.group.negate(self[time]), self.group)

    def __sub__(self, other: Stream[A]) -> Stream[A]:
        return Stream(lambda time: subtract(self.group, self[time], other[time]), self.group)


@dataclass(frozen=True, slots=True)
class StreamGroup(Generic[A]):
    """The abelian group of streams over a group (proposition 2.11): streams can nest."""

    group: Group[A]

    @property
    def zero(self) -> Stream[A]:
        return Stream.from_list([], self.group)

    def add(self, left: Stream[A], right: Stream[A], /) -> Stream[A]:
        return left + right

    def negate(self, value: Stream[A], /) -> Stream[A]:
        return -value


def lift(function: Callable[[A], B], into: Group[B]) -> Callable[[Stream[A]], Stream[B]]:
    """↑f: applies a function at every time; `into` is the group of its results.

    >>> from rekindle.algebra.groups import INTEGERS
    >>> lift(lambda x: 2 * x, INTEGERS)(Stream.from_list([1, 2], INTEGERS)).take(3)
    [2, 4, 0]
    """
    return lambda stream: Stream(lambda time: function(stream[time]), into)


def lift2(
    function: Callable[[A, B], C], into: Group[C]
) -> Callable[[Stream[A], Stream[B]], Stream[C]]:
    """↑f for a function of two arguments.

    >>> from rekindle.algebra.groups import INTEGERS
    >>> s = Stream.from_list([1, 2], INTEGERS)
    >>> lift2(INTEGERS.multiply, INTEGERS)(s, s).take(3)
    [1, 4, 0]
    """
    return lambda left, right: Stream(lambda time: function(left[time], right[time]), into)


def delay(stream: Stream[A]) -> Stream[A]:
    """z⁻¹: the stream one step later, zero first. Strict, linear and time-invariant.

    >>> from rekindle.algebra.groups import INTEGERS
    >>> delay(Stream.from_list([1, 2], INTEGERS)).take(4)
    [0, 1, 2, 0]
    """
    return Stream(lambda time: stream[time - 1] if time else stream.group.zero, stream.group)


def fix(operator: Callable[[Stream[A]], Stream[A]], group: Group[A]) -> Stream[A]:
    """fix α. F(α): the only stream with α = F(α), for a strict F.

    An operator that is not strict raises `StrictnessError` when the stream is read.

    >>> from rekindle.algebra.groups import INTEGERS
    >>> ones = Stream(lambda time: 1, INTEGERS)
    >>> fix(lambda a: ones + delay(a) + delay(a), INTEGERS).take(4)
    [1, 3, 7, 15]
    """
    solution: Stream[A] = Stream(lambda time: image[time], group)
    image = operator(solution)
    return solution


def fix_nested(
    operator: Callable[[Stream[Stream[A]]], Stream[Stream[A]]], group: Group[A]
) -> Stream[Stream[A]]:
    """fix α. F(α) over streams of streams, for an F that is strict in its second dimension.

    ↑z⁻¹ is (proposition 6.1): it delays every inner stream, so a cycle through it has one solution.

    >>> from rekindle.algebra.groups import INTEGERS
    >>> ones = Stream(lambda time: Stream(lambda inner: time, INTEGERS), StreamGroup(INTEGERS))
    >>> later = lift(delay, StreamGroup(INTEGERS))
    >>> fix_nested(lambda a: ones + later(a), INTEGERS)[2].take(3)
    [2, 4, 6]
    """
    solution: Stream[Stream[A]] = Stream(
        lambda time: Stream(lambda inner: image[time][inner], group), StreamGroup(group)
    )
    image = operator(solution)
    return solution


def integrate(stream: Stream[A]) -> Stream[A]:
    """I: the running sum, fix α. (s + z⁻¹(α)).

    >>> from rekindle.algebra.groups import INTEGERS
    >>> integrate(Stream(lambda time: time, INTEGERS)).take(5)
    [0, 1, 3, 6, 10]
    """
    return fix(lambda sums: stream + delay(sums), stream.group)


def differentiate(stream: Stream[A]) -> Stream[A]:
    """D: the changes of a stream, s − z⁻¹(s).

    >>> from rekindle.algebra.groups import INTEGERS
    >>> differentiate(Stream(lambda time: time, INTEGERS)).take(5)
    [0, 1, 1, 1, 1]
    """
    return stream - delay(stream)


def delta0(value: A, group: Group[A]) -> Stream[A]:
    """δ₀: the value at time 0, and zero ever after.

    >>> from rekindle.algebra.groups import INTEGERS
    >>> delta0(5, INTEGERS).take(3)
    [5, 0, 0]
    """
    return Stream.from_list([value], group)


def integral(stream: Stream[A], bound: int, quiet: int = 1) -> A:
    """∫: the sum of all values of a stream that is zero almost everywhere.

    No program can see that a stream stays zero, so the end is a rule: `quiet` zeros in a row.
    One is right for the changes of a loop whose next value depends on the last one alone. If the
    rule has not applied to the first `bound` values, the sum is not known: `DivergenceError`.

    >>> from rekindle.algebra.groups import INTEGERS
    >>> integral(Stream.from_list([1, 2, 3], INTEGERS), bound=10)
    6
    """
    zero = stream.group.zero
    sums = integrate(stream)
    zeros = 0
    for time in range(bound):
        zeros = zeros + 1 if stream[time] == zero else 0
        if zeros == quiet:
            return sums[time]
    raise DivergenceError(
        f"the stream did not become zero within {bound} steps",
        detail=f"waited for {quiet} zero value(s) in a row",
        hint="raise the bound, or check that the loop reaches a fixed point",
    )


@overload
def incremental(
    operator: Callable[[Stream[A]], Stream[B]],
) -> Callable[[Stream[A]], Stream[B]]: ...
@overload
def incremental(
    operator: Callable[[Stream[A], Stream[B]], Stream[C]],
) -> Callable[[Stream[A], Stream[B]], Stream[C]]: ...
def incremental(operator: Callable[..., Stream[Any]]) -> Callable[..., Stream[Any]]:
    """Q^Δ = D ∘ Q ∘ I: the same computation, from changes to changes.

    Each input of an operator with several inputs is integrated on its own.

    >>> from rekindle.algebra.groups import INTEGERS
    >>> squares = lift(lambda x: x * x, INTEGERS)
    >>> incremental(squares)(Stream.from_list([1, 1, 1], INTEGERS)).take(4)
    [1, 3, 5, 0]
    """
    return lambda *changes: differentiate(operator(*map(integrate, changes)))


@overload
def incremental_function(
    function: Callable[[A], B], into: Group[B]
) -> Callable[[Stream[A]], Stream[B]]: ...
@overload
def incremental_function(
    function: Callable[[A, B], C], into: Group[C]
) -> Callable[[Stream[A], Stream[B]], Stream[C]]: ...
def incremental_function(
    function: Callable[..., Any], into: Group[Any]
) -> Callable[..., Stream[Any]]:
    """(↑f)^Δ: the incremental version of a function of one or two plain values.

    >>> from rekindle.algebra.groups import INTEGERS
    >>> s = Stream.from_list([1, 1, 1], INTEGERS)
    >>> incremental_function(INTEGERS.multiply, INTEGERS)(s, s).take(4)
    [1, 3, 5, 0]
    """

    def lifted(*streams: Stream[Any]) -> Stream[Any]:
        return Stream(lambda time: function(*(stream[time] for stream in streams)), into)

    return lambda *changes: differentiate(lifted(*map(integrate, changes)))


def splice(before: Stream[A], after: Stream[A], time: int) -> Stream[A]:
    """The stream that equals `before` at times less than `time`, and `after` from then on.

    >>> from rekindle.algebra.groups import INTEGERS
    >>> ones, twos = (Stream.from_list([n] * 3, INTEGERS) for n in (1, 2))
    >>> splice(ones, twos, 1).take(3)
    [1, 2, 2]
    """
    return Stream(lambda now: before[now] if now < time else after[now], before.group)


# Predicates. A stream is infinite, so each looks at the times before `until` only.


def agree(left: Stream[A], right: Stream[A], until: int) -> bool:
    """The streams have equal values at all times before `until`.

    >>> from rekindle.algebra.groups import INTEGERS
    >>> s = Stream.from_list([1, 2], INTEGERS)
    >>> agree(s, differentiate(integrate(s)), until=5)
    True
    """
    return all(left[time] == right[time] for time in range(until))


def is_causal(
    operator: Callable[[Stream[A]], Stream[B]], stream: Stream[A], other: Stream[A], until: int
) -> bool:
    """S(s)[t] stays the same when s is replaced by `other` after t.

    >>> from rekindle.algebra.groups import INTEGERS
    >>> s, other = Stream.from_list([1, 2], INTEGERS), Stream.from_list([5, 6, 7], INTEGERS)
    >>> is_causal(lambda x: Stream(lambda time: x[time + 1], INTEGERS), s, other, until=3)
    False
    """
    result = operator(stream)
    return all(
        operator(splice(stream, other, time + 1))[time] == result[time] for time in range(until)
    )


def is_strict(
    operator: Callable[[Stream[A]], Stream[B]], stream: Stream[A], other: Stream[A], until: int
) -> bool:
    """F(s)[t] stays the same when s is replaced by `other` from t on.

    >>> from rekindle.algebra.groups import INTEGERS
    >>> s, other = Stream.from_list([1, 2], INTEGERS), Stream.from_list([5, 6, 7], INTEGERS)
    >>> is_strict(delay, s, other, until=3), is_strict(integrate, s, other, until=3)
    (True, False)
    """
    result = operator(stream)
    return all(operator(splice(stream, other, time))[time] == result[time] for time in range(until))


def is_time_invariant(
    operator: Callable[..., Stream[Any]], *inputs: Stream[Any], until: int
) -> bool:
    """S(z⁻¹(s)) = z⁻¹(S(s)): delaying every input delays the output.

    >>> from rekindle.algebra.groups import INTEGERS
    >>> s = Stream.from_list([1, 2], INTEGERS)
    >>> is_time_invariant(lift(lambda x: x + 1, INTEGERS), s, until=3)
    False
    """
    return agree(operator(*map(delay, inputs)), delay(operator(*inputs)), until)
