"""DDlog's scripts: what of a program is plain Datalog, what a script prints, and one in full."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rekindle.runtime.database import Database
from tests.external.ddlog import Script, Session, change_of, printed_of, replay, scripts
from tests.external.ddlog_dialect import NotPlain, Program, parse_program
from tests.external.material import absent, material
from tests.external.outcomes import Results

PROGRAM = """
typedef place = string
input relation Road(from: place, to: place, miles: u16) primary key (r) (r.from, r.to)
input relation Closed(b: bit<8>, tags: Set<string>)   // a collection
output relation Reach(from: place, to: place)
Reach(x, y) :- Road(x, y, _).
Reach(x, z) :- Reach(x, y), Road(.from = y, .to = z), x != z.
output relation Least(from: place, miles: u16)
Least(x, m) :- Road(x, y, miles), var m = miles.group_by(x).min().
output relation Never(b: bit<8>)
Never(b) :- Closed(b, _).
output relation Open(b: bit<8>)
Open(b) :- Never(b).
"""


def program() -> Program:
    return parse_program(PROGRAM)


def test_rules_in_our_text() -> None:
    rules = program().rules
    assert [rule.text for rule in rules["Reach"]] == [
        "Reach(x, y) :- Road(x, y, _).",
        "Reach(x, z) :- Reach(x, y), Road(y, z, _), x != z.",
    ]
    assert [rule.text for rule in rules["Least"]] == [
        "Least(x, m) :- Road(x, y, miles), m = min miles_ : { Road(x, y_, miles_) }."
    ]


def test_what_is_not_plain_takes_others_with_it() -> None:
    assert program().reasons["Closed"] == "columns of type Set"
    assert program().reasons["Open"] == "columns of type Set"


def test_commands_and_what_they_print() -> None:
    found = change_of(program(), 'insert Road("a", "b", 0x10)')
    assert found is not None and found.values == ("a", "b", 16)
    assert change_of(program(), "insert Closed(1, [])") is None
    with pytest.raises(NotPlain):
        change_of(program(), "insert Road(Some{1}, 2, 3)")
    printed = dict(printed_of("R:\nR{.x = 1}: +1\nR{.x = 2}: -1\n\nR{.x = 1}\n"))
    assert printed == {"R": [{(".x = 1", 1), (".x = 2", -1)}, {(".x = 1", 0)}]}


def test_a_wrong_change_is_seen(db: Database) -> None:
    commands = ["start", 'insert Road("a", "b", 3)', "commit dump_changes"]
    right = '.from = "a", .to = "b"'
    for expected, summary in ((1, "2 cases: 2 passed"), (-1, "2 cases: 1 passed, 1 failed")):
        plain = program()
        plain.outputs = ["Reach", "Least"]
        printed = {"Reach": [{(right, expected)}], "Least": [{('.from = "a", .miles = 3', 1)}]}
        results = Results("ddlog", "")
        for view in reversed(db.views):
            db.drop_view(view)
        for table in db.tables:
            db.drop_table(table)
        Session(db, Script("s", plain, commands, printed), results).play()
        assert results.summary == summary


def test_some_of_ddlog(spark: SparkSession, tmp_path: Path) -> None:
    root = material("ddlog")
    if root is None:
        pytest.skip(absent("ddlog"))
    chosen = [place for place in scripts(root) if place.stem in ("path", "three")]
    assert replay(spark, tmp_path, chosen, lambda _: None).summary == "2 cases: 2 passed"
