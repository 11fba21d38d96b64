"""Where suites and data that other people wrote are kept, outside the project."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VARIABLE = "REKINDLE_MATERIAL"


def material(name: str) -> Path | None:
    """The folder of a suite; None where it is absent."""
    given = os.environ.get(VARIABLE)
    place = (Path(given) if given else ROOT.parent / "shared" / "material") / name
    return place if place.is_dir() else None


def absent(name: str) -> str:
    """The message to skip with."""
    return (
        f"the material '{name}' is not here: looked beside the project in ../shared/material; "
        f"{VARIABLE} names another place"
    )
