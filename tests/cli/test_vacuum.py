"""`rekindle vacuum`: what is removed, and how much history stays from then on."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Run


def test_spare_files_are_removed(run: Run, warehouse: Path) -> None:
    (node,) = (path for path in (warehouse / "data").iterdir() if path.name.startswith("table-"))
    spare = node / "e0000000003-dead-00000.arrow"
    spare.write_bytes(b"of a step that was interrupted")
    found = run("vacuum", warehouse, "--json")
    assert found.exit_code == 0, found.output
    report = json.loads(found.stdout)
    assert f"data/{node.name}/{spare.name}" in report["removed"] and not spare.exists()
    assert report["retain"] == "all"
    again = run("vacuum", warehouse)
    assert "0 files removed; history of all epochs is kept" in again.stdout


def test_retention_is_stored(run: Run, warehouse: Path) -> None:
    assert json.loads(run("vacuum", warehouse, "--retain", 2, "--json").stdout)["retain"] == 2
    script = "INSERT INTO orders VALUES (9, 9, 9.0); INSERT INTO orders VALUES (10, 9, 9.0)"
    assert run("sql", warehouse, "-e", script).exit_code == 0
    found = run("vacuum", warehouse)
    assert "history of the last 2 epochs is kept" in found.stdout
    assert (
        json.loads(run("vacuum", warehouse, "--retain", "all", "--json").stdout)["retain"] == "all"
    )
    assert run("vacuum", warehouse, "--retain", "some").exit_code == 1


def test_there_has_to_be_a_database(run: Run, tmp_path: Path) -> None:
    found = run("vacuum", tmp_path / "nothing")
    assert found.exit_code == 1 and "no database" in found.output
    assert not (tmp_path / "nothing").exists()
