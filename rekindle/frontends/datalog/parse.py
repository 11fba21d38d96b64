"""Datalog text as rules.

    path(x, y) :- edge(x, y).
    path(x, z) :- path(x, y), edge(y, z).
    lone(x)    :- node(x), !edge(x, _), n = count : { edge(_, x) }, n < 3.
    far(y, min(d + w)) :- far(x, d), road(x, y, w).
    root(1).

A literal is an atom, a negated atom, `variable = aggregate : { literals }`, or any boolean
expression of Spark SQL. Comments are `// ...`, `-- ...` and `/* ... */`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NoReturn

from rekindle.errors import StatementError

_COMMENT = re.compile(r"//[^\n]*|--[^\n]*|/\*.*?\*/", re.DOTALL)
_STRING = re.compile(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\"")
_ATOM = re.compile(r"(?P<negated>!|not\s+)?\s*(?P<name>[A-Za-z_]\w*|`[^`]+`)\s*\(", re.IGNORECASE)
_AGGREGATE = re.compile(
    r"(?P<result>[A-Za-z_]\w*)\s*=\s*(?P<function>count|sum|min|max|avg|mean)\b(?P<rest>.*)",
    re.IGNORECASE | re.DOTALL,
)
_NAME = re.compile(r"[A-Za-z_]\w*")
_OPENING, _CLOSING = "([{", ")]}"


@dataclass(frozen=True, slots=True)
class Place:
    """Where in the text something stands, for errors."""

    line: int
    text: str

    def error(self, message: str, hint: str = "") -> StatementError:
        shown = " ".join(self.text.split())
        return StatementError(f"line {self.line}: {message}", detail=f"in: {shown}", hint=hint)


@dataclass(frozen=True, slots=True)
class Atom:
    """A relation with an expression for each column; `_` stands for any value."""

    name: str
    arguments: tuple[str, ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Aggregated:
    """`result = function value : { body }`: over all ways to satisfy the body."""

    result: str
    function: str
    value: str
    body: tuple[Literal, ...]


@dataclass(frozen=True, slots=True)
class Expression:
    """A boolean expression of Spark SQL over the rule's variables."""

    text: str


Literal = Atom | Aggregated | Expression
Relations = Callable[[str], bool]
"""Is a name that of a relation?"""


@dataclass(frozen=True, slots=True)
class Rule:
    """head :- body; a fact has no body."""

    head: Atom
    body: tuple[Literal, ...]
    place: Place


def parse_program(text: str, is_relation: Relations) -> list[Rule]:
    """The rules of a program; `is_relation` tells atoms from calls of boolean functions."""
    blanked = _blanked(text)
    clauses = list(_clauses(text, blanked))
    heads = {_head(clause, place).name.lower() for clause, place in clauses}
    reader = _Reader(lambda name: name.lower() in heads or is_relation(name))
    return [reader.rule(clause, place) for clause, place in clauses]


def _blanked(text: str) -> str:
    """The text with comments as spaces, strings kept, so that places stay where they are."""
    found = []
    position = 0
    token = re.compile(f"{_STRING.pattern}|{_COMMENT.pattern}", re.DOTALL)
    for match in token.finditer(text):
        found.append(text[position : match.start()])
        piece = match[0]
        found.append(piece if piece[0] in "'\"" else re.sub(r"[^\n]", " ", piece))
        position = match.end()
    return "".join([*found, text[position:]])


def _clauses(original: str, text: str) -> Iterator[tuple[str, Place]]:
    """The clauses, each up to the full stop that ends it."""
    start = 0
    for position, depth in _depths(text):
        ends = (
            text[position] == "." and depth == 0 and not text[position + 1 : position + 2].isdigit()
        )
        if ends:
            clause = text[start:position]
            if clause.strip():
                yield clause.strip(), _place(original, text, start)
            start = position + 1
    if text[start:].strip():
        place = _place(original, text, start)
        raise place.error("a rule is not ended", hint="end every rule and fact with a full stop")


def _place(original: str, text: str, start: int) -> Place:
    begin = start + len(text[start:]) - len(text[start:].lstrip())
    end = text.find(".", begin)
    return Place(original.count("\n", 0, begin) + 1, text[begin : end if end > 0 else None])


def _depths(text: str) -> Iterator[tuple[int, int]]:
    """Every position outside strings, with how many brackets are open there."""
    depth = position = 0
    while position < len(text):
        string = _STRING.match(text, position)
        if string is not None:
            position = string.end()
            continue
        if text[position] in _CLOSING:
            depth -= 1
        yield position, depth
        if text[position] in _OPENING:
            depth += 1
        position += 1


def _split(text: str, separator: str = ",") -> list[str]:
    """The parts between separators that stand outside brackets and strings."""
    parts, start = [], 0
    for position, depth in _depths(text):
        if depth == 0 and text.startswith(separator, position):
            parts.append(text[start:position].strip())
            start = position + len(separator)
    return [*parts, text[start:].strip()]


def _head(clause: str, place: Place) -> Atom:
    written = _split(clause, ":-")[0]
    found = _atom(written)
    if found is None or found.negated:
        raise place.error(
            f"'{written}' is not a head", hint="write relation(x, y) :- body. or relation(1, 2)."
        )
    return found


def _atom(text: str) -> Atom | None:
    """The atom that the whole text is, if it is one."""
    match = _ATOM.match(text)
    if match is None or match.start() != 0:
        return None
    opened = match.end() - 1
    closed = next((p for p, depth in _depths(text[opened:]) if p and depth == 0), None)
    if closed is None or text[opened + closed + 1 :].strip():
        return None
    inner = text[opened + 1 : opened + closed]
    arguments = tuple(_split(inner)) if inner.strip() else ()
    return Atom(match["name"].strip("`"), arguments, match["negated"] is not None)


class _Reader:
    def __init__(self, is_relation: Relations) -> None:
        self._is_relation = is_relation

    def rule(self, clause: str, place: Place) -> Rule:
        bodies = _split(clause, ":-")[1:]
        if len(bodies) > 1:
            raise place.error("a rule has one ':-'")
        body = tuple(self.literal(part, place) for part in _split(bodies[0])) if bodies else ()
        return Rule(_head(clause, place), body, place)

    def literal(self, text: str, place: Place) -> Literal:
        if not text:
            self._fail(place, "a literal is missing", "remove the comma that has nothing beside it")
        aggregated = self._aggregated(text, place)
        if aggregated is not None:
            return aggregated
        atom = _atom(text)
        if atom is not None and (atom.negated or self._is_relation(atom.name)):
            return atom
        return Expression(text)

    def _aggregated(self, text: str, place: Place) -> Aggregated | None:
        match = _AGGREGATE.fullmatch(text)
        parts = [] if match is None else _split(match["rest"], ":")
        if match is None or len(parts) != 2:
            return None
        body = parts[1].strip()
        if not (body.startswith("{") and body.endswith("}")):
            self._fail(
                place, f"the body of '{match['function']}' needs braces", "n = count : { ... }"
            )
        function = {"mean": "avg"}.get(match["function"].lower(), match["function"].lower())
        value = parts[0].strip()
        if (function == "count") != (not value):
            self._fail(place, f"'{function}' needs {'no ' * (function == 'count')}value", "")
        inner = tuple(self.literal(part, place) for part in _split(body[1:-1]))
        return Aggregated(match["result"], function, value, inner)

    @staticmethod
    def _fail(place: Place, message: str, hint: str) -> NoReturn:
        raise place.error(message, hint)


def is_variable(text: str) -> bool:
    return _NAME.fullmatch(text) is not None and text != "_" and text.lower() not in _WORDS


_WORDS = {"true", "false", "null"}
