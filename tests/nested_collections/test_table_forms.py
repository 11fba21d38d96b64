"""What of nested tables needs no Spark: stored forms, statements, groups of commits."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from rekindle.calculus.scalars import Column
from rekindle.calculus.schema import Field, Schema
from rekindle.circuit.nodes import Table
from rekindle.errors import StatementError
from rekindle.nested.levels import LABEL, POSITION, Level
from rekindle.runtime.epochs.state import State, TableEntry, entry_from_json, entry_to_json
from rekindle.runtime.epochs.stored import _entry, refuse_unsound
from rekindle.runtime.nested.statements import (
    DeleteNested,
    InsertNested,
    Selector,
    UpdateNested,
    read_nested,
)
from rekindle.runtime.transactions.commits import Request, Watched, together
from rekindle.runtime.transactions.stepping import TableChange
from rekindle.shapes import ShapeError
from rekindle.traces.arrays import KEY, WEIGHT
from rekindle.traces.layout import TraceLayout
from rekindle.traces.trace import Trace
from rekindle.traces.values import Weight

LEVEL = Level("t·", (("l", Level("t·l")),))
OWNER = TableEntry(
    "t", Schema.of(k="int", l="ARRAY<STRUCT<a: INT>>"), (0,), "i", "n", 1, level=LEVEL
)
TOP = TableEntry("t·", Schema.of(k="int", l="STRUCT<k0: INT>"), (0,), "i", "n1", 1, part_of="t")
ELEMENTS = TableEntry(
    "t·l",
    Schema(
        (
            Field(LABEL, "STRUCT<k0: INT>", nullable=False),
            Field(POSITION, "bigint", nullable=False),
            Field("a", "int"),
        )
    ),
    (),
    "i",
    "n2",
    1,
    part_of="t",
    index=(0,),
)


def state(*entries: TableEntry) -> State:
    traces = {
        each.node: Trace(
            TraceLayout(
                (Weight(),), pa.schema([(f"c{i}", pa.int32()) for i in range(len(each.schema))])
            )
        )
        for each in entries
        if not each.stands
    }
    return State(1, {each.name: each for each in entries}, traces)


def test_a_nested_table_is_stored_and_read() -> None:
    for entry in (OWNER, TOP, ELEMENTS, replace(OWNER, said={"shredding": "full"})):
        form = json.loads(json.dumps(entry_to_json(entry)))
        _entry(form, "")
        assert entry_from_json(form) == entry
    plain = entry_to_json(replace(TOP, part_of=None))
    assert not {"level", "index", "said"}.intersection(plain)
    refuse_unsound(state(OWNER, TOP, ELEMENTS))


@pytest.mark.parametrize(
    "entries",
    [
        (OWNER, TOP),
        (OWNER, TOP, replace(ELEMENTS, part_of="t·")),
        (OWNER, TOP, replace(ELEMENTS, index=())),
        (OWNER, replace(TOP, key=()), ELEMENTS),
        (OWNER, replace(TOP, schema=Schema.of(k="int", m="int")), ELEMENTS),
        (OWNER, TOP, replace(ELEMENTS, schema=Schema.of(_label="int", a="int", b="int"))),
    ],
)
def test_parts_that_do_not_fit_are_refused(entries: tuple[TableEntry, ...]) -> None:
    with pytest.raises(ShapeError):
        refuse_unsound(state(*entries))


def test_an_index_is_what_a_table_is_arranged_by() -> None:
    table = Table("t", ELEMENTS.schema, (), "i", {}, (0,))
    assert table.provides((Column(0, "struct<k0: int>"),))
    assert not table.provides((Column(2, "int"),)) and not table.provides(None)
    assert table.keyed_by.columns == (0,)


def test_deep_updates_are_read() -> None:
    insert = read_nested("insert into nested `a b`[7, 'x]'].`l m` (a, `b`) values (1, 2)")
    assert isinstance(insert, InsertNested)
    assert insert.way.table == "a b" and insert.columns == ("a", "b")
    assert insert.way.steps == ((Selector((), ("7", "'x]'")), "l m"),)
    delete = read_nested("DELETE FROM NESTED c[k = f(1, 2) AND j = 'a AND b'].l[x = 1, y=2].m")
    assert isinstance(delete, DeleteNested) and delete.where is None
    assert delete.way.steps[0] == (Selector(("k", "j"), ("f(1, 2)", "'a AND b'")), "l")
    assert delete.way.steps[1] == (Selector(("x", "y"), ("1", "2")), "m")
    update = read_nested("UPDATE NESTED c[1].l SET a = f(b, ' where '), b = 2 WHERE a = 1")
    assert isinstance(update, UpdateNested)
    assert update.changes == (("a", "f(b, ' where ')"), ("b", "2")) and update.where == "a = 1"
    assert read_nested("UPDATE nested SET a = 1") is None
    for text in ("UPDATE NESTED c[1] SET a = 1", "DELETE FROM NESTED c[].l", "UPDATE NESTED c[1.l"):
        with pytest.raises(StatementError):
            read_nested(text)


def test_who_watches_what_another_changes_is_not_of_its_group() -> None:
    table = Table("t·l", ELEMENTS.schema, (), "i", {}, (0,))
    trace = Trace(TraceLayout((Weight(),), pa.schema([("c0", pa.int32())])))

    def request(key: int, *watched: int) -> Request:
        rows = pa.table({KEY: [key], WEIGHT: pa.array(np.array([1]))})
        watching = [Watched(table, trace, 1, frozenset(watched))] if watched else []
        return Request({table: TableChange(rows)}, watched=watching)

    one = request(1)
    assert together([one, request(1)]) != [one]
    assert together([one, request(2, 1)]) == [one]
    assert len(together([one, request(2, 3)])) == 2
    assert len(together([request(2, 1), one])) == 1
