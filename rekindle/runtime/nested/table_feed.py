"""The change feed of a nested table: rows as they were before an epoch, and as they are after it.

What changed at an epoch are rows of parts, each of which knows the key of the row that it is part
of. For every epoch and every key that it touched, the rows of the parts before and after it are the
contents now less later changes; the two sides are nested like any contents, with the epoch and the
side as part of every label. Of the contents only the rows of touched keys are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from rekindle.catalyst.hashing import unambiguous
from rekindle.catalyst.jvm import analysed_plan
from rekindle.catalyst.types import struct_of
from rekindle.circuit.nodes import Table
from rekindle.columns import column_name
from rekindle.frontends.comprehension.assembling import nested_query
from rekindle.frontends.spark_sql.analyse import parse, resolve
from rekindle.names import RESERVED, quoted
from rekindle.nested.levels import LABEL, POSITION
from rekindle.runtime.connection import Connection
from rekindle.runtime.epochs.changes import changed
from rekindle.runtime.epochs.history import Changes
from rekindle.runtime.epochs.state import State, TableEntry
from rekindle.runtime.nested.changes import NestedChanges
from rekindle.runtime.nested.flat_rows import Stored
from rekindle.runtime.nested.shredded import RowsOf
from rekindle.runtime.nested.tables import NestedTable, Part, nested_table
from rekindle.runtime.reading.contents import INLINE_ROWS
from rekindle.traces.arrays import Int64s
from rekindle.traces.reader import TraceReader

EPOCH, WEIGHT = RESERVED


@dataclass(frozen=True, slots=True)
class _Contents:
    """The parts of a state, to be looked up."""

    connection: Connection
    state: State

    def reader(self, node: Table) -> TraceReader:
        return TraceReader.of_trace(self.state.traces[node.id], self.connection.engine.store)

    before = reader

    def arranged(self, node: Table, rows: pa.Table) -> pa.Table:
        return self.connection.engine.arranged(node, rows)

    def collect(self, node: Table, rows: pa.Table) -> None:
        raise AssertionError("what is read is not changed")

    def watch(self, node: Table, keys: Int64s) -> None:
        """Nothing rests on what is read."""

    @property
    def changed(self) -> frozenset[str]:
        return frozenset()


def changed_rows(
    connection: Connection, state: State, entry: TableEntry, since: int, rows_of: RowsOf
) -> DataFrame:
    """The rows of a nested table before and after each epoch since, with `_epoch` and `_weight`."""
    nested = nested_table(entry, state)
    changes = {part.node.name: state.changes(part.node.name, since) for part in nested.parts}
    feeds = {
        part.node.name: connection.contents.changes(
            part.node.schema, state.traces[part.node.id], changes[part.node.name]
        )
        for part in nested.parts
    }
    now = _now(connection, state, nested, changes, rows_of)
    keys = [f"k{i}" for i in range(len(nested.owner.key))]
    moments = _moments(nested, feeds, keys)
    frames = {}
    for part in nested.parts:
        name = part.node.name
        held = now[name].select(
            F.lit(int(since)).cast("bigint").alias(EPOCH),
            F.lit(1).cast("bigint").alias(WEIGHT),
            "*",
        )
        undone = feeds[name].withColumns(
            {EPOCH: F.lit(int(since)).cast("bigint"), WEIGHT: -F.col(WEIGHT)}
        )
        frames[name] = _sides(part, nested, held.unionAll(undone).unionAll(feeds[name]), moments)
    assert entry.level is not None
    query = parse(connection.catalyst, nested_query(entry.level, lambda name: frames[name].schema))
    scope = {name: analysed_plan(frame) for name, frame in frames.items()}
    found = resolve(connection.catalyst, query, scope)
    head = [T.StructField(name, T.LongType(), False) for name in RESERVED]
    target = T.StructType([*head, *struct_of(entry.schema).fields])
    return connection.contents.cut_to(found, target)


def _now(
    connection: Connection,
    state: State,
    nested: NestedTable,
    changes: dict[str, Changes],
    rows_of: RowsOf,
) -> dict[str, DataFrame]:
    """The contents of the parts, at least those of the keys that changed."""
    if sum(each.rows for each in changes.values()) > INLINE_ROWS:
        return {name: rows_of(name) for name in changes}
    store, names = connection.engine.store, [column_name(i) for i in nested.owner.key]
    keys: list[pa.Table] = []
    for part in nested.parts:
        layout = state.traces[part.node.id].layout
        for rows, _ in changed(changes[part.node.name], layout, store):
            keys.append(_keys(part, rows, names))
    if keys:
        given = pa.concat_tables(keys)
        looking = NestedChanges(nested, _Contents(connection, state))
        stored = looking.find(given, looking.tx.reader)
    else:
        empty = {p.node.name: state.traces[p.node.id].layout.empty() for p in nested.parts}
        stored = Stored(nested, empty)
    return {
        part.node.name: connection.contents.of_rows(
            part.node.schema,
            stored.rows[part.node.name].select(
                [column_name(i) for i in range(len(part.node.schema))]
            ),
        )
        for part in nested.parts
    }


def _keys(part: Part, rows: pa.Table, names: Sequence[str]) -> pa.Table:
    """The keys of the nested rows that rows of a part belong to."""
    if not part.path:
        return rows.select(names)
    label = rows.column(column_name(0)).combine_chunks()
    if isinstance(label, pa.ChunkedArray):
        label = pa.concat_arrays(label.chunks)
    arrays = label.flatten()[: len(names)]
    return pa.Table.from_arrays(arrays, names=list(names))


def _moments(nested: NestedTable, feeds: dict[str, DataFrame], keys: Sequence[str]) -> DataFrame:
    """The keys that each epoch touched, once for what was before it and once for after it."""
    touched = None
    for part in nested.parts:
        found = feeds[part.node.name].select(EPOCH, *_key_columns(part, nested, keys))
        touched = found if touched is None else touched.unionAll(found)
    assert touched is not None
    sides = F.explode(F.array(F.lit(-1).cast("bigint"), F.lit(1).cast("bigint"))).alias(WEIGHT)
    return touched.distinct().select("*", sides).toDF("e", *keys, "w")


def _key_columns(part: Part, nested: NestedTable, keys: Sequence[str]) -> list[Column]:
    if part.path:
        return [F.col(f"{LABEL}.{key}").alias(key) for key in keys]
    names = [nested.owner.schema.names[i] for i in nested.owner.key]
    return [F.col(quoted(name)).alias(key) for name, key in zip(names, keys, strict=True)]


def _sides(part: Part, nested: NestedTable, rows: DataFrame, moments: DataFrame) -> DataFrame:
    """The rows of a part at every moment, with the moment in its labels."""
    schema = struct_of(part.node.schema)
    width = len(schema.fields)
    keys = [f"k{i}" for i in range(len(nested.owner.key))]
    keyed = rows.select("*", *_key_columns(part, nested, keys))
    keyed = keyed.toDF("at", "n", *(column_name(i) for i in range(width)), *keys)
    hashed = [
        each
        for i, field in enumerate(schema.fields)
        for each in unambiguous(F.col(column_name(i)), field.dataType)
    ]
    hashes = [F.xxhash64(*hashed, F.lit(seed)).alias(f"h{seed}") for seed in (1, 2)]
    # Moments are few, and a row is of one key.
    joined = keyed.select("*", *hashes).join(F.broadcast(moments), keys)
    reached = joined.where(
        F.col("at") <= F.when(F.col("w") > 0, F.col("e")).otherwise(F.col("e") - 1)
    )
    added = reached.groupBy("e", "w", "h1", "h2").agg(
        F.sum("n").alias("n"),
        *(F.first(column_name(i)).alias(column_name(i)) for i in range(width)),
    )
    bags = {place for place, _ in part.bags}
    shown = []
    for i, field in enumerate(schema.fields):
        column = F.col(column_name(i))
        if i in bags or (field.name == LABEL and part.path):
            moment = F.struct(F.col("e"), F.col("w"), column.alias("label"))
            column = F.when(column.isNotNull(), moment)
        shown.append(column.alias(field.name))
    if not part.path:
        shown = [F.col("e").alias(EPOCH), F.col("w").alias(WEIGHT), *shown]
    assert not part.path or schema.names[:2] == [LABEL, POSITION]
    return added.where("n > 0").select(*shown)
