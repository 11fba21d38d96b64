"""The command itself: help, version, and that neither waits for Spark."""

from __future__ import annotations

import subprocess
import sys

from typer.testing import CliRunner

import rekindle
from rekindle.cli.main import app


def test_version() -> None:
    found = CliRunner().invoke(app, ["--version"])
    assert found.exit_code == 0
    assert found.output.strip() == f"rekindle {rekindle.__version__}"


def test_help_names_every_command() -> None:
    found = CliRunner().invoke(app, ["--help"])
    assert found.exit_code == 0
    for name in ("demo", "sql", "explain", "check", "bench"):
        assert name in found.output


def test_the_command_line_loads_no_spark() -> None:
    """Importing Spark takes longer than `--help` may."""
    code = (
        "import sys, rekindle.cli.main\n"
        "heavy = {'pyspark', 'pyarrow', 'pandas', 'numpy', 'prompt_toolkit'} & set(sys.modules)\n"
        "print(sorted(heavy))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_an_unknown_benchmark_lists_those_there_are() -> None:
    found = CliRunner().invoke(app, ["bench", "speed"])
    assert found.exit_code == 2
    assert "flatness" in found.output
