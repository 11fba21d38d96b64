"""What a campaign has covered: kinds of nodes and stages, strategies, courses and placements."""

from __future__ import annotations

from collections import Counter

from rekindle.circuit.explain_nodes import strategy_of
from rekindle.circuit.nodes import Arrangement, Group, View
from rekindle.runtime.database import Database

SEEN: dict[str, Counter[str]] = {
    title: Counter()
    for title in ("queries", "types", "nodes", "stages", "strategies", "courses", "placements")
}


def note_step(db: Database) -> None:
    """Count what the last step of a database visited."""
    step = db.last_step
    if step is None:
        return
    for key, did in step.nodes.items():
        node = db._engine.circuit.nodes.get(key)
        if node is None:
            continue
        SEEN["nodes"][type(node).__name__] += 1
        SEEN["strategies"][strategy_of(node).value] += 1
        SEEN["courses"]["rebuilt" if did.rebuilt else "followed"] += 1
        SEEN["placements"][did.placement.value] += 1
        if isinstance(node, Arrangement | Group | View):
            for branch in node.form.branches:
                SEEN["stages"].update(type(stage).__name__ for stage in branch.stages)


def lines() -> list[str]:
    """A line for each of the things counted, the most frequent first."""
    return [
        f"{title}: " + ", ".join(f"{name} {count:,}" for name, count in counts.most_common())
        for title, counts in SEEN.items()
        if counts
    ]
