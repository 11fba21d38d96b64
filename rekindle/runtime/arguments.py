"""What public calls are given, checked before anything is done with it.

A name is a text that can be stored (UTF-8 has no lone surrogates); names come as a list of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rekindle.errors import DefinitionError, unknown_name
from rekindle.names import is_text


def text(what: str, given: object) -> str:
    """The given text; `what` is what it should be, such as 'a comment'."""
    if not isinstance(given, str):
        raise DefinitionError(f"{what} is a text, not a {type(given).__name__}")
    if not is_text(given):
        raise DefinitionError(f"{what} cannot have half of a character pair (a lone surrogate)")
    return given


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


def positive(what: str, given: object) -> int:
    """The given number, which is whole and above zero."""
    if isinstance(given, bool) or not isinstance(given, int) or given < 1:
        raise DefinitionError(f"{what} is a whole number from 1 on, not {given!r}")
    return given
