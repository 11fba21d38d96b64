"""Rows of a query as a table for people."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SHOWN_ROWS = 50
_UNBOUNDED = 100_000


def make_console() -> Console:
    """The console for results; output that goes to a file or a pipe is never wrapped."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else _UNBOUNDED)


def show_frame(frame: DataFrame, console: Console) -> None:
    """Print the first rows of a frame and say how many more there are."""
    rows = frame.limit(SHOWN_ROWS + 1).collect()
    more = frame.count() - SHOWN_ROWS if len(rows) > SHOWN_ROWS else 0
    console.print(table_of(frame.columns, rows[:SHOWN_ROWS]))
    shown = min(len(rows), SHOWN_ROWS)
    text = f"{shown:,} row" + ("" if shown == 1 else "s")
    console.print(f"{text}, {more:,} more" if more > 0 else text, style="dim")


def table_of(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> Table:
    """Rows as a table; numbers stand on the right, NULL is dim."""
    table = Table(box=box.ROUNDED, header_style="bold", border_style="dim")
    for i, name in enumerate(names):
        values = [row[i] for row in rows if row[i] is not None]
        numeric = bool(values) and all(_is_number(value) for value in values)
        table.add_column(Text(name), justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(_cell(value) for value in row))
    return table


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _cell(value: Any) -> Text:
    if value is None:
        return Text("NULL", style="dim italic")
    return Text(_text(value))


def _text(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case bytes() | bytearray():
            return "0x" + value.hex()
        case dict():
            return "{" + ", ".join(f"{_text(k)}: {_text(v)}" for k, v in value.items()) + "}"
        case tuple() if hasattr(value, "__fields__"):
            names = value.__fields__
            parts = (f"{n}: {_text(v)}" for n, v in zip(names, value, strict=True))
            return "{" + ", ".join(parts) + "}"
        case list() | tuple():
            return "[" + ", ".join(_text(item) for item in value) + "]"
        case None:
            return "NULL"
    return str(value)
