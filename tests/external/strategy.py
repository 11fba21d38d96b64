"""Whether a view is kept by its changes, or computed anew behind the user's back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rekindle.runtime.database import Database

BY_CHANGES = {"source", "linear", "bilinear", "per key"}


def recomputed_nodes(db: Database, view: str) -> list[str]:
    """The nodes behind a view whose value a step computes as a whole, with explain's reason."""
    nodes = json.loads(db.explain(view).json())["nodes"]
    return [f"{node['label']}: {node['how']}" for node in nodes if not _by_changes(node)]


def _by_changes(node: Mapping[str, Any]) -> bool:
    text = f"{node['strategy']} {node['how']}".lower()
    return node["strategy"] in BY_CHANGES and "recomputed as a whole" not in text
