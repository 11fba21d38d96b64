"""Statements of Spark's DML grammar, drawn at random, with what they mean written down apart.

The meaning of UPDATE, DELETE and MERGE is a function of Python over rows: no plain table of Spark
runs them. An INSERT has only its text: Spark itself runs it on a table of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

Row = tuple[Any, Any, Any]
"""(id, a, s), where s is NULL or (x, y)."""
Env = Mapping[str, Any]
COLUMNS = ("id", "a", "s")
SCHEMA = "id BIGINT, a INT, s STRUCT<x: INT, y: STRING>"

NUMBERS = st.sampled_from([None, 0, 1, 2, 3])
STRUCTS = st.none() | st.tuples(NUMBERS, st.sampled_from([None, "p", "q"]))
ROWS = st.lists(st.tuples(NUMBERS, NUMBERS, STRUCTS), max_size=4)


class Refused(Exception):
    """The statement has to be refused."""


@dataclass(frozen=True)
class Expression:
    """A text of SQL and its value for columns by their qualified names."""

    sql: str
    value: Callable[[Env], Any]


@dataclass(frozen=True)
class Assignment:
    """A column or a field of `s`, as it is written, and what it becomes."""

    path: tuple[str, ...]
    written: str
    to: Expression


@dataclass(frozen=True)
class Scope:
    """Names before columns, as texts of SQL: "" writes a column alone."""

    names: tuple[str, ...]

    def env(self, *rows: Row | None) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, row in zip(self.names, rows, strict=True):
            for column, value in zip(COLUMNS, row or (None, None, None), strict=True):
                found[f"{name}{column}"] = value
        return found


@dataclass
class Tables:
    """What the two tables hold; `keyed` tells whether `id` is the target's primary key."""

    target: list[Row]
    source: list[Row]
    keyed: bool = False
    fresh: list[Row] = field(default_factory=list)


def literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, tuple):
        return f"named_struct('x', CAST({literal(value[0])} AS INT), 'y', {literal(value[1])})"
    return f"'{value}'" if isinstance(value, str) else str(value)


@st.composite
def numbers(draw: st.DrawFn, scope: Scope) -> Expression:
    """An INT."""
    name = draw(st.sampled_from(scope.names))
    n = draw(st.integers(0, 3))
    match draw(st.sampled_from(["column", "constant", "null", "sum", "field", "query"])):
        case "column":
            return Expression(f"{name}a", lambda env: env[f"{name}a"])
        case "constant":
            return Expression(str(n), lambda env: n)
        case "null":
            return Expression("NULL", lambda env: None)
        case "sum":
            return Expression(f"{name}a + {n}", lambda env: _plus(env[f"{name}a"], n))
        case "field":
            return Expression(f"{name}s.x", lambda env: (env[f"{name}s"] or (None, None))[0])
        case _:
            return Expression(f"(SELECT max(v) FROM VALUES ({n}), (-1) AS q(v))", lambda env: n)


def _plus(one: int | None, other: int) -> int | None:
    return None if one is None else one + other


@st.composite
def conditions(draw: st.DrawFn, scope: Scope, depth: int = 1) -> Expression:
    """A condition of three values."""
    name = draw(st.sampled_from(scope.names))
    n = draw(st.integers(0, 3))
    kinds = ["key", "keys", "less", "null", "field"] + ["not", "and", "or"] * (depth > 0)
    match draw(st.sampled_from(kinds)):
        case "key":
            return Expression(f"{name}id = {n}", lambda env: _equal(env[f"{name}id"], n))
        case "keys":
            return Expression(f"{name}id IN ({n}, 3)", lambda env: _any(env[f"{name}id"], (n, 3)))
        case "less":
            return Expression(
                f"{name}a < {n}",
                lambda env: None if env[f"{name}a"] is None else env[f"{name}a"] < n,
            )
        case "null":
            return Expression(f"{name}a IS NULL", lambda env: env[f"{name}a"] is None)
        case "field":
            return Expression(
                f"{name}s.y = 'p'", lambda env: _equal((env[f"{name}s"] or (None, None))[1], "p")
            )
        case "not":
            inner = draw(conditions(scope, depth - 1))
            return Expression(
                f"NOT ({inner.sql})",
                lambda env: None if inner.value(env) is None else not inner.value(env),
            )
        case word:
            one, other = draw(conditions(scope, depth - 1)), draw(conditions(scope, depth - 1))
            fold = _and if word == "and" else _or
            return Expression(
                f"({one.sql} {word.upper()} {other.sql})",
                lambda env: fold(one.value(env), other.value(env)),
            )


def _equal(one: Any, other: Any) -> bool | None:
    return None if one is None else bool(one == other)


def _any(one: Any, others: Sequence[Any]) -> bool | None:
    return None if one is None else one in others


def _and(one: bool | None, other: bool | None) -> bool | None:
    if one is False or other is False:
        return False
    return None if one is None or other is None else True


def _or(one: bool | None, other: bool | None) -> bool | None:
    if one is True or other is True:
        return True
    return None if one is None or other is None else False


# ---- assignments -------------------------------------------------------------------------------


@st.composite
def assignments(draw: st.DrawFn, names: Sequence[str], scope: Scope) -> list[Assignment]:
    """One or two assignments, which may contradict each other."""
    found = []
    for _ in range(draw(st.sampled_from([1, 1, 1, 2, 2, 3]))):
        path = draw(st.sampled_from([("a",), ("s",), ("s", "x"), ("s", "y"), ("id",)]))
        before = draw(st.sampled_from(names))
        to: Expression
        if draw(st.integers(0, 5)) == 0:
            to = Expression("DEFAULT", lambda env: None)
        elif path == ("s",):
            struct = draw(STRUCTS)
            to = Expression(literal(struct), lambda env, struct=struct: struct)
        elif path[-1] == "y":
            to = Expression("'z'", lambda env: "z")
        else:
            to = draw(numbers(scope))
        if len(path) > 1 and to.sql == "DEFAULT":
            to = Expression("NULL", lambda env: None)
        found.append(Assignment(path, before + ".".join(path), to))
    return found


def assign(row: Row, env: Env, given: Sequence[Assignment]) -> Row:
    """The row after assignments, all of values before them."""
    paths = [each.path for each in given]
    if any(one == other[: len(one)] for i, one in enumerate(paths) for other in _but(paths, i)):
        raise Refused
    made = dict(zip(COLUMNS, row, strict=True))
    for each in given:
        if each.path[0] != "s" or len(each.path) == 1:
            made[each.path[0]] = each.to.value(env)
            continue
        x, y = made["s"] or (None, None)
        value = each.to.value(env)
        made["s"] = (value, y) if each.path[1] == "x" else (x, value)
    return (made["id"], made["a"], made["s"])


def _but(paths: Sequence[Any], place: int) -> list[Any]:
    return [*paths[:place], *paths[place + 1 :]]


def _written(given: Sequence[Assignment]) -> str:
    return ", ".join(f"{each.written} = {each.to.sql}" for each in given)


# ---- statements --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Statement:
    """A text, and the target's rows after it for the tables before; raises `Refused`."""

    sql: str
    after: Callable[[Tables], list[Row]]


@st.composite
def updates(draw: st.DrawFn, table: str) -> Statement:
    alias = draw(st.sampled_from(["", "w", "a"]))
    names = [f"{alias or table}.", ""]
    # Below an alias that is a column's name, the bare name is still the column.
    scope = Scope((draw(st.sampled_from(names)),))
    given = draw(assignments(names, scope))
    where = draw(st.none() | conditions(scope))
    sql = f"UPDATE {table} {alias and 'AS ' + alias} SET {_written(given)}"
    if where is not None:
        sql += f" WHERE {where.sql}"

    def after(tables: Tables) -> list[Row]:
        assign((None, None, None), scope.env((None, None, None)), given)
        found = []
        for row in tables.target:
            env = scope.env(row)
            hit = where is None or where.value(env) is True
            found.append(assign(row, env, given) if hit else row)
        return found

    return Statement(sql, after)


@st.composite
def deletes(draw: st.DrawFn, table: str) -> Statement:
    if draw(st.integers(0, 5)) == 0:
        word = draw(st.sampled_from(["TRUNCATE TABLE", "DELETE FROM"]))
        return Statement(f"{word} {table}", lambda tables: [])
    alias = draw(st.sampled_from(["", "w"]))
    scope = Scope((draw(st.sampled_from([f"{alias or table}.", ""])),))
    where = draw(conditions(scope))
    query = draw(st.sampled_from(["", "EXISTS", "IN"]))
    outer = alias or table
    tests = {
        "": where.sql,
        "EXISTS": f"{where.sql} AND EXISTS (SELECT 1 FROM gu AS o WHERE o.id = {outer}.id)",
        "IN": f"{where.sql} AND {outer}.id IN (SELECT id FROM gu WHERE id IS NOT NULL)",
    }

    def after(tables: Tables) -> list[Row]:
        there = {row[0] for row in tables.source if row[0] is not None}
        return [
            row
            for row in tables.target
            if where.value(scope.env(row)) is not True or (query and row[0] not in there)
        ]

    return Statement(f"DELETE FROM {table} {alias} WHERE {tests[query]}", after)


@dataclass(frozen=True)
class Clause:
    condition: Expression | None
    kind: str
    given: list[Assignment]

    def applies(self, env: Env) -> bool:
        return self.condition is None or self.condition.value(env) is True

    def sql(self, header: str) -> str:
        when = f" AND {self.condition.sql}" if self.condition is not None else ""
        match self.kind:
            case "delete":
                action = "DELETE"
            case "update":
                action = f"UPDATE SET {_written(self.given)}"
            case "update *":
                action = "UPDATE SET *"
            case "insert *":
                action = "INSERT *"
            case _:
                columns = ", ".join(each.written for each in self.given)
                values = ", ".join(each.to.sql for each in self.given)
                action = f"INSERT ({columns}) VALUES ({values})"
        return f"WHEN {header}{when} THEN {action}"


@st.composite
def clauses(
    draw: st.DrawFn, kinds: Sequence[str], scope: Scope, names: Sequence[str]
) -> list[Clause]:
    found = []
    count = draw(st.integers(0, 2))
    for i in range(count):
        kind = draw(st.sampled_from(kinds))
        condition = draw(conditions(scope, 0)) if i < count - 1 or draw(st.booleans()) else None
        given: list[Assignment] = []
        if kind == "update":
            given = draw(assignments(names, scope))
        elif kind == "insert":
            columns = draw(st.lists(st.sampled_from(["id", "a"]), min_size=1, max_size=2))
            given = [Assignment((c,), c, draw(numbers(scope))) for c in columns]
        found.append(Clause(condition, kind, given))
    return found


@st.composite
def merges(draw: st.DrawFn, table: str) -> Statement:
    alias = draw(st.sampled_from(["", "w"]))
    target, source = f"{alias or table}.", "q."
    using = draw(st.sampled_from(["gu AS q", "(SELECT * FROM gu) q"]))
    both, mine, other = Scope((target, source)), Scope((target,)), Scope((source,))
    matched = draw(clauses(["update", "update", "update *", "delete"], both, [target, ""]))
    unmatched = draw(clauses(["insert", "insert *"], other, [""]))
    orphaned = draw(clauses(["update", "delete"], mine, [target, ""]))
    if not (matched or unmatched or orphaned):
        matched = [Clause(None, "delete", [])]
    more = draw(st.none() | conditions(both, 0))
    on = f"{target}id = {source}id" + (f" AND {more.sql}" if more is not None else "")
    parts = [
        *(each.sql("MATCHED") for each in matched),
        *(each.sql("NOT MATCHED") for each in unmatched),
        *(each.sql("NOT MATCHED BY SOURCE") for each in orphaned),
    ]
    sql = f"MERGE INTO {table} {alias} USING {using} ON {on} " + " ".join(parts)

    def pairs(row: Row, theirs: Row) -> bool:
        if row[0] is None or theirs[0] is None or row[0] != theirs[0]:
            return False
        return more is None or more.value(both.env(row, theirs)) is True

    def changed(
        row: Row, env: Env, tried: Sequence[Clause], theirs: Row | None = None
    ) -> list[Row]:
        for each in tried:
            if each.applies(env):
                if each.kind == "delete":
                    return []
                if each.kind == "update *":
                    assert theirs is not None
                    return [theirs]
                return [assign(row, env, each.given)]
        return [row]

    def after(tables: Tables) -> list[Row]:
        nothing: Row = (None, None, None)
        for each in [*matched, *orphaned]:
            assign(nothing, both.env(nothing, nothing), each.given)
        for each in unmatched:
            if len({a.path for a in each.given}) < len(each.given):
                raise Refused
        lone = len(matched) == 1 and matched[0].kind == "delete" and matched[0].condition is None
        found: list[Row] = []
        for row in tables.target:
            hits = [theirs for theirs in tables.source if pairs(row, theirs)]
            if len(hits) > 1 and matched and not lone:
                raise Refused
            if hits:
                found += changed(row, both.env(row, hits[0]), matched, hits[0])
            else:
                found += changed(row, mine.env(row), orphaned)
        for theirs in tables.source:
            if any(pairs(row, theirs) for row in tables.target):
                continue
            env = other.env(theirs)
            for each in unmatched:
                if each.applies(env):
                    made = theirs
                    if each.kind == "insert":
                        made = assign(nothing, env, each.given)
                    found.append(made)
                    break
        return found

    return Statement(sql, after)


CHANGES = st.sampled_from(["gt", "gk"]).flatmap(
    lambda table: st.tuples(
        st.just(table), st.one_of(updates(table), deletes(table), merges(table))
    )
)


# ---- INSERT ------------------------------------------------------------------------------------

_VALUES = {
    "id": ["1", "NULL", "DEFAULT", "2L", "1 + 1", "3000000000"],
    "a": ["1", "NULL", "DEFAULT", "2.5", "3000000000", "'7'", "CAST('7' AS INT)", "1/0"],
    "s": ["NULL", "DEFAULT", "named_struct('x', 1, 'y', 'p')", "named_struct('y', 'p', 'x', 1)",
          "named_struct('x', 1)", "named_struct('m', 1L, 'n', 2)"],
}  # fmt: skip


@st.composite
def inserts(draw: st.DrawFn) -> str:
    """The text of an INSERT into `gt`, from constants or from `gu`."""
    columns = draw(
        st.one_of(
            st.just([]),
            st.permutations(COLUMNS),
            st.lists(st.sampled_from([*COLUMNS, "A", "nosuch"]), min_size=1, max_size=3),
        )
    )
    into = draw(st.sampled_from(["INSERT INTO gt", "INSERT INTO TABLE gt", "INSERT OVERWRITE gt"]))
    named = f" ({', '.join(columns)})" if columns else ""
    order = [c.lower() if c.lower() in COLUMNS else "a" for c in columns] or list(COLUMNS)
    if draw(st.integers(0, 9)) == 0:
        order = order[:-1]
    picked = [draw(st.sampled_from(_VALUES[c])) for c in order]
    read = [draw(st.sampled_from([c, c, f"gu.{c}", *_VALUES[c][:3]])) for c in order]
    titled = [f"{v} AS {c}" for v, c in zip(read, columns or order, strict=False)]
    forms = [
        f"{into}{named} VALUES ({', '.join(picked)})",
        f"{into}{named} VALUES ({', '.join(picked)}), ({', '.join(picked)})",
        f"{into}{named} SELECT {', '.join(picked)}",
        f"{into}{named} SELECT {', '.join(read)} FROM gu",
        f"{into}{named} SELECT {', '.join(read)} FROM gu WHERE id = 1 LIMIT 5",
        f"{into}{named} FROM gu SELECT {', '.join(read)}",
        f"{into}{named} (SELECT {', '.join(read)} FROM gu)",
        f"{into}{named} TABLE gu",
        f"{into} BY NAME SELECT {', '.join(titled)} FROM gu",
        f"WITH q AS (SELECT * FROM gu) {into}{named} SELECT {', '.join(order)} FROM q",
        f"{into}{named} WITH q AS (SELECT * FROM gu) SELECT {', '.join(order)} FROM q",
        f"{into}{named} SELECT {', '.join(order)} FROM gu UNION ALL TABLE gu",
        "FROM gu INSERT INTO gt SELECT * INSERT INTO gt SELECT id, 5, s WHERE a = 1",
    ]
    return draw(st.sampled_from(forms))
