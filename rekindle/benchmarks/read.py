"""What does it cost to read what is stored, without a Spark job and with one?

Three questions, each with a bound, on the orders and views of them:

    contents   `db.arrow` of a million rows against collecting them through Spark, as Arrow too
    changes    `db.changes_arrow` of a step of 1,000 rows against the step
    a key      `spark.read.format("rekindle")...where("id = ...")` as the table grows a hundredfold

The tables have been changed by steps before they are read, so that there are recent runs beside
those of the load. Rows are counted as they are read, and compared once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count

import pyarrow as pa

from rekindle.benchmarks.harness import Filled, Harness, timed
from rekindle.benchmarks.report import Bound, Report, Sample, Series, Verdict, ratio_verdict
from rekindle.benchmarks.workload import Workload
from rekindle.errors import RekindleError

CHANGED = 1_000
STEPS_BEFORE = 5
CONTENTS_LIMIT, CHANGES_LIMIT, KEY_LIMIT = 10.0, 1 / 3, 1.3
PLACED = "placed"
"""A view with a row for each order, by the key of the orders."""
_PLACED = (
    "SELECT o.id, c.region, o.total FROM orders o JOIN customers c ON o.cust = c.id "
    "WHERE o.total >= 0"
)


def run(harness: Harness) -> Report:
    """Contents and changes at a middle size, keys at a small and a large one."""
    largest = harness.rows(10_000_000)
    middle, smallest = max(1000, largest // 10), max(1000, largest // 100)
    contents, changes = _contents_and_changes(harness, middle)
    keys = _keys(harness, [smallest, largest])
    verdicts = _verdicts(contents, changes, keys)
    return Report(
        name="read",
        claim=f"Reading what is stored: {middle:,} rows, steps of {CHANGED:,}, and one key",
        series=[*contents.values(), *changes.values(), *keys.values()],
        verdicts=verdicts,
        machine=harness.machine,
        settings={"rows": middle, "changed_rows": CHANGED, "sizes": [smallest, largest]},
    )


def _contents_and_changes(
    harness: Harness, rows: int
) -> tuple[dict[str, Series], dict[str, Series]]:
    changed = min(CHANGED, rows // 10)
    filled = harness.filled(Workload(rows))
    db = filled.db
    db.create_view(PLACED, _PLACED)
    for _ in range(STEPS_BEFORE):
        filled.step(changed)
    names = ("orders", PLACED)
    for name in names:
        ours, theirs = db.arrow(name), db.table(name).toArrow()
        _refuse_others(name, ours, theirs)

    def collected(name: str) -> Sample:
        return timed(lambda: _counted(rows, db.table(name).toArrow()))

    def read(name: str) -> Sample:
        return timed(lambda: _counted(rows, db.arrow(name)))

    actions: dict[str, Callable[[], Sample]] = {}
    for name in names:
        actions[_spark(name)] = partial(collected, name)
        actions[_arrow(name)] = partial(read, name)
    contents = harness.interleave(actions, harness.rounds(15), 3, "contents")

    def changes_of(name: str) -> Sample:
        since = db.epoch - 1
        return timed(lambda: _counted(changed, db.changes_arrow(name, since=since)))

    found = harness.interleave(
        {
            _STEP: lambda: filled.step(changed),
            **{_changes(name): partial(changes_of, name) for name in names},
        },
        harness.rounds(30),
        8,
        "changes",
    )
    db.close()
    return contents, found


def _keys(harness: Harness, sizes: list[int]) -> dict[str, Series]:
    filled = {size: harness.filled(Workload(size)) for size in sizes}
    for each in filled.values():
        each.db.create_view(PLACED, _PLACED)
        for _ in range(STEPS_BEFORE):
            each.step(min(CHANGED, each.workload.rows // 10))
    numbers = count(1)

    def looked_up(each: Filled, name: str) -> Sample:
        # Any order that the steps have not deleted: those of the newest are there.
        key = each.workload.rows + next(numbers) % 100
        path = f"{each.db.path}/{name}"

        def look() -> None:
            frame = harness.spark.read.format("rekindle").load(path)
            found = frame.where(f"id = {key}").collect()
            _counted(1, found)

        return timed(look)

    actions = {
        _key(name, size): partial(looked_up, each, name)
        for name in ("orders", PLACED)
        for size, each in filled.items()
    }
    return harness.interleave(actions, harness.rounds(30), 8, "keys")


def _verdicts(
    contents: dict[str, Series], changes: dict[str, Series], keys: dict[str, Series]
) -> list[Verdict]:
    found = [
        ratio_verdict(
            f"collecting {name} through Spark against db.arrow",
            contents[_spark(name)],
            contents[_arrow(name)],
            Bound.AT_LEAST,
            CONTENTS_LIMIT,
        )
        for name in ("orders", PLACED)
    ]
    found += [
        ratio_verdict(
            f"the changes of a step in {name} against the step",
            changes[_changes(name)],
            changes[_STEP],
            Bound.AT_MOST,
            CHANGES_LIMIT,
        )
        for name in ("orders", PLACED)
    ]
    series = list(keys.values())
    for name, pair in (("orders", series[:2]), (PLACED, series[2:])):
        words = f"one key of {name} in the largest against the smallest"
        found.append(ratio_verdict(words, pair[1], pair[0], Bound.AT_MOST, KEY_LIMIT))
    return found


_STEP = "step"


def _spark(name: str) -> str:
    return f"{name} through Spark"


def _arrow(name: str) -> str:
    return f"{name} by db.arrow"


def _changes(name: str) -> str:
    return f"changes of {name} by db.changes_arrow"


def _key(name: str, size: int) -> str:
    return f"one key of {name}, {size:,} orders"


def _counted(wanted: int, found: pa.Table | list[object]) -> None:
    if len(found) != wanted:
        raise RekindleError(f"{len(found)} rows were read where there are {wanted}")


def _refuse_others(name: str, ours: pa.Table, theirs: pa.Table) -> None:
    """Raise unless both have the same rows; keys of orders do not repeat."""
    theirs = theirs.cast(ours.schema)
    if not ours.sort_by("id").equals(theirs.sort_by("id")):
        raise RekindleError(f"db.arrow and Spark read other rows of '{name}'")
