"""`db.sql`: which part of the database runs a statement."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import DataType, StructField, StructType

from rekindle.catalyst.jvm import Catalyst, JavaObject, items, option, simple_name
from rekindle.errors import DefinitionError, StatementError, did_you_mean
from rekindle.frontends.comprehension.front_end import comprehension
from rekindle.frontends.mrql.front_end import mrql
from rekindle.frontends.spark_sql.analyse import parse
from rekindle.frontends.spark_sql.parameters import Arguments, parse_with
from rekindle.runtime.engine import table_node
from rekindle.runtime.epochs.state import State, TableEntry, ViewEntry
from rekindle.runtime.nested.statements import (
    DeleteNested,
    InsertNested,
    NestedStatement,
    UpdateNested,
)
from rekindle.runtime.rows.lengths import declared_type
from rekindle.runtime.rows.wall_time import Zone, instant
from rekindle.runtime.statements.clauses import (
    check_create,
    check_unqualified,
    create_options,
    listed,
    named_table,
)
from rekindle.runtime.statements.dml import Statements, changes_of
from rekindle.runtime.statements.syntax import (
    AlterDatabase,
    CreateFunction,
    CreateView,
    Drop,
    DropFunction,
    Program,
    Refresh,
    ShowCreate,
    ShowFunctions,
    Vacuum,
    one_statement,
    read_statement,
    verb,
    without_comments,
)
from rekindle.runtime.streaming.stream_statements import CreateStream, DropStream, ShowStreams
from rekindle.runtime.time.clauses import TimedClauses, read_timed
from rekindle.runtime.transactions.transaction import Transaction
from rekindle.runtime.views.creating import Given
from rekindle.runtime.views.factorised import LISTING
from rekindle.spark.frames import collect

if TYPE_CHECKING:
    from rekindle.runtime.database import Database

_OPTIONS = ("policy", "incremental", "representation", "shredding", "emit", "iteration")


_COMPREHENSION = re.compile(r"\s*(?:for|let)\s+\w|\s*(?:flatten|negate)\s*\(", re.IGNORECASE)


def _is_comprehension(query: str) -> bool:
    """Does a view's definition begin as no query of SQL does?"""
    return _COMPREHENSION.match(without_comments(query)) is not None


_MRQL = re.compile(r"\s*MRQL\s", re.IGNORECASE)


def _given(query: str) -> Given:
    """What a view is defined by: SQL, a comprehension, or MRQL after that word."""
    if _is_comprehension(query):
        return comprehension(query)
    found = _MRQL.match(without_comments(query))
    return query if found is None else mrql(query[found.end() :])


def _in_zone(arguments: Arguments, zone: Zone) -> Arguments:
    """Values in which a time without a zone is one of the session's clock, as a literal is."""

    def settled(parameter: str, value: Any) -> Any:
        if isinstance(value, list):
            return [settled(parameter, each) for each in value]
        try:
            return instant(value, zone)
        except (ValueError, OverflowError) as error:
            raise StatementError(
                f"the parameter {parameter} cannot be the value {value!r}", detail=str(error)
            ) from error

    if isinstance(arguments, Mapping):
        return {name: settled(f":{name}", value) for name, value in arguments.items()}
    if isinstance(arguments, list | tuple):
        return [settled(f"? number {i + 1}", value) for i, value in enumerate(arguments)]
    return arguments


class SqlFace:
    """Runs SQL statements on a database."""

    def __init__(
        self,
        database: Database,
        catalyst: Catalyst,
        statements: Statements,
        state: Callable[[], State],
        query: Callable[[JavaObject], DataFrame],
    ) -> None:
        self._database = database
        self._catalyst = catalyst
        self._statements = statements
        self._state = state
        self._query = query

    def run(self, statement: str, arguments: Arguments | None = None) -> DataFrame:
        """The rows of a query, or the epoch that a change made."""
        statement = one_statement(statement)
        ours = read_statement(statement)
        if ours is not None and arguments:
            raise StatementError(
                f"the statement {verb(statement)} takes no parameters",
                detail="a definition is kept as it is written, and its values have to stand in it",
                hint="write the values into the text, or keep them in a table that the view reads",
            )
        match ours:
            case CreateView() as create:
                return self._create_view(create)
            case Drop() as drop:
                return self._drop(drop)
            case CreateFunction() as function:
                return self._create_function(function)
            case DropFunction() as drop:
                if not (drop.lenient and drop.name.lower() not in self._functions):
                    self._database.drop_function(drop.name)
                return self._epoch()
            case ShowFunctions():
                known = self._state().functions
                columns = {"function": list(known), "definition": list(known.values())}
                rows = pa.table({k: pa.array(v, pa.string()) for k, v in columns.items()})
                return self._database.spark.createDataFrame(rows)
            case Program() as program:
                self._database.datalog(program.text)
                return self._epoch()
            case ShowCreate() as show:
                return self._show_create(show.name)
            case Refresh() as refresh:
                self._database.refresh(refresh.name)
                return self._epoch()
            case AlterDatabase() as alter:
                self._database.retain(alter.retain)
                return self._epoch()
            case InsertNested() | DeleteNested() | UpdateNested() as deep:
                return self._epoch(self._database.change(lambda tx: self._change_deep(tx, deep)))
            case CreateStream() as stream:
                exists = stream.name in self._state().streams
                if not (stream.lenient and exists):
                    self._database.create_stream(stream.name, stream.definition)
                return self._epoch()
            case DropStream() as stream:
                exists = stream.name in self._state().streams
                if exists or not stream.lenient:
                    self._database.drop_stream(stream.name)
                return self._epoch()
            case ShowStreams():
                return self._show_streams()
            case Vacuum():
                removed = len(self._database.vacuum())
                return self._database.spark.createDataFrame(pa.table({"files_removed": [removed]}))
        statement, timed = read_timed(statement)
        if arguments is None:
            plan = parse(self._catalyst, statement)
        else:
            given = _in_zone(arguments, self._catalyst.zone)
            plan = parse_with(self._catalyst, statement, given)
        if changes_of(plan):
            return self._change(self._statements.run, plan)
        match simple_name(plan):
            case "CreateTable":
                return self._create_table(plan, timed)
            case "TruncateTable":
                return self._change(self._statements.truncate, plan)
            case "AddColumns":
                return self._add_columns(plan)
            case "ShowTables":
                return self._show(listed(plan, [entry.name for entry in self._state().shown]))
            case "ShowViews":
                return self._show_views(listed(plan, self._database.views))
            case "ShowCreateTable" if not plan.asSerde():
                return self._show_create(named_table(plan.child()))
            case "DescribeRelation":
                return self._describe(plan)
        # What EXECUTE IMMEDIATE has as a text is run by Spark, on its own catalog, when it is read.
        if self._is_command(plan) or verb(statement) == "EXECUTE":
            raise StatementError(
                f"the statement {verb(statement)} is not run by a Rekindle database",
                hint="use CREATE TABLE, ALTER TABLE ... ADD COLUMN, CREATE or ALTER MATERIALIZED "
                "VIEW, DROP, INSERT, DELETE, UPDATE, MERGE, TRUNCATE TABLE, SHOW TABLES, SHOW "
                "CREATE TABLE, CREATE, SHOW or DROP STREAM, DESCRIBE, ALTER DATABASE SET (retain = "
                "...), VACUUM or a query; use db.spark for anything else",
            )
        return self._query(plan)

    def _create_view(self, create: CreateView) -> DataFrame:
        unknown = sorted(set(create.options).difference(_OPTIONS))
        if unknown:
            raise DefinitionError(
                f"unknown option '{unknown[0]}' of view '{create.name}'",
                detail=f"known: {', '.join(_OPTIONS)}",
                hint=did_you_mean(unknown[0], _OPTIONS),
            )
        incremental = create.options.get("incremental", "preferred")
        policy = create.options.get("policy")
        exists = self._state().knows(create.name)
        if create.alter or (create.replace and exists):
            make = self._database.replace_view
        elif create.lenient and exists:
            return self._epoch()
        else:
            make = self._database.create_view
        make(
            create.name,
            _given(create.query),
            incremental=incremental,
            policy=policy,
            representation=create.options.get("representation", LISTING),
            comment=create.comment,
            shredding=create.options.get("shredding"),
            emit=create.options.get("emit"),
            iteration=create.options.get("iteration"),
        )
        return self._epoch()

    @property
    def _functions(self) -> set[str]:
        return {name.lower() for name in self._state().functions}

    def _create_function(self, create: CreateFunction) -> DataFrame:
        exists = create.name.lower() in self._functions
        if create.replace and exists:
            self._database.redefine(create.name, create.definition)
        elif not (create.lenient and exists):
            self._database.define(create.name, create.definition)
        return self._epoch()

    def _drop(self, drop: Drop) -> DataFrame:
        if not (drop.lenient and not self._state().knows(drop.name)):
            if drop.is_view:
                self._database.drop_view(drop.name)
            else:
                self._database.drop_table(drop.name)
        return self._epoch()

    def _create_table(self, plan: JavaObject, timed: TimedClauses | None) -> DataFrame:
        parts = [str(part) for part in items(plan.name().nameParts())]
        check_unqualified(parts)
        name = parts[-1]
        if plan.ignoreIfExists() and self._state().knows(name):
            return self._epoch()
        check_create(plan, name)
        struct = StructType.fromJson(json.loads(plan.tableSchema().json()))
        for column in items(plan.columns()):
            if option(column.generationExpression()) or option(column.identityColumnSpec()):
                raise DefinitionError(
                    f"column '{column.name()}' of '{name}' is GENERATED, which is not supported"
                )
        for field in struct.fields:
            if field.metadata.get("CURRENT_DEFAULT"):
                raise DefinitionError(
                    f"column '{field.name}' of '{name}' has a DEFAULT, which is not supported"
                )
        key: list[str] = []
        for constraint in items(plan.tableSpec().constraints()):
            if simple_name(constraint) != "PrimaryKeyConstraint":
                raise DefinitionError(
                    f"the constraint {_constraint_text(constraint)} of '{name}' is not supported",
                    detail="supported: PRIMARY KEY, NOT NULL",
                )
            key = [str(column) for column in items(constraint.columns())]
        comment = option(plan.tableSpec().comment())
        said = None if comment is None else str(comment)
        options = create_options(plan, name)
        self._database.create_table(
            name,
            struct,
            primary_key=key,
            comment=said,
            shredding=options.get("shredding"),
            lateness=None if timed is None else {timed.column: timed.lateness},
            late=options.get("late"),
            retain=None if timed is None else timed.retain,
        )
        return self._epoch()

    def _add_columns(self, plan: JavaObject) -> DataFrame:
        name = named_table(plan.table())
        fields = []
        for column in items(plan.columnsToAdd()):
            title = str(column.colName())
            if option(column.position()) is not None or option(column.default()) is not None:
                raise DefinitionError(
                    f"the new column '{title}' of '{name}' cannot have a position or a DEFAULT",
                    detail="it comes last and is NULL in the rows that there are",
                    hint=f"add it, then UPDATE {name} SET {title} = ...",
                )
            data_type = DataType.fromDDL(str(column.dataType().sql()))
            comment = option(column.comment())
            said = {} if comment is None else {"comment": str(comment)}
            fields.append(StructField(title, data_type, column.nullable(), said))
        self._database.add_columns(name, StructType(fields))
        return self._epoch()

    def _change(
        self, run: Callable[[Transaction, JavaObject], None], plan: JavaObject
    ) -> DataFrame:
        """Run DML in the open transaction, or in one of its own."""
        return self._epoch(self._database.change(lambda tx: run(tx, plan)))

    def _change_deep(self, tx: Transaction, statement: NestedStatement) -> None:
        """Run a deep update in a transaction."""
        way = statement.way
        path: list[object] = []
        for selector, field in way.steps:
            values = self._constants(selector.values)
            named = dict(zip(selector.names, values, strict=True)) if selector.names else None
            path += [named or values, field]
        array = tx.nested(way.table, *path)
        match statement:
            case InsertNested():
                rows = self._query(parse(self._catalyst, statement.query))
                array.insert_query(rows, statement.columns)
            case DeleteNested():
                array.delete_where(statement.where)
            case UpdateNested():
                array.update(statement.where, dict(statement.changes))

    def _constants(self, texts: tuple[str, ...]) -> tuple[object, ...]:
        """The values of constants in SQL."""
        rows = self._query(parse(self._catalyst, f"SELECT {', '.join(texts)}"))
        (row,) = collect(rows)
        return tuple(row)

    def _show(self, names: list[str]) -> DataFrame:
        entries = [self._state().entry(name) for name in names]
        rows = {
            "name": pa.array([e.name for e in entries], pa.string()),
            "kind": pa.array(
                ["view" if isinstance(e, ViewEntry) else "table" for e in entries], pa.string()
            ),
            "columns": pa.array([len(e.schema) for e in entries], pa.int32()),
        }
        return self._database.spark.createDataFrame(pa.table(rows))

    def _show_views(self, names: list[str]) -> DataFrame:
        """Views, and why some are not followed."""
        shown = self._show(names).toArrow()
        for title, reasons in self._left_out.items():
            said = [reasons.get(name, "") for name in names]
            shown = shown.append_column(title, pa.array(said, pa.string()))
        return self._database.spark.createDataFrame(shown)

    @property
    def _left_out(self) -> dict[str, dict[str, str]]:
        """The views that are not followed, by what they are called then, with the reasons."""
        return {"untrusted": self._database.untrusted, "stale": self._database.stale}

    def _show_streams(self) -> DataFrame:
        """Streams, and how far each has been read."""
        titles = ("name", "table", "mode", "status", "source", "offset")
        found = self._database.streams
        columns = {
            title: pa.array([getattr(each, title) for each in found], pa.string())
            for title in titles
        }
        return self._database.spark.createDataFrame(pa.table(columns))

    def _describe(self, plan: JavaObject) -> DataFrame:
        if plan.isExtended():
            raise StatementError(
                "DESCRIBE EXTENDED is not supported", hint="use DESCRIBE, or db.explain(name)"
            )
        entry = self._state().entry(named_table(plan.relation()))
        key = entry.key if isinstance(entry, TableEntry) else ()
        fields = entry.schema.fields
        types = [f.type for f in fields]
        if isinstance(entry, TableEntry):
            types = [declared_type(table_node(entry), i) for i in range(len(fields))]
        rows = {
            "column": [f.name for f in fields],
            "type": types,
            "null": ["" if f.nullable else "NOT NULL" for f in fields],
            "key": ["PRIMARY KEY" if i in key else "" for i in range(len(fields))],
        }
        for title, reasons in self._left_out.items():
            if entry.name in reasons:
                words = (f"# {title}", reasons[entry.name], "", "")
                for name, said in zip(rows, words, strict=True):
                    rows[name].append(said)
        return self._database.spark.createDataFrame(pa.table(rows))

    def _show_create(self, name: str) -> DataFrame:
        text = self._database.definition(name)
        return self._database.spark.createDataFrame(pa.table({"createtab_stmt": [text]}))

    def _epoch(self, made: int | None = None) -> DataFrame:
        """The epoch that a statement made, or else the last one, as a row."""
        epoch = self._database.epoch if made is None else made
        return self._database.spark.createDataFrame(pa.table({"epoch": [epoch]}))

    def _is_command(self, plan: JavaObject) -> bool:
        """Is this anything but a query: a statement on Spark's own catalog, or a script?"""
        logical = "org.apache.spark.sql.catalyst.plans.logical"
        load = self._catalyst.jvm.java.lang.Class.forName
        kinds = ("Command", "ParsedStatement", "CompoundPlanStatement", "InsertIntoDir")
        if simple_name(plan) in ("UnresolvedWith", "Union"):
            return any(self._is_command(child) for child in items(plan.children()))
        return any(load(f"{logical}.{kind}").isInstance(plan) for kind in kinds)


def _constraint_text(constraint: JavaObject) -> str:
    """A constraint in the words of SQL."""
    match simple_name(constraint):
        case "CheckConstraint":
            return f"CHECK ({constraint.condition()})"
        case "UniqueConstraint":
            return f"UNIQUE ({_list(constraint.columns())})"
        case "ForeignKeyConstraint":
            parent = ".".join(str(part) for part in items(constraint.parentTableId()))
            columns = f"FOREIGN KEY ({_list(constraint.childColumns())})"
            return f"{columns} REFERENCES {parent} ({_list(constraint.parentColumns())})"
    return simple_name(constraint)


def _list(names: JavaObject) -> str:
    return ", ".join(str(name) for name in items(names))
