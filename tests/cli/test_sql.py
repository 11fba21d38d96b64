"""`rekindle sql`: scripts from every source, what they print, and how they fail."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

import rekindle
from rekindle.cli.runner import first_word, located
from rekindle.runtime.database import Database
from tests.cli.conftest import Run


def test_changes_say_epoch_rows_and_time(run: Run, warehouse: Path) -> None:
    found = run("sql", warehouse, "-e", "INSERT INTO orders VALUES (4, 8, 2.0), (5, 9, 3.0)")
    assert found.exit_code == 0
    assert "INSERT: epoch 4, 2 rows changed," in found.stdout
    assert found.stdout.rstrip().endswith("ms")


def test_queries_print_a_table(run: Run, warehouse: Path) -> None:
    found = run("sql", warehouse, "--format", "table", "-e", "SELECT * FROM spend ORDER BY cust")
    lines = [line.split() for line in found.stdout.splitlines() if line.startswith("│")]
    assert lines == [
        ["│", "cust", "│", "t", "│", "n", "│"],
        ["│", "7", "│", "10.5", "│", "2", "│"],
        ["│", "8", "│", "NULL", "│", "1", "│"],
    ]
    assert "2 rows" in found.stdout


def test_a_long_result_says_how_many_more(run: Run, warehouse: Path) -> None:
    found = run("sql", warehouse, "--format", "table", "-e", "SELECT id FROM range(73)")
    assert "50 rows, 23 more" in found.stdout
    assert sum(line.startswith("│") for line in found.stdout.splitlines()) == 51


def test_wide_rows_are_not_wrapped_in_a_pipe(run: Run, warehouse: Path) -> None:
    found = run("sql", warehouse, "--format", "table", "-e", "SELECT repeat('x', 300) AS a")
    assert "x" * 300 in found.stdout


def test_a_pipe_gets_csv(run: Run, warehouse: Path) -> None:
    found = run("sql", warehouse, "-e", "SELECT * FROM spend ORDER BY cust; SELECT 1 AS one")
    assert found.stdout == "cust,t,n\n7,10.5,2\n8,,1\n\none\n1\n"


EVERYTHING = (
    "SELECT 'a, \"b\"' AS `x,y`, '' AS empty, NULL AS none, array(1, NULL) AS l, "
    "named_struct('k', 'v') AS s, X'00ff' AS b, 1.50 AS d, TIMESTAMP '2024-07-01 23:30:00' AS z"
)


def test_csv_of_every_kind_of_value(run: Run, warehouse: Path) -> None:
    found = run("sql", warehouse, "--format", "csv", "-e", EVERYTHING)
    (row,) = csv.DictReader(io.StringIO(found.stdout))
    assert row == {
        "x,y": 'a, "b"',
        "empty": "",
        "none": "",
        "l": "[1,null]",
        "s": '{"k":"v"}',
        "b": "0x00ff",
        "d": "1.50",
        "z": "2024-07-01 23:30:00",
    }
    assert ',"",,' in found.stdout  # An empty text is not a NULL.


def test_json_has_an_object_a_line(run: Run, warehouse: Path) -> None:
    script = "INSERT INTO orders VALUES (9, 9, 9.0); SELECT * FROM spend ORDER BY cust DESC"
    found = run("sql", warehouse, "--format", "json", "-e", script)
    assert [json.loads(line) for line in found.stdout.splitlines()] == [
        {"cust": 9, "t": 9.0, "n": 1},
        {"cust": 8, "t": None, "n": 1},
        {"cust": 7, "t": 10.5, "n": 2},
    ]
    assert "INSERT: epoch 4, 1 row changed" in found.stderr


def test_all_rows_are_written_to_a_pipe(run: Run, warehouse: Path) -> None:
    found = run("sql", warehouse, "--format", "csv", "-e", "SELECT id FROM range(200) ORDER BY id")
    assert found.stdout.splitlines() == ["id", *map(str, range(200))]


def test_an_object_has_one_of_each_name(run: Run, warehouse: Path) -> None:
    found = run("sql", warehouse, "--format", "json", "-e", "SELECT 1 AS a, 2 AS a")
    assert found.exit_code == 1
    assert "several columns are called 'a'" in found.stderr
    assert run("sql", warehouse, "-e", "SELECT 1 AS a, 2 AS a").stdout == "a,a\n1,2\n"


def test_ctrl_c_is_one_line(run: Run, warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(self: Database, statement: str) -> object:
        raise KeyboardInterrupt

    monkeypatch.setattr(Database, "sql", interrupted)
    found = run("sql", warehouse, "-e", "SELECT 1")
    assert found.exit_code == 130
    assert found.stdout == ""
    assert found.stderr == "interrupted\n"
    monkeypatch.undo()
    assert run("sql", warehouse, "-e", "SELECT 1 AS a").exit_code == 0  # It was closed.


_LATE = """
import sys
from rekindle.cli.main import app, main

@app.command()
def many() -> None:
    from rekindle.cli.failures import reported
    with reported():
        {0}

sys.argv = ["rekindle", "many"]
main()
"""


@pytest.mark.parametrize(
    ("body", "code", "said"),
    [
        ("[print('x' * 100) for _ in range(100_000)]", 141, b""),
        ("import os, signal, time; os.kill(os.getpid(), signal.SIGINT); time.sleep(9)", 130, None),
    ],
    ids=["head", "ctrl-c"],
)
def test_the_process_ends_as_shells_expect(body: str, code: int, said: bytes | None) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _LATE.format(body)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        errors = process.stderr.read()
        assert process.wait(60) == code
    assert errors == (b"interrupted\n" if said is None else said)


@pytest.mark.parametrize("source", ["option", "file", "dash", "pipe"])
def test_a_script_from_every_source(run: Run, warehouse: Path, tmp_path: Path, source: str) -> None:
    script = "-- first; a comment\nDELETE FROM orders WHERE id = 1;\nSELECT count(*) c FROM orders"
    path = tmp_path / "script.sql"
    path.write_text(script)
    match source:
        case "option":
            found = run("sql", warehouse, "-e", script)
        case "file":
            found = run("sql", warehouse, "-f", path)
        case "dash":
            found = run("sql", warehouse, "-f", "-", input=script)
        case _:
            found = run("sql", warehouse, input=script)
    assert found.exit_code == 0, found.output
    assert "DELETE: epoch 4, 1 row changed" in found.stdout
    assert found.stdout.endswith("c\n2\n")


def test_the_first_error_ends_a_script_and_says_where(run: Run, warehouse: Path) -> None:
    script = (
        "INSERT INTO orders VALUES (10, 1, 1.0);\n\n"
        "-- this key is taken\nINSERT INTO orders VALUES (1, 1, 1.0);\n"
        "INSERT INTO orders VALUES (11, 1, 1.0);"
    )
    found = run("sql", warehouse, "-e", script)
    assert found.exit_code == 1
    assert "error: duplicate primary key in 'orders': id = 1" in found.stderr
    assert "(statement 2, line 4)" in found.stderr
    assert "hint:" in found.stderr
    assert "Traceback" not in found.output
    after = run("sql", warehouse, "-e", "SELECT max(id) AS newest FROM orders")
    assert after.stdout == "newest\n10\n"


def test_an_error_of_spark_has_no_java_stack(run: Run, warehouse: Path) -> None:
    found = run("sql", warehouse, "-e", "SELECT 1 / (id - id) FROM orders")
    assert found.exit_code == 1
    assert "DIVIDE_BY_ZERO" in found.stderr
    assert "\tat " not in found.stderr
    assert "Traceback" not in found.stderr


def test_two_scripts_are_refused(run: Run, warehouse: Path) -> None:
    found = run("sql", warehouse, "-e", "SELECT 1", "-f", "x.sql")
    assert found.exit_code == 1
    assert "both -e and -f" in found.stderr


def test_a_missing_script_is_named(run: Run, warehouse: Path, tmp_path: Path) -> None:
    found = run("sql", warehouse, "-f", tmp_path / "nothing.sql")
    assert found.exit_code == 1
    assert "nothing.sql' cannot be read" in found.stderr


def test_reading_beside_a_writer(run: Run, warehouse: Path) -> None:
    with rekindle.connect(str(warehouse)):
        refused = run("sql", warehouse, "-e", "SELECT 1")
        assert refused.exit_code == 1
        assert "being written to" in refused.stderr
        read = run("sql", warehouse, "--read-only", "-e", "SELECT count(*) AS c FROM orders")
        assert read.exit_code == 0, read.output


def test_read_only_refuses_changes(run: Run, warehouse: Path) -> None:
    found = run("sql", warehouse, "--read-only", "-e", "DELETE FROM orders")
    assert found.exit_code == 1
    assert "is for reading" in found.stderr


def test_reading_where_nothing_is(run: Run, tmp_path: Path) -> None:
    found = run("sql", tmp_path / "none", "--read-only", "-e", "SELECT 1")
    assert found.exit_code == 1
    assert "there is no database at" in found.stderr
    assert not (tmp_path / "none").exists()


def test_statements_keep_their_places() -> None:
    script = "select 1;\n\n/* two\n lines */ select ';\n';;\n  -- last\n  select 3"
    assert [(first_word(text), place.number, place.line) for text, place in located(script)] == [
        ("SELECT", 1, 1),
        ("SELECT", 2, 4),
        ("SELECT", 3, 7),
    ]


def test_equal_statements_have_their_own_places() -> None:
    assert [place.line for _, place in located("select 1;\nselect 1;\nselect 1")] == [1, 2, 3]
