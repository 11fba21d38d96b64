"""Arrange: index a change by key so that it can be appended to a trace.

Linear, and the identity as far as collections go: only the order of rows changes, equal rows are
added and zeros leave.
"""

from __future__ import annotations

from typing import Any

from rekindle.traces.consolidate import consolidate
from rekindle.traces.layout import TraceLayout


def arrange(change: Any, layout: TraceLayout) -> Any:
    """The arranged table of a change whose rows come in any order."""
    return consolidate(change, layout)
