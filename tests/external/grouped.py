"""The page of a suite with many cases: counts, reasons in groups, and every failure in full."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path

from tests.external.batches import generalised
from tests.external.outcomes import REPORTS, Outcome, Result, Results


def grouped_markdown(results: Results, queries: Mapping[str, str], whole: Counter[str]) -> str:
    """The page. `whole` counts the nodes of passing views that are recomputed as a whole."""
    lines = [f"# {results.suite}", "", results.about, "", f"{results.summary}.", ""]
    lines += [f"- {note}" for note in results.notes] + [""]
    for outcome in (Outcome.REFUSED, Outcome.UNDETERMINED, Outcome.NOT_APPLICABLE):
        groups = _groups(results.of(outcome))
        if groups:
            lines += [f"## {outcome.value.capitalize()}", "", "| cases | reason | one of them |"]
            lines += ["|---|---|---|"]
        for reason, cases in sorted(groups.items(), key=lambda item: -len(item[1])):
            shown = _cell(queries.get(cases[0].case, ""))
            lines.append(f"| {len(cases)} | {_cell(reason)} | {cases[0].case}: `{shown}` |")
        lines += [""] if groups else []
    if whole:
        lines += ["## Recomputed as a whole", "", "| nodes | which |", "|---|---|"]
        lines += [f"| {count} | {_cell(node)} |" for node, count in whole.most_common()] + [""]
    failed = results.of(Outcome.FAILED)
    lines += ["## Failed", ""] + ([] if failed else ["None."])
    for result in failed:
        query = queries.get(result.case, "")
        lines += [f"### {result.case}", "", result.reason, "", "```sql", query.strip(), "```", ""]
    return "\n".join(lines).rstrip() + "\n"


def share(run: int, there_are: int, what: str) -> str:
    """How much of a suite a page is about.

    >>> share(3, 3, "cases"), share(3, 8000, "cases")
    ('All 3 cases', 'A sample of 3 of 8,000 cases')
    """
    if run == there_are:
        return f"All {run:,} {what}"
    return f"A sample of {run:,} of {there_are:,} {what}"


def write_grouped(results: Results, queries: Mapping[str, str], whole: Counter[str]) -> Path:
    """Write `docs/external/<suite>.md`."""
    REPORTS.mkdir(parents=True, exist_ok=True)
    place = REPORTS / f"{results.suite.lower()}.md"
    place.write_text(grouped_markdown(results, queries, whole), encoding="utf-8")
    return place


def _groups(results: list[Result]) -> dict[str, list[Result]]:
    groups = defaultdict(list)
    for result in results:
        groups[generalised(result.reason)].append(result)
    return groups


def _cell(text: str) -> str:
    words = " ".join(text.split()).replace("|", "\\|").replace("`", "'")
    return words if len(words) <= 200 else words[:200] + " …"
