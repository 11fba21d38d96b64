"""Does a join have to be listed to be kept? State and steps, factorised and as a list of rows.

Two joins with few keys, so that the result grows as a power of the tables: a star of three tables
(n³) and a snowflake of four (n⁴). A step brings new rows to every table, the next takes them away.
The listing stops growing where its result has some hundred thousand rows; the factorised view goes
on alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
from rich import box
from rich.table import Table

from rekindle.benchmarks.chart import Line, line_chart
from rekindle.benchmarks.growth import exponent, kept_rows
from rekindle.benchmarks.harness import Harness, stepped
from rekindle.benchmarks.report import Bound, Report, Sample, Series, Verdict, duration
from rekindle.runtime.transactions.transaction import Transaction
from rekindle.runtime.views.factorised import FACTORISED, LISTING

CHANGED = 4
"""Rows that come to each table in a step."""
KEYS = 2


@dataclass(frozen=True, slots=True)
class Shape:
    """A join: its tables with their key columns, its query, and how the result grows."""

    name: str
    tables: Mapping[str, tuple[str, ...]]
    query: str
    power: int
    listed: tuple[int, ...]
    factorised: tuple[int, ...]


SHAPES = (
    Shape(
        "star",
        {"r": ("a",), "s": ("a",), "t": ("a",)},
        "SELECT r.a, r.r_v, s.s_v, t.t_v FROM r JOIN s ON r.a = s.a JOIN t ON r.a = t.a",
        3,
        (16, 32, 64, 128),
        (16, 32, 64, 128, 256, 512, 1024),
    ),
    Shape(
        "snowflake",
        {"f": ("a", "b"), "g": ("a", "c"), "h": ("c",), "k": ("b",)},
        "SELECT f.a, f.b, g.c, f.f_v, g.g_v, h.h_v, k.k_v "
        "FROM f JOIN g ON f.a = g.a JOIN h ON g.c = h.c JOIN k ON f.b = k.b",
        4,
        (8, 16, 32),
        (8, 16, 32, 64, 128, 256),
    ),
)


@dataclass(frozen=True, slots=True)
class Point:
    """What one size of one representation took."""

    size: int
    tuples: int
    rows: int
    step: Series


def run(harness: Harness) -> Report:
    """Both shapes in both representations, each size in a database of its own."""
    found: dict[str, list[Point]] = {}
    verdicts: list[Verdict] = []
    lines: list[Line] = []
    for shape in SHAPES:
        points = _measure(harness, shape)
        found |= {f"{shape.name}, {kind}": points[kind] for kind in points}
        verdicts += _verdicts(shape, points)
        lines += [
            Line(f"{shape.name}, {kind}", [(p.size, [p.rows]) for p in points[kind]])
            for kind in (LISTING, FACTORISED)
        ]
    return Report(
        name="factorised",
        claim="State and steps of a join, factorised against listed, as its tables grow",
        series=[point.step for points in found.values() for point in points],
        verdicts=verdicts,
        machine=harness.machine,
        settings={"changed_rows_of_each_table": CHANGED, "keys": KEYS},
        notes=[
            f"{name}: state grows as n^{_state(points):.2f}, a step as n^{_step(points):.2f}"
            for name, points in found.items()
        ],
        facts={
            name: {
                "points": [
                    {"n": p.size, "tuples": p.tuples, "rows": p.rows, "step": p.step.median}
                    for p in points
                ],
                "state_exponent": _state(points),
                "step_exponent": _step(points),
            }
            for name, points in found.items()
        },
        picture=line_chart(
            "Rows kept for a join as its tables grow",
            "rows of each table (log scale)",
            "rows kept",
            lines,
        ),
        table=_table(found),
    )


def _measure(harness: Harness, shape: Shape) -> dict[str, list[Point]]:
    subjects: dict[tuple[str, int], _Subject] = {}
    sizes = {LISTING: shape.listed, FACTORISED: shape.factorised}
    with harness.phase(shape.name, sum(map(len, sizes.values()))) as advance:
        for kind, chosen in sizes.items():
            for size in chosen:
                subjects[kind, size] = _Subject(harness, shape, kind, size)
                advance()
    names = {f"{shape.name} {kind} {size:,}": key for key in subjects for kind, size in (key,)}
    actions = {name: partial(subjects[key].step) for name, key in names.items()}
    steps = harness.interleave(actions, harness.rounds(10), warm_up=4, description=shape.name)
    points: dict[str, list[Point]] = {LISTING: [], FACTORISED: []}
    for name, (kind, size) in names.items():
        subject = subjects[kind, size]
        points[kind].append(Point(size, subject.tuples, subject.rows, steps[name]))
    return points


class _Subject:
    """One join of one size in one representation."""

    def __init__(self, harness: Harness, shape: Shape, kind: str, size: int) -> None:
        self._shape, self._size = shape, size
        self._db = harness.database(f"{shape.name}-{kind}-{size}", retain=1)
        for name, keys in shape.tables.items():
            columns = ", ".join(f"{key} INT" for key in keys)
            self._db.sql(f"CREATE TABLE {name} ({columns}, {name}_v INT)")
        with self._db.transaction() as tx:
            for name in shape.tables:
                tx.insert(name, self._rows(name, 0, size))
        self._db.create_view("v", shape.query, representation=kind)
        listed = kind == LISTING
        self.rows = kept_rows(self._db)
        self.tuples = self._db.table("v").count() if listed else self._db.factorised("v").count()
        self._verb = "insert"

    def _rows(self, name: str, first: int, count: int) -> pa.Table:
        """Rows that have every combination of keys equally often."""
        numbers = range(first, first + count)
        keys = self._shape.tables[name]
        columns = {key: [i // KEYS**n % KEYS for i in numbers] for n, key in enumerate(keys)}
        return pa.table({**columns, f"{name}_v": list(numbers)})

    def step(self) -> Sample:
        """Rows come, or leave again."""
        verb = self._verb
        self._verb = "delete" if verb == "insert" else "insert"
        changed = {name: self._rows(name, self._size, CHANGED) for name in self._shape.tables}

        def change(tx: Transaction) -> None:
            for name, rows in changed.items():
                getattr(tx, verb)(name, rows)

        return stepped(self._db, change)


def _state(points: list[Point]) -> float:
    return exponent([(point.size, point.rows) for point in points])


def _step(points: list[Point]) -> float:
    return exponent([(point.size, point.step.median) for point in points])


def _verdicts(shape: Shape, points: Mapping[str, list[Point]]) -> list[Verdict]:
    listed = points[LISTING][-1]
    same = next(point for point in points[FACTORISED] if point.size == listed.size)
    return [
        Verdict(
            f"{shape.name}: the power by which the factorised state grows",
            _state(points[FACTORISED]),
            Bound.AT_MOST,
            1.2,
            unit="",
        ),
        Verdict(
            f"{shape.name}: the power by which the listed state grows",
            _state(points[LISTING]),
            Bound.AT_LEAST,
            shape.power - 0.7,
            unit="",
        ),
        Verdict(
            f"{shape.name}: rows kept at n = {listed.size}, listed against factorised",
            listed.rows / same.rows,
            Bound.AT_LEAST,
            10,
        ),
        Verdict(
            f"{shape.name}: a step at n = {listed.size}, listed against factorised",
            listed.step.median / same.step.median,
            Bound.AT_LEAST,
            1,
        ),
    ]


def _table(found: Mapping[str, list[Point]]) -> Table:
    table = Table(box=box.ROUNDED, border_style="dim", header_style="bold")
    table.add_column("join")
    for name in ("n", "tuples", "rows kept", "step"):
        table.add_column(name, justify="right")
    for name, points in found.items():
        for p in points:
            table.add_row(
                name, f"{p.size:,}", f"{p.tuples:,}", f"{p.rows:,}", duration(p.step.median)
            )
        table.add_section()
    return table
