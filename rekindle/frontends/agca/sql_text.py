"""AGCA queries as SQL text, for those that are one aggregate over a product.

    q[b] = Sum(t, R(b, x) * S(x, y) * φ)
    is SELECT r1.a, SUM(t) FROM R r1, S r2 WHERE r1.b = r2.c AND φ GROUP BY r1.a

A variable becomes the column where it occurs first, further occurrences become equalities. Sums
and negations of formulae have no SQL of this form and are refused; bring the query into monomials
first. Aggregates inside become scalar subqueries, with 0 for a sum over nothing.

Section 4 (from SQL to the calculus), read backwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from itertools import count
from typing import assert_never

from rekindle.errors import UnsupportedError, unknown_name
from rekindle.frontends.agca.ast import (
    Aggregate,
    Atom,
    Call,
    Comparison,
    Constant,
    Formula,
    MapAccess,
    Negation,
    Plus,
    Product,
    Query,
    Schema,
    Term,
    Truth,
    Value,
    Variable,
)
from rekindle.frontends.agca.renaming import rename_apart
from rekindle.frontends.agca.text import written
from rekindle.frontends.agca.variables import check_query, occurring


def query_to_sql(query: Query, schema: Schema) -> str:
    """A SELECT that gives the query's groups with their values.

    >>> from rekindle.frontends.agca.parse import parse_query
    >>> query = parse_query("q[a] = Sum(b, R(a, b) * S(b))")
    >>> print(query_to_sql(query, {"R": ["x", "y"], "S": ["z"]}))
    SELECT r1.x, SUM(r1.y) FROM R r1, S r2 WHERE r2.z = r1.y GROUP BY r1.x
    """
    check_query(query)
    term = rename_apart(query.term, query.group)
    if not isinstance(term, Aggregate):
        raise _no_sql(term)
    return _Writer(schema).query(term, query.group)


class _Writer:
    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._numbers = count(1)

    def query(self, term: Aggregate, group: tuple[str, ...]) -> str:
        columns: dict[str, str] = {}
        rest = self._clauses(term, columns)
        if any(name not in columns for name in group):
            raise _no_sql(term)
        shown = [columns[name] for name in group]
        selected = ", ".join([*shown, f"SUM({self._value(term.value, columns)})"])
        grouped = f" GROUP BY {', '.join(shown)}" if shown else ""
        return f"SELECT {selected}{rest}{grouped}"

    def _subquery(self, term: Aggregate, known: Mapping[str, str]) -> str:
        columns = dict(known)
        rest = self._clauses(term, columns)
        value = self._value(term.value, columns)
        outer = set(known.values())
        own = {name for name, column in columns.items() if column not in outer}
        if own.isdisjoint(occurring(term.value)):
            # SQL would take an aggregate of outer columns for one of the outer query.
            return f"({value} * (SELECT COALESCE(SUM(1), 0){rest}))"
        return f"(SELECT COALESCE(SUM({value}), 0){rest})"

    def _clauses(self, term: Aggregate, columns: dict[str, str]) -> str:
        """FROM and WHERE; the columns of the variables that they introduce are added."""
        tables: list[str] = []
        conditions: list[str] = []
        for part in _parts(term.body):
            if isinstance(part, Atom):
                tables.append(self._table(part, columns, conditions))
            else:
                self._compare(part, columns, conditions)
        if not tables:
            raise _no_sql(term)
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return f" FROM {', '.join(tables)}{where}"

    def _table(self, atom: Atom, columns: dict[str, str], conditions: list[str]) -> str:
        if atom.relation not in self._schema:
            raise unknown_name("relation", atom.relation, self._schema)
        alias = f"r{next(self._numbers)}"
        for variable, name in zip(atom.variables, self._schema[atom.relation], strict=True):
            column = f"{alias}.{name}"
            if variable in columns:
                conditions.append(f"{column} = {columns[variable]}")
            else:
                columns[variable] = column
        return f"{atom.relation} {alias}"

    def _compare(
        self, comparison: Comparison, columns: dict[str, str], conditions: list[str]
    ) -> None:
        match comparison.equated:
            case (left, right) if left in columns and right not in columns:
                columns[right] = columns[left]
            case (left, right) if right in columns and left not in columns:
                columns[left] = columns[right]
            case _:
                sides = [self._value(each, columns) for each in (comparison.left, comparison.right)]
                conditions.append(f" {comparison.operator.value} ".join(sides))

    def _value(self, term: Term, columns: Mapping[str, str]) -> str:
        match term:
            case Variable(name):
                if name not in columns:
                    raise _no_sql(term)
                return columns[name]
            case Constant(value):
                return _literal(value)
            case Plus(left, right):
                return f"({self._value(left, columns)} + {self._value(right, columns)})"
            case Product(left, right):
                return f"{self._value(left, columns)} * {self._value(right, columns)}"
            case Negation(operand):
                return f"(- {self._value(operand, columns)})"
            case Call(function, arguments):
                return f"{function}({', '.join(self._value(each, columns) for each in arguments)})"
            case Aggregate():
                return self._subquery(term, columns)
            case MapAccess():
                raise _no_sql(term)
            case _:
                assert_never(term)


def _parts(formula: Formula) -> tuple[Atom | Comparison, ...]:
    match formula:
        case Product(left, right):
            return _parts(left) + _parts(right)
        case Atom() | Comparison():
            return (formula,)
        case Truth(True):
            return ()
        case _:
            raise _no_sql(formula)


def _literal(value: Value) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    fraction = Fraction(value)
    if fraction.denominator != 1:
        raise _no_sql(Constant(value))
    return str(fraction) if fraction >= 0 else f"({fraction})"


def _no_sql(expression: Formula | Term) -> UnsupportedError:
    return UnsupportedError(
        f"'{written(expression)}' has no SQL form",
        detail="a SELECT holds one Sum over a product of relations and comparisons, whose group "
        "variables are columns",
        hint="split sums into one query each",
    )
