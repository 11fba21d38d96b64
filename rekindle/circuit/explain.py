"""Explain: what keeps a view fresh, as text, JSON and a drawing.

An explanation covers the nodes that a view depends on. For each it gives the linearity and the
strategy that follows from it, the linear stages that run fused in front of it, the integrals it
reads, who shares it, what it stores and what its last step did. Together with the derivation
(`rekindle.incremental.pipeline.trace_steps`) it leads from the query to the running circuit.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rekindle.circuit.circuit import Circuit
from rekindle.circuit.drawing import draw
from rekindle.circuit.explain_nodes import ExplainedNode, NodeFacts, describe
from rekindle.circuit.explain_text import to_text
from rekindle.errors import DefinitionError

__all__ = ["Explanation", "NodeFacts", "explain"]


def explain(
    circuit: Circuit,
    root: str,
    facts: Mapping[str, NodeFacts],
    *,
    name: str | None = None,
    derivation: Iterable[tuple[str, str]] = (),
) -> Explanation:
    """The explanation of the node `root` and all that it depends on.

    `facts` may lack nodes: what is not known is left out. `name` is for a view whose node has
    several names.
    """
    if root not in circuit.nodes:
        raise DefinitionError(
            f"the circuit has no node '{root}'", detail=f"nodes: {', '.join(circuit.nodes)}"
        )
    nodes = describe(circuit, root, facts)
    title = nodes[0].label if name is None else f"{nodes[0].kind} {name}"
    return Explanation(title, nodes, tuple(derivation))


@dataclass(frozen=True, slots=True)
class Explanation:
    """The nodes behind a view, the view first; `str()`, `json()` and `svg()` show them.

    `derivation` holds the steps from the query to its incremental form, if they were given.
    """

    title: str
    nodes: tuple[ExplainedNode, ...]
    derivation: tuple[tuple[str, str], ...] = ()
    kept: str = ""
    """What a view that is kept factorised consists of."""
    levels: str = ""
    """The flat collections that a nested view is kept as, and what it costs to compute."""
    picture: Callable[[], str] | None = field(default=None, repr=False, compare=False)
    """Draws something else than the circuit: the flat collections."""
    language: str = ""
    """What the analyses of the language of its definition say."""
    policies: str = ""
    """What each policy would keep for the view."""
    settings: str = ""
    """The settings that the view was made under, where those of the session are others."""
    fed: str = ""
    """Which parts of the last change reached the view as products of vectors."""
    untrusted: str = ""
    """Why the view is not followed by this connection."""
    stale: str = ""
    """Why the view is not followed until it is filled anew."""

    def __str__(self) -> str:
        text = to_text(self.title, self.nodes, self.derivation) if self.nodes else self.title
        sections = (
            ("untrusted: not followed", self.untrusted),
            ("stale: not followed until it is filled anew", self.stale),
            ("kept factorised", self.kept),
            ("kept shredded", self.levels),
            ("the query and its analyses", self.language),
            ("policies", self.policies),
            ("made under settings that the session does not have", self.settings),
            ("last change by vectors", self.fed),
        )
        for title, more in sections:
            if more:
                lines = "\n".join(f"  {line}" for line in more.splitlines())
                text = f"{text}\n\n{title}\n{lines}"
        return text

    def json(self) -> str:
        """Everything, as JSON."""
        content = {
            "title": self.title,
            "root": self.nodes[0].id if self.nodes else None,
            "untrusted": self.untrusted or None,
            "stale": self.stale or None,
            "kept": self.kept or None,
            "levels": self.levels or None,
            "language": self.language or None,
            "policies": self.policies or None,
            "settings": self.settings or None,
            "fed": self.fed or None,
            "nodes": [_node_json(node) for node in self.nodes],
            "derivation": [{"step": step, "text": text} for step, text in self.derivation],
        }
        return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)

    def svg(self) -> str:
        """A drawing of the circuit, tables on the left and the view on the right.

        Of a nested view it shows the flat collections that are kept, with some of their rows.
        """
        if self.picture is not None:
            return self.picture()
        return draw(self.title, self.nodes, [why for why in (self.untrusted, self.stale) if why])


def _node_json(node: ExplainedNode) -> dict[str, Any]:
    facts = node.facts
    state = {"rows": facts.rows_stored, "bytes": facts.bytes_stored, "runs": facts.runs}
    last_step = {
        "epoch": facts.epoch,
        "rows_in": facts.rows_in,
        "rows_out": facts.rows_out,
        "seconds": facts.seconds if facts.seconds is None or math.isfinite(facts.seconds) else None,
        "placement": facts.placement,
        "rebuilt": facts.rebuilt or None,
        "heavy_keys": facts.heavy_keys or None,
        "threshold": facts.threshold or None,
    }
    return {
        "id": node.id,
        "number": node.number,
        "kind": node.kind,
        "label": node.label,
        "linearity": node.linearity.value,
        "strategy": node.strategy.value,
        "how": node.how,
        "why": node.why,
        "inputs": [{"id": link.source, "role": link.role.value} for link in node.links],
        "stages": [
            {"of": list(fused.sources), "sign": fused.sign, "stages": list(fused.stages)}
            for fused in node.fused
        ],
        "reads": list(node.reads),
        "keys": list(node.keys),
        "shared": len(node.readers),
        "readers": list(node.readers),
        "views": list(node.views),
        "join": None
        if node.half is None
        else {
            "number": node.half.join,
            "half": node.half.number,
            "other_half": node.half.partner,
            "condition": node.half.condition,
            "formula": node.half.formula,
        },
        "state": _known(state),
        "forgets": facts.forgets or None,
        "last_step": _known(last_step),
    }


def _known(values: dict[str, Any]) -> dict[str, Any] | None:
    """The values, or None when none of them is known."""
    return values if any(value is not None for value in values.values()) else None
