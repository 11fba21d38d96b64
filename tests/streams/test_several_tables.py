"""A stream into several tables, as it is stored and as its batches come apart; without Spark."""

from __future__ import annotations

import pyarrow as pa
import pytest

from rekindle.errors import DefinitionError, UnknownNameError
from rekindle.runtime.streaming.definition import Source, StreamDefinition, check_stream
from rekindle.runtime.streaming.given import read_together
from rekindle.runtime.streaming.preparing import apart
from rekindle.shapes import ShapeError

DEFINITION = StreamDefinition(
    "orders",
    "changes",
    interval="5 seconds",
    source=Source("json", {"path": "/come"}, "id BIGINT"),
    deletes=Source("json", {"path": "/go"}, "id BIGINT"),
    beside=(StreamDefinition("lines", "upsert", sequence_by="at", except_columns=("op",)),),
)


def test_a_definition_is_read_as_it_was_stored() -> None:
    stored = DEFINITION.to_json()
    check_stream(stored, "")
    assert StreamDefinition.from_json(stored) == DEFINITION
    assert DEFINITION.tables == ("orders", "lines")
    assert "beside" not in StreamDefinition("orders").to_json()


def test_what_is_stored_of_another_table_is_looked_at() -> None:
    wrong = DEFINITION.to_json()
    wrong["beside"][0]["rejects"] = "yes"
    with pytest.raises(ShapeError):
        check_stream(wrong, "")
    later = DEFINITION.to_json()
    later["beside"][0]["beside"] = ["of a later version"]
    check_stream(later, "")
    (part,) = StreamDefinition.from_json(later).beside
    assert part.unknown == {"beside": ["of a later version"]}, "and so it is not run"


def test_rows_come_apart_in_their_order() -> None:
    orders = pa.array([{"c0": 1}, None, {"c0": 2}, None], pa.struct([("c0", pa.int64())]))
    lines = pa.array([None, {"c0": "a"}, None, {"c0": None}], pa.struct([("c0", pa.string())]))
    rows = pa.table({"p0": orders, "p1": lines})
    found = apart(pa.concat_tables([rows, rows.slice(2)]), 2)
    assert [each.to_pydict() for each in found] == [{"c0": [1, 2, 2]}, {"c0": ["a", None, None]}]
    assert [len(each) for each in apart(rows.slice(4), 2)] == [0, 0]
    assert apart(rows, 1) == [rows], "what is for one table is as it comes"


def test_what_is_given_of_each_table_is_read() -> None:
    definition, given = read_together({"orders": 1, "lines": {"frame": 2, "mode": "upsert"}})
    assert [part.mode for part in definition.parts] == ["append", "upsert"]
    assert [each.frame for each in given] == [1, 2]
    with pytest.raises(UnknownNameError, match="moed"):
        read_together({"orders": {"frame": 1, "moed": "upsert"}})
    for nothing in ({}, 5):
        with pytest.raises(DefinitionError):
            read_together(nothing)
