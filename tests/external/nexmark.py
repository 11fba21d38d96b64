"""Nexmark: its queries 0 to 22 as views, over events that come, go and change.

    python -m tests.external.nexmark [--queries 0-5,9] [--events 2000] [--batches 10] [--seed 7]

The texts are Feldera's, or Flink's where Feldera has none; `SPELLINGS` brings them to Spark, and
every text that a spelling alters says so on the page. The queries are about event time throughout:
a view is a function of its tables, and there is no other time in it.

Some batches are only new events, as in the benchmark. Others delete old events, alter their prices
and sellers, deliver bids twice, and change the side input.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

import rekindle
from rekindle.benchmarks.tpch_queries import chosen_numbers
from tests.external.batches import Batches, Case, Contents, Stage
from tests.external.compare import Row
from tests.external.material import absent, material
from tests.external.nexmark_events import PRICE, SCHEMAS, Events
from tests.external.outcomes import Outcome, Results

NUMBERS = range(23)
FROM_FLINK = (11, 13)
"""Feldera has no text of 11; its join of 13 with the latest row before is another query."""

REWRITTEN = {
    6: """
SELECT seller, AVG(price) OVER
    (PARTITION BY seller ORDER BY date_time ROWS BETWEEN 10 PRECEDING AND CURRENT ROW) AS avg_price
FROM (
    SELECT A.id, A.seller, B.price, B.date_time, ROW_NUMBER() OVER
        (PARTITION BY A.id, A.seller ORDER BY B.price DESC, B.date_time) AS rownum
    FROM auction AS A, bid AS B
    WHERE A.id = B.auction AND B.date_time BETWEEN A.date_time AND A.expires
) WHERE rownum <= 1"""
}
"""Flink's text of 6 names a column before it is there, and Flink does not run it."""


@dataclass(frozen=True, slots=True)
class Spelling:
    """Words of another dialect, Spark's for the same, and what a reader should know of it."""

    theirs: str
    spark: str
    note: str = ""


_SECONDS = r"INTERVAL\s+'?(\d+)'?\s+SECOND"
_HOP = rf"TABLE\(HOP\(TABLE (\w+), DESCRIPTOR\((\w+)\), {_SECONDS}, {_SECONDS}\)\)"
_CHANNEL_ID = r"re_extract\(url, CAST\(('[^']*') as VARCHAR\), 2\)"

SPELLINGS = (
    Spelling(r"`dateTime`", "date_time"),
    Spelling(r"(?<=as )'(\w+)'", r"`\1`"),
    Spelling(rf"TUMBLE_(START|END)\(([\w.]+), {_SECONDS}\)", r"window(\2, '\3 seconds').\1"),
    Spelling(rf"TUMBLE\(([\w.]+), {_SECONDS}\)", r"window(\1, '\2 seconds')", "TUMBLE is window()"),
    Spelling(
        _HOP,
        r"(SELECT *, w.start AS window_start, w.end AS window_end "
        r"FROM (SELECT *, window(\2, '\4 seconds', '\3 seconds') AS w FROM \1))",
        "HOP is window() with a slide",
    ),
    Spelling(
        rf"SESSION_(START|END)\(([\w.]+), {_SECONDS}\)", r"session_window(\2, '\3 seconds').\1"
    ),
    Spelling(
        rf"SESSION\(([\w.]+), {_SECONDS}\)",
        r"session_window(\1, '\2 seconds')",
        "SESSION is session_window()",
    ),
    Spelling(r"PROCTIME\(\)", "date_time", "event time for processing time"),
    Spelling(r"FOR SYSTEM_TIME AS OF [\w.]+", "", "the side input is a table, and joined"),
    Spelling(r"FORMAT_TIMESTAMP\('%Y-%m-%d', (.*?)\)(?=,)", r"date_format(\1, 'yyyy-MM-dd')"),
    Spelling(
        r"FORMAT_TIMESTAMP\('%H:%M', (.*?)\)(?=$| as)",
        r"date_format(\1, 'HH:mm')",
        "FORMAT_TIMESTAMP is date_format()",
    ),
    Spelling(
        r"count_char\((\w+), ('.')\)",
        r"length(\1) - length(replace(\1, \2, ''))",
        "count_char by length()",
    ),
    Spelling(
        _CHANNEL_ID, r"nullif(regexp_extract(url, \1, 2), '')", "re_extract is regexp_extract()"
    ),
    Spelling(r"\bcandidates\b", "(SELECT *, lower(channel) AS lower_channel FROM bid)"),
    Spelling(
        r"SPLIT_INDEX\((\w+), '(.)', (\d)\)",
        r"get(split(\1, '\2'), \3)",
        "SPLIT_INDEX is get(split())",
    ),
    Spelling(
        r"(?<=PARTITION BY auction ORDER BY price DESC)",
        ", date_time, bidder",
        "its order has date_time and bidder too, since prices are level",
    ),
)


def query_of(place: Path, number: int) -> tuple[str, str]:
    """A query's text in Spark's dialect, and what was done to it."""
    if number in REWRITTEN:
        return REWRITTEN[number], "our text of what it describes"
    feldera = place / "feldera/benchmark_sql/feldera-sql/benchmarks/nexmark/queries"
    folder = place / "nexmark/flink_sql/queries" if number in FROM_FLINK else feldera
    text = re.sub(r"--[^\n]*", "", (folder / f"q{number}.sql").read_text(encoding="utf-8"))
    heads = list(re.finditer(rf"CREATE VIEW q{number} AS|INSERT INTO \w+", text, re.IGNORECASE))
    query, notes = text[heads[-1].end() :].strip().rstrip(";"), []
    for spelling in SPELLINGS:
        query, count = re.subn(
            spelling.theirs, spelling.spark, query, flags=re.IGNORECASE | re.MULTILINE
        )
        if count and spelling.note:
            notes.append(spelling.note)
    return query, ", ".join(notes)


class Market:
    """The tables' rows as events come in and old ones are taken back or altered."""

    def __init__(self, seed: int, events: int) -> None:
        self._random = random.Random(seed)
        self._events = Events(seed)
        self.rows: dict[str, list[Row]] = self._events.take(events)
        self.rows["side_input"] = [(key, f"value {key}") for key in range(1000, 1060)]

    def stages(self, batches: int, size: int) -> Iterator[Stage]:
        """The first rows, then what is left after each batch, one of four kinds in turn."""
        yield Stage("at first", self._contents())
        kinds = {
            "new events": [self._arrive],
            "all kinds": [self._delete, self._alter, self._deliver_twice, self._arrive],
            "deletes": [self._delete],
            "updates": [self._alter],
        }
        for number in range(batches):
            kind = list(kinds)[number % len(kinds)]
            for change in kinds[kind]:
                change(size)
            yield Stage(f"after batch {number + 1} ({kind})", self._contents())

    def _contents(self) -> Contents:
        return {name: tuple(rows) for name, rows in self.rows.items()}

    def _arrive(self, size: int) -> None:
        for table, rows in self._events.take(size).items():
            self.rows[table] += rows

    def _some(self, table: str, size: int) -> list[int]:
        """Positions of an even share of the rows, in falling order."""
        rows = self.rows[table]
        share = 1 + size * len(rows) // sum(map(len, self.rows.values()))
        return sorted(self._random.sample(range(len(rows)), share), reverse=True)

    def _delete(self, size: int) -> None:
        for table, rows in self.rows.items():
            for place in self._some(table, size):
                del rows[place]

    def _alter(self, size: int) -> None:
        """Another price; of a person another state, of the side input another value.

        A bid that was delivered twice is altered twice, or the latest bid would be anyone's choice.
        """
        for table, rows in self.rows.items():
            for place in self._some(table, size):
                old = rows[place]
                row = list(old)
                match table:
                    case "person":
                        row[5] = "OR" if row[5] != "OR" else None
                    case "side_input":
                        row[1] += " again"
                    case _:
                        row[PRICE[table]] = self._events.price()
                rows[:] = [tuple(row) if other == old else other for other in rows]

    def _deliver_twice(self, size: int) -> None:
        bids = self.rows["bid"]
        bids += [bids[place] for place in self._some("bid", size // 4)]


def replay(
    spark: SparkSession,
    place: Path,
    scratch: Path,
    numbers: Sequence[int],
    *,
    events: int,
    batches: int,
    seed: int = 7,
    say: Callable[[str], None] = print,
) -> Results:
    """The queries as views of one database, through the states of a market."""
    results = Results("Nexmark", "Queries 0 to 22 as views of events that come, go and change.")
    results.notes.append(
        f"{events} events at first, then {batches} transactions of some {events // 10} rows with a "
        "comparison after each: new events, deletes, updates, and all of these with bids twice."
    )
    texts = {f"query {number}": query_of(place, number) for number in numbers}
    with rekindle.connect(str(scratch / "database"), spark, retain=2) as db:
        for table, columns in SCHEMAS.items():
            db.sql(f"CREATE TABLE {table} ({columns})")
        db.sql("CREATE TABLE side_input (key BIGINT, value STRING)")
        cases = [Case(name, query) for name, (query, _) in texts.items()]
        stages = list(Market(seed, events).stages(batches, events // 10))
        Batches(db, results, say).run(cases, stages)
    for result in results.of(Outcome.PASSED):
        outcome = Outcome.FAILED if result.reason else Outcome.PASSED
        results.add(result.case, outcome, result.reason or texts[result.case][1])
    results.cases = {name: results.cases[name] for name in texts}
    return results


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.external.nexmark")
    parser.add_argument("--queries")
    parser.add_argument("--events", type=int, default=2000)
    parser.add_argument("--batches", type=int, default=10)
    parser.add_argument("--seed", type=int, default=7)
    asked = parser.parse_args()
    missing = [name for name in ("nexmark", "feldera") if material(name) is None]
    found = material("nexmark")
    if missing or found is None:
        raise SystemExit(absent(missing[0]))
    from rekindle.spark.session import local_session

    numbers = chosen_numbers(asked.queries, NUMBERS)
    with tempfile.TemporaryDirectory(prefix="rekindle-nexmark-") as scratch:
        results = replay(
            local_session(),
            found.parent,
            Path(scratch),
            numbers,
            events=asked.events,
            batches=asked.batches,
            seed=asked.seed,
        )
    print(results.summary)
    if len(numbers) == len(NUMBERS):
        print(f"written to {os.path.relpath(results.write())}")
    if results.of(Outcome.FAILED) or results.of(Outcome.REFUSED):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
