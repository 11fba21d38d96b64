"""Feldera's step tests: tables, views, and for each step its input and what it changes in a view.

Its SQL is Calcite's; `SPELLINGS` has what Spark writes otherwise. A row for a key that is there
replaces it. The published changes are added up, and a view must be what Spark computes after every
step; where Spark itself is not at the published sum, as with rows that Feldera drops for being
late, that is counted and no more.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.sql import SparkSession

import rekindle
from rekindle.runtime.database import Database
from tests.external.batches import Batches, Expected, Stage, condition
from tests.external.compare import Row, rows_of
from tests.external.feldera import Fixture, Prepared, expectation, prepared, statements
from tests.external.outcomes import Outcome, Results

FILE = "incremental_step_tests.jsonl"
BATCH = 40

_UNIT = r"(?:second|minute|hour|day)s?"
_BOUND = rf"(?:interval\s+)?(?:'[^']*'|[\d.]+)(?:\s+{_UNIT})?(?:\s+to\s+{_UNIT})?"
SPELLINGS = (
    (r"--[^\n]*", ""),
    (rf"\s+(?:lateness|watermark)\s+{_BOUND}", ""),
    (r"\s+interned\b|\s+unsigned\b", ""),
    (r"\s+with\s*\(\s*'[^)]*\)", ""),
    (r"(?:,\s*foreign key\s*\([^)]*\)|\s+foreign key)\s*references\s+\w+\s*\([^)]*\)", ""),
    (r"\b(?:varchar|char)\b(?:\s*\(\s*\d+\s*\))?|\btext\b", "string"),
    (r"\b(?:var)?binary\b(?:\s*\(\s*\d+\s*\))?", "binary"),
    (r"\bbool\b", "boolean"),
    (r"\bint2\b", "smallint"),
    (r'"(\w+)"', r"`\1`"),
    (r"\b(\w+) array\b", r"array<\1>"),
    (r"\b(array|map)\s*\[([^][]*)\]", r"\1(\2)"),
    (r"(?<!table )\barg_(max|min)\(", r"\1_by("),
    (r"\btimestamp_trunc\((\w+), (\w+)\)", r"date_trunc('\2', \1)"),
    (r"\btumble(?:_(start|end))?\((\w+), interval '(\d+)' (\w+)\)", r"window(\2, '\3 \4').\1"),
    (r"(\bwindow\([^()]*\))\.(?!start|end)", r"\1"),
    (r"\b(interval \d+ (?:second|minute|hour|day))s\b", r"\1"),
)
_INPUT = re.compile(r"(insert into|remove from)\s+(\w+)\s*(?:\(([^)]*)\))?\s*values\s*(.*)", re.S)


@dataclass(frozen=True, slots=True)
class StepTest:
    """A test; each of its steps has statements and a printed table."""

    name: str
    sql: str
    steps: tuple[tuple[str, str], ...]
    incremental: bool


def read_tests(place: Path) -> list[StepTest]:
    tests = []
    seen: Counter[str] = Counter()
    for line in (place / FILE).read_text(encoding="utf-8").splitlines():
        test = json.loads(line)
        steps = tuple((step["input"], step["expected"]) for step in test["steps"])
        name = f"steps/{Path(test['file']).stem}.{test['test']}"
        seen[name] += 1
        name += f" ({seen[name]})" if seen[name] > 1 else ""
        tests.append(StepTest(name, test["sql"], steps, test["incremental"]))
    return tests


def spark_text(sql: str) -> str:
    """The text as Spark writes it, in small letters, but for what is between quotes.

    >>> spark_text("CREATE TABLE T(A VARCHAR(3) NOT NULL, B INT ARRAY LATENESS 10) -- Why?")
    'create table t(a string not null, b array<int>) '
    """
    parts = re.split(r"('(?:[^']|'')*')", re.sub(r"--[^\n]*", "", sql))
    text = "".join(p if p.startswith("'") else p.lower() for p in parts)
    for theirs, spark in SPELLINGS:
        text = re.sub(theirs, spark, text)
    return text


def prepared_test(test: StepTest, number: int) -> Prepared | str:
    """The test's tables and views in a name space of their own; a reason where it has others."""
    parts = statements(spark_text(test.sql))
    if any(part.startswith("declare recursive") for part in parts):
        return "recursive views are declared in Feldera's own way"
    if re.search(r"\bnow\s*\(", test.sql, re.IGNORECASE):
        return "its clock is a table"
    creations = [part for part in parts if part.startswith("create table")]
    views = [part for part in parts if not part.startswith("create table")]
    fixture = Fixture(test.name, ";\n".join(creations), "", ";\n".join(views), "")
    made = prepared(fixture, number)
    # What is published belongs to the steps, not to the case.
    return made if isinstance(made, str) else replace(made, case=replace(made.case, expected=None))


def states(db: Database, test: StepTest, number: int) -> Iterator[dict[str, list[Row]]]:
    """The rows of the test's tables after each of its steps."""
    rows: dict[str, list[Row]] = {}
    for text, _ in test.steps:
        if not test.incremental:
            rows = {table: [] for table in rows}
        for statement in statements(spark_text(text)):
            found = _INPUT.match(statement)
            if found is None:
                raise ValueError(f"not an input: {statement[:40]}")
            table = f"{found[2]}_k{number}"
            given = _evaluated(db, table, found[3], found[4])
            keys = [i for i, row in enumerate(db.sql(f"DESCRIBE {table}").collect()) if row["key"]]
            now = rows.setdefault(table, [])
            for row in given:
                if found[1] == "remove from":
                    now[:] = _without(now, row)
                    continue
                if keys:
                    now[:] = [old for old in now if any(old[i] != row[i] for i in keys)]
                now.append(row)
        yield {table: list(now) for table, now in rows.items()}


def _without(rows: Sequence[Row], gone: Row) -> list[Row]:
    place = rows.index(gone) if gone in rows else len(rows)
    return [*rows[:place], *rows[place + 1 :]]


def _evaluated(db: Database, table: str, columns: str | None, values: str) -> list[Row]:
    """Literals as rows of a table; a column that is not named is NULL."""
    fields = {field.name: field.dataType.simpleString() for field in db.table(table).schema}
    named = [name.strip() for name in columns.split(",")] if columns else list(fields)
    casts = [
        f"CAST({name if name in named else 'NULL'} AS {kind})" for name, kind in fields.items()
    ]
    query = f"SELECT {', '.join(casts)} FROM VALUES {values} AS given({', '.join(named)})"
    return rows_of(db.spark.sql(query))


def published(test: StepTest) -> list[Expected]:
    """Checks of the whole view after each step: the sums of the published changes."""
    total: Counter[tuple[str, ...]] = Counter()
    checks = []
    for _, printed in test.steps:
        header, _, *lines = [line for line in printed.splitlines() if line.strip()]
        weighted = header.split("|")[-1].strip() == "weight"
        if not test.incremental:
            total = Counter()
        for line in lines:
            values = [_shown(value) for value in line.split("|")]
            weight = int(values.pop()) if weighted else 1
            total[tuple(values)] += weight
        checks.append(expectation("\n".join("\t".join(row) for row in total.elements())))
    return checks


def _shown(value: str) -> str:
    return "None" if value.strip() in ("", "NULL") else value.strip()


def replay_steps(
    spark: SparkSession,
    scratch: Path,
    tests: Sequence[StepTest],
    results: Results,
    say: Callable[[str], None] = print,
    until: float | None = None,
) -> Batches:
    """The tests in batches; those of a batch step together, one transaction for all of them."""
    with rekindle.connect(str(scratch / "steps"), spark, retain=2) as db:
        batches = Batches(db, results, say)
        for start in range(0, len(tests), BATCH):
            if until is not None and time.monotonic() > until:
                break
            loaded = {}
            for number, test in enumerate(tests[start : start + BATCH], start):
                made = prepared_test(test, number)
                if isinstance(made, str):
                    results.add(test.name, Outcome.NOT_APPLICABLE, made)
                elif (steps := _load(batches, made, test, number)) is not None:
                    loaded[test] = made, steps
            cases = [made.case for made, _ in loaded.values()]
            tables = [table for made, _ in loaded.values() for table in made.tables]
            batches.run(cases, _stages(loaded, tables))
            for table in tables:
                db.drop_table(table)
                batches.forget(table)
            say(f"steps {start + BATCH}: {results.summary}")
    return batches


def _load(
    batches: Batches, made: Prepared, test: StepTest, number: int
) -> list[dict[str, list[Row]]] | None:
    """Make the tables of a test and read its steps; None, and a note, where Spark cannot."""
    done = []
    try:
        for name, creation in zip(made.tables, made.creations, strict=True):
            batches.db.sql(creation)
            done.append(name)
        return list(states(batches.db, test, number))
    except Exception as error:
        why = f"its tables: {condition(error)}"
        batches.queries[test.name] = test.sql
        batches.say(str(batches.results.add(test.name, Outcome.NOT_APPLICABLE, why)))
        for name in done:
            batches.db.drop_table(name)
        return None


def _stages(
    loaded: dict[StepTest, tuple[Prepared, list[dict[str, list[Row]]]]], tables: Sequence[str]
) -> list[Stage]:
    """Empty tables, then all tests' steps side by side; a test that has ended stays as it is."""
    contents: dict[str, Sequence[Row]] = {table: [] for table in tables}
    stages = [Stage("at first", dict(contents))]
    checks = {test: published(test) for test in loaded}
    for step in range(max((len(steps) for _, steps in loaded.values()), default=0)):
        going = {test: steps for test, (_, steps) in loaded.items() if step < len(steps)}
        for steps in going.values():
            contents |= steps[step]
        results = {test.name: checks[test][step] for test in going}
        stages.append(Stage(f"after step {step + 1}", dict(contents), True, results=results))
    return stages
