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
from rekindle.runtime.epochs.changes import changed
from rekindle.runtime.epochs.history import History
from rekindle.runtime.epochs.log import CommitLog
from rekindle.runtime.epochs.state import Entry, State, ViewEntry
from rekindle.traces.opened import OPEN_SEGMENTS
from rekindle.traces.reader import TraceReader
from rekindle.traces.store import Store
from rekindle.traces.trace import Trace
from tests.recovery.workload import SETUP, Bag, Row, Timeline


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
    """All files are whole; contents and every retained change are what the model says."""
    for segment in state.segments:
        store.open(segment)
    expected = timeline.contents(state.epoch)
    assert set(state.entries) == set(expected)
    for name, rows in expected.items():
        entry = state.entries[name]
        trace, width = state.traces[entry.node], len(entry.schema)
        assert bag(trace, store, width) == rows, f"contents of {name}"
        found = changes(state, entry, store)
        for epoch in range(_first(state, entry), state.epoch + 1):
            change = timeline.change(name, epoch)
            assert found.pop(epoch, Counter()) == change, f"change of {name} at {epoch}"
        assert not found, f"changes of {name} outside its history"


def changes(state: State, entry: Entry, store: Store) -> dict[int, Bag]:
    """The retained change of a table or view at each epoch, recent or older."""
    past = state.history.get(entry.node, History()).since(state.horizon)
    found: dict[int, Bag] = {}
    for rows, epochs in changed(past, state.traces[entry.node].layout, store):
        columns = [rows.column(f"c{i}").to_pylist() for i in range(len(entry.schema))]
        weights = rows.column("_weight").to_pylist()
        for *row, weight, epoch in zip(*columns, weights, epochs.to_pylist(), strict=True):
            found.setdefault(epoch, Counter())[tuple(row)] += weight
    return found


def _first(state: State, entry: Entry) -> int:
    """The first epoch whose change of a table or view is retained."""
    created = entry.created if isinstance(entry, ViewEntry) else 0
    return max(state.horizon + 1, created, SETUP + 1)


def bag(trace: Trace, store: Store, width: int) -> Bag:
    """The rows of a trace with their weights; negative ones are kept."""
    found: Bag = Counter()
    for table in TraceReader.of_trace(trace, store).scan():
        columns = [table.column(f"c{i}").to_pylist() for i in range(width)]
        for *row, weight in zip(*columns, table.column("_weight").to_pylist(), strict=True):
            found[tuple(row)] += weight
    return found


def traces(state: State, store: Store) -> dict[str, list[Row]]:
    """The sum of every trace, inner ones too, in full: hashes, weights, payload, accumulators."""
    return {
        key: [
            row
            for table in TraceReader.of_trace(trace, store).scan()
            for row in zip(*(column.to_pylist() for column in table.columns), strict=True)
        ]
        for key, trace in state.traces.items()
    }


def check_no_leak(root: Path, state: State) -> None:
    """After collection the directory holds what the state needs and nothing else."""
    found = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
    logged = {name for name in found if name.startswith("log/")}
    leases = {name for name in found if name.startswith("lease/")}
    assert len(leases) == 1, "leases of writers that have gone"
    assert found - logged - leases - state.paths == {"writer.lock"}, "files that nothing needs"
    assert not state.paths - found, "files that the state needs are gone"


def check_clean_log(root: Path) -> None:
    """After collection the log holds records and checkpoints only."""
    names = {path.name for path in (root / "log").iterdir()}
    assert not {n for n in names if not n.endswith((".record", ".checkpoint"))}


def check_database(db: Database, timeline: Timeline) -> None:
    """The open database agrees with its files, with the model and with recomputation."""
    root = Path(db.path)
    state = check_files(root, timeline, [db.epoch])
    expected = timeline.contents(db.epoch)
    for name in db.views:
        report = db.check(name)
        assert report.rows == sum(expected[name].values())
    assert db._engine.state == state
