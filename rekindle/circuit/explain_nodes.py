"""What explain says of each node: how its change is computed, from what, and why that is enough.

The words stand with the operators (`rekindle.circuit.operators`). The strategy follows from a
node's linearity: a linear node takes the change as it is, a bilinear one pairs the change of one
side with the integral of the other, a per-key one looks at the keys that the change touches. Only a
node whose one group is all rows computes its value anew in a step, and is shown as recomputed;
where the work of a step nevertheless follows the size of what is stored (a join without a key),
`why` says so.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rekindle.calculus.terms import Linearity
from rekindle.circuit.circuit import Circuit
from rekindle.circuit.explain_words import branch_words, listed
from rekindle.circuit.nodes import Formed, HalfJoin, Moment, Node, Side, View
from rekindle.circuit.operators.words import Half, Link, Role
from rekindle.circuit.ranges import branches_of
from rekindle.circuit.stages import Branch, Generate, LinearForm, Where


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What is known of a node at run time: its integral, and what it did when it last ran."""

    rows_stored: int | None = None
    bytes_stored: int | None = None
    runs: int | None = None
    rows_in: int | None = None
    rows_out: int | None = None
    seconds: float | None = None
    placement: str | None = None
    epoch: int | None = None
    rebuilt: str = ""
    """Why the last step filled the node anew, if it did."""
    heavy_keys: int = 0
    """How many keys had so many rows in the last step that these were divided between tasks."""
    threshold: int = 0
    """More pairs than so many made a key heavy, if one was."""
    forgets: str = ""
    """Which rows of its integral are removed by the time, or why none are."""


class Strategy(enum.Enum):
    """How a node follows a change."""

    LINEAR = "linear"
    BILINEAR = "bilinear"
    PER_KEY = "per key"
    RECOMPUTED = "recomputed"
    SCOPE = "fixed point"


def strategy_of(node: Node) -> Strategy:
    """The strategy of a node: that of its linearity, unless its one group is all its input."""
    match node.linearity:
        case Linearity.BILINEAR:
            return Strategy.BILINEAR
        case Linearity.PER_KEY:
            return Strategy.RECOMPUTED if node.is_recomputed else Strategy.PER_KEY
        case Linearity.SCOPE:
            return Strategy.SCOPE
    return Strategy.LINEAR


@dataclass(frozen=True, slots=True)
class Fused:
    """Linear stages that run together on the outputs of `sources` before they enter a node."""

    sources: tuple[str, ...]
    sign: int
    stages: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ExplainedNode:
    """A node of a circuit, for people. `number` is its place in the text, from 1."""

    id: str
    number: int
    kind: str
    label: str
    title: str
    """The label, with the kind where that does not say it."""
    linearity: Linearity
    strategy: Strategy
    how: str
    why: str
    keys: tuple[str, ...]
    links: tuple[Link, ...]
    fused: tuple[Fused, ...]
    readers: tuple[str, ...]
    views: tuple[str, ...]
    half: Half | None
    facts: NodeFacts

    @property
    def reads(self) -> tuple[str, ...]:
        """The nodes whose integral it looks things up in."""
        outside = (Role.CHANGE, Role.DELAYED)
        return tuple(link.source for link in self.links if link.role not in outside)

    @property
    def forward(self) -> tuple[Link, ...]:
        """The inputs that come before it; the back edge of a recursion is left out."""
        return tuple(link for link in self.links if link.role is not Role.DELAYED)


def describe(
    circuit: Circuit, root: str, facts: Mapping[str, NodeFacts]
) -> tuple[ExplainedNode, ...]:
    """The nodes that `root` depends on, itself first, each before its inputs are first shown."""
    describer = _Describer(circuit)
    describer.visit(root)
    return tuple(
        describer.explained(circuit.nodes[key], facts.get(key, NodeFacts()))
        for key in describer.numbers
    )


@dataclass(slots=True)
class _Describer:
    """Numbers and names of the nodes of one explanation: the `Words` that they are put into."""

    circuit: Circuit
    numbers: dict[str, int] = field(default_factory=dict)
    joins: dict[str, int] = field(default_factory=dict)
    _readers: Mapping[str, tuple[str, ...]] = field(init=False)
    _views: Mapping[str, tuple[str, ...]] = field(init=False)
    _halves: Mapping[tuple[str, str, Moment, Side], str] = field(init=False)
    _branches: Mapping[str, Sequence[Branch]] = field(init=False)
    _names: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        nodes = self.circuit.nodes.values()
        self._readers = self.circuit.readers()
        self._branches = branches_of(nodes)
        self._views = _views_over(self.circuit)
        self._halves = {node.ends: node.id for node in nodes if isinstance(node, HalfJoin)}

    def visit(self, key: str) -> None:
        """Number the nodes and joins under a node, depth first."""
        waiting = [key]
        while waiting:
            key = waiting.pop()
            if key in self.numbers:
                continue
            self.numbers[key] = len(self.numbers) + 1
            node = self.circuit.nodes[key]
            if isinstance(node, HalfJoin) and key not in self.joins:
                number = len(set(self.joins.values())) + 1
                self.joins[key] = number
                if (partner := self.partner(node)) is not None:
                    self.joins[partner] = number
            waiting += (link.source for link in reversed(node.links))

    def explained(self, node: Node, facts: NodeFacts) -> ExplainedNode:
        return ExplainedNode(
            id=node.id,
            number=self.numbers[node.id],
            kind=node.kind,
            label=node.label_in(self),
            title=node.title_in(self),
            linearity=node.linearity,
            strategy=strategy_of(node),
            how=node.how_in(self),
            why=node.why_in(self),
            keys=node.keys_in(self),
            links=node.links,
            fused=_fused(node.form) if isinstance(node, Formed) else (),
            readers=tuple(dict.fromkeys(self._readers[node.id])),
            views=self._views[node.id],
            half=node.half_in(self),
            facts=facts,
        )

    # ---- words -----------------------------------------------------------------------------

    def node(self, key: str) -> Node:
        return self.circuit.nodes[key]

    def name(self, key: str) -> str:
        if key not in self._names:
            self._names[key] = self.circuit.nodes[key].name_in(self)
        return self._names[key]

    def reference(self, key: str) -> str:
        return f"{self.name(key)} [{self.numbers[key]}]"

    def branches(self, key: str) -> Sequence[Branch]:
        return self._branches.get(key, ())

    def join_number(self, key: str) -> int:
        return self.joins[key]

    def partner(self, half: HalfJoin) -> str | None:
        ends = half.other_ends
        return None if ends is None else self._halves.get(ends)

    def view_names(self, key: str) -> list[str]:
        return [name for name, node in self.circuit.names.items() if node == key]

    def form_name(self, form: LinearForm) -> str:
        names = list(dict.fromkeys(self.branch_name(branch) for branch in form.branches))
        if len(names) > 3:
            return f"a sum of {len(names)} inputs"
        return " + ".join(names).replace(" + −", " − ")

    def branch_name(self, branch: Branch) -> str:
        words = ["filtered"] * any(isinstance(stage, Where) for stage in branch.stages)
        words += ["flattened"] * any(isinstance(stage, Generate) for stage in branch.stages)
        return "−" * (branch.sign < 0) + " ".join([*words, self.name(branch.node)])


def _fused(form: LinearForm) -> tuple[Fused, ...]:
    """The form's branches; those with the same stages (two halves of a join) are one entry."""
    found: dict[tuple[int, tuple[str, ...]], list[str]] = {}
    for branch in form.branches:
        found.setdefault((branch.sign, branch_words(branch)), []).append(branch.node)
    return tuple(
        Fused(tuple(sources), sign, stages)
        for (sign, stages), sources in found.items()
        if stages or sign < 0
    )


def _views_over(circuit: Circuit) -> dict[str, tuple[str, ...]]:
    """For each node, the names of the views that depend on it."""
    found: dict[str, list[str]] = {key: [] for key in circuit.nodes}
    for name, key in circuit.names.items():
        if isinstance(circuit.nodes[key], View):
            for node in circuit.reachable(key):
                found[node.id].append(name)
    return {key: tuple(names) for key, names in found.items()}


def fused_words(fused: Fused, numbers: Mapping[str, int]) -> str:
    """The stages in order; the inputs they apply to are named by number."""
    sign = "negated " if fused.sign < 0 else ""
    of = listed(f"[{numbers[source]}]" for source in dict.fromkeys(fused.sources))
    return f"{sign}{of}: {', then '.join(fused.stages) or 'as it is'}"
