"""The boxes of a drawing: one for each node, with what it does, stores and did last.

Text is cut to fit; the whole of it is in the box's tooltip.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from xml.sax.saxutils import quoteattr

from rekindle.circuit.drawing_text import MUTED, RULE, clean, fit, text_element, wrap
from rekindle.circuit.explain_nodes import ExplainedNode, fused_words
from rekindle.circuit.explain_text import sharing_words, state_words, step_words
from rekindle.circuit.nodes import OPERATORS

WIDTH = 264.0
HEAD = 24.0
PORT = 24.0
"""Between the ends of two lines at a box."""
MOST_STAGES = 4

COLOURS: Mapping[str, str] = {operator.kind: operator.colour for operator in OPERATORS}
"""By kind of node."""


@dataclass(frozen=True, slots=True)
class Box:
    """What is written in the box of a node."""

    node: ExplainedNode
    name: str
    how: tuple[str, ...]
    stages: tuple[str, ...]
    stored: str
    step: str
    tooltip: str

    @property
    def height(self) -> float:
        written = HEAD + 34.0 + 15.0 * (len(self.how) + len(self.stages)) - 3.0
        written += 15.0 * (bool(self.stored) + bool(self.step))
        written += 6.0 * bool(self.stored or self.step)
        return max(written, HEAD + 10.0 + PORT * len(self.node.forward))

    @property
    def out(self) -> float:
        """How far under its top lines leave it."""
        return (HEAD + self.height) / 2

    def ports(self) -> list[float]:
        """How far under its top lines enter it, from top to bottom."""
        count = len(self.node.forward)
        return [self.out + PORT * (i - (count - 1) / 2) for i in range(count)]

    def svg(self, x: float, y: float) -> Iterator[str]:
        """The box with its upper left corner at (x, y)."""
        node, colour, inner = self.node, COLOURS[self.node.kind], WIDTH - 24
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
        yield text_element(x + 12, y + 16.5, kind, colour="#ffffff", weight=600)
        badge = f"[{node.number}]"
        if len(node.views) > 1:
            badge = f"{len(node.views)} views  {badge}"
        yield text_element(right - 12, y + 16.5, badge, colour="#ffffff", anchor="end", size=10.5)
        y += HEAD + 18
        size = 13 if node.half is None else 11.5
        yield text_element(x + 12, y, fit(self.name, size, inner), size=size, weight=600)
        for line in self.how:
            y += 15
            yield text_element(x + 12, y, line, size=10.5, colour=MUTED)
        for stage in self.stages:
            y += 15
            yield text_element(x + 12, y, fit(stage, 10.5, inner), size=10.5, colour=colour)
        if self.stored or self.step:
            y += 9
            yield f'<path d="M{x + 12:.1f},{y:.1f} H{right - 12:.1f}" stroke="{RULE}"/>'
            y -= 3
        for caption, value in (("stored", self.stored), ("last step", self.step)):
            if value:
                y += 15 + 3 * (caption == "stored" or not self.stored)
                yield text_element(x + 12, y, caption, size=10.5, colour=MUTED)
                yield text_element(x + 66, y, fit(value, 10.5, inner - 54), size=10.5)
        yield "</g>"


def box_of(node: ExplainedNode, numbers: Mapping[str, int], epoch: int | None) -> Box:
    """The box of a node; `epoch` is the one that the whole drawing is about."""
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
    return Box(
        node=node,
        name=name.removeprefix(f"{node.kind} "),
        how=tuple(wrap(_short(node), 10.5, WIDTH - 24, most=2)),
        stages=tuple(stages),
        stored=stored,
        step=step.replace(", ", " · "),
        tooltip="\n".join(line for line in details if line),
    )


def _short(node: ExplainedNode) -> str:
    if node.half is not None:
        return f"half {node.half.number} of 2 of join {node.half.join}'s change"
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
