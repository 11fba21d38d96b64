"""Faults of the store, by name.

An operating system answers with a number, an object store with a sentence. `storage_error` makes of
either a `StorageError` that says what is wrong, where, and what to do. `named_faults` puts it
around every public method of the store, so that no caller needs to think of it: a `StorageError` is
an `OSError`, and what was written to survive one survives the other.

A file that is missing where one is read, and one that exists where one is created, are answers and
no faults; they stay what they are.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from traceback import walk_tb
from types import FunctionType
from typing import Any, TypeVar, cast

from rekindle.errors import ExecutionError, StorageError
from rekindle.redaction import without_secrets

_C = TypeVar("_C", bound=type[Any])
_F = TypeVar("_F", bound=Callable[..., Any])
_LAST = "the database is at its last epoch"


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with a store, the numbers and words that say so, and what to do."""

    what: str
    hint: str
    numbers: tuple[int, ...] = ()
    words: tuple[str, ...] = ()

    def explains(self, error: OSError) -> bool:
        """Is the error of this kind? Words count where there is no number."""
        if error.errno is not None:
            return error.errno in self.numbers
        said = str(error).lower()
        return any(word in said for word in self.words)


FAULTS = (
    Fault(
        "is full",
        "make room, or raise the quota, and run the statement again; df -i shows whether names "
        "rather than bytes have run out",
        (errno.ENOSPC, errno.EDQUOT),
        ("no space left", "quota", "insufficient storage"),
    ),
    Fault(
        "is read-only",
        "mount it for writing, or open the database with rekindle.connect(path, mode='read')",
        (errno.EROFS,),
        ("read-only file system",),
    ),
    Fault(
        "refuses access",
        "give this user the right to read and write there; for an object store look at the keys, "
        "their policy and their expiry",
        (errno.EACCES, errno.EPERM),
        (
            "access_denied",
            "access denied",
            "accessdenied",
            "forbidden",
            "permission denied",
            "invalid_access_key",
            "invalidaccesskey",
            "signature",
            "expired",
            "unauthorized",
        ),
    ),
    Fault(
        "cannot take more open files",
        "raise the limit of open files (ulimit -n), or let fewer processes share it",
        (errno.EMFILE, errno.ENFILE),
        ("too many open files",),
    ),
    Fault(
        "does not answer",
        "try again; if it goes on, look at the network and at the store's own limits of requests",
        (
            errno.ETIMEDOUT,
            errno.ECONNRESET,
            errno.ECONNREFUSED,
            errno.ECONNABORTED,
            errno.EHOSTUNREACH,
            errno.ENETUNREACH,
            errno.ENETDOWN,
            errno.EPIPE,
            errno.ESTALE,
            errno.EAGAIN,
            errno.EBUSY,
        ),
        (
            "status 503",
            "status 500",
            "slow_down",
            "slowdown",
            "slow down",
            "service_unavailable",
            "throttl",
            "service unavailable",
            "timeout",
            "timed out",
            "network_connection",
            "curlcode",
            "internal_failure",
            "connection",
        ),
    ),
    Fault(
        "cannot read or write its device",
        "look at the system's log for errors of the device; rekindle verify says which files "
        "are damaged",
        (errno.EIO, errno.ENXIO, errno.ENODEV),
        ("input/output error",),
    ),
    Fault(
        "has no such place any more",
        "was the directory moved, deleted or unmounted? bring it back, or restore a backup",
        (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENOTCONN),
    ),
    Fault(
        "cannot take the name or the size",
        "choose a shorter path, or a file system that takes larger files",
        (errno.ENAMETOOLONG, errno.EFBIG),
    ),
)
_OTHER = Fault("failed", "what the store said is the detail")


def storage_error(error: OSError, place: str) -> StorageError:
    """The error for a store at `place`, or for a file of it."""
    fault = next((each for each in FAULTS if each.explains(error)), _OTHER)
    where = error.filename if isinstance(error.filename, str) else place
    said = error.strerror or str(error).strip().split("\n")[0]
    detail = f"{said} ({where})" if where and where not in said else said
    found = StorageError(
        f"the store of '{place}' {fault.what}; {_LAST}", detail=detail, hint=fault.hint
    )
    found.errno = error.errno
    return found


@contextmanager
def named(place: str) -> Iterator[None]:
    """A block in which every fault of a store gets its name, whatever was asked of it."""
    try:
        yield
    except OSError as error:
        if _is_ours(error):
            raise
        if _is_of_java(error):
            raise ExecutionError(
                "the JVM of Spark has ended",
                detail=str(error),
                hint="start the process again; the database is at its last epoch",
            ) from error
        raise storage_error(error, place) from _showable(error)


def _is_ours(error: OSError) -> bool:
    """Has the error a name of this package, which somebody may wait for?"""
    return type(error).__module__.startswith("rekindle.")


def _is_of_java(error: OSError) -> bool:
    """Was it the connection to the JVM that failed, and no store?"""
    frames = (frame for frame, _ in walk_tb(error.__traceback__))
    return any(frame.f_globals.get("__name__", "").startswith("py4j.") for frame in frames)


def named_by_path(function: _F) -> _F:
    """A function of a path, out of which no bare `OSError` comes."""

    @wraps(function)
    def naming(*args: Any, **kwargs: Any) -> Any:
        with named(str(args[0] if args else kwargs.get("path", ""))):
            return function(*args, **kwargs)

    return cast(_F, naming)


def _showable(error: OSError) -> OSError | None:
    """The error behind another, unless it quotes a secret: tracebacks show it as it is."""
    said = f"{error} {error.filename}"
    return error if without_secrets(said) == said else None


def named_faults(cls: _C) -> _C:
    """The class of a store, with `uri`, whose public methods raise no bare `OSError`."""
    for name, member in list(vars(cls).items()):
        if isinstance(member, FunctionType) and not name.startswith("_"):
            setattr(cls, name, _naming(member))
    return cls


def _naming(method: Callable[..., Any]) -> Callable[..., Any]:
    reads = method.__name__.startswith("read")

    @wraps(method)
    def naming(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(self, *args, **kwargs)
        except FileExistsError:
            raise
        except OSError as error:
            if _is_ours(error) or (reads and isinstance(error, FileNotFoundError)):
                raise
            raise storage_error(error, self.uri) from _showable(error)

    return naming
