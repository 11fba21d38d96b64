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

The grammar has one kind of expression, a row of operands with operators between them: what is a
formula and what a term is known by the operands, and the terms between two formulae are one
comparison.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

from lark import Lark, Token, Transformer, UnexpectedInput, UnexpectedToken, v_args

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

_GRAMMAR = r"""
    query: NAME "[" names "]" "=" expression
    term: expression
    formula: expression
    names: (NAME ("," NAME)*)?
    expression: operand ((PLUS | MINUS | TIMES | EQUAL | OPERATOR) operand)*
    ?operand: NUMBER -> number
        | STRING -> string
        | NAME -> variable
        | NAME "(" (expression ("," expression)*)? ")" -> call
        | NAME "[" names "]" -> access
        | SUM "(" expression "," expression ")" -> aggregate
        | RELATION "(" names ")" -> atom
        | (TRUE | FALSE) -> truth
        | LPAR expression ")" -> group
        | MINUS operand -> negation

    NUMBER: /[0-9]+\.[0-9]+|[0-9]+(\/0*[1-9][0-9]*)?/
    STRING: /'([^'\\]|\\.)*'/
    NAME: /[a-z_][A-Za-z0-9_]*'*/
    RELATION: /[A-Z][A-Za-z0-9_]*|`[^`]+`/
    SUM: "Sum"
    TRUE: "true"
    FALSE: "false"
    LPAR: "("
    PLUS: "+"
    MINUS: "-"
    TIMES: "*"
    EQUAL: "="
    OPERATOR: /!=|<=|>=|[<>]/
    %ignore /([ \t\n\r\f\v]+|#[^\n]*)+/
"""
_WORDS = {
    "NUMBER": "a term",
    "NAME": "a variable",
    **{"RPAR": "')'", "RSQB": "']'", "COMMA": "','", "LPAR": "'('", "LSQB": "'['"},
    "TIMES": "an operator",
    "EQUAL": "'='",
}
"""What is said to be missing: the first of these that could stand there."""
_OPERATORS = {operator.value: operator for operator in Operator}
_DEEPEST = 200


@dataclass(frozen=True, slots=True)
class _Part:
    """A formula or a term, with the token that makes it one, and how deep its brackets are."""

    node: Any
    is_formula: bool
    token: Token
    depth: int = 0


class _WrongError(Exception):
    """A token stands where something else has to."""

    def __init__(self, token: Token, wanted: str) -> None:
        self.token, self.wanted = token, wanted


def parse_query(text: str) -> Query:
    """The query `name[x, ...] = term`.

    >>> parse_query("q[a] = Sum(b, R(a, b))").group
    ('a',)
    """
    found: Query = _parsed(text, "query")
    return found


def parse_term(text: str) -> Term:
    """A term.

    >>> parse_term("2 * x")
    Product(left=Constant(value=2), right=Variable(name='x'))
    """
    found: Term = _parsed(text, "term")
    return found


def parse_formula(text: str) -> Formula:
    """A formula.

    >>> parse_formula("R(x) * (x = y)").left
    Atom(relation='R', variables=('x',))
    """
    found: Formula = _parsed(text, "formula")
    return found


@cache
def _grammar() -> Lark:
    starts = ["query", "term", "formula"]
    return Lark(_GRAMMAR, parser="lalr", lexer="basic", start=starts, transformer=_Builder())


def _parsed(text: str, start: str) -> Any:
    try:
        return _grammar().parse(text, start=start)
    except _WrongError as error:
        token, wanted = error.token, error.wanted
    except UnexpectedToken as error:
        token = error.token
        able = (word for name, word in _WORDS.items() if name in error.accepts)
        wanted = next(able, "the end")
        if start == "query" and not text[: token.start_pos].strip():
            wanted = "a query name"
    except UnexpectedInput as error:
        token, wanted = Token("", text[error.pos_in_stream or 0], error.pos_in_stream), ""
    found = f"'{token}'" if token else "the end of the text"
    message = f"expected {wanted}, found {found}" if wanted else f"unexpected character {found}"
    offset = len(text) if token.type == "$END" else token.start_pos or 0
    begun = text.rfind("\n", 0, offset) + 1
    place = f"line {text.count(chr(10), 0, offset) + 1}, column {offset - begun + 1}"
    hint = f"{found} is read as a relation; functions begin with a small letter"
    raise StatementError(
        f"{place}: {message}",
        detail=f"in: {text[begun:].split(chr(10), 1)[0].strip()}",
        hint=hint if token.type == "RELATION" else "",
    )


@v_args(inline=True)
class _Builder(Transformer[Token, Any]):
    """Makes the nodes while the text is read, so that no recursion follows its depth."""

    def query(self, name: Token, group: tuple[str, ...], value: _Part) -> Query:
        return Query(str(name), group, _term(value))

    def term(self, found: _Part) -> Term:
        return _term(found)

    def formula(self, found: _Part) -> Formula:
        return _formula(found)

    def names(self, *names: Token) -> tuple[str, ...]:
        return tuple(map(str, names))

    def number(self, token: Token) -> _Part:
        value = Fraction(str(token))
        return _Part(Constant(value.numerator if value.denominator == 1 else value), False, token)

    def string(self, token: Token) -> _Part:
        value = re.sub(r"\\(.)", r"\1", token[1:-1], flags=re.DOTALL)
        return _Part(Constant(value), False, token)

    def variable(self, name: Token) -> _Part:
        return _Part(Variable(str(name)), False, name)

    def call(self, name: Token, *arguments: _Part) -> _Part:
        node = Call(str(name), tuple(map(_term, arguments)))
        return _Part(node, False, name, _below(*arguments))

    def access(self, name: Token, keys: tuple[str, ...]) -> _Part:
        return _Part(MapAccess(str(name), keys), False, name)

    def aggregate(self, token: Token, value: _Part, body: _Part) -> _Part:
        node = Aggregate(_term(value), _formula(body))
        return _Part(node, False, token, _below(value, body))

    def atom(self, relation: Token, variables: tuple[str, ...]) -> _Part:
        return _Part(Atom(relation.strip("`"), variables), True, relation)

    def truth(self, token: Token) -> _Part:
        return _Part(TRUE if token == "true" else FALSE, True, token)

    def group(self, opening: Token, inner: _Part) -> _Part:
        token = inner.token if inner.is_formula else opening
        return _Part(inner.node, inner.is_formula, token, _below(inner))

    def negation(self, minus: Token, inner: _Part) -> _Part:
        if inner.token.type == "NUMBER":
            return _Part(Constant(-inner.node.value), False, minus)
        token = inner.token if inner.is_formula else minus
        return _Part(Negation(inner.node), inner.is_formula, token, _below(inner))

    def expression(self, first: _Part, *rest: Any) -> _Part:
        """Formulae and, between them, terms that are one comparison; or one term."""
        operands, signs = [[first]], list[Token]()
        for sign, part in zip(rest[::2], rest[1::2], strict=True):
            if part.is_formula or operands[-1][-1].is_formula:
                signs.append(sign)
                operands.append([part])
            else:
                operands[-1] += [sign, part]
        found = [_run(operand) for operand in operands]
        formulae = [part for part in found if part.is_formula]
        if signs and (len(formulae) < len(found) or not _OPERATORS.keys().isdisjoint(signs)):
            raise _WrongError(formulae[-1].token, "a term")
        return _folded(found, signs)


def _run(operand: list[Any]) -> _Part:
    """One operand; or terms, of which two may be compared."""
    parts, signs = operand[::2], operand[1::2]
    compared = [i for i, sign in enumerate(signs) if sign in _OPERATORS]
    if not compared:
        return _folded(parts, signs)
    if len(compared) > 1:
        raise _WrongError(signs[compared[1]], "an operator")
    at = compared[0]
    left = _folded(parts[: at + 1], signs[:at])
    right = _folded(parts[at + 1 :], signs[at + 1 :])
    node = Comparison(left.node, _OPERATORS[signs[at]], right.node)
    return _Part(node, True, signs[at], max(left.depth, right.depth))


def _folded(parts: Sequence[_Part], signs: Sequence[Token]) -> _Part:
    """Products first, then sums, each from left to right."""
    addends, between = [parts[0].node], list[Token]()
    for sign, part in zip(signs, parts[1:], strict=True):
        if sign == "*":
            addends[-1] = Product(addends[-1], part.node)
        else:
            between.append(sign)
            addends.append(part.node)
    node = addends[0]
    for sign, addend in zip(between, addends[1:], strict=True):
        node = Plus(node, addend if sign == "+" else Negation(addend))
    return _Part(node, parts[0].is_formula, parts[0].token, max(part.depth for part in parts))


def _term(part: _Part) -> Term:
    if part.is_formula:
        raise _WrongError(part.token, "a term")
    found: Term = part.node
    return found


def _formula(part: _Part) -> Formula:
    if not part.is_formula:
        raise _WrongError(part.token, "a formula")
    found: Formula = part.node
    return found


def _below(*parts: _Part) -> int:
    """How deep brackets around the parts are."""
    deepest = max((part.depth for part in parts), default=0) + 1
    if deepest > _DEEPEST:
        token = parts[0].token
        place = f"line {token.line}, column {token.column}"
        raise StatementError(f"{place}: the text is nested too deeply")
    return deepest
