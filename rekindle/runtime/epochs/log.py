"""The commit log: one record for each epoch, and now and then a checkpoint of the whole state.

A transaction is committed at the instant its record gets its final name, and not before: data files
are durable by then, and a file that no record names is garbage. A record holds what changed: the
entries, the traces of the nodes touched, the runs that became history and what was moved in it. No
record and no checkpoint carries the history itself. The state is the last checkpoint plus the
records after it. Every file begins with a checksum of the rest.

A record is created, never replaced: where two writers commit the same epoch, one of them is told
that it is fenced. Records carry the fencing number of the writer's lease, which never falls along
the log. A writer that takes over from one that may be alive first puts a record of its own at the
end; from then on nothing that the other has begun can be committed, and its files are garbage.

The head of the log is noted in the lease, after the record. Records that end before it were lost.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import xxhash

from rekindle.circuit.stored_nodes import StoredNode
from rekindle.errors import CorruptionError, RekindleError
from rekindle.runtime.epochs.history import Change, History
from rekindle.runtime.epochs.offsets import Offset
from rekindle.runtime.epochs.state import State, entry_from_json, entry_to_json
from rekindle.runtime.epochs.stored import damaged, read_record, refuse_unsound, sound
from rekindle.runtime.epochs.times import Times
from rekindle.runtime.streaming.definition import StreamDefinition
from rekindle.runtime.writers.lease import Lease
from rekindle.runtime.writers.lease_file import recorded_head
from rekindle.shapes import ShapeError
from rekindle.traces.conditional import UncertainError
from rekindle.traces.delta import delta_from_json, delta_to_json
from rekindle.traces.store import Store
from rekindle.traces.trace import Trace

DIRECTORY = "log"
ENDINGS = (".record", ".checkpoint")
_NAMED = re.compile(rf"{DIRECTORY}/[0-9]{{16}}\.(record|checkpoint)")
CHECKPOINT_EVERY = 64
FORMAT = 2
"""1 has all changes in lists, and no times; it is read, and rolled up by later steps."""
RACES = 5
QUESTIONS = 4
"""So often an uncertain commit is asked about before the connection gives up."""


class _VanishedError(CorruptionError):
    """A file that was listed is gone; a writer's checkpoint may have removed it meanwhile."""


class CommitLog:
    """The log of the database in `store`."""

    def __init__(self, store: Store, lease: Lease | None = None) -> None:
        self._store = store
        self._lease = lease
        self._fence = 0
        """The fencing number of the last record that was read or written."""
        self._begun: tuple[int, bytes] | None = None
        """The record whose creation has begun, while it is not known how it ended."""
        self._committed = -1
        """The last epoch that was committed by this log."""

    def exists(self) -> bool:
        return bool(self._files())

    def create(self) -> State:
        """Begin an empty database."""
        self.checkpoint(State())
        return self.load()

    def commit(self, before: State, after: State) -> None:
        """Make `after` the state of the database, atomically: it is, or an error is raised."""
        data = self._encoded(before, after)
        self._begin(after.epoch, data)
        try:
            if self._lease is not None:
                self._lease.check()
            self._settled(_record_name(after.epoch), data)
        except FileExistsError as error:
            self._end()
            if self._lease is None:
                raise
            self._lease.lose(f"epoch {after.epoch} was committed by it")
            raise self._lease.fenced() from error
        except (OSError, RekindleError) as error:
            if not isinstance(error, UncertainError):
                self._end()
            raise
        self._note(after.epoch)

    def _begin(self, epoch: int, data: bytes) -> None:
        """From here on a record may come to be, which a lease that ends meanwhile has to say.

        Another thread may close the connection at any time.
        """
        self._begun = epoch, data
        if self._lease is not None:
            self._lease.unsettled = True

    def _end(self) -> None:
        """It is known how the record that was begun ended."""
        self._begun = None
        if self._lease is not None:
            self._lease.unsettled = False

    def _note(self, epoch: int) -> None:
        self._committed = epoch
        self._end()
        if self._lease is not None:
            self._lease.note(epoch)

    def take_over(self, state: State) -> State:
        """The state with an empty epoch of this writer at its end, which shuts out all before it.

        Their records are created by name, and the name after the last one is now taken: what they
        had under way can be committed no more, and its files may be collected. A mark keeps that
        record from being removed by a checkpoint, for then its name would be free again.
        """
        while True:
            after = state.succeeded()
            with suppress(FileExistsError):
                self._store.create(_barrier_name(after.epoch), b"")
            try:
                self._settled(_record_name(after.epoch), self._encoded(state, after))
            except FileExistsError:
                state = self.load()
                continue
            if self._lease is not None:
                self._lease.has_shut_out()
            self._note(after.epoch)
            return after

    def maintain(self, state: State) -> None:
        """Write a checkpoint when it is time. The epoch is committed: no failure may undo it."""
        if state.epoch % CHECKPOINT_EVERY == 0:
            with suppress(OSError):
                self.checkpoint(state)

    def may_be_committed(self, epoch: int) -> bool:
        """Is the epoch's record of this writer there, or may it still come to be there?

        When it has been created without an answer, on a store that is not local, the request may
        be under way. Of another writer's record the answer is no.
        """
        if epoch <= self._committed:
            return True
        if self._begun is None or self._begun[0] != epoch:
            return False
        try:
            found = self._store.read_bytes(_record_name(epoch))
        except FileNotFoundError:
            possible = not self._store.is_local
        except OSError:
            possible = True
        else:
            possible = found == self._begun[1]
            if possible:
                # It is there, and only whoever waited for the answer was interrupted.
                with suppress(OSError):
                    self._store.sync(DIRECTORY)
                    self._note(epoch)
        if not possible:
            self._end()
        return possible

    def is_committed(self, epoch: int) -> bool:
        """Is the epoch's record of this writer there, and durable?"""
        if epoch <= self._committed:
            return True
        if self._begun is None or self._begun[0] != epoch:
            return False
        if self._found(_record_name(epoch)) != self._begun[1]:
            return False
        try:
            self._store.sync(DIRECTORY)
        except OSError:
            return False
        return True

    def check_writer(self) -> None:
        """Fails if another writer had taken over by now."""
        if self._lease is not None:
            self._lease.check_now()

    def last_fence(self) -> int:
        """The fencing number at the end of the log, as far as that can be read."""
        last = max(self._files(), key=_epoch_of, default=None)
        if last is not None:
            with suppress(CorruptionError):
                return int(self._read(last).get("fence", 0))
        return 0

    def checkpoint(self, state: State) -> None:
        """Write the whole state and remove the records it makes superfluous.

        An epoch has one state, so a checkpoint that exists is as good as this one.
        """
        name = _checkpoint_name(state.epoch)
        try:
            self._store.create(name, self._encoded(State(epoch=-1), state))
        except FileExistsError:
            return
        files = self._store.list(DIRECTORY)
        kept = {name, *(_record_name(_epoch_of(path)) for path in files if _is_barrier(path))}
        old = [path for path in files if path.endswith(ENDINGS)]
        self._store.delete(p for p in old if _epoch_of(p) <= state.epoch and p not in kept)

    def _settled(self, name: str, data: bytes) -> None:
        """Create a record, and ask again until there is an answer.

        Our own bytes under the name are a yes, whatever the store said. After an uncertain answer
        a failure is no longer a no: the record may be there from before.
        """
        uncertain: UncertainError | None = None
        for remaining in reversed(range(QUESTIONS)):
            try:
                return self._store.create(name, data)
            except FileExistsError:
                stored = self._found(name)
                if stored == data:
                    # It was created by a request that was answered badly, or not synced.
                    try:
                        return self._store.sync(DIRECTORY)
                    except OSError as error:
                        uncertain = _uncertain(name, error)
                elif stored is not None:
                    raise
            except UncertainError as error:
                uncertain = error
            except OSError as error:
                if uncertain is None:
                    raise
                uncertain = _uncertain(name, error)
            if remaining:
                time.sleep(0.1 * (QUESTIONS - remaining))
        raise uncertain or UncertainError(f"'{name}' exists and cannot be read")

    def _found(self, name: str) -> bytes | None:
        try:
            return self._store.read_bytes(name)
        except OSError:
            return None

    def _encoded(self, before: State, after: State) -> bytes:
        record = _record(before, after)
        if self._lease is not None:
            record["writer"] = self._lease.token
            self._fence = max(self._fence, self._lease.number)
        record["fence"] = self._fence
        body = json.dumps(record, separators=(",", ":")).encode()
        return xxhash.xxh3_64_hexdigest(body).encode() + b"\n" + body

    def load(self) -> State:
        """The last committed state."""
        for _ in range(RACES):
            with suppress(_VanishedError):
                return self._load()
        return self._load()

    def _load(self) -> State:
        # Before the log is listed: a writer may commit meanwhile, and then note it.
        head = recorded_head(self._store)
        files = self._files()
        checkpoints = [path for path in files if path.endswith(".checkpoint")]
        if not checkpoints:
            raise CorruptionError(
                f"the commit log of '{self._store.label}' has no checkpoint",
                hint="restore the log directory from a backup",
            )
        latest = max(checkpoints, key=_epoch_of)
        self._fence = 0
        state = self._followed_by(State(epoch=-1), latest)
        state = self._follow(state, files, latest)
        if state.epoch < head:
            missing = head - state.epoch
            epochs = f"epoch {head}" if missing == 1 else f"epochs {state.epoch + 1} to {head}"
            raise CorruptionError(
                f"the commit log of '{self._store.label}' lacks its last "
                + ("record" if missing == 1 else f"{missing} records"),
                detail=f"it ends at epoch {state.epoch}, and {epochs} had been committed",
                hint="restore the directory 'log' from a backup; to go on without what is lost, "
                "remove the directory 'lease'",
            )
        return state

    def follow(self, state: State) -> State:
        """The state after the records committed since."""
        try:
            return self._follow(state, self._files())
        except _VanishedError:
            return self.load()

    def _follow(self, state: State, files: list[str], last: str = "") -> State:
        known = set(files)
        while (path := _record_name(state.epoch + 1)) in known:
            state, last = self._followed_by(state, path), path
        newer = [path for path in known if _epoch_of(path) > state.epoch]
        if newer:
            if any(path.endswith(".checkpoint") for path in newer):
                return self._load()
            raise CorruptionError(
                f"the commit log lacks the record of epoch {state.epoch + 1}",
                detail=f"later records exist: {', '.join(sorted(newer)[:3])}",
                hint="restore the log directory from a backup",
            )
        if last:
            with sound(last):
                refuse_unsound(state)
        return state

    def _followed_by(self, state: State, path: str) -> State:
        """The state after one more file of the log."""
        record = self._read(path)
        # An older version of Rekindle may have written in between, and knows no fences.
        fence = record.get("fence", self._fence)
        if fence < self._fence:
            raise CorruptionError(
                f"file '{path}' of the commit log is of a writer that had been replaced",
                detail=f"its fencing number is {fence}, after {self._fence}",
                hint="restore the log directory from a backup",
            )
        self._fence = fence
        with sound(path):
            return _apply(state, record)

    def _files(self) -> list[str]:
        return [path for path in self._store.list(DIRECTORY) if _NAMED.fullmatch(path)]

    def _read(self, path: str) -> dict[str, Any]:
        try:
            checksum, _, body = self._store.read_bytes(path).partition(b"\n")
        except FileNotFoundError as error:
            raise _VanishedError(f"file '{path}' of the commit log is missing") from error
        if xxhash.xxh3_64_hexdigest(body).encode() != checksum:
            raise CorruptionError(
                f"file '{path}' of the commit log is damaged",
                detail="its checksum does not match its content",
                hint="restore the file from a backup",
            )
        record = read_record(path, body, FORMAT)
        if record["epoch"] != _epoch_of(path):
            raise damaged(path, f"it is the record of epoch {record['epoch']}")
        return record


def _uncertain(name: str, error: OSError) -> UncertainError:
    uncertain = UncertainError(f"'{name}' was created and may not be durable")
    uncertain.__cause__ = error
    return uncertain


def _record_name(epoch: int) -> str:
    return f"{DIRECTORY}/{epoch:016}.record"


def _checkpoint_name(epoch: int) -> str:
    return f"{DIRECTORY}/{epoch:016}.checkpoint"


def _barrier_name(epoch: int) -> str:
    return f"{DIRECTORY}/{epoch:016}.barrier"


def _is_barrier(path: str) -> bool:
    return path.endswith(".barrier")


def _epoch_of(path: str) -> int:
    return int(path.rsplit("/", 1)[-1].split(".")[0])


def _record(before: State, after: State) -> dict[str, Any]:
    """What leads from one state to the next."""
    traces = {k: t for k, t in after.traces.items() if before.traces.get(k) is not t}
    past = {n: each for n, each in after.history.items() if before.history.get(n) is not each}
    # A table that got columns, and its views, have their earlier changes under new nodes.
    known = {node: before.epoch if node in before.history else -1 for node in past}
    history = {
        node: [change.to_json() for change in each.recent if change.epoch > known[node]]
        for node, each in past.items()
    }
    moved = {node: _moved(before.history[node], past[node]) for node in past if known[node] >= 0}
    older = {
        node: each.older
        for node, each in past.items()
        if each.older is not None and before.history.get(node, History()).older is not each.older
    }
    return {
        **_times(before, after),
        "format": FORMAT,
        "epoch": after.epoch,
        "entries": [
            entry_to_json(entry)
            for name, entry in after.entries.items()
            if before.entries.get(name) != entry
        ],
        "dropped_entries": [name for name in before.entries if name not in after.entries],
        "traces": {key: _form(before.traces.get(key), trace) for key, trace in traces.items()},
        "dropped_traces": [key for key in before.traces if key not in after.traces],
        "history": {node: changes for node, changes in history.items() if changes},
        "moved": {node: epochs for node, epochs in moved.items() if epochs},
        "older": {
            node: _form(before.history.get(node, History()).older, trace)
            for node, trace in older.items()
        },
        "horizon": after.horizon,
        "retain": after.retain,
        **_offsets_record(before, after),
        **_functions_record(before, after),
        **_streams_record(before, after),
        **_nodes_record(before, after),
    }


def _offsets_record(before: State, after: State) -> dict[str, Any]:
    """The sources that were read on, or forgotten, where some were."""
    moved = {k: o.to_json() for k, o in after.offsets.items() if before.offsets.get(k) != o}
    dropped = [name for name in before.offsets if name not in after.offsets]
    said = {"offsets": moved} if moved else {}
    return said | ({"dropped_offsets": dropped} if dropped else {})


def _streams_record(before: State, after: State) -> dict[str, Any]:
    """The streams that were defined or dropped, where some were."""
    if after.streams == before.streams:
        return {}
    changed = {k: s.to_json() for k, s in after.streams.items() if before.streams.get(k) != s}
    dropped = [name for name in before.streams if name not in after.streams]
    return {"streams": changed, "dropped_streams": dropped}


def _functions_record(before: State, after: State) -> dict[str, Any]:
    """The functions that were defined, redefined or dropped, where some were."""
    if after.functions == before.functions:
        return {}
    changed = {k: text for k, text in after.functions.items() if before.functions.get(k) != text}
    dropped = [name for name in before.functions if name not in after.functions]
    return {"functions": changed, "dropped_functions": dropped}


def _nodes_record(before: State, after: State) -> dict[str, Any]:
    """The plans that came and went, where some did."""
    if after.nodes is before.nodes:
        return {}
    added = {k: n.to_json() for k, n in after.nodes.items() if before.nodes.get(k) != n}
    dropped = [key for key in before.nodes if key not in after.nodes]
    return {"nodes": added, "dropped_nodes": dropped}


def _form(before: Trace | None, after: Trace) -> dict[str, Any]:
    """A trace by what is new in it, or in full where there was none of its layout."""
    if before is None or before.layout is not after.layout:
        return after.to_json()
    return delta_to_json(before, after)


def _formed(before: Trace | None, data: Mapping[str, Any]) -> Trace:
    if "layout" in data:
        return Trace.from_json(data)
    if before is None:
        raise ShapeError("a trace goes on that is not there")
    return delta_from_json(before, data)


def _moved(before: History, after: History) -> list[int]:
    """The epochs whose changes are no longer among the recent ones, where some were moved."""
    if after.older is None or before.older is after.older:
        return []
    kept = {change.epoch for change in after.recent}
    return [change.epoch for change in before.recent if change.epoch not in kept]


def _times(before: State, after: State) -> dict[str, Any]:
    """The time of the epoch, or all that the state knows of times where that is not all."""
    last = after.times.recent[-1:]
    if last and last[0][0] == after.epoch:
        _, instant = last[0]
        if before.times.plus(after.epoch, instant).after(after.horizon) == after.times:
            return {"time": instant}
    return {"times": after.times.to_json()}


def _apply(state: State, record: Mapping[str, Any]) -> State:
    entries = {k: v for k, v in state.entries.items() if k not in record["dropped_entries"]}
    for data in record["entries"]:
        entry = entry_from_json(data)
        entries[entry.name] = entry
    dropped = set(record["dropped_traces"])
    traces = {k: t for k, t in state.traces.items() if k not in dropped}
    traces.update({k: _formed(traces.get(k), data) for k, data in record["traces"].items()})
    history = {node: past for node, past in state.history.items() if node not in dropped}
    for node in {**record["history"], **record.get("moved", {}), **record.get("older", {})}:
        history[node] = _continued(history.get(node, History()), node, record)
    times = state.times
    if "times" in record:
        times = Times.from_json(record["times"])
    elif "time" in record:
        times = times.plus(record["epoch"], record["time"])
    nodes = state.nodes
    if "nodes" in record:
        away = set(record.get("dropped_nodes", ()))
        nodes = {key: node for key, node in nodes.items() if key not in away}
        nodes |= {key: StoredNode.from_json(data) for key, data in record["nodes"].items()}
    moved = record.get("offsets", {})
    forgotten = set(record.get("dropped_offsets", ()))
    offsets = {k: offset for k, offset in state.offsets.items() if k not in forgotten}
    offsets |= {k: Offset.from_json(data) for k, data in moved.items()}
    streams = state.streams
    if "streams" in record:
        away = set(record.get("dropped_streams", ()))
        streams = {k: stream for k, stream in streams.items() if k not in away}
        read = StreamDefinition.from_json
        streams |= {name: read(data) for name, data in record["streams"].items()}
    functions = state.functions
    if "functions" in record:
        away = set(record.get("dropped_functions", ()))
        kept = {name: text for name, text in functions.items() if name not in away}
        functions = {**kept, **record["functions"]}
    after = replace(
        state,
        epoch=record["epoch"],
        entries=entries,
        traces=traces,
        history=history,
        nodes=nodes,
        times=times,
        offsets=offsets,
        functions=functions,
        streams=streams,
        retain=record.get("retain"),
    )
    return after.after(record["horizon"]) if record["horizon"] > state.horizon else after


def _continued(past: History, node: str, record: Mapping[str, Any]) -> History:
    """The history of a node after a record."""
    moved = set(record.get("moved", {}).get(node, ()))
    if not moved.issubset(change.epoch for change in past.recent):
        raise ShapeError(f"a change of {node} was moved that is not there")
    if moved and node not in record.get("older", {}):
        raise ShapeError(f"changes of {node} were moved to nowhere")
    added = tuple(map(Change.from_json, record["history"].get(node, ())))
    kept = tuple(change for change in past.recent if change.epoch not in moved)
    older = record.get("older", {}).get(node)
    return History((*kept, *added), past.older if older is None else _formed(past.older, older))
