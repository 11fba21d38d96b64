"""What explain says of each node: how its change is computed, from what, and why that is enough.

The strategy follows from the node's linearity: a linear node takes the change as it is, a bilinear
one pairs the change of one side with the integral of the other, a per-key one looks at the keys
that the change touches. Only a node whose one group is all rows computes its value anew in a step,
and is shown as recomputed; where the work of a step nevertheless follows the size of what is stored
(a join without a key), `why` says so.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import assert_never

from rekindle.calculus.scalars import Scalar
from rekindle.calculus.schema import Schema
from rekindle.calculus.terms import Distance, First, Linearity, Near, Onwards, Quantiles
from rekindle.circuit.circuit import Circuit
from rekindle.circuit.explain_words import branch_words, listed, measure_words, scalar_words
from rekindle.circuit.nodes import (
    Arrangement,
    Constant,
    Deduplicate,
    Group,
    HalfJoin,
    Moment,
    Node,
    Recur,
    Regroup,
    Routed,
    Side,
    Table,
    Variable,
    View,
)
from rekindle.circuit.ranges import MARK, branches_of, told_apart
from rekindle.circuit.stages import Branch, Generate, LinearForm, Project, Where


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


class Role(enum.Enum):
    """What of its input a node reads."""

    CHANGE = "change"
    BEFORE = "integral before this step"
    AFTER = "integral after this step"
    CHANGE_AND_BEFORE = "change and integral before this step"
    DELAYED = "change of the iteration before"

    @property
    def symbol(self) -> str:
        return {
            Role.CHANGE: "Δ",
            Role.BEFORE: "z⁻¹I",
            Role.AFTER: "I",
            Role.CHANGE_AND_BEFORE: "Δ, z⁻¹I",
            Role.DELAYED: "↑z⁻¹",
        }[self]


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
            whole = isinstance(node, Regroup) and node.is_recomputed
            return Strategy.RECOMPUTED if whole else Strategy.PER_KEY
        case Linearity.SCOPE:
            return Strategy.SCOPE
    return Strategy.LINEAR


@dataclass(frozen=True, slots=True)
class Link:
    """An input of a node. The signs are those of the branches that read it."""

    source: str
    role: Role
    signs: frozenset[int] = frozenset({1})


@dataclass(frozen=True, slots=True)
class Fused:
    """Linear stages that run together on the outputs of `sources` before they enter a node."""

    sources: tuple[str, ...]
    sign: int
    stages: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Half:
    """Which half of which join a node is; both halves make up the join's change."""

    join: int
    number: int
    partner: str | None
    condition: str
    formula: str


@dataclass(frozen=True, slots=True)
class ExplainedNode:
    """A node of a circuit, for people. `number` is its place in the text, from 1."""

    id: str
    number: int
    kind: str
    label: str
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


def links_of(node: Node) -> tuple[Link, ...]:
    """What a node reads of each of its inputs."""
    match node:
        case Table() | Constant():
            return ()
        case Variable():
            return (Link(node.recur, Role.DELAYED),)
        case HalfJoin():
            return (Link(node.change, Role.CHANGE), Link(node.against, _ROLES[node.moment]))
        case Deduplicate() | Regroup():
            return (Link(node.arrangement, Role.CHANGE_AND_BEFORE),)
        case Arrangement() | Routed() | Group() | View() | Recur():
            return tuple(
                Link(
                    source,
                    Role.CHANGE,
                    frozenset(b.sign for b in node.form.branches if b.node == source),
                )
                for source in node.form.nodes
            )
        case _:
            assert_never(node)


@dataclass(slots=True)
class _Describer:
    circuit: Circuit
    numbers: dict[str, int] = field(default_factory=dict)
    joins: dict[str, int] = field(default_factory=dict)
    _readers: Mapping[str, tuple[str, ...]] = field(init=False)
    _views: Mapping[str, tuple[str, ...]] = field(init=False)
    _halves: Mapping[tuple[str, str, Moment, Side], str] = field(init=False)
    _branches: Mapping[str, Sequence[Branch]] = field(init=False)
    _names: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._readers = self.circuit.readers()
        self._branches = branches_of(self.circuit.nodes.values())
        self._views = _views_over(self.circuit)
        self._halves = {
            (node.change, node.against, node.moment, node.change_side): node.id
            for node in self.circuit.nodes.values()
            if isinstance(node, HalfJoin)
        }

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
            waiting += (link.source for link in reversed(links_of(node)))

    def partner(self, node: HalfJoin) -> str | None:
        """The other half: sides, roles and moments are all exchanged. A trigger has none."""
        if node.moment is Moment.DURING:
            return None
        moment = Moment.AFTER if node.moment is Moment.BEFORE else Moment.BEFORE
        side = Side.RIGHT if node.change_side is Side.LEFT else Side.LEFT
        return self._halves.get((node.against, node.change, moment, side))

    def explained(self, node: Node, facts: NodeFacts) -> ExplainedNode:
        return ExplainedNode(
            id=node.id,
            number=self.numbers[node.id],
            kind=_KINDS[type(node)],
            label=self.label(node),
            linearity=node.linearity,
            strategy=strategy_of(node),
            how=self.how(node),
            why=self.why(node),
            keys=self.keys(node),
            links=links_of(node),
            fused=_fused(node.form) if isinstance(node, _FORMED) else (),
            readers=tuple(dict.fromkeys(self._readers[node.id])),
            views=self._views[node.id],
            half=self.half(node) if isinstance(node, HalfJoin) else None,
            facts=facts,
        )

    # ---- words -----------------------------------------------------------------------------

    def label(self, node: Node) -> str:
        match node:
            case Table():
                return f"table {node.name}"
            case Constant():
                return "a constant relation"
            case View():
                return f"view {' = '.join(self.view_names(node))}"
            case Arrangement() | Routed():
                return f"{self.name(node.id)} {self.key_words(node)}"
            case HalfJoin():
                half = self.half(node)
                which = "" if half.partner is None else f", half {half.number} of 2"
                return f"join {half.join}{which}: {half.formula}"
            case Deduplicate():
                return f"distinct {self.name(node.arrangement)}"
            case Group():
                return f"group by {', '.join(self.keys(node))}" if node.keys else "one group of all"
            case Regroup():
                which = f"by {', '.join(self.keys(node))}" if node.keys else "of all rows"
                return f"{_body(node)} {which}"
            case Variable():
                return f"{node.name}, one iteration ago"
            case Recur():
                return f"recursion of {node.variable.name}"
            case _:
                assert_never(node)

    def how(self, node: Node) -> str:
        match node:
            case Table():
                if not node.key:
                    return "stored, arranged by the whole row"
                return f"stored, arranged by primary key {', '.join(self.keys(node))}"
            case Constant():
                return "stored once, never changes"
            case View():
                return "integral of the output"
            case Arrangement():
                return f"integral, {'' if node.keys == () else 'indexed '}{self.key_words(node)}"
            case Routed():
                return f"this step's rows {self.key_words(node)}, not kept"
            case HalfJoin():
                change, against = self.reference(node.change), self.reference(node.against)
                if node.moment is Moment.DURING:
                    return f"bilinear: change of {change} against the change of {against}"
                return (
                    f"bilinear: change of {change} against the integral of {against} "
                    f"{node.moment.value} this step{self.range_words(node)}"
                )
            case Deduplicate():
                return "per key: H(i, d) on the changed rows"
            case Group():
                schema = node.form.schema
                kept = [measure_words(measure, schema) for measure in node.measures]
                which = "the touched groups" if node.keys else "the one group"
                return f"per key: accumulators of {which}: {', '.join(kept) or 'existence'}"
            case Regroup():
                which = "each touched group" if node.keys else "the one group"
                match node.extent:
                    case First(rows=count):
                        rows = "first row" if count == 1 else f"first {count} rows"
                        return f"per key: from the {rows} of {which}, in order"
                    case Near():
                        return f"per key: Spark recomputes the rows around a change of {which}"
                    case Onwards():
                        return f"per key: Spark recomputes {which} from the first change on"
                    case Quantiles(fractions=fractions):
                        places = ", ".join(f"{f:g}" for f in fractions)
                        return f"per key: from the values at {places} of {which}, in order"
                if node.keys:
                    return f"per key: Spark recomputes {which} from its rows"
                return "recomputed: its one group is all rows"
            case Variable():
                return "the back edge: what the recursion changed by, one iteration later"
            case Recur():
                return "fixed point: iterated over the changes until none is left"
            case _:
                assert_never(node)

    def why(self, node: Node) -> str:
        if isinstance(node, HalfJoin) and node.lookup is not None:
            return (
                "a product is linear in each side: only pairs with a changed row are computed, and "
                "the stored rows that it can match are a range of their order, found by binary "
                "search"
            )
        if isinstance(node, HalfJoin) and not self.keys(node):
            return (
                "a product is linear in each side, but there is no key to look up by: each "
                "changed row meets every stored row of the other side"
            )
        if strategy_of(node) is Strategy.RECOMPUTED:
            return (
                "not linear, and there is no key to tell untouched rows by: every change computes "
                "it anew from all its rows"
            )
        if isinstance(node, Regroup):
            match node.extent:
                case Near():
                    return (
                        f"not linear, but a row depends on {_near(node.extent)} only: the rows "
                        "around a change are computed before and after it, and no others are read"
                    )
                case Onwards():
                    return (
                        "not linear, but a row follows from the one before it: the last result "
                        "before a change is kept, and no rows before that are read"
                    )
                case Quantiles():
                    return (
                        "not linear, but the values at some ranks decide it: the integral is in "
                        "order and counts its rows, so they are found by binary search"
                    )
        return _WHY[type(node)]

    def half(self, node: HalfJoin) -> Half:
        change, against = f"Δ{_argument(self.name(node.change))}", self.name(node.against)
        integral = f"I({against})" if node.moment is Moment.AFTER else f"z⁻¹I({against})"
        if node.moment is Moment.DURING:
            integral = f"Δ{_argument(against)}"
        left = node.change_side is Side.LEFT
        symbol = "⋈" if self.keys(node) else "×"
        sides = (node.change, node.against) if left else (node.against, node.change)
        condition = " and ".join(
            f"{a} = {b}"
            for a, b in zip(*(self.keys(self.circuit.nodes[side]) for side in sides), strict=False)
        )
        return Half(
            join=self.joins[node.id],
            number=1 if node.moment is Moment.AFTER else 2,
            partner=self.partner(node),
            condition=condition,
            formula=f"{change} {symbol} {integral}" if left else f"{integral} {symbol} {change}",
        )

    def keys(self, node: Node) -> tuple[str, ...]:
        """What the node's state is indexed or looked up by, as column names or expressions."""
        match node:
            case Table() if node.key:
                return tuple(node.schema.names[i] for i in node.key)
            case Table() | View() | Constant() | Variable() | Recur():
                return node.schema.names
            case Regroup():
                names = self.circuit.nodes[node.arrangement].schema.names
                return tuple(names[i] for i in node.keys)
            case Arrangement() | Routed():
                return _named(node.keys, node.schema)
            case HalfJoin():
                return self.keys(self.circuit.nodes[node.against])
            case Deduplicate():
                return node.schema.names
            case Group():
                return tuple(name for name, _ in node.keys)
            case _:
                assert_never(node)

    def key_words(self, node: Arrangement | Routed) -> str:
        if node.keys is None:
            return "by the whole row"
        words = f"by {', '.join(self.keys(node))}" if node.keys else "without a key"
        if node.order is None or not node.schema.names[node.order].startswith(MARK):
            return words
        return f"{words}, in the order of {_mark(node, node.order)}"

    def range_words(self, node: HalfJoin) -> str:
        """Which of the stored rows a join looks up, where that is a range of them."""
        if node.lookup is None:
            return ""
        against, change = (self.circuit.nodes[key] for key in (node.against, node.change))
        assert isinstance(against, Arrangement) and against.order is not None
        assert isinstance(change, Arrangement | Routed)
        words = f", where {_mark(against, against.order)} is in the range"
        for word, column in (("from", node.lookup.low), ("to", node.lookup.high)):
            if column is not None:
                words += f" {word} {_mark(change, column)}"
        if told_apart(node, self._branches.get(node.id, ())) is not None:
            words += "; rows that are not told apart have their ranges added up first"
        return words

    def reference(self, key: str) -> str:
        return f"{self.name(key)} [{self.numbers[key]}]"

    def name(self, key: str) -> str:
        """A short name for what a node holds; not unique."""
        if key not in self._names:
            self._names[key] = self._name(key)
        return self._names[key]

    def _name(self, key: str) -> str:
        node = self.circuit.nodes[key]
        match node:
            case Table():
                return node.name
            case Constant():
                return "constants"
            case Regroup():
                return _body(node)
            case View():
                return self.view_names(node)[0]
            case Arrangement() | Routed():
                return self.form_name(node.form)
            case HalfJoin():
                return f"join {self.joins[key]}"
            case Deduplicate():
                return f"distinct {self.name(node.arrangement)}"
            case Group():
                return f"groups by {', '.join(self.keys(node))}" if node.keys else "one group"
            case Variable() | Recur():
                return node.name if isinstance(node, Variable) else node.variable.name
            case _:
                assert_never(node)

    def view_names(self, node: View) -> list[str]:
        """The names that a view has now: views of equal definitions are one node."""
        names = [name for name, key in self.circuit.names.items() if key == node.id]
        return names or [node.name]

    def form_name(self, form: LinearForm) -> str:
        names = list(dict.fromkeys(self.branch_name(branch) for branch in form.branches))
        if len(names) > 3:
            return f"a sum of {len(names)} inputs"
        return " + ".join(names).replace(" + −", " − ")

    def branch_name(self, branch: Branch) -> str:
        words = ["filtered"] * any(isinstance(stage, Where) for stage in branch.stages)
        words += ["flattened"] * any(isinstance(stage, Generate) for stage in branch.stages)
        return "−" * (branch.sign < 0) + " ".join([*words, self.name(branch.node)])


def _named(keys: Iterable[Scalar] | None, schema: Schema) -> tuple[str, ...]:
    return schema.names if keys is None else tuple(scalar_words(key, schema) for key in keys)


def _mark(node: Arrangement | Routed, position: int) -> str:
    """What a mark of the node's rows was computed from, in the last stage before it."""
    branch = node.form.branches[0]
    *before, last = branch.stages
    assert isinstance(last, Project)
    return scalar_words(last.outputs[position][1], replace(branch, stages=tuple(before)).output)


def _body(node: Regroup) -> str:
    return str(getattr(node.body, "display", node.body.text))


def _near(near: Near) -> str:
    """The rows that a row depends on, in words."""
    if near.distance is Distance.VALUES:
        return "rows whose order is near its own"
    if not near.after:
        return f"the {near.before} before it and itself"
    if not near.before:
        return f"the {near.after} after it and itself"
    return f"the {near.before} before it, the {near.after} after it and itself"


def _argument(name: str) -> str:
    return f"({name})" if " " in name else name


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


_ROLES: Mapping[Moment, Role] = {
    Moment.BEFORE: Role.BEFORE,
    Moment.AFTER: Role.AFTER,
    Moment.DURING: Role.CHANGE,
}

_KINDS: Mapping[type[Node], str] = {
    Table: "table",
    Arrangement: "arrangement",
    Routed: "route",
    HalfJoin: "half join",
    Deduplicate: "distinct",
    Group: "group",
    Regroup: "regroup",
    Constant: "constant",
    View: "view",
    Variable: "variable",
    Recur: "recursion",
}

_FORMED = Arrangement | Routed | Group | View | Recur
"""The nodes that read a linear form."""

_WHY: Mapping[type[Node], str] = {
    Routed: (
        "only the change is joined: no join reads what it adds up to, so no state is kept for it"
    ),
    Table: "the rows of a transaction are the change; they are added to what is stored",
    Arrangement: (
        "an integral is linear: the change is added as one more sorted run, and what is stored "
        "is merged now and then, never recomputed"
    ),
    HalfJoin: (
        "a product is linear in each side: only pairs with a changed row are computed, the "
        "stored rows of their keys are looked up, and the join is never recomputed"
    ),
    Deduplicate: (
        "not linear, but whether a row enters or leaves follows from its own weight before and "
        "after: the changed rows are looked up, no others are read or recomputed"
    ),
    Constant: "it does not depend on any table",
    Variable: "a relation inside its own recursion is known one iteration late",
    Recur: (
        "rows carry the iteration at which they come or go, so a change is led through the "
        "iterations that were recorded before and only what differs is computed"
    ),
    Regroup: (
        "not linear, but each group is a function of its own rows: only the groups that a change "
        "touches are computed, before and after it"
    ),
    Group: (
        "the accumulators are linear: the change is added to those of the touched groups, whose "
        "old result leaves and new one enters; the rows of a group are never read again"
    ),
    View: (
        "an integral is linear: the change is added to the view's contents, which are never "
        "recomputed"
    ),
}
