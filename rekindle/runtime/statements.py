"""What `db.sql` understands beyond Spark's queries: the statements that name database objects."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from rekindle.errors import StatementError
from rekindle.frontends.names import QUOTED, unquoted

_NAME = rf"(?P<name>{QUOTED}|[A-Za-z_]\w*)"
_CREATE_VIEW = re.compile(
    rf"""\s*(?:(?P<alter>ALTER)|CREATE\s+(?P<replace>OR\s+REPLACE)?)\s*MATERIALIZED\s+VIEW\s+
        (?P<lenient>IF\s+NOT\s+EXISTS\s+)?{_NAME}\s*
        (?:OPTIONS\s*\((?P<options>[^)]*)\)\s*)?
        AS\b""",
    re.IGNORECASE | re.VERBOSE,
)
_DROP = re.compile(
    rf"\s*DROP\s+(?P<kind>TABLE|(?:MATERIALIZED\s+)?VIEW)\s+(?P<lenient>IF\s+EXISTS\s+)?{_NAME}\s*$",
    re.IGNORECASE,
)
_DATALOG = re.compile(r"\s*DATALOG\s", re.IGNORECASE)
_OPTION = re.compile(r"\s*([A-Za-z_]\w*)\s*=\s*'([^']*)'\s*$")
_COMMENT = re.compile(r"\s*(--[^\n]*(\n|$)|/\*.*?\*/)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class CreateView:
    """CREATE [OR REPLACE] MATERIALIZED VIEW [IF NOT EXISTS] name [OPTIONS (...)] AS query.

    ALTER MATERIALIZED VIEW name [OPTIONS (...)] AS query is the same for a view that exists.
    """

    name: str
    query: str
    options: Mapping[str, str]
    replace: bool
    lenient: bool
    alter: bool = False


@dataclass(frozen=True, slots=True)
class Drop:
    """DROP TABLE or DROP [MATERIALIZED] VIEW [IF EXISTS] name."""

    name: str
    is_view: bool
    lenient: bool


@dataclass(frozen=True, slots=True)
class Program:
    """DATALOG rules: the rest of the statement is a Datalog program."""

    text: str


def read_statement(text: str) -> CreateView | Drop | Program | None:
    """The statement, when it is one of ours; None leaves it to Spark's parser.

    The query keeps its place in the text: what stands before it is blanked out, so that positions
    in errors are those of the statement the user wrote.
    """
    start = 0
    while found := _COMMENT.match(text, start):
        start = found.end()
    body = text[start:]
    if created := _CREATE_VIEW.match(body):
        end = start + created.end()
        blank = re.sub(r"[^\n]", " ", text[:end])
        return CreateView(
            name=unquoted(created["name"]),
            query=blank + text[end:],
            options=_options(created["options"]),
            replace=created["replace"] is not None,
            lenient=created["lenient"] is not None,
            alter=created["alter"] is not None,
        )
    if program := _DATALOG.match(body):
        end = start + program.end()
        return Program(re.sub(r"[^\n]", " ", text[:end]) + text[end:])
    if dropped := _DROP.match(body):
        return Drop(
            name=unquoted(dropped["name"]),
            is_view="VIEW" in dropped["kind"].upper(),
            lenient=dropped["lenient"] is not None,
        )
    return None


def _options(text: str | None) -> dict[str, str]:
    options: dict[str, str] = {}
    for part in (text or "").split(","):
        if not part.strip():
            continue
        found = _OPTION.match(part)
        if found is None:
            raise StatementError(
                f"the option {part.strip()!r} cannot be read",
                hint="write OPTIONS (name = 'value', ...)",
            )
        name = found[1].lower()
        if name in options:
            raise StatementError(
                f"the option '{name}' is given twice",
                detail=f"as '{options[name]}' and as '{found[2]}'",
                hint="leave one of them out",
            )
        options[name] = found[2]
    return options


def split_script(script: str) -> list[str]:
    """The statements of a script, cut at semicolons outside quotes and comments.

    In Datalog a semicolon between literals means "or"; one after a full stop ends the program.

    >>> split_script("select ';'; -- a ; b\\n select 2;")
    ["select ';'", '-- a ; b\\n select 2']
    >>> split_script("datalog p(x) :- q(x) ; r(x).; select 3")
    ['datalog p(x) :- q(x) ; r(x).', 'select 3']
    """
    token = re.compile(
        r"--[^\n]*|/\*.*?\*/|'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|;", re.DOTALL
    )
    parts = []
    start = 0
    for found in token.finditer(script):
        if found[0] == ";" and not _is_alternative(script[start : found.start()]):
            parts.append(script[start : found.start()])
            start = found.end()
    parts.append(script[start:])
    stripped = [part.strip() for part in parts]
    return [part for part in stripped if _COMMENT.sub("", part).strip()]


def _is_alternative(before: str) -> bool:
    """Is a semicolon after this text one between the literals of a rule?"""
    text = _COMMENT.sub(" ", before).strip()
    return text[:7].upper() == "DATALOG" and not text.endswith(".")
