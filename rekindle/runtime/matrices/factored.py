"""Changes of a matrix that are given as products of vectors: A + u₁·v₁ᵀ + … + uᵣ·vᵣᵀ.

A matrix is a table of three columns whose primary key is two of them. The change is written out for
the table, entry by entry. If every entry that it touches is there already, the vectors themselves
go along with it, for views that can make use of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rekindle.catalyst.types import arrow_type, data_type
from rekindle.circuit.nodes import Table
from rekindle.columns import column_names
from rekindle.errors import DefinitionError, RowError
from rekindle.incremental.policies.factored_updates import SUMMED, Matrix
from rekindle.traces.arrays import WEIGHT

Vector: TypeAlias = Mapping[Any, Any]
_LARGEST = 2**62


@dataclass(frozen=True, slots=True)
class Factors:
    """The vectors of a change as rows of U(product, index, value) and V(product, index, value)."""

    tables: tuple[pa.Table, pa.Table]

    def __add__(self, other: Factors) -> Factors:
        """One change after another: their products side by side."""
        last = pc.max(self.tables[0].column("c0")).as_py()
        shifted = [
            rows.set_column(
                rows.schema.get_field_index("c0"),
                "c0",
                pc.add(rows.column("c0"), pa.scalar((last or 0) + 1, pa.int32())),
            )
            for rows in other.tables
        ]
        left, right = (pa.concat_tables(pair) for pair in zip(self.tables, shifted, strict=True))
        return Factors((left, right))


@dataclass(frozen=True, slots=True)
class FactoredChange:
    """Rows with weights for the table; the factors, unless entries appear that were not there."""

    rows: pa.Table
    factors: Factors | None


def matrix_of(node: Table) -> Matrix:
    """The table as a matrix of values."""
    if len(node.schema) != 3 or len(node.key) != 2:
        raise DefinitionError(
            f"'{node.name}' is not a matrix",
            detail=f"it has the columns {node.schema} and a key of {len(node.key)} columns",
            hint="a matrix is a table (i, j, v) with PRIMARY KEY (i, j)",
        )
    row, column = node.key
    value = 3 - row - column
    if node.schema.fields[value].type not in SUMMED:
        raise DefinitionError(
            f"the values of '{node.name}' are {node.schema.fields[value].type}",
            hint=f"a matrix has values of the type {' or '.join(SUMMED)}",
        )
    return Matrix(row, column, value)


def shape_of(node: Table) -> Matrix | None:
    """The table as a matrix, of ones if it has two columns; None if it is neither."""
    if len(node.schema) == 2:
        return Matrix(0, 1, None)
    if len(node.schema) != 3 or len(node.key) != 2:
        return None
    value = 3 - sum(node.key)
    return Matrix(*node.key, value) if node.schema.fields[value].type in SUMMED else None


def products(u: Any, v: Any) -> list[tuple[Vector, Vector]]:
    """What a user gives as u and v, as pairs of vectors.

    A vector is a dict, pairs of index and value, or a one-dimensional array of which the first
    value has the index 0. Several are a list of vectors, or the columns of a two-dimensional array.
    """
    left, right = _vectors(u), _vectors(v)
    if len(left) != len(right):
        raise RowError(
            f"a factored change of {len(left)} and {len(right)} vectors",
            hint="give as many vectors for the rows as for the columns",
        )
    return list(zip(left, right, strict=True))


def _vectors(given: Any) -> list[Vector]:
    if isinstance(given, np.ndarray):
        if given.ndim == 2:
            return [_vector(given[:, i]) for i in range(given.shape[1])]
        return [_vector(given)]
    if isinstance(given, Mapping):
        return [_vector(given)]
    if not isinstance(given, Iterable):
        raise _unreadable()
    items = list(given)
    several = items and all(
        isinstance(item, Mapping | np.ndarray | list) and not _is_pair(item) for item in items
    )
    return [_vector(item) for item in items] if several else [_vector(items)]


def _is_pair(item: Any) -> bool:
    return isinstance(item, list) and len(item) == 2 and not isinstance(item[0], tuple | list)


def _vector(given: Any) -> Vector:
    if isinstance(given, Mapping):
        return given
    if isinstance(given, np.ndarray):
        if given.ndim != 1:
            raise RowError(f"a vector of {given.ndim} dimensions")
        return dict(enumerate(given.tolist()))
    pairs: Sequence[Any] = list(given)
    if not all(isinstance(pair, tuple | list) and len(pair) == 2 for pair in pairs):
        raise _unreadable()
    found = dict(pairs)
    if len(found) < len(pairs):
        raise RowError("a vector has two values for one index", hint="add them up first")
    return found


def _unreadable() -> RowError:
    return RowError(
        "a vector that cannot be read", hint="give a dict, (index, value) pairs or an array"
    )


def factored_change(
    node: Table, contents: Iterable[pa.Table], pairs: Sequence[tuple[Vector, Vector]]
) -> FactoredChange:
    """The change of a matrix by a sum of products, given what the table holds."""
    matrix = matrix_of(node)
    assert matrix.value is not None
    types = [arrow_type(data_type(f.type)) for f in node.schema]
    rows, left = _stacked([u for u, _ in pairs], types[matrix.row], types[matrix.value], node)
    columns, right = _stacked(
        [v for _, v in pairs], types[matrix.column], types[matrix.value], node
    )
    if left.dtype.kind == "i" and float(_most(left) * _most(right) * len(pairs)) > _LARGEST:
        raise RowError(f"the products of a factored change of '{node.name}' exceed 64 bits")
    delta = left @ right.T
    missing = delta != 0
    parts: list[pa.Table] = []
    names = column_names(3)
    for table in contents:
        at = pc.index_in(table.column(names[matrix.row]), value_set=rows)
        across = pc.index_in(table.column(names[matrix.column]), value_set=columns)
        touched = pc.and_(at.is_valid(), across.is_valid())
        old = table.filter(touched).select(names)
        if not len(old):
            continue
        i, j = (np.asarray(place.filter(touched), dtype=np.int64) for place in (at, across))
        added = delta[i, j]
        missing[i, j] = False
        try:
            sums = (old.column(names[matrix.value]), pa.array(added, types[matrix.value]))
            new = pc.add_checked(*sums)
        except pa.ArrowInvalid as error:
            raise RowError(
                f"an entry of '{node.name}' would exceed 64 bits after a factored change"
            ) from error
        changed = pa.array(added != 0)
        parts.append(_weighted(old.filter(changed), -1))
        parts.append(_weighted(old.set_column(matrix.value, names[matrix.value], new), 1, changed))
    i, j = np.nonzero(missing)
    if len(i):
        arrays: list[Any] = [None, None, None]
        arrays[matrix.row], arrays[matrix.column] = (
            rows.take(pa.array(i)),
            columns.take(pa.array(j)),
        )
        arrays[matrix.value] = pa.array(delta[i, j], types[matrix.value])
        parts.append(_weighted(pa.table(arrays, names=names), 1))
    empty = pa.schema([(WEIGHT, pa.int64()), *zip(names, types, strict=True)]).empty_table()
    whole = pa.concat_tables(parts) if parts else empty
    if len(i):
        return FactoredChange(whole, None)
    return FactoredChange(whole, Factors((vector_rows(rows, left), vector_rows(columns, right))))


def _stacked(vectors: Sequence[Vector], index: Any, value: Any, node: Table) -> tuple[Any, Any]:
    """All indices, and the vectors as columns of one array."""
    try:
        known = _exact(dict.fromkeys(key for vector in vectors for key in vector), index)
        places = {key: i for i, key in enumerate(known.to_pylist())}
        kind = np.float64 if pa.types.is_floating(value) else np.int64
        stacked = np.zeros((len(places), len(vectors)), dtype=kind)
        for number, vector in enumerate(vectors):
            keys = _exact(vector, index).to_pylist()
            numbers = _exact(vector.values(), value)
            stacked[[places[key] for key in keys], number] = np.asarray(numbers)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise RowError(
            f"a vector of a factored change of '{node.name}' does not fit the table",
            detail=str(error),
            hint=f"its columns are {node.schema}",
        ) from error
    return known, stacked


def _exact(values: Iterable[Any], kind: Any) -> Any:
    """The values as a column; raises where one is missing or would lose a fraction."""
    given = list(values)
    for each in given:
        if each is None:
            raise ValueError("a value is missing")
        if pa.types.is_integer(kind) and isinstance(each, float) and not each.is_integer():
            raise ValueError(f"{each} is not a whole number")
    return pa.array(given, kind)


def _most(values: Any) -> int:
    return int(np.abs(values).max(initial=0))


def vector_rows(index: Any, stacked: Any, *, counted: bool = False) -> pa.Table:
    """The columns of an array as rows (product, index, value); with zeros if rows are counted."""
    at, number = np.nonzero(np.ones_like(stacked) if counted else stacked)
    columns = [
        pa.array(np.ones(len(at), dtype=np.int64)),
        pa.array(number, pa.int32()),
        index.take(pa.array(at)),
        pa.array(stacked[at, number]),
    ]
    return pa.table(columns, names=[WEIGHT, "c0", "c1", "c2"])


def _weighted(rows: pa.Table, weight: int, chosen: Any = None) -> pa.Table:
    kept = rows if chosen is None else rows.filter(chosen)
    weights = pa.array(np.full(len(kept), weight, dtype=np.int64))
    return kept.add_column(0, WEIGHT, weights)
