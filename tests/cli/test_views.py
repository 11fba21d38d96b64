"""`rekindle explain` and `rekindle check`."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from rekindle.errors import CheckError
from rekindle.runtime.database import Database
from tests.cli.conftest import Run


def test_explain_as_text_json_and_picture(run: Run, warehouse: Path, tmp_path: Path) -> None:
    text = run("explain", warehouse, "spend")
    assert text.exit_code == 0, text.output
    assert "view spend" in text.stdout
    picture = tmp_path / "pictures" / "spend.svg"
    found = run("explain", warehouse, "spend", "--json", "--svg", picture)
    assert json.loads(found.stdout)["title"] == "view spend"
    assert ElementTree.parse(picture).getroot().tag.endswith("svg")


def test_explain_of_an_unknown_view_lists_the_names(run: Run, warehouse: Path) -> None:
    found = run("explain", warehouse, "spent")
    assert found.exit_code == 1
    assert "unknown table or view 'spent'" in found.stderr
    assert "did you mean 'spend'?" in found.stderr


@pytest.mark.parametrize("command", ["explain", "check"])
def test_a_missing_database_is_said_and_not_made(run: Run, tmp_path: Path, command: str) -> None:
    found = run(command, tmp_path / "none", "v")
    assert found.exit_code == 1
    assert "there is no database at" in found.stderr
    assert not (tmp_path / "none").exists()


def test_check_covers_all_views(run: Run, warehouse: Path) -> None:
    found = run("check", warehouse)
    assert found.exit_code == 0, found.output
    assert "spend: 2 rows equal to recomputation at epoch 3" in found.stdout


def test_check_fails_on_a_difference_and_goes_on(
    run: Run, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("sql", warehouse, "-e", "CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n FROM orders")
    honest = Database.check

    def planted(self: Database, name: str) -> object:
        if name == "spend":
            raise CheckError("view 'spend' differs from its recomputation", detail="planted")
        return honest(self, name)

    monkeypatch.setattr(Database, "check", planted)
    found = run("check", warehouse)
    assert found.exit_code == 1
    assert "differs from its recomputation" in found.stderr
    assert "n: 1 rows equal" in found.stdout
