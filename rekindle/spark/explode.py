"""explode, posexplode and inline on Arrow tables, for rows that are already in the driver.

The collection is computed by Spark as the last column; opening it is a gather, which needs no
expression. Other generators are Spark plans (`local_plan.py`).
"""

from __future__ import annotations

from typing import TypeGuard

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rekindle.catalyst.evaluations import CatalystEvaluation
from rekindle.catalyst.jvm import simple_name, type_of, type_text
from rekindle.catalyst.scalars import CatalystGenerator
from rekindle.columns import column_name
from rekindle.spark.stages import Generated, Output, Rowwise

COLLECTION = "collection"
_KINDS = ("Explode", "PosExplode", "Inline")


def is_explodable(
    generator: CatalystGenerator | CatalystEvaluation,
) -> TypeGuard[CatalystGenerator]:
    return isinstance(generator, CatalystGenerator) and generator.function in _KINDS


def collection_stage(stage: Generated) -> Rowwise:
    """The kept columns, then the collection that the generator opens."""
    assert isinstance(stage.generator, CatalystGenerator)
    collection = stage.generator.expression.child()
    kept = [
        Output(column_name(i), stage.attributes[p], type_text(stage.attributes[p].dataType()))
        for i, p in enumerate(stage.kept)
    ]
    opened = Output(COLLECTION, collection, type_of(collection))
    return Rowwise(stage.attributes, None, (*kept, opened))


def explode(table: pa.Table, stage: Generated) -> pa.Table:
    """One row for each element of each row's collection; none, or one of NULLs, when empty."""
    assert isinstance(stage.generator, CatalystGenerator)
    lists = pc.cast(table.column(COLLECTION).combine_chunks(), _as_list(table, COLLECTION))
    if isinstance(lists, pa.ChunkedArray):
        lists = lists.combine_chunks()
    parents = pc.list_parent_indices(lists).to_numpy(zero_copy_only=False).astype(np.int64)
    elements = pc.list_flatten(lists)
    columns = _element_columns(elements, parents, stage.generator)
    kept = table.drop_columns([COLLECTION])
    if stage.generator.outer:
        lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
        empty = np.flatnonzero(lengths == 0)
        parents = np.concatenate([parents, empty])
        columns = [pa.concat_arrays([c, pa.nulls(len(empty), c.type)]) for c in columns]
    rows = kept.take(pa.array(parents))
    for i, column in enumerate(columns):
        rows = rows.append_column(column_name(len(stage.kept) + i), column)
    return rows


def _as_list(table: pa.Table, name: str) -> pa.DataType:
    type_ = table.schema.field(name).type
    if pa.types.is_map(type_):
        return pa.list_(pa.struct([("key", type_.key_type), ("value", type_.item_type)]))
    return type_


def _element_columns(
    elements: pa.Array, parents: np.ndarray, generator: CatalystGenerator
) -> list[pa.Array]:
    is_map = simple_name(generator.expression.child().dataType()) == "MapType"
    columns: list[pa.Array] = []
    if generator.function == "PosExplode":
        starts = np.searchsorted(parents, parents, side="left")
        columns.append(pa.array((np.arange(len(parents)) - starts).astype(np.int32)))
    if is_map or generator.function == "Inline":
        # flatten() applies the struct's own NULLs to its fields
        columns.extend(elements.flatten())
    else:
        columns.append(elements)
    return columns
