"""AGCA text as queries.

    q[c1] = Sum(1, C(c1, n1) * C(c2, n2) * (n1 = n2))

`q[c1] = t` is a query: a map from the values of the bound variable c1 to the value of t. The rest
is the paper's notation in plain text:

    formula     φ * φ    φ + φ    φ - φ    -φ    true    false    R(x, y)    t θ t    (φ)
    term        t * t    t + t    t - t    -t    f(t, ...)    x    7    1/2    'text'
                Sum(t, φ)    m[x, y]    (t)
    θ           =    !=    <    <=    >    >=

A relation's name begins with a capital or stands in backticks; the names of variables, functions
and maps begin with a small letter, and a variable may end in primes: c'. `*` binds more tightly
than `+`; a comparison reaches as far as its sides make terms, so one that is followed by `*` is
best put in parentheses. `2.5` is read as 5/2. `-7` is a constant, `-(7)` a negation. A comment
runs from `#` to the end of its line.

The reader tries a comparison first and goes back when none is there, keeping what it has read at
each place, so that nesting does not multiply the work. An error names the furthest place reached.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import NoReturn, TypeVar, cast

from rekindle.errors import StatementError
from rekindle.frontends.agca.ast import (
    FALSE,
    TRUE,
    Aggregate,
    Atom,
    Call,
    Comparison,
    Constant,
    Formula,
    MapAccess,
    Negation,
    Operator,
    Plus,
    Product,
    Query,
    Term,
    Variable,
)

X = TypeVar("X")
_TOKEN = re.compile(
    r"""(?P<space>(?:\s+|\#[^\n]*)+)
    |(?P<number>\d+\.\d+|\d+(?:/0*[1-9]\d*)?)
    |(?P<string>'(?:[^'\\]|\\.)*')
    |(?P<relation>[A-Z]\w*|`[^`]+`)
    |(?P<name>[a-z_]\w*'*)
    |(?P<sign>!=|<=|>=|[-+*()\[\],=<>])""",
    re.VERBOSE | re.ASCII,
)
_OPERATORS = {operator.value: operator for operator in Operator}
_WORDS = {"true", "false"}


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    offset: int


class _Backtrack(Exception):
    """What was tried does not stand here."""


def parse_query(text: str) -> Query:
    """The query `name[x, ...] = term`.

    >>> parse_query("q[a] = Sum(b, R(a, b))").group
    ('a',)
    """
    return _Reader(text).whole(_Reader.query)


def parse_term(text: str) -> Term:
    """A term.

    >>> parse_term("2 * x")
    Product(left=Constant(value=2), right=Variable(name='x'))
    """
    return _Reader(text).whole(_Reader.term)


def parse_formula(text: str) -> Formula:
    """A formula.

    >>> parse_formula("R(x) * (x = y)").left
    Atom(relation='R', variables=('x',))
    """
    return _Reader(text).whole(_Reader.formula)


def _tokens(text: str) -> list[_Token]:
    found, offset = [], 0
    while offset < len(text):
        match = _TOKEN.match(text, offset)
        if match is None:
            raise _error(text, offset, f"unexpected character '{text[offset]}'", "")
        if match.lastgroup != "space":
            found.append(_Token(match.lastgroup or "", match[0], offset))
        offset = match.end()
    return [*found, _Token("end", "", len(text))]


def _error(text: str, offset: int, message: str, hint: str) -> StatementError:
    line = text.count("\n", 0, offset) + 1
    start = text.rfind("\n", 0, offset) + 1
    shown = text[start:].split("\n", 1)[0].strip()
    place = f"line {line}, column {offset - start + 1}"
    return StatementError(f"{place}: {message}", detail=f"in: {shown}", hint=hint)


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _tokens(text)
        self._position = 0
        self._furthest = 0
        self._wanted: list[str] = []
        self._read: dict[tuple[str, int], tuple[object, int] | None] = {}

    def whole(self, reading: Callable[[_Reader], X]) -> X:
        """What `reading` finds, which must reach the end of the text."""
        try:
            result = reading(self)
            if self._next.kind != "end":
                self._miss("an operator", "the end")
            return result
        except _Backtrack:
            token = self._tokens[self._furthest]
            found = f"'{token.text}'" if token.text else "the end of the text"
            wanted = " or ".join(dict.fromkeys(self._wanted))
            hint = (
                f"'{token.text}' is read as a relation; functions begin with a small letter"
                if token.kind == "relation" and token.text != "Sum"
                else ""
            )
            message = f"expected {wanted}, found {found}"
            raise _error(self._text, token.offset, message, hint) from None
        except RecursionError:
            offset = self._tokens[self._furthest].offset
            raise _error(self._text, offset, "the text is nested too deeply", "") from None

    def query(self) -> Query:
        name = self._take("name", "a query name")
        group = self._names("[", "]")
        self._sign("=")
        return Query(name, group, self.term())

    def formula(self) -> Formula:
        result = self._conjunction()
        while (sign := self._optional("+", "-")) is not None:
            right = self._conjunction()
            result = Plus(result, right if sign == "+" else Negation(right))
        return result

    def _conjunction(self) -> Formula:
        result = self._condition()
        while self._optional("*") is not None:
            result = Product(result, self._condition())
        return result

    def _condition(self) -> Formula:
        compared = self._attempt(_Reader._comparison)
        return compared if compared is not None else self._remember("formula", _Reader._single)

    def _comparison(self) -> Formula:
        left = self._remember("term", _Reader.term)
        if self._next.text not in _OPERATORS:
            self._miss("a comparison")
        operator = _OPERATORS[self._advance().text]
        return Comparison(left, operator, self._remember("term", _Reader.term))

    def _single(self) -> Formula:
        if self._optional("-") is not None:
            return Negation(self._remember("formula", _Reader._single))
        if self._optional("(") is not None:
            inner = self.formula()
            self._sign(")")
            return inner
        if self._next.text in _WORDS:
            return TRUE if self._advance().text == "true" else FALSE
        if self._next.text == "Sum":
            self._miss("a formula")
        relation = self._take("relation", "a formula")
        return Atom(relation.strip("`"), self._names("(", ")"))

    def term(self) -> Term:
        result = self._multiplication()
        while (right := self._attempt(_Reader._addend)) is not None:
            result = Plus(result, right)
        return result

    def _addend(self) -> Term:
        if self._optional("+") is not None:
            return self._multiplication()
        self._sign("-")
        return Negation(self._multiplication())

    def _multiplication(self) -> Term:
        result = self._factor()
        while (right := self._attempt(_Reader._multiplier)) is not None:
            result = Product(result, right)
        return result

    def _multiplier(self) -> Term:
        self._sign("*")
        return self._factor()

    def _factor(self) -> Term:
        token = self._next
        if token.kind == "number":
            return Constant(_number(self._advance().text))
        if token.kind == "string":
            return Constant(re.sub(r"\\(.)", r"\1", self._advance().text[1:-1], flags=re.DOTALL))
        if self._optional("-") is not None:
            if self._next.kind == "number":
                return Constant(-_number(self._advance().text))
            return Negation(self._factor())
        if self._optional("(") is not None:
            inner = self._remember("term", _Reader.term)
            self._sign(")")
            return inner
        if token.text == "Sum":
            return self._aggregate()
        name = self._take("name", "a term")
        if self._next.text == "(":
            return Call(name, self._arguments())
        if self._next.text == "[":
            return MapAccess(name, self._names("[", "]"))
        return Variable(name)

    def _aggregate(self) -> Term:
        self._advance()
        self._sign("(")
        value = self.term()
        self._sign(",")
        body = self.formula()
        self._sign(")")
        return Aggregate(value, body)

    def _arguments(self) -> tuple[Term, ...]:
        return self._listed("(", ")", _Reader.term)

    def _names(self, opening: str, closing: str) -> tuple[str, ...]:
        return self._listed(opening, closing, lambda reader: reader._take("name", "a variable"))

    def _listed(self, opening: str, closing: str, item: Callable[[_Reader], X]) -> tuple[X, ...]:
        self._sign(opening)
        if self._optional(closing) is not None:
            return ()
        found = [item(self)]
        while self._optional(",") is not None:
            found.append(item(self))
        self._sign(closing)
        return tuple(found)

    @property
    def _next(self) -> _Token:
        return self._tokens[self._position]

    def _advance(self) -> _Token:
        token = self._next
        self._position += 1
        return token

    def _take(self, kind: str, wanted: str) -> str:
        if self._next.kind != kind or self._next.text in _WORDS:
            self._miss(wanted)
        return self._advance().text

    def _sign(self, text: str) -> None:
        if self._optional(text) is None:
            self._miss(f"'{text}'")

    def _optional(self, *texts: str) -> str | None:
        if self._next.kind == "sign" and self._next.text in texts:
            return self._advance().text
        return None

    def _attempt(self, reading: Callable[[_Reader], X]) -> X | None:
        """What `reading` finds here; nothing, and the place unchanged, when it finds nothing."""
        start = self._position
        try:
            return reading(self)
        except _Backtrack:
            self._position = start
            return None

    def _remember(self, kind: str, reading: Callable[[_Reader], X]) -> X:
        """`reading`, done once for each place of the text."""
        key = (kind, self._position)
        if key not in self._read:
            found = self._attempt(reading)
            self._read[key] = None if found is None else (found, self._position)
        known = self._read[key]
        if known is None:
            raise _Backtrack
        self._position = known[1]
        return cast(X, known[0])

    def _miss(self, *wanted: str) -> NoReturn:
        if self._position > self._furthest:
            self._furthest, self._wanted = self._position, []
        if self._position == self._furthest:
            self._wanted += wanted
        raise _Backtrack


def _number(text: str) -> Fraction | int:
    value = Fraction(text)
    return value.numerator if value.denominator == 1 else value
