"""Temporary directories go, however the command ends."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rekindle.cli.scratch import scratch_directory

TERMINATED_IN_A_CALLBACK = """
import os, signal, sys, weakref
from pathlib import Path
from rekindle.cli.scratch import clean_up_when_terminated, scratch_directory
clean_up_when_terminated()
class Thing: ...
with scratch_directory("t-", Path(sys.argv[1])) as directory:
    (directory / "file").write_text("x")
    thing = Thing()
    # Python runs signal handlers here, where whatever they raise is ignored.
    weak = weakref.ref(thing, lambda _: os.kill(os.getpid(), signal.SIGTERM))
    del thing
    print("still here")
"""


def test_a_block_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ValueError), scratch_directory("t-", tmp_path / "new") as directory:
        (directory / "file").write_text("x")
        raise ValueError
    assert list((tmp_path / "new").iterdir()) == []


def test_a_terminated_process_ends_and_leaves_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-c", TERMINATED_IN_A_CALLBACK, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == -signal.SIGTERM
    assert "still here" not in done.stdout
    assert list(tmp_path.iterdir()) == []
