"""Views that give a window once it is closed: `OPTIONS (emit = 'on window close')`.

A window is closed when its end is not above the watermark of any table that it is made of: no later
row is in it. So the view is its query, of which it shows the rows with closed windows, and that is
a join with the watermarks, as a view with `now()` is one with the clock:

    SELECT q.* FROM (query) AS q JOIN `events·watermark` AS m0 ON q.w.end <= m0.watermark

Rows enter as the watermark moves, through an index by the windows' ends, and none ever leaves. That
rests on later rows being in later windows alone, so a query of which the analysis cannot see that
(`circuit/frontiers.py`) is refused.
"""

from __future__ import annotations

from pyspark.sql import types as T

from rekindle.calculus.terms import Term
from rekindle.catalyst import monotone
from rekindle.catalyst.types import struct_of
from rekindle.circuit.operators.bounds import Bound, Computed, Earlier, Least, Seen
from rekindle.errors import DefinitionError, UnsupportedError
from rekindle.incremental.pipeline import derive
from rekindle.names import quoted, shown
from rekindle.runtime.engine import Engine
from rekindle.runtime.epochs.state import TableEntry
from rekindle.runtime.time.lateness import watermark_name

ON_CLOSE = "on window close"
WAYS = ("with every change", ON_CLOSE)
"""When a view gives its rows."""
_END = 1
"""The place of a window's end."""


def emitted_on_close(name: str, query: str, term: Term, engine: Engine) -> str:
    """The query of a view that gives the rows of closed windows alone."""
    column = _window(name, struct_of(term.schema))
    circuit = engine.circuit.copy()
    view = circuit.view(name, derive(term), term.schema)
    frontier = engine.forgetting.frontiers(circuit, engine.state).of(view.id)
    bound = frontier.get((column, _END))
    title = term.schema.names[column]
    nodes = set[str]()
    if bound is None or not _is_end(bound, nodes):
        raise UnsupportedError(
            f"view '{name}' cannot give its windows when they are closed",
            detail=f"nothing says when no row of a window in the column '{title}' can come or go "
            "any more",
            hint="its tables need a LATENESS of the column that is cut into windows, by window(ts, "
            "...), and the query has to group or join by the window",
        )
    sources = [e for e in engine.state.entries.values() if e.node in nodes]
    leaving = [e.name for e in sources if isinstance(e, TableEntry) and retains(e)]
    if leaving:
        raise UnsupportedError(
            f"view '{name}' cannot give its windows when they are closed",
            detail=f"the rows of '{leaving[0]}' leave it after a while, and its windows with them",
            hint="leave out emit, or read a table without RETAIN",
        )
    tables = sorted(entry.name for entry in sources)
    joins = "".join(
        f"\nJOIN {quoted(watermark_name(shown(table)))} AS m{i} "
        f"ON q.{quoted(title)}.end <= m{i}.watermark"
        for i, table in enumerate(tables)
    )
    return f"SELECT q.* FROM (\n{query}\n) AS q{joins}"


def retains(entry: TableEntry) -> bool:
    """Do rows leave a table by their time?"""
    return entry.lateness is not None and entry.lateness.retain is not None


def _window(name: str, columns: T.StructType) -> int:
    """The column that is a window."""
    found = [
        i
        for i, field in enumerate(columns.fields)
        if isinstance(field.dataType, T.StructType)
        and field.dataType.names == ["start", "end"]
        and all(isinstance(part.dataType, _TIMES) for part in field.dataType.fields)
    ]
    if len(found) != 1:
        raise DefinitionError(
            f"view '{name}' has {len(found)} columns that are windows, and one is to be closed",
            detail=f"columns: {', '.join(columns.names)}",
            hint="show the window itself: SELECT window(ts, '10 minutes') AS w, ...",
        )
    return found[0]


_TIMES = (T.TimestampType, T.TimestampNTZType)


def _is_end(bound: Bound, tables: set[str]) -> bool:
    """Is a bound the end of the window that a watermark itself is in? Collects the tables."""
    match bound:
        case Least():
            return all(_is_end(each, tables) for each in bound.bounds)
        case Computed():
            sources = [each for _, each in bound.inputs]
            seen = [each.node for each in sources if isinstance(each, Seen)]
            tables.update(seen)
            piece = bound.piece
            is_end = isinstance(piece, monotone.Piece) and monotone.is_window_end(piece)
            return is_end and len(seen) == len(sources) == 1
        case Seen() | Earlier():
            return False
