"""`source(...)` and `stream(...)` in a view: what they ask for, and the tables in its place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from rekindle.errors import UnsupportedError
from rekindle.mrql_language import syntax as s
from rekindle.mrql_language import terms as t
from rekindle.mrql_language.session import Session
from rekindle.names import quoted

_TYPES = {
    "short": "SMALLINT",
    "int": "INT",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "string": "STRING",
    "bool": "BOOLEAN",
}


def key_of(source: t.Source) -> str:
    """What tells a request from others, as text that can be stored."""
    assert source.request is not None
    parts = [source.kind, source.request.parser]
    for argument in source.request.arguments:
        is_type = isinstance(argument, s.RecordType | s.TupleType | s.NamedType)
        parts.append(columns_of_type(argument) if is_type else repr(argument))
    return " ".join(parts)


def columns_of_type(of: s.Type) -> str:
    """The columns of a table for lines of a type, as DDL."""
    match of:
        case s.RecordType():
            named = list(of.fields)
        case s.TupleType():
            named = [(f"_{i}", item) for i, item in enumerate(of.items, 1)]
        case _:
            named = [("value", of)]
    return ", ".join(f"{quoted(name)} {_column(item)}" for name, item in named)


def _column(of: s.Type) -> str:
    if not isinstance(of, s.NamedType) or of.name not in _TYPES:
        raise UnsupportedError(
            "a column of a source in a view is of a basic type",
            detail=f"basic types: {', '.join(_TYPES)}",
        )
    return _TYPES[of.name]


def requests(term: t.Term, session: Session) -> Iterator[t.Source]:
    """The sources that a query asks for, itself or by a function."""
    bodies = [term, *(each.body for each in session.interpreter.functions.values())]
    for body in bodies:
        yield from _within(body)


def _within(term: t.Term) -> Iterator[t.Source]:
    if isinstance(term, t.Source) and term.request is not None:
        yield term
    for part in t.children(term):
        yield from _within(part)


def over_tables(term: t.Term, session: Session, tables: Mapping[str, str]) -> t.Term:
    """The term, and the functions of the session, with tables in the place of what is asked for."""

    def replaced(part: t.Term) -> t.Term:
        if isinstance(part, t.Source) and part.request is not None and key_of(part) in tables:
            return t.Source(tables[key_of(part)], part.kind)
        return t.rebuilt(part, replaced)

    if not tables:
        return term
    functions = session.interpreter.functions
    for name, function in functions.items():
        functions[name] = replace(function, body=replaced(function.body))
    return replaced(term)
