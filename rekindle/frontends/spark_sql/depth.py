"""Queries that are too deep for Spark, refused in the words of the one who wrote them.

Our own walks keep their own stacks (`calculus.walks`). Spark's parser, analyser and optimiser call
themselves for every level of an expression, on stacks of a fixed size: some thousand levels are the
end, earlier or later by what stands on them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError

from rekindle.errors import RekindleError, UnsupportedError

_OVERFLOW = "java.lang.StackOverflowError"


@contextmanager
def not_too_deep(name: str) -> Iterator[None]:
    """A block in which a stack that overflows is the fault of the definition of a view."""
    try:
        yield
    except RecursionError as error:
        raise _too_deep(name, "Python") from error
    except Py4JJavaError as error:
        if _OVERFLOW not in str(error):
            raise
        raise _too_deep(name, "Spark") from error
    except RekindleError as error:
        if _OVERFLOW not in error.detail:
            raise
        raise _too_deep(name, "Spark") from error


def _too_deep(name: str, whose: str) -> UnsupportedError:
    return UnsupportedError(
        f"the query of view '{name}' is nested too deeply",
        detail=f"the stack of {whose} ends before it",
        hint="divide it: let one view compute a part of the expression, and another read that; "
        "a long chain of OR or + can be IN (...), aggregate(array(...), ...) or a joined table",
    )
