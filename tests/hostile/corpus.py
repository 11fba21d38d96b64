"""Hostile warehouses: mutations of a real one, the same ones at every run.

Checksums and sizes are made right again wherever a mutation is to be met behind them.
"""

from __future__ import annotations

import base64
import json
import os
import pickle
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import xxhash

from tests.hostile.template import (
    Record,
    checkpoint_of,
    edited,
    entry_of,
    record_of,
    segments_of,
    write_body,
    write_record,
)

SEED = 20
PROPERTY = "rekindle.hostile"
"""A property of the JVM that payloads set."""


@dataclass(frozen=True, slots=True)
class Case:
    """A warehouse to be made: which views and tables it is about, and whether to write to it."""

    name: str
    mutate: Callable[[Path], None]
    about: tuple[str, ...] = ("t",)
    writes: bool = False


class Poison:
    """What makes a directory when it is unpickled."""

    def __init__(self, marker: str) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.marker,)


@dataclass(frozen=True, slots=True)
class Payloads:
    """Bytes that were made with the help of a JVM: Java's forms of what nobody should read."""

    java: dict[str, str]
    marker: str

    @property
    def pickled(self) -> bytes:
        return pickle.dumps(Poison(self.marker))


# ---- JSON --------------------------------------------------------------------------------------

_WRONG: tuple[Any, ...] = (
    *(None, -1, 2**70, "", "../../../etc/passwd", [], {}, True, 1.5, "\0", [[]], {"x": 1}),
    *("9" * 4000, [None] * 50),
)


def _places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a JSON value."""
    if place:
        yield place
    if isinstance(value, dict | list):
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _places(each, (*place, key))


def _replaced(place: tuple[Any, ...], wrong: Any) -> Callable[[Record], None]:
    def edit(record: Any) -> None:
        for key in place[:-1]:
            record = record[key]
        if wrong is _ABSENT:
            del record[place[-1]]
        else:
            record[place[-1]] = wrong

    return edit


_ABSENT = object()


def _owner(record: Record, place: tuple[Any, ...]) -> tuple[str, ...]:
    """The names that a place is about."""
    if place[0] == "entries" and len(place) > 1:
        entry = record["entries"][place[1]]
        return (str(entry["part_of"] or entry["name"]), "t")
    if place[0] in ("traces", "history", "older") and len(place) > 1:
        found = [e["part_of"] or e["name"] for e in record["entries"] if e["node"] == place[1]]
        return (*map(str, found), "t")
    return ("t",)


def json_cases(template: Path, count: int) -> Iterator[Case]:
    """Values of a record that are others than they should be, anywhere in it."""
    record, chance = record_of(template), random.Random(SEED)
    by_shape: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {}
    for place in _places(record):
        shape = tuple("#" if isinstance(p, int) or len(str(p)) > 15 else p for p in place)
        by_shape.setdefault(shape, []).append(place)
    shapes = sorted(by_shape, key=str)
    for number in range(count):
        place = chance.choice(by_shape[shapes[number % len(shapes)]])
        wrong = _ABSENT if chance.random() < 0.15 else chance.choice(_WRONG)
        shown = "absent" if wrong is _ABSENT else repr(wrong)[:20]
        name = f"json {'.'.join(map(str, place))[-60:]} = {shown}"
        yield Case(name, edited(_replaced(place, wrong)), _owner(record, place))


def text_cases() -> Iterator[Case]:
    """Records that are hardly JSON."""
    bodies: dict[str, bytes] = {
        "empty": b"",
        "deep": b"[" * 200_000,
        "deep objects": b'{"a":' * 100_000,
        "a number": b"7",
        "not text": b"\xff\xfe\x00",
        "many digits": b'{"format":1' + b"0" * 5000 + b"}",
        "a newer format": b'{"format":99}',
        "infinite": b'{"format":Infinity}',
    }
    for name, body in bodies.items():
        yield Case(f"text {name}", lambda root, body=body: write_body(root, body))  # type: ignore[misc]


# ---- definitions -------------------------------------------------------------------------------

HOSTILE_SQL = {
    "reflect": f"SELECT reflect('java.lang.System', 'setProperty', '{PROPERTY}', 'ran') AS name, "
    "1L AS total, 1L AS c FROM t",
    "java_method": "SELECT java_method('java.lang.System', 'setProperty', "
    f"'{PROPERTY}', 'ran') FROM t",
    "try_reflect": "SELECT try_reflect('java.lang.System', 'setProperty', "
    f"'{PROPERTY}', 'ran') FROM t",
    "in a subquery": "SELECT name, 1L, 1L FROM n WHERE EXISTS (SELECT "
    f"reflect('java.lang.System', 'setProperty', '{PROPERTY}', 'ran'))",
    "in a WITH": f"WITH q AS (SELECT reflect('java.lang.System', 'setProperty', '{PROPERTY}', 'r') "
    "AS z) SELECT z, 1L, 1L FROM q",
    "script": "SELECT TRANSFORM(k) USING 'touch {marker}' AS (a, b, c) FROM t",
    "file": "SELECT * FROM text.`/etc/passwd`",
    "parquet": "SELECT * FROM parquet.`{outside}/x`",
    "function of the session": "SELECT victim(k), 1L, 1L FROM t",
    "table function": "SELECT * FROM python_worker_logs()",
    "insert": "INSERT INTO t VALUES (1, 1, 'x')",
    "set": "SET spark.sql.shuffle.partitions = 7",
    "drop": "DROP TABLE IF EXISTS t",
    "add jar": "ADD JAR '{outside}/evil.jar'",
    "create function": "CREATE TEMPORARY FUNCTION evil AS 'java.lang.Runtime'",
    "directory": "INSERT OVERWRITE DIRECTORY '{outside}/out' USING parquet SELECT * FROM t",
    "script block": "BEGIN SELECT 1; END",
    "other catalog": "SELECT * FROM spark_catalog.default.secret",
    "not SQL": "))))",
    "deep": "SELECT " + "(" * 3000 + "1" + ")" * 3000,
    "protobuf": "SELECT from_protobuf(name, 'A', '/etc/passwd') FROM n",
    "session variable": "SELECT * FROM IDENTIFIER('parquet.`/etc/passwd`')",
}


def _change(held: Record, **values: Any) -> None:
    """Put other values where there are some: what nobody reads would harm nobody."""
    for name, value in values.items():
        assert name in held, name
        held[name] = value


def sql_cases(payloads: Payloads, outside: str) -> Iterator[Case]:
    """SQL texts that are more than queries, behind expressions that Java cannot read."""
    for name, written in HOSTILE_SQL.items():
        sql = written.replace("{marker}", payloads.marker).replace("{outside}", outside)

        def other_version(record: Record, sql: str = sql) -> None:
            same_version(record, sql)
            entry_of(record, "joined").update(spark="4.0.0")

        def same_version(record: Record, sql: str = sql) -> None:
            _change(entry_of(record, "joined")["definition"], query=sql)

        def loop(record: Record, sql: str = sql) -> None:
            _change(entry_of(record, "reach")["definition"], queries=[sql])

        def model(record: Record, sql: str = sql) -> None:
            entry = entry_of(record, "line")
            entry.update(spark="4.0.0")
            _change(entry["definition"]["sums"], query=sql)
            _change(entry["definition"]["spec"], query=sql)

        yield Case(f"sql checked: {name}", edited(same_version), ("joined",))
        yield Case(f"sql translated: {name}", edited(other_version), ("joined",))
        if name in ("reflect", "script", "file", "insert", "function of the session"):
            yield Case(f"sql of a loop: {name}", edited(loop), ("reach",))
            yield Case(f"sql of a model: {name}", edited(model), ("line",))


def object_cases(payloads: Payloads) -> Iterator[Case]:
    """Java objects in the place of expressions and plans."""
    for name, java in payloads.java.items():

        def scalar(record: Record, java: str = java) -> None:
            for view in ("ranked", "frame"):
                scalars = entry_of(record, view)["scalars"]
                for i, written in enumerate(scalars):
                    part = json.loads(written)
                    if "java" in part:
                        scalars[i] = json.dumps({**part, "java": java})

        def plan(record: Record, java: str = java) -> None:
            _change(entry_of(record, "frame")["definition"], plan=java)

        yield Case(f"java scalar: {name}", edited(scalar), ("ranked", "frame"))
        yield Case(f"java plan: {name}", edited(plan), ("frame",))


def definition_cases(payloads: Payloads) -> Iterator[Case]:
    """Terms, parts of terms and layouts that say something else."""

    def term(text: str) -> Callable[[Record], None]:
        return lambda record: entry_of(record, "joined").update(term=text)

    terms = {
        "empty": "",
        "garbage": "frobnicate x",
        "deep": "\n".join("  " * i + "negate" for i in range(3000)),
        "deep scalar": "filter " + "f(" * 5000 + "1:int" + "):int" * 5000,
        "far reference": "filter @999\n  source t (a: int)",
        "unknown source": "source nowhere (a: int)",
        "itself": "source joined (name: string, total: bigint, c: bigint)",
        "other columns": "source n (k: bigint)",
        "surrogates": "source `\ud800` (a: int)",
        "fix of nothing": "fix a give 7 within 1\n  source t (a: int)",
        "huge number": "filter " + "9" * 5000 + ":int\n  source t (a: int)",
        "escape": "filter '\\u{ffffffff}':string\n  source t (a: int)",
    }
    for name, text in terms.items():
        yield Case(f"term {name}", edited(term(text)), ("joined",))

    def parts(change: Callable[[Record], None]) -> Callable[[Record], None]:
        def edit(record: Record) -> None:
            scalars = entry_of(record, "ranked")["scalars"]
            for i, written in enumerate(scalars):
                part = json.loads(written)
                change(part)
                scalars[i] = json.dumps(part)

        return edit

    changes: dict[str, Callable[[Record], None]] = {
        "no form": lambda part: part.pop("form", None),
        "unknown form": lambda part: part.update(form="__import__"),
        "python form": lambda part: part.update(form="evaluation"),
        "ring form": lambda part: part.update(form="ring sum"),
        "lengths": lambda part: part.update(lengths=[10**9]),
        "negative lengths": lambda part: part.update(lengths=[-1]),
        "not base 64": lambda part: part.update(java="%%%"),
        "empty java": lambda part: part.update(java=""),
        "truncated java": lambda part: part.update(java=part.get("java", "")[:200]),
        "plain types": lambda part: part.update(plain={"text": 7}),
        "plain names": lambda part: part.get("plain", {}).update(__class__="x"),
        "references": lambda part: part.get("plain", {}).update(references=[99999]),
        "relation": lambda part: (part.clear(), part.update(relation="QUJD")),  # type: ignore[func-returns-value, dict-item]
        "polynomials": lambda part: (part.clear(), part.update(polynomials=[[[0, -5]]])),  # type: ignore[func-returns-value, dict-item]
    }
    for name, change in changes.items():
        yield Case(f"part {name}", edited(parts(change)), ("ranked",))

    poison = base64.b64encode(payloads.pickled).decode()

    def rings(record: Record) -> None:
        for trace in record["traces"].values():
            name = trace["layout"]["values"][0]["name"]
            trace["layout"]["values"] = [{"kind": "ring", "name": name, "group": poison}]

    def one_ring(view: str) -> Callable[[Record], None]:
        def edit(record: Record) -> None:
            layout = record["traces"][entry_of(record, view)["node"]]["layout"]
            layout["values"] = [{"kind": "ring", "name": "_weight", "group": poison}]

        return edit

    def groups(record: Record) -> None:
        for key, trace in record["traces"].items():
            if key.startswith("group"):
                name = trace["layout"]["values"][0]["name"]
                trace["layout"]["values"] = [{"kind": "ring", "name": name, "group": poison}]

    def poisoned(written: str) -> str:
        part = json.loads(written)
        if part.get("form") == "ring sum":
            group = part["plain"]["sum"].split(".")[0]
            part["plain"]["sum"] = ".".join((group, poison, poison))
        return json.dumps(part)

    def stored_sum(record: Record) -> None:
        entry = entry_of(record, "ring")
        entry["scalars"] = [poisoned(written) for written in entry["scalars"]]
        for node in record["nodes"].values():  # A plan holds the sum as well.
            node[3] = [poisoned(written) for written in node[3]]

    yield Case("rings everywhere", edited(rings), ("t", "joined"), writes=True)
    yield Case("rings in a view", edited(one_ring("joined")), ("joined",))
    yield Case("rings in a table", edited(one_ring("t")), ("t",), writes=True)
    yield Case("rings in groups", edited(groups), ("joined",), writes=True)
    yield Case("a poisoned sum", edited(stored_sum), ("ring",), writes=True)
    udt = json.dumps({"type": "udt", "pyClass": "evil_module.E", "serializedClass": poison})
    nested = json.dumps({"type": "array", "containsNull": True, "elementType": json.loads(udt)})
    for name, written in (("udt", udt), ("udt in an array", nested), ("no JSON", "{"), ("7", "7")):

        def declared(record: Record, written: str = written) -> None:
            entry_of(record, "t")["declared"] = [[2, written]]

        yield Case(f"declared {name}", edited(declared), ("t",), writes=True)
    for name in ("..", "a/b", "\0", "", "t" * 100_000):

        def renamed(record: Record, name: str = name) -> None:
            entry_of(record, "t")["name"] = name

        yield Case(f"named {name[:10]!r}", edited(renamed), ("n",), writes=True)
    for type_ in ("udt", "struct<", "int; DROP", "array<" * 500, "a int, b int", "decimal(99,1)"):

        def typed(record: Record, type_: str = type_) -> None:
            entry_of(record, "t")["schema"][0][1] = type_

        yield Case(f"typed {type_[:12]}", edited(typed), ("t",))


# ---- files -------------------------------------------------------------------------------------


def _rewritten(view: str, change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    """A data file with other bytes, of which the log has the size and the checksum."""

    def mutate(root: Path) -> None:
        record = record_of(root)
        for segment in segments_of(record, view):
            data = change((root / segment["path"]).read_bytes())
            (root / segment["path"]).write_bytes(data)
            segment.update(size=len(data), checksum=xxhash.xxh3_64_hexdigest(data))
        write_record(root, record)

    return mutate


def _flipped(seed: int) -> Callable[[bytes], bytes]:
    def change(data: bytes) -> bytes:
        chance = random.Random(seed)
        found = bytearray(data)
        for _ in range(chance.choice((1, 3, 20))):
            found[chance.randrange(len(found))] ^= 1 << chance.randrange(8)
        return bytes(found)

    return change


def _as_table(change: Callable[[pa.Table], pa.Table], **options: Any) -> Callable[[bytes], bytes]:
    def mutate(data: bytes) -> bytes:
        table = change(pa.ipc.open_file(data).read_all())
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as out:
            out.write_table(table)
        return bytes(sink.getvalue().to_pybytes())

    return mutate


def _lying_texts(data: bytes) -> bytes:
    """Texts that begin and end far outside of their buffer; Arrow would not write them."""
    true = b"".join(i.to_bytes(4, "little") for i in (0, 3, 6))
    assert true in data
    return data.replace(true, b"".join(i.to_bytes(4, "little") for i in (0, 2**30, 6)))


def file_cases() -> Iterator[Case]:
    """Arrow files that are others than they should be."""
    for seed in range(30):
        view = ("t", "n", "joined")[seed % 3]
        yield Case(f"flipped {seed} of {view}", _rewritten(view, _flipped(seed)), (view,))
    tables: dict[str, Callable[[bytes], bytes]] = {
        "empty": lambda data: b"",
        "short": lambda data: data[: len(data) // 2],
        "no Arrow": lambda data: bytes(len(data)),
        "texts that lie": _lying_texts,
        "no key": _as_table(lambda t: t.drop_columns(["_key"])),
        "no weight": _as_table(lambda t: t.drop_columns(["_weight"])),
        "no columns": _as_table(lambda t: t.select(["_key", "_id0", "_id1", "_weight"])),
        "other types": _as_table(
            lambda t: t.set_column(0, "_key", t.column(0).cast("double", safe=False))
        ),
        "text for a number": _as_table(
            lambda t: t.set_column(4, "c0", t.column("c0").cast("string"))
        ),
        "null keys": _as_table(lambda t: t.set_column(0, "_key", pa.nulls(len(t), pa.int64()))),
        "no rows": _as_table(lambda t: t.slice(0, 0)),
        "more rows": _as_table(lambda t: pa.concat_tables([t, t])),
        "compressed": _as_table(lambda t: t, compression="zstd"),
        "all ones": _as_table(
            lambda t: t.drop_columns(["_weight"]).replace_schema_metadata({"all one": "99"})
        ),
        "packed": _as_table(
            lambda t: t.cast(
                pa.schema(
                    [
                        f.with_metadata({"meant": "Tensor"}) if f.name == "c0" else f
                        for f in t.schema
                    ],
                    {"packed": ""},
                )
            )
        ),
        "an extension": _as_table(
            lambda t: t.cast(
                pa.schema(
                    [
                        f.with_metadata({"ARROW:extension:name": "arrow.py_extension_type"})
                        for f in t.schema
                    ]
                )
            )
        ),
        "negative weights": _as_table(
            lambda t: t.set_column(3, "_weight", pa.array([-5] * len(t), pa.int64()))
        ),
    }
    for name, change in tables.items():
        yield Case(f"file {name}", _rewritten("n", change), ("n", "joined"))
    for field, wrong in (
        *(("rows", 0), ("rows", 10**12), ("low", 0), ("high", -1), ("size", 1), ("checksum", "")),
        *(("path", "data/../log/x"), ("path", "/etc/passwd"), ("path", "../x"), ("path", "data")),
        *(("path", "data//x"), ("path", "log/0000000000000000.checkpoint"), ("growth", 10**15)),
    ):

        def segment(record: Record, field: str = field, wrong: Any = wrong) -> None:
            for each in segments_of(record, "n"):
                each[field] = wrong

        yield Case(f"segment {field} = {wrong!r}", edited(segment), ("n", "joined"))


def link_cases(outside: str) -> Iterator[Case]:
    """Links that lead out, and files that are there for others to remove."""

    def linked(name: str, target: str) -> Callable[[Path], None]:
        def mutate(root: Path) -> None:
            place = root / name
            if place.is_dir() and not place.is_symlink():
                place.rename(place.with_name("moved"))
            elif place.exists():
                place.unlink()
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(target)

        return mutate

    def linked_segment(root: Path) -> None:
        path = root / segments_of(record_of(root), "n")[0]["path"]
        held = Path(outside) / "held.arrow"
        if not held.exists():
            os.link(path, held)
        path.unlink()
        path.symlink_to(held)

    def linked_checkpoint(root: Path) -> None:
        path = checkpoint_of(root)
        held = Path(outside) / path.name
        held.write_bytes(path.read_bytes())
        path.unlink()
        path.symlink_to(held)

    yield Case("link in data", linked("data/evil", outside), writes=True)
    yield Case("link for data", linked("data", outside), writes=True)
    yield Case("link for the log", linked("log", outside), writes=True)
    yield Case("link for the lock", linked("writer.lock", f"{outside}/precious"), writes=True)
    yield Case("link to a file", linked("data/evil.arrow", f"{outside}/precious"), writes=True)
    yield Case("link in the log", linked("log/evil.tmp", f"{outside}/precious"), writes=True)
    yield Case("link of a segment", linked_segment, ("n",))
    yield Case("link of the checkpoint", linked_checkpoint, ("n",))
    yield Case("link of a directory in data", linked("data/a/b", outside), writes=True)


def lease_cases(outside: str) -> Iterator[Case]:
    """Leases that lie: about numbers, times and heads, in other types, or that are links."""

    def saying(wrong: Mapping[str, Any], number: int = 7) -> Callable[[Path], None]:
        def mutate(root: Path) -> None:
            place = root / "lease" / f"{number:016}"
            place.parent.mkdir(exist_ok=True)
            known = {
                "number": number, "token": "t", "host": "elsewhere", "pid": 1, "since": 0.0,
                "renewed": 0.0, "term": 30.0, "renewals": 0, "head": -1, "ended": True,
                "pending": False,
            }  # fmt: skip
            body = json.dumps({**known, **wrong}).encode()
            sum_ = xxhash.xxh3_64_hexdigest(body).encode()
            place.write_bytes((sum_ + b"\n" + body).ljust(512, b"\n"))

        return mutate

    def linked(root: Path) -> None:
        (root / "lease").mkdir(exist_ok=True)
        (root / "lease" / f"{9:016}").symlink_to(f"{outside}/precious")

    yield Case("lease with a head to come", saying({"head": 10**9}))
    yield Case("lease with a head of text", saying({"head": "7"}), writes=True)
    yield Case("lease with a host of lists", saying({"host": [[]]}), writes=True)
    yield Case("lease of no time", saying({"since": 1e300, "renewed": -1e300}), writes=True)
    yield Case("lease of infinity", saying({"renewed": float("inf")}), writes=True)
    yield Case("lease of NaN", saying({"since": float("nan")}), writes=True)
    yield Case("lease of a huge number", saying({}, 10**16 - 1), writes=True)
    yield Case("lease that is a link", linked, writes=True)


def cases(template: Path, payloads: Payloads, outside: str, spread: int) -> list[Case]:
    """The corpus; `spread` is how many values of the record are changed somewhere."""
    return [
        *text_cases(),
        *json_cases(template, spread),
        *sql_cases(payloads, outside),
        *object_cases(payloads),
        *definition_cases(payloads),
        *file_cases(),
        *link_cases(outside),
        *lease_cases(outside),
    ]
