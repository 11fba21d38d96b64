"""The change feed of a nested view: rows as they were before an epoch, and as they are after it.

What changed at an epoch are rows of parts. A label is touched where a row of its bag changed, or
holds a label that is touched; in the same way a row of the top is. These rows are nested once with
the parts as they were before the epoch and once as they are after it, the moment being part of
every label. Where both are the same they cancel, so it does no harm to take too many: labels are
compared by hashes, and all rows that a part had since then are asked for the labels in them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from rekindle.catalyst.hashing import unambiguous
from rekindle.catalyst.jvm import analysed_plan
from rekindle.catalyst.types import struct_of
from rekindle.columns import column_name, column_names
from rekindle.frontends.comprehension.assembling import nested_query
from rekindle.frontends.spark_sql.analyse import parse, resolve
from rekindle.names import RESERVED
from rekindle.nested.levels import LABEL, Level
from rekindle.runtime.connection import Connection
from rekindle.runtime.epochs.state import State, ViewEntry
from rekindle.runtime.nested.shredded import RowsOf

EPOCH, WEIGHT = RESERVED


def changed_nested_rows(
    connection: Connection, state: State, entry: ViewEntry, since: int, rows_of: RowsOf
) -> DataFrame:
    """The rows of a nested view that changed at each epoch since, with `_epoch` and `_weight`."""
    assert entry.level is not None
    feed = _Feed(connection, state, since, rows_of)
    known = feed.part(entry.level, ())
    touched = feed.touched(known)
    level = feed.at_moments(known, touched)
    schemas = {name: frame.schema for name, frame in feed.frames.items()}
    query = parse(connection.catalyst, nested_query(level, schemas.__getitem__))
    scope = {n: analysed_plan(frame) for n, frame in feed.frames.items()}
    found = resolve(connection.catalyst, query, scope)
    head = [T.StructField(name, T.LongType(), False) for name in RESERVED]
    target = T.StructType([*head, *struct_of(entry.schema).fields])
    return _consolidated(found, target)


@dataclass(frozen=True, slots=True)
class _Part:
    """A level with its rows now and their changes: `at` an epoch so many, `n`, came.

    `k` is the hash of the label of a row, or in the top of the labels in it; `b0`, `b1` and so on
    are the hashes of the labels that it holds.
    """

    level: Level
    path: tuple[str, ...]
    schema: T.StructType
    rows: DataFrame
    changed: DataFrame
    below: tuple[_Part, ...]


@dataclass(slots=True)
class _Feed:
    connection: Connection
    state: State
    since: int
    rows_of: RowsOf
    frames: dict[str, DataFrame] = field(default_factory=dict)
    """The parts at all moments."""
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def part(self, level: Level, path: tuple[str, ...]) -> _Part:
        entry = self.state.entry(level.view)
        schema = struct_of(entry.schema)
        changes = self.state.changes(level.view, self.since)
        feed = self.connection.contents.changes(
            entry.schema, self.state.traces[entry.node], changes
        )
        start = F.lit(int(self.since)).cast("bigint")
        now = self.rows_of(level.view).select(start, F.lit(1).cast("bigint"), "*")
        undone = feed.withColumns({EPOCH: start, WEIGHT: -F.col(WEIGHT)})
        hashed = _hashes(level, path, schema)
        names = ["at", "n", *column_names(len(schema.fields))]
        rows = now.toDF(*names).unionAll(undone.toDF(*names)).unionAll(feed.toDF(*names))
        return _Part(
            level,
            path,
            schema,
            rows.select("*", *hashed),
            feed.toDF(*names).select("*", *hashed),
            tuple(self.part(each, (*path, column)) for column, each in level.bags),
        )

    def touched(self, part: _Part) -> DataFrame:
        """The epochs and hashes of the labels that changed, or have something inside that did."""
        found = part.changed.select(F.col("at").alias("e"), "k")
        for i, below in enumerate(part.below):
            held = part.rows.select("k", F.col(f"b{i}").alias("b")).distinct()
            inside = self.touched(below).select("e", F.col("k").alias("b"))
            found = found.unionAll(held.join(inside, "b").select("e", "k"))
        return found.distinct()

    def at_moments(self, part: _Part, touched: DataFrame) -> Level:
        """The level of the rows of touched labels before and after each epoch; adds its frames."""
        sides = F.explode(F.array(F.lit(-1).cast("bigint"), F.lit(1).cast("bigint"))).alias("w")
        joined = part.rows.join(touched.select("e", "k", sides), "k")
        last = F.when(F.col("w") > 0, F.col("e")).otherwise(F.col("e") - 1)
        names = column_names(len(part.schema.fields))
        names += [f"b{i}" for i in range(len(part.below))]
        there = (
            joined.where(F.col("at") <= last)
            .select("*", *_both_hashes(part.schema.fields))
            .groupBy("e", "w", "h1", "h2")
            .agg(F.sum("n").alias("n"), *(F.first(name).alias(name) for name in names))
            .where("n > 0")
        )
        below = []
        for i, each in enumerate(part.below):
            wanted = there.select("e", F.col(f"b{i}").alias("k")).distinct()
            below.append((each.path[-1], self.at_moments(each, wanted)))
        name = f"m{next(self._numbers)}"
        repeated = F.expr("explode(array_repeat(1, CAST(n AS INT)))").alias("copy")
        shown = [_at_moment(part, i) for i in range(len(part.schema.fields))]
        head = [] if part.path else [F.col("e").alias(EPOCH), F.col("w").alias(WEIGHT)]
        self.frames[name] = there.select("*", repeated).select(*head, *shown)
        return Level(name, tuple(below), part.level.of_values)


def _hashes(level: Level, path: tuple[str, ...], schema: T.StructType) -> list[Column]:
    """The hashes by which rows find each other."""
    bags = [_hash(*_at(schema, name)) for name, _ in level.bags]
    whole = _hash(*_at(schema, LABEL)) if path else F.xxhash64(*bags)
    return [whole.alias("k"), *(bag.alias(f"b{i}") for i, bag in enumerate(bags))]


def _at_moment(part: _Part, place: int) -> Column:
    """A column of a part, under its own name, with the moment in its labels."""
    described = part.schema.fields[place]
    name, found = described.name, F.col(column_name(place))
    if name == LABEL and part.path:
        return _with_moment(found).alias(LABEL)
    return _shown(part.level, (name,), found, described.dataType).alias(name)


def _shown(level: Level, path: tuple[str, ...], value: Column, type_: T.DataType) -> Column:
    if level.bag(".".join(path)) is not None:
        return _with_moment(value)
    below = ".".join(path) + "."
    if isinstance(type_, T.StructType) and any(c.startswith(below) for c, _ in level.bags):
        fields = [
            _shown(level, (*path, f.name), value.getField(f.name), f.dataType).alias(f.name)
            for f in type_.fields
        ]
        return F.when(value.isNotNull(), F.struct(*fields))
    return value


def _with_moment(label: Column) -> Column:
    return F.when(label.isNotNull(), F.struct("e", "w", label.alias("label")))


def _at(schema: T.StructType, path: str) -> tuple[Column, T.DataType]:
    """A column, or a field of one."""
    first, *inner = path.split(".")
    found, type_ = F.col(column_name(schema.names.index(first))), schema[first].dataType
    for name in inner:
        assert isinstance(type_, T.StructType)
        found, type_ = found.getField(name), type_[name].dataType
    return found, type_


def _hash(column: Column, type_: T.DataType) -> Column:
    return F.xxhash64(*unambiguous(column, type_))


def _both_hashes(fields: Sequence[T.StructField]) -> list[Column]:
    """Two hashes of all columns, h1 and h2."""
    parts = [
        part
        for i, each in enumerate(fields)
        for part in unambiguous(F.col(column_name(i)), each.dataType)
    ]
    return [F.xxhash64(*parts, F.lit(seed)).alias(f"h{seed}") for seed in (1, 2)]


def _consolidated(rows: DataFrame, target: T.StructType) -> DataFrame:
    """The rows with their weights added, without those that come to nothing."""
    head, fields = target.names[:2], target.fields[2:]
    names = column_names(len(fields))
    summed = (
        rows.toDF("e", "w", *names)
        .select("*", *_both_hashes(fields))
        .groupBy("e", "h1", "h2")
        .agg(F.sum("w").alias("w"), *(F.first(name).alias(name) for name in names))
        .where("w != 0")
    )
    shown = zip(["e", "w", *names], [*head, *(each.name for each in fields)], strict=True)
    return summed.select(*(F.col(name).alias(wanted) for name, wanted in shown))
