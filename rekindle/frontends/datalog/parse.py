"""Datalog text as rules.

    path(x, y) :- edge(x, y).
    path(x, z) :- path(x, y), edge(y, z).
    lone(x)    :- node(x), !edge(x, _), n = count : { edge(_, x) }, n < 3.
    far(y, min(d + w)) :- far(x, d), road(x, y, w).
    busy(x), seen(x)   :- node(x), (edge(x, _) ; edge(_, x)), count : { edge(x, _) } > 3.
    root(1).

A literal is an atom, a negated atom, or any boolean expression of Spark SQL, in which aggregates
`function value : { literals }` may stand. A comma binds literals closer than a semicolon.
Comments are `// ...`, `-- ...` and `/* ... */`.

A rule with several heads, or with alternatives in its body, is read as several rules, and an
aggregate inside an expression as one that has a result of its own.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NoReturn

from rekindle.errors import StatementError
from rekindle.names import QUOTED, unquoted

_COMMENT = re.compile(r"//[^\n]*|--[^\n]*|/\*.*?\*/", re.DOTALL)
_STRING = re.compile(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\"")
_ATOM = re.compile(rf"(?P<negated>!|not\s+)?\s*(?P<name>[A-Za-z_]\w*|{QUOTED})\s*\(", re.IGNORECASE)
_AGGREGATE = re.compile(
    r"(?<![\w.`])(?P<function>count|sum|min|max|avg|mean)\b(?!\s*[=<>!+*/%|&^`])", re.IGNORECASE
)
"""A function's name, and not a variable of that name, which an operator follows."""
_UNNAMED = "__"
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
    heads = {head.name.lower() for clause, place in clauses for head in _heads(clause, place)}
    reader = _Reader(lambda name: name.lower() in heads or is_relation(name))
    return [rule for clause, place in clauses for rule in reader.rules(clause, place)]


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


def _heads(clause: str, place: Place) -> list[Atom]:
    found = []
    for written in _split(_split(clause, ":-")[0]):
        atom = _atom(written)
        if atom is None or atom.negated:
            raise place.error(
                f"'{written}' is not a head",
                hint="write relation(x, y) :- body. or relation(1, 2).",
            )
        found.append(atom)
    return found


def _atom(text: str) -> Atom | None:
    """The atom that the whole text is, if it is one."""
    match = _ATOM.match(text)
    if match is None or match.start() != 0:
        return None
    opened = match.end() - 1
    closed = closing(text, opened)
    if closed is None or text[closed + 1 :].strip():
        return None
    inner = text[opened + 1 : closed]
    arguments = tuple(_split(inner)) if inner.strip() else ()
    return Atom(unquoted(match["name"]), arguments, match["negated"] is not None)


def closing(text: str, opened: int) -> int | None:
    """Where the bracket that is opened there is closed."""
    inside = _depths(text[opened:])
    return next((opened + p for p, depth in inside if p and depth == 0), None)


class _Reader:
    def __init__(self, is_relation: Relations) -> None:
        self._is_relation = is_relation
        self._unnamed = itertools.count()

    def rules(self, clause: str, place: Place) -> Iterator[Rule]:
        bodies = _split(clause, ":-")[1:]
        if len(bodies) > 1:
            raise place.error("a rule has one ':-'")
        for body in self._alternatives(bodies[0], place) if bodies else [()]:
            for head in _heads(clause, place):
                found = [self._hoisted(argument, place) for argument in head.arguments]
                arguments = tuple(text for text, _ in found)
                aggregates = (literal for _, literals in found for literal in literals)
                yield Rule(Atom(head.name, arguments), (*body, *aggregates), place)

    def _alternatives(self, text: str, place: Place) -> list[tuple[Literal, ...]]:
        """The conjunctions of which a body is the disjunction."""
        found = []
        for option in _split(text, ";"):
            parts = [self._part(part, place) for part in _split(option)]
            found += [tuple(itertools.chain(*chosen)) for chosen in itertools.product(*parts)]
        return found

    def _part(self, text: str, place: Place) -> list[tuple[Literal, ...]]:
        if not text:
            self._fail(place, "a literal is missing", "remove the comma that has nothing beside it")
        if text[0] == "(" and closing(text, 0) == len(text) - 1:
            return self._alternatives(text[1:-1], place)
        return [self._literals(text, place)]

    def _literals(self, text: str, place: Place) -> tuple[Literal, ...]:
        """A literal, after the aggregates that it contains."""
        atom = _atom(text)
        if atom is not None and self._is_relation(atom.name):
            found = [self._hoisted(argument, place) for argument in atom.arguments]
            aggregates = tuple(literal for _, literals in found for literal in literals)
            return (*aggregates, replace(atom, arguments=tuple(text for text, _ in found)))
        plain, aggregates = self._hoisted(text, place)
        named = re.fullmatch(rf"([A-Za-z_]\w*)\s*=\s*{_UNNAMED}\d+", plain)
        if named is not None and len(aggregates) == 1:
            return (replace(aggregates[0], result=named[1]),)
        return (*aggregates, Expression(plain))

    def _hoisted(self, text: str, place: Place) -> tuple[str, tuple[Aggregated, ...]]:
        """An expression with a variable for each aggregate in it, and the aggregates."""
        found: list[Aggregated] = []
        position = 0
        strings = [match.span() for match in _STRING.finditer(text)]
        while (match := _AGGREGATE.search(text, position)) is not None:
            position = match.end()
            quoted = any(start <= match.start() < end for start, end in strings)
            colon = None if quoted else _colon(text, position)
            if colon is None:
                continue
            body, end = self._body(text, colon + 1, match[0], place)
            name = f"{_UNNAMED}{next(self._unnamed)}"
            value = text[position:colon].strip()
            found.append(self._aggregated(name, match[0].lower(), value, body, place))
            text = text[: match.start()] + name + text[end:]
            position = match.start() + len(name)
            strings = [match.span() for match in _STRING.finditer(text)]
        return text, tuple(found)

    def _body(self, text: str, start: int, function: str, place: Place) -> tuple[str, int]:
        """The text of an aggregate's body, an atom or literals in braces, and where it ends."""
        rest = text[start:]
        start += len(rest) - len(rest.lstrip())
        if text.startswith("{", start):
            closed = closing(text, start)
            if closed is not None:
                return text[start + 1 : closed], closed + 1
        atom = _ATOM.match(text, start)
        closed = None if atom is None else closing(text, atom.end() - 1)
        if closed is None:
            self._fail(place, f"the body of '{function}' needs braces", "n = count : { ... }")
        return text[start : closed + 1], closed + 1

    def _aggregated(
        self, result: str, function: str, value: str, body: str, place: Place
    ) -> Aggregated:
        if (function == "count") != (not value):
            self._fail(place, f"'{function}' needs {'no ' * (function == 'count')}value", "")
        options = self._alternatives(body, place)
        if len(options) > 1:
            self._fail(
                place,
                f"the body of '{function}' has alternatives",
                "define a relation by a rule for each, and aggregate that",
            )
        return Aggregated(result, {"mean": "avg"}.get(function, function), value, options[0])

    @staticmethod
    def _fail(place: Place, message: str, hint: str) -> NoReturn:
        raise place.error(message, hint)


def _colon(text: str, start: int) -> int | None:
    """Where the colon stands that ends an aggregate's value, if the text there is one."""
    for position, depth in _depths(text[start:]):
        here = start + position
        if depth < 0 or (depth == 0 and text[here] in ",;"):
            return None
        if depth == 0 and text[here] == ":" and "::" not in text[max(here - 1, 0) : here + 2]:
            return here
    return None


def is_named(text: str) -> bool:
    """Is it a variable of the program's text, and not the result of an aggregate inside one?"""
    return is_variable(text) and not re.fullmatch(rf"{_UNNAMED}\d+", text)


def is_variable(text: str) -> bool:
    return _NAME.fullmatch(text) is not None and text != "_" and text.lower() not in _WORDS


_WORDS = {"true", "false", "null"}
