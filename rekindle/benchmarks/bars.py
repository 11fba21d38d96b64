"""Bar charts as SVG: one bar for each name, on a logarithmic scale, with a height to reach."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from rekindle.benchmarks.chart import COLOURS, INK, LIMIT_COLOUR, MUTED, RULE

WIDTH, HEIGHT = 900.0, 420.0
LEFT, RIGHT, TOP, BOTTOM = 64.0, 24.0, 64.0, 64.0
GAP = 0.28
"""The share of a bar's place that stays empty."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A named value; one without a value is shown as missing."""

    name: str
    value: float | None


def bar_chart(
    title: str, x_label: str, y_label: str, bars: Sequence[Bar], limits: Sequence[tuple[float, str]]
) -> str:
    """The bars as an SVG document; `limits` are heights with their names.

    Bars stand on 1: a value below 1 hangs down from it.
    """
    known = [bar.value for bar in bars if bar.value is not None and bar.value > 0]
    values = [1.0, *known, *(value for value, _ in limits)]
    low = math.floor(math.log10(min(values)))
    high = max(low + 1, math.ceil(math.log10(1.15 * max(values))))
    place = (WIDTH - LEFT - RIGHT) / max(1, len(bars))

    def y(value: float) -> float:
        share = (math.log10(value) - low) / (high - low)
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH:.0f}" height="{HEIGHT:.0f}" '
        f'viewBox="0 0 {WIDTH:.0f} {HEIGHT:.0f}" role="img" '
        "font-family=\"ui-sans-serif, system-ui, 'Segoe UI', Arial, sans-serif\">",
        f"<title>{escape(title)}</title>",
        f'<rect width="{WIDTH:.0f}" height="{HEIGHT:.0f}" rx="12" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="32" font-size="16" font-weight="700" fill="{INK}">'
        f"{escape(title)}</text>",
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2:.1f}" y="{HEIGHT - 18}" font-size="12" '
        f'fill="{MUTED}" text-anchor="middle">{escape(x_label)}</text>',
        f'<text x="20" y="{(TOP + HEIGHT - BOTTOM) / 2:.1f}" font-size="12" fill="{MUTED}" '
        f'text-anchor="middle" transform="rotate(-90 20 {(TOP + HEIGHT - BOTTOM) / 2:.1f})">'
        f"{escape(y_label)}</text>",
    ]
    for exponent in range(low, high + 1):
        at = y(10.0**exponent)
        parts.append(_rule(at, INK if exponent == 0 else RULE))
        parts.append(_text(LEFT - 10, at + 4, f"{10.0**exponent:g}", anchor="end"))
    for number, bar in enumerate(bars):
        middle = LEFT + (number + 0.5) * place
        parts.append(_text(middle, HEIGHT - BOTTOM + 20, bar.name))
        if bar.value is None or bar.value <= 0:
            parts.append(_text(middle, y(1.0) - 6, "✗", colour=LIMIT_COLOUR))
            continue
        top, foot = min(y(bar.value), y(1.0)), max(y(bar.value), y(1.0))
        colour = COLOURS[0] if bar.value >= 1 else LIMIT_COLOUR
        parts.append(
            f'<rect x="{middle - (1 - GAP) * place / 2:.1f}" y="{top:.1f}" '
            f'width="{(1 - GAP) * place:.1f}" height="{max(1.0, foot - top):.1f}" rx="2" '
            f'fill="{colour}"/>'
        )
        label = top - 5 if bar.value >= 1 else foot + 13
        parts.append(_text(middle, label, _short(bar.value), size=10, colour=INK))
    for number, (value, name) in enumerate(limits):
        parts.append(_rule(y(value), LIMIT_COLOUR, "6 4"))
        # Above the bars, which would hide it.
        at = TOP - 10 - 14 * number
        parts.append(_text(WIDTH - RIGHT, at, f"- - {name}", colour=LIMIT_COLOUR, anchor="end"))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _short(value: float) -> str:
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
