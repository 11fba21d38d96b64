"""Temporary directories that do not outlive the command, even when it is terminated.

A handler that raises is not enough: Python may run it inside a callback of a library, where the
exception is printed and forgotten, and the process goes on. So the handler removes the directories
itself and lets the signal do what it does by default.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_OWN: set[Path] = set()


@contextmanager
def scratch_directory(prefix: str, parent: Path | None = None) -> Iterator[Path]:
    """A new directory, removed with all it holds when the block or the process ends."""
    if parent is not None:
        parent.mkdir(parents=True, exist_ok=True)
    directory = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    _OWN.add(directory)
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        _OWN.discard(directory)


def clean_up_when_terminated() -> None:
    """From now on SIGTERM removes the scratch directories before it ends the process."""
    signal.signal(signal.SIGTERM, _terminate)


def remove_scratch() -> None:
    """Remove all scratch directories of this process."""
    for directory in tuple(_OWN):
        shutil.rmtree(directory, ignore_errors=True)


def _terminate(number: int, frame: object) -> None:
    remove_scratch()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
