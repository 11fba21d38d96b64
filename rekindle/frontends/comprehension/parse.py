"""The text of a comprehension as an expression (`syntax.py`).

The grammar knows comprehensions, brackets and what separates; a scalar is any tokens to it, for
Spark to read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TypeAlias

from lark import Lark, Token, Tree, UnexpectedInput, UnexpectedToken

from rekindle.errors import StatementError
from rekindle.frontends.comprehension.syntax import (
    Call,
    Collect,
    Expression,
    Flatten,
    For,
    Generator,
    Group,
    Let,
    Negate,
    Path,
    Place,
    Quantified,
    Scalar,
    Tuple,
    Union,
)
from rekindle.names import QUOTED, unquoted

_THEN = "\ue000\ue001"
"""What `in` is read as, where a bracket follows and it is that of a `let`."""
_GRAMMAR = rf"""
    expression: _piece+
    _piece: _simple | yielding | collecting
    _simple: WORD | QUOTED | NUMBER | STRING | SIGN | DOT | EQUALS | UNION | AMONG
           | let | call | group | index
    yielding: FOR generators YIELD expression (ARROW expression)?
    collecting: FOR generators COLLECT expression
    generators: generator (("," | FOR) generator)*
    generator: (WORD | QUOTED) (IN | AMONG) source (WHERE source)?
    source: _simple+ | yielding | collecting
    let: LET (WORD | QUOTED) EQUALS expression (IN | THEN) expression
    call: CALL "(" (argument ("," argument)*)? ")"
    argument: inner ((WHERE | COLON) expression)?
    group: "(" (_member ("," _member)*)? ")"
    _member: inner | field
    field: (WORD | QUOTED) COLON expression
    index: "[" inner ("," inner)* "]"
    inner: (_piece | IN | ARROW)+

    FOR.5: /for\b/i
    LET.5: /let\b/i
    WHERE.5: /where\b/i
    YIELD.5: /yield\b/i
    COLLECT.5: /collect\b(?!\s*\.)/i
    UNION.5: /union\b/i
    THEN.9: "{_THEN}"
    AMONG.6: /in(?=\s*\()/i
    IN.5: /in\b/i
    CALL.4: /[^\W\d]\w*(?=\s*\()/
    WORD: /[^\W\d]\w*/
    QUOTED: /{QUOTED}/
    NUMBER: /\d+(\.\d+)?([eE][-+]?\d+)?[a-zA-Z]*|\.\d+/
    STRING: /'([^'\\]|\\.|'')*'|"([^"\\]|\\.)*"/s
    ARROW.3: "=>"
    DOT: "."
    COLON: ":"
    EQUALS: "="
    SIGN.2: /::|->|<=>|[<>!]=|<>|==|\|\||[^\s\w'"`.,;:()\[\]=]/
    COMMENT.9: /\/\/[^\n]*|--[^\n]*|\/\*.*?\*\//s
    %ignore COMMENT
    %ignore /\s+/
"""
_QUANTIFIERS = ("exists", "forall")
_OPERATORS = ("and", "or", "not", "when", "then", "else", "case", "between", "like", "is")
"""Words that are no functions when a bracket follows."""
_Tree: TypeAlias = Tree[Token]
_Part: TypeAlias = Token | _Tree


def parse(text: str, start: int = 0) -> Expression:
    """The expression that a text says from `start` on; raises `StatementError` at what it cannot.

    Places are those of the whole text.
    """
    blank = re.sub(r"[^\n]", " ", text[:start])
    try:
        return _Reader(text).expression(_grammar().parse(blank + _with_lets(text[start:])))
    except UnexpectedInput as error:
        raise _unreadable(error, text) from None
    except RecursionError:
        raise StatementError("the comprehension is nested too deeply") from None


@cache
def _grammar() -> Lark:
    return Lark(_GRAMMAR, parser="lalr", start="expression", propagate_positions=True)


_TOKEN = re.compile(
    rf"(?P<skip>//[^\n]*|--[^\n]*|/\*.*?\*/|'([^'\\]|\\.|'')*'|\"([^\"\\]|\\.)*\"|\s+)"
    rf"|(?P<name>{QUOTED}|[^\W\d]\w*)|.",
    re.DOTALL,
)


def _with_lets(text: str) -> str:
    """The text with the `in` of each `let` marked where a bracket follows: IN has one too.

    >>> _with_lets("let n = 1 in (n: n)").replace(_THEN, "->")
    'let n = 1 -> (n: n)'
    >>> _with_lets("let n = x in (1, 2) in (n: n)").replace(_THEN, "->")
    'let n = x in (1, 2) -> (n: n)'
    >>> _with_lets("let n = x in (1, 2) in n") == "let n = x in (1, 2) in n"
    True
    """
    if _THEN in text:
        return text
    opened: list[list[list[int] | None]] = [[]]
    """For each bracket that is open, what has begun in it: `let` with its places, and `for`."""
    found: list[int] = []
    before = ""

    for token in _TOKEN.finditer(text):
        if token["skip"] is not None:
            continue
        word = token[0].lower()
        begun = opened[-1]
        if word in "([":
            opened.append([])
        elif word in ")]":
            found += [places[-1] for places in begun if places]
            opened = opened[:-1] or [[]]
        elif before == ".":
            pass  # A field may be called like a word.
        elif word in ("let", "for"):
            begun.append([] if word == "let" else None)
        elif word in ("yield", "collect") and begun and begun[-1] is None:
            begun.pop()
        elif word == "in" and begun and (places := begun[-1]) is not None:
            if re.match(r"\s*\(", text[token.end() :]):
                places.append(token.start())
            else:
                begun.pop()
        before = word
    found += [places[-1] for begun in opened for places in begun if places]
    for at in found:
        text = text[:at] + _THEN + text[at + 2 :]
    return text


_WORDS = {
    "IN": "'in'",
    "AMONG": "'in'",
    "YIELD": "'yield'",
    "COLLECT": "'collect'",
    "WHERE": "'where'",
    "RPAR": "')'",
    "RSQB": "']'",
    "COMMA": "','",
    "LPAR": "'('",
    "EQUALS": "'='",
    "COLON": "':'",
    "ARROW": "'=>'",
}


_ENDING = ("YIELD", "COLLECT", "WHERE", "COMMA", "RPAR", "RSQB")
"""What comes after an expression."""


def _unreadable(error: UnexpectedInput, text: str) -> StatementError:
    if not isinstance(error, UnexpectedToken):
        place = Place(error.line, error.column, text)
        return place.error("what begins here cannot be read", "quotes and comments need an end")
    lines = text.splitlines() or [""]
    at_end = error.token.type == "$END"
    place = (
        Place(len(lines), len(lines[-1]) + 1, text)
        if at_end
        else Place(error.line, error.column, text)
    )
    accepted = [word for name, word in _WORDS.items() if name in error.accepts]
    if "NUMBER" in error.accepts:
        # Within an expression nearly anything may come: what ends it says more.
        ending = [w for name, w in _WORDS.items() if name in error.accepts and name in _ENDING]
        accepted = ending if ending or "$END" in error.accepts else ["an expression"]
    elif "WORD" in error.accepts:
        accepted = ["a name"]
    said = "the text ends too early" if at_end else f"'{error.token}' cannot stand here"
    return place.error(said, f"expected: {' or '.join(dict.fromkeys(accepted)) or 'the end'}")


class _Reader:
    """Turns the tree of one text into an expression."""

    def __init__(self, text: str) -> None:
        self._text = text

    def expression(self, tree: _Tree) -> Expression:
        return self._of_parts(list(tree.children), self._place(tree))

    def _of_parts(self, parts: Sequence[_Part], place: Place) -> Expression:
        cuts = [i for i, part in enumerate(parts) if _is(part, "UNION")]
        if cuts:
            bounds = zip([-1, *cuts], [*cuts, len(parts)], strict=True)
            sides = [parts[i + 1 : j] for i, j in bounds]
            for cut, side in zip([*cuts, cuts[-1]], sides, strict=True):
                if not side:
                    raise self._place(parts[cut]).error("a side of 'union' is missing")
            return Union(tuple(self._of_parts(side, self._place(side[0])) for side in sides), place)
        pieces = self._pieces(parts)
        if len(pieces) == 1 and not isinstance(pieces[0], str):
            return pieces[0]
        return Scalar(tuple(pieces), place)

    def _pieces(self, parts: Sequence[_Part]) -> list[str | Expression]:
        """Texts and holes, with names joined to paths and the blanks that stand between them."""
        found: list[str | Expression] = []
        end: int | None = None
        i = 0
        while i < len(parts):
            part = parts[i]
            start, stop = _span(part)
            if end is not None and start > end:
                found.append(" ")
            if isinstance(part, Token) and part.type in ("WORD", "QUOTED"):
                names = [unquoted(part)]
                while i + 2 < len(parts) and _is(parts[i + 1], "DOT") and _is_name(parts[i + 2]):
                    names.append(unquoted(str(parts[i + 2])))
                    i += 2
                stop = _span(parts[i])[1]
                found.append(Path(tuple(names), self._place(part)))
            elif isinstance(part, Token):
                found.append(str(part))
            elif part.data == "index":
                found += self._bracketed(part)
            elif part.data == "call" and str(part.children[0]).lower() in _OPERATORS:
                found += [str(part.children[0]), " ", self._operand(part)]
            else:
                found.append(self._node(part))
            end = stop
            i += 1
        return found

    def _operand(self, tree: _Tree) -> Expression:
        """What stands in brackets after a word such as AND, which looks like a call."""
        arguments = [_trees(argument)[0] for argument in _trees(tree)]
        place = self._place(tree)
        if len(arguments) != 1:
            raise place.error(f"'{tree.children[0]}' cannot stand before a list")
        return Group(self.expression(arguments[0]), place)

    def _bracketed(self, tree: _Tree) -> Iterator[str | Expression]:
        for i, inner in enumerate(_trees(tree)):
            yield ", " if i else "["
            yield from self._pieces(list(inner.children))
        yield "]"

    def _node(self, tree: _Tree) -> Expression:
        place = self._place(tree)
        children = list(tree.children)
        match tree.data:
            case "yielding":
                generators, key, *value = _trees(tree)
                given = self.expression(value[0]) if value else None
                return For(self._generators(generators), self.expression(key), given, place)
            case "collecting":
                generators, body = _trees(tree)
                return Collect(self._generators(generators), self.expression(body), place)
            case "let":
                bound, inner = (self.expression(each) for each in _trees(tree))
                return Let(unquoted(str(children[1])), bound, inner, place)
            case "call":
                return self._call(tree, place)
            case "group":
                return self._group(tree, place)
        raise AssertionError(tree.data)

    def _generators(self, tree: _Tree) -> tuple[Generator, ...]:
        found = []
        for each in _trees(tree):
            source, *condition = (self.expression(part) for part in _trees(each))
            name = unquoted(str(each.children[0]))
            found.append(
                Generator(name, source, condition[0] if condition else None, self._place(each))
            )
        return tuple(found)

    def _call(self, tree: _Tree, place: Place) -> Expression:
        name, arguments = str(tree.children[0]), _trees(tree)
        lowered = name.lower()
        parts = [list(_trees(argument)[0].children) for argument in arguments]
        if lowered in _QUANTIFIERS and len(parts) == 1 and _is_generator(parts[0]):
            variable, _, *source = parts[0]
            given = self._of_parts(source, self._place(source[0]))
            condition = [self.expression(each) for each in _trees(arguments[0])[1:]]
            generator = Generator(
                unquoted(str(variable)), given, condition[0] if condition else None, place
            )
            return Quantified(lowered, generator, place)
        for argument in arguments:
            for stray in _trees(argument)[1:]:
                raise self._place(stray).error(
                    f"'{name}' takes no condition",
                    "exists(x in source where condition) and forall(x in source: condition) do",
                )
        inner = tuple(self._of_parts(each, self._place(each[0])) for each in parts)
        if lowered in ("negate", "flatten"):
            if len(inner) != 1:
                raise place.error(f"{lowered} takes one collection, not {len(inner)}")
            return Negate(inner[0], place) if lowered == "negate" else Flatten(inner[0], place)
        return Call(name, inner, place)

    def _group(self, tree: _Tree, place: Place) -> Expression:
        members = _trees(tree)
        named = [member.data == "field" for member in members]
        if len(members) == 1 and not named[0]:
            return Group(self.expression(members[0]), place)
        if not any(named) and self._is_list(tree):
            # After IN: a list of values, which stays text.
            pieces: list[str | Expression] = ["("]
            for i, member in enumerate(members):
                pieces += [", "] if i else []
                pieces += self._pieces(list(member.children))
            return Scalar((*pieces, ")"), place)
        fields = []
        for i, member in enumerate(members, 1):
            if member.data == "field":
                name = unquoted(str(member.children[0]))
                fields.append((name, self.expression(_trees(member)[0])))
            else:
                value = self.expression(member)
                fields.append((value.names[-1] if isinstance(value, Path) else f"_{i}", value))
        return Tuple(tuple(fields), place)

    def _is_list(self, tree: _Tree) -> bool:
        before = self._text[: tree.meta.start_pos].rstrip()
        return before[-2:].lower() == "in" and not before[-3:-2].isalnum()

    def _place(self, part: _Part) -> Place:
        if isinstance(part, Token):
            return Place(part.line or 1, part.column or 1, self._text)
        return Place(part.meta.line, part.meta.column, self._text)


def _is(part: _Part, kind: str) -> bool:
    return isinstance(part, Token) and part.type == kind


def _is_name(part: _Part) -> bool:
    return _is(part, "WORD") or _is(part, "QUOTED")


def _is_generator(parts: Sequence[_Part]) -> bool:
    return len(parts) > 2 and _is_name(parts[0]) and (_is(parts[1], "IN") or _is(parts[1], "AMONG"))


def _span(part: _Part) -> tuple[int, int]:
    if isinstance(part, Token):
        return part.start_pos or 0, part.end_pos or 0
    return part.meta.start_pos, part.meta.end_pos


def _trees(tree: _Tree) -> list[_Tree]:
    return [child for child in tree.children if isinstance(child, Tree)]
