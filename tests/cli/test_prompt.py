"""The interactive prompt, driven through a terminal that is a pipe."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput
from rich.console import Console

import rekindle
from rekindle.cli.prompt import Prompt, SqlCompleter, is_complete


def typed(warehouse: Path, keys: str) -> tuple[str, InMemoryHistory]:
    """What the prompt prints for some keys, and the history it keeps."""
    printed = io.StringIO()
    history = InMemoryHistory()
    with rekindle.connect(str(warehouse)) as db, create_pipe_input() as terminal:
        terminal.send_text(keys)
        console = Console(file=printed, width=200)
        Prompt(db, console, history, input=terminal, output=DummyOutput()).loop()
    return printed.getvalue(), history


def test_a_statement_ends_at_its_semicolon(warehouse: Path) -> None:
    shown, history = typed(warehouse, "SELECT cust\rFROM spend\rWHERE cust = 7;\r\\q\r")
    assert "│    7 │" in shown
    assert "SELECT cust\nFROM spend\nWHERE cust = 7;" in history.get_strings()


def test_commands(warehouse: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keys = "help\r\\d\r\\d orders\r\\explain spend\r\\check spend\r\\timing\rSELECT 1;\r\\x\r\\q\r"
    shown, _ = typed(warehouse, keys)
    assert "ends with a semicolon" in shown
    assert "spend" in shown and "PRIMARY KEY" in shown
    assert "view spend" in shown
    assert "equal to recomputation" in shown
    assert "timing is on" in shown and " ms" in shown
    assert "unknown command '\\x'" in capsys.readouterr().err


def test_an_error_does_not_end_the_session(
    warehouse: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown, _ = typed(warehouse, "SELECT * FROM nope;\rINSERT INTO orders VALUES (9, 1, 1.0);\r\x04")
    assert "unknown table or view 'nope'" in capsys.readouterr().err
    assert "INSERT: epoch 4, 1 row changed" in shown


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("", True),
        ("\\d", True),
        ("help", True),
        ("select 1", False),
        ("select 1;", True),
        ("select ';", False),
        ("select ';';", True),
        ("select 1 -- ;", False),
        ("select 1; select 2", False),
        ("select 1; -- done", True),
        ("select /* ;", False),
        ("select 'it''s';", True),
    ],
)
def test_when_enter_runs_the_input(text: str, complete: bool) -> None:
    assert is_complete(text) is complete


def test_completion_of_names_and_keywords(warehouse: Path) -> None:
    with rekindle.connect(str(warehouse)) as db:
        completer = SqlCompleter(db)

        def completed(text: str) -> list[str]:
            found = completer.get_completions(Document(text), CompleteEvent())
            return [completion.text for completion in found]

        assert "spend" in completed("select * from sp")
        assert "orders" in completed("delete from ORD")
        assert completed("sel") == ["select"]
        assert completed("SEL") == ["SELECT"]
        assert completed("\\ex") == ["\\explain"]
