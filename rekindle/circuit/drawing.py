"""A circuit as SVG: boxes for nodes, lines for what they read, from tables to the view.

The drawing needs nothing but an SVG viewer: no style sheet (which would leak into a page that
embeds it), no style at all (some renderers take `height: auto` for no height and draw nothing), no
script, no font beyond the viewer's own. It brings its own background, so it reads
the same on light and dark pages. The two halves of a join stand in one frame.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rekindle.circuit.drawing_boxes import COLOURS, WIDTH, box_of
from rekindle.circuit.drawing_layout import Line, lay_out
from rekindle.circuit.drawing_text import (
    INK,
    MUTED,
    PAPER,
    RULE,
    clean,
    fit,
    text_element,
    text_width,
)
from rekindle.circuit.explain_nodes import ExplainedNode
from rekindle.circuit.explain_text import last_epoch, summary
from rekindle.circuit.operators.words import Link, Role

GAP = 92.0
"""Between two columns: room for the bend of a line."""
ROW_GAP = 24.0
MARGIN = 30.0
FRAME = 12.0
"""Between the halves of a join and the frame around them."""
FRAME_TITLE = 24.0
RUN_IN = 18.0
"""The straight end of a line."""
MARK_ROOM = 52.0
"""By how much a gap and the end of a line are longer in front of a column with marks."""
NARROWEST = 560.0
BACK = 70.0
"""Room under the boxes for the back edges of recursions."""

_FONT = "ui-sans-serif, system-ui, -apple-system, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif"
_CHANGE, _INTEGRAL = "#64748b", "#2563eb"


def draw(title: str, nodes: Sequence[ExplainedNode], notes: Sequence[str] = ()) -> str:
    """The nodes as an SVG document, under the title and the notes."""
    header = [title, *notes, *(summary(nodes) if nodes else ())]
    picture = _Picture(nodes, MARGIN + 26 + 17 * len(header))
    width = max(picture.width, NARROWEST, *(text_width(line, 12) + 2 * MARGIN for line in header))
    legend = _Legend(MARGIN, picture.bottom + 40, width - MARGIN)
    marks = list(legend.svg(nodes))
    height = legend.y + 22
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" '
        f'font-family="{_FONT}" role="img">',
        f"<title>{clean(title)}</title>",
        f"<defs>{_arrow_head('change', _CHANGE)}{_arrow_head('integral', _INTEGRAL)}</defs>",
        f'<rect x="0.5" y="0.5" width="{width - 1:.0f}" height="{height - 1:.0f}" rx="14" '
        f'fill="{PAPER}" stroke="{RULE}"/>',
        text_element(MARGIN, MARGIN + 14, fit(title, 19, width - 60), size=19, weight=700),
        *(
            text_element(MARGIN, MARGIN + 36 + 17 * i, line, size=12, colour=MUTED)
            for i, line in enumerate(header[1:])
        ),
        *picture.svg(),
        *marks,
        "</svg>",
    ]
    return "\n".join(parts)


@dataclass(frozen=True, slots=True)
class _End:
    """Where a line enters a box."""

    node: ExplainedNode
    link: Link
    y: float


class _Picture:
    """Boxes, frames and lines, once they have their places."""

    def __init__(self, nodes: Sequence[ExplainedNode], top: float) -> None:
        numbers = {node.id: node.number for node in nodes}
        epoch = last_epoch(nodes)
        self._nodes = nodes
        self._boxes = {node.id: box_of(node, numbers, epoch) for node in nodes}
        self._blocks = _blocks(nodes)
        self._block_of = {key: block for block, keys in self._blocks.items() for key in keys}
        heights = {block: self._block_height(keys) for block, keys in self._blocks.items()}
        lines = [self._line(node, link) for node in nodes for link in node.forward]
        self._top = top
        self._layout = lay_out(heights, lines, ROW_GAP)
        self._tops = dict(self._box_tops(heights))
        self._marked = {
            self._column(node.id)
            for node in nodes
            if any(_mark_text(node, link) for link in node.forward)
        }
        self._lefts = [MARGIN]
        for column in range(1, 1 + max(self._layout.columns.values(), default=0)):
            room = MARK_ROOM if column in self._marked else 0.0
            self._lefts.append(self._lefts[-1] + WIDTH + GAP + room)
        self.width = self._lefts[-1] + WIDTH + MARGIN
        self._lowest = top + self._layout.height
        backs = [link for node in nodes for link in node.links if link not in node.forward]
        self.bottom = self._lowest + (BACK if backs else 0.0)

    def svg(self) -> Iterator[str]:
        yield from self._frames()
        ends = list(self._ends())
        for end in ends:
            yield self._path(end)
        for node in self._nodes:
            for link in node.links:
                if link not in node.forward:
                    yield from self._back_edge(node, link)
        for key, box in self._boxes.items():
            yield from box.svg(self._left(key), self._tops[key])
        for end in ends:
            yield from self._mark(end)

    # ---- places ----------------------------------------------------------------------------

    def _block_height(self, keys: Sequence[str]) -> float:
        boxes = sum(self._boxes[key].height for key in keys)
        if not self._is_framed(keys):
            return boxes
        return boxes + FRAME * len(keys) + FRAME_TITLE

    def _is_framed(self, keys: Iterable[str]) -> bool:
        return all(self._boxes[key].node.half is not None for key in keys)

    def _box_tops(self, heights: dict[str, float]) -> Iterator[tuple[str, float]]:
        for block, keys in self._blocks.items():
            y = self._top + self._layout.middles[block] - heights[block] / 2
            y += FRAME_TITLE if self._is_framed(keys) else 0.0
            for key in keys:
                yield key, y
                y += self._boxes[key].height + FRAME

    def _column(self, key: str) -> int:
        return self._layout.columns[self._block_of[key]]

    def _left(self, key: str) -> float:
        return self._lefts[self._column(key)]

    def _line(self, node: ExplainedNode, link: Link) -> Line:
        style = f"{link.source}/{_is_integral(link)}"
        return self._block_of[link.source], self._block_of[node.id], style

    # ---- lines -----------------------------------------------------------------------------

    def _ends(self) -> Iterator[_End]:
        """Lines enter a box in the order in which they come, so that they do not cross there."""
        for node in self._nodes:
            arriving = sorted(node.forward, key=lambda link: self._height_before(node, link))
            for link, port in zip(arriving, self._boxes[node.id].ports(), strict=True):
                yield _End(node, link, self._tops[node.id] + port)

    def _height_before(self, node: ExplainedNode, link: Link) -> tuple[float, bool]:
        route = self._layout.routes[self._line(node, link)]
        y = route[-1][1] + self._top if route else self._start(link.source)
        return y, _is_integral(link)

    def _start(self, key: str) -> float:
        return self._tops[key] + self._boxes[key].out

    def _path(self, end: _End) -> str:
        x, y = self._left(end.link.source) + WIDTH, self._start(end.link.source)
        steps = [f"M{x:.1f},{y:.1f}"]
        for column, middle in self._layout.routes[self._line(end.node, end.link)]:
            left = self._lefts[column]
            steps.append(_bend(x, y, left, middle + self._top))
            x, y = left + WIDTH, middle + self._top
            steps.append(f"H{x:.1f}")
        left = self._left(end.node.id)
        straight = RUN_IN + (MARK_ROOM if self._column(end.node.id) in self._marked else 0.0)
        steps += [_bend(x, y, left - straight, end.y), f"H{left - 3:.1f}"]
        style = "integral" if _is_integral(end.link) else "change"
        colour = _INTEGRAL if _is_integral(end.link) else _CHANGE
        dashes = ' stroke-dasharray="6 3.5"' if _is_integral(end.link) else ""
        return (
            f'<path d="{" ".join(steps)}" fill="none" stroke="{colour}" stroke-width="1.5"'
            f'{dashes} marker-end="url(#rekindle-{style})"/>'
        )

    def _back_edge(self, node: ExplainedNode, link: Link) -> Iterator[str]:
        """From under a recursion, below all boxes, back to under its variable."""
        start, end = (self._left(key) + WIDTH / 2 for key in (link.source, node.id))
        top, bottom = (self._tops[key] + self._boxes[key].height for key in (link.source, node.id))
        low = self._lowest + BACK
        yield (
            f'<path d="M{start:.1f},{top:.1f} C{start:.1f},{low:.1f} {end:.1f},{low:.1f} '
            f'{end:.1f},{bottom + 3:.1f}" fill="none" stroke="{_INTEGRAL}" stroke-width="1.5" '
            f'stroke-dasharray="6 3.5" marker-end="url(#rekindle-integral)"/>'
        )
        middle = (top + bottom + 6 * low) / 8
        yield from _pill((start + end) / 2 + 20, middle, link.role.symbol, _INTEGRAL)

    def _mark(self, end: _End) -> Iterator[str]:
        if text := _mark_text(end.node, end.link):
            colour = _INTEGRAL if _is_integral(end.link) else _CHANGE
            yield from _pill(self._left(end.node.id) - 17, end.y, text, colour)

    def _frames(self) -> Iterator[str]:
        for keys in self._blocks.values():
            node = self._boxes[keys[0]].node
            half = node.half
            if half is None:
                continue
            x, y = self._left(keys[0]) - FRAME, self._tops[keys[0]] - FRAME_TITLE
            height, width = self._block_height(keys), WIDTH + 2 * FRAME
            colour = COLOURS[node.kind]
            yield (
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:g}" height="{height:.1f}" rx="13" '
                f'fill="{colour}" fill-opacity="0.07" stroke="{colour}" stroke-opacity="0.45" '
                f'stroke-dasharray="3 3"/>'
            )
            condition = f" on {half.condition}" if half.condition else ", a product"
            title = fit(f"join {half.join}{condition}", 11.5, WIDTH)
            yield text_element(x + FRAME, y + 16, title, size=11.5, weight=600, colour=colour)


def _blocks(nodes: Iterable[ExplainedNode]) -> dict[str, tuple[str, ...]]:
    """What is placed as one: the halves of a join, the first above the second, or one node."""
    found: dict[str, list[ExplainedNode]] = {}
    for node in nodes:
        block = node.id if node.half is None else f"join {node.half.join}"
        found.setdefault(block, []).append(node)
    return {
        block: tuple(node.id for node in sorted(members, key=_half_number))
        for block, members in found.items()
    }


def _half_number(node: ExplainedNode) -> int:
    return 0 if node.half is None else node.half.number


def _is_integral(link: Link) -> bool:
    return link.role is not Role.CHANGE


def _mark_text(node: ExplainedNode, link: Link) -> str:
    if node.half is not None or _is_integral(link):
        return link.role.symbol
    if link.signs == {1}:
        return ""
    return "−" if link.signs == {-1} else "±"


# --- pieces -------------------------------------------------------------------------------------


def _bend(x: float, y: float, to_x: float, to_y: float) -> str:
    middle = (x + to_x) / 2
    return f"C{middle:.1f},{y:.1f} {middle:.1f},{to_y:.1f} {to_x:.1f},{to_y:.1f}"


def _arrow_head(name: str, colour: str) -> str:
    return (
        f'<marker id="rekindle-{name}" viewBox="0 0 10 10" refX="8" refY="5" markerWidth="7" '
        f'markerHeight="7" orient="auto"><path d="M0,0 L10,5 L0,10 L2.5,5 z" fill="{colour}"/>'
        "</marker>"
    )


def _pill(right: float, y: float, text: str, colour: str) -> Iterator[str]:
    width = text_width(text, 10.5) + 12
    yield (
        f'<rect x="{right - width:.1f}" y="{y - 8.5:.1f}" width="{width:.1f}" height="17" '
        f'rx="8.5" fill="{PAPER}" stroke="{colour}"/>'
    )
    yield text_element(
        right - width / 2, y + 3.8, text, size=10.5, weight=600, colour=colour, anchor="middle"
    )


class _Legend:
    """Entries in rows from `x` to `right`; `y` is the middle of the row that is being filled."""

    def __init__(self, x: float, y: float, right: float) -> None:
        self.y = y
        self._first = self._x = x
        self._right = right

    def svg(self, nodes: Sequence[ExplainedNode]) -> Iterator[str]:
        present = {node.kind for node in nodes}
        roles = {link.role for node in nodes for link in node.links}
        for kind in (kind for kind in COLOURS if kind in present):
            x = self._room(18, kind)
            yield (
                f'<rect x="{x:.1f}" y="{self.y - 6:.1f}" width="12" height="12" rx="3" '
                f'fill="{COLOURS[kind]}"/>'
            )
            yield self._caption(x + 18, kind)
        entries = [("", _CHANGE, "", "reads the change of this step")]
        if any(node.half is not None for node in nodes):
            entries += [
                ("Δ", _CHANGE, "", "the change"),
                ("I", _INTEGRAL, "6 3.5", "integral after this step"),
            ]
        if roles & {Role.BEFORE, Role.CHANGE_AND_BEFORE}:
            entries.append(("z⁻¹I", _INTEGRAL, "6 3.5", "integral before this step"))
        for mark, colour, dashes, caption in entries:
            x = self._room(54, caption)
            dashed = f' stroke-dasharray="{dashes}"' if dashes else ""
            yield (
                f'<path d="M{x:.1f},{self.y:.1f} h46" fill="none" stroke="{colour}" '
                f'stroke-width="1.5"{dashed}/>'
            )
            if mark:
                yield from _pill(x + 23 + text_width(mark, 10.5) / 2 + 6, self.y, mark, colour)
            yield self._caption(x + 54, caption)

    def _room(self, lead: float, caption: str) -> float:
        width = lead + text_width(caption, 11) + 20
        if self._x > self._first and self._x + width - 20 > self._right:
            self._x = self._first
            self.y += 26
        self._x += width
        return self._x - width

    def _caption(self, x: float, caption: str) -> str:
        return text_element(x, self.y + 4, caption, colour=INK)
