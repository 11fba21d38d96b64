"""The rules of a relation as one SQL query.

A body is a product of its atoms, each variable the column where it first occurs; what it meets
again is compared. Negated atoms are NOT EXISTS, aggregates are scalar subqueries over the rows that
satisfy their body. Types, functions and errors in expressions are Spark's.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from rekindle.frontends.datalog.parse import (
    Aggregated,
    Atom,
    Expression,
    Literal,
    Place,
    Rule,
    is_variable,
)
from rekindle.frontends.datalog.program import Relation

Columns = Callable[[str, Place], Sequence[str]]
"""The columns of a relation by its name, or an error at a place."""

_EXTREME = re.compile(r"(min|max)\s*\((.*)\)", re.IGNORECASE | re.DOTALL)
_TOKEN = re.compile(
    r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|(?<![\w.])[A-Za-z_]\w*(?!\w*\s*\()",
    re.DOTALL,
)


def column_names(relation: Relation) -> list[str]:
    """What the first rule calls the columns: its variables, or c0, c1..."""
    names: list[str] = []
    for i, argument in enumerate(relation.rules[0].head.arguments):
        extreme = _EXTREME.fullmatch(argument)
        bare = extreme[2].strip() if extreme else argument
        fresh = is_variable(bare) and bare.lower() not in [n.lower() for n in names]
        names.append(bare if fresh else f"c{i}")
    return names


def query_of(relation: Relation, columns: Columns) -> str:
    """The query that gives a relation, in which it may occur itself."""
    names = column_names(relation)
    extremes = _extremes(relation)
    parts = [_select(rule, columns, names) for rule in relation.rules]
    whole = " UNION ALL ".join(parts)
    quoted = [f"`{name}`" for name in names]
    if not any(extremes):
        return f"SELECT DISTINCT {', '.join(quoted)} FROM ({whole})"
    shown = [
        f"{function}({name}) AS {name}" if function else name
        for function, name in zip(extremes, quoted, strict=True)
    ]
    keys = [name for function, name in zip(extremes, quoted, strict=True) if not function]
    grouped = f" GROUP BY {', '.join(keys)}" if keys else ""
    return f"SELECT {', '.join(shown)} FROM ({whole}){grouped}"


def _extremes(relation: Relation) -> list[str]:
    """min, max or nothing, for each column: what any of the rules says."""
    found = [""] * len(relation.rules[0].head.arguments)
    for rule in relation.rules:
        for i, argument in enumerate(rule.head.arguments):
            match = _EXTREME.fullmatch(argument)
            function = "" if match is None else match[1].lower()
            if function and found[i] not in ("", function):
                raise rule.place.error(
                    f"'{relation.name}' takes both min and max in column {i + 1}"
                )
            found[i] = function or found[i]
    return found


def _select(rule: Rule, columns: Columns, names: Sequence[str]) -> str:
    body = _Body(columns, rule.place)
    body.add(rule.body)
    outputs = []
    for argument, name in zip(rule.head.arguments, names, strict=True):
        extreme = _EXTREME.fullmatch(argument)
        text = extreme[2] if extreme else argument
        if text.strip() == "_":
            raise rule.place.error("a head cannot have '_'", hint="name what it should hold")
        outputs.append(f"{body.bound(text)} AS `{name}`")
    return f"SELECT {', '.join(outputs)}{body.source}"


@dataclass
class _Body:
    """A body as FROM and WHERE, and what each variable stands for."""

    columns: Columns
    place: Place
    outer: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    tables: list[str] = field(default_factory=list)
    conditions: list[str] = field(default_factory=list)
    numbers: itertools.count[int] = field(default_factory=itertools.count)
    distinct: bool = False

    @property
    def source(self) -> str:
        tables = f" FROM {' CROSS JOIN '.join(self.tables)}" if self.tables else ""
        where = f" WHERE {' AND '.join(self.conditions)}" if self.conditions else ""
        return tables + where

    def add(self, literals: Sequence[Literal]) -> None:
        for literal in literals:
            if isinstance(literal, Atom) and not literal.negated:
                self._read(literal)
        waiting = [x for x in literals if not isinstance(x, Atom) or x.negated]
        # Equations give variables their values, in whatever order they are written.
        while True:
            solved = next((x for x in waiting if self._solve(x)), None)
            if solved is None:
                break
            waiting.remove(solved)
        for literal in waiting:
            match literal:
                case Atom():
                    self._deny(literal)
                case Expression():
                    self.conditions.append(f"({self.bound(literal.text)})")
                case Aggregated():
                    value = self._aggregate(literal)
                    self.conditions.append(f"{self._known(literal.result)} = {value}")

    def _read(self, atom: Atom) -> None:
        alias = f"_{next(self.numbers)}"
        rows = f"(SELECT DISTINCT * FROM `{atom.name}`)" if self.distinct else f"`{atom.name}`"
        self.tables.append(f"{rows} AS {alias}")
        for column, argument in zip(self._columns(atom), atom.arguments, strict=True):
            place = f"{alias}.`{column}`"
            if argument == "_":
                continue
            if is_variable(argument):
                known = self._find(argument)
                if known is None:
                    self.variables[argument] = place
                else:
                    self.conditions.append(f"{place} = {known}")
            else:
                self.conditions.append(f"{place} = ({self.bound(argument)})")

    def _columns(self, atom: Atom) -> Sequence[str]:
        columns = self.columns(atom.name, self.place)
        if len(columns) != len(atom.arguments):
            raise self.place.error(
                f"'{atom.name}' has {len(columns)} columns, not {len(atom.arguments)}",
                hint=f"its columns are {', '.join(columns)}; write _ for those that do not matter",
            )
        return columns

    def _solve(self, literal: Literal) -> bool:
        """Give a variable the value that an equation says, if all else in it is known."""
        match literal:
            case Aggregated() if self._find(literal.result) is None:
                self.variables[literal.result] = self._aggregate(literal)
                if literal.function in ("min", "max", "avg"):
                    self.conditions.append(f"{self.variables[literal.result]} IS NOT NULL")
                return True
            case Expression():
                sides = re.fullmatch(r"\s*([A-Za-z_]\w*)\s*=(?!=)(.*)", literal.text, re.DOTALL)
                if sides is None or not is_variable(sides[1]) or self._find(sides[1]) is not None:
                    return False
                if any(self._find(name) is None for name in self._free(sides[2])):
                    return False
                self.variables[sides[1]] = f"({self.bound(sides[2])})"
                return True
        return False

    def _deny(self, atom: Atom) -> None:
        alias = f"_{next(self.numbers)}"
        conditions = []
        for column, argument in zip(self._columns(atom), atom.arguments, strict=True):
            if argument == "_":
                continue
            if is_variable(argument) and self._find(argument) is None:
                raise self.place.error(
                    f"the variable '{argument}' is unsafe: it occurs only in a negation",
                    hint="bind it by a relation that is not negated, or write _",
                )
            conditions.append(f"{alias}.`{column}` = ({self.bound(argument)})")
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        self.conditions.append(f"NOT EXISTS (SELECT 1 FROM `{atom.name}` AS {alias}{where})")

    def _aggregate(self, literal: Aggregated) -> str:
        known = {**self.outer, **self.variables}
        inner = _Body(self.columns, self.place, outer=known, numbers=self.numbers, distinct=True)
        inner.add(literal.body)
        if literal.function == "count":
            return f"(SELECT count(*){inner.source})"
        value = f"{literal.function}({inner.bound(literal.value)})"
        if literal.function == "sum":
            value = f"coalesce({value}, 0)"
        return f"(SELECT {value}{inner.source})"

    def _find(self, variable: str) -> str | None:
        return self.variables.get(variable) or self.outer.get(variable)

    def _known(self, variable: str) -> str:
        found = self._find(variable)
        if found is None:
            raise self.place.error(
                f"the variable '{variable}' is unsafe: nothing in the body binds it",
                hint="use it in a relation of the body, or give it a value by an equation",
            )
        return found

    def _free(self, text: str) -> list[str]:
        return [m[0] for m in _TOKEN.finditer(text) if self._is_name(m[0])]

    @staticmethod
    def _is_name(token: str) -> bool:
        return token[0] not in "'\"`" and is_variable(token) and token.upper() not in _KEYWORDS

    def bound(self, text: str) -> str:
        """An expression with each variable as what it stands for."""

        def replaced(match: re.Match[str]) -> str:
            return self._known(match[0]) if self._is_name(match[0]) else match[0]

        return _TOKEN.sub(replaced, text).strip()


_KEYWORDS = frozenset(
    [
        "AND",
        "OR",
        "NOT",
        "IS",
        "IN",
        "LIKE",
        "ILIKE",
        "RLIKE",
        "BETWEEN",
        "CASE",
        "WHEN",
        "THEN",
        "ELSE",
        "END",
        "CAST",
        "AS",
        "NULL",
        "TRUE",
        "FALSE",
        "DISTINCT",
        "FROM",
        "ESCAPE",
        "DIV",
        "INTERVAL",
        "DATE",
        "TIMESTAMP",
        "INT",
        "BIGINT",
        "STRING",
        "DOUBLE",
        "FLOAT",
        "DECIMAL",
        "BOOLEAN",
        "SMALLINT",
        "TINYINT",
        "DAY",
        "MONTH",
        "YEAR",
        "HOUR",
        "MINUTE",
        "SECOND",
        "DAYS",
        "MONTHS",
        "YEARS",
        "HOURS",
        "MINUTES",
        "SECONDS",
    ]
)
