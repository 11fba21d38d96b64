"""A view against the same query run by plain Spark on the current tables.

Nothing of the engine takes part on Spark's side but the contents of the tables: in a session of its
own they are temporary views under their own names, and the query's text goes to `spark.sql`. A
table is read when a query first names it.

Rows are compared as bags. Floating point numbers are equal when they agree to a relative 1e-9, NaN
equals NaN, and what ties leave open at a limit is accepted (see `ordering`).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from types import TracebackType
from typing import Any

from pyspark.sql import DataFrame

from rekindle.runtime.database import Database
from tests.external.ordering import TopRows, top_rows

TOLERANCE = 1e-9
SMALL = 1 << 20
"""Tables of fewer bytes are part of Spark's plans; larger ones are cached."""
SHOWN = 3

SHORT = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""For many small queries: half the time of Spark's usual settings."""

FEW_TASKS = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.leafNodeDefaultParallelism": "1",
}
"""For a session that reads tables of a few rows."""

TINY = {**SHORT, **FEW_TASKS, "spark.sql.autoBroadcastJoinThreshold": "-1"}
"""For a few rows: tables of one partition, so that nothing is exchanged, a query is one task."""

Row = tuple[Any, ...]


class Difference(AssertionError):
    """A view that is not what Spark computes."""


class Reference:
    """Spark's side. A block of it stands for one state of the tables, each of which is read once.

    Without a block it is for who says of every table that changes that it is to be read again.
    """

    _step = 1

    def __init__(self, db: Database, settings: Mapping[str, str] = SHORT) -> None:
        self._db = db
        self._settings = settings
        self._spark = db.spark.newSession()
        for key, value in settings.items():
            self._spark.conf.set(key, value)
        self._frames: dict[str, DataFrame] = {}

    def __enter__(self) -> Reference:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.forget(*self._frames)

    def forget(self, *names: str) -> None:
        """Read these tables again where a query names them."""
        for name in names:
            frame = self._frames.pop(name, None)
            if frame is not None:
                self._spark.catalog.dropTempView(name)
                frame.unpersist()

    def frame(self, query: str) -> DataFrame:
        """A query over the plain tables."""
        for name in self._db.tables:
            if name not in self._frames and reads(query, name):
                self._read(name)
        return self._spark.sql(query)

    def define(self, view: str, query: str) -> None:
        """Let other queries read this one by a name, as Spark computes it."""
        self.frame(query).createOrReplaceTempView(view)

    def rows_of_reversed(self, query: str) -> list[Row]:
        """What Spark gives when the rows of the tables come the other way round."""
        with Backwards(self._db, self._settings) as other:
            return rows_of(other.frame(query))

    def _read(self, name: str) -> None:
        contents = self._db.table(name)
        rows = contents.toArrow()[:: self._step]
        plain = self._spark.createDataFrame(rows, contents.schema)
        self._frames[name] = plain if rows.nbytes < SMALL else plain.persist()
        plain.createOrReplaceTempView(name)

    def compare(self, view: str, query: str) -> int:
        """How many rows the view has; raises `Difference` unless Spark gives the same ones."""
        contents = self._db.table(view)
        actual = rows_of(contents)
        top = top_rows(query)
        keys = None if top is None else top.positions(contents.columns)
        expected = self.frame(query if top is None or keys is None else top.unlimited)
        require_same_types(view, contents, expected)
        if top is not None and keys is not None:
            require_top(view, actual, rows_of(expected), top, keys)
        else:
            require_equal(view, actual, rows_of(expected))
        return len(actual)


class Backwards(Reference):
    """The same with the rows of each table from last to first.

    A query that Spark answers otherwise so depends on an order that its text does not fix, such as
    `lag` over rows that tie.
    """

    _step = -1


def compare(db: Database, view: str, query: str) -> int:
    """One view against Spark; for several views of one state, share a `Reference`."""
    with Reference(db) as reference:
        return reference.compare(view, query)


def reads(query: str, table: str) -> bool:
    """Whether the query may read the table: it has its name as a word.

    >>> reads("SELECT * FROM `T1` JOIN t23", "t1"), reads("SELECT * FROM `T1` JOIN t23", "t2")
    (True, False)
    """
    return re.search(rf"(?<!\w){re.escape(table)}(?!\w)", query, re.IGNORECASE) is not None


def rows_of(frame: DataFrame) -> list[Row]:
    return [tuple(row) for row in frame.collect()]


def require_same_types(what: str, actual: DataFrame, expected: DataFrame) -> None:
    """Raise `Difference` unless the columns have the same types; names and NULLs do not matter."""
    ours = [field.dataType.simpleString() for field in actual.schema.fields]
    theirs = [field.dataType.simpleString() for field in expected.schema.fields]
    if ours != theirs:
        raise Difference(f"{what}: columns of types {ours}, Spark has {theirs}")


def require_equal(what: str, actual: Sequence[Row], expected: Sequence[Row]) -> None:
    """Raise `Difference` unless the two are equal as bags."""
    surplus, missing = differing(actual, expected)
    if surplus or missing:
        raise Difference(
            f"{what}: {len(surplus)} row(s) too many {_shown(surplus)}, "
            f"{len(missing)} missing {_shown(missing)}"
        )


def require_top(
    what: str, actual: Sequence[Row], ordered: Sequence[Row], top: TopRows, keys: Sequence[int]
) -> None:
    """Raise `Difference` unless `actual` are first rows of `ordered`, whichever way ties fall."""
    first = ordered[top.offset : top.offset + top.limit]

    def sort_keys(rows: Sequence[Row]) -> list[Row]:
        return [tuple(row[i] for i in keys) for row in rows]

    require_equal(f"{what} (sort keys)", sort_keys(actual), sort_keys(first))
    surplus, _ = differing(actual, ordered)
    if surplus:
        raise Difference(f"{what}: {len(surplus)} row(s) that the query lacks {_shown(surplus)}")


def differing(actual: Sequence[Row], expected: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """The rows that only one of the two has, after those that are nearly equal are paired."""
    ours = Counter(map(_frozen, actual))
    theirs = Counter(map(_frozen, expected))
    surplus, missing = list((ours - theirs).elements()), list((theirs - ours).elements())
    groups: dict[Any, list[Row]] = {}
    for row in missing:
        groups.setdefault(_without_floats(row), []).append(row)
    left = []
    for row in surplus:
        candidates = groups.get(_without_floats(row), [])
        nearest = next((c for c in candidates if nearly_equal(row, c)), None)
        if nearest is None:
            left.append(row)
        else:
            candidates.remove(nearest)
    return left, [row for rows in groups.values() for row in rows]


def nearly_equal(one: Any, other: Any) -> bool:
    """Equal but for the last digits of floating point numbers; NaN equals NaN."""
    if isinstance(one, float) and isinstance(other, float):
        if math.isnan(one) or math.isnan(other):
            return math.isnan(one) and math.isnan(other)
        return math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(nearly_equal, one, other))
    return bool(one == other)


def _frozen(value: Any) -> Any:
    """A hashable form; NaN becomes one object, so that it equals itself."""
    match value:
        case float():
            return _NAN if math.isnan(value) else value
        case dict():
            items = [(_frozen(k), _frozen(v)) for k, v in value.items()]
            return ("map", *sorted(items, key=repr))
        case list() | tuple():
            return tuple(_frozen(item) for item in value)
        case bytearray():
            return bytes(value)
        case Decimal():
            return value.normalize()
    return value


def _without_floats(value: Any) -> Any:
    match value:
        case float():
            return "a float"
        case tuple():
            return tuple(_without_floats(item) for item in value)
    return value


def _shown(rows: Sequence[Row]) -> str:
    return "[" + ", ".join(map(repr, rows[:SHOWN])) + (", ...]" if len(rows) > SHOWN else "]")


_NAN = float("nan")
