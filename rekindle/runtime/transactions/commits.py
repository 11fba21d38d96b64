"""Commits, one group after the other: transactions that wait at the same time become one epoch.

A step costs about the same for one row as for some hundreds, and so does making an epoch durable.
Whoever gets the turn commits for everybody who waits: the changes are added up and applied as one
step with one record. Everyone is told the epoch, or an error of its own.

The law: a serial order explains what everyone was told. Transactions of one group touch different
keys of every table (or only add rows to one without a primary key), so each would be lawful before
and after each of the others; one that fails on its rows leaves the group and the rest goes on.
Rejected: adding up whatever waits and checking the sum. A row that one deletes in error and another
inserts by chance would cancel, and both would be told that all is well.
"""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType

import pyarrow as pa
import pyarrow.compute as pc

from rekindle.circuit.nodes import Table
from rekindle.errors import (
    ClosedError,
    ConstraintError,
    EvaluationError,
    IterationLimitError,
    RowError,
    TransactionTimeoutError,
    UntrustedError,
)
from rekindle.runtime.epochs.offsets import OffsetChange
from rekindle.runtime.transactions.stepping import TableChange
from rekindle.traces.arrays import KEY, WEIGHT, integers
from rekindle.traces.trace import Trace

GROUPED_ROWS = 50_000
"""A change of more rows is a step of its own."""
GATHERING_SHARE = 0.5
"""A group waits for those who were in the last one while they come, one within this part of the
time which that took after the other."""
GATHERING_SECONDS = 0.02
"""And no longer than this, nor than the last one took."""
OF_ROWS = (ConstraintError, RowError, EvaluationError, IterationLimitError, UntrustedError)
"""Errors that lie in what somebody changes, so that the others of a group may go on."""


@dataclass(frozen=True, slots=True)
class Watched:
    """Keys of a table that a transaction has read, and that nobody may have changed since."""

    node: Table
    trace: Trace
    """The contents that it has read."""
    epoch: int
    keys: frozenset[int]


@dataclass(slots=True, eq=False)
class Request:
    """A transaction that wants to be committed, and what became of it."""

    changes: Mapping[Table, TableChange]
    deadline: float | None = None
    offsets: Sequence[OffsetChange] = ()
    """The sources that the changes come from, with how far they have been read by them."""
    watched: Sequence[Watched] = ()
    epoch: int | None = None
    error: BaseException | None = None
    _keys: dict[str, set[int]] = field(default_factory=dict)

    @property
    def is_done(self) -> bool:
        return self.epoch is not None or self.error is not None

    @property
    def remaining(self) -> float | None:
        """The seconds until the deadline, if there is one."""
        if self.deadline is None:
            return None
        return min(max(0.0, self.deadline - time.monotonic()), threading.TIMEOUT_MAX)

    @property
    def rows(self) -> int | None:
        """How many rows in memory are changed; None if not all are there, or they are products."""
        tables = [c.rows for c in self.changes.values() if c.frame is None and c.factors is None]
        if len(tables) < len(self.changes):
            return None
        return sum(0 if rows is None else len(rows) for rows in tables)

    def keys(self, node: Table) -> set[int]:
        """The hashes of the keys that the change of a table touches."""
        if node.id not in self._keys:
            rows = self.changes[node].rows
            assert rows is not None and KEY in rows.column_names, "changes are arranged"
            self._keys[node.id] = set(integers(rows.column(KEY)).tolist())
        return self._keys[node.id]

    def only_adds(self, node: Table) -> bool:
        """Whether rows are added, and none removed, to a table that takes any number of them."""
        rows = self.changes[node].rows
        assert rows is not None
        return not node.key and not pc.any(pc.less(rows.column(WEIGHT), 0)).as_py()


class Turn:
    """The right to change the database, of one thread at a time, which may take it again."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._holder: int | None = None
        self._depth = 0

    @property
    def is_mine(self) -> bool:
        """Does this thread have the turn?"""
        return self._holder == threading.get_ident()

    def acquire(self, timeout: float = -1) -> bool:
        """Wait for the turn, no longer than so many seconds if told; False if they are over."""
        if not self._lock.acquire(timeout=timeout):
            return False
        self._holder = threading.get_ident()
        self._depth += 1
        return True

    def release(self) -> None:
        self._depth -= 1
        if not self._depth:
            self._holder = None
        self._lock.release()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


class Commits:
    """The turn to commit, and those who wait for it."""

    def __init__(
        self,
        turn: Turn,
        apply: Callable[
            [Mapping[Table, TableChange], Sequence[OffsetChange], Sequence[Watched]], int
        ],
        committed: Callable[[], int],
        prepare: Callable[[], object] = lambda: None,
    ) -> None:
        self._turn = turn
        self._apply = apply
        self._committed = committed
        """The last epoch whose record is there, also if its commit was interrupted."""
        self._prepare = prepare
        """What has to be done before any change, in epochs of its own."""
        self._guard = threading.Lock()
        self._arrived = threading.Condition(self._guard)
        """Somebody more waits; of interest to the one who leads."""
        self._settled = threading.Condition(self._guard)
        """Somebody's request is done, or nobody leads; of interest to those who wait."""
        self._waiting: list[Request] = []
        self._leader: Request | None = None
        """The request of the one who commits for those who wait."""
        self._expected = 1
        """How many were there when the last group was committed: in it, and waiting after it."""
        self._seconds = 0.0
        """How long that took."""
        self._closed = False

    def commit(self, request: Request) -> int:
        """The epoch that the request became part of; raises its own error if it did not."""
        if self._turn.is_mine:  # Nobody comes before who has the turn already.
            self._run([request])
        else:
            # Whoever is interrupted, at whatever instant, waits and leads no more.
            try:
                if self._must_lead(request):
                    self._lead(request)
            finally:
                self._leave(request)
        if request.error is not None:
            raise request.error
        assert request.epoch is not None
        return request.epoch

    def _must_lead(self, request: Request) -> bool:
        """Wait until somebody has committed the request; True if nobody else does it."""
        with self._guard:
            if self._closed:
                raise _closed()
            self._waiting.append(request)
            self._arrived.notify()
            while not request.is_done and self._leader is not None:
                # One that was taken into a group is committed, or not, with that group.
                patience = request.remaining if request in self._waiting else None
                if not self._settled.wait(patience) and request in self._waiting:
                    raise _too_late()
            if not request.is_done:
                self._leader = request
            return not request.is_done

    def _lead(self, request: Request) -> None:
        """Commit for all who wait, until the request is committed."""
        if not self._turn.acquire(-1 if request.remaining is None else request.remaining):
            raise _too_late()
        try:
            while not request.is_done:
                self._run(self._taken())
        finally:
            self._turn.release()

    def _leave(self, request: Request) -> None:
        """The request waits no more, and leads nobody."""
        with self._guard:
            if request in self._waiting:
                self._waiting.remove(request)
            if self._leader is request:
                self._leader = None
                self._settled.notify_all()

    @property
    def is_closed(self) -> bool:
        """Is nothing committed any more?"""
        return self._closed

    def close(self) -> None:
        """Refuse everybody who waits and who comes; to be called with the turn."""
        with self._guard:
            self._closed = True
            for request in self._waiting:
                request.error = _closed()
            self._waiting = []
            self._settled.notify_all()

    def _taken(self) -> list[Request]:
        """The first who waits, and those after it who can be committed with it.

        Those of the last group are about to come again, each with its next transaction; they are
        waited for, but not for long.
        """
        with self._guard:
            end = time.monotonic() + min(self._seconds, GATHERING_SECONDS)
            while len(self._waiting) < self._expected and (left := end - time.monotonic()) > 0:
                if not self._arrived.wait(min(GATHERING_SHARE * self._seconds, left)):
                    break
            group = together(self._waiting)
            self._waiting = [each for each in self._waiting if each not in group]
        return group

    def _run(self, group: Sequence[Request]) -> None:
        """Commit a group; where an error lies in somebody's rows, in halves, down to the one.

        `before` is the last epoch when a part's changes began to be applied: a later one is theirs.
        It is None while nothing of them can have been committed, whatever else is.
        """
        parts: list[Sequence[Request]] = [group]
        before: int | None = None
        try:
            while parts:
                part = parts[0]
                started = time.perf_counter()
                try:
                    self._prepare()
                    offsets = [o for each in part for o in each.offsets]
                    watched = [w for each in part for w in each.watched]
                    changes = added_up(part)
                    before = self._committed()
                    self._apply(changes, offsets, watched)
                except OF_ROWS as error:
                    before = None
                    if len(part) > 1:
                        half = len(part) // 2
                        parts[:1] = [part[:half], part[half:]]
                        continue
                    part[0].error = error
                except Exception as error:
                    if before is None or self._committed() == before:
                        for request in part:
                            request.error = _own(error) if len(part) > 1 else error
                self._settle(part, before)
                before = None
                del parts[0]
                self._tell(part, time.perf_counter() - started)
        except BaseException:
            # Somebody interrupted the thread that commits for all, at whatever instant. The others
            # are told what the log says, and wait on where it says nothing.
            if parts:
                self._settle(parts[0], before)
            with self._guard:
                self._waiting[:0] = [each for part in parts for each in part if not each.is_done]
            raise

    def _settle(self, part: Sequence[Request], before: int | None) -> None:
        """If an epoch was committed since `before`, it is that of the requests."""
        if before is None:
            return
        epoch = self._committed()
        for request in part:
            if epoch > before and request.error is None:
                request.epoch = epoch

    def _tell(self, part: Sequence[Request], seconds: float) -> None:
        """Let those whose requests are done go on."""
        with self._guard:
            self._seconds = seconds
            self._expected = len(part) + len(self._waiting)
            self._settled.notify_all()


def together(waiting: Sequence[Request]) -> list[Request]:
    """The first request and those that can be one epoch with it, in the order they came."""
    if not waiting:
        return []
    first, *others = waiting
    rows = first.rows
    if rows is None or rows > GROUPED_ROWS:
        return [first]
    group = [first]
    touched: dict[str, set[int]] = {}
    adding: dict[str, bool] = {}
    sources: set[str] = set()
    watched: dict[str, set[int]] = {}

    def join(request: Request) -> None:
        sources.update(offset.source for offset in request.offsets)
        for node in request.changes:
            touched.setdefault(node.id, set()).update(request.keys(node))
            adding[node.id] = adding.get(node.id, True) and request.only_adds(node)
        for each in request.watched:
            watched.setdefault(each.node.id, set()).update(each.keys)

    def is_apart(request: Request) -> bool:
        """Does it change nothing that others watch, and watch nothing that they change?"""
        return all(
            touched.get(each.node.id, set()).isdisjoint(each.keys) for each in request.watched
        ) and all(
            watched.get(node.id, set()).isdisjoint(request.keys(node)) for node in request.changes
        )

    def fits(request: Request, node: Table) -> bool:
        if touched.get(node.id, set()).isdisjoint(request.keys(node)):
            return True
        return adding[node.id] and request.only_adds(node)

    join(first)
    for request in others:
        more = request.rows
        if more is None or rows + more > GROUPED_ROWS:
            continue
        if any(offset.source in sources for offset in request.offsets):
            continue
        if is_apart(request) and all(fits(request, node) for node in request.changes):
            join(request)
            group.append(request)
            rows += more
    return group


def added_up(group: Sequence[Request]) -> Mapping[Table, TableChange]:
    """The changes of a group as those of one transaction."""
    if len(group) == 1:
        return group[0].changes
    parts: dict[Table, list[pa.Table]] = {}
    for request in group:
        for node, change in request.changes.items():
            parts.setdefault(node, []).append(change.rows)
    return {node: TableChange(rows=pa.concat_tables(rows)) for node, rows in parts.items()}


def _own(error: Exception) -> Exception:
    """An error for one of several who failed together, that others may add to."""
    try:
        return copy.copy(error)
    except Exception:  # Not every class of other people's can be made anew from its arguments.
        return error


def _too_late() -> TransactionTimeoutError:
    return TransactionTimeoutError(
        "the transaction could not be committed in time: others were being committed",
        hint="nothing was applied; try again, or give it more time",
    )


def _closed() -> ClosedError:
    return ClosedError("the connection was closed before the transaction was committed")
