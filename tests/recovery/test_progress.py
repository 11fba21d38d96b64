"""A campaign goes on from where it stopped, and counts what all its runs have done."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.recovery.progress import VARIABLE, Progress

pytest_plugins = ["pytester"]

TESTS = """
import pytest

@pytest.mark.parametrize("n", range(3))
def test_it(n, tally):
    tally["kills"] += n
    assert n < {limit}
"""


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    (tmp_path / "rekindle").mkdir()
    (tmp_path / "rekindle/a.py").write_text("one")
    return tmp_path


def test_what_has_passed_is_known_to_the_next_run(sources: Path) -> None:
    Progress(sources / "state", sources).add("t[1]", 61.0, {"kills": 30})
    Progress(sources / "state", sources).add("t[2]", 60.0, {"kills": 12, "faults": 5})
    again = Progress(sources / "state", sources)
    assert again.done == {"t[1]", "t[2]"}
    assert again.summary() == ["2 tests in 2 minutes: 5 faults, 42 kills"]


def test_a_line_that_was_cut_short_is_not_counted(sources: Path) -> None:
    progress = Progress(sources / "state", sources)
    progress.add("t[1]", 1.0, {})
    progress.file.write_text(progress.file.read_text() + '{"test": "t[2]", "sour')
    assert Progress(sources / "state", sources).done == {"t[1]"}


def test_other_sources_are_another_campaign(sources: Path) -> None:
    Progress(sources / "state", sources).add("t[1]", 1.0, {})
    (sources / "rekindle/a.py").write_text("two")
    assert Progress(sources / "state", sources).done == set()


def test_a_run_leaves_out_what_an_earlier_one_did(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(pytester.path / "state"))
    pytester.makeconftest(
        "from tests.recovery.conftest import (\n"
        "    pytest_collection_modifyitems, pytest_runtest_logreport,\n"
        "    pytest_terminal_summary, tally)\n"
    )
    file = pytester.makepyfile(test_some=TESTS.format(limit=2))
    first = pytester.runpytest("-p", "no:cacheprovider", str(file))
    first.assert_outcomes(passed=2, failed=1)
    first.stdout.fnmatch_lines(["2 tests in 0 minutes: 1 kills"])
    pytester.makepyfile(test_some=TESTS.format(limit=3))
    second = pytester.runpytest("-p", "no:cacheprovider", str(file))
    second.assert_outcomes(passed=1, deselected=2)
    second.stdout.fnmatch_lines(["3 tests in 0 minutes: 3 kills"])
