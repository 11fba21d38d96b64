"""What came of replaying a suite: one row for each of its cases, as Markdown."""

from __future__ import annotations

import enum
import re
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
    UNDETERMINED = "not a function of the tables"
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

    @property
    def page(self) -> Path:
        """`docs/external/<suite>.md`."""
        return REPORTS / f"{self.suite.lower().replace('-', '').replace(' ', '_')}.md"

    def write(self) -> Path:
        REPORTS.mkdir(parents=True, exist_ok=True)
        self.page.write_text(self.markdown(), encoding="utf-8")
        return self.page

    def keep_others(self, page: str) -> None:
        """Take the cases of an earlier page that were not run now, and order all by number.

        >>> results = Results("s", "about")
        >>> _ = results.add("query 9", Outcome.PASSED)
        >>> page = ["| query 10 | passed | |", "| query 2 | failed | 1 \\\\| 2 |"]
        >>> results.keep_others("\\n".join(page))
        >>> [str(result) for result in results.cases.values()]
        ['query 2: failed (1 | 2)', 'query 9: passed', 'query 10: passed']
        """
        for case, outcome, reason in re.findall(r"^\| (.*?) \| ([a-z ]+) \| (.*)\|$", page, re.M):
            if case not in self.cases and outcome != "outcome":
                earlier = Result(case, Outcome(outcome), reason.strip().replace("\\|", "|"))
                self.cases[case] = earlier
        self.cases = dict(sorted(self.cases.items(), key=lambda item: _in_order(item[0])))


def _in_order(name: str) -> list[tuple[int, str]]:
    """What orders `query 9` before `query 10`."""
    return [(int(part or 0), rest) for rest, part in re.findall(r"(\D*)(\d*)", name)]


def _one_line(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= LONGEST else words[:LONGEST] + " …"
