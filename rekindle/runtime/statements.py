"""What `db.sql` understands beyond Spark's queries: the statements that name database objects."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from rekindle.errors import StatementError
from rekindle.frontends.names import QUOTED, unquoted

_NAME = rf"(?P<name>{QUOTED}|[A-Za-z_]\w*)"
_TEXT = r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\""
_SAYING = rf"(?:COMMENT\s+(?:{_TEXT})\s*)?"
_CREATE_VIEW = re.compile(
    rf"""\s*(?:(?P<alter>ALTER)|CREATE\s+(?P<replace>OR\s+REPLACE)?)\s*MATERIALIZED\s+VIEW\s+
        (?P<lenient>IF\s+NOT\s+EXISTS\s+)?{_NAME}\s*
        {_SAYING}(?:OPTIONS\s*\((?P<options>[^)]*)\)\s*)?{_SAYING}
        AS\b""",
    re.IGNORECASE | re.VERBOSE,
)
_ANY_VIEW = re.compile(
    r"\s*(?:ALTER\s+MATERIALIZED\s+|CREATE\s+(?:OR\s+REPLACE\s+)?(?:MATERIALIZED\s+)?)VIEW\b",
    re.IGNORECASE,
)
_DROP = re.compile(
    rf"\s*DROP\s+(?P<kind>TABLE|(?:MATERIALIZED\s+)?VIEW)\s+(?P<lenient>IF\s+EXISTS\s+)?{_NAME}\s*$",
    re.IGNORECASE,
)
_DATALOG = re.compile(r"\s*DATALOG\s", re.IGNORECASE)
_OPTION = re.compile(r"\s*([A-Za-z_]\w*)\s*=\s*'([^']*)'\s*$")
_COMMENT = re.compile(r"\s*(--[^\n]*(\n|$)|/\*.*?\*/)", re.DOTALL)
_APART = rf"--[^\n]*|/\*.*?\*/|{_TEXT}|`[^`]*`"
"""Comments and quotes, inside which nothing has a meaning of its own."""


@dataclass(frozen=True, slots=True)
class CreateView:
    """CREATE [OR REPLACE] MATERIALIZED VIEW [IF NOT EXISTS] name [OPTIONS (...)] AS query.

    ALTER MATERIALIZED VIEW name [OPTIONS (...)] AS query is the same for a view that exists. A
    COMMENT 'text' beside the options has no effect.
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
    body = _without_comments(text)
    if created := _CREATE_VIEW.match(body):
        return CreateView(
            name=unquoted(created["name"]),
            query=_blank(text[: created.end()]) + text[created.end() :],
            options=_options(created["options"]),
            replace=created["replace"] is not None,
            lenient=created["lenient"] is not None,
            alter=created["alter"] is not None,
        )
    if _ANY_VIEW.match(body):
        raise StatementError(
            "the definition of a view cannot be read",
            detail="a view is MATERIALIZED, has a name of one part and the columns of its query",
            hint="write CREATE [OR REPLACE] MATERIALIZED VIEW [IF NOT EXISTS] name "
            "[COMMENT 'text'] [OPTIONS (name = 'value', ...)] AS query, or ALTER MATERIALIZED "
            "VIEW name [OPTIONS (...)] AS query",
        )
    if program := _DATALOG.match(body):
        return Program(_blank(text[: program.end()]) + text[program.end() :])
    if dropped := _DROP.match(body):
        return Drop(
            name=unquoted(dropped["name"]),
            is_view="VIEW" in dropped["kind"].upper(),
            lenient=dropped["lenient"] is not None,
        )
    return None


def verb(text: str) -> str:
    """The first word of a statement, after any comments."""
    return _without_comments(text).split()[0].upper()


def _without_comments(text: str) -> str:
    """The text with blanks for its comments; all else keeps its place.

    >>> _without_comments("a /* b */ '--' -- c")
    "a         '--'     "
    """

    def blank(found: re.Match[str]) -> str:
        return _blank(found[0]) if found[0].startswith(("--", "/*")) else found[0]

    return re.sub(_APART, blank, text, flags=re.DOTALL)


def _blank(text: str) -> str:
    """As many blanks, in lines that are as long."""
    return re.sub(r"[^\n]", " ", text)


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
    token = re.compile(f"{_APART}|;", re.DOTALL)
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
