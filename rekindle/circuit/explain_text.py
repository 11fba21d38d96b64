"""An explanation as text: a tree with the view at its root, and aligned columns beside it.

A node that several others read is shown in full once and by its number `[n]` afterwards. (The
numbers `#n` in the incremental form are a different count: they number parts of that expression.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rekindle.circuit.explain_nodes import ExplainedNode, NodeFacts, fused_words
from rekindle.circuit.explain_words import count_words, duration_words, listed, size_words
from rekindle.circuit.operators.words import Link, Role

_WIDEST = 96
"""Columns stand no further to the right than this; a longer label pushes them."""


def to_text(
    title: str, nodes: Sequence[ExplainedNode], derivation: Sequence[tuple[str, str]]
) -> str:
    """The text of an explanation; of the derivation only its last step is shown."""
    sections = [
        [title, *(f"  {line}" for line in summary(nodes))],
        list(_aligned(_Tree(nodes).rows())),
        ["what a step computes (state is filled once, when a view is created)", *_reasons(nodes)],
    ]
    if derivation:
        lines = derivation[-1][1].splitlines()
        sections.append(["incremental form", *(f"  {line}" for line in lines)])
    return "\n\n".join("\n".join(section) for section in sections)


def summary(nodes: Sequence[ExplainedNode]) -> list[str]:
    """The size of the whole, and its last step."""
    stored = [node.facts for node in nodes if node.facts.rows_stored is not None]
    lines = [count_words(len(nodes), "node")]
    if stored:
        rows = sum(facts.rows_stored or 0 for facts in stored)
        sizes = [facts.bytes_stored for facts in stored if facts.bytes_stored is not None]
        kept = [count_words(rows, "row"), *([size_words(sum(sizes))] if sizes else [])]
        lines[0] += f", {len(stored)} with an integral: {', '.join(kept)}"
    if (epoch := last_epoch(nodes)) is not None:
        ran = [node.facts for node in nodes if node.facts.epoch == epoch]
        seconds = sum(facts.seconds or 0.0 for facts in ran)
        places = sorted({facts.placement for facts in ran if facts.placement})
        where = f", {listed(places)}" if places else ""
        lines.append(
            f"last step: epoch {epoch}{where}, {len(ran)} of {count_words(len(nodes), 'node')} "
            f"ran, {duration_words(seconds)}"
        )
    return lines


def last_epoch(nodes: Iterable[ExplainedNode]) -> int | None:
    """The newest epoch in which any of the nodes ran."""
    return max((n.facts.epoch for n in nodes if n.facts.epoch is not None), default=None)


def state_words(facts: NodeFacts) -> str:
    """What a node stores, or nothing."""
    words = []
    if facts.rows_stored is not None:
        words.append(count_words(facts.rows_stored, "row"))
    if facts.bytes_stored is not None:
        words.append(size_words(facts.bytes_stored))
    if facts.runs is not None:
        words.append(count_words(facts.runs, "run"))
    return ", ".join(words)


def step_words(facts: NodeFacts, epoch: int | None) -> str:
    """What a node did when it last ran; says when, unless that was at `epoch`."""
    words = []
    if facts.rows_in is not None or facts.rows_out is not None:
        rows_in, rows_out = (
            "?" if n is None else f"{n:,}" for n in (facts.rows_in, facts.rows_out)
        )
        words.append(f"{rows_in} → {rows_out} rows")
    if facts.seconds is not None:
        words.append(duration_words(facts.seconds))
    if facts.placement is not None:
        words.append(facts.placement)
    if facts.heavy_keys:
        heavy = count_words(facts.heavy_keys, "heavy key")
        words.append(f"{heavy} divided, of more than {facts.threshold:,} pairs")
    if facts.rebuilt:
        words.append(f"rebuilt: {facts.rebuilt}")
    if facts.epoch is not None and facts.epoch != epoch:
        words.append(f"at epoch {facts.epoch}")
    return ", ".join(words)


@dataclass(frozen=True, slots=True)
class _Row:
    """A line of the tree, with columns beside it if it starts a node."""

    text: str
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Below:
    """A node that is to be shown next, with what stands before its first line and the others."""

    node: ExplainedNode
    head: str
    indent: str


class _Tree:
    def __init__(self, nodes: Sequence[ExplainedNode]) -> None:
        self._nodes = {node.id: node for node in nodes}
        self._numbers = {node.id: node.number for node in nodes}
        self._epoch = last_epoch(nodes)
        self._root = nodes[0]
        self._shown: set[str] = set()

    def rows(self) -> Iterator[_Row]:
        yield _Row("", ("linearity", "stored", "last step"))
        waiting: list[Iterator[_Row | _Below]] = [self._node(_Below(self._root, "", ""))]
        while waiting:
            found = next(waiting[-1], None)
            if found is None:
                waiting.pop()
            elif isinstance(found, _Below):
                waiting.append(self._node(found))
            else:
                yield found

    def _node(self, below: _Below) -> Iterator[_Row | _Below]:
        node, indent = below.node, below.indent
        self._shown.add(node.id)
        columns = (
            node.linearity.value,
            state_words(node.facts) or "-",
            step_words(node.facts, self._epoch) or "-",
        )
        yield _Row(f"{below.head}[{node.number}] {node.title}", columns)
        rail = "│" if node.links else " "
        for line in self._details(node):
            yield _Row(f"{indent}{rail}    {line}")
        for link in node.links:
            last = link is node.links[-1]
            yield self._link(
                node, link, indent + ("└─ " if last else "├─ "), indent + ("   " if last else "│  ")
            )

    def _link(self, node: ExplainedNode, link: Link, head: str, indent: str) -> _Row | _Below:
        source = self._nodes[link.source]
        if node.half is not None or link.role is not Role.CHANGE:
            head += f"{link.role.symbol} "
        if source.id in self._shown:
            return _Row(f"{head}[{source.number}] {source.title}, shown above")
        return _Below(source, head, indent)

    def _details(self, node: ExplainedNode) -> Iterator[str]:
        yield node.how
        for fused in node.fused:
            yield f"fused   {fused_words(fused, self._numbers)}"
        for key in node.reads:
            source = self._nodes[key]
            yield f"reads   [{source.number}] {source.title}"
        if node.facts.forgets:
            yield f"state   {node.facts.forgets}"
        if len(node.readers) > 1 or len(node.views) > 1:
            yield f"shared  {sharing_words(node, self._numbers)}"


def sharing_words(node: ExplainedNode, numbers: Mapping[str, int]) -> str:
    """Who uses a node: the readers among the numbered nodes, how many others, and the views."""
    here = [f"[{n}]" for n in sorted(numbers[r] for r in node.readers if r in numbers)]
    others = len(node.readers) - len(here)
    readers = [*here, *([count_words(others, "other node")] if others else [])]
    words = [f"read by {listed(readers)}"] if readers else []
    if len(node.views) > 1:
        words.append(f"for views {listed(node.views)}")
    return ", ".join(words)


def _aligned(rows: Iterable[_Row]) -> Iterator[str]:
    found = list(rows)
    width = max(
        (len(row.text) for row in found if row.columns and len(row.text) <= _WIDEST), default=0
    )
    widths = [
        max(len(row.columns[i]) for row in found if row.columns)
        for i in range(max(len(row.columns) for row in found))
    ]
    for row in found:
        cells = [row.text.ljust(width), *map(str.ljust, row.columns, widths)]
        yield "  ".join(cells).rstrip() if row.columns else row.text


def _reasons(nodes: Iterable[ExplainedNode]) -> Iterator[str]:
    """Each reason once, with the kind of node it is about."""
    found = dict.fromkeys((node.strategy.value, node.kind, node.why) for node in nodes)
    width = max(len(f"{strategy}, {kind}") for strategy, kind, _ in found)
    for strategy, kind, why in found:
        yield f"  {f'{strategy}, {kind}'.ljust(width)}  {why}"
