"""The parsers of all stored forms, fed with anything: a value or one of our errors.

No Spark is started here.
"""

from __future__ import annotations

import json
from contextlib import nullcontext, suppress
from fractions import Fraction
from pathlib import Path
from typing import Any, get_args

import pyarrow as pa
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from rekindle.algebra import plain
from rekindle.algebra.cofactor import CofactorRing, categorical_ring, category
from rekindle.algebra.groups import INTEGERS, RATIONALS
from rekindle.calculus import text as term_text
from rekindle.catalyst import persist
from rekindle.errors import CorruptionError, RekindleError, UntrustedError
from rekindle.runtime.epochs.log import FORMAT, CommitLog, _apply
from rekindle.runtime.epochs.state import State
from rekindle.runtime.epochs.stored import is_data_path, read_record, refuse_unsound, sound
from rekindle.runtime.views.definition import ViewDefinition
from rekindle.shapes import ShapeError
from rekindle.traces.links import files_within, refuse_links
from rekindle.traces.opened import OPEN_SEGMENTS
from rekindle.traces.ring_values import RingValues
from rekindle.traces.segment import Segment
from rekindle.traces.store import Store
from tests.hostile.corpus import Poison

SEGMENT = {
    "path": "data/t/e.arrow",
    "rows": 1,
    "low": 0,
    "high": 0,
    "size": 800,
    "checksum": "x",
    "growth": 1,
}
PAYLOAD = "AAAA"
DEFINITIONS: list[dict[str, Any]] = [
    {"kind": "sql", "query": "SELECT a FROM t"},
    {"kind": "frame", "plan": "AAAA"},
    {"kind": "mrql", "written": "count(t)", "definitions": "", "query": "SELECT count(*) FROM t"},
    {
        "kind": "mrql",
        "written": "repeat x = {1} step x",
        "definitions": "",
        "query": "SELECT c0 FROM `·v·1·result`",
        "loops": [["·v·1", "SELECT 1 AS c0", "SELECT c0, false FROM `·v·1`", 9, "error"]],
    },
    {"kind": "agca", "written": "q[a] = t(a)", "query": "SELECT a FROM t"},
    {
        "kind": "datalog",
        "program": "p(x) :- t(x).",
        "names": ["p"],
        "queries": ["SELECT a FROM t"],
        "output": 0,
        "limit": 9,
        "recursive": False,
    },
    {
        "kind": "fixpoint",
        "plan": "AAAA",
        "iterated": "·v",
        "limit": 9,
        "nested": [["·v.inner", "·v.inner·result", 5, ["·v"]]],
    },
    {
        "kind": "comprehension",
        "written": "for x in t yield x.a",
        "summands": [[1, "SELECT a AS value FROM t"], [-1, "SELECT 1 AS value"]],
    },
    {
        "kind": "model",
        "spec": {"label": "a", "features": ["b"], "kind": "linear", "penalty": 0.0},
        "sums": {"kind": "sql", "query": "SELECT a FROM t"},
    },
]
RECORD: dict[str, Any] = {
    "format": 2,
    "epoch": 3,
    "entries": [
        {
            "kind": "table",
            "name": "t",
            "schema": [["a", "int", True]],
            "node": "table-t",
            "key": [0],
            "incarnation": "1",
            "declared": [[0, '"varchar(3)"']],
            "created": 1,
            "part_of": None,
        },
        {
            "kind": "view",
            "name": "v",
            "schema": [["a", "int", True]],
            "node": "view-v",
            "sql": "SELECT a FROM t",
            "term": "source t (a: int)",
            "scalars": ["{}"],
            "plan": None,
            "spark": "4.3.0",
            "created": 2,
            "loop": {"names": ["v"], "queries": ["SELECT 1"], "output": 0, "limit": 9},
            "policy": "first_order",
            "model": {"label": "a", "features": ["b"], "kind": "linear", "penalty": 0.0},
            "factorisation": None,
            "part_of": None,
        },
        *(
            {
                "kind": "view",
                "name": f"v{i}",
                "schema": [["a", "int", True]],
                "node": "view-v",
                "definition": definition,
                "term": "source t (a: int)",
                "scalars": ["{}"],
                "spark": "4.3.0",
                "created": 2,
                "policy": "first_order",
                "factorisation": None,
                "part_of": None,
            }
            for i, definition in enumerate(DEFINITIONS)
        ),
    ],
    "dropped_entries": [],
    "traces": {
        key: {
            "layout": {"values": [{"kind": "weight", "name": "_weight"}], "payload": PAYLOAD},
            "runs": [[SEGMENT]],
            "merges": [],
        }
        for key in ("table-t", "view-v")
    },
    "dropped_traces": [],
    "history": {"table-t": [{"epoch": 2, "run": [SEGMENT]}]},
    "moved": {},
    "older": {
        "table-t": {
            "layout": {"values": [{"kind": "weight", "name": "_weight"}], "payload": PAYLOAD},
            "runs": [[SEGMENT]],
            "merges": [],
        }
    },
    "times": {"recent": [[2, 1_000], [3, 2_000]], "older": None},
    "horizon": 0,
    "retain": 1000,
}

anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["../x", "/etc/passwd", "weight", "ring", "table", "view", "udt"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)


def schema_text(*first: str) -> str:
    import base64

    schema = pa.schema([*((name, pa.int64()) for name in first), ("c0", pa.int32())])
    return base64.b64encode(schema.serialize().to_pybytes()).decode()


def good_record() -> dict[str, Any]:
    record: dict[str, Any] = json.loads(json.dumps(RECORD))
    for trace in record["traces"].values():
        trace["layout"]["payload"] = schema_text()
    for trace in record["older"].values():
        trace["layout"]["payload"] = schema_text("_hash")
    return record


def read(record: Any) -> State:
    """What the log does with a record."""
    body = json.dumps(record).encode()
    found = read_record("log/x.record", body, FORMAT)
    with sound("log/x.record"):
        state = _apply(State(epoch=-1), found)
        refuse_unsound(state)
    return state


def places(value: Any, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [place] if place else []
    if isinstance(value, dict | list):
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            found += places(each, (*place, key))
    return found


def test_a_good_record_is_read() -> None:
    views = [f"v{i}" for i in range(len(DEFINITIONS))]
    assert sorted(read(good_record()).entries) == ["t", "v", *views]


def test_every_kind_of_definition_is_among_them() -> None:
    assert {each["kind"] for each in DEFINITIONS} == {
        each.kind for each in get_args(ViewDefinition)
    }


def _segment(**other: Any) -> dict[str, Any]:
    return {**SEGMENT, **other}


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("older", {"view-x": {"runs": [], "merges": []}}, "not there"),
        ("older", {"table-t": {"runs": [0], "merges": []}}, "not there"),
        ("moved", {"table-t": [2]}, "not there"),
        ("times", {"recent": [[3, 5], [2, 6]], "older": None}, "not in order"),
        ("times", {"recent": [[2, 5], [3, 5]], "older": None}, "not in order"),
        ("times", {"recent": [[9, 5]], "older": None}, "was not committed"),
        ("retain", 0, "not between"),
        ("time", "now", "expected a whole number"),
    ],
)
def test_a_history_that_makes_no_sense(field: str, value: Any, said: str) -> None:
    with pytest.raises(CorruptionError) as caught:
        read({**good_record(), field: value})
    assert said in caught.value.detail


@pytest.mark.parametrize("other", [{"high": 4}, {"low": -1}, {"path": "data/../x"}])
def test_older_changes_have_committed_epochs(other: dict[str, Any]) -> None:
    record = good_record()
    record["older"]["table-t"]["runs"] = [[_segment(**other)]]
    with pytest.raises(CorruptionError):
        read(record)


@pytest.mark.parametrize("columns", [(), ("_other",), ("_hash", "_hash2")])
def test_older_changes_have_the_columns_of_the_contents(columns: tuple[str, ...]) -> None:
    record = good_record()
    record["older"]["table-t"]["layout"]["payload"] = schema_text(*columns)
    with pytest.raises(CorruptionError, match="damaged") as caught:
        read(record)
    assert "does not have the columns" in caught.value.detail


def test_a_place_in_a_trace_is_one_that_it_has() -> None:
    before = read(good_record())
    later = {**good_record(), "epoch": 4, "times": {"recent": [[4, 3_000]], "older": None}}
    later |= {"entries": [], "history": {}, "moved": {"table-t": [2]}}
    going_on = {"runs": [0], "merges": []}
    for place, sound_ in ((0, True), (1, False)):
        form = {**going_on, "runs": [place]}
        body = {**later, "traces": {"table-t": form}, "older": {"table-t": going_on}}
        with nullcontext() if sound_ else pytest.raises(CorruptionError):
            found = read_record("log/x.record", json.dumps(body).encode(), FORMAT)
            with sound("log/x.record"):
                after = _apply(before, found)
                refuse_unsound(after)
            assert after.traces == before.traces
            assert not after.history["table-t"].recent


@settings(max_examples=400)
@given(st.data())
def test_a_record_with_anything_anywhere(data: st.DataObject) -> None:
    record = good_record()
    place = data.draw(st.sampled_from(places(record)))
    held = record
    for key in place[:-1]:
        held = held[key]
    held[place[-1]] = data.draw(anything)
    try:
        read(record)
    except CorruptionError as error:
        assert "log/x.record" in error.message


@settings(max_examples=200)
@given(st.binary(max_size=200) | anything.map(lambda v: json.dumps(v).encode()))
def test_a_record_of_any_bytes(body: bytes) -> None:
    with pytest.raises(CorruptionError, match=r"log/x\.record"):
        read_record("log/x.record", body, FORMAT)


@pytest.mark.parametrize(
    "body", [b"[" * 10**6, b'{"format":' * 10**5, b'{"format":1' + b"0" * 9999]
)
def test_a_record_that_is_deep_or_long(body: bytes) -> None:
    with pytest.raises(CorruptionError):
        read_record("log/x.record", body, FORMAT)


def test_the_log_does_not_follow_a_record_of_another_epoch(tmp_path: Path) -> None:
    """It would never come to an end."""
    store = Store(str(tmp_path))
    log = CommitLog(store)
    log.create()
    body = json.dumps({**good_record(), "epoch": 0}).encode()
    record = xxhash.xxh3_64_hexdigest(body).encode() + b"\n" + body
    store.write_bytes("log/0000000000000001.record", record)
    with pytest.raises(CorruptionError, match="epoch 0"):
        log.load()


LINES = st.sampled_from(
    [
        *("distinct", "union", "negate", "source t (a: int)", "source t (a: int, a: int)", "join"),
        *(
            "map x = $0:int",
            "map x = @0",
            "map x = @7",
            "filter $9:boolean",
            "fix a give 5 within 1",
        ),
        *("triggered over 3", "pergroup by 0 first 1 of 4 body @0", "constant @0 (a: int)"),
        *("aggregate by k = $0:int compute s = sum($0:int):bigint", "semijoin any always"),
        *("flatmap keep 9 generate @0", "outerjoin left on $0:int = $0:int", "join find left @0"),
    ]
)


@settings(max_examples=400)
@given(
    st.text(max_size=60)
    | st.lists(st.tuples(st.integers(0, 4), LINES | st.text(max_size=20)), max_size=6).map(
        lambda lines: "\n".join("  " * depth + line for depth, line in lines)
    )
)
def test_term_texts(written: str) -> None:
    """Whatever a text is, it denotes a term or is refused by its parser, or by `sound` around."""
    with suppress(RekindleError), sound("log/x.record"):
        term_text.parse(written, [object()])
    term_text.names_read(written)


@settings(max_examples=300)
@given(
    anything | st.fixed_dictionaries({"form": st.sampled_from(list(persist._FORMS)), "x": anything})
)
def test_parts_of_terms(value: Any) -> None:
    def refuse(data: bytes) -> list[Any]:
        return []

    for act in (persist.refuse_python, lambda text: persist.load(text, refuse)):
        try:
            act(json.dumps(value))
        except (ShapeError, UntrustedError):
            continue


@settings(max_examples=300)
@given(st.binary(max_size=60) | anything.map(lambda v: plain.MARK + json.dumps(v).encode()))
def test_plain_values_of_any_bytes(data: bytes) -> None:
    with suppress(ValueError):
        plain.loads(data)


RING = categorical_ring(2)


@pytest.mark.parametrize(
    "value",
    [
        *(
            0,
            -7,
            2**200,
            1.5,
            float("inf"),
            "x",
            None,
            True,
            b"\0",
            (1, ("a",)),
            [1, [2]],
            {"a": 1},
        ),
        *(Fraction(3, 7), INTEGERS, CofactorRing(3, RATIONALS), RING, RING.one, RING.zero),
        RING.lift(0, category("colour", "red")),
    ],
)
def test_values_of_our_rings_are_plain(value: Any) -> None:
    written = plain.dumps(value)
    assert written is not None and plain.loads(written) == value


def test_a_value_of_our_ring_is_never_unpickled(tmp_path: Path) -> None:
    import pickle

    marker = tmp_path / "marker"
    group = plain.dumps(INTEGERS)
    assert group is not None and plain.dumps(Poison("x")) is None
    values = RingValues("v", group)
    poison = pickle.dumps(Poison(str(marker)))
    with pytest.raises(CorruptionError, match="none of its ring"):
        values.decoded((pa.array([poison], pa.binary()),))
    with pytest.raises(CorruptionError):
        values._sum([poison, poison])
    assert not marker.exists()
    assert values.decoded(values.encoded([5, 0, -(2**99)])) == [5, 0, -(2**99)]


@given(st.text(max_size=30) | st.sampled_from(["data/..", "data/a/../b", "data/a//b", "/data/a"]))
def test_names_of_files_lead_nowhere(name: str) -> None:
    if is_data_path(name):
        assert ".." not in name.split("/") and not name.startswith("/") and "\0" not in name
        refuse_links("/nowhere", name)


def test_links_are_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "mine").write_text("mine")
    root = tmp_path / "root"
    (root / "data").mkdir(parents=True)
    (root / "data" / "way").symlink_to(outside)
    store = Store(str(root))
    for act in (
        lambda: list(files_within(str(root), "data")),
        lambda: store.list("data"),
        lambda: store.read_bytes("data/way/mine"),
        lambda: store.delete(["data/way/mine"]),
        lambda: store.read_bytes("../outside/mine"),
    ):
        with pytest.raises(CorruptionError):
            act()
    assert (outside / "mine").read_text() == "mine"


@settings(max_examples=150)
@given(st.data())
def test_arrow_files_of_which_the_checksum_is_right(tmp_path_factory: Any, data: Any) -> None:
    """Whatever the bytes are, they are the rows that the log says or an error with the name."""
    directory = tmp_path_factory.getbasetemp() / "arrow"
    store = Store(str(directory))
    columns = {
        name: pa.array([1, 2, 3], pa.int64()) for name in ("_key", "_id0", "_id1", "_weight")
    }
    table = pa.table({**columns, "c0": ["a", None, "ccc"], "c1": [[1], [], [2, 3]]})
    segment = store.write("data/t/e.arrow", table)
    good = store.read_bytes(segment.path)
    bad = bytearray(good)
    for _ in range(data.draw(st.integers(1, 8))):
        bad[data.draw(st.integers(0, len(bad) - 1))] = data.draw(st.integers(0, 255))
    (directory / segment.path).write_bytes(bytes(bad))
    lying = Segment(
        segment.path, 3, 1, 3, len(bad), xxhash.xxh3_64_hexdigest(bytes(bad)), segment.growth
    )
    OPEN_SEGMENTS.clear()
    try:
        opened = store.open(lying)
        opened.refuse_misfit(lying, table.schema)
        assert opened.table.to_pylist() is not None
    except CorruptionError as error:
        assert segment.path in error.message
