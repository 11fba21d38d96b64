"""SQL aggregates as AGCA queries.

    SELECT b, SUM(t) FROM R r1, R r2, ... WHERE φ GROUP BY b
    is q[b] = Sum(t, R(...) * R(...) * ... * φ)

Each alias gives its columns variables, `alias_column`. AND is the product; OR and NOT keep
conditions at 0 or 1: φ + ψ - φ * ψ and true - φ. COUNT(*) is SUM(1). A condition or value may
hold a scalar subquery with an aggregate, which sees the aliases around it.

What is not here has no counterpart in the calculus: DISTINCT, HAVING, outer joins, NULL. One
difference remains: a sum over nothing is 0 here and NULL in SQL.

Section 4 (from SQL to the calculus).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import NoReturn, TypeVar

from rekindle.errors import StatementError, unknown_name
from rekindle.frontends.agca.ast import (
    ONE,
    TRUE,
    Aggregate,
    Atom,
    Call,
    Comparison,
    Constant,
    Formula,
    Negation,
    Operator,
    Plus,
    Product,
    Query,
    Schema,
    Term,
    Variable,
    conjunction,
)

X = TypeVar("X")
_TOKEN = re.compile(
    r"""(?P<space>(?:\s+|--[^\n]*)+)
    |(?P<number>\d+(?:\.\d+)?)
    |(?P<string>'(?:[^']|'')*')
    |(?P<word>[A-Za-z_]\w*)
    |(?P<sign><>|!=|<=|>=|[-+*()=<>,.;])""",
    re.VERBOSE,
)
_OPERATORS = {operator.value: operator for operator in Operator} | {"<>": Operator.UNEQUAL}
_RESERVED = {"select", "from", "where", "group", "by", "and", "or", "not", "as", "sum", "count"}


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    offset: int


@dataclass(frozen=True, slots=True)
class _Scope:
    """The aliases in sight, innermost first: each with its columns."""

    aliases: Mapping[str, tuple[str, ...]]
    outer: _Scope | None = None

    def owners(self, column: str) -> list[str]:
        """The aliases that have the column, of the innermost level that has any."""
        found = [alias for alias, columns in self.aliases.items() if column in columns]
        return found or (self.outer.owners(column) if self.outer else [])

    def columns(self, alias: str) -> tuple[str, ...] | None:
        if alias in self.aliases:
            return self.aliases[alias]
        return self.outer.columns(alias) if self.outer else None

    def names(self) -> list[str]:
        return [*self.aliases, *(self.outer.names() if self.outer else ())]


def sql_to_query(text: str, schema: Schema, name: str = "q") -> Query:
    """The query that a SELECT with one aggregate stands for.

    >>> from rekindle.frontends.agca.text import written_query
    >>> sql = "SELECT a, SUM(b) FROM R WHERE b > 2 GROUP BY a"
    >>> written_query(sql_to_query(sql, {"R": ["a", "b"]}))
    'q[r_a] = Sum(r_b, R(r_a, r_b) * (r_b > 2))'
    """
    reader = _Reader(text, schema)
    group, term = reader.select(None)
    reader.end()
    return Query(name, group, term)


class _Reader:
    def __init__(self, text: str, schema: Schema) -> None:
        self._text = text
        self._relations = {relation.lower(): relation for relation in schema}
        self._schema = schema
        self._tokens = self._tokenised()
        self._position = 0

    def _tokenised(self) -> list[_Token]:
        found, offset = [], 0
        while offset < len(self._text):
            match = _TOKEN.match(self._text, offset)
            if match is None:
                self._fail(offset, f"unexpected character '{self._text[offset]}'")
            if match.lastgroup != "space":
                found.append(_Token(match.lastgroup or "", match[0], offset))
            offset = match.end()
        return [*found, _Token("end", "", len(self._text))]

    def select(self, outer: _Scope | None) -> tuple[tuple[str, ...], Term]:
        """SELECT ...: the group's variables and the aggregate."""
        self._expect("select")
        items = self._position
        self._skip_to("from")
        scope, atoms = self._from(outer)
        condition = self._condition(scope) if self._accept("where") else TRUE
        grouped = self._columns(scope) if self._accept("group") and self._expect("by") else ()
        end, self._position = self._position, items
        shown, value = self._items(scope)
        if sorted(shown) != sorted(grouped):
            self._fail(
                self._tokens[items].offset,
                "the columns beside the aggregate are not those of GROUP BY",
            )
        self._position = end
        body = conjunction([*atoms, *([] if condition == TRUE else [condition])])
        return shown, Aggregate(value, body)

    def _skip_to(self, word: str) -> None:
        """To the clause of this SELECT that begins with the word, past any parentheses."""
        depth = 0
        while depth or not self._at(word):
            if self._next.kind == "end":
                self._fail(self._next.offset, f"expected {word.upper()}")
            depth += {"(": 1, ")": -1}.get(self._next.text, 0)
            self._position += 1

    def _items(self, scope: _Scope) -> tuple[tuple[str, ...], Term]:
        shown: list[str] = []
        values: list[Term] = []
        while True:
            if self._at("sum") or self._at("count") or self._at("coalesce"):
                values.append(self._aggregate(scope))
                if self._accept("as"):
                    self._position += 1
            else:
                shown.append(self._column(scope))
            if not self._accept(","):
                break
        if len(values) != 1 or not self._at("from"):
            self._fail(self._next.offset, "expected columns and one SUM or COUNT(*)")
        return tuple(shown), values[0]

    def _aggregate(self, scope: _Scope) -> Term:
        if self._accept("coalesce"):
            self._expect("(")
            inner = self._aggregate(scope)
            for text in (",", "0", ")"):
                self._expect(text)
            return inner
        counted = self._accept("count")
        self._position += not counted
        self._expect("(")
        value = ONE if counted and self._expect("*") else self._sum(scope)
        self._expect(")")
        return value

    def _from(self, outer: _Scope | None) -> tuple[_Scope, list[Formula]]:
        self._expect("from")
        aliases: dict[str, tuple[str, ...]] = {}
        atoms: list[Formula] = []
        while True:
            token = self._next
            written = self._word("a table")
            relation = self._relations.get(written.lower())
            if relation is None:
                raise unknown_name("table", written, self._schema)
            self._accept("as")
            named = self._next.kind == "word" and self._next.text.lower() not in _RESERVED
            alias = (self._word("an alias") if named else written).lower()
            if alias in aliases or (outer is not None and alias in outer.names()):
                self._fail(token.offset, f"the alias '{alias}' is used twice")
            columns = tuple(column.lower() for column in self._schema[relation])
            aliases[alias] = columns
            atoms.append(Atom(relation, tuple(f"{alias}_{column}" for column in columns)))
            if not self._accept(","):
                return _Scope(aliases, outer), atoms

    def _columns(self, scope: _Scope) -> tuple[str, ...]:
        found = [self._column(scope)]
        while self._accept(","):
            found.append(self._column(scope))
        return tuple(found)

    def _column(self, scope: _Scope) -> str:
        token = self._next
        first = self._word("a column").lower()
        if self._accept("."):
            column = self._word("a column").lower()
            columns = scope.columns(first)
            if columns is None:
                raise unknown_name("alias", first, scope.names())
            if column not in columns:
                raise unknown_name("column", column, columns, first)
            return f"{first}_{column}"
        owners = scope.owners(first)
        if len(owners) != 1:
            problem = "belongs to several tables" if owners else "is not a column of any table"
            self._fail(token.offset, f"'{first}' {problem}")
        return f"{owners[0]}_{first}"

    def _condition(self, scope: _Scope) -> Formula:
        result = self._conjunct(scope)
        while self._accept("or"):
            right = self._conjunct(scope)
            result = Plus(Plus(result, right), Negation(Product(result, right)))
        return result

    def _conjunct(self, scope: _Scope) -> Formula:
        result = self._negated(scope)
        while self._accept("and"):
            result = Product(result, self._negated(scope))
        return result

    def _negated(self, scope: _Scope) -> Formula:
        if self._accept("not"):
            return Plus(TRUE, Negation(self._negated(scope)))
        start = self._position
        if self._accept("("):
            inner = self._attempt(lambda: self._enclosed(scope))
            if inner is not None:
                return inner
            self._position = start
        left = self._sum(scope)
        if self._next.text not in _OPERATORS:
            self._fail(self._next.offset, "expected a comparison")
        operator = _OPERATORS[self._next.text]
        self._position += 1
        return Comparison(left, operator, self._sum(scope))

    def _enclosed(self, scope: _Scope) -> Formula:
        inner = self._condition(scope)
        self._expect(")")
        return inner

    def _attempt(self, reading: Callable[[], X]) -> X | None:
        """A condition in parentheses, unless they turn out to hold a value."""
        try:
            return reading()
        except StatementError:
            return None

    def _sum(self, scope: _Scope) -> Term:
        result = self._multiple(scope)
        while self._next.text in ("+", "-"):
            minus = self._next.text == "-"
            self._position += 1
            right = self._multiple(scope)
            result = Plus(result, Negation(right) if minus else right)
        return result

    def _multiple(self, scope: _Scope) -> Term:
        result = self._single(scope)
        while self._accept("*"):
            result = Product(result, self._single(scope))
        return result

    def _single(self, scope: _Scope) -> Term:
        token = self._next
        if self._accept("-"):
            return Negation(self._single(scope))
        if self._accept("("):
            inner = self.select(scope)[1] if self._at("select") else self._sum(scope)
            self._expect(")")
            return inner
        self._position += token.kind in ("number", "string")
        if token.kind == "number":
            value = Fraction(token.text)
            return Constant(value.numerator if value.denominator == 1 else value)
        if token.kind == "string":
            return Constant(token.text[1:-1].replace("''", "'"))
        if self._tokens[self._position + 1].text == "(":
            return self._call(scope)
        return Variable(self._column(scope))

    def _call(self, scope: _Scope) -> Term:
        function = self._word("a function").lower()
        self._expect("(")
        arguments = [self._sum(scope)]
        while self._accept(","):
            arguments.append(self._sum(scope))
        self._expect(")")
        return Call(function, tuple(arguments))

    @property
    def _next(self) -> _Token:
        return self._tokens[self._position]

    def _at(self, text: str) -> bool:
        return self._next.text.lower() == text

    def _accept(self, text: str) -> bool:
        found = self._at(text)
        self._position += found
        return found

    def _expect(self, text: str) -> bool:
        if not self._accept(text):
            self._fail(self._next.offset, f"expected '{text.upper()}', found '{self._next.text}'")
        return True

    def _word(self, wanted: str) -> str:
        token = self._next
        if token.kind != "word" or token.text.lower() in _RESERVED:
            self._fail(token.offset, f"expected {wanted}, found '{token.text}'")
        self._position += 1
        return token.text

    def end(self) -> None:
        self._accept(";")
        if self._next.kind != "end":
            self._fail(self._next.offset, f"unexpected '{self._next.text}'")

    def _fail(self, offset: int, message: str) -> NoReturn:
        line = self._text.count("\n", 0, offset) + 1
        start = self._text.rfind("\n", 0, offset) + 1
        raise StatementError(
            f"line {line}, column {offset - start + 1}: {message}",
            detail=f"in: {self._text[start:].splitlines()[0] if self._text[start:] else ''}",
            hint="SELECT columns, SUM(value) FROM tables WHERE condition GROUP BY columns",
        )
