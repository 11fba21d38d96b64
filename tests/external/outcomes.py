"""What came of replaying a suite: one row for each of its cases, as Markdown."""

from __future__ import annotations

import enum
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.external.material import ROOT

REPORTS = ROOT / "docs" / "external"
LONGEST = 300


class Outcome(enum.Enum):
    """What can come of a case."""

    PASSED = "passed"
    FAILED = "failed"
    REFUSED = "refused"
    NOT_APPLICABLE = "not applicable"


@dataclass(frozen=True, slots=True)
class Result:
    """A case with its outcome; a case that did not pass has a reason."""

    case: str
    outcome: Outcome
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.case}: {self.outcome.value}" + (f" ({self.reason})" if self.reason else "")


@dataclass(slots=True)
class Results:
    """The results of a suite. A case that fails once stays failed."""

    suite: str
    about: str
    cases: dict[str, Result] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def add(self, case: str, outcome: Outcome, reason: str = "") -> Result:
        before = self.cases.get(case)
        if before is None or before.outcome is Outcome.PASSED:
            self.cases[case] = Result(case, outcome, _one_line(reason))
        return self.cases[case]

    def of(self, outcome: Outcome) -> list[Result]:
        return [result for result in self.cases.values() if result.outcome is outcome]

    @property
    def summary(self) -> str:
        counts = Counter(result.outcome for result in self.cases.values())
        parts = [f"{counts[outcome]} {outcome.value}" for outcome in Outcome if counts[outcome]]
        return f"{len(self.cases)} cases: {', '.join(parts)}"

    def markdown(self) -> str:
        lines = [f"# {self.suite}", "", self.about, "", f"{self.summary}.", ""]
        lines += [f"- {note}" for note in self.notes] + ([""] if self.notes else [])
        lines += ["| case | outcome | reason |", "|---|---|---|"]
        for result in self.cases.values():
            reason = result.reason.replace("|", "\\|")
            lines.append(f"| {result.case} | {result.outcome.value} | {reason} |")
        return "\n".join(lines) + "\n"

    def write(self) -> Path:
        """Write `docs/external/<suite>.md`."""
        REPORTS.mkdir(parents=True, exist_ok=True)
        place = REPORTS / f"{self.suite.lower().replace('-', '').replace(' ', '_')}.md"
        place.write_text(self.markdown(), encoding="utf-8")
        return place


def _one_line(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= LONGEST else words[:LONGEST] + " …"
