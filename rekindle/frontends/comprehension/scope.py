"""How the variables of a comprehension are written in SQL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from pyspark.sql import types as T

from rekindle.names import quoted, sql_text
from rekindle.nested import terms as core
from rekindle.nested.levels import Level
from rekindle.nested.terms import KeyTerm, RingTerm
from rekindle.nested.types import KeyType, Record

Path: TypeAlias = tuple[str, ...]
"""A variable and the fields after it."""


@dataclass(frozen=True, slots=True)
class Known:
    """A table or view as a comprehension reads it."""

    schema: T.StructType
    key: tuple[str, ...] = ()
    """The columns of which no two rows have the same values."""
    level: Level | None = None
    """The flat collections that stand for it, if it is shredded."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What stands for each variable, and for each path that has been computed."""

    rows: Mapping[str, str] = field(default_factory=dict)
    """What the fields of a variable follow."""
    tables: frozenset[str] = frozenset()
    """The variables whose row as a whole is no value in SQL."""
    columns: Mapping[Path, str] = field(default_factory=dict)
    levels: Mapping[str, Level] = field(default_factory=dict)
    """The level of the rows of a variable, if it is shredded."""
    types: Mapping[str, T.DataType] = field(default_factory=dict)
    """The Spark type of the rows of a variable."""

    @property
    def variables(self) -> frozenset[str]:
        return frozenset([*self.rows, *(path[0] for path in self.columns)])

    def ranging(
        self, variable: str, row: str, type_: T.DataType, level: Level | None, *, table: bool
    ) -> Scope:
        """The scope with one more variable."""
        kept = {name: each for name, each in self.levels.items() if name != variable}
        return Scope(
            {**self.rows, variable: row},
            self.tables | {variable} if table else self.tables - {variable},
            {path: text for path, text in self.columns.items() if path[0] != variable},
            kept if level is None else {**kept, variable: level},
            {**self.types, variable: type_},
        )

    def computed(self, columns: Mapping[Path, str]) -> Scope:
        """The scope in which all that is left of the variables are columns."""
        return replace(self, rows={}, tables=frozenset(), columns=dict(columns))

    def written(self, path: Path, type_: KeyType) -> str:
        """A path as an expression of SQL."""
        if path in self.columns and self.is_map(path):
            return f"map_from_entries({self.columns[path]})"
        for cut in range(len(path), 0, -1):
            if path[:cut] in self.columns:
                return ".".join([self.columns[path[:cut]], *map(quoted, path[cut:])])
        if path[0] in self.rows and not (len(path) == 1 and path[0] in self.tables):
            return ".".join([self.rows[path[0]], *map(quoted, path[1:])])
        assert isinstance(type_, Record), path
        fields = [
            f"{sql_text(name)}, {self.written((*path, name), each)}" for name, each in type_.fields
        ]
        return f"named_struct({', '.join(fields)})"

    def compared(self, path: Path, type_: KeyType) -> str:
        """A path as what can be compared and is the same for equal values: a map as its entries."""
        if not self.is_map(path):
            return self.written(path, type_)
        if path in self.columns:
            return self.columns[path]
        by_key = "CASE WHEN a.key < b.key THEN -1 WHEN a.key > b.key THEN 1 ELSE 0 END"
        return f"array_sort(map_entries({self.written(path, type_)}), (a, b) -> {by_key})"

    def entries(self, path: Path, type_: KeyType) -> str:
        """The entries of a map, in any order."""
        found = self.columns.get(path)
        return f"map_entries({self.written(path, type_)})" if found is None else found

    def is_map(self, path: Path) -> bool:
        """Does a path lead to a map?"""
        found = self.types.get(path[0])
        for name in path[1:]:
            known = isinstance(found, T.StructType) and name in found.names
            found = found[name].dataType if known else None  # type: ignore[index]
        return isinstance(found, T.MapType)

    def bag(self, path: Path) -> Level | None:
        """The dictionary of an inner bag; None if it is an array in its row."""
        level = self.levels.get(path[0])
        return None if level is None else level.bag(".".join(path[1:]))

    def type(self, path: Path) -> T.DataType:
        """The Spark type of a path."""
        found = self.types[path[0]]
        for name in path[1:]:
            assert isinstance(found, T.StructType)
            found = found[name].dataType
        return found


def path_of(term: KeyTerm) -> Path | None:
    """The path that a term is; None for anything else."""
    names: list[str] = []
    while isinstance(term, core.Field):
        names.append(term.name)
        term = term.key
    return (term.name, *reversed(names)) if isinstance(term, core.KeyVariable) else None


def paths_in(
    term: KeyTerm | RingTerm, scope: Scope, bound: frozenset[str] = frozenset()
) -> Iterator[tuple[Path, KeyType]]:
    """The paths from variables of a scope that a term reads; the row of a table as its fields."""
    if isinstance(term, core.Field | core.KeyVariable):
        path = path_of(term)
        if path is not None:
            if path[0] not in bound and path[0] in scope.variables:
                yield from _valued(path, term.type, scope)
            return
    match term:
        case core.For(variable, source, body):
            yield from paths_in(source, scope, bound)
            yield from paths_in(body, scope, bound | {variable.name})
        case core.Let(variable, value, body):
            yield from paths_in(value, scope, bound)
            yield from paths_in(body, scope, bound)
        case _:
            for child in core.children(term):
                yield from paths_in(child, scope, bound)


def _valued(path: Path, type_: KeyType, scope: Scope) -> Iterator[tuple[Path, KeyType]]:
    whole = len(path) == 1 and path[0] in scope.tables
    parts = not whole and path not in scope.columns and path[0] not in scope.rows
    if isinstance(type_, Record) and (whole or (parts and not _covered(path, scope))):
        for name, each in type_.fields:
            yield from _valued((*path, name), each, scope)
        return
    yield path, type_


def _covered(path: Path, scope: Scope) -> bool:
    return any(path[:cut] in scope.columns for cut in range(1, len(path) + 1))
