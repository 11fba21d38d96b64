"""Hostile warehouses are opened, read, explained and checked: nothing of them runs.

Each ends in a `RekindleError` or works. A part of the corpus is in every run, all of it in the long
one. `python -m tests.hostile.test_corpus` shows what became of each case.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rekindle.frontends import catalog
from rekindle.runtime.trust import Trust
from tests.hostile import corpus, template
from tests.hostile.corpus import Case
from tests.hostile.payloads import payloads
from tests.hostile.sandbox import Outcome, Sandbox

SPREAD = 150
EVERY = 9
"""One in so many cases is in every run, and those below."""
ALWAYS = (
    *("java scalar: a map of a URL", "java scalar: a lambda of another class"),
    *("java scalar: code for a unit", "java plan: a call of System", "sql checked: script"),
    *("sql checked: in a WITH", "sql translated: file", "sql of a loop: reflect", "declared udt"),
    *("rings everywhere", "rings in groups", "a poisoned sum", "link in data", "link for data"),
    *("link for the lock", "link of a segment", "file texts that lie", "text deep", "term deep"),
)


class World:
    """The template, the sandbox and the corpus."""

    def __init__(self, spark: SparkSession, place: Path) -> None:
        self.template = place / "template"
        self.outside = place / "outside"
        self.outside.mkdir()
        room = place / "room"
        room.mkdir()
        template.build(self.template, spark)
        self.sandbox = Sandbox(spark, room, self.outside)
        made = payloads(spark, str(self.sandbox.marker))
        self.cases = corpus.cases(self.template, made, str(self.outside), SPREAD)

    def visit(self, case: Case) -> Outcome:
        return self.sandbox.visit(case, self.template)

    def named(self, name: str) -> Case:
        return next(case for case in self.cases if case.name == name)


@pytest.fixture(scope="module")
def world(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(spark, tmp_path_factory.mktemp("hostile"))


def bad(outcome: Outcome) -> bool:
    return bool(outcome.escaped or outcome.noticed)


def assert_harmless(world: World, cases: list[Case]) -> None:
    outcomes = [world.visit(case) for case in cases]
    assert [outcome for outcome in outcomes if bad(outcome)] == []


def test_the_template_itself_works(world: World) -> None:
    """The negative control: a visit reads, explains and checks what is not hostile."""
    case = Case("nothing", lambda root: None, ("t", "joined", "ranked", "frame", "line", "reach"))
    outcome = world.visit(case)
    assert (outcome.refused, outcome.escaped, outcome.noticed) == ((), (), ())
    assert outcome.worked == 1 + 4 * len(case.about)


def test_a_part_of_the_corpus_runs_nothing(world: World) -> None:
    names = {case.name for case in world.cases}
    assert names.issuperset(ALWAYS) and len(names) >= 200
    some = [c for i, c in enumerate(world.cases) if i % EVERY == 0 and c.name.startswith("json")]
    assert_harmless(world, [*some, *map(world.named, ALWAYS)])


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_the_whole_corpus_runs_nothing(world: World) -> None:
    assert_harmless(world, world.cases)


def trusting(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted bug: everything is taken for one's own."""
    monkeypatch.setattr(Trust, "covers", lambda self, text: True)


def unguarded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted bug: SQL is run as it stands."""
    monkeypatch.setattr(catalog, "refuse_code", lambda catalyst, plan, known: None)


@pytest.mark.parametrize(
    ("plant", "name"),
    [
        (trusting, "a poisoned sum"),
        (unguarded, "sql checked: reflect"),
        (unguarded, "sql checked: function of the session"),
        (trusting, "java plan: reflection"),
    ],
)
def test_planted_bugs_are_noticed(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    plant: Callable[[pytest.MonkeyPatch], None],
    name: str,
) -> None:
    plant(monkeypatch)
    assert world.visit(world.named(name)).noticed


if __name__ == "__main__":
    import tempfile

    from rekindle.spark.session import local_session

    options = {"spark.master": "local[1]", "spark.ui.enabled": "false"}
    options |= {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
    session = local_session(**options, **{"spark.driver.memory": "1g"})
    session.sparkContext.setLogLevel("OFF")
    with tempfile.TemporaryDirectory() as directory:
        here = World(session, Path(directory))
        wanted = sys.argv[1:]
        chosen = [c for c in here.cases if not wanted or any(w in c.name for w in wanted)]
        if wanted[:1] == ["--from"]:
            chosen = here.cases[int(wanted[1]) :]
        wrong = 0
        for number, each in enumerate(chosen):
            found = here.visit(each)
            wrong += bad(found)
            verdict = "BAD " if bad(found) else "fine"
            print(
                f"{number} {verdict} {found.name} | {found.worked} | {found.refused[:1]}",
                flush=True,
            )
            if bad(found):
                print("      ", found.escaped[:3], found.noticed[:3], flush=True)
        print(f"{len(chosen)} cases, {wrong} bad", flush=True)
    session.stop()
