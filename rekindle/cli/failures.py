"""Errors for people: what happened, what was found, what to do; no traceback, exit code 1.

Ctrl-C is one line and the exit code 130, as shells have it. A reader that goes away, such as
`| head`, ends a command without a word, as SIGPIPE would.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.console import Console
from rich.text import Text

from rekindle.errors import RekindleError

INTERRUPTED = 130
READER_GONE = 141


def show(error: RekindleError, where: str = "") -> None:
    """Print an error to stderr."""
    console = Console(stderr=True, highlight=False)
    head = Text("error: ", style="bold red")
    head.append(error.message, style="bold")
    if where:
        head.append(f" ({where})", style="dim")
    console.print(head, soft_wrap=True)
    for label, text in (("detail", error.detail), ("hint", error.hint)):
        if text:
            line = Text(f"  {label}: ", style="cyan" if label == "hint" else "yellow")
            console.print(line + Text(text.replace("\n", "\n    "), style=""), soft_wrap=True)


@contextmanager
def reported() -> Iterator[None]:
    """A block whose errors end the command with a message and exit code 1."""
    try:
        with understood():
            yield
    except RekindleError as error:
        show(error)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        Console(stderr=True, highlight=False).print("interrupted", style="yellow")
        raise typer.Exit(INTERRUPTED) from None
    except BrokenPipeError:
        # Python would flush what is left when it ends, and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(READER_GONE) from None


@contextmanager
def understood() -> Iterator[None]:
    """A block in which an error of Spark becomes one of ours, without its Java stack."""
    try:
        yield
    except Exception as error:
        said = _said_by_spark(error)
        if said is None:
            raise
        raise RekindleError("Spark could not run this", detail=said) from error


def _said_by_spark(error: Exception) -> str | None:
    """The words of an error that Spark raised; None for any other."""
    if "pyspark" not in sys.modules:
        return None
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    if isinstance(error, Py4JJavaError):
        cause = error.java_exception
        while cause.getCause() is not None:
            cause = cause.getCause()
        return str(cause.getMessage() or cause.toString()).strip()
    if isinstance(error, PySparkException):
        return str(error).split("\n\nJVM stacktrace")[0].strip()
    return None
