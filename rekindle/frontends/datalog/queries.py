"""The rules of a relation as one SQL query.

A body is a product of its atoms, each variable the column where it first occurs; what it meets
again is compared. Atoms that share no variable with the others or with the head only have to hold:
they are a product of their own, of which at most one row is taken. Negated atoms are NOT EXISTS,
aggregates are scalar subqueries over the rows that satisfy their body. Types, functions and errors
in expressions are Spark's.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from rekindle.frontends.datalog.parse import (
    Aggregated,
    Atom,
    Expression,
    Literal,
    Place,
    Rule,
    called,
    is_named,
    is_variable,
)
from rekindle.frontends.datalog.program import Relation
from rekindle.names import quoted

Columns = Callable[[str, Place], Sequence[str]]
"""The columns of a relation by its name, or an error at a place."""

HOLDS = "holds"
"""The column of a relation without columns, which is true in its one row."""

_EQUATION = re.compile(r"([^=<>!]*[^=<>!\s])\s*=(?!=)\s*([^\s=].*)", re.DOTALL)
_CONNECTED = re.compile(r"\b(and|or)\b", re.IGNORECASE)
_PARAMETERS = re.compile(r"(\w+|\([\w\s,]+\))\s*->")
_ALIAS = re.compile(r"(?<![\w`.])(_\d+)\.`")
_TOKEN = re.compile(
    r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|(?<![\w.])[A-Za-z_]\w*(?!\w*\s*\()",
    re.DOTALL,
)


def column_names(relation: Relation) -> list[str]:
    """What the first rule calls the columns: its variables, or c0, c1..."""
    names: list[str] = []
    if not relation.rules[0].head.arguments:
        return [HOLDS]
    for i, argument in enumerate(relation.rules[0].head.arguments):
        _, bare = _extreme(argument)
        fresh = is_named(bare) and bare.lower() not in [n.lower() for n in names]
        names.append(bare if fresh else f"c{i}")
    return names


def query_of(relation: Relation, columns: Columns, names: Sequence[str] = ()) -> str:
    """The query that gives a relation, in which it may occur itself.

    Its columns have the given `names`: some rules of a relation call them as the first of all does.
    """
    names = names or column_names(relation)
    extremes = _extremes(relation)
    parts = [_select(rule, columns, names) for rule in relation.rules]
    whole = " UNION ALL ".join(parts)
    written = [quoted(name) for name in names]
    if not any(extremes):
        return f"SELECT DISTINCT {', '.join(written)} FROM ({whole})"
    shown = [
        f"{function}({name}) AS {name}" if function else name
        for function, name in zip(extremes, written, strict=True)
    ]
    keys = [name for function, name in zip(extremes, written, strict=True) if not function]
    grouped = f" GROUP BY {', '.join(keys)}" if keys else ""
    return f"SELECT {', '.join(shown)} FROM ({whole}){grouped}"


def _extremes(relation: Relation) -> list[str]:
    """min, max or nothing, for each column: what any of the rules says."""
    found = [""] * len(relation.rules[0].head.arguments)
    for rule in relation.rules:
        for i, argument in enumerate(rule.head.arguments):
            function, _ = _extreme(argument)
            if function and found[i] not in ("", function):
                raise rule.place.error(
                    f"'{relation.name}' takes both min and max in column {i + 1}"
                )
            found[i] = function or found[i]
    return found


def _extreme(argument: str) -> tuple[str, str]:
    """min, max or nothing, and what it is taken of."""
    function, inner = called(argument)
    return (function, inner) if function in ("min", "max") else ("", argument)


def query_of_rule(rule: Rule, columns: Columns, names: Sequence[str]) -> str:
    """The query of one rule alone."""
    return _select(rule, columns, names)


def _select(rule: Rule, columns: Columns, names: Sequence[str]) -> str:
    body = _Body(columns, rule.place)
    body.add(rule.body)
    outputs = []
    for argument, name in zip(rule.head.arguments or ("true",), names, strict=True):
        _, text = _extreme(argument)
        if text == "_":
            raise rule.place.error("a head cannot have '_'", hint="name what it should hold")
        outputs.append(f"{body.bound(text)} AS {quoted(name)}")
    shown = ", ".join(outputs)
    return f"SELECT {shown}{body.source_of(shown)}"


@dataclass
class _Body:
    """A body as FROM and WHERE, and what each variable stands for."""

    columns: Columns
    place: Place
    around: _Body | None = None
    outer: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    tables: dict[str, str] = field(default_factory=dict)
    conditions: list[str] = field(default_factory=list)
    compared: list[tuple[str, str]] = field(default_factory=list)
    named: set[str] = field(default_factory=set)
    numbers: itertools.count[int] = field(default_factory=itertools.count)

    @property
    def source(self) -> str:
        return _source(list(self.tables.values()), self.conditions)

    def source_of(self, shown: str) -> str:
        """FROM and WHERE for a set of rows of which only some columns matter."""
        together = [{alias} | self._aliases(table) for alias, table in self.tables.items()]
        together += [self._aliases(condition) for condition in self.conditions]
        groups = _groups(self._aliases(shown), together)
        if len(groups) < 2:
            return self.source
        found, left = [], list(self.conditions)
        for group in groups[1:]:
            own = [text for text in left if group & self._aliases(text)]
            left = [text for text in left if text not in own]
            inner = _source([t for alias, t in self.tables.items() if alias in group], own)
            found.append(f"(SELECT DISTINCT true AS `{HOLDS}`{inner}) AS _{next(self.numbers)}")
        main = [table for alias, table in self.tables.items() if alias in groups[0]]
        return _source([*main, *found], left)

    def _aliases(self, text: str) -> set[str]:
        """The tables of this body that a text mentions; a subquery has others besides."""
        return self.tables.keys() & set(_ALIAS.findall(text))

    def add(self, literals: Sequence[Literal]) -> None:
        self.named |= {name for literal in literals for name in self._names(literal)}
        for literal in literals:
            if isinstance(literal, Atom) and not literal.negated:
                self._read(literal)
        waiting = [x for x in literals if not isinstance(x, Atom) or x.negated]
        # Equations give variables their values, in whatever order they are written.
        while (solved := self._next_solved(waiting)) is not None:
            waiting.remove(solved)
        for place, argument in self.compared:
            self.conditions.append(f"{place} = ({self.bound(argument)})")
        for literal in waiting:
            match literal:
                case Atom():
                    self._deny(literal)
                case Expression():
                    self.conditions.append(f"({self.bound(literal.text)})")
                case Aggregated():
                    value = self._aggregate(literal)
                    self.conditions.append(f"{self._known(literal.result)} = {value}")

    def _next_solved(self, waiting: Sequence[Literal]) -> Literal | None:
        """A literal that gave a variable its value.

        An aggregate comes after the equations for what it mentions: inside it, a variable that has
        no value yet would stand for any.
        """
        targets = [name for x in waiting for name, _ in self._equations(x)]
        for literal in waiting:
            own = {name for name, _ in self._equations(literal)}
            inner = _mentioned(literal.body) if isinstance(literal, Aggregated) else set()
            if not (inner & set(targets)) - own and self._solve(literal):
                return literal
        return next((literal for literal in waiting if self._solve(literal)), None)

    def _read(self, atom: Atom) -> None:
        alias = f"_{next(self.numbers)}"
        # The rows of a relation count once; those of a rule are made distinct at its end.
        rows = quoted(atom.name)
        if self.around:
            rows = f"(SELECT DISTINCT * FROM {rows})"
        self.tables[alias] = f"{rows} AS {alias}"
        for column, argument in zip(self._columns(atom), atom.arguments, strict=True):
            place = f"{alias}.{quoted(column)}"
            if argument == "_":
                continue
            if is_variable(argument):
                self._bind(argument, place)
            else:
                self.compared.append((place, argument))

    def _bind(self, variable: str, place: str) -> None:
        known = self._find(variable)
        if known is None:
            self.variables[variable] = place
        else:
            self.conditions.append(f"{place} = {known}")

    def _columns(self, atom: Atom) -> Sequence[str]:
        columns = self.columns(atom.name, self.place)
        if not atom.arguments and list(columns) == [HOLDS]:
            return []
        if len(columns) != len(atom.arguments):
            raise self.place.error(
                f"'{atom.name}' has {len(columns)} columns, not {len(atom.arguments)}",
                hint=f"its columns are {', '.join(columns)}; write _ for those that do not matter",
            )
        return columns

    def _equations(self, literal: Literal) -> list[tuple[str, str]]:
        """The variables without a value that a literal equates with something."""
        match literal:
            case Aggregated():
                sides = [(literal.result, "")]
            case Expression():
                equation = _EQUATION.fullmatch(literal.text.strip())
                if equation is None or _is_connected(literal.text):
                    return []
                sides = [(equation[1], equation[2]), (equation[2], equation[1])]
            case Atom():
                return []
        return [(x, other) for x, other in sides if is_variable(x) and self._find(x) is None]

    def _solve(self, literal: Literal) -> bool:
        """Give a variable the value that an equation says, if all else in it is known."""
        if isinstance(literal, Expression) and self._explode(literal.text):
            return True
        for variable, other in self._equations(literal):
            if isinstance(literal, Aggregated):
                self.variables[variable] = self._aggregate(literal)
                if literal.function in ("min", "max", "avg"):
                    self.conditions.append(f"{self.variables[variable]} IS NOT NULL")
                return True
            if all(self._find(name) is not None for name in self._free(other)):
                self.variables[variable] = f"({self.bound(other)})"
                return True
        return False

    def _explode(self, text: str) -> bool:
        """Let a variable be each element of an array in turn."""
        equation = _EQUATION.fullmatch(text.strip())
        if equation is None or not is_variable(equation[1]):
            return False
        function, array = called(equation[2])
        if function != "explode" or any(self._find(name) is None for name in self._free(array)):
            return False
        alias = f"_{next(self.numbers)}"
        self.tables[alias] = f"LATERAL explode({self.bound(array)}) AS {alias}(`element`)"
        self._bind(equation[1], f"{alias}.`element`")
        return True

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
            conditions.append(f"{alias}.{quoted(column)} = ({self.bound(argument)})")
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        self.conditions.append(f"NOT EXISTS (SELECT 1 FROM {quoted(atom.name)} AS {alias}{where})")

    def _aggregate(self, literal: Aggregated) -> str:
        known = {**self.outer, **self.variables}
        inner = _Body(self.columns, self.place, self, outer=known, numbers=self.numbers)
        if any(isinstance(x, Aggregated) for x in literal.body):
            return self._nested(literal, inner)
        inner.add(literal.body)
        value = inner.bound(literal.value) if literal.value else "*"
        return f"(SELECT {_call(literal.function, value)}{inner.source})"

    def _nested(self, literal: Aggregated, inner: _Body) -> str:
        """An aggregate with an aggregate in its body.

        A subquery sees the columns of the query around it and not those further out, and Spark
        decorrelates none inside the call of a correlated aggregate. So the values of the variables
        from outside are read inside once more, the body is a query of its own with a value for
        each of them, and they are compared around it.
        """
        needed = [x for x in inner.outer if x in _mentioned([literal])]
        own = [x for x in self.conditions if set(_ALIAS.findall(x)) <= self.tables.keys()]
        shown = [f"{inner.outer[name]} AS `__{name}`" for name in needed]
        compared = [f"`__{name}` <=> {inner.outer[name]}" for name in needed]
        if needed:
            alias = f"_{next(self.numbers)}"
            source = _source(list(self.tables.values()), own)
            inner.tables[alias] = f"(SELECT DISTINCT {', '.join(shown)}{source}) AS {alias}"
            inner.outer = {name: f"{alias}.`__{name}`" for name in needed}
            shown = [inner.outer[name] for name in needed]
        inner.add(literal.body)
        value = inner.bound(literal.value) if literal.value else "1"
        rows = f"(SELECT {', '.join([f'{value} AS `value`', *shown])}{inner.source})"
        return f"(SELECT {_call(literal.function, '`value`')}{_source([rows], compared)})"

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
        bare = _parameters(text)
        return [m[0] for m in _TOKEN.finditer(text) if self._is_name(m[0]) and m[0] not in bare]

    def _is_name(self, token: str) -> bool:
        if token[0] in "'\"`" or not is_variable(token):
            return False
        return token in self.named or token in self.outer or token.upper() not in _KEYWORDS

    def _names(self, literal: Literal) -> list[str]:
        """Variables for certain, though they may be called as a word of SQL is."""
        if isinstance(literal, Atom):
            return [argument for argument in literal.arguments if is_variable(argument)]
        return [name for name, _ in self._equations(literal)]

    def bound(self, text: str) -> str:
        """An expression with each variable as what it stands for."""
        bare = _parameters(text)

        def replaced(match: re.Match[str]) -> str:
            is_name = self._is_name(match[0]) and match[0] not in bare
            return self._known(match[0]) if is_name else match[0]

        return _TOKEN.sub(replaced, text).strip()


def _call(function: str, value: str) -> str:
    call = f"{function}({value})"
    return f"coalesce({call}, 0)" if function == "sum" else call


def _source(tables: Sequence[str], conditions: Sequence[str]) -> str:
    joined = f" FROM {' CROSS JOIN '.join(tables)}" if tables else ""
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return joined + where


def _groups(first: set[str], together: Iterable[set[str]]) -> list[set[str]]:
    """The aliases that stand together, directly or not; the group of the first ones comes first."""
    groups = [first] if first else []
    for aliases in together:
        touched = [group for group in groups if group & aliases]
        joined = aliases.union(*touched)
        place = groups.index(touched[0]) if touched else len(groups)
        groups = [group for group in groups if group not in touched]
        groups[place:place] = [joined] if joined else []
    return groups


def _mentioned(body: Sequence[Literal]) -> set[str]:
    """The names in a body, those of variables among them."""
    found: set[str] = set()
    for literal in body:
        match literal:
            case Atom():
                texts: Sequence[str] = literal.arguments
            case Aggregated():
                texts = (literal.result, literal.value)
                found |= _mentioned(literal.body)
            case Expression():
                texts = (literal.text,)
        found |= {match[0] for text in texts for match in _TOKEN.finditer(text)}
    return found


def _parameters(text: str) -> set[str]:
    """The parameters of lambda functions."""
    return {name for given in _PARAMETERS.findall(text) for name in re.findall(r"\w+", given)}


def _is_connected(text: str) -> bool:
    """Does AND or OR stand outside of brackets, so that '=' is not what is done last?"""
    while (inner := re.sub(r"\([^()]*\)|'(?:[^'\\]|\\.)*'|\"[^\"]*\"", "", text)) != text:
        text = inner
    return _CONNECTED.search(re.sub(r"(?is)\bcase\b.*\bend\b", "", text)) is not None


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
        "INTEGER",
        "BINARY",
        "ARRAY",
        "MAP",
        "STRUCT",
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
