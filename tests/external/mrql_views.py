"""The queries of Apache MRQL's material as views over tables that hold their sources.

Each expression of a query file that reads a source becomes a view; its sources become tables. The
view is compared with the meaning of the query when it is made, after rows of every table are
deleted, and after they are inserted again. How it is kept is one of

    incremental   every part follows changes (`incremental = 'required'`)
    in part       a part is recomputed at each change
    driver        there is no query of Spark for it; the reason is given

`python -m tests.external.mrql_views [SUITE ...]` prints them and writes docs/external/mrql.md.
"""

from __future__ import annotations

import json
import math
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import rekindle
from rekindle.errors import RekindleError, UnsupportedError
from rekindle.frontends.mrql.reading import Query, compiled
from rekindle.frontends.mrql.rows import bag_of
from rekindle.mrql_language import syntax as s
from rekindle.mrql_language import terms as t
from rekindle.mrql_language.parse import parse_statement, pieces
from rekindle.mrql_language.session import Session
from rekindle.mrql_language.unnest import unnest
from rekindle.mrql_language.values import (
    Bag,
    Data,
    Float,
    List,
    Long,
    Record,
    Short,
    Value,
)
from rekindle.runtime.database import Database
from tests.external.material import material
from tests.external.mrql import _batch, session

ARGUMENTS = {
    "batch-kmeans": ("points_1.csv",),
    "batch-streaming": ("points_1.csv",),
    "batch-pagerank": ("graph_1.csv", "graph_1.csv"),
}
"""What the queries that read the first batch as a file are given."""
SUITES = ("tests", "examples", "extra", "incremental")
PAGE = Path(__file__).resolve().parents[2] / "docs/external/mrql.md"


@dataclass(frozen=True, slots=True)
class Seen:
    """How one statement went."""

    suite: str
    file: str
    index: int
    text: str
    kept: str
    verdict: str
    detail: str = ""
    path: str = ""
    """How each part of it is kept."""


def number(value: float) -> object:
    return None if math.isinf(value) or math.isnan(value) else float(value)


def rough(value: Any) -> str:
    """What values are sorted by that differ in the last digits."""
    match value:
        case float():
            return f"{value:.6g}"
        case list() | tuple():
            return str([rough(each) for each in value])
        case dict():
            return str([rough(each) for each in value.values()])
        case _:
            return repr(value)


def close(left: Any, right: Any) -> bool:
    match left, right:
        case float(), float():
            return math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-9)
        case (list(), list()) | (tuple(), tuple()):
            return len(left) == len(right) and all(map(close, left, right))
        case dict(), dict():
            return left.keys() == right.keys() and all(close(left[k], right[k]) for k in left)
        case _:
            return bool(left == right)


def comparable(value: Value) -> Any:
    """Bags, and lists since a view has no order, as sorted lists; numbers to nine digits."""
    match value:
        case Bag() | List():
            return sorted(map(comparable, value), key=rough)
        case Record():
            return {name: comparable(item) for name, item in value.fields}
        case ():
            return None
        case tuple():
            return tuple(map(comparable, value))
        case bool() | str():
            return value
        case int() | float():
            return number(value)
        case _:
            raise UnsupportedError(f"a {type(value).__name__} in a row")


def column_type(value: Value) -> str:
    """The type of a column that holds such values."""
    match value:
        case bool():
            return "boolean"
        case Long():
            return "bigint"
        case Short():
            return "smallint"
        case int():
            return "int"
        case Float():
            return "float"
        case float():
            return "double"
        case str():
            return "string"
        case tuple():
            return f"struct<{', '.join(f'_{i}: {column_type(v)}' for i, v in enumerate(value, 1))}>"
        case Record():
            return f"struct<{', '.join(f'`{n}`: {column_type(v)}' for n, v in value.fields)}>"
        case Bag() | List():
            return f"array<{column_type(value.elements[0])}>" if len(value) else "array<int>"
        case Data():
            raise UnsupportedError("its source holds documents, XML or JSON")
        case _:
            raise UnsupportedError(f"its source holds {type(value).__name__}")


def plain(value: Value) -> Any:
    match value:
        case Bag() | List():
            return [plain(each) for each in value]
        case Record():
            return tuple(plain(item) for _, item in value.fields)
        case tuple():
            return tuple(map(plain, value))
        case bool() | str():
            return value
        case int():
            return int(value)
        case _:
            return float(value)


def columns(row: Value) -> tuple[list[str], list[Value]]:
    """The names and values of a row of a table that holds such elements."""
    match row:
        case Record():
            return [name for name, _ in row.fields], [item for _, item in row.fields]
        case tuple() if row:
            return [f"_{i}" for i in range(1, len(row) + 1)], list(row)
        case _:
            return ["value"], [row]


@dataclass(slots=True)
class Tables:
    """The tables that sources became, by what the sources ask for."""

    db: Database
    names: dict[str, str] = field(default_factory=dict)

    def of(self, source: t.Source, rows: Value) -> str:
        key = repr(source.request)
        if key not in self.names:
            if not len(rows):
                raise UnsupportedError("its source is empty, and has no types")
            names, values = columns(rows.elements[0])
            name = f"source_{len(self.names)}"
            kinds = map(column_type, values)
            schema = ", ".join(f"`{n}` {k}" for n, k in zip(names, kinds, strict=True))
            self.db.create_table(name, schema)
            self.names[key] = name
            self.insert(name, rows)
        return self.names[key]

    def insert(self, name: str, rows: Value) -> None:
        given = [tuple(plain(item) for item in columns(row)[1]) for row in rows]
        with self.db.transaction() as tx:
            tx.insert(name, given)

    def held(self, name: str) -> Bag:
        frame = self.db.table(name)
        return bag_of(frame.collect(), frame.schema)


def over_tables(term: t.Term, run: Session, tables: Tables) -> t.Term:
    """The term with its sources replaced by tables."""
    if isinstance(term, t.Read):
        arguments = tuple(run.interpreter.evaluate(each) for each in term.arguments)
        request = t.Request(term.parser, arguments)
        return over_tables(t.Source(str(arguments[0]), term.kind, request), run, tables)
    if isinstance(term, t.Source):
        return t.Source(tables.of(term, run.interpreter.read(term)), "stream")
    return t.rebuilt(term, lambda part: over_tables(part, run, tables))


def reads(term: t.Term) -> bool:
    return isinstance(term, t.Source | t.Read) or any(map(reads, t.children(term)))


def sources(term: t.Term) -> set[str]:
    if isinstance(term, t.Source):
        return {term.name}
    return set().union(*(sources(part) for part in t.children(term)))


def check(db: Database, view: str, term: t.Term, run: Session, tables: Tables) -> str:
    """What differs between a view and the meaning of its query; nothing if they are equal."""
    before = run.interpreter.read
    run.interpreter.read = lambda source: tables.held(source.name)
    try:
        wanted = run.interpreter.once(unnest(term))
    finally:
        run.interpreter.read = before
    frame = db.table(view)
    found = bag_of(frame.collect(), frame.schema)
    rows = wanted if isinstance(wanted, Bag | List) else Bag((wanted,))
    ours, theirs = comparable(found), comparable(rows)
    return "" if close(ours, theirs) else f"view: {str(ours)[:150]} meaning: {str(theirs)[:150]}"


def followed(db: Database, term: t.Term, run: Session, tables: Tables) -> tuple[str, str, str, str]:
    """How a query is kept, whether it was right all along, what was not, and by which path."""
    try:
        term = over_tables(term, run, tables)
        found = compiled(Query(term, run), db._connection.definitions.catalog)
    except RekindleError as error:
        return "driver", "-", error.message, ""
    kept, path = "incremental", "; ".join(found.paths) or "rows, one by one"
    try:
        db.create_view("q", found.query, incremental="required")
    except RekindleError as error:
        kept = f"in part ({(error.detail or error.message).splitlines()[0]})"
        try:
            db.create_view("q", found.query)
        except RekindleError as second:
            return "driver", "-", f"{second.message} {second.detail or ''}".strip(), ""
    try:
        differs = check(db, "q", term, run, tables)
        for name in sorted(sources(term)):
            rows = tables.held(name)
            some = Bag(rows.elements[::4])
            given = [tuple(plain(item) for item in columns(row)[1]) for row in some]
            with db.transaction() as tx:
                tx.delete(name, given)
            differs = differs or check(db, "q", term, run, tables)
            tables.insert(name, some)
        differs = differs or check(db, "q", term, run, tables)
    except RekindleError as error:
        return kept, "error", f"{error.message} {error.detail or ''}"[:200], path
    finally:
        db.drop_view("q")
    return kept, "different" if differs else "equal", differs, path


def statements(place: Path, suite: str) -> Iterator[tuple[str, Session, str]]:
    """The scripts of a suite, each with the session that it runs in."""
    for path in sorted((place / "queries" / suite).glob("*.mrql")):
        recorded = place / "expected" / suite / f"{path.stem}.json"
        setup = json.loads(recorded.read_text()).get("setup", "") if recorded.exists() else ""
        given = tuple(setup.split()[1:3]) if setup.startswith("args:") else ()
        if suite == "incremental":
            given = ARGUMENTS.get(path.stem, ())
            run = Session(_batch(place, 1), arguments=given, prepare=lambda term: term)
        else:
            run = session(place, given, lambda term: term)
        yield path.stem, run, path.read_text()


def seen(place: Path, suite: str, make: Callable[[], Database]) -> Iterator[Seen]:
    """How each expression over sources went."""
    db = make()
    for file, run, script in statements(place, suite):
        tables = Tables(db)
        tables.names = {f"{file}{key}": name for key, name in tables.names.items()}
        for index, piece in enumerate(pieces(script), 1):
            text = " ".join(piece.text.split())
            try:
                statement = parse_statement(piece)
                if not isinstance(statement, s.Evaluate):
                    run.execute(statement)
                    continue
                term = run.term(statement.expression)
            except RekindleError:
                continue
            if not reads(term):
                continue
            try:
                kept, verdict, detail, path = followed(db, term, run, tables)
            except RekindleError as error:
                kept, verdict, detail, path = "driver", "-", error.message, ""
            yield Seen(suite, file, index, text, kept, verdict, detail, path)
        for name in list(db.tables):
            db.drop_table(name)
    db.close()


def main(suites: tuple[str, ...]) -> int:
    """Runs the suites, prints what differs, and writes the page."""
    place = material("mrql")
    if place is None:
        print("the material is not here")
        return 1
    found: list[Seen] = []
    with tempfile.TemporaryDirectory() as folder:
        for suite in suites or SUITES:
            made = f"{folder}/{suite}"
            for each in seen(place, suite, lambda made=made: rekindle.connect(made)):  # type: ignore[misc]
                found.append(each)
                print(each.suite, each.file, each.index, each.kept, each.verdict, each.detail[:200])
    write(found)
    return 0


def write(found: list[Seen]) -> None:
    """The page of how each query is kept."""
    lines = [HEAD]
    counts = Counter((each.suite, each.kept.split(" (")[0], each.verdict) for each in found)
    lines.append("| suite | kept | as its meaning | queries |\n|---|---|---|---|")
    for (suite, kept, verdict), many in sorted(counts.items()):
        lines.append(f"| {suite} | {kept} | {verdict} | {many} |")
    lines.append(
        "\n## Each query\n\n| query | kept | | by which path, why not, or what differs |\n"
        "|---|---|---|---|"
    )
    for each in found:
        detail = " ".join((each.detail or each.path).split()).replace("|", "\\|")
        kept = each.kept.replace("|", "\\|")
        lines.append(f"| {each.file} #{each.index} | {kept} | {each.verdict} | {detail[:300]} |")
    PAGE.write_text("\n".join(lines) + "\n")


HEAD = """# Apache MRQL: its queries as views

Every expression of the original's tests, examples, short statements and incremental queries that
reads a source is a view here, over tables with the rows of its sources. It is compared with the
meaning of the query, by the reference interpreter, when it is made, after a quarter of the rows of
each table was deleted, and after they were inserted again. `incremental` means that no part is
recomputed at a change; `driver` that Spark has no query for it: `db.mrql` evaluates it, and a view
refuses it.

    python -m tests.external.mrql_views
"""

if __name__ == "__main__":
    sys.exit(main(tuple(sys.argv[1:])))
