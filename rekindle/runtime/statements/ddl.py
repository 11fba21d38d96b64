"""Tables, views and models: creating, altering and dropping them. Each is one epoch."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import types as T

from rekindle.catalyst.types import (
    check_enabled,
    check_key,
    check_storable,
    schema_of,
    struct_of,
)
from rekindle.circuit.nodes import Table
from rekindle.errors import ConstraintError, DefinitionError, StatementError, UnsupportedError
from rekindle.frontends.comprehension.front_end import PARTIAL, Comprehension
from rekindle.frontends.datalog.front_end import Datalog, DatalogProgram
from rekindle.frontends.spark_sql.analyse import parse
from rekindle.frontends.spark_sql.depth import not_too_deep
from rekindle.names import RESERVED
from rekindle.runtime import arguments
from rekindle.runtime.arguments import optional_text, text
from rekindle.runtime.connection import Connection
from rekindle.runtime.epochs.state import Entry, TableEntry, ViewEntry
from rekindle.runtime.models.front_end import Learning, Models
from rekindle.runtime.models.model import model_spec, with_categories
from rekindle.runtime.nested.bag_sizes import bags_of
from rekindle.runtime.nested.tables import NONE, SHREDDINGS, shredded_entries, widened
from rekindle.runtime.reading.reading import DataReader
from rekindle.runtime.rows.lengths import is_limited, stored
from rekindle.runtime.time.lateness import (
    Late,
    late_name,
    late_schema,
    watermark_name,
    watermark_schema,
)
from rekindle.runtime.time.tables import Timed
from rekindle.runtime.transactions.commits import Turn
from rekindle.runtime.turns import in_turn
from rekindle.runtime.views.creating import Given, Wanted
from rekindle.spark.frames import collect


@dataclass(frozen=True, slots=True)
class DataDefinition:
    """Changes which tables and views a database has."""

    connection: Connection
    reading: DataReader

    @property
    def turn(self) -> Turn:
        return self.connection.turn

    # ---- tables ----------------------------------------------------------------------------

    @in_turn
    def create_table(
        self,
        name: str,
        schema: T.StructType | str,
        key: Sequence[str],
        comment: str | None,
        shredding: str | None,
        timed: Timed | None = None,
    ) -> None:
        """Create a table, with arrays of structs as flat tables if it has a primary key."""
        connection = self.connection
        connection.check_writable()
        connection.creating.check_new(name)
        struct = _struct(f"table '{name}'", schema)
        comment = optional_text("a comment", comment)
        if shredding is not None:
            arguments.one_of("shredding", shredding, SHREDDINGS)
        key = arguments.names("the columns of a primary key", key)
        names = [field.name.lower() for field in struct.fields]
        for column in key:
            if column.lower() not in names:
                raise DefinitionError(
                    f"the primary key of '{name}' names the column '{column}', which it lacks",
                    detail=f"columns: {', '.join(f.name for f in struct.fields)}",
                )
        places = tuple(names.index(column.lower()) for column in key)
        for field in (struct.fields[i] for i in places):
            check_key(field.dataType, field.name)
        entry = self._table(name, struct, places)
        if comment is not None:
            entry = replace(entry, comments={**entry.comments, "": comment})
        if shredding is not None:
            entry = replace(entry, said={"shredding": shredding})
        entry, parts = (entry, []) if shredding == NONE else shredded_entries(entry)
        if timed is not None:
            entry, parts = self._timed(entry, timed)
        for part in parts:
            connection.creating.check_new(part.name)
        connection.engine.create_table(entry, parts)
        for each in (entry, *(parts if timed is not None else ())):
            connection.know(each)

    def _timed(self, entry: TableEntry, timed: Timed) -> tuple[TableEntry, list[TableEntry]]:
        """The entry of a table with a lateness, and the tables that go with it."""
        if entry.level is not None:
            raise UnsupportedError(
                f"'{entry.name}' has arrays of structs, and rows of it cannot be late",
                hint="give it the option shredding = 'none'",
            )
        lateness = timed.of(self.connection.catalyst, entry)
        type_ = entry.schema.types[lateness.column]
        struct = struct_of(watermark_schema(type_))
        mark = replace(self._table(watermark_name(entry.name), struct, ()), part_of=entry.name)
        parts = [mark]
        if lateness.late is Late.KEPT:
            columns = late_schema(entry.schema, type_)
            parts.append(self._table(late_name(entry.name), columns, ()))
        return replace(entry, lateness=lateness), parts

    def _table(self, name: str, struct: T.StructType, key: tuple[int, ...]) -> TableEntry:
        """The entry of a new table, or of a new incarnation of one."""
        names = [field.name.lower() for field in struct.fields]
        twice = sorted({n for n in names if names.count(n) > 1})
        if twice:
            raise DefinitionError(f"table '{name}' has several columns called '{twice[0]}'")
        reserved = [n for n in names if n in RESERVED]
        if reserved:
            raise DefinitionError(f"table '{name}' cannot have a column called '{reserved[0]}'")
        fields = []
        declared = {
            i: field.dataType.json()
            for i, field in enumerate(struct.fields)
            if is_limited(field.dataType)
        }
        for i, field in enumerate(struct.fields):
            type_ = stored(field.dataType)
            check_storable(type_, field.name)
            check_enabled(self.connection.spark, type_, field.name)
            fields.append(T.StructField(field.name, type_, field.nullable and i not in key))
        table = Table(name, schema_of(T.StructType(fields)), key, secrets.token_hex(8))
        said = {f.name: f.metadata["comment"] for f in struct.fields if "comment" in f.metadata}
        return TableEntry(
            name, table.schema, key, table.incarnation, table.id, 0, declared, comments=said
        )

    @in_turn
    def add_columns(self, name: str, columns: T.StructType | str) -> None:
        """Give a table more columns, which are NULL in the rows that it has."""
        connection = self.connection
        connection.check_writable()
        old = connection.engine.state.entry(name)
        if not isinstance(old, TableEntry):
            raise DefinitionError(
                f"'{name}' is a view", hint="use ALTER MATERIALIZED VIEW ... AS with a new query"
            )
        if old.part_of is not None:
            owner = connection.engine.state.entry(old.part_of).name
            raise DefinitionError(
                f"'{name}' is a part of '{owner}'", hint=f"ALTER TABLE {owner} ADD COLUMN ..."
            )
        if old.lateness is not None and old.lateness.late is Late.KEPT:
            raise UnsupportedError(
                f"'{name}' cannot get columns: its late rows are kept in '{late_name(old.name)}'",
                hint="make a table with the columns, and insert the rows of this one into it",
            )
        if connection.sessions.transaction is not None:
            raise StatementError(
                f"'{name}' cannot get columns while a transaction is open", hint="end it first"
            )
        added = _struct(f"the new columns of '{name}'", columns)
        for field in added.fields:
            if not field.nullable:
                raise DefinitionError(
                    f"the new column '{field.name}' of '{name}' cannot be NOT NULL",
                    detail="the rows of the table have no value in it",
                )
        struct = T.StructType([*struct_of(old.schema).fields, *added.fields])
        entry = self._table(old.name, struct, old.key)
        entry = replace(
            entry,
            created=old.created,
            declared={**old.declared, **entry.declared},
            comments={**old.comments, **entry.comments},
            level=old.level,
            said=old.said,
            lateness=old.lateness,
        )
        if old.level is None:
            connection.engine.add_columns(old, entry)
        else:
            top = connection.engine.state.entries[old.level.view]
            assert isinstance(top, TableEntry)
            connection.engine.add_columns(top, widened(top, entry, len(added.fields)), entry)
        connection.know_again(entry)

    # ---- views -----------------------------------------------------------------------------

    @in_turn
    def create_view(self, name: str, given: Given, wanted: Wanted) -> None:
        """Create a view and fill it."""
        connection = self.connection
        connection.check_writable()
        connection.creating.check_new(name)
        given = self._measured(name, given, wanted)
        connection.know(connection.creating.create(name, given, wanted))

    def _measured(self, name: str, given: Given, wanted: Wanted) -> Given:
        """What a view is defined by, with how large its bags are if that decides about them."""
        if wanted.shredding != PARTIAL or not isinstance(given, Comprehension):
            return given
        with not_too_deep(name):
            bags = bags_of(name, given, self.connection.definitions.catalog, self._committed)
        return replace(given, bags=bags)

    def _committed(self, name: str) -> DataFrame:
        return self.reading.committed(self.connection.engine.state, name)

    @in_turn
    def replace_view(self, name: str, given: Given, wanted: Wanted) -> None:
        """Give a view that no other view reads a new definition."""
        connection = self.connection
        connection.check_writable()
        old = self._unread(name, ViewEntry, "given another definition")
        assert isinstance(old, ViewEntry)
        connection.refuse_untrusted(old.name, "given another definition")
        given = self._measured(old.name, given, wanted)
        connection.know_again(connection.creating.replace(old, given, wanted))

    @in_turn
    def create_model(
        self,
        name: str,
        query: str | DataFrame,
        *,
        features: Sequence[str],
        label: str | None,
        kind: str,
        penalty: float | None,
        degree: int,
        categorical: Sequence[str],
    ) -> None:
        """Create the view of a model's sums, learned from the rows of a query."""
        self.connection.check_writable()
        self.connection.creating.check_new(name)
        label = optional_text("a label", label)
        features = arguments.names("features", features)
        categorical = arguments.names("categorical features", categorical)
        spec = model_spec(name, label, features, kind, penalty, degree, categorical)
        rows = self._rows_of(name, query)
        spec = with_categories(spec, rows.schema)
        if spec.is_centred:
            (averages,) = collect(spec.averages(rows))
            spec = spec.centred(averages.asDict())
        learning = Learning(spec, query)
        (entry,) = self.connection.creating.create_all(Models(), name, learning)
        self.connection.know(entry)

    def _rows_of(self, name: str, query: str | DataFrame) -> DataFrame:
        """The rows that a model is to be learned from, as they are now."""
        if isinstance(query, str):
            # Resolved by itself first: an error has the positions of the user's text then.
            self.connection.definitions.catalog.schema_of(query, {})
            plan = parse(self.connection.catalyst, f"SELECT * FROM ({query})")
            found: DataFrame = self.reading.query(plan)
            return found
        if isinstance(query, DataFrame):
            return query
        raise DefinitionError(
            f"the model '{name}' cannot be learned from a {type(query).__name__}",
            hint="give SQL text, or a DataFrame built from db.table(...)",
        )

    @in_turn
    def datalog(self, program: str, iterations: int) -> list[str]:
        """Create a view for each relation that the rules of a program define."""
        self.connection.check_writable()
        program = text("a program", program)
        limit = arguments.positive("a bound on iterations", iterations)
        found = self.connection.creating.create_all(Datalog(), "", DatalogProgram(program, limit))
        for entry in found:
            self.connection.know(entry)
        return [entry.name for entry in found]

    # ---- functions -------------------------------------------------------------------------

    @in_turn
    def define(self, name: str, definition: str) -> None:
        """Make a function known to comprehensions."""
        self.connection.check_writable()
        self.connection.redefining.define(name, definition)

    @in_turn
    def redefine(self, name: str, definition: str) -> None:
        """Give a function another definition; the views that use it follow in the same epoch."""
        connection = self.connection
        connection.check_writable()
        for entry in connection.redefining.redefine(name, definition):
            connection.know_again(entry)

    @in_turn
    def drop_function(self, name: str) -> None:
        """Forget a function that nothing uses."""
        self.connection.check_writable()
        self.connection.redefining.drop(name)

    # ---- dropping --------------------------------------------------------------------------

    @in_turn
    def drop(self, name: str, kind: type[Entry]) -> None:
        """Drop a table or view that no view reads, and a table that no stream goes into."""
        self.connection.check_writable()
        entry = self._unread(name, kind, "dropped")
        streams = self.connection.engine.state.streams
        feeding = sorted(s for s, stream in streams.items() if entry.name in stream.tables)
        if feeding:
            raise ConstraintError(
                f"'{entry.name}' cannot be dropped: a stream goes into it: {', '.join(feeding)}",
                hint=f"drop the stream first: db.drop_stream({feeding[0]!r})",
            )
        self.connection.engine.drop(entry)
        self.connection.forget(entry.name)

    def _unread(self, name: str, kind: type[Entry], done: str) -> Entry:
        """A table or view of which something is to be done that nothing may read meanwhile."""
        engine = self.connection.engine
        entry = engine.state.entry(name)
        if not isinstance(entry, kind):
            word = "view" if isinstance(entry, ViewEntry) else "table"
            raise DefinitionError(f"'{name}' is a {word}", hint=f"use DROP {word.upper()} {name}")
        if entry.part_of is not None:
            owner = engine.state.entry(entry.part_of)
            word = "view" if isinstance(owner, ViewEntry) else "table"
            raise DefinitionError(
                f"'{name}' is a part of the {word} '{owner.name}'",
                hint=f"DROP {word.upper()} {owner.name}",
            )
        readers = engine.readers_of(entry.name)
        if readers:
            raise ConstraintError(
                f"'{name}' cannot be {done}: it is read by {', '.join(readers)}",
                hint="drop those views first",
            )
        return entry


def _struct(what: str, schema: T.StructType | str) -> T.StructType:
    hint = "write columns and their types, such as 'id bigint NOT NULL, name string'"
    if not isinstance(schema, str | T.StructType):
        raise DefinitionError(
            f"{what} needs columns, not a value of the type {type(schema).__name__}", hint=hint
        )
    if isinstance(schema, str):
        text(f"the columns of {what}", schema)
    try:
        struct = T._parse_datatype_string(schema) if isinstance(schema, str) else schema
    except PySparkException as error:
        raise DefinitionError(
            f"the columns '{schema}' of {what} cannot be read",
            detail=str(error).strip().split("\n")[0],
            hint=hint,
        ) from error
    if not isinstance(struct, T.StructType) or not struct.fields:
        raise DefinitionError(f"{what} needs columns", detail=f"given: '{schema}'", hint=hint)
    return struct
