"""What a benchmark found: series of samples, and ratios held against their bounds."""

from __future__ import annotations

import enum
import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, slots=True)
class Sample:
    """One measured action; rows are what the nodes of a step read and gave."""

    seconds: float
    rows_read: int | None = None
    rows_written: int | None = None


@dataclass(frozen=True, slots=True)
class Series:
    """The samples of one action, without its warm-up."""

    name: str
    samples: Sequence[Sample]

    @property
    def median(self) -> float:
        return statistics.median(sample.seconds for sample in self.samples)

    @property
    def rows_read(self) -> float | None:
        return _median_known([sample.rows_read for sample in self.samples])

    @property
    def rows_written(self) -> float | None:
        return _median_known([sample.rows_written for sample in self.samples])

    def quantile(self, share: float) -> float:
        """The sample below which the given share of all samples lies; 0.5 is the median."""
        if share == 0.5:
            return self.median
        ordered = sorted(sample.seconds for sample in self.samples)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "median_seconds": self.median,
            "samples": [
                {"seconds": s.seconds, "rows_read": s.rows_read, "rows_written": s.rows_written}
                for s in self.samples
            ],
        }


class Bound(enum.Enum):
    """Which side of the bound is good."""

    AT_MOST = "at most"
    AT_LEAST = "at least"


@dataclass(frozen=True, slots=True)
class Verdict:
    """A measured value against its bound."""

    question: str
    value: float
    bound: Bound
    limit: float
    unit: str = "×"
    fastest: float | None = None
    """The same ratio of the fastest samples, which other work on the machine disturbs least."""

    @property
    def passed(self) -> bool:
        if self.bound is Bound.AT_MOST:
            return self.value <= self.limit
        return self.value >= self.limit

    def to_json(self) -> dict[str, Any]:
        return {
            "question": self.question,
            "value": self.value,
            "value_of_fastest": self.fastest,
            "unit": self.unit,
            "bound": self.bound.value,
            "limit": self.limit,
            "passed": self.passed,
        }


@dataclass(frozen=True, slots=True)
class Report:
    """All that a benchmark says."""

    name: str
    claim: str
    series: Sequence[Series]
    verdicts: Sequence[Verdict]
    machine: Mapping[str, Any]
    settings: Mapping[str, Any]
    notes: Sequence[str] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    picture: str | None = None
    pictures: Mapping[str, str] = field(default_factory=dict)
    """Further ones, by what is added to the name of the file."""
    table: Table | None = None
    """Shown instead of one line for each series."""

    @property
    def passed(self) -> bool:
        return all(verdict.passed for verdict in self.verdicts)

    def to_json(self) -> str:
        """Everything, with the raw samples."""
        content = {
            "bench": self.name,
            "claim": self.claim,
            "passed": self.passed,
            "verdicts": [verdict.to_json() for verdict in self.verdicts],
            "series": [series.to_json() for series in self.series],
            "settings": dict(self.settings),
            "facts": dict(self.facts),
            "notes": list(self.notes),
            "machine": dict(self.machine),
        }
        return json.dumps(content, indent=2, ensure_ascii=False)

    def show(self, console: Console) -> None:
        """Print the series, the verdicts and the notes."""
        table = self.table or self._series_table()
        table.title = self.claim
        console.print(table)
        self._show_verdicts(console)

    def _series_table(self) -> Table:
        table = Table(box=box.ROUNDED, border_style="dim", header_style="bold")
        table.add_column("measured")
        for name in ("median", "fastest", "90 %", "samples", "rows read", "rows written"):
            table.add_column(name, justify="right")
        for series in self.series:
            table.add_row(
                series.name,
                duration(series.median),
                duration(series.quantile(0.0)),
                duration(series.quantile(0.9)),
                str(len(series.samples)),
                _count(series.rows_read),
                _count(series.rows_written),
            )
        return table

    def _show_verdicts(self, console: Console) -> None:
        for verdict in self.verdicts:
            mark = "[bold green]PASS[/]" if verdict.passed else "[bold red]FAIL[/]"
            console.print(
                f"{mark}  {verdict.question}: [bold]{verdict.value:.2f} {verdict.unit}[/]"
                f"  ({verdict.bound.value} {verdict.limit:g} {verdict.unit})"
                + ("" if verdict.fastest is None else f", of fastest {verdict.fastest:.2f}"),
                soft_wrap=True,
            )
        for note in self.notes:
            console.print(note, style="dim", soft_wrap=True)
        cores, load = self.machine["cores"], self.machine["load_before"][0]
        console.print(
            f"{cores} cores, {self.machine['processor']}, load before the run {load:g}",
            style="dim",
            soft_wrap=True,
        )
        if load > cores:
            console.print(
                "the machine was busy with other work: times are too long, and ratios lean "
                "towards what uses fewer threads; measure again when it is quiet",
                style="yellow",
                soft_wrap=True,
            )


def ratio_verdict(
    question: str, upper: Series, lower: Series, bound: Bound, limit: float
) -> Verdict:
    """The ratio of two medians against its bound."""
    fastest = upper.quantile(0.0) / lower.quantile(0.0)
    return Verdict(question, upper.median / lower.median, bound, limit, fastest=fastest)


def duration(seconds: float) -> str:
    """Seconds in a unit that reads well.

    >>> duration(0.0421), duration(3.2)
    ('42.1 ms', '3.20 s')
    """
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1000:.1f} ms"


def _count(rows: float | None) -> str:
    return "" if rows is None else f"{rows:,.0f}"


def _median_known(values: Sequence[int | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None
