"""A transaction: changes to any number of tables that become one epoch, or nothing.

Changes are collected as weighted rows and applied together when the block ends without an error.
Deletions and insertions commute; an upsert reads the table as this transaction has made it so far.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from types import TracebackType
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rekindle.circuit.nodes import Table
from rekindle.errors import ClosedError, DefinitionError
from rekindle.runtime.engine import Engine
from rekindle.runtime.factored import Factors, factored_change, products
from rekindle.runtime.keys import keys_of
from rekindle.runtime.lengths import fitted
from rekindle.runtime.rows import WEIGHT, check_not_null, is_frame, split_weights, to_arrow
from rekindle.runtime.stepping import TableChange
from rekindle.spark.failures import spark_error
from rekindle.spark.frames import of_table
from rekindle.spark.frames import to_arrow as collect_arrow
from rekindle.spark.inline import is_arranged
from rekindle.spark.step import Placement
from rekindle.spark.types import payload_schema
from rekindle.traces.arrays import KEY, integers
from rekindle.traces.consolidate import distinct_keys
from rekindle.traces.reader import TraceReader

UNKNOWN_ROWS = 8_000_000
COLLECTED_ROWS = 500_000
"""A DataFrame of more rows is not brought into the driver."""
SURELY_LARGE = 10 * COLLECTED_ROWS
"""Beyond this guess a DataFrame is not tried in the driver first."""


class FrameEncoder(Protocol):
    """Turns a user's DataFrame into stored columns of a table, checking its columns."""

    def __call__(self, frame: DataFrame, node: Table) -> DataFrame: ...


class Transaction:
    """Collects changes; use as a context manager."""

    def __init__(self, engine: Engine, encode: FrameEncoder, done: Callable[[], None]) -> None:
        self._engine = engine
        self._encode = encode
        self._done = done
        self._rows: dict[str, list[pa.Table]] = {}
        self._frames: dict[str, list[tuple[DataFrame, int]]] = {}
        self._factors: dict[str, list[Factors | None]] = {}
        self._ended = False

    # ---- the user's calls ------------------------------------------------------------------

    def insert(self, table: str, rows: Any) -> None:
        """Add rows."""
        self._change(table, rows, 1)

    def delete(self, table: str, rows: Any) -> None:
        """Remove rows, each given in full, as often as it is given."""
        self._change(table, rows, -1)

    def upsert(self, table: str, rows: Any) -> None:
        """Add rows, replacing those with the same primary key."""
        node = self._node(table)
        if not node.key:
            raise DefinitionError(
                f"'{node.name}' has no primary key, so rows cannot be upserted",
                hint="use insert and delete, or declare PRIMARY KEY (...) on the table",
            )
        columns = self._columns(node, rows)
        columns = _last_of_each_key(columns, node)
        self.replace(node, columns)

    def apply(self, table: str, changes: Any) -> None:
        """Add changes: rows with a `_weight` column, negative to remove."""
        node = self._node(table)
        if is_frame(changes):
            changes = collect_arrow(changes)
        columns, weights = split_weights(changes, node.schema, node.name)
        columns = fitted(columns, node)
        check_not_null(columns, node.schema, node.name)
        self._add(node, columns, weights)

    def update_factored(self, table: str, u: Any, v: Any) -> None:
        """Add u·vᵀ to a matrix: a table (i, j, v) with the primary key (i, j).

        A vector is a dict, pairs of index and value, or an array whose first value has the index
        0. Lists of r vectors, or arrays of r columns, add the sum of r products. Views with the
        policy 'factored' are changed by the vectors, without the product being multiplied out.
        """
        node = self._node(table)
        reader = TraceReader.of_trace(
            self._engine.state.traces[node.id], self._engine.store, extra=self.pending(node)
        )
        change = factored_change(node, reader.scan(), products(u, v))
        if len(change.rows):
            self._rows.setdefault(node.name, []).append(change.rows)
            self._factors.setdefault(node.name, []).append(change.factors)

    # ---- what statements use ---------------------------------------------------------------

    def replace(self, node: Table, columns: pa.Table) -> None:
        """Remove whatever rows have the keys of `columns`, then add these."""
        check_not_null(columns, node.schema, node.name)
        fresh = self._engine.arranged(node, _weighted(columns, 1))
        keys = distinct_keys(fresh)
        reader = TraceReader.of_trace(
            self._engine.state.traces[node.id], self._engine.store, extra=self.pending(node)
        )
        old, _ = reader.probe(keys)
        rows = self._rows.setdefault(node.name, [])
        if len(old):
            old = _with_equal_keys(old, fresh, node)
            weights = pa.array(-integers(old.column(WEIGHT)))
            rows.append(old.set_column(old.column_names.index(WEIGHT), WEIGHT, weights))
        rows.append(fresh)

    def pending(self, node: Table) -> list[pa.Table]:
        """What this transaction has changed in a table so far, arranged."""
        if node.name in self._frames:
            raise DefinitionError(
                f"a large change of '{node.name}' cannot be read again in the same transaction",
                hint="commit the large change first",
            )
        rows = self._rows.get(node.name, [])
        rows[:] = [
            table if is_arranged(table) else self._engine.arranged(node, table) for table in rows
        ]
        return list(rows)

    def add_frame(self, node: Table, frame: DataFrame, weight: int) -> None:
        """Add or remove the rows of an encoded frame of c0, c1..."""
        estimate = _estimate(frame)
        guess = 0 if estimate is None else estimate
        large = self._engine.placement is None and guess > SURELY_LARGE
        if self._engine.placement is not Placement.SPARK and not large:
            inline = self._engine.placement is Placement.INLINE
            head = collect_arrow(frame if inline else frame.limit(COLLECTED_ROWS + 1))
            if inline or len(head) <= COLLECTED_ROWS:
                columns = _stored(head, node)
                check_not_null(columns, node.schema, node.name)
                self._add(node, columns, weight)
                return
        weighted = frame.select(F.lit(weight).cast("bigint").alias(WEIGHT), "*")
        size = UNKNOWN_ROWS if estimate is None else estimate
        self._frames.setdefault(node.name, []).append((weighted, size))

    # ---- the end ---------------------------------------------------------------------------

    def commit(self) -> int | None:
        """Apply everything as one epoch; gives its number, or None when nothing was asked."""
        self._check_open()
        self._end()
        changes = {}
        for name in dict.fromkeys([*self._rows, *self._frames]):
            node = self._engine.table_node(name)
            rows = self._rows.get(name)
            frames = self._frames.get(name, [])
            if not frames:
                factors = self._factored(name)
                if any(map(is_arranged, rows or [])):
                    rows = self.pending(node)
                changes[name] = TableChange(rows=pa.concat_tables(rows or []), factors=factors)
                continue
            parts = [frame for frame, _ in frames]
            size = sum(estimate for _, estimate in frames)
            if rows:
                columns = [WEIGHT, *payload_schema(node.schema).names]
                table = pa.concat_tables([part.select(columns) for part in rows])
                parts.append(of_table(self._engine.frames.catalyst.spark, table))
                size += len(table)
            union = parts[0]
            for part in parts[1:]:
                union = union.union(part)
            changes[node.name] = TableChange(frame=union, estimate=size)
        return self._engine.apply(changes) if changes else None

    def _factored(self, name: str) -> Factors | None:
        """The factors of a table's whole change, if it has been changed in no other way."""
        known = [each for each in self._factors.get(name, []) if each is not None]
        if len(known) != len(self._rows.get(name, [])) or not known:
            return None
        return reduce(lambda one, other: one + other, known)

    def rollback(self) -> None:
        """Forget everything."""
        if not self._ended:
            self._end()

    def __enter__(self) -> Transaction:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._ended:
            return
        if kind is None:
            self.commit()
        else:
            self.rollback()

    def _end(self) -> None:
        self._ended = True
        self._done()

    def _check_open(self) -> None:
        if self._ended:
            raise ClosedError("the transaction has ended", hint="begin another one")

    def _node(self, table: str) -> Table:
        self._check_open()
        node = self._engine.table_node(table)
        owner = self._engine.state.entry(table).part_of
        if owner is not None:
            raise DefinitionError(f"'{node.name}' is a part of the view '{owner}'")
        return node

    def _columns(self, node: Table, rows: Any) -> pa.Table:
        if is_frame(rows):
            return _stored(collect_arrow(self._encode(rows, node)), node)
        return fitted(to_arrow(rows, node.schema, node.name), node)

    def _change(self, table: str, rows: Any, weight: int) -> None:
        node = self._node(table)
        if is_frame(rows):
            self.add_frame(node, self._encode(rows, node), weight)
            return
        columns = self._columns(node, rows)
        check_not_null(columns, node.schema, node.name)
        self._add(node, columns, weight)

    def _add(self, node: Table, columns: pa.Table, weight: int | pa.Array) -> None:
        self._rows.setdefault(node.name, []).append(_weighted(columns, weight))


def _weighted(columns: pa.Table, weight: int | pa.Array) -> pa.Table:
    if isinstance(weight, int):
        weight = pa.array(np.full(len(columns), weight, dtype=np.int64))
    return columns.add_column(0, WEIGHT, weight)


def _stored(table: pa.Table, node: Table) -> pa.Table:
    """Collected columns in exactly the stored types."""
    return table.cast(payload_schema(node.schema))


def _last_of_each_key(columns: pa.Table, node: Table) -> pa.Table:
    """Of several rows with one key, the last."""
    names = [f"c{i}" for i in node.key]
    if _are_distinct(columns.select(names)):
        return columns
    places = {key: row for row, key in enumerate(keys_of(columns, node.key))}
    if len(places) == len(columns):
        return columns
    return columns.take(pa.array(sorted(places.values())))


def _with_equal_keys(old: pa.Table, fresh: pa.Table, node: Table) -> pa.Table:
    """The rows of `old` whose key really is one of `fresh`; equal hashes may deceive."""
    names = [f"c{i}" for i in node.key]
    place = np.searchsorted(integers(fresh.column(KEY)), integers(old.column(KEY)))
    beside = fresh.select(names).take(pa.array(place))
    if beside.equals(old.select(names)):
        return old
    wanted = set(keys_of(fresh, node.key))
    return old.filter(pa.array([key in wanted for key in keys_of(old, node.key)]))


def _are_distinct(keys: pa.Table) -> bool:
    """Whether no two keys are equal for certain; floats and nested values are not looked at."""
    types = keys.schema.types
    if any(pa.types.is_floating(type_) or pa.types.is_nested(type_) for type_ in types):
        return False
    return len(keys.group_by(keys.column_names, use_threads=False).aggregate([])) == len(keys)


def _estimate(frame: DataFrame) -> int | None:
    """Rows of a frame by the optimiser's guess; None where it has no idea."""
    try:
        statistics = frame._jdf.queryExecution().optimizedPlan().stats()
    except (Py4JJavaError, PySparkException) as error:  # Constants are computed here.
        raise spark_error(error) from error
    known = statistics.rowCount()
    if known.isDefined():
        return int(str(known.get()))
    size = int(str(statistics.sizeInBytes()))
    return None if size > 2**50 else size // (16 * len(frame.columns))
