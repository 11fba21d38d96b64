"""Deep updates in SQL: statements that name an array by the way to it.

    INSERT INTO NESTED customers[7].orders VALUES (4, 'open', array())
    INSERT INTO NESTED customers[7].orders[okey = 3].lines (part) SELECT part FROM parts
    UPDATE NESTED customers[7].orders SET state = 'sent', total = total + 1 WHERE okey < 3
    DELETE FROM NESTED customers[7].orders[okey = 3].lines WHERE qty = 0

The row is named by its primary key: constants, in the order of the key, or `name = constant`. An
element is named by constants that it alone has. The rest are expressions of Spark over the fields
of the elements.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from rekindle.errors import StatementError
from rekindle.names import QUOTED, unquoted

_HEAD = re.compile(
    rf"\s*(?P<verb>INSERT\s+INTO|DELETE\s+FROM|UPDATE)\s+NESTED\s+(?=(?:{QUOTED}|\w+)\s*\[)",
    re.IGNORECASE,
)
_NAME = re.compile(rf"\s*(?P<name>{QUOTED}|\w+)")
_NAMED = re.compile(rf"\s*(?P<name>{QUOTED}|[A-Za-z_]\w*)\s*=(?!=)(?P<value>.*)", re.DOTALL)
_COLUMNS = re.compile(
    r"\s*\((?P<columns>[^()]*)\)\s*(?=(?:VALUES|SELECT|WITH|FROM|TABLE)\b)", re.IGNORECASE
)
_SKIPPED = re.compile(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|\w+|.", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Selector:
    """What names a row or an element: constants in SQL, by names unless they are a key's."""

    names: tuple[str, ...]
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Way:
    """The way to an array."""

    table: str
    steps: tuple[tuple[Selector, str], ...]


@dataclass(frozen=True, slots=True)
class InsertNested:
    """INSERT INTO NESTED way [(fields)] query."""

    way: Way
    columns: tuple[str, ...]
    query: str


@dataclass(frozen=True, slots=True)
class DeleteNested:
    """DELETE FROM NESTED way [WHERE condition]."""

    way: Way
    where: str | None


@dataclass(frozen=True, slots=True)
class UpdateNested:
    """UPDATE NESTED way SET field = expression, ... [WHERE condition]."""

    way: Way
    changes: tuple[tuple[str, str], ...]
    where: str | None


NestedStatement = InsertNested | DeleteNested | UpdateNested


def read_nested(text: str) -> NestedStatement | None:
    """The statement, if it is a deep update; comments have been blanked out.

    >>> read_nested("DELETE FROM NESTED c[7].orders[okey = 3].lines WHERE qty = 0").where
    'qty = 0'
    >>> read_nested("DELETE FROM nested WHERE x = 1") is None
    True
    """
    head = _HEAD.match(text)
    if head is None:
        return None
    way, rest = _way(text, head.end())
    match head["verb"].upper().split()[0]:
        case "INSERT":
            columns = _COLUMNS.match(rest)
            named = () if columns is None else tuple(_split(columns["columns"], ","))
            query = rest if columns is None else rest[columns.end() :]
            if not query.strip():
                raise _unreadable("it has no rows", "VALUES (...), or a query")
            return InsertNested(way, tuple(unquoted(name) for name in named), query)
        case "DELETE":
            before, where = _clause(rest, "WHERE")
            if before.strip():
                raise _unreadable(f"'{before.strip()}' is not expected", "WHERE condition")
            return DeleteNested(way, where)
    before, where = _clause(rest, "WHERE")
    empty, assigned = _clause(before, "SET")
    if empty.strip() or assigned is None:
        raise _unreadable("it does not say what fields become", "SET field = expression, ...")
    changes = [_NAMED.match(each) for each in _split(assigned, ",")]
    found = [(unquoted(each["name"]), each["value"].strip()) for each in changes if each]
    if len(found) < len(changes):
        raise _unreadable(f"SET {assigned.strip()}", "SET field = expression, ...")
    return UpdateNested(way, tuple(found), where)


def _way(text: str, start: int) -> tuple[Way, str]:
    """The way that begins there, and what comes after it."""
    table = _NAME.match(text, start)
    assert table is not None
    at, steps = table.end(), list[tuple[Selector, str]]()
    while True:
        opened = re.compile(r"\s*\[").match(text, at)
        if opened is None:
            break
        end = _closed(text, opened.end())
        selector = _selector(text[opened.end() : end])
        dot = re.compile(r"\s*\.").match(text, end + 1)
        field = None if dot is None else _NAME.match(text, dot.end())
        if field is None:
            raise _unreadable("a row or element has no field after it", "table[key].field")
        steps.append((selector, unquoted(field["name"])))
        at = field.end()
    return Way(unquoted(table["name"]), tuple(steps)), text[at:]


def _closed(text: str, start: int) -> int:
    """Where the bracket closes that is open there."""
    depth = 0
    for word, at in _words(text, start):
        if word in "([":
            depth += 1
        elif word in ")]":
            if depth == 0:
                return at
            depth -= 1
    raise _unreadable("a bracket is not closed", "table[key].field")


def _selector(text: str) -> Selector:
    parts = [each for part in _split(text, ",") for each in _split(part, "AND")]
    named = [_NAMED.match(each) for each in parts]
    if not parts:
        raise _unreadable("nothing stands between the brackets", "table[key].field")
    if not any(named):
        return Selector((), tuple(each.strip() for each in parts))
    found = [(unquoted(each["name"]), each["value"].strip()) for each in named if each]
    if len(found) < len(parts):
        raise _unreadable(f"[{text.strip()}]", "[name = constant AND ...]")
    return Selector(tuple(name for name, _ in found), tuple(value for _, value in found))


def _split(text: str, separator: str) -> list[str]:
    """The parts of a text between words, outside of brackets and quotes.

    >>> _split("f(a, b), ',', c", ",")
    ['f(a, b)', "','", 'c']
    """
    parts, start, depth = [], 0, 0
    for word, at in _words(text, 0):
        if word in "([":
            depth += 1
        elif word in ")]":
            depth -= 1
        elif depth == 0 and word.upper() == separator:
            parts.append(text[start:at])
            start = at + len(word)
    parts.append(text[start:])
    return [part.strip() for part in parts if part.strip()]


def _clause(text: str, word: str) -> tuple[str, str | None]:
    """What stands before a word, outside of brackets and quotes, and after it."""
    depth = 0
    for each, at in _words(text, 0):
        if each in "([":
            depth += 1
        elif each in ")]":
            depth -= 1
        elif depth == 0 and each.upper() == word:
            return text[:at], text[at + len(word) :].strip()
    return text, None


def _words(text: str, start: int) -> Iterator[tuple[str, int]]:
    """Words, quoted texts and single characters, with their places."""
    for found in _SKIPPED.finditer(text, start):
        yield found[0], found.start()


def _unreadable(detail: str, expected: str) -> StatementError:
    return StatementError(
        "the deep update cannot be read",
        detail=detail,
        hint=f"write {expected}, such as UPDATE NESTED customers[7].orders SET total = 3 "
        "WHERE okey = 1",
    )
