"""Statements on streams.

    CREATE STREAM [IF NOT EXISTS] clicks INTO events [MODE upsert]
        FROM json [SCHEMA 'id BIGINT, at TIMESTAMP'] [OPTIONS (path '/drops')]
        [WITH (sequence_by = 'at', rejects = 'true', interval = '5 seconds')]
    SHOW STREAMS
    DROP STREAM [IF EXISTS] clicks

OPTIONS are those of the format, WITH has what `db.stream` takes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rekindle.errors import DefinitionError, StatementError, did_you_mean
from rekindle.names import QUOTED, unquoted
from rekindle.runtime.streaming.definition import MODES, Source, StreamDefinition

_NAME = rf"(?:{QUOTED}|[A-Za-z_][\w\-]*)"
_TEXT = r"'(?:[^'\\]|\\.|'')*+'"
_SAID = rf"(?:{_TEXT}|{QUOTED}|[\w.\-]++)\s*=?\s*{_TEXT}"
_LIST = rf"\(\s*(?:{_SAID}\s*(?:,\s*{_SAID}\s*)*+)?\)"
_CREATE = re.compile(
    rf"""\s*CREATE\s+STREAM\s+(?P<lenient>IF\s+NOT\s+EXISTS\s+)?(?P<name>{_NAME})\s+
        INTO\s+(?P<table>{_NAME})\s+(?:MODE\s+(?P<mode>\w+)\s+)?
        FROM\s+(?P<format>{QUOTED}|[\w.\-]+)\s*(?:SCHEMA\s+(?P<schema>{_TEXT})\s*)?
        (?:OPTIONS\s*(?P<options>{_LIST})\s*)?(?:WITH\s*(?P<settings>{_LIST})\s*)?$""",
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)
_ANY_CREATE = re.compile(r"\s*CREATE\s+STREAM\b", re.IGNORECASE)
_DROP = re.compile(
    rf"\s*DROP\s+STREAM\s+(?P<lenient>IF\s+EXISTS\s+)?(?P<name>{_NAME})\s*$", re.IGNORECASE
)
_SHOW = re.compile(r"\s*SHOW\s+STREAMS\s*$", re.IGNORECASE)
_PAIR = re.compile(rf"(?P<name>{_TEXT}|{QUOTED}|[\w.\-]+)\s*=?\s*(?P<value>{_TEXT})", re.DOTALL)

_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "b": "\b", "0": "\0"}
"""What letters after a backslash stand for, as in texts of Spark's SQL."""
_WORDS = ("weight", "operation", "sequence_by", "apply_as_deletes", "interval", "checkpoint")
_TRUTHS = ("rejects", "available_now")
SETTINGS = (*_WORDS, *_TRUTHS, "except_columns")


@dataclass(frozen=True, slots=True)
class CreateStream:
    """CREATE STREAM [IF NOT EXISTS] name INTO table ... FROM format ...; it runs from then on."""

    name: str
    definition: StreamDefinition
    lenient: bool


@dataclass(frozen=True, slots=True)
class DropStream:
    """DROP STREAM [IF EXISTS] name."""

    name: str
    lenient: bool


@dataclass(frozen=True, slots=True)
class ShowStreams:
    """SHOW STREAMS."""


StreamStatement = CreateStream | DropStream | ShowStreams


def read_stream_statement(text: str) -> StreamStatement | None:
    """The statement, when it is one on streams; its comments are taken out.

    >>> found = read_stream_statement("create stream s into t from json options (path '/d')")
    >>> found.definition.source
    Source(format='json', options={'path': '/d'}, schema=None)
    """
    if _SHOW.match(text):
        return ShowStreams()
    if dropped := _DROP.match(text):
        return DropStream(unquoted(dropped["name"]), dropped["lenient"] is not None)
    if created := _CREATE.match(text):
        settings = _pairs("WITH", created["settings"])
        mode = (created["mode"] or MODES[0]).lower()
        schema = None if created["schema"] is None else _plain(created["schema"])
        source = Source(unquoted(created["format"]), _pairs("OPTIONS", created["options"]), schema)
        definition = StreamDefinition(
            table=unquoted(created["table"]), mode=mode, source=source, **_settings(settings)
        )
        return CreateStream(unquoted(created["name"]), definition, created["lenient"] is not None)
    if _ANY_CREATE.match(text):
        raise StatementError(
            "the definition of a stream cannot be read",
            hint="write CREATE STREAM [IF NOT EXISTS] name INTO table [MODE append|changes|upsert] "
            "FROM format [SCHEMA 'columns'] [OPTIONS (name 'value', ...)] "
            "[WITH (name = 'value', ...)]",
        )
    return None


def _settings(given: Mapping[str, str]) -> dict[str, Any]:
    """What is said in WITH, as fields of a definition."""
    found: dict[str, Any] = {}
    for title, value in given.items():
        name = title.lower()
        if name in _WORDS:
            found[name] = value
        elif name in _TRUTHS:
            if value.lower() not in ("true", "false"):
                raise DefinitionError(f"'{name}' is 'true' or 'false', not '{value}'")
            found[name] = value.lower() == "true"
        elif name == "except_columns":
            found[name] = tuple(part.strip() for part in value.split(",") if part.strip())
        else:
            raise DefinitionError(
                f"unknown setting '{title}' of a stream",
                detail=f"known: {', '.join(SETTINGS)}",
                hint=did_you_mean(name, SETTINGS) or "options of the format stand in OPTIONS (...)",
            )
    return found


def _pairs(what: str, text: str | None) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in _PAIR.finditer((text or "()")[1:-1]):
        name = _plain(pair["name"]) if pair["name"].startswith("'") else unquoted(pair["name"])
        if name in found:
            raise StatementError(f"'{name}' is given twice in {what}")
        found[name] = _plain(pair["value"])
    return found


def _plain(text: str) -> str:
    """The text between quotes.

    >>> _plain("'op = ''D'''")
    "op = 'D'"
    """
    inner = text[1:-1].replace("''", "'")
    return re.sub(r"\\(.)", lambda m: _ESCAPED.get(m[1], m[1]), inner, flags=re.DOTALL)
