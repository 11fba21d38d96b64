"""What public calls are given, checked before anything is done with it.

A name is a text that can be stored (UTF-8 has no lone surrogates); names come as a list of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from typing import Any

from rekindle.errors import DefinitionError, unknown_name
from rekindle.names import text

__all__ = [
    "callback",
    "mapping",
    "names",
    "one_of",
    "optional_seconds",
    "optional_text",
    "positive",
    "seconds",
    "text",
]


def optional_text(what: str, given: object) -> str | None:
    """The same, or nothing."""
    return None if given is None else text(what, given)


def names(what: str, given: Any) -> list[str]:
    """The given names; `what` is what they should be, such as 'features'."""
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise DefinitionError(
            f"{what} are a list of names, not a {type(given).__name__}", hint='such as ["a", "b"]'
        )
    try:
        listed = list(given)
    except Exception as error:
        raise DefinitionError(f"{what} cannot be listed", detail=str(error)) from error
    return [text(f"each of {what}", each) for each in listed]


def one_of(what: str, given: object, known: Sequence[str]) -> str:
    """The given word, which is one of those that are known."""
    if not isinstance(given, str) or given not in known:
        raise unknown_name(what, given, known)
    return given


def seconds(what: str, given: object) -> float:
    """The given number of seconds, from 0 on; infinity waits as long as it takes."""
    is_number = isinstance(given, Real) and not isinstance(given, bool)
    if not is_number or not given >= 0:  # type: ignore[operator]
        raise DefinitionError(f"{what} is a number of seconds from 0 on, not {given!r}")
    try:
        return float(given)  # type: ignore[arg-type]
    except OverflowError:
        return math.inf


def optional_seconds(what: str, given: object) -> float | None:
    """The same, or nothing."""
    return None if given is None else seconds(what, given)


def positive(what: str, given: object) -> int:
    """The given number, which is whole and above zero."""
    if isinstance(given, bool) or not isinstance(given, int) or given < 1:
        raise DefinitionError(f"{what} is a whole number from 1 on, not {given!r}")
    return given


def callback(what: str, given: object) -> None:
    """Raise unless the given thing can be called."""
    if not callable(given):
        raise DefinitionError(f"{what} is a function, not a {type(given).__name__}")


def mapping(what: str, given: object) -> None:
    """Raise unless the given thing is a dict, or like one."""
    if not isinstance(given, Mapping):
        raise DefinitionError(f"{what} are a dict, not a {type(given).__name__}")
