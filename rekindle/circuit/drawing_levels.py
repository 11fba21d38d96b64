"""A nested view as the flat tables that are kept of it, drawn with some of their rows.

The top is on the left; a line leads from each column of labels to the table that defines them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rekindle.circuit.drawing_text import INK, MUTED, PAPER, RULE, clean, fit, text_element

MARGIN, GAP, LINE, HEAD = 24.0, 72.0, 20.0, 46.0
CELL, MOST_COLUMNS = 132.0, 5
LABELS = "#2563eb"


@dataclass(frozen=True, slots=True)
class LevelTable:
    """A flat table: its path, how many rows it has, its columns, some rows, and what is below."""

    path: str
    rows: int
    columns: tuple[str, ...]
    sample: tuple[tuple[str, ...], ...]
    below: tuple[tuple[str, str], ...] = ()
    """The columns that hold labels, and the paths of the tables that define them."""

    @property
    def width(self) -> float:
        return CELL * min(len(self.columns), MOST_COLUMNS)

    @property
    def height(self) -> float:
        return HEAD + LINE * (1 + max(1, len(self.sample))) + 8.0


def draw_levels(title: str, tables: Sequence[LevelTable]) -> str:
    """The tables as an SVG document, the top first."""
    places = _places(tables)
    width = max(x + table.width for table, (x, _) in zip(tables, places, strict=True)) + MARGIN
    height = max(y + table.height for table, (_, y) in zip(tables, places, strict=True)) + MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="sans-serif" role="img">',
        f"<title>{clean(title)}</title>",
        f'<rect width="{width:.0f}" height="{height:.0f}" fill="{PAPER}"/>',
        text_element(MARGIN, 26.0, title, size=15, colour=INK, weight=600),
    ]
    by_path = {table.path: place for table, place in zip(tables, places, strict=True)}
    for table, (x, y) in zip(tables, places, strict=True):
        for column, path in table.below:
            if path in by_path:
                parts.append(_arrow(table, column, (x, y), by_path[path]))
    for table, (x, y) in zip(tables, places, strict=True):
        parts += _table(table, x, y)
    return "\n".join([*parts, "</svg>"])


def _places(tables: Sequence[LevelTable]) -> list[tuple[float, float]]:
    """A column of tables for each depth."""
    depths = [table.path.count(".") + 1 if table.path else 0 for table in tables]
    left, x = dict[int, float](), MARGIN
    for depth in range(max(depths) + 1):
        left[depth] = x
        x += max(t.width for t, d in zip(tables, depths, strict=True) if d == depth) + GAP
    next_free: dict[int, float] = {}
    found = []
    for table, depth in zip(tables, depths, strict=True):
        y = next_free.get(depth, 48.0)
        found.append((left[depth], y))
        next_free[depth] = y + table.height + 28.0
    return found


def _arrow(
    table: LevelTable, column: str, start: tuple[float, float], end: tuple[float, float]
) -> str:
    (x, y), (to_x, to_y) = start, end
    shown = table.columns[:MOST_COLUMNS]
    place = shown.index(column.split(".")[0]) if column.split(".")[0] in shown else len(shown) - 1
    from_x, from_y = x + CELL * (place + 1), y + HEAD - 2
    middle = (x + table.width + to_x) / 2
    return (
        f'<path d="M{from_x - 10:.0f} {from_y:.0f} H{middle:.0f} V{to_y + 14:.0f} H{to_x:.0f}" '
        f'fill="none" stroke="{LABELS}" stroke-width="1.5"/>'
    )


def _table(table: LevelTable, x: float, y: float) -> Iterator[str]:
    words = table.path or "top"
    yield (
        f'<rect x="{x:.0f}" y="{y:.0f}" width="{table.width:.0f}" height="{table.height:.0f}" '
        f'rx="6" fill="white" stroke="{RULE}"/>'
    )
    yield text_element(x + 10, y + 19, words, size=13, colour=INK, weight=600)
    yield text_element(
        x + 10 + 9.0 * len(words) + 8, y + 19, f"{table.rows:,} rows", size=11, colour=MUTED
    )
    labels = {column.split(".")[0] for column, _ in table.below} | {"_label"}
    for i, column in enumerate(table.columns[:MOST_COLUMNS]):
        colour = LABELS if column in labels else MUTED
        text = fit(column, 12, CELL - 16)
        yield text_element(
            x + 10 + CELL * i, y + HEAD - 6, text, size=12, colour=colour, weight=600
        )
    yield (
        f'<line x1="{x:.0f}" y1="{y + HEAD:.0f}" x2="{x + table.width:.0f}" '
        f'y2="{y + HEAD:.0f}" stroke="{RULE}"/>'
    )
    for number, row in enumerate(table.sample):
        for i, value in enumerate(row[:MOST_COLUMNS]):
            text = fit(value, 12, CELL - 16)
            yield text_element(
                x + 10 + CELL * i, y + HEAD + LINE * (number + 0.8), text, size=12, colour=INK
            )
    if table.rows > len(table.sample):
        yield text_element(
            x + 10, y + HEAD + LINE * (len(table.sample) + 0.8), "…", size=12, colour=MUTED
        )
