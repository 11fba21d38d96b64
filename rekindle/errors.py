"""One tree of exceptions; each error says what happened, what was found, and what to do.

`message` is a lower-case fact that quotes the user's own words, `detail` adds what was found or
expected, `hint` is something the reader can act on. `str(error)` shows all three. What opens a
store is in none of them, however the URI that they quote was written.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from rekindle.redaction import without_secrets


class RekindleError(Exception):
    """Base of every error that Rekindle raises on purpose."""

    def __init__(self, message: str, *, detail: str = "", hint: str = "") -> None:
        message = without_secrets(message)
        super().__init__(message)
        self.message = message
        self.detail = without_secrets(detail)
        self.hint = without_secrets(hint)

    def __str__(self) -> str:
        parts = [self.message]
        if self.detail:
            parts.append(f"  detail: {self.detail}")
        if self.hint:
            parts.append(f"  hint: {self.hint}")
        return "\n".join(parts)


class DefinitionError(RekindleError):
    """A table or view definition that cannot be accepted."""


class UnsupportedError(DefinitionError):
    """A construct of the query language that no operator maintains yet."""


class UndeterminedError(UnsupportedError):
    """A construct whose value is not a function of the tables, so that nothing can maintain it."""


class UnknownNameError(RekindleError):
    """A table, view or column that does not exist."""


class RowError(RekindleError):
    """Rows that do not fit the table: wrong type, wrong width, NULL where none may be."""


class ConstraintError(RekindleError):
    """A change that breaks a key, or deletes rows that are not there."""


class ConflictError(ConstraintError):
    """A change of rows that another transaction has changed since this one began."""


class TransactionTimeoutError(RekindleError):
    """A transaction that was not committed within the time it was given; it is rolled back."""


class StatementError(RekindleError):
    """SQL text that cannot be parsed, or that this database does not run."""


class EvaluationError(RekindleError):
    """A scalar expression that failed on a row (an ANSI overflow, a function that raised)."""


class IterationLimitError(RekindleError):
    """A recursion that did not come to an end within its bound."""


class ExecutionError(RekindleError):
    """Spark failed for a reason that lies in no row, such as a lost file or a missing module."""


class StreamError(RekindleError):
    """A stream that cannot go on: by a batch that does not fit, or another checkpoint."""


class LockedError(RekindleError):
    """Another process is writing to the database."""


class FencedError(RekindleError):
    """Another writer has taken the database over; this one can commit nothing more."""


class ClosedError(RekindleError):
    """The database, or the transaction, has ended."""


class CorruptionError(RekindleError):
    """A file whose bytes are not the ones that were committed."""


class StorageError(RekindleError, OSError):
    """The store failed: full, read-only, forbidden, broken or out of reach. Nothing was applied.

    It is an `OSError` too, with the number of the one that it stands for, so that who handles what
    an operating system says handles this as well.
    """


class UntrustedError(RekindleError):
    """Something stored that would run code, in a database that this connection does not trust."""


class StaleError(RekindleError):
    """A view that is not followed, and cannot be filled anew by this version."""


class StaleViewWarning(UserWarning):
    """A view of the database is not followed until it is filled anew."""


class HistoryError(RekindleError):
    """An epoch outside the retained change history."""


class SubscriptionError(RekindleError):
    """A callback that failed on the changes it was given; its subscription has ended."""


class CheckError(RekindleError):
    """A view that differs from its recomputation."""


class PrerequisiteError(RekindleError):
    """A prerequisite of the machine that is missing, such as Java."""


def unknown_name(
    kind: str, name: object, available: Iterable[str], owner: str = ""
) -> UnknownNameError:
    """An `UnknownNameError` that lists the names there are and suggests the nearest."""
    names = sorted(available)
    shown = f"'{name}'" if isinstance(name, str) else repr(name)
    return UnknownNameError(
        f"unknown {kind} {shown}" + (f" of '{owner}'" if owner else ""),
        detail=f"available: {', '.join(names) if names else 'none'}",
        hint=did_you_mean(name, names),
    )


def did_you_mean(name: object, available: Iterable[str]) -> str:
    """A hint with the available name that is nearest to what was written, if one is near.

    >>> did_you_mean("view_treee", ["first_order", "view_tree"])
    "did you mean 'view_tree'?"
    """
    nearest = get_close_matches(name, list(available), n=1) if isinstance(name, str) else []
    return f"did you mean '{nearest[0]}'?" if nearest else ""


def iteration_limit(names: Iterable[str], limit: int) -> IterationLimitError:
    """The error for a recursion that goes on."""
    shown = ", ".join(name.lstrip("·") for name in names)
    return IterationLimitError(
        f"the recursion of {shown} did not end within {limit:,} iterations",
        detail="it may have no end: a value that grows at every turn, or one that alternates",
        hint="nothing was applied; bound what grows, or allow more iterations",
    )


def untrusted(what: str, reason: str) -> UntrustedError:
    """The error for a view that needs what this connection may not run."""
    return UntrustedError(
        what,
        detail=reason,
        hint="if you trust whoever wrote the directory, open it with rekindle.connect(path, "
        "trust=True); or give the view's definition again with db.register(name, definition), or "
        "drop the view",
    )


ROUNDS = 1_000
"""Rules that are not at rest by then never will be."""


def defect(message: str, detail: str) -> DefinitionError:
    """A view's definition that Rekindle itself makes a mistake of."""
    return DefinitionError(
        f"{message}: this is a defect of Rekindle",
        detail=detail,
        hint="please report the view definition",
    )


def restless(what: str, rule: str, rounds: int = ROUNDS) -> DefinitionError:
    """The error for rules that do not come to an end, with the one that changes something still.

    >>> restless("a term", "turn_around").detail
    'turn_around still changed it in round 1000'
    """
    return defect(
        f"the rules do not come to an end on {what}", f"{rule} still changed it in round {rounds}"
    )
