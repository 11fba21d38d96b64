"""Scripts in MRQL over a database: statements in order, with definitions that last.

An expression over tables is a query of Spark SQL where it can be: a collection is a DataFrame then,
any other value is Python's. What has no query, such as a recursive function or a document, is
evaluated in the driver over the tables' rows. Definitions last as long as the connection;
`store v := e` keeps the value in the database: rows of tables as the table v, any other value as
text in a hidden table.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rekindle.catalyst.failures import spark_error
from rekindle.errors import EvaluationError, UnsupportedError
from rekindle.frontends.catalog import Catalog
from rekindle.frontends.mrql.front_end import Mrql
from rekindle.frontends.mrql.matching import constant
from rekindle.frontends.mrql.reading import Query, compiled, name_tables, session_over
from rekindle.frontends.mrql.rows import bag_of, element_of, plain, written
from rekindle.frontends.mrql.values import packed
from rekindle.mrql_language import syntax as s
from rekindle.mrql_language import terms as t
from rekindle.mrql_language.files import Files
from rekindle.mrql_language.parse import Piece, parse_expression, parse_statement, pieces
from rekindle.mrql_language.session import Session
from rekindle.mrql_language.unnest import unnest
from rekindle.mrql_language.values import Value
from rekindle.names import HIDDEN, quoted
from rekindle.spark.frames import collect

if TYPE_CHECKING:
    from rekindle.runtime.database import Database

_STORED = f"mrql{HIDDEN}stored"
"""The table of the values that scripts have stored, by their names."""
_NAMED = re.compile(r"[A-Za-z_]\w*")


class MrqlFace:
    """Runs scripts on a database."""

    def __init__(self, database: Database, catalog: Callable[[], Catalog]) -> None:
        self._database = database
        self._catalog = catalog
        self._session: Session | None = None
        self._definitions: dict[str, str] = {}
        """The text of each definition by what it names, in their order."""
        self._files = Files(Path)

    def run(self, script: str) -> list[Any]:
        """The results of the expressions of a script; the first statement that fails ends it."""
        results: list[Any] = []
        for piece in list(pieces(script)):
            statement = parse_statement(piece)
            result = self._execute(statement, piece, self._ready())
            if isinstance(statement, s.Evaluate):
                results.append(result)
        return results

    def with_definitions(self, given: Mrql) -> Mrql:
        """The query with the definitions of this connection that it uses, also through others."""
        self._ready()
        known, kept, seen = self._definitions, dict[str, None](), set[str]()

        def keep(name: str) -> None:
            """Each after what it mentions, which may have been given anew since."""
            if name in known and name not in seen:
                seen.add(name)
                mentioned = set(_NAMED.findall(known[name]))
                for each in known:
                    if each in mentioned:
                        keep(each)
                kept[known[name]] = None

        wanted = set(_NAMED.findall(given.text))
        for name in known:
            if name in wanted:
                keep(name)
        return Mrql(given.text, "\n".join(kept))

    # ---- statements ------------------------------------------------------------------------

    def _ready(self) -> Session:
        """The session, with the tables that there are now."""
        if self._session is None:
            session = session_over(self._catalog())
            # Arguments are given to a program on the command line: here it may be a table's name.
            session.definitions.stored.discard("args")
            session.interpreter.stored.pop("args", None)
            # What is stored is data of the database: it is read before there are files to read.
            self._restore(session)
            session.interpreter.read = self._read
            session.interpreter.outside = self._of_spark
            self._session = session
        name_tables(self._session, self._catalog())
        return self._session

    def _execute(self, statement: s.Statement, piece: Piece, session: Session) -> Any:
        match statement:
            case s.Evaluate():
                return self._evaluated(session.term(statement.expression), session)
            case s.StoreVariable():
                self._store(statement, session)
            case s.StoreFile():
                value = self._interpreted(session.term(statement.expression), session)
                self._files.write(statement.verb, statement.file, value)
            case s.Outside():
                raise statement.place.error(
                    f"'{statement.verb}' is not run here",
                    hint="give db.mrql the text of the script",
                )
            case _:
                session.execute(statement)
                for name in _defined(statement):
                    self._definitions.pop(name, None)
                    self._definitions[name] = f"{piece.text.strip()};"
        return None

    def _evaluated(self, term: t.Term, session: Session) -> Any:
        query = self._query(term, session)
        if query is None:
            return plain(self._interpreted(term, session))
        frame, is_collection = query
        if is_collection:
            return frame
        (row,) = collect(frame)
        return plain(element_of(row, frame.schema))

    def _query(self, term: t.Term, session: Session) -> tuple[DataFrame, bool] | None:
        """The query of a term over tables; None if it has none."""
        if not _reads_tables(term, session):
            return None
        try:
            found = compiled(Query(term, session), self._catalog())
        except UnsupportedError:
            return None
        return self._database.sql(found.query), found.is_collection

    def _interpreted(self, term: t.Term, session: Session) -> Value:
        return session.interpreter.once(unnest(term))

    def _read(self, source: t.Source) -> Value:
        """What a source holds: a table or view, or files."""
        if source.request is not None:
            return self._files(source)
        frame = self._database.table(source.name)
        return bag_of(collect(frame), frame.schema)

    def _of_spark(self, name: str, arguments: Sequence[Value]) -> Value:
        """What a function of Spark gives of values."""
        given = ", ".join(packed(constant(each)).text for each in arguments)
        frame = self._database.sql(f"SELECT {name}({given}) AS value")
        (row,) = frame.collect()
        return element_of(row, frame.schema)

    # ---- what is stored --------------------------------------------------------------------

    def _store(self, statement: s.StoreVariable, session: Session) -> None:
        name, term = statement.name, session.term(statement.expression)
        query = self._query(term, session)
        if query is not None and query[1]:
            self._store_rows(name, query[0])
            self._definitions.pop(name, None)
            session.definitions.stored.discard(name)
            session.definitions.expressions.pop(name, None)
            return
        database = self._database
        if name in database.tables or name in database.views:
            raise EvaluationError(
                f"'{name}' is a table or view, and the value is not made of rows of tables",
                hint="store it by another name, or insert rows into the table",
            )
        value = self._interpreted(term, session)
        text = written(value)
        if not database._connection.engine.state.knows(_STORED):
            database.create_table(_STORED, "name STRING NOT NULL, value STRING", ["name"])
        database.change(lambda tx: tx.upsert(_STORED, [(name, text)]))
        self._remember(session, name, value, text)

    def _store_rows(self, name: str, frame: DataFrame) -> None:
        database = self._database
        try:
            rows = frame.toArrow()
        except (Py4JJavaError, PySparkException) as error:
            raise spark_error(error) from error
        if name in database.views:
            raise EvaluationError(f"'{name}' is a view, and nothing is stored in it")
        if name not in database.tables:
            database.create_table(name, frame.schema)
        held = database.table(name).toArrow()

        kept = database._connection.engine.state.knows(_STORED)
        values = database.table(_STORED).where(F.col("name") == name).toArrow() if kept else None

        def put(tx: Any) -> None:
            tx.delete(name, held)
            tx.insert(name, rows)
            if values is not None and len(values):
                tx.delete(_STORED, values)

        database.change(put)

    def _restore(self, session: Session) -> None:
        database = self._database
        if not database._connection.engine.state.knows(_STORED):
            return
        for row in database.sql(f"SELECT * FROM {quoted(_STORED)} ORDER BY name").collect():
            value = session.evaluate(parse_expression(row["value"]))
            # Of the text only its value is taken: a view may use it, where there are files.
            self._remember(session, row["name"], value, written(value))

    def _remember(self, session: Session, name: str, value: Value, text: str) -> None:
        session.definitions.stored.add(name)
        session.definitions.expressions.pop(name, None)
        session.interpreter.stored[name] = value
        self._definitions.pop(name, None)
        self._definitions[name] = f"{name} = {text};"


def _defined(statement: s.Statement) -> list[str]:
    """What a definition names."""
    match statement:
        case s.DataDefinition():
            return [statement.name, *(name for name, _ in statement.constructors)]
        case s.Evaluate() | s.StoreVariable() | s.StoreFile() | s.Outside():
            return []
        case _:
            return [statement.name]


def _reads_tables(term: t.Term, session: Session) -> bool:
    """Does a term read tables, itself or by a function?"""
    seen: set[str] = set()

    def reads(part: t.Term) -> bool:
        if isinstance(part, t.Source):
            return part.request is None
        if isinstance(part, t.Invoke) and part.function not in seen:
            seen.add(part.function)
            if reads(session.interpreter.functions[part.function].body):
                return True
        return any(map(reads, t.children(part)))

    return reads(term)
