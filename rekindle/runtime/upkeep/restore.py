"""A database from a backup: as it was when the backup was taken, or at an earlier epoch.

The first is a copy. For the second, the history says how tables changed, and the views' inner state
at that epoch is kept by nobody. So a copy is opened beside the target, the changes of the tables
since are taken back in one transaction, and the views follow as they follow any other. What the
nodes hold then is what they held at the epoch, up to the order of merges; the result is written as
the state of that epoch, with the history up to it.

Definitions have no history. A table or view that was made, or defined anew, after the epoch is left
out, and named; one that was dropped after it does not come back.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from rekindle.errors import DefinitionError, HistoryError
from rekindle.redaction import without_secrets
from rekindle.runtime.epochs.history import FOREVER, Change, History
from rekindle.runtime.epochs.log import CommitLog
from rekindle.runtime.epochs.offsets import as_of
from rekindle.runtime.epochs.rolling import TIMES_NODE
from rekindle.runtime.epochs.state import State, ViewEntry, check_epoch
from rekindle.runtime.epochs.times import Times
from rekindle.runtime.places import placed
from rekindle.runtime.time.forgetting import is_single
from rekindle.runtime.upkeep.backup import Backup, Progress, check_empty, copy_file, copy_files
from rekindle.runtime.upkeep.verify import segments_of
from rekindle.traces.faults import named
from rekindle.traces.partition import KEY_LOW
from rekindle.traces.reader import TraceReader
from rekindle.traces.segment import Run, Segment
from rekindle.traces.store import Store
from rekindle.traces.trace import Merge, Trace

if TYPE_CHECKING:
    from rekindle.runtime.database import Database

STAGE = "restoring"
"""Where, under the target, a copy is taken back to an earlier epoch."""
_NAME = re.compile(r"/e(\d{10})-")

Opener = Callable[[str], "Database"]


def restore(
    path: str,
    target: str,
    epoch: int | None = None,
    *,
    progress: Progress | None = None,
    connect: Opener | None = None,
) -> Backup:
    """Make a database at `target`, where nothing may be, of the backup, or database, at `path`.

    `epoch` is one of its retained history. Spark is needed for an earlier epoch alone; `connect`
    opens the copy that is taken back to it, and is by default that of the package.
    """
    with named(path):
        source = Store(placed(path))
        log = CommitLog(source)
        if not log.exists():
            raise DefinitionError(f"there is no backup at '{path}'", hint="is the path right?")
        state = log.load()
    _check_retained(state, epoch)
    with named(target):
        there = Store(placed(target))
        check_empty(there, "a database")
        tell = progress or _silent
        if epoch is None or epoch == state.epoch:
            return _copied(source, there, state, tell)
        stage = Store(f"{there.uri.rstrip('/')}/{STAGE}")
        _copied(source, stage, state, tell)
        left_out = _taken_back(stage, state, epoch, connect or _connected)
        result = _moved(stage, there, _as_of(CommitLog(stage).load(), epoch, stage))
        stage.filesystem.delete_dir(stage.root)
        return replace(result, left_out=left_out)


def _check_retained(state: State, epoch: int | None) -> None:
    if epoch is not None:
        check_epoch(epoch)
    if epoch is None or (state.horizon <= epoch <= state.epoch and epoch >= 0):
        return
    raise HistoryError(
        f"epoch {epoch} cannot be restored",
        detail=f"the backup holds epochs {state.horizon} to {state.epoch}",
        hint="choose one of these, or a backup that was taken earlier",
    )


def _copied(source: Store, target: Store, state: State, progress: Progress) -> Backup:
    """All files of a state, and then the log that names them."""
    needed = segments_of(state)
    copied = copy_files(source, target, list(needed.values()), progress)
    target.flush(copied)
    CommitLog(target).checkpoint(state)
    return Backup(
        without_secrets(target.uri), state.epoch, len(needed), len(copied), sum(copied.values())
    )


def _taken_back(stage: Store, state: State, epoch: int, connect: Opener) -> tuple[str, ...]:
    """Bring a database to the contents of an epoch; gives the names of what is left out."""
    from pyspark.sql import functions as F

    later = [
        entry for entry in reversed(state.in_order) if entry.created > epoch and not entry.part_of
    ]
    with connect(stage.uri) as db, db._engine.whole() as engine:
        engine.retention = FOREVER
        for entry in later:
            (db.drop_view if isinstance(entry, ViewEntry) else db.drop_table)(entry.name)
        with db.transaction() as tx:
            for name in db.tables:
                since = db.changes(name, since=epoch).drop("_epoch")
                tx.apply(name, since.withColumn("_weight", -F.col("_weight")))
        for name in [each.name for each in state.entries.values() if is_single(each.name)]:
            if name in engine.state.entries:
                engine.take_back(name, epoch)
    return tuple(entry.name for entry in reversed(later))


def _as_of(state: State, epoch: int, stage: Store) -> State:
    """A state that was taken back to the contents of an epoch, as the state of that epoch."""
    history = {
        node: History(
            tuple(change for change in past.recent if change.epoch <= epoch),
            _up_to(past.older, epoch, stage, node),
        )
        for node, past in state.history.items()
    }
    times = Times(
        tuple(each for each in state.times.recent if each[0] <= epoch),
        _up_to(state.times.older, epoch, stage, TIMES_NODE),
    )
    offsets = as_of(state.offsets, epoch)
    return replace(state, epoch=epoch, history=history, times=times, offsets=offsets)


def _up_to(older: Trace | None, epoch: int, stage: Store, node: str) -> Trace | None:
    """A trace of what was moved, without the rows of later epochs, which may be in any file."""
    if older is None or all(segment.high <= epoch for segment in older.segments):
        return older
    numbers = itertools.count()
    segments = [
        segment
        for rows in TraceReader.of_trace(older, stage, (KEY_LOW, epoch + 1)).scan_keys()
        for segment in stage.write_run(
            rows, lambda: f"data/{node}/e{epoch:010}-restored-h{next(numbers):05}.arrow"
        ).segments
    ]
    return Trace(older.layout, (Run(tuple(segments)),)) if segments else None


def _moved(stage: Store, target: Store, state: State) -> Backup:
    """The state with files of no later epoch in their names: an attempt at one clears these."""
    names = {path: _renamed(path, state.epoch) for path in segments_of(state)}
    for segment in segments_of(state).values():
        copy_file(stage, target, segment, names[segment.path])

    def segment_of(segment: Segment) -> Segment:
        return replace(segment, path=names[segment.path])

    def run_of(run: Run) -> Run:
        return Run(tuple(map(segment_of, run.segments)))

    def merge_of(merge: Merge) -> Merge:
        inputs, output = map(run_of, merge.inputs), map(segment_of, merge.output)
        return replace(merge, inputs=tuple(inputs), output=tuple(output))

    def trace_of(trace: Trace) -> Trace:
        runs, merges = map(run_of, trace.runs), map(merge_of, trace.merges)
        return replace(trace, runs=tuple(runs), merges=tuple(merges))

    moved = replace(
        state,
        traces={key: trace_of(trace) for key, trace in state.traces.items()},
        history={
            node: History(
                tuple(Change(change.epoch, run_of(change.run)) for change in past.recent),
                None if past.older is None else trace_of(past.older),
            )
            for node, past in state.history.items()
        },
        times=replace(
            state.times, older=None if state.times.older is None else trace_of(state.times.older)
        ),
    )
    needed = segments_of(moved)
    target.flush(needed)
    CommitLog(target).checkpoint(moved)
    sizes = sum(segment.size for segment in needed.values())
    return Backup(without_secrets(target.uri), state.epoch, len(needed), len(needed), sizes)


def _renamed(path: str, epoch: int) -> str:
    """A name of an epoch no later than the given one, which stays distinct."""
    found = _NAME.search(path)
    if found is None or int(found[1]) <= epoch:
        return path
    return _NAME.sub(f"/e{epoch:010}-r{int(found[1])}-", path)


def _connected(path: str) -> Database:
    from rekindle.runtime.database import connect

    return connect(path)


def _silent(done: int, total: int) -> None:
    """Nobody wants to know."""
