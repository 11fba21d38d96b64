"""What a use of a named function stands for: its body, as something that depends on its arguments.

A label holds the values that its bag depends on. If it held only those that the body of a function
reads today, another body would change the labels, and with them all that is kept under them. So a
use depends on every flat value in what the function is given: arguments that its text has no hole
for, or a condition that is always true.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rekindle.errors import StatementError
from rekindle.frontends.comprehension.functions import Function
from rekindle.frontends.comprehension.syntax import Place
from rekindle.nested import terms as core
from rekindle.nested.terms import KeyTerm, RingTerm
from rekindle.nested.types import Record, Scalar

Bound = KeyTerm | RingTerm
_BOOLEAN = Scalar("boolean")


def depending(term: KeyTerm, given: Sequence[Bound]) -> KeyTerm:
    """The row or scalar that a function gives, depending on all that it was given."""
    match term:
        case core.MakeRecord(fields):
            return core.MakeRecord(tuple((name, depending(each, given)) for name, each in fields))
        case core.ToKey(index, ring):
            return core.ToKey(index, guarded(ring, given))
    inputs = _inputs(given)
    if not isinstance(term.type, Scalar) or not inputs:
        return term
    if isinstance(term, core.Apply):
        return core.Apply(term.function, (*term.arguments, *inputs))
    return core.Apply(core.ScalarFunction("{0}", term.type), (term, *inputs))


def all_depending(conditions: list[RingTerm], given: Sequence[Bound]) -> list[RingTerm]:
    """Conditions that a function stands for, together depending on all that it was given."""
    first, *rest = conditions
    if isinstance(first, core.Predicate):
        return [core.Predicate(depending(first.key, given)), *rest]
    return [*_always(given), *conditions]


def guarded(term: RingTerm, given: Sequence[Bound]) -> RingTerm:
    """The collection that a function gives, depending on all that it was given."""
    for condition in _always(given):
        term = core.Product(condition, term)
    return term


def _always(given: Sequence[Bound]) -> list[RingTerm]:
    """A condition that holds, of all that a function was given, if that is anything."""
    inputs = _inputs(given)
    always = core.Apply(core.ScalarFunction("true", _BOOLEAN), inputs)
    return [core.Predicate(always)] if inputs else []


def _inputs(given: Sequence[Bound]) -> tuple[KeyTerm, ...]:
    """The flat values in what a function is given, but for those computed from collections."""
    found: list[KeyTerm] = []
    waiting: list[Bound] = list(reversed(given))
    while waiting:
        term = waiting.pop()
        if isinstance(term, core.MakeRecord):
            waiting += [value for _, value in reversed(term.fields)]
        elif isinstance(term.type, Record):
            waiting += [core.Field(term, name) for name in reversed(term.type.names)]
        elif isinstance(term.type, Scalar) and not _is_measured(term):
            found.append(term)
    return tuple(found)


def _is_measured(term: Bound) -> bool:
    """Is a collection measured in it?"""
    return isinstance(term, core.Measure) or any(map(_is_measured, core.children(term)))


@contextmanager
def inside(function: Function, place: Place) -> Iterator[None]:
    """Errors of a block are about the text of a function, and say where it is used."""
    try:
        yield
    except StatementError as error:
        used = f"in function '{function.name}', used at line {place.line}, column {place.column}"
        detail = f"{error.detail}\n{used}"
        raise StatementError(error.message, detail=detail, hint=error.hint) from error
