"""Feldera's Spark SQL cases: tables, rows, a view or a stack of views, and the result.

    python -m tests.external.feldera [--limit N] [--seed 7] [--minutes M] [--only window]

Its step tests come first, all of them (see `feldera_steps`), unless `--only` chooses others.

The tables of a case get a suffix, so that many cases share a database. Most of the cases without
tables are constants; they are a fifth of a sample.
"""

from __future__ import annotations

import argparse
import random
import re
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path

from pyspark.sql import SparkSession

import rekindle
from tests.external.batches import Batches, Case, Expected, condition, stages_of, stored_rows, text
from tests.external.compare import FEW_TASKS, Difference, Row
from tests.external.grouped import share, write_grouped
from tests.external.material import absent, material
from tests.external.outcomes import Outcome, Results

SUITE = "feldera"
ABOUT = "Feldera's Spark SQL cases as views, single and stacked, and its tests of single steps."
BATCH = 40
_TABLE = re.compile(r"CREATE\s+TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?(\w+)\s*\(", re.IGNORECASE)
_VIEW = re.compile(
    r"CREATE\s+(?:OR\s+REPLACE\s+)?(?:TEMP(?:ORARY)?\s+|MATERIALIZED\s+|LOCAL\s+)*VIEW\s+"
    r"([^\s(]+)\s*(?:\(([^)]*)\))?\s+AS\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Fixture:
    """The texts of a case."""

    name: str
    schema: str
    data: str
    query: str
    result: str


def read_fixtures(root: Path) -> Iterator[Fixture]:
    """All cases, in the order of their names."""
    for query in sorted(root.rglob("*query.sql")):
        stem = query.name.removesuffix("query.sql")
        texts = []
        for part in ("schema.sql", "data.sql", "query.sql", "result"):
            place = query.with_name(stem + part)
            texts.append(place.read_text(encoding="utf-8") if place.exists() else "")
        yield Fixture(f"{query.parent.name}/{stem.rstrip('._')}", *texts)


def sampled(fixtures: Sequence[Fixture], limit: int, chance: random.Random) -> list[Fixture]:
    """Some of them, four fifths with tables where there are so many."""
    mixed = chance.sample(list(fixtures), len(fixtures))
    with_tables = [f for f in mixed if _TABLE.search(f.schema)]
    constants = [f for f in mixed if not _TABLE.search(f.schema)]
    first = with_tables[: max(limit * 4 // 5, limit - len(constants))]
    return chance.sample(both := first + constants[: limit - len(first)], len(both))


def statements(text: str) -> list[str]:
    """The statements of a script without comments; a semicolon in quotes is no end.

    >>> statements("SELECT ';'; -- one\\nSELECT 2;")
    ["SELECT ';'", 'SELECT 2']
    """
    tokens = re.findall(r"'(?:[^'\\]|\\.)*'|--[^\n]*|[^';-]+|.", text, flags=re.DOTALL)
    parts = [""]
    for token in tokens:
        if token == ";":
            parts.append("")
        elif not token.startswith("--"):
            parts[-1] += token
    return [part.strip() for part in parts if part.strip()]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A case with names of its own, and the statements that make its tables."""

    case: Case
    tables: tuple[str, ...]
    creations: tuple[str, ...]
    insertions: tuple[str, ...]


def prepared(fixture: Fixture, number: int) -> Prepared | str:
    """The case in its own name space; a reason where that cannot be done."""
    creations = [_plain_table(s) for s in statements(fixture.schema)]
    names = [found[1] for s in creations if (found := _TABLE.search(s))]
    if len(names) != len(creations):
        return "its schema has other statements than CREATE TABLE"
    heads = [(s, found) for s in statements(fixture.query) if (found := _VIEW.match(s))]
    if not heads:
        return "its query is not CREATE VIEW"
    views = [found[1].strip("`") for _, found in heads]
    bodies = [_body(s[found.end() :].strip(), found[2]) for s, found in heads]

    def own(text: str) -> str:
        for name in (*names, *views[:-1]):
            text = re.sub(rf"(?<![\w'])`?{re.escape(name)}`?(?![\w'])", f"{name}_k{number}", text)
        return text

    parents = tuple((f"{v}_k{number}", own(b)) for v, b in zip(views, bodies, strict=True))[:-1]
    top = own(bodies[-1])
    ctes = ", ".join(f"{name} AS ({query})" for name, query in parents)
    case = Case(
        fixture.name,
        f"WITH {ctes} SELECT * FROM ({top})" if parents else top,
        expectation(fixture.result),
        parents,
        top if parents else "",
    )
    inserts = statements(fixture.data)
    tables = tuple(f"{name}_k{number}" for name in names)
    return Prepared(case, tables, tuple(map(own, creations)), tuple(map(own, inserts)))


def _plain_table(statement: str) -> str:
    """Without what says how it is stored; a VARCHAR of no length is a STRING to Spark."""
    statement = re.sub(r"\bVARCHAR\b(?!\s*\()", "STRING", statement, flags=re.IGNORECASE)
    stored = r"\)\s*(USING|PARTITIONED|TBLPROPERTIES|LOCATION)\b.*$"
    return re.sub(stored, ")", statement, flags=re.IGNORECASE | re.DOTALL)


def _body(query: str, columns: str | None) -> str:
    return query if columns is None else f"SELECT * FROM ({query}) AS named({columns})"


def expectation(result: str) -> Expected:
    """A check against the lines of a result, as bags of printed values."""
    printed = [line.split("\t") for line in result.splitlines() if line]

    def require(rows: list[Row]) -> None:
        left = list(rows)
        for line in printed:
            found = next((row for row in left if _same(row, line)), None)
            if found is None:
                raise Difference(f"published {line} is not among {rows[:3]}")
            left.remove(found)
        if left:
            raise Difference(f"{len(left)} row(s) more than published, such as {left[0]}")

    return require


def _same(row: Row, line: Sequence[str]) -> bool:
    return len(row) == len(line) and all(map(_same_value, row, line))


def _same_value(ours: object, printed: str) -> bool:
    if isinstance(ours, float | Decimal):
        try:
            near, far = float(ours), float(Decimal(printed))
        except (InvalidOperation, ValueError):
            return str(ours) == printed
        return abs(near - far) <= 1e-9 * max(1.0, abs(far))
    return printed in (str(ours), str(ours).lower())


def replay(
    spark: SparkSession,
    scratch: Path,
    fixtures: Sequence[Fixture],
    seed: int,
    say: Callable[[str], None] = print,
    until: float | None = None,
    results: Results | None = None,
) -> Batches:
    """The cases in batches, in one database under `scratch`."""
    chance = random.Random(seed)
    results = results or Results(SUITE, ABOUT)
    with rekindle.connect(str(scratch / "database"), spark, retain=2) as db:
        batches = Batches(db, results, say)
        for start in range(0, len(fixtures), BATCH):
            if until is not None and time.monotonic() > until:
                break
            part = []
            for number, fixture in enumerate(fixtures[start : start + BATCH], start):
                made = prepared(fixture, number)
                if isinstance(made, str):
                    results.add(fixture.name, Outcome.NOT_APPLICABLE, made)
                elif _load(batches, made):
                    part.append(made)
            _run(batches, part, chance)
            for table in [t for made in part for t in made.tables]:
                db.drop_table(table)
                batches.forget(table)
            say(f"{start + BATCH}: {results.summary}")
    return batches


def _run(batches: Batches, part: Sequence[Prepared], chance: random.Random) -> None:
    """A batch; where its tables cannot be brought to a state, each case by itself."""
    contents = {t: stored_rows(batches.db, t) for made in part for t in made.tables}
    try:
        batches.run([made.case for made in part], stages_of(contents, chance))
    except Exception as error:
        if len(part) > 1:
            for made in part:
                _run(batches, [made], chance)
            return
        for made in part:
            batches.results.add(made.case.name, Outcome.FAILED, f"its rows: {text(error)}")


def _load(batches: Batches, made: Prepared) -> bool:
    """Make and fill the tables of a case; where that cannot be done it is noted."""
    done = []
    try:
        for name, creation in zip(made.tables, made.creations, strict=True):
            batches.db.sql(creation)
            done.append(name)
        with batches.db.transaction():
            for insertion in made.insertions:
                batches.db.sql(insertion)
    except Exception as error:
        batches.queries[made.case.name] = ";\n".join((*made.creations, *made.insertions))
        # Spark names its errors in capitals: what it refuses itself is not ours to accept.
        theirs = condition(error).isupper()
        outcome = Outcome.NOT_APPLICABLE if theirs else Outcome.REFUSED
        why = f"its tables: {condition(error)}"
        batches.say(str(batches.results.add(made.case.name, outcome, why)))
        for name in done:
            batches.db.drop_table(name)
        return False
    return True


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.external.feldera")
    parser.add_argument("--limit", type=int, default=0, help="a sample of so many; 0 for all")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--minutes", type=float, help="begin nothing new after so many")
    parser.add_argument("--only", default="", help="cases whose name has this text")
    asked = parser.parse_args()
    until = None if asked.minutes is None else time.monotonic() + 60 * asked.minutes
    place = material("feldera")
    if place is None:
        raise SystemExit(absent("feldera"))
    from rekindle.spark.session import local_session
    from tests.external.feldera_steps import read_tests, replay_steps

    tests = [test for test in read_tests(place) if asked.only in test.name]
    every = [f for f in read_fixtures(place / "spark_sql_fixtures") if asked.only in f.name]
    chosen = sampled(every, asked.limit or len(every), random.Random(asked.seed))
    settings = {"spark.sql.ansi.enabled": "false", "spark.sql.session.timeZone": "UTC"}
    session = local_session(**settings, **FEW_TASKS, **{"spark.ui.enabled": "false"})
    results = Results(SUITE, ABOUT)
    with tempfile.TemporaryDirectory(prefix="rekindle-feldera-") as scratch:
        steps = replay_steps(session, Path(scratch), tests, results, until=until)
        cases = replay(session, Path(scratch), chosen, asked.seed, until=until, results=results)
    by_kind = Counter(name.split("/")[0] for name in results.cases)
    stepped = by_kind.pop("steps", 0)
    results.notes += [
        f"{stepped} of {len(tests)} tests of steps.",
        f"{share(by_kind.total(), len(every), 'cases')}, seed {asked.seed}: "
        + ", ".join(f"{count} {kind}" for kind, count in by_kind.most_common()),
        f"Spark itself has another result than the published one, or prints it otherwise, in "
        f"{len(steps.disagreeing)} tests of steps and {len(cases.disagreeing)} cases.",
    ]
    print(results.summary)
    if not asked.only:
        whole = steps.recomputed + cases.recomputed
        print(write_grouped(results, steps.queries | cases.queries, whole))
    if results.of(Outcome.FAILED):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
