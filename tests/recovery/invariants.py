"""What must hold of a database after any accident.

`check_files` looks at the bytes alone: it loads the commit log, verifies every file that the state
names and compares all rows with the model, in milliseconds and without Spark. `check_database` does
the same through an open connection, and lets Spark recompute every view.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container
from pathlib import Path

from rekindle.runtime.database import Database
from rekindle.runtime.log import CommitLog
from rekindle.runtime.state import State
from rekindle.traces.opened import OPEN_SEGMENTS
from rekindle.traces.reader import TraceReader
from rekindle.traces.segment import Run
from rekindle.traces.store import Store
from rekindle.traces.trace import Trace
from tests.recovery.workload import Bag, Timeline


def load(root: Path) -> State:
    """The state that a new process would find."""
    OPEN_SEGMENTS.clear()
    return CommitLog(Store(str(root))).load()


def check_files(root: Path, timeline: Timeline, epochs: Container[int]) -> State:
    """The database on disk is intact, and at one of `epochs`."""
    state = load(root)
    assert state.epoch in epochs, f"reopened at epoch {state.epoch}, not one of {epochs}"
    check_state(state, Store(str(root)), timeline)
    return state


def check_state(state: State, store: Store, timeline: Timeline) -> None:
    """All files are whole; contents and sums of changes are what the model says."""
    for trace in state.traces.values():
        for segment in trace.segments:
            store.open(segment)
    expected = timeline.at(state.epoch).contents()
    assert set(state.entries) == set(expected)
    for name, rows in expected.items():
        entry = state.entries[name]
        trace = state.traces[entry.node]
        assert bag(trace, store, len(entry.schema)) == rows, f"contents of {name}"
        changes = [
            bag(_alone(trace, change.run), store, len(entry.schema))
            for change in state.history.get(entry.node, ())
        ]
        assert _total(changes) == rows, f"sum of the changes of {name}"


def bag(trace: Trace, store: Store, width: int) -> Bag:
    """The rows of a trace with their weights; negative ones are kept."""
    found: Bag = Counter()
    for table in TraceReader.of_trace(trace, store).scan():
        columns = [table.column(f"c{i}").to_pylist() for i in range(width)]
        for *row, weight in zip(*columns, table.column("_weight").to_pylist(), strict=True):
            found[tuple(row)] += weight
    return found


def check_no_leak(root: Path, state: State) -> None:
    """After collection the directory holds what the state needs and nothing else."""
    found = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
    logged = {name for name in found if name.startswith("log/")}
    assert found - logged - state.paths == {"writer.lock"}, "files that nothing needs"
    assert not state.paths - found, "files that the state needs are gone"
    odd = {name for name in logged if not name.endswith((".record", ".checkpoint"))}
    assert not odd, "leftovers in the log"


def check_database(db: Database, timeline: Timeline) -> None:
    """The open database agrees with its files, with the model and with recomputation."""
    root = Path(db.path)
    state = check_files(root, timeline, [db.epoch])
    expected = timeline.at(db.epoch).contents()
    for name in db.views:
        report = db.check(name)
        assert report.rows == sum(expected[name].values())
    for name, rows in expected.items():
        assert Counter(tuple(row) for row in db.table(name).collect()) == rows
    assert db._engine.state == state


def _alone(trace: Trace, run: Run) -> Trace:
    return Trace(trace.layout, (run,))


def _total(changes: list[Bag]) -> Bag:
    total: Bag = Counter()
    for change in changes:
        for row, weight in change.items():
            total[row] += weight
    return Counter({row: weight for row, weight in total.items() if weight})
