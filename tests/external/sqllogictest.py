"""SQLite's SQL logic test: every query a view, over tables that lose rows and get them back.

    python -m tests.external.sqllogictest [--limit 3000] [--seed 7] [--minutes M] [--files a,b]

A file is replayed in SQLite, which Python carries: it understands the dialect of the statements
that fill the tables, and it gives the rows of a query where the file records only a hash of them.
After every change a view must have the rows that SQLite computes from the same tables, where it
gives the recorded ones for the tables of the file, or else those that Spark computes. `--limit 0`
is all queries.

Spark runs without ANSI mode, as SQLite does not raise on an overflow or a division by zero.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import re
import sqlite3
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path

from pyspark.sql import SparkSession

import rekindle
from tests.external.batches import Batches, Case, Expected, Stage, condition, kept_rows, stages_of
from tests.external.compare import FEW_TASKS, Difference, Row, reads
from tests.external.grouped import share, write_grouped
from tests.external.material import absent, material
from tests.external.outcomes import Outcome, Results

BATCH = 100
WIDEST = 12
"""Joins of more tables than this are left out: Spark alone takes minutes for each."""
TYPES = {"INTEGER": "BIGINT", "INT": "BIGINT", "FLOAT": "DOUBLE", "REAL": "DOUBLE"}


@dataclass(frozen=True, slots=True)
class Record:
    """A statement, or a query with the types of its columns and the values recorded for it."""

    sql: str
    types: str = ""
    order: str = ""
    recorded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Segment:
    """Queries of a file between two changes of its tables; its views come with their queries."""

    tables: dict[str, str]
    contents: dict[str, list[Row]]
    views: dict[str, str]
    queries: list[tuple[str, Record, list[Row]]]
    definitions: tuple[str, ...] = ()
    """SQLite's own statements for the tables and views."""


def read_records(place: Path) -> Iterator[Record]:
    """The records of a file that are for any database."""
    for block in re.split(r"\n\s*\n", place.read_text(encoding="utf-8")):
        lines = [line for line in block.splitlines() if not line.startswith("#")]
        if any(line.startswith("onlyif") for line in lines):
            continue
        lines = [line for line in lines if not line.startswith(("skipif", "hash-threshold"))]
        if not lines or lines[0].startswith("halt"):
            continue
        head, *body = lines
        if head.startswith("statement ok"):
            yield Record("\n".join(body))
        elif head.startswith("query"):
            words = head.split()
            cut = body.index("----") if "----" in body else len(body)
            order = words[2] if len(words) > 2 else "nosort"
            yield Record("\n".join(body[:cut]), words[1], order, tuple(body[cut + 1 :]))


def read_segments(place: Path, name: str) -> Iterator[Segment]:
    """The file as SQLite runs it: tables with their rows, and queries with SQLite's rows."""
    sqlite = sqlite3.connect(":memory:")
    segment: Segment | None = None
    for number, record in enumerate(read_records(place)):
        try:
            rows = [tuple(row) for row in sqlite.execute(record.sql)]
        except sqlite3.Error:
            continue
        if not record.types:
            if segment is not None:
                yield segment
                segment = None
            continue
        if _width(record.sql) > WIDEST:
            continue
        if segment is None:
            segment = _segment(sqlite)
        segment.queries.append((f"{name}:{number}", record, rows))
    if segment is not None:
        yield segment


def _width(query: str) -> int:
    found = re.search(r"\bFROM\s+([\w\s,]+?)(?=\bWHERE\b|$)", query)
    return 1 if found is None else found[1].count(",") + 1


def _segment(sqlite: sqlite3.Connection) -> Segment:
    names = [n for (n,) in sqlite.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    tables, contents = {}, {}
    for name in names:
        columns = list(sqlite.execute(f"PRAGMA table_info({name})"))
        kinds = [TYPES.get(column[2].split("(")[0].upper(), "STRING") for column in columns]
        keys = [c[1] for c, kind in zip(columns, kinds, strict=True) if c[5] and kind == "BIGINT"]
        parts = [f"{c[1]} {kind}" for c, kind in zip(columns, kinds, strict=True)]
        parts += [f"PRIMARY KEY ({', '.join(keys)})"] if keys else []
        tables[name] = f"({', '.join(parts)})"
        rows = [tuple(row) for row in sqlite.execute(f"SELECT * FROM {name}")]
        contents[name] = [tuple(map(_stored, row, kinds)) for row in rows]
    created = sqlite.execute("SELECT name, sql FROM sqlite_master WHERE type = 'view'")
    views = {name: re.split(r"\bAS\b", sql, maxsplit=1, flags=re.I)[1] for name, sql in created}
    own = sqlite.execute("SELECT sql FROM sqlite_master WHERE type IN ('table', 'view')")
    return Segment(tables, contents, views, [], tuple(sql for (sql,) in own))


def _stored(value: object, kind: str) -> object:
    if value is None:
        return None
    return {"BIGINT": int, "DOUBLE": float, "STRING": str}[kind](value)


def translated(query: str, tables: dict[str, str]) -> str:
    """SQLite's text for Spark: 64-bit integers, and their division where there are no others."""
    spark = re.sub(r"\bAS\s+INTEGER\b", "AS BIGINT", query)
    spark = re.sub(r"\bAS\s+REAL\b", "AS DOUBLE", spark)
    if not any("DOUBLE" in ddl for ddl in tables.values()):
        spark = spark.replace("/", " DIV ")
    return spark


def expectation(record: Record, sqlite_rows: list[Row]) -> Expected | None:
    """A check against the recorded values; None where SQLite here has others."""
    printed = [tuple(map(printed_value, row, record.types)) for row in sqlite_rows]
    return _requirement(record, printed) if _is_recorded(record, printed) else None


def _requirement(record: Record, printed: Sequence[tuple[str, ...]]) -> Expected:
    def require(rows: list[Row]) -> None:
        ours = Counter(tuple(map(printed_value, row, record.types)) for row in rows)
        if ours != Counter(printed):
            surplus, missing = ours - Counter(printed), Counter(printed) - ours
            raise Difference(
                f"recorded result: too many {list(surplus)[:3]}, missing {list(missing)[:3]}"
            )

    return require


def _is_recorded(record: Record, printed: Sequence[tuple[str, ...]]) -> bool:
    rows = sorted(printed) if record.order == "rowsort" else list(printed)
    values = [value for row in rows for value in row]
    if record.order == "valuesort":
        values.sort()
    if len(record.recorded) == 1 and "hashing to" in record.recorded[0]:
        digest = hashlib.md5("".join(f"{value}\n" for value in values).encode()).hexdigest()
        return record.recorded[0] == f"{len(values)} values hashing to {digest}"
    return values == list(record.recorded)


def printed_value(value: object, kind: str) -> str:
    """As the suite prints it.

    >>> [printed_value(v, k) for v, k in [(1.5, "R"), (None, "I"), ("", "T"), (7.0, "I")]]
    ['1.500', 'NULL', '(empty)', '7']
    """
    if value is None:
        return "NULL"
    if kind == "R" and isinstance(value, int | float | Decimal):
        return f"{value:.3f}"
    if kind == "I" and isinstance(value, int | float | Decimal):
        return str(int(value))
    return "".join(c if " " <= c <= "~" else "@" for c in str(value)) or "(empty)"


def every_segment(root: Path, files: Sequence[str]) -> list[list[Segment]]:
    """The segments of each file that has queries."""
    places = sorted(p for p in root.rglob("*.test"))
    places = [p for p in places if not files or any(f in str(p.relative_to(root)) for f in files)]
    read = [list(read_segments(p, str(p.relative_to(root).with_suffix("")))) for p in places]
    return [segments for segments in read if segments]


def chosen_segments(
    every: Sequence[Sequence[Segment]], limit: int, chance: random.Random
) -> Iterator[Segment]:
    """About `limit` queries, as many from each file, of as few of its segments as have them."""
    counts = [sum(len(segment.queries) for segment in segments) for segments in every]
    for segments, left in zip(every, shares(counts, limit or sum(counts)), strict=True):
        for segment in chance.sample(segments, len(segments)):
            if left <= 0:
                break
            kept = chance.sample(segment.queries, min(left, len(segment.queries)))
            left -= len(kept)
            yield _narrowed(segment, kept)


def shares(counts: Sequence[int], limit: int) -> list[int]:
    """As many of each, where one that has fewer leaves the rest to the others.

    >>> shares([2, 100, 7], 17)
    [2, 8, 7]
    """
    given = [0] * len(counts)
    left = limit
    for rank, i in enumerate(sorted(range(len(counts)), key=counts.__getitem__)):
        given[i] = min(counts[i], max(1, left // (len(counts) - rank)))
        left -= given[i]
    return given


def _narrowed(segment: Segment, queries: list[tuple[str, Record, list[Row]]]) -> Segment:
    """The segment with some of its queries, and the tables that these may read."""
    views = [view for _, record, _ in queries for view in stack(segment, record.sql)]
    texts = [record.sql for _, record, _ in queries] + [segment.views[view] for view in views]
    tables = {
        name: ddl
        for name, ddl in segment.tables.items()
        if any(reads(text, name) for text in texts)
    }
    contents = {name: segment.contents[name] for name in tables}
    return replace(segment, tables=tables, contents=contents, queries=queries)


def stack(segment: Segment, query: str) -> list[str]:
    """The views below a query, those that others read first."""
    found: list[str] = []
    for view, below in segment.views.items():
        if reads(query, view):
            found += [name for name in (*stack(segment, below), view) if name not in found]
    return found


def case_of(segment: Segment, name: str, record: Record, rows: list[Row]) -> Case:
    """A query as a case; the views that it reads become views of its own."""
    below = stack(segment, record.sql)
    suffix = re.sub(r"\W", "_", name)

    def own(text: str) -> str:
        for view in below:
            text = re.sub(rf"\b{view}\b", f"{view}_{suffix}", text)
        return translated(text, segment.tables)

    top = own(record.sql)
    if not below:
        return Case(name, top, expectation(record, rows))
    parents = tuple((own(view), own(segment.views[view])) for view in below)
    ctes = ", ".join(f"{view} AS ({query})" for view, query in parents)
    query = f"WITH {ctes} SELECT * FROM ({top})"
    return Case(name, query, expectation(record, rows), parents, top)


def stages(segment: Segment, cases: Sequence[Case], chance: random.Random) -> list[Stage]:
    """States of the tables, with SQLite's result at each for the cases that it does as recorded."""
    known = {case.name for case in cases if case.expected is not None}
    found = []
    for stage in stages_of(segment.contents, chance):
        results: dict[str, Expected] = {}
        if not stage.published:
            sqlite = _filled(segment, stage)
            for name, record, _ in segment.queries:
                if name in known:
                    rows = sqlite.execute(record.sql)
                    printed = [tuple(map(printed_value, row, record.types)) for row in rows]
                    results[name] = _requirement(record, printed)
        found.append(replace(stage, published=True, suffices=True, results=results))
    return found


def _filled(segment: Segment, stage: Stage) -> sqlite3.Connection:
    """SQLite with the tables at a stage."""
    sqlite = sqlite3.connect(":memory:")
    for sql in segment.definitions:
        sqlite.execute(sql)
    for name, rows in stage.contents.items():
        if rows:
            marks = ", ".join("?" * len(rows[0]))
            sqlite.executemany(f"INSERT INTO {name} VALUES ({marks})", rows)
    return sqlite


def replay(
    spark: SparkSession,
    scratch: Path,
    segments: Iterator[Segment],
    seed: int,
    say: Callable[[str], None] = print,
    until: float | None = None,
) -> Batches:
    """Each segment's queries as views, in databases under `scratch`."""
    chance = random.Random(seed)
    results = Results("sqllogictest", "Queries of SQLite's SQL logic test as views.")
    with rekindle.connect(str(scratch / "database"), spark, retain=2) as db:
        batches = Batches(db, results, say, kept_rows)
        tables: dict[str, str] = {}
        for segment in segments:
            if until is not None and time.monotonic() > until:
                break
            for name in [n for n in tables if tables[n] != segment.tables.get(n)]:
                db.drop_table(name)
                batches.forget(name)
                del tables[name]
            for name, ddl in segment.tables.items():
                if name not in tables:
                    db.sql(f"CREATE TABLE {name} {ddl}")
                    tables[name] = ddl
            for start in range(0, len(segment.queries), BATCH):
                some = replace(segment, queries=segment.queries[start : start + BATCH])
                part = [case_of(some, *query) for query in some.queries]
                try:
                    batches.run(part, stages(some, part, chance))
                except Exception as error:
                    for case in part:
                        results.add(case.name, Outcome.FAILED, f"the batch: {condition(error)}")
                say(f"{some.queries[-1][0]}: {results.summary}")
    return batches


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.external.sqllogictest")
    parser.add_argument("--limit", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--minutes", type=float, help="begin nothing new after so many")
    parser.add_argument("--files", default="")
    asked = parser.parse_args()
    until = None if asked.minutes is None else time.monotonic() + 60 * asked.minutes
    place = material("sqllogictest")
    if place is None:
        raise SystemExit(absent("sqllogictest"))
    from rekindle.spark.session import local_session

    files = [part for part in asked.files.split(",") if part]
    chance = random.Random(asked.seed)
    every = every_segment(place / "full", files)
    there_are = sum(len(segment.queries) for segments in every for segment in segments)
    segments = chosen_segments(every, asked.limit, chance)
    settings = {"spark.sql.ansi.enabled": "false", "spark.ui.enabled": "false"}
    session = local_session(**settings, **FEW_TASKS)
    with tempfile.TemporaryDirectory(prefix="rekindle-slt-") as scratch:
        batches = replay(session, Path(scratch), segments, asked.seed, until=until)
    print(batches.results.summary)
    if not files:
        batches.results.notes.append(
            f"{share(len(batches.results.cases), there_are, 'queries')}, seed {asked.seed}."
        )
        batches.results.notes.append(
            f"Spark itself has another result than the recorded one in {len(batches.disagreeing)}."
        )
        print(write_grouped(batches.results, batches.queries, batches.recomputed))
    if batches.results.of(Outcome.FAILED):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
