"""Line charts as SVG, drawn by hand so that a benchmark needs no plotting library."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 760.0, 440.0
LEFT, RIGHT, TOP, BOTTOM = 78.0, 30.0, 64.0, 64.0
COLOURS = ("#2563eb", "#d97706", "#059669", "#9333ea")
INK, MUTED, RULE, LIMIT_COLOUR = "#0f172a", "#64748b", "#e2e8f0", "#dc2626"
DOTS = 3
"""Fewer values than this at a point are shown by the line alone."""


@dataclass(frozen=True, slots=True)
class Line:
    """A named line through the medians of the values measured at each x."""

    name: str
    points: Sequence[tuple[float, Sequence[float]]]


def line_chart(
    title: str,
    x_label: str,
    y_label: str,
    lines: Sequence[Line],
    *,
    limit: tuple[float, str] | None = None,
    logarithmic: bool = True,
) -> str:
    """The lines as an SVG document; `limit` is a height to stay under, with its name."""
    scale = _Scale.of(lines, limit, logarithmic)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH:.0f}" height="{HEIGHT:.0f}" '
        f'viewBox="0 0 {WIDTH:.0f} {HEIGHT:.0f}" role="img" '
        "font-family=\"ui-sans-serif, system-ui, 'Segoe UI', Arial, sans-serif\">",
        f"<title>{escape(title)}</title>",
        f'<rect width="{WIDTH:.0f}" height="{HEIGHT:.0f}" rx="12" fill="#ffffff"/>',
        _text(LEFT, 32, title, size=16, colour=INK, weight=700),
        *_axes(scale, x_label, y_label),
    ]
    if limit is not None:
        y = scale.y(limit[0])
        parts.append(_rule(LEFT, y, WIDTH - RIGHT, y, LIMIT_COLOUR, "6 4"))
        parts.append(_text(WIDTH - RIGHT, y - 6, limit[1], colour=LIMIT_COLOUR, anchor="end"))
    for number, line in enumerate(lines):
        colour = COLOURS[number % len(COLOURS)]
        parts += _drawn(line, scale, colour)
        if len(lines) > 1:
            x = LEFT + 12 + 170 * number
            parts.append(_rule(x, TOP - 12, x + 22, TOP - 12, colour))
            parts.append(_text(x + 28, TOP - 8, line.name, colour=INK))
    return "\n".join([*parts, "</svg>"]) + "\n"


@dataclass(frozen=True, slots=True)
class _Scale:
    """From values to places on the page; heights begin at zero."""

    low: float
    high: float
    top: float
    logarithmic: bool

    @classmethod
    def of(
        cls, lines: Sequence[Line], limit: tuple[float, str] | None, logarithmic: bool
    ) -> _Scale:
        places = [x for line in lines for x, _ in line.points]
        # A stray outlier must not flatten everything else.
        heights = [_quantile(values, 0.98) for line in lines for _, values in line.points]
        top = max([*heights, 1e-9 if limit is None else limit[0]])
        return cls(min(places), max(places), 1.12 * max(top, 1e-9), logarithmic)

    def x(self, value: float) -> float:
        low, high, at = self.low, self.high, value
        if self.logarithmic:
            low, high, at = math.log10(low), math.log10(high), math.log10(at)
        share = 0.5 if high == low else (at - low) / (high - low)
        margin = 0.06 if self.logarithmic else 0.0
        return LEFT + (margin + share * (1 - 2 * margin)) * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        share = min(max(value, 0.0) / self.top, 1.0)
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)

    def x_ticks(self) -> list[float]:
        if self.logarithmic:
            first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
            return [10.0**e for e in range(first, last + 1) if self.low <= 10.0**e <= self.high]
        return _round_steps(self.high)

    def y_ticks(self) -> list[float]:
        return _round_steps(self.top)


def _axes(scale: _Scale, x_label: str, y_label: str) -> Iterator[str]:
    floor = HEIGHT - BOTTOM
    for tick in scale.y_ticks():
        y = scale.y(tick)
        yield _rule(LEFT, y, WIDTH - RIGHT, y, RULE)
        yield _text(LEFT - 10, y + 4, f"{tick:g}", anchor="end")
    for tick in scale.x_ticks():
        yield _text(scale.x(tick), floor + 20, _number(tick), anchor="middle")
    yield _rule(LEFT, floor, WIDTH - RIGHT, floor, MUTED)
    yield _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 18, x_label, anchor="middle")
    yield _text(22, (TOP + floor) / 2, y_label, anchor="middle", turned=True)


def _drawn(line: Line, scale: _Scale, colour: str) -> Iterator[str]:
    middles = [(x, statistics.median(values), values) for x, values in line.points]
    for x, _, values in middles:
        if len(values) >= DOTS:
            for number, value in enumerate(values):
                # Spread sideways by a fixed pattern, so that the picture is reproducible.
                aside = ((number * 7) % 11 - 5) * 1.8
                yield (
                    f'<circle cx="{scale.x(x) + aside:.1f}" cy="{scale.y(value):.1f}" r="2.4" '
                    f'fill="{colour}" fill-opacity="0.22"/>'
                )
    path = " ".join(f"{scale.x(x):.1f},{scale.y(middle):.1f}" for x, middle, _ in middles)
    yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'
    for x, middle, values in middles:
        if len(values) >= DOTS:
            place = f'cx="{scale.x(x):.1f}" cy="{scale.y(middle):.1f}"'
            yield f'<circle {place} r="4.5" fill="{colour}" stroke="#ffffff" stroke-width="1.5"/>'
            yield _text(scale.x(x) + 14, scale.y(middle) - 10, f"{middle:.3g}", colour=INK)


def _rule(x1: float, y1: float, x2: float, y2: float, colour: str, dashes: str = "") -> str:
    dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
        f'stroke="{colour}" stroke-width="1.4"{dashed}/>'
    )


def _text(
    x: float,
    y: float,
    text: str,
    *,
    size: int = 12,
    colour: str = MUTED,
    anchor: str = "start",
    weight: int = 400,
    turned: bool = False,
) -> str:
    turn = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if turned else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}" '
        f'font-weight="{weight}" text-anchor="{anchor}"{turn}>{escape(text)}</text>'
    )


def _round_steps(top: float) -> list[float]:
    """Five or so round numbers from zero up to `top`."""
    step = 10.0 ** math.floor(math.log10(top / 4))
    step *= next(factor for factor in (1, 2, 5, 10) if top / (step * factor) <= 6)
    return [step * i for i in range(int(top / step) + 1)]


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:g}"


def _quantile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
