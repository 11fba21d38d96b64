"""What the demo shows: bars while it loads, a table that grows by a line with every transaction."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich import box
from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text


@dataclass(frozen=True, slots=True)
class Line:
    """One transaction: what it did and how long it took, beside a recomputation."""

    epoch: int
    title: str
    rows: int
    view_rows: int
    seconds: float
    recomputed: float
    fresh: bool
    """Was the recomputation measured after this very step?"""

    @property
    def ratio(self) -> float:
        return self.recomputed / self.seconds


class Screen:
    """Writes to a console; without a terminal every line is printed once, when it is known."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._lines: list[Line] = []

    def headline(self, text: str) -> None:
        self._console.print()
        self._console.print(text, style="bold cyan", soft_wrap=True)

    def say(self, text: str, style: str = "") -> None:
        self._console.print(text, style=style, soft_wrap=True)

    @contextmanager
    def bars(self) -> Iterator[Callable[[str, int], Callable[[], None]]]:
        """A function that adds a bar of so many parts, and gives what to call after each."""
        columns = (
            SpinnerColumn(finished_text="[green]✓[/]"),
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=self._console) as progress:

            def add(description: str, parts: int) -> Callable[[], None]:
                task = progress.add_task(description, total=parts)
                return lambda: progress.advance(task)

            yield add

    @contextmanager
    def lines(self) -> Iterator[Callable[[Line], None]]:
        """A function that adds a line to the table of transactions."""
        if not self._console.is_terminal:
            self._console.print(_header(), soft_wrap=True)

            def write(line: Line) -> None:
                self._lines.append(line)
                self._console.print(_plain(line), soft_wrap=True)

            yield write
            return
        with Live(self._table(), console=self._console, refresh_per_second=8) as live:

            def add(line: Line) -> None:
                self._lines.append(line)
                live.update(self._table(), refresh=True)

            yield add

    def summary(self) -> str:
        """The day in one sentence."""
        step = statistics.median(line.seconds for line in self._lines)
        ratio = statistics.median(line.ratio for line in self._lines)
        return (
            f"median step {step * 1000:,.0f} ms, median ratio {ratio:,.1f} times "
            f"faster than recomputing, over {len(self._lines)} transactions"
        )

    def _table(self) -> Table:
        table = Table(box=box.ROUNDED, border_style="dim", header_style="bold")
        table.add_column("epoch", justify="right", style="dim")
        table.add_column("transaction")
        for name in ("rows changed", "view rows", "step", "recompute", "ratio"):
            table.add_column(name, justify="right")
        for line in self._lines:
            table.add_row(
                str(line.epoch),
                line.title,
                f"{line.rows:,}",
                f"{line.view_rows:,}",
                Text(f"{line.seconds * 1000:,.0f} ms", style="bold"),
                Text(f"{line.recomputed * 1000:,.0f} ms", style="" if line.fresh else "dim"),
                _coloured(line.ratio),
            )
        return table


def _coloured(ratio: float) -> Text:
    style = "bold green" if ratio >= 10 else "green" if ratio >= 2 else "yellow"
    return Text(f"{ratio:,.1f} ×", style=style if ratio >= 1 else "red")


def _header() -> str:
    return (
        f"{'epoch':>5}  {'transaction':<40} {'rows changed':>12} {'view rows':>10} "
        f"{'step':>10} {'recompute':>12} {'ratio':>9}"
    )


def _plain(line: Line) -> str:
    recomputed = f"{line.recomputed * 1000:,.0f} ms" + ("" if line.fresh else "*")
    return (
        f"{line.epoch:>5}  {line.title:<40} {line.rows:>12,} {line.view_rows:>10,} "
        f"{line.seconds * 1000:>7,.0f} ms {recomputed:>12} {line.ratio:>7,.1f} ×"
    )
