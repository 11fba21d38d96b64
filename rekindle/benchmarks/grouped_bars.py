"""Bar charts of groups as SVG: for each name one bar of each kind, on a logarithmic scale."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from html import escape

from rekindle.benchmarks.chart import COLOURS, INK, LIMIT_COLOUR, MUTED, RULE

WIDTH, HEIGHT = 900.0, 420.0
LEFT, RIGHT, TOP, BOTTOM = 64.0, 24.0, 84.0, 48.0
GAP = 0.24
"""The share of a group's place that stays empty."""


def grouped_bars(
    title: str,
    y_label: str,
    groups: Sequence[str],
    kinds: Mapping[str, Sequence[float | None]],
    limit: tuple[float, str] | None = None,
) -> str:
    """For each group a bar of every kind, in the order of `groups`; bars stand on 1.

    A value that is not known is marked as missing.
    """
    known = [v for values in kinds.values() for v in values if v is not None and v > 0]
    heights = [1.0, *known, *([] if limit is None else [limit[0]])]
    low = math.floor(math.log10(min(heights)) + 1e-9)
    high = max(low + 1, math.ceil(math.log10(1.15 * max(heights))))
    place = (WIDTH - LEFT - RIGHT) / max(1, len(groups))
    width = (1 - GAP) * place / max(1, len(kinds))

    def y(value: float) -> float:
        share = (math.log10(value) - low) / (high - low)
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)

    middle = (TOP + HEIGHT - BOTTOM) / 2
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH:.0f}" height="{HEIGHT:.0f}" '
        f'viewBox="0 0 {WIDTH:.0f} {HEIGHT:.0f}" role="img" '
        "font-family=\"ui-sans-serif, system-ui, 'Segoe UI', Arial, sans-serif\">",
        f"<title>{escape(title)}</title>",
        f'<rect width="{WIDTH:.0f}" height="{HEIGHT:.0f}" rx="12" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="32" font-size="16" font-weight="700" fill="{INK}">'
        f"{escape(title)}</text>",
        f'<text x="20" y="{middle:.1f}" font-size="12" fill="{MUTED}" text-anchor="middle" '
        f'transform="rotate(-90 20 {middle:.1f})">{escape(y_label)}</text>',
    ]
    for exponent in range(low, high + 1):
        at = y(10.0**exponent)
        parts.append(_rule(at, INK if exponent == 0 else RULE))
        parts.append(_text(LEFT - 10, at + 4, f"{10.0**exponent:g}", anchor="end"))
    for number, group in enumerate(groups):
        parts.append(_text(LEFT + (number + 0.5) * place, HEIGHT - BOTTOM + 22, group, colour=INK))
    for number, (kind, values) in enumerate(kinds.items()):
        colour = COLOURS[number % len(COLOURS)]
        at = LEFT + 170 * number
        parts.append(f'<rect x="{at:.1f}" y="46" width="12" height="12" rx="2" fill="{colour}"/>')
        parts.append(_text(at + 18, 56, kind, anchor="start", colour=INK))
        for group_number, value in enumerate(values):
            x = LEFT + (group_number + GAP / 2) * place + number * width
            parts += _bar(x, width, value, y, colour)
    if limit is not None:
        parts.append(_rule(y(limit[0]), LIMIT_COLOUR, "6 4"))
        text = f"- - {limit[1]}"
        parts.append(_text(WIDTH - RIGHT, 72, text, colour=LIMIT_COLOUR, anchor="end"))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _bar(
    x: float, width: float, value: float | None, y: Callable[[float], float], colour: str
) -> list[str]:
    middle = x + width / 2
    if value is None or value <= 0:
        return [_text(middle, y(1.0) - 6, "✗", colour=LIMIT_COLOUR)]
    top, foot = min(y(value), y(1.0)), max(y(value), y(1.0))
    label = top - 4 if value >= 1 else foot + 11
    return [
        f'<rect x="{x:.1f}" y="{top:.1f}" width="{0.92 * width:.1f}" '
        f'height="{max(1.0, foot - top):.1f}" rx="2" fill="{colour}"/>',
        _text(middle, label, _short(value), size=9, colour=INK),
    ]


def _short(value: float) -> str:
    if value >= 1e4:
        return f"{value:.0e}".replace("e+0", "e").replace("e+", "e")
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def _rule(y: float, colour: str, dashes: str = "") -> str:
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return (
        f'<line x1="{LEFT:.1f}" y1="{y:.1f}" x2="{WIDTH - RIGHT:.1f}" y2="{y:.1f}" '
        f'stroke="{colour}" stroke-width="1.2"{dashed}/>'
    )


def _text(
    x: float, y: float, text: str, *, size: int = 11, colour: str = MUTED, anchor: str = "middle"
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}" '
        f'text-anchor="{anchor}">{escape(text)}</text>'
    )
