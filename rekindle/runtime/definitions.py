"""View definitions: from what a user writes to a term, and back to a query Spark can recompute.

SQL text is its own definition. A DataFrame is kept as its analysed plan in which every leaf that
stands for a table of the database is replaced by a named marker, so that it can be stored and, when
the view is checked, run over the tables as they are then.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame

from rekindle.calculus.schema import Schema
from rekindle.calculus.terms import Term
from rekindle.calculus.text import parse as parse_term
from rekindle.calculus.text import to_text_with_table
from rekindle.errors import DefinitionError, UnsupportedError
from rekindle.frontends.spark_sql.analyse import Leaves, optimise, parse, resolve
from rekindle.frontends.spark_sql.jvm import Catalyst, JavaObject, items, simple_name
from rekindle.frontends.spark_sql.persist import dump, load
from rekindle.frontends.spark_sql.translate import Translator
from rekindle.runtime.state import ViewEntry
from rekindle.spark.types import check_storable, schema_of

MARK = "rekindle."


class Definitions:
    """Reads and keeps the view definitions of one database."""

    def __init__(self, catalyst: Catalyst, leaves: Leaves) -> None:
        self._catalyst = catalyst
        self._leaves = leaves
        self._translator = Translator(catalyst, leaves)

    def of_sql(self, name: str, sql: str) -> tuple[ViewEntry, Term]:
        """The entry and term of a view given as SQL text."""
        plan = parse(self._catalyst, sql)
        known = self._leaves.plans
        scope = {mention: known[mention] for mention in mentioned(plan, known)}
        frame = resolve(self._catalyst, plan, scope, known)
        return self._entry(name, frame, sql=sql, plan=None)

    def of_frame(self, name: str, frame: DataFrame) -> tuple[ViewEntry, Term]:
        """The entry and term of a view given as a DataFrame over `db.table(...)`."""
        marked = self._marked(frame._jdf.queryExecution().analyzed())
        try:
            kept = base64.b64encode(self._catalyst.serialise([marked])).decode()
        except Py4JJavaError as error:
            raise DefinitionError(
                f"the DataFrame of view '{name}' cannot be stored",
                detail=str(error.java_exception),
                hint="define the view by SQL text",
            ) from error
        return self._entry(name, frame, sql=None, plan=kept)

    def term(self, entry: ViewEntry) -> Term:
        """The term of a stored view."""
        if entry.spark == self._catalyst.spark.version:
            scalars = [load(self._catalyst, text) for text in entry.scalars]
            return parse_term(entry.term, scalars)
        if entry.sql is None:
            raise DefinitionError(
                f"view '{entry.name}' was defined by a DataFrame of Spark {entry.spark}",
                detail=f"this is Spark {self._catalyst.spark.version}",
                hint="open the database with that version, or drop the view and create it again",
            )
        return self.of_sql(entry.name, entry.sql)[1]

    def recomputation(self, entry: ViewEntry, contents: Callable[[str], DataFrame]) -> DataFrame:
        """The view's query over the tables' contents, for Spark to run from scratch."""
        if entry.sql is not None:
            plan = parse(self._catalyst, entry.sql)
            names = mentioned(plan, self._leaves.plans)
            scope = {n: contents(n)._jdf.queryExecution().analyzed() for n in names}
            return resolve(self._catalyst, plan, scope, self._leaves.plans)
        assert entry.plan is not None
        (marked,) = self._catalyst.deserialise(base64.b64decode(entry.plan))

        def fill(node: JavaObject) -> JavaObject | None:
            if simple_name(node) != "SubqueryAlias" or not str(node.alias()).startswith(MARK):
                return None
            rows = contents(str(node.alias())[len(MARK) :])._jdf.queryExecution().analyzed()
            renamed = [
                self._catalyst.alias(column, wanted.name(), wanted.exprId())
                for column, wanted in zip(
                    items(rows.output()), items(node.child().output()), strict=True
                )
            ]
            return self._catalyst.plan("Project")(self._catalyst.seq(renamed), rows)

        return self._catalyst.dataframe(self._catalyst.transform(marked, fill))

    def _entry(
        self, name: str, frame: DataFrame, *, sql: str | None, plan: str | None
    ) -> tuple[ViewEntry, Term]:
        schema = self._schema(name, frame)
        translated = self._translator.translate(optimise(self._catalyst, frame))
        text, objects = to_text_with_table(translated.term)
        entry = ViewEntry(
            name=name,
            schema=schema,
            node="",
            sql=sql,
            term=text,
            scalars=tuple(dump(self._catalyst, value) for value in objects),
            plan=plan,
            spark=self._catalyst.spark.version,
            created=0,
        )
        return entry, translated.term

    def _schema(self, name: str, frame: DataFrame) -> Schema:
        names = [column.lower() for column in frame.columns]
        twice = sorted({column for column in names if names.count(column) > 1})
        if twice:
            raise DefinitionError(
                f"view '{name}' has several columns called '{twice[0]}'",
                hint="give each column its own name with AS",
            )
        for field in frame.schema.fields:
            check_storable(field.dataType, field.name)
        return schema_of(frame.schema)

    def _marked(self, plan: JavaObject) -> JavaObject:
        alias = self._catalyst.module("org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias")

        def mark(node: JavaObject) -> JavaObject | None:
            if simple_name(node) != "LogicalRDD":
                return None
            name = self._leaves.name_of(node)
            if name is None:
                raise UnsupportedError(
                    "the view reads data that is not a table of this database",
                    hint="build the DataFrame from db.table(...), or load the data into a table",
                )
            local = self._catalyst.plan("LocalRelation")(
                node.output(), self._catalyst.seq(()), False, self._catalyst.none()
            )
            return alias.apply(MARK + name, local)

        return self._catalyst.transform(plan, mark)


def mentioned(plan: JavaObject, known: Iterable[str]) -> list[str]:
    """The names among `known` that occur in an unresolved plan, as far as its text shows."""
    words = set(_words(str(plan.toString())))
    return [name for name in known if words.issuperset(_words(name))]


def _words(name: str) -> list[str]:
    return "".join(c if c.isalnum() or c == "_" else " " for c in name.lower()).split()
