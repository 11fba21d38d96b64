"""Soufflé's evaluation programs through `db.datalog`, with facts that come and go.

    python -m tests.external.souffle [--batches 3] [--seed 7] [--minutes M] [--only magic [--merge]]

Some of the facts are there before the program is, the others come in transactions that also delete
facts and bring wrong ones; at the end the facts are those of the suite. After each transaction
every result is compared with that of a small evaluator in memory (`souffle_naive`), and at the end
with the published one. What a program says as constants in facts comes and goes too.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

import rekindle
from rekindle.errors import UnsupportedError
from rekindle.runtime.database import Database
from tests.external.batches import text
from tests.external.compare import Difference, require_equal, rows_of
from tests.external.material import absent, material
from tests.external.outcomes import Outcome, Results
from tests.external.souffle_cases import Published, places, printed, read, rounded
from tests.external.souffle_dialect import Translated, translated
from tests.external.souffle_naive import Row, TooLarge, evaluate
from tests.external.souffle_syntax import NotApplicable
from tests.external.strategy import recomputed_nodes

SUITE = "souffle"
ABOUT = "Soufflé's evaluation programs as Datalog views of facts that come, go and come again."
LARGEST = 100_000
"""Rows in a relation, beyond which a state is not tried."""
PATIENCE = 15.0
"""Seconds after which a program gets its last facts without further states."""

Facts = Mapping[str, Sequence[Row]]


@dataclass(frozen=True, slots=True)
class State:
    """What is given, and what follows."""

    when: str
    facts: Facts
    expected: Mapping[str, set[Row]]


def states(
    case: Published, made: Translated, batches: int, chance: random.Random
) -> Iterator[State]:
    """Some of the facts, some others so many times, and all of them."""
    whole = {name: made_rows(case, made, name) for name in made.tables}
    last = State("at the end", whole, evaluate(made.rules, whole, LARGEST))
    if any(whole.values()):
        yield from _others(made, whole, batches, chance)
    yield last


def made_rows(case: Published, made: Translated, name: str) -> list[Row]:
    """The facts of a relation, from the program and from its file."""
    return list(dict.fromkeys((*made.tables[name].rows, *case.facts.get(name, ()))))


def _others(made: Translated, whole: Facts, batches: int, chance: random.Random) -> Iterator[State]:
    for number in range(batches + 1):
        when = f"after batch {number}" if number else "at first"
        for _ in range(5):
            share = chance.choice((0.3, 0.6, 0.9))
            facts = {n: [r for r in rows if chance.random() < share] for n, rows in whole.items()}
            if number:
                facts = {n: _with_decoys(rows, whole[n], chance) for n, rows in facts.items()}
            try:
                yield State(when, facts, evaluate(made.rules, facts, LARGEST))
                break
            except TooLarge:
                continue


def _with_decoys(rows: list[Row], whole: Sequence[Row], chance: random.Random) -> list[Row]:
    """The rows, and some that mix the columns of two facts."""
    found = list(rows)
    for _ in range(min(3, len(whole) // 2)):
        one, other = chance.choice(whole), chance.choice(whole)
        found.append(tuple(chance.choice(pair) for pair in zip(one, other, strict=True)))
    return list(dict.fromkeys(found))


def run_case(
    db: Database, case: Published, made: Translated, batches: int, chance: random.Random
) -> list[str]:
    """Follow a program through its states; gives the nodes that a step computes as a whole."""
    for table in made.tables.values():
        db.sql(f"CREATE TABLE `{table.name}` ({table.columns})")
    asked = [*case.program.outputs, *case.program.sizes]
    now: Facts = {name: [] for name in made.tables}
    started = time.monotonic()
    views: list[str] = []
    for number, state in enumerate(states(case, made, batches, chance)):
        is_last = state.when == "at the end"
        if not is_last and number and time.monotonic() - started > PATIENCE:
            continue
        move(db, made, now, state.facts)
        now = state.facts
        if made.text and not views:
            views = db.datalog(made.text)
        for name in asked:
            rows = [
                row if case.program.relations[name].types else () for row in _rows(db, made, name)
            ]
            require_equal(f"{state.when}: {name}", rows, list(state.expected[name]))
    for name in asked:
        require_published(case, name, [tuple(row) for row in _rows(db, made, name)])
    whole = {node for view in views for node in recomputed_nodes(db, view)}
    return sorted(node for node in whole if "fixed point" not in node)


def _rows(db: Database, made: Translated, name: str) -> list[Row]:
    return rows_of(db.table(made.names[name]))


def move(db: Database, made: Translated, now: Facts, wanted: Facts) -> None:
    """Bring the tables from one state to another, by one transaction."""
    with db.transaction() as transaction:
        for name, table in made.tables.items():
            before, after = set(now[name]), set(wanted[name])
            gone = [row or (True,) for row in now[name] if row not in after]
            new = [row or (True,) for row in wanted[name] if row not in before]
            if gone:
                transaction.delete(table.name, gone)
            if new:
                transaction.insert(table.name, new)


def require_published(case: Published, name: str, rows: list[Row]) -> None:
    """Raise `Difference` unless the rows are those that the suite has."""
    types = case.program.relations[name].types
    if name in case.sizes and len(rows) != case.sizes[name]:
        raise Difference(f"{name}: {len(rows)} rows, published are {case.sizes[name]}")
    if name in case.results:
        ours, theirs = printed(rows, types), rounded(case.results[name], types)
        if ours != theirs:
            raise Difference(f"{name}: {ours[:5]}, published is {theirs[:5]}")


def replay(
    spark: SparkSession,
    scratch: Path,
    programs: Sequence[Path],
    batches: int,
    seed: int,
    say: Callable[[str], None] = print,
    until: float | None = None,
) -> Results:
    """The programs, each in a database of its own under `scratch`."""
    results = Results(SUITE, ABOUT)
    for place in programs:
        if until is not None and time.monotonic() > until:
            break
        started = time.monotonic()
        _replay(spark, scratch / place.stem, place, results, batches, random.Random(seed))
        say(f"{results.cases[place.stem]} {time.monotonic() - started:.1f} s")
        shutil.rmtree(scratch / place.stem, ignore_errors=True)
    return results


def _replay(
    spark: SparkSession,
    scratch: Path,
    place: Path,
    results: Results,
    batches: int,
    chance: random.Random,
) -> None:
    try:
        case = read(place)
        made = translated(case.program)
        evaluate(made.rules, {n: made_rows(case, made, n) for n in made.tables}, LARGEST)
    except NotApplicable as error:
        results.add(place.stem, Outcome.NOT_APPLICABLE, str(error))
        return
    except TooLarge as error:
        reason = f"without a rewriting of the program {error}"
        results.add(place.stem, Outcome.NOT_APPLICABLE, reason)
        return
    try:
        with rekindle.connect(str(scratch), spark, retain=2) as db:
            whole = run_case(db, case, made, batches, chance)
    except UnsupportedError as error:
        results.add(place.stem, Outcome.REFUSED, str(error))
    except Exception as error:
        results.add(place.stem, Outcome.FAILED, text(error))
    else:
        reason = f"a part is recomputed: {'; '.join(whole)}" if whole else ""
        results.add(place.stem, Outcome.PASSED, reason)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.external.souffle")
    parser.add_argument("--batches", type=int, default=3)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--minutes", type=float, help="begin nothing new after so many")
    parser.add_argument("--only", default="", help="programs whose name has this text")
    parser.add_argument("--merge", action="store_true", help="keep the page's other programs")
    asked = parser.parse_args()
    until = None if asked.minutes is None else time.monotonic() + 60 * asked.minutes
    root = material("souffle")
    if root is None:
        raise SystemExit(absent("souffle"))
    from rekindle.spark.session import local_session

    chosen = [place for place in places(root) if asked.only in place.stem]
    with tempfile.TemporaryDirectory(prefix="rekindle-souffle-") as scratch:
        session = local_session(**{"spark.ui.enabled": "false"})
        results = replay(session, Path(scratch), chosen, asked.batches, asked.seed, until=until)
    results.notes.append(
        f"Some of the facts at first, then {asked.batches} transactions that bring and take facts, "
        "also wrong ones, and one that leaves those of the suite; every result is compared after "
        "each with that of an evaluator in memory, and at the end with the published one."
    )
    print(results.summary)
    if asked.merge and results.page.exists():
        results.keep_others(results.page.read_text(encoding="utf-8"))
    if asked.merge or not asked.only:
        print(f"written to {os.path.relpath(results.write())}")
    if results.of(Outcome.FAILED):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
