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

The grammar knows brackets and what separates; an expression is any tokens to it, for Spark to read.
Only the names of relations tell an atom from a call of a boolean function.

A rule with several heads, or with alternatives in its body, is read as several rules, and an
aggregate inside an expression as one that has a result of its own.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, TypeAlias

from lark import Lark, Token, Tree, UnexpectedInput, UnexpectedToken

from rekindle.errors import StatementError
from rekindle.names import QUOTED, unquoted

_GRAMMAR = rf"""
    program: rule*
    rule: parts (":-" options)? STOP
    options: parts (";" parts)*
    parts: part ("," part)*
    part: _piece+
    _piece: WORD | QUOTED | NUMBER | STRING | SIGN | COLON | call | brackets
    call: (WORD | QUOTED) "(" inner_parts? ")"
    brackets: "(" inner? ")" -> group | "{{" inner? "}}" -> braces | "[" inner? "]"
    inner: inner_parts (";" inner_parts)* -> options
    inner_parts: inner_part ("," inner_part)* -> parts
    inner_part: (_piece | STOP)+ -> part

    WORD: /[^\W\d]\w*/
    QUOTED: /{QUOTED}/
    NUMBER: /\d+(\.\d+)?|\.\d+/
    STRING: /'([^'\\]|\\.|'')*'|"([^"\\]|\\.)*"/s
    STOP: "."
    COLON: ":"
    SIGN: /::|[^\s\w'"`.,;:()\[\]{{}}]/
    COMMENT.1: /\/\/[^\n]*|--[^\n]*|\/\*.*?\*\//s
    %ignore COMMENT
    %ignore /\s+/
"""
_FUNCTIONS = ("count", "sum", "min", "max", "avg", "mean")
_OPERATORS = "=<>!+*/%|&^`"
"""What follows a variable that is called as a function is."""
_UNNAMED = "__"
_NAME = re.compile(r"[A-Za-z_]\w*")
_STOP = re.compile(r"\.(?!\d)")
_CLOSING = {"RPAR": ")", "RSQB": "]", "RBRACE": "}"}
_Tree: TypeAlias = Tree[Token]
_Piece: TypeAlias = Token | _Tree


@dataclass(frozen=True, slots=True)
class Place:
    """Where in the text something stands, for errors: a rule, or a column in it."""

    line: int
    text: str
    column: int | None = None

    def error(self, message: str, hint: str = "") -> StatementError:
        where = f"line {self.line}" + (f", column {self.column}" if self.column else "")
        shown = " ".join(self.text.split())
        return StatementError(f"{where}: {message}", detail=f"in: {shown}", hint=hint)

    def at(self, token: Any) -> Place:
        """Where a token of the rule is, or an error of the grammar."""
        return replace(self, line=token.line, column=token.column)


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
    rules = _trees(_parsed(text))
    heads = {_name(head).lower() for rule in rules for head in _heads(rule)}
    reader = _Reader(lambda name: name.lower() in heads or is_relation(name))
    try:
        return [rule for clause in rules for rule in reader.rules(clause)]
    except RecursionError:
        raise StatementError("the program is nested too deeply") from None


def called(text: str) -> tuple[str, str]:
    """The function of which an expression is one call, and its arguments; or nothing and itself.

    >>> called("min(d + w)"), called("min(x) + min(y)")
    (('min', 'd + w'), ('', 'min(x) + min(y)'))
    """
    try:
        match _grammar().parse(text, start="inner_part").children if "(" in text else []:
            case [Tree(data="call", children=[Token() as name, _, *inner, _])]:
                return name.lower(), _text(*inner)
    except UnexpectedInput:
        pass  # It is for Spark to say what is wrong.
    return "", text


@cache
def _grammar() -> Lark:
    return Lark(_GRAMMAR, parser="lalr", start=["program", "inner_part"], keep_all_tokens=True)


def _parsed(text: str) -> _Tree:
    try:
        return _grammar().parse(text, start="program")
    except UnexpectedInput as error:
        position = error.pos_in_stream or 0
        begun = max((stop.end() for stop in _STOP.finditer(text, 0, position)), default=0)
        rule = text[begun:].lstrip()
        line = text.count("\n", 0, len(text) - len(rule)) + 1
        raise _unreadable(error, Place(line, _STOP.split(rule)[0])) from None


def _unreadable(error: UnexpectedInput, place: Place) -> StatementError:
    if not isinstance(error, UnexpectedToken):
        return place.at(error).error("what begins with a quote here does not end")
    closing = [f"'{sign}'" for name, sign in _CLOSING.items() if name in error.accepts]
    if error.token.type == "$END":
        hint = f"{closing[0]} is missing" if closing else "end every rule and fact with a full stop"
        return place.error("a rule is not ended", hint)
    if "WORD" in error.accepts and "COMMA" not in error.accepts:
        return place.at(error).error(f"a literal is missing before '{error.token}'")
    hint = f"expected: ',' or {' or '.join(closing) or 'the end of the rule'}"
    return place.at(error).error(f"'{error.token}' cannot stand here", hint)


def _trees(tree: _Tree) -> list[_Tree]:
    return [child for child in tree.children if isinstance(child, Tree)]


def _tokens(pieces: Sequence[_Piece]) -> Iterator[Token]:
    return Tree("part", list(pieces)).scan_values(lambda each: isinstance(each, Token))


def _text(*pieces: _Piece) -> str:
    """The tokens as they are written, with a space where anything stands between them."""
    found, end = "", None
    for token in _tokens(pieces):
        found += token if end in (None, token.start_pos) else f" {token}"
        end = token.end_pos
    return found


def _name(call: _Tree) -> str:
    return unquoted(str(call.children[0]))


def _place(rule: _Tree) -> Place:
    return Place(next(_tokens([rule])).line or 1, _text(*rule.children[:-1]))


def _heads(rule: _Tree) -> Iterator[_Tree]:
    for part in _trees(_trees(rule)[0]):
        negated, head = _call(part.children)
        if negated or head is None:
            place = _place(rule).at(next(_tokens([part])))
            hint = "write relation(x, y) :- body. or relation(1, 2)."
            raise place.error(f"'{_text(part)}' is not a head", hint)
        yield head


class _Reader:
    def __init__(self, is_relation: Relations) -> None:
        self._is_relation = is_relation
        self._unnamed = itertools.count()

    def rules(self, rule: _Tree) -> Iterator[Rule]:
        place = _place(rule)
        for body in self._alternatives(_trees(rule)[1:], place) or [()]:
            for head in _heads(rule):
                name, arguments, aggregates = self._atom(head, place)
                yield Rule(Atom(name, arguments), (*body, *aggregates), place)

    def _alternatives(self, options: list[_Tree], place: Place) -> list[tuple[Literal, ...]]:
        """The conjunctions of which a body is the disjunction; none where it is empty."""
        found = []
        for option in (parts for each in options for parts in _trees(each)):
            parts = [self._part(part, place) for part in _trees(option)]
            found += [tuple(itertools.chain(*chosen)) for chosen in itertools.product(*parts)]
        return found

    def _part(self, part: _Tree, place: Place) -> list[tuple[Literal, ...]]:
        match part.children:
            case [Tree(data="group") as group] if _trees(group):
                return self._alternatives(_trees(group), place)
        return [self._literals(part.children, place)]

    def _literals(self, pieces: list[_Piece], place: Place) -> tuple[Literal, ...]:
        """A literal, after the aggregates that it contains."""
        negated, call = _call(pieces)
        if call is not None and self._is_relation(_name(call)):
            name, arguments, aggregates = self._atom(call, place)
            return (*aggregates, Atom(name, arguments, negated))
        plain, aggregates = self._hoisted(pieces, place)
        named = re.fullmatch(rf"({_NAME.pattern})\s*=\s*{_UNNAMED}\d+", plain)
        if named is not None and len(aggregates) == 1:
            return (replace(aggregates[0], result=named[1]),)
        return (*aggregates, Expression(plain))

    def _atom(self, call: _Tree, place: Place) -> tuple[str, tuple[str, ...], list[Aggregated]]:
        parts = [part for parts in _trees(call) for part in _trees(parts)]
        found = [self._hoisted(part.children, place) for part in parts]
        aggregates = [literal for _, literals in found for literal in literals]
        return _name(call), tuple(text for text, _ in found), aggregates

    def _hoisted(self, pieces: list[_Piece], place: Place) -> tuple[str, list[Aggregated]]:
        """An expression with a variable for each aggregate in it, and the aggregates."""
        found: list[Aggregated] = []
        return _text(*self._replaced(pieces, place, found)), found

    def _replaced(
        self, pieces: list[_Piece], place: Place, found: list[Aggregated]
    ) -> Iterator[_Piece]:
        left = list(pieces)
        while left:
            match piece := left.pop(0):
                case Tree(data="call", children=[name, *brackets]):
                    left[:0] = [name, Tree("group", brackets)]
                case Tree(data=data, children=children):
                    yield Tree(data, list(self._replaced(children, place, found)))
                case Token() if (colon := _colon(piece, left)) is not None:
                    result = f"{_UNNAMED}{next(self._unnamed)}"
                    body = _body(left[colon + 1 :])
                    at = place.at(piece)
                    found.append(self._aggregated(result, piece, _text(*left[:colon]), body, at))
                    del left[: colon + 1 + len(body)]
                    *_, last = _tokens(body)
                    yield Token("WORD", result, piece.start_pos, end_pos=last.end_pos)
                case Token():
                    yield piece

    def _aggregated(
        self, result: str, function: str, value: str, body: list[_Piece], place: Place
    ) -> Aggregated:
        function = function.lower()
        if not body:
            raise place.error(f"the body of '{function}' needs braces", "n = count : { ... }")
        if (function == "count") != (not value):
            raise place.error(f"'{function}' needs {'no ' * (function == 'count')}value")
        match body:
            case [Tree(data="braces") as braces]:
                options = self._alternatives(_trees(braces), place)
            case _:
                options = [self._literals(body, place)]
        if len(options) != 1:
            raise place.error(
                f"the body of '{function}' {'has alternatives' if options else 'is empty'}",
                "define a relation by a rule for each, and aggregate that",
            )
        return Aggregated(result, {"mean": "avg"}.get(function, function), value, options[0])


def _call(pieces: list[_Piece]) -> tuple[bool, _Tree | None]:
    """The call that the pieces are, if they are one, and whether it is negated."""
    match pieces:
        case [Tree(data="call") as call]:
            return False, call
        case [Token() as sign, Tree(data="call") as call] if sign.lower() in ("!", "not"):
            return True, call
    return False, None


def _colon(function: Token, after: list[_Piece]) -> int | None:
    """Where the colon stands after the value of an aggregate, if the function begins one."""
    if function.lower() not in _FUNCTIONS or (after and str(after[0])[0] in _OPERATORS):
        return None
    return next((i for i, piece in enumerate(after) if piece == ":"), None)


def _body(pieces: list[_Piece]) -> list[_Piece]:
    """The body of an aggregate with which the pieces begin: braces, or an atom."""
    match pieces:
        case [Tree(data="braces"), *_]:
            return pieces[:1]
    return next((pieces[:size] for size in (1, 2) if _call(pieces[:size])[1] is not None), [])


def is_named(text: str) -> bool:
    """Is it a variable of the program's text, and not the result of an aggregate inside one?"""
    return is_variable(text) and not re.fullmatch(rf"{_UNNAMED}\d+", text)


def is_variable(text: str) -> bool:
    return _NAME.fullmatch(text) is not None and text != "_" and text.lower() not in _WORDS


_WORDS = {"true", "false", "null"}
