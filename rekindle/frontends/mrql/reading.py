"""A text in MRQL over the names of a database: its definitions, its term, its query in SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rekindle.errors import StatementError
from rekindle.frontends.catalog import Catalog
from rekindle.frontends.mrql.compile import Compiled, Compiler
from rekindle.frontends.mrql.requests import over_tables
from rekindle.frontends.mrql.scope import Known
from rekindle.frontends.mrql.values import Type, ddl, type_from
from rekindle.mrql_language import syntax as s
from rekindle.mrql_language import terms as t
from rekindle.mrql_language.parse import Piece, parse_statement, pieces
from rekindle.mrql_language.session import Session

_DEFINITIONS = (
    s.Assign,
    s.TypeDefinition,
    s.DataDefinition,
    s.FunctionDefinition,
    s.MacroDefinition,
    s.AggregationDefinition,
)


@dataclass(frozen=True, slots=True)
class Query:
    """A query: its term as the text says it, and the session that its names are of."""

    term: t.Term
    session: Session


def session_over(catalog: Catalog) -> Session:
    """A session in which the tables and views of the database are names."""
    session = Session(prepare=lambda term: term)
    name_tables(session, catalog)
    return session


def name_tables(session: Session, catalog: Catalog) -> None:
    """Let the tables and views, and the functions of Spark, be names in a session."""
    known = session.definitions
    known.tables = dict.fromkeys(catalog.shown, "stream")
    known.is_outside = catalog.is_scalar


def read_query(
    text: str, catalog: Catalog, definitions: str = "", sources: Mapping[str, str] | None = None
) -> Query:
    """The query of a text, which may begin with definitions of its own.

    `sources` are the tables that stand for what the text asks for by `source` and `stream`.
    """
    session = session_over(catalog)
    for piece in pieces(definitions):
        session.execute(parse_statement(piece))
    *before, last = _pieces(text)
    for piece in before:
        statement = parse_statement(piece)
        if not isinstance(statement, _DEFINITIONS):
            raise StatementError(
                "a view is defined by one query, which comes after definitions",
                detail=f"found: {piece.text.strip()}",
            )
        session.execute(statement)
    query = parse_statement(last)
    if not isinstance(query, s.Evaluate):
        raise StatementError(
            "a view is defined by a query, and the last statement is none",
            detail=f"found: {last.text.strip()}",
        )
    term = session.term(query.expression)
    return Query(over_tables(term, session, sources or {}), session)


def _pieces(text: str) -> list[Piece]:
    """The statements of a view's text."""
    found = list(pieces(text))
    if not found:
        raise StatementError("there is no query", hint="write: select ... from ...")
    return found


def compiled(query: Query, catalog: Catalog, view: str | None = None) -> Compiled:
    """The query as one of Spark SQL; that of a view may have loops beside it."""
    interpreter = query.session.interpreter
    tables = {name: catalog.leaves.schema(name) for name in catalog.shown}
    known = Known(tables, interpreter.functions, interpreter.stored, Typing(catalog))
    return Compiler(known, view).compile(query.term)


class Typing:
    """What Spark says that functions give."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._known: dict[tuple[str, tuple[Type, ...]], Type] = {}

    def __call__(self, template: str, types: Sequence[Type]) -> Type:
        """The type of a template over arguments of types."""
        key = (template, tuple(types))
        if key not in self._known:
            holes = [f"CAST(NULL AS {ddl(each)})" for each in types]
            frame = self._catalog.resolve(f"SELECT {template.format(*holes)} AS v")
            self._known[key] = type_from(frame.schema.fields[0].dataType)
        return self._known[key]
