"""The map of the code (docs/design/README.md) names what is there, in the order that is checked."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "rekindle"
MAP = (ROOT / "docs" / "design" / "README.md").read_text()
NOTES = sorted((ROOT / "docs" / "design").glob("*.md"))
_MODULE = re.compile(r"(?<![\w/.<>])[a-z_0-9/]+\.py\b")
_FOLDER = re.compile(r"(?<=[ `])[a-z_/]+/(?=[\s`,])")
_ANY = {"front_end.py", "definition.py"}
"""There is one of these for each language."""


def layers() -> list[str]:
    """The packages in the contract of import-linter, the highest first."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (contract,) = settings["tool"]["importlinter"]["contracts"]
    return [line.split(" ")[0].removeprefix("rekindle.") for line in contract["layers"]]


def test_the_picture_is_the_contract() -> None:
    picture = MAP.split("```")[1]
    pictured = [line.split()[0] for line in picture.splitlines() if line.strip(" │")]
    *packages, modules = layers()[: len(pictured)]
    assert pictured[:-1] == packages
    assert modules == pictured[-1] and sorted(layers()[len(packages) :]) == sorted(
        re.findall(r"\w+", picture.splitlines()[-1])
    )


def test_every_package_is_in_the_contract() -> None:
    there = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    modules = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__"}
    assert there | modules == set(layers())


def modules() -> list[str]:
    folders = (PACKAGE, ROOT / "tests", ROOT / "benchmarks", ROOT / "scripts")
    return [f"/{path.relative_to(ROOT)}" for each in folders for path in each.rglob("*.py")]


@pytest.mark.parametrize("note", NOTES, ids=lambda path: path.stem)
def test_the_modules_that_a_note_names_are_there(note: Path) -> None:
    there = modules()
    named = set(_MODULE.findall(re.sub(r"`frontends/(x|<language>)/.*?`", "", note.read_text())))
    missing = [
        name for name in named - _ANY if not any(path.endswith(f"/{name}") for path in there)
    ]
    assert not missing


def test_the_folders_of_the_map_are_there() -> None:
    named = set(_FOLDER.findall(MAP))
    assert {"incremental/policies/", "circuit/operators/", "kernels/", "spark/"} <= named
    there = modules()
    assert not [name for name in named if not any(f"/{name}" in path for path in there)]


def test_every_note_is_listed() -> None:
    assert {path.name for path in NOTES} - {"README.md"} == set(re.findall(r"\]\((\w+\.md)\)", MAP))
