"""Those who start a victim, read its diary, and kill it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.recovery.victim import Orders

PATIENCE = 240.0
REPOSITORY = Path(__file__).parents[2]


@dataclass(slots=True)
class Diary:
    """What a victim wrote down."""

    path: Path

    @property
    def lines(self) -> list[list[str]]:
        text = self.path.read_text() if self.path.exists() else ""
        return [line.split() for line in text.splitlines() if line]

    def begun(self, kind: str = "") -> bool:
        """Has a step, of the given kind, begun?"""
        return any(line[0] == "begin" and line[2].startswith(kind) for line in self.lines)

    @property
    def last(self) -> list[str]:
        return self.lines[-1] if self.lines else ["nothing"]

    def has(self, what: str, epoch: int) -> bool:
        return any(line[:2] == [what, str(epoch)] for line in self.lines)

    @property
    def failures(self) -> list[str]:
        return [" ".join(line) for line in self.lines if line[0] == "failed"]

    def done(self, start: int) -> int:
        """The last epoch that was done."""
        return max([start, *(int(line[1]) for line in self.lines if line[0] == "done")])

    def possible(self, start: int) -> list[int]:
        """Epochs that a database may be at: the last one done, and one that was under way."""
        begun = [int(line[1]) for line in self.lines if line[0] == "begin"]
        return sorted({self.done(start), *begun[-1:]})


class Victim:
    """A victim, starting; its processes are one group."""

    def __init__(
        self, log: Path, master: str = "local[2]", environment: Mapping[str, str] | None = None
    ) -> None:
        self._log = open(log, "wb")  # noqa: SIM115 - closed with the victim
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.recovery.victim", master],
            cwd=REPOSITORY,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            start_new_session=True,
        )

    def await_ready(self) -> None:
        assert self.process.stdout is not None
        said = self.process.stdout.readline()
        assert said == "ready\n", f"the victim said {said!r}, see {self._log.name}"

    def order(self, orders: Orders) -> None:
        """Say what to do, once it is ready."""
        self.await_ready()
        self.give(orders)

    def give(self, orders: Orders) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(orders.to_json() + "\n")
        self.process.stdin.flush()

    def await_(self, happened: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not happened():
            assert time.monotonic() < deadline, f"nothing happened, see {self._log.name}"
            assert self.process.poll() is None, f"the victim fell by itself, see {self._log.name}"
            time.sleep(0.005)

    def kill(self, *, group: bool) -> None:
        with suppress(ProcessLookupError):
            (os.killpg if group else os.kill)(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def bury(self) -> None:
        """Wait until Spark, which notices the end of its driver, has gone too."""
        deadline = time.monotonic() + PATIENCE
        with suppress(ProcessLookupError):
            while time.monotonic() < deadline:
                os.killpg(self.process.pid, 0)
                time.sleep(0.05)
        self.close()

    def close(self) -> None:
        self.kill(group=True)
        for stream in (self.process.stdin, self.process.stdout, self._log):
            assert stream is not None
            with suppress(BrokenPipeError):
                stream.close()
