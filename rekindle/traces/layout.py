"""What the rows of a trace look like: identity, ring values, payload.

`_key` (hash of the key columns, the sort key), `_id0` and `_id1` (128-bit identity of the row) come
first, then the columns of the ring values, then the payload, which no kernel looks into.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import xxhash

from rekindle.traces.arrays import IDENTITY, KEY, single_chunk
from rekindle.traces.exact_double import ExactDouble
from rekindle.traces.exact_product import ExactProduct
from rekindle.traces.exact_vector import ExactVector
from rekindle.traces.parities import Parities
from rekindle.traces.ring_values import RingValues
from rekindle.traces.values import Columns, ValueColumns, Weight, WideInteger

IDENTITY_FIELDS = tuple(pa.field(name, pa.int64()) for name in (KEY, *IDENTITY))


@dataclass(frozen=True, slots=True)
class TraceLayout:
    """The columns of a trace: its ring values and the schema of its payload."""

    values: tuple[ValueColumns, ...]
    payload: Any
    schema: Any = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        fields = [*IDENTITY_FIELDS, *(f for value in self.values for f in value.fields)]
        fields += [self.payload.field(i) for i in range(len(self.payload))]
        names = [f.name for f in fields]
        if len(set(names)) != len(names):
            raise ValueError(f"column names of a layout must differ: {names}")
        object.__setattr__(self, "schema", pa.schema(fields))

    def conform(self, table: Any) -> Any:
        """The table's columns in the layout's order, each in one chunk, extra ones left out."""
        return pa.Table.from_arrays(self.arrays(table), schema=self.schema)

    def arrays(self, table: Any) -> list[Any]:
        """The same as arrays: the identity, the columns of the values, the payload."""
        names = self.schema.names
        same = table.schema.names == names
        return [single_chunk(c) for c in (table.columns if same else map(table.column, names))]

    def parted(self, arrays: Sequence[Any]) -> tuple[list[Columns], Sequence[Any]]:
        """The columns of each value, and the payload, from `arrays`."""
        place = len(IDENTITY_FIELDS)
        values: list[Columns] = []
        for value in self.values:
            width = len(value.fields)
            values.append(tuple(arrays[place : place + width]))
            place += width
        return values, arrays[place:]

    def value_columns(self, table: Any) -> list[Columns]:
        """The columns of each value, one group per entry of `values`."""
        return [
            tuple(single_chunk(table.column(f.name)) for f in value.fields) for value in self.values
        ]

    def assemble(
        self, identity: Sequence[Any], values: Sequence[Columns], payload: Sequence[Any]
    ) -> Any:
        """A table of this layout from its three groups of columns."""
        arrays = [*identity, *(column for columns in values for column in columns), *payload]
        return pa.Table.from_arrays(arrays, schema=self.schema)

    def empty(self) -> Any:
        return self.schema.empty_table()

    @property
    def fingerprint(self) -> str:
        """Equal for layouts whose files are interchangeable."""
        description = {
            "values": [value.to_json() for value in self.values],
            "payload": [[f.name, str(f.type)] for f in self.payload],
        }
        return xxhash.xxh3_128_hexdigest(json.dumps(description, sort_keys=True).encode())

    def to_json(self) -> dict[str, Any]:
        return {
            "values": [value.to_json() for value in self.values],
            "payload": base64.b64encode(self.payload.serialize().to_pybytes()).decode(),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> TraceLayout:
        payload = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(data["payload"])))
        return cls(tuple(value_from_json(value) for value in data["values"]), payload)


RINGS: Mapping[str, Callable[[Mapping[str, Any]], ValueColumns]] = {
    "weight": lambda data: Weight(data["name"]),
    "wide_integer": lambda data: WideInteger(data["name"], data["limbs"]),
    "exact_double": lambda data: ExactDouble(data["name"]),
    "exact_product": lambda data: ExactProduct(data["name"]),
    "exact_vector": lambda data: ExactVector(data["name"], data["width"]),
    "parities": lambda data: Parities(data["name"]),
    "ring": lambda data: RingValues(data["name"], base64.b64decode(data["group"])),
}
"""The rings that a trace may have values of, by the kind that `ValueColumns.to_json` says."""


def value_from_json(data: Mapping[str, Any]) -> ValueColumns:
    """The ring that `ValueColumns.to_json` described."""
    if data["kind"] not in RINGS:
        raise ValueError(f"unknown kind of ring values: {data['kind']}")
    return RINGS[data["kind"]](data)


def weighted_layout(payload: Any) -> TraceLayout:
    """The layout of a plain Z-set: one integer weight a row."""
    return TraceLayout((Weight(),), payload)
