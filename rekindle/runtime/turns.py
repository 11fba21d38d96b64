"""Methods that take turns: of those of one object that share a lock, one runs at a time."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar


class TakesTurns(Protocol):
    """Has a lock that a thread may take again while it holds it."""

    @property
    def turn(self) -> AbstractContextManager[Any]:
        """What is held while a method runs."""
        ...


S = TypeVar("S", bound=TakesTurns)
P = ParamSpec("P")
R = TypeVar("R")


def in_turn(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """The method, while no other one of the same turn runs in another thread."""

    @wraps(method)
    def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self.turn:
            return method(self, *args, **kwargs)

    return call
