"""What `db.sql` understands beyond Spark's queries: the statements that name database objects."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from rekindle.errors import StatementError
from rekindle.names import QUOTED, unquoted
from rekindle.runtime.nested.statements import NestedStatement, read_nested
from rekindle.runtime.streaming.stream_statements import StreamStatement, read_stream_statement

_NAME = rf"(?P<name>{QUOTED}|[A-Za-z_]\w*)"
_TEXT = r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\""
_BEFORE = rf"(?:COMMENT\s+(?P<before>{_TEXT})\s*)?"
_AFTER = rf"(?:COMMENT\s+(?P<after>{_TEXT})\s*)?"
_CREATE_VIEW = re.compile(
    rf"""\s*(?:(?P<alter>ALTER)|CREATE\s+(?P<replace>OR\s+REPLACE)?)\s*MATERIALIZED\s+VIEW\s+
        (?P<lenient>IF\s+NOT\s+EXISTS\s+)?{_NAME}\s*
        {_BEFORE}(?:OPTIONS\s*\((?P<options>[^)]*)\)\s*)?{_AFTER}
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
_SHOW_CREATE = re.compile(
    rf"\s*SHOW\s+CREATE\s+(?:MATERIALIZED\s+)?VIEW\s+{_NAME}\s*$", re.IGNORECASE
)
_REFRESH = re.compile(rf"\s*REFRESH\s+MATERIALIZED\s+VIEW\s+{_NAME}\s*$", re.IGNORECASE)
_ALTER_DATABASE = re.compile(
    r"\s*ALTER\s+DATABASE\s+SET\s*\((?P<settings>[^)]*)\)\s*$", re.IGNORECASE
)
_RETAIN = re.compile(
    r"\s*retain\s*=\s*(?P<mark>'?)(?P<epochs>\d{1,18}|all)(?P=mark)\s*$", re.IGNORECASE
)
_VACUUM = re.compile(r"\s*VACUUM\s*$", re.IGNORECASE)
_CREATE_FUNCTION = re.compile(
    rf"""\s*CREATE\s+(?P<replace>OR\s+REPLACE\s+)?FUNCTION\s+
        (?P<lenient>IF\s+NOT\s+EXISTS\s+)?(?P<name>[A-Za-z_]\w*)\s*
        (?P<parameters>\(\s*(?:(?:\w+|{QUOTED})\s*,\s*)*(?:\w+|{QUOTED})?\s*\))\s*
        (?P<word>RETURN)\b""",
    re.IGNORECASE | re.VERBOSE,
)
_DROP_FUNCTION = re.compile(
    r"\s*DROP\s+FUNCTION\s+(?P<lenient>IF\s+EXISTS\s+)?(?P<name>[A-Za-z_]\w*)\s*$", re.IGNORECASE
)
_SHOW_FUNCTIONS = re.compile(r"\s*SHOW\s+(?:USER\s+)?FUNCTIONS\s*$", re.IGNORECASE)
_DATALOG = re.compile(r"\s*DATALOG\s", re.IGNORECASE)
_OPTION = re.compile(r"\s*([A-Za-z_]\w*)\s*=\s*'([^']*)'\s*$")
_COMMENT = re.compile(r"\s*(--[^\n]*(\n|$)|/\*.*?\*/)", re.DOTALL)
_APART = rf"--[^\n]*|/\*.*?\*/|{_TEXT}|`[^`]*`"
"""Comments and quotes, inside which nothing has a meaning of its own."""


@dataclass(frozen=True, slots=True)
class CreateView:
    """CREATE [OR REPLACE] MATERIALIZED VIEW [IF NOT EXISTS] name [OPTIONS (...)] AS query.

    ALTER MATERIALIZED VIEW name [OPTIONS (...)] AS query is the same for a view that exists. A
    COMMENT 'text' beside the options is kept with the view.
    """

    name: str
    query: str
    options: Mapping[str, str]
    replace: bool
    lenient: bool
    alter: bool = False
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class Drop:
    """DROP TABLE or DROP [MATERIALIZED] VIEW [IF EXISTS] name."""

    name: str
    is_view: bool
    lenient: bool


@dataclass(frozen=True, slots=True)
class ShowCreate:
    """SHOW CREATE [MATERIALIZED] VIEW name."""

    name: str


@dataclass(frozen=True, slots=True)
class Refresh:
    """REFRESH MATERIALIZED VIEW name."""

    name: str


@dataclass(frozen=True, slots=True)
class AlterDatabase:
    """ALTER DATABASE SET (retain = epochs), where `all` keeps every epoch."""

    retain: int | str


@dataclass(frozen=True, slots=True)
class Vacuum:
    """VACUUM: removes files that no retained epoch needs."""


@dataclass(frozen=True, slots=True)
class CreateFunction:
    """CREATE [OR REPLACE] FUNCTION [IF NOT EXISTS] name(m, n) RETURN body, for comprehensions.

    The definition is `(m, n) -> body`.
    """

    name: str
    definition: str
    replace: bool
    lenient: bool


@dataclass(frozen=True, slots=True)
class DropFunction:
    """DROP FUNCTION [IF EXISTS] name."""

    name: str
    lenient: bool


@dataclass(frozen=True, slots=True)
class ShowFunctions:
    """SHOW [USER] FUNCTIONS: those that were defined for comprehensions."""


@dataclass(frozen=True, slots=True)
class Program:
    """DATALOG rules: the rest of the statement is a Datalog program."""

    text: str


def one_statement(text: object) -> str:
    """The text of one statement without the semicolons at its end."""
    if not isinstance(text, str):
        raise StatementError(
            f"a statement is a text, not a {type(text).__name__}", hint='write db.sql("SELECT ...")'
        )
    parts = split_script(text)
    if len(parts) > 1:
        raise StatementError(
            f"db.sql runs one statement, and the text has {len(parts)}",
            detail=f"the second begins with: {parts[1][:40]}",
            hint="call db.sql for each",
        )
    return text.rstrip().rstrip(";")


Statement: TypeAlias = (
    CreateView
    | CreateFunction
    | Drop
    | DropFunction
    | Program
    | Refresh
    | ShowCreate
    | ShowFunctions
    | AlterDatabase
    | Vacuum
    | NestedStatement
    | StreamStatement
)


def read_statement(text: str) -> Statement | None:
    """The statement, when it is one of ours; None leaves it to Spark's parser.

    The query keeps its place in the text: what stands before it is blanked out, so that positions
    in errors are those of the statement the user wrote.
    """
    body = without_comments(text)
    if created := _CREATE_VIEW.match(body):
        return CreateView(
            name=unquoted(created["name"]),
            query=_blank(text[: created.end()]) + text[created.end() :],
            options=_options(created["options"]),
            replace=created["replace"] is not None,
            lenient=created["lenient"] is not None,
            alter=created["alter"] is not None,
            comment=_comment(created),
        )
    if _ANY_VIEW.match(body):
        raise StatementError(
            "the definition of a view cannot be read",
            detail="a view is MATERIALIZED, has a name of one part and the columns of its query",
            hint="write CREATE [OR REPLACE] MATERIALIZED VIEW [IF NOT EXISTS] name "
            "[COMMENT 'text'] [OPTIONS (name = 'value', ...)] AS query, or ALTER MATERIALIZED "
            "VIEW name [OPTIONS (...)] AS query",
        )
    if made := _CREATE_FUNCTION.match(body):
        arrow = made["parameters"] + " -> "
        return CreateFunction(
            name=made["name"],
            definition=arrow + text[made.end() :].strip(),
            replace=made["replace"] is not None,
            lenient=made["lenient"] is not None,
        )
    if gone := _DROP_FUNCTION.match(body):
        return DropFunction(gone["name"], gone["lenient"] is not None)
    if _SHOW_FUNCTIONS.match(body):
        return ShowFunctions()
    if nested := read_nested(body):
        return nested
    if stream := read_stream_statement(body):
        return stream
    if shown := _SHOW_CREATE.match(body):
        return ShowCreate(unquoted(shown["name"]))
    if refreshed := _REFRESH.match(body):
        return Refresh(unquoted(refreshed["name"]))
    if altered := _ALTER_DATABASE.match(body):
        return AlterDatabase(_retained(altered["settings"]))
    if _VACUUM.match(body):
        return Vacuum()
    if program := _DATALOG.match(body):
        return Program(_blank(text[: program.end()]) + text[program.end() :])
    if dropped := _DROP.match(body):
        return Drop(
            name=unquoted(dropped["name"]),
            is_view="VIEW" in dropped["kind"].upper(),
            lenient=dropped["lenient"] is not None,
        )
    return None


def _retained(settings: str) -> int | str:
    found = _RETAIN.match(settings)
    if found is None:
        raise StatementError(
            f"the setting {settings.strip()!r} of a database cannot be read",
            hint="write ALTER DATABASE SET (retain = 1000), or (retain = all)",
        )
    return int(found["epochs"]) if found["epochs"].isdigit() else found["epochs"].lower()


def _comment(created: re.Match[str]) -> str | None:
    """The comment of a view, which stands before or after its options."""
    given = [text for text in (created["before"], created["after"]) if text is not None]
    if len(given) > 1:
        raise StatementError("a view has one COMMENT", detail=f"given: {given[0]} and {given[1]}")
    if not given:
        return None
    mark, inner = given[0][0], given[0][1:-1]
    if mark == "'":
        inner = inner.replace("''", "'")
    return re.sub(r"\\(.)", r"\1", inner, flags=re.DOTALL)


def verb(text: str) -> str:
    """The first word of a statement, after any comments."""
    return without_comments(text).split()[0].upper()


def without_comments(text: str) -> str:
    """The text with blanks for its comments; all else keeps its place.

    >>> without_comments("a /* b */ '--' -- c")
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
