"""A file operation of a step fails, or the user interrupts it; the process lives on.

When the call raises, nothing has happened: memory and disk are at the previous epoch, no file is
left behind, and the same step works afterwards. When it returns, the new epoch is there. A fault
after the commit record got its name may do either, but not half of both; or the connection, no
longer knowing what is on disk, takes no more changes.

A fault of the store has a name (`StorageError`), whether it is over at once or lasts until somebody
makes room. A write that takes only some of the bytes, and a store that is slow, are no faults.
"""

from __future__ import annotations

import errno
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rekindle.errors import ClosedError, StorageError
from tests.recovery.conftest import Opener
from tests.recovery.disk import (
    Disk,
    Interference,
    Operation,
    ShortWrite,
    fault,
    image_of,
    input_output_error,
    restore,
)
from tests.recovery.invariants import check_database, check_files, check_no_leak, check_state, load
from tests.recovery.workload import PERIOD, SETUP, Timeline, perform

pytestmark = pytest.mark.usefixtures("tight")

STEPS = {"create": SETUP + 3, "drop": SETUP + 8, "checkpoint": SETUP + 10}
Making = Callable[[Operation], BaseException | None]
"""What happens at an operation: an exception, or nothing that can be seen."""


def late(_: Operation) -> None:
    """A store that takes its time."""
    time.sleep(0.02)


def torn(operation: Operation) -> Exception:
    """Half of a write, and then no more room."""
    full = fault(errno.ENOSPC)(operation)
    return ShortWrite(full) if operation.kind == "write" else full


def short(operation: Operation) -> Exception | None:
    """Half of a write, as POSIX allows; the rest is for the next one."""
    return ShortWrite() if operation.kind == "write" else None


FAULTS: dict[str, Making] = {
    "input/output error": input_output_error,
    "interrupt": lambda _: KeyboardInterrupt(),
    "full": fault(errno.ENOSPC),
    "read-only": fault(errno.EROFS),
    "forbidden": fault(errno.EACCES),
    "open files": fault(errno.EMFILE),
    "no answer": fault(errno.ETIMEDOUT),
    "torn write": torn,
    "short write": short,
    "slow": late,
}
LASTING: dict[str, tuple[int, tuple[str, ...]]] = {
    "full": (errno.ENOSPC, ("create", "write", "mkdir", "link")),
    "read-only": (errno.EROFS, ("create", "write", "mkdir", "rename", "link", "remove")),
    "broken": (
        errno.EIO,
        ("create", "write", "mkdir", "rename", "link", "remove", "sync", "list"),
    ),
}
"""Faults that stay until somebody mends them: the number and the operations it is the answer to."""


class Campaign:
    """Runs one step again and again, with a fault at each of its operations in turn."""

    def __init__(self, root: Path, epoch: int, timeline: Timeline, connect: Opener) -> None:
        self.root, self.epoch, self.timeline = root, epoch, timeline
        self.disk = Disk(root)
        self.connect = connect
        self.patch = pytest.MonkeyPatch()
        self.disk.install(self.patch)
        self.db = connect(root)
        self.before = image_of(root)
        self.failures: list[str] = []
        self.faults = 0

    def run(self, *makes: Making, stride: int = 1) -> None:
        """Fault every operation, in turn by each of `makes`; of data files every so many."""
        self._attempt(-1, makes[0])
        data = f"{self.root}/data/"
        kinds = [operation.path.startswith(data) for operation in self.disk.journal]
        self._start_over()
        for number, on_data in enumerate(kinds):
            if not on_data or number % stride == 0:
                self._attempt(number, makes[number // stride % len(makes)])
        self._attempt(-1, makes[0])
        self._report()

    def last(self, number: int, kinds: tuple[str, ...], stride: int = 1) -> None:
        """A fault that begins at an operation and stays, then is mended; of data every so many."""
        self._attempt(-1, input_output_error)
        data = f"{self.root}/data"
        on_data = [operation.path.startswith(data) for operation in self.disk.journal]
        self._start_over()
        for first, skippable in enumerate(on_data):
            if not skippable or first % stride == 0:
                self._lasting(first, number, kinds)
        self._report()

    def _report(self) -> None:
        if self.failures:
            raise AssertionError("\n".join([f"{len(self.failures)} failures", *self.failures]))
        check_database(self.db, self.timeline)

    def _lasting(self, first: int, number: int, kinds: tuple[str, ...]) -> None:
        """Do the step while operations fail, and once more when they no longer do."""

        def interfere(current: int, operation: Operation) -> None:
            if current >= first and operation.kind in kinds:
                raise fault(number)(operation)

        raised = self._step(interfere)
        self.faults += 1
        try:
            found = load(self.root).epoch
            if raised is None:
                self._check(self.epoch)
            elif found != self.db.epoch:
                self._check_given_up()
            else:
                assert found == self.epoch - 1
                check_state(self.db._engine.state, self.db._engine.store, self.timeline)
                perform(self.db, self.timeline.step_to(self.epoch), "inline")
                self.db.collect()
                check_no_leak(self.root, self.db._engine.state)
                check_files(self.root, self.timeline, [self.epoch])
        except Exception as error:
            self.failures.append(f"from {first}: {type(error).__name__}: {str(error)[:200]}")
        self._start_over()

    def _attempt(self, number: int, make: Making) -> None:
        """Do the step with a fault at the operation, then undo it if it succeeded."""
        hit: list[Operation] = []

        def interfere(current: int, operation: Operation) -> None:
            if current == number:
                hit.append(operation)
                made = make(operation)
                if made is not None:
                    raise made

        raised = self._step(interfere)
        self.faults += len(hit)
        where = f"operation {number}, {hit[0].kind} of {hit[0].file}" if hit else "no fault"
        record = f"{self.epoch:016}.record"
        late = any(done.target.endswith(record) for done in self.disk.journal[:number])
        try:
            assert hit or raised is None
            if raised is None:
                self._check(self.epoch)
            elif late and load(self.root).epoch != self.db.epoch:
                self._check_given_up()
            else:
                self._check(self.db.epoch if late else self.epoch - 1)
        except Exception as error:
            self.failures.append(f"{where}: {type(error).__name__}: {str(error)[:200]}")
            self._start_over()
            return
        if number >= 0 and load(self.root).epoch == self.epoch:
            self._start_over()

    def _step(self, interfere: Interference) -> BaseException | None:
        step = self.timeline.step_to(self.epoch)
        try:
            self.disk.run(lambda: perform(self.db, step, "inline"), interfere)
        except (StorageError, KeyboardInterrupt) as error:
            return error
        return None

    def _check(self, expected: int) -> None:
        assert self.db.epoch == expected, f"the connection is at epoch {self.db.epoch}"
        check_state(self.db._engine.state, self.db._engine.store, self.timeline)
        check_files(self.root, self.timeline, [expected])
        left = set(image_of(self.root)) - set(self.before)
        left = {name for name in left if not name.startswith("lease/")}
        assert expected == self.epoch or not left, f"left behind: {left}"

    def _check_given_up(self) -> None:
        try:
            perform(self.db, self.timeline.step_to(self.epoch), "inline")
        except ClosedError:
            pass
        else:
            raise AssertionError("the connection goes on, unlike what is on disk")
        check_files(self.root, self.timeline, [self.epoch])
        self.db.close()
        self.db = self.connect(self.root)
        check_no_leak(self.root, self.db._engine.state)
        check_files(self.root, self.timeline, [self.epoch])

    def _start_over(self) -> None:
        self.db.close()
        restore(self.before, self.root)
        self.db = self.connect(self.root)


@pytest.fixture
def campaign(
    database_at: Callable[[int], Path], timeline: Timeline, connect: Opener
) -> Iterator[Callable[[int], Campaign]]:
    made: list[Campaign] = []

    def start(epoch: int) -> Campaign:
        made.append(Campaign(database_at(epoch - 1), epoch, timeline, connect))
        return made[-1]

    yield start
    for one in made:
        one.patch.undo()


@pytest.mark.parametrize("epoch", STEPS.values(), ids=STEPS)
def test_a_failed_step_has_not_happened(campaign: Callable[[int], Campaign], epoch: int) -> None:
    campaign(epoch).run(input_output_error, stride=9)


@pytest.mark.parametrize("step", ["create", "drop"])
def test_an_interrupted_step_has_not_happened(
    campaign: Callable[[int], Campaign], step: str
) -> None:
    campaign(STEPS[step]).run(FAULTS["interrupt"], stride=9)


def test_every_fault_has_a_name_and_an_end(campaign: Callable[[int], Campaign]) -> None:
    rotating = [make for name, make in FAULTS.items() if name != "interrupt"]
    campaign(STEPS["checkpoint"]).run(*rotating, stride=5)


@pytest.mark.parametrize(
    ("step", "what"), [("checkpoint", "full"), ("checkpoint", "read-only"), ("create", "broken")]
)
def test_a_fault_that_lasts_is_over_when_it_is_mended(
    campaign: Callable[[int], Campaign], step: str, what: str
) -> None:
    campaign(STEPS[step]).last(*LASTING[what], stride=23)


@pytest.mark.torture
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("epoch", range(SETUP + 1, SETUP + 1 + 2 * PERIOD))
def test_any_step_may_fail(
    campaign: Callable[[int], Campaign], epoch: int, fault: str, tally: Counter[str]
) -> None:
    started = campaign(epoch)
    started.run(FAULTS[fault])
    tally["faults"] += started.faults


@pytest.mark.torture
@pytest.mark.parametrize("what", LASTING)
@pytest.mark.parametrize("epoch", range(SETUP + 1, SETUP + 1 + PERIOD))
def test_any_step_may_fail_for_long(
    campaign: Callable[[int], Campaign], epoch: int, what: str, tally: Counter[str]
) -> None:
    started = campaign(epoch)
    started.last(*LASTING[what])
    tally["lasting faults"] += started.faults
