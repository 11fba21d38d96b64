"""A history of which changes are moved is the history of which none is, and costs no more with age.

The model is a list of changes. Everything else is what the engine uses, with limits so low that a
few epochs have moves, merges and pieces; no Spark is needed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rekindle.circuit.circuit import Circuit
from rekindle.errors import CorruptionError
from rekindle.runtime.epochs import history as history_module
from rekindle.runtime.epochs import rolling
from rekindle.runtime.epochs.changes import changed, touch_any, undoing
from rekindle.runtime.epochs.garbage import Garbage
from rekindle.runtime.epochs.history import HASH, Change, History
from rekindle.runtime.epochs.log import _apply, _record
from rekindle.runtime.epochs.rolling import roll
from rekindle.runtime.epochs.snapshots import Snapshots
from rekindle.runtime.epochs.state import State
from rekindle.runtime.epochs.stored import read_record, refuse_unsound
from rekindle.runtime.upkeep.restore import _as_of
from rekindle.spark.step import StepContext
from rekindle.traces import trace as trace_module
from rekindle.traces.arrays import WEIGHT
from rekindle.traces.consolidate import consolidate
from rekindle.traces.layout import TraceLayout
from rekindle.traces.opened import OPEN_SEGMENTS
from rekindle.traces.partition import KEY_HIGH, KEY_LOW
from rekindle.traces.reader import TraceReader
from rekindle.traces.store import Store
from rekindle.traces.trace import Trace, advance, fuel_for
from rekindle.traces.values import Weight

LAYOUT = TraceLayout((Weight(),), pa.schema([("c0", pa.int64())]))
NODES = ("table-a", "view-b", "view-c")
Bag = Counter[int]

TIGHT = [
    (rolling, "RECENT", 3),
    (rolling, "SHARE", 2),
    (rolling, "TIMES", 3),
    (history_module, "BULKY", 6),
    (rolling, "BULKY", 6),
    (trace_module, "LEVEL_ZERO_ROWS", 4),
    (trace_module, "MINIMUM_FUEL", 8),
    (trace_module, "_SMALLEST_PIECE", 4),
    (trace_module, "_PIECES", 4),
]


@pytest.fixture
def tight(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name, value in TIGHT:
        monkeypatch.setattr(module, name, value)


def rows_of(change: Bag) -> pa.Table:
    """A change as an arranged table; the key is coarser than the row."""
    values = np.array(sorted(change), dtype=np.int64)
    columns = {
        "_key": (values % 5 - 2) * 2**61,
        "_id0": values * 7919,
        "_id1": -values,
        WEIGHT: np.array([change[v] for v in values.tolist()], dtype=np.int64),
        "c0": values,
    }
    return consolidate(pa.table({n: pa.array(v) for n, v in columns.items()}), LAYOUT)


@dataclass
class Model:
    """A database of a few nodes, as the engine would step it, and all their changes."""

    root: Path
    retain: int | None = None

    def __post_init__(self) -> None:
        self.store = Store(str(self.root), "w")
        self.state = State(traces={node: Trace(LAYOUT) for node in NODES})
        self.stored = self.state
        self.changes: dict[str, dict[int, Bag]] = {node: {} for node in NODES}
        self.garbage = Garbage(self.store, Snapshots())
        self.records: list[int] = []

    def step(self, changes: dict[str, Bag]) -> None:
        before = self.state
        context = StepContext(Circuit(), before.traces, self.store, before.epoch + 1)
        rolled = roll(before.history, before.times, list(changes), context)
        traces, history = dict(before.traces), rolled.history
        passing = set(rolled.passing)
        for node, change in changes.items():
            run = self.store.write_run(rows_of(change), _names(context, node, "c"))
            grown = advance(
                traces[node], run, fuel_for(run.rows), self.store, _names(context, node, "m")
            )
            traces[node] = grown.trace
            passing.update(grown.dropped)
            history[node] = history.get(node, History()).plus(Change(context.epoch, run))
            self.changes[node][context.epoch] = change
        after = replace(before, traces=traces, history=history, times=rolled.times)
        after = after.succeeded().retaining(self.retain)
        self.follow(after)
        self.garbage.replaced(before, after, passing)

    def follow(self, after: State) -> None:
        """The record leads from the stored state to the same one as in memory."""
        body = json.dumps(_record(self.state, after)).encode()
        self.records.append(len(body))
        self.stored = _apply(self.stored, read_record("log/r", body, 2))
        refuse_unsound(self.stored)
        assert self.stored == after
        self.state = after

    def check(self) -> None:
        state = self.reopened()
        assert {s.path for s in state.segments} <= set(self.store.list("data"))
        for node in NODES:
            known = {e: c for e, c in self.changes[node].items() if e > state.horizon}
            trace = state.traces[node]
            for since in range(state.horizon, state.epoch + 1):
                past = state.history.get(node, History()).since(since)
                later = {e: c for e, c in known.items() if e > since}
                assert by_epoch(past, self.store, RANGES) == later
                undone = undoing(past, LAYOUT, self.store, (KEY_LOW, KEY_HIGH))
                reader = TraceReader.of_trace(trace, self.store, extra=undone)
                held = sum_of(c for e, c in self.changes[node].items() if e <= since)
                assert bag(reader.whole()) == held
                assert past.rows >= sum(len(c) for c in later.values())

    def reopened(self) -> State:
        """The state from a checkpoint of it."""
        body = json.dumps(_record(State(epoch=-1), self.state)).encode()
        found = _apply(State(epoch=-1), read_record("log/c", body, 2))
        assert found == self.state
        return found


RANGES = [(KEY_LOW, -(2**61)), (-(2**61), 0), (0, KEY_HIGH)]


def _names(context: StepContext, node: str, mark: str) -> Callable[[], str]:
    numbers = iter(range(1000))
    return lambda: context.path(node, f"{mark}{next(numbers):05}.arrow")


def sum_of(changes: Iterator[Bag]) -> Bag:
    found: Bag = Counter()
    for change in changes:
        for value, weight in change.items():
            found[value] += weight
    return Counter({value: weight for value, weight in found.items() if weight})


def bag(table: pa.Table) -> Bag:
    pairs = zip(table.column("c0").to_pylist(), table.column(WEIGHT).to_pylist(), strict=True)
    return Counter(dict(pairs))


def by_epoch(past: Any, store: Store, ranges: list[tuple[int, int]]) -> dict[int, Bag]:
    found: dict[int, Bag] = {}
    for key_range in ranges:
        for rows, epochs in changed(past, LAYOUT, store, key_range):
            values = rows.column("c0").to_pylist(), rows.column(WEIGHT).to_pylist()
            for value, weight, epoch in zip(*values, epochs.to_pylist(), strict=True):
                assert value not in found.setdefault(epoch, Counter())
                found[epoch][value] = weight
    return found


WEIGHTS = st.integers(-2, 2).filter(bool)
CHANGES = st.dictionaries(st.integers(0, 12), WEIGHTS, min_size=1, max_size=8).map(Counter)
STEPS = st.lists(st.dictionaries(st.sampled_from(NODES), CHANGES), max_size=30)


@settings(
    max_examples=40,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=STEPS, retain=st.sampled_from([None, None, 3, 9]))
def test_moved_changes_are_the_same_changes(
    tight: None,
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[dict[str, Bag]],
    retain: int | None,
) -> None:
    model = Model(tmp_path_factory.mktemp("model"), retain)
    for changes in steps:
        model.step(changes)
    model.check()
    OPEN_SEGMENTS.clear()
    model.check()


def random_steps(count: int, seed: int = 3) -> Iterator[dict[str, Bag]]:
    chance = np.random.default_rng(seed)
    for _ in range(count):
        values = chance.integers(0, 200, (len(NODES), 4)).tolist()
        yield {node: Counter(dict.fromkeys(v, 1)) for node, v in zip(NODES, values, strict=True)}


def test_the_model_moves_and_merges(tight: None, tmp_path: Path) -> None:
    """Without that the property above says nothing."""
    model = Model(tmp_path)
    merged = False
    for changes in random_steps(60):
        model.step(changes)
        older = [past.older for past in model.state.history.values() if past.older is not None]
        merged |= any(trace.merges for trace in older)
    assert merged
    for past in model.state.history.values():
        assert past.older is not None and len(past.recent) <= 2 * rolling.RECENT + 1
    assert model.state.times.older is not None
    model.check()


def test_neither_records_nor_the_state_grow_with_age(tmp_path: Path) -> None:
    """With the limits of the product: several hundred steps, counted."""
    model = Model(tmp_path)
    sizes = []
    for changes in random_steps(600):
        model.step(changes)
        whole = len(json.dumps(_record(State(epoch=-1), model.state)))
        sizes.append((model.records[-1], whole, len(model.state.paths)))
    for what, values in zip(
        ("record", "checkpoint", "files"), zip(*sizes, strict=True), strict=True
    ):
        early, late = max(values[100:300]), max(values[400:])
        assert late <= 1.2 * early, f"{what}: {early} and then {late}"
    # Recent changes of each node, and logarithmically many runs of its three traces.
    bound = len(NODES) * (2 * rolling.RECENT + 2 * 8 * 4)
    assert all(files <= bound for _, _, files in sizes), sizes
    assert all(len(past.recent) <= 2 * rolling.RECENT for past in model.state.history.values())
    assert len(model.state.times.recent) <= rolling.TIMES


def test_files_that_are_no_longer_needed_are_removed(
    tight: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rekindle.runtime.epochs.garbage.GRACE_SECONDS", 0.0)
    monkeypatch.setattr("rekindle.runtime.epochs.garbage.GRACE_EPOCHS", 0)
    for retain in (None, 7):
        model = Model(tmp_path / str(retain), retain)
        for changes in random_steps(50):
            model.step(changes)
            model.garbage.sweep(model.state.epoch)
            assert set(model.store.list("data")) == model.state.paths
        model.check()


def test_a_long_list_of_an_early_database_is_moved_step_by_step(tmp_path: Path) -> None:
    model = Model(tmp_path)
    limit, rolling.RECENT = rolling.RECENT, 10_000
    try:
        for changes in random_steps(150):
            model.step(changes)
    finally:
        rolling.RECENT = limit
    lengths = [max(len(past.recent) for past in model.state.history.values())]
    for changes in random_steps(40, seed=4):
        model.step(changes)
        lengths.append(max(len(past.recent) for past in model.state.history.values()))
    assert lengths[0] == 150 and lengths[-1] <= 2 * limit
    assert all(before - after <= limit for before, after in pairwise(lengths))
    model.check()


def test_bulky_changes_stay_where_they_are(tight: None, tmp_path: Path) -> None:
    model = Model(tmp_path)
    for number in range(24):
        values = range(8) if number % 2 else range(2)
        model.step({"table-a": Counter(dict.fromkeys(values, 1))})
    past = model.state.history["table-a"]
    assert sum(change.run.rows > 6 for change in past.recent) == 12
    assert past.older is not None and len(past.small) <= 7
    model.check()


def test_conflicts_are_seen_in_moved_changes(tight: None, tmp_path: Path) -> None:
    model = Model(tmp_path)
    for number in range(20):
        model.step({"table-a": Counter({number % 5: 1})})
    past = model.state.history["table-a"]
    key = int(rows_of(Counter({3: 1})).column("_key")[0].as_py())
    other = np.array([key + 1], dtype=np.int64)
    assert touch_any(past.since(0), LAYOUT, model.store, np.array([key], dtype=np.int64))
    assert not touch_any(past.since(0), LAYOUT, model.store, other)
    first = History((), past.older).since(3)
    assert touch_any(first, LAYOUT, model.store, np.array([key], dtype=np.int64))


def test_a_state_taken_back_has_no_later_changes(tight: None, tmp_path: Path) -> None:
    model = Model(tmp_path)
    for changes in random_steps(30):
        model.step(changes)
    for epoch in (1, 9, 17, 29):
        back = _as_of(model.state, epoch, model.store)
        for node in NODES:
            known = {e: c for e, c in model.changes[node].items() if e <= epoch}
            assert by_epoch(back.history[node].since(0), model.store, RANGES) == known
        instants = [int(e) for epochs, _ in back.times.known(model.store) for e in epochs]
        assert instants == list(range(1, epoch + 1))


def test_times_ascend_and_find_their_epochs(tight: None, tmp_path: Path) -> None:
    model = Model(tmp_path)
    for changes in random_steps(20):
        model.step(changes)
    pairs = [
        (int(epoch), int(instant))
        for epochs, instants in model.state.times.known(model.store)
        for epoch, instant in zip(epochs, instants, strict=True)
    ]
    assert [epoch for epoch, _ in pairs] == list(range(1, 21))
    assert all(one < other for (_, one), (_, other) in pairwise(pairs))
    for epoch, instant in pairs:
        assert model.state.times.at(instant, model.store) == epoch
        assert model.state.times.at(instant - 1, model.store) == (epoch - 1 or None)
    assert model.state.times.at(pairs[-1][1] + 10**9, model.store) == 20


def test_a_clock_that_goes_back_does_not_turn_epochs_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Model(tmp_path)
    clock = iter([5_000, 4_000, 4_000, 9_000])
    monkeypatch.setattr("rekindle.runtime.epochs.times.time.time_ns", lambda: next(clock) * 1000)
    for changes in random_steps(4):
        model.step(changes)
    assert model.state.times.recent == ((1, 5_000), (2, 5_001), (3, 5_002), (4, 9_000))


def test_a_damaged_change_does_not_stop_steps(tight: None, tmp_path: Path) -> None:
    model = Model(tmp_path)
    for number in range(3):
        model.step({"table-a": Counter({number: 1})})
    damaged = model.state.history["table-a"].recent[1]
    (path,) = damaged.run.paths
    place = tmp_path / path
    right = place.read_bytes()
    place.write_bytes(bytes(len(right)))
    OPEN_SEGMENTS.clear()
    for _ in range(9):
        model.step({"view-b": Counter({1: 1})})
    past = model.state.history["table-a"]
    assert past.recent == (damaged,) and past.older is not None
    place.write_bytes(right)
    model.check()


def test_a_key_that_is_missing_is_damage(tight: None, tmp_path: Path) -> None:
    """Whoever wrote the log wrote the checksum too."""
    model = Model(tmp_path)
    for _ in range(4):
        model.step({"view-b": Counter({1: 1, 2: 1})})
    past = model.state.history["view-b"].since(0)
    assert past.older is not None
    rows = TraceReader.of_trace(past.older, model.store).whole()
    holes = pa.nulls(len(rows), pa.int64())
    rows = rows.set_column(rows.schema.get_field_index(HASH), HASH, holes)
    run = model.store.write_run(rows, lambda: "data/view-b/e1-holes.arrow")
    hostile = replace(past, older=Trace(past.older.layout, (run,)))
    with pytest.raises(CorruptionError, match="has no key"):
        list(changed(hostile, LAYOUT, model.store))


def test_damaged_older_changes_do_not_stop_steps(
    tight: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Model(tmp_path)
    for _ in range(12):
        model.step({"view-b": Counter({1: 1, 2: 1})})
    before = model.state.history["view-b"]

    def damaged(*given: Any) -> Any:
        raise CorruptionError("damaged")

    with monkeypatch.context() as patch:
        patch.setattr(rolling, "advance", damaged)
        for _ in range(5):
            model.step({"view-b": Counter({1: 1})})
    after = model.state.history["view-b"]
    assert after.older is before.older and len(after.recent) == len(before.recent) + 5
    model.check()


# ---- that these tests would notice -----------------------------------------------------------


def test_a_change_that_is_lost_on_the_way_is_noticed(
    tight: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = rolling.by_epoch
    monkeypatch.setattr(rolling, "by_epoch", lambda *given: right(*given).slice(1))  # type: ignore[union-attr]
    model = Model(tmp_path)
    for changes in random_steps(12):
        model.step(changes)
    with pytest.raises(AssertionError):
        model.check()


def test_a_key_that_is_not_put_back_is_noticed(
    tight: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "rekindle.runtime.epochs.changes._put_back", lambda table, layout: layout.conform(table)
    )
    model = Model(tmp_path)
    for changes in random_steps(12):
        model.step(changes)
    with pytest.raises(AssertionError):
        model.check()
