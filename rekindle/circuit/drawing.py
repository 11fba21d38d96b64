"""A circuit as SVG: boxes for nodes, lines for what they read, from tables to the view.

The drawing needs nothing but an SVG viewer: no style sheet (which would leak into a page that
embeds it), no script, no font beyond the viewer's own. It brings its own background, so it reads
the same on light and dark pages. Text is cut to fit by an estimate of its width; the whole of it
is in the tooltip of its box.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr

from rekindle.circuit.drawing_layout import Layout, Line, lay_out
from rekindle.circuit.explain_nodes import ExplainedNode, Link, Role, fused_words
from rekindle.circuit.explain_text import (
    last_epoch,
    sharing_words,
    state_words,
    step_words,
    summary,
)
from rekindle.circuit.explain_words import on_one_line

WIDTH = 264.0
"""Of a box."""
GAP = 132.0
"""Between two columns: room for the bend of a line and its mark."""
ROW_GAP = 22.0
MARGIN = 28.0
FRAME = 12.0
"""Between the two halves of a join and the frame around them."""
FRAME_TITLE = 22.0
HEAD = 24.0
PORT = 24.0
"""Between the ends of two lines at a box."""
RUN_IN = 62.0
"""The straight end of a line, where its mark sits."""
MOST_STAGES = 4

_FONT = "ui-sans-serif, system-ui, -apple-system, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif"
_INK, _MUTED, _PAPER, _RULE = "#1e293b", "#64748b", "#f8fafc", "#e2e8f0"
_CHANGE, _INTEGRAL = "#64748b", "#2563eb"

_COLOURS: Mapping[str, str] = {
    "table": "#0f766e",
    "arrangement": "#2563eb",
    "half join": "#c2410c",
    "distinct": "#a21caf",
    "group": "#6d28d9",
    "view": "#334155",
}
"""Light text stands on these."""


def draw(title: str, nodes: Sequence[ExplainedNode]) -> str:
    """The nodes as an SVG document."""
    return _Drawing(title, nodes).svg()


# --- text ---------------------------------------------------------------------------------------


def text_width(text: str, size: float) -> float:
    """About how wide a text is in a common sans-serif font; rather too wide than too narrow."""
    return size * sum(_character_width(character) for character in text)


def _character_width(character: str) -> float:
    if character in "iljtfrI.,:;'|!()[] ":
        return 0.37
    if character in "mwMW@%⋈" or character.isupper():
        return 0.84 if character in "mwMW@%⋈" else 0.73
    return 0.61 if ord(character) < 0x2E80 else 1.05


def fit(text: str, size: float, width: float) -> str:
    """The text, or as much of it as fits, with an ellipsis.

    >>> fit("select", 10, 100), fit("a rather long condition", 10, 60)
    ('select', 'a rather…')
    """
    text = on_one_line(text)
    if text_width(text, size) <= width:
        return text
    while text and text_width(text + "…", size) > width:
        text = text[:-1]
    return text.rstrip(" ,(") + "…"


def clean(text: str) -> str:
    """The text escaped; characters that XML cannot hold are replaced."""
    allowed = (c if c in "\t\n" or (c >= " " and not _is_forbidden(c)) else "\ufffd" for c in text)
    return escape("".join(allowed))


def _is_forbidden(character: str) -> bool:
    return "\ud800" <= character <= "\udfff" or character in "\ufffe\uffff"


def _text(
    x: float,
    y: float,
    text: str,
    *,
    size: float = 11,
    colour: str = _INK,
    weight: int = 400,
    anchor: str = "start",
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" font-weight="{weight}" '
        f'fill="{colour}" text-anchor="{anchor}">{clean(text)}</text>'
    )


# --- boxes --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Box:
    """What is written in the box of a node."""

    node: ExplainedNode
    name: str
    how: str
    stages: tuple[str, ...]
    stored: str
    step: str
    tooltip: str

    @property
    def height(self) -> float:
        written = HEAD + 38.0 + 15.0 * len(self.stages) + 10.0
        written += 15.0 * (bool(self.stored) + bool(self.step))
        written += 6.0 * bool(self.stored or self.step)
        return max(written, HEAD + 10.0 + PORT * len(self.node.links))

    def svg(self, x: float, y: float) -> Iterator[str]:
        node, colour, inner = self.node, _COLOURS[self.node.kind], WIDTH - 24
        yield f"<g id={quoteattr(node.id)}>"
        yield f"<title>{clean(self.tooltip)}</title>"
        yield (
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{WIDTH:g}" height="{self.height:g}" rx="9" '
            f'fill="#ffffff" stroke="{colour}" stroke-width="1.4"/>'
        )
        right = x + WIDTH
        yield (
            f'<path d="M{x:.1f},{y + HEAD:.1f} v-{HEAD - 9:g} a9,9 0 0 1 9,-9 h{WIDTH - 18:g} '
            f'a9,9 0 0 1 9,9 v{HEAD - 9:g} z" fill="{colour}"/>'
        )
        kind = f"{node.kind} · {node.linearity.value}" if node.kind != "table" else node.kind
        yield _text(x + 12, y + 16.5, kind, colour="#ffffff", weight=600)
        badge = f"[{node.number}]"
        if len(node.views) > 1:
            badge = f"shared by {len(node.views)} views  {badge}"
        yield _text(right - 12, y + 16.5, badge, colour="#ffffff", anchor="end", size=10.5)
        y += HEAD + 18
        yield _text(x + 12, y, fit(self.name, 13.5, inner), size=13.5, weight=650)
        y += 16
        yield _text(x + 12, y, fit(self.how, 10.5, inner), size=10.5, colour=_MUTED)
        for stage in self.stages:
            y += 15
            yield _text(x + 12, y, fit(stage, 10.5, inner), size=10.5, colour=colour)
        if self.stored or self.step:
            y += 9
            yield f'<path d="M{x + 12:.1f},{y:.1f} H{right - 12:.1f}" stroke="{_RULE}"/>'
            y -= 3
        for caption, value in (("stored", self.stored), ("last step", self.step)):
            if value:
                y += 15 + 3 * (caption == "stored" or not self.stored)
                yield _text(x + 12, y, caption, size=10.5, colour=_MUTED)
                yield _text(x + 66, y, fit(value, 10.5, inner - 54), size=10.5)
        yield "</g>"


def _box(node: ExplainedNode, numbers: Mapping[str, int], epoch: int | None) -> _Box:
    stages = list(dict.fromkeys(_stage_lines(node, numbers)))
    if len(stages) > MOST_STAGES:
        hidden = len(stages) - MOST_STAGES + 1
        stages = [*stages[: MOST_STAGES - 1], f"… {hidden} more"]
    name = node.label if node.half is None else node.half.formula
    stored = state_words(node.facts).replace(", ", " · ")
    step = step_words(node.facts, epoch)
    details = [
        node.label,
        f"{node.strategy.value}: {node.why}",
        node.how,
        *(f"fused {fused_words(fused, numbers)}" for fused in node.fused),
        sharing_words(node, numbers),
        f"stored: {stored}" if stored else "",
        f"last step: {step}" if step else "",
        node.id,
    ]
    return _Box(
        node=node,
        name=name.removeprefix(f"{node.kind} "),
        how=_short(node),
        stages=tuple(stages),
        stored=stored,
        step=step.replace(", ", " · "),
        tooltip="\n".join(line for line in details if line),
    )


def _short(node: ExplainedNode) -> str:
    if node.half is not None:
        return f"half {node.half.number} of 2 of join {node.half.join}"
    return node.how.removeprefix(f"{node.strategy.value}: ")


def _stage_lines(node: ExplainedNode, numbers: Mapping[str, int]) -> Iterator[str]:
    several = len(node.fused) > 1
    for fused in node.fused:
        of = "".join(f"[{numbers[source]}]" for source in dict.fromkeys(fused.sources))
        prefix = f"{'−' * (fused.sign < 0)}{of} " if several or fused.sign < 0 else ""
        if not fused.stages:
            yield f"{prefix}negated"
        for stage in fused.stages:
            yield f"{prefix}▸ {stage}"


# --- the whole ----------------------------------------------------------------------------------


class _Drawing:
    def __init__(self, title: str, nodes: Sequence[ExplainedNode]) -> None:
        numbers = {node.id: node.number for node in nodes}
        epoch = last_epoch(nodes)
        self._title = title
        self._nodes = nodes
        self._boxes = {node.id: _box(node, numbers, epoch) for node in nodes}
        self._blocks = _blocks(nodes)
        self._block_of = {key: block for block, keys in self._blocks.items() for key in keys}
        self._columns = 1

    def svg(self) -> str:
        heights = {block: self._block_height(keys) for block, keys in self._blocks.items()}
        lines = [self._line(node, link) for node in self._nodes for link in node.links]
        layout = lay_out(heights, lines, ROW_GAP)
        columns = 1 + max(layout.columns.values())
        header = [self._title, *summary(self._nodes)]
        wanted = max(text_width(line, 12) for line in header) + 60
        width = max(2 * MARGIN + columns * WIDTH + (columns - 1) * GAP + 2 * FRAME, wanted, 560)
        top = MARGIN + 22 + 17 * len(header[1:]) + 18
        tops = self._tops(layout, top)
        ports = self._ports(tops)
        legend, legend_height = _legend(self._nodes, width, top + layout.height + 34)
        height = top + layout.height + 34 + legend_height + 14
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
            f'viewBox="0 0 {width:.0f} {height:.0f}" style="max-width:100%;height:auto" '
            f'font-family="{_FONT}" role="img">',
            f"<title>{clean(self._title)}</title>",
            f"<defs>{_arrow('change', _CHANGE)}{_arrow('integral', _INTEGRAL)}</defs>",
            f'<rect width="100%" height="100%" rx="14" fill="{_PAPER}" stroke="{_RULE}"/>',
            _text(MARGIN, MARGIN + 14, fit(self._title, 19, width - 56), size=19, weight=700),
            *(
                _text(MARGIN, MARGIN + 36 + 17 * i, line, size=12, colour=_MUTED)
                for i, line in enumerate(header[1:])
            ),
            *self._frames(tops),
            *self._lines(layout, tops, ports, top),
            *(
                part
                for key, box in self._boxes.items()
                for part in box.svg(self._left(layout, key), tops[key])
            ),
            *self._marks(layout, ports),
            *legend,
            "</svg>",
        ]
        return "\n".join(parts)
