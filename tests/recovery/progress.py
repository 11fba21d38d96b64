"""What a long campaign has done so far, so that it can go on from where it stopped.

`make torture` names a directory in `REKINDLE_TORTURE`. Every test of it that passes adds a line
there, with what it counted (kills, faults, lost executors); a run that follows leaves these tests
out. Lines are of one state of the sources: where those have changed everything is to be done again.
The totals, of all runs together, are reported at the end.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[2]
VARIABLE = "REKINDLE_TORTURE"
TALLY = "tally"


@dataclass
class Progress:
    """The lines of a campaign."""

    directory: Path
    sources: Path = REPOSITORY

    @classmethod
    def wanted(cls) -> Progress | None:
        """The campaign that this run belongs to, if it belongs to one."""
        directory = os.environ.get(VARIABLE)
        return None if not directory else cls(Path(directory))

    @cached_property
    def mark(self) -> str:
        """Tells one state of the sources from another."""
        hashed = hashlib.sha256()
        for folder in ("rekindle", "tests/recovery"):
            for file in sorted((self.sources / folder).rglob("*.py")):
                hashed.update(str(file.relative_to(self.sources)).encode())
                hashed.update(file.read_bytes())
        return hashed.hexdigest()[:16]

    @property
    def file(self) -> Path:
        return self.directory / "done.jsonl"

    @property
    def lines(self) -> list[dict[str, Any]]:
        """What was done with these sources; a line that a kill cut short is not counted."""
        found = []
        for text in self.file.read_text().splitlines() if self.file.exists() else ():
            try:
                line = json.loads(text)
            except ValueError:
                continue
            if line.get("sources") == self.mark:
                found.append(line)
        return found

    @property
    def done(self) -> set[str]:
        return {line["test"] for line in self.lines}

    def add(self, test: str, seconds: float, counted: dict[str, int]) -> None:
        """Note that a test has passed."""
        self.directory.mkdir(parents=True, exist_ok=True)
        line = {"test": test, "sources": self.mark, "seconds": round(seconds, 1), TALLY: counted}
        with open(self.file, "a") as file:
            file.write(json.dumps(line) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def summary(self) -> list[str]:
        """The totals of all runs with these sources."""
        counted: Counter[str] = Counter()
        for line in self.lines:
            counted.update(line[TALLY])
        seconds = sum(line["seconds"] for line in self.lines)
        text = ", ".join(f"{count:,} {what}" for what, count in sorted(counted.items()))
        return [f"{len(self.done):,} tests in {seconds / 60:,.0f} minutes: {text or 'no counts'}"]
