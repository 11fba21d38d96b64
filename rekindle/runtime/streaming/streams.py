"""The streams of one connection: starting, listing, resuming and dropping them.

Each batch is one transaction, committed with the mark of the batch (`marks.py`). Streams run beside
each other; batches that are committed at the same time share an epoch, as any transactions do
(`commits.py`), and no batch waits for another stream's.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import types as T
from pyspark.sql.streaming.readwriter import DataStreamWriter

from rekindle.catalyst.failures import spark_error
from rekindle.catalyst.types import data_type
from rekindle.circuit.nodes import Table
from rekindle.errors import DefinitionError, StreamError, unknown_name
from rekindle.redaction import without_secrets
from rekindle.runtime.arguments import names
from rekindle.runtime.connection import Connection
from rekindle.runtime.engine import table_node
from rekindle.runtime.epochs.offsets import position
from rekindle.runtime.epochs.state import TableEntry
from rekindle.runtime.places import database_place
from rekindle.runtime.streaming.applying import Batch
from rekindle.runtime.streaming.checkpoints import Checkpoint, check_name
from rekindle.runtime.streaming.definition import MODES, StreamDefinition
from rekindle.runtime.streaming.given import Given
from rekindle.runtime.streaming.handle import RUNNING, Applied, Stream
from rekindle.runtime.streaming.marks import is_repeated, lost, read_mark
from rekindle.runtime.streaming.preparing import (
    apart,
    check_mode,
    prepared,
    sequence_type,
    together,
)
from rekindle.runtime.streaming.rejecting import SCHEMA, rejected_name
from rekindle.runtime.streaming.sequences import Sequences, sequences_name
from rekindle.runtime.streaming.sources import (
    check_source,
    frames_of,
    refuse_untrusted,
    remember_definition,
)
from rekindle.runtime.transactions.transaction import Transaction

Change = Callable[[Callable[[Transaction], None]], int | None]
CreateTable = Callable[[str, T.StructType | str, tuple[str, ...]], None]


@dataclass(frozen=True, slots=True)
class StreamInfo:
    """A stream as it is listed."""

    name: str
    table: str
    mode: str
    status: str
    source: str
    offset: str | None


@dataclass(frozen=True, slots=True)
class Streams:
    """The streams of one connection, running and not."""

    connection: Connection
    change: Change
    create_table: CreateTable
    running: dict[str, Stream] = field(default_factory=dict)

    # ---- starting ----------------------------------------------------------------------------

    def start(
        self, name: str | None, definition: StreamDefinition, given: Sequence[Given]
    ) -> Stream:
        """Start a stream, which is stored first; each of its tables is given its rows."""
        self.connection.check_writable()
        nodes = [self._table(table) for table in definition.tables]
        name = check_name(nodes[0].name if name is None else name)
        definition = _named(definition, nodes)
        self._refuse(name, definition)
        parts = list(zip(definition.parts, nodes, given, strict=True))
        rows = together([self._rows(name, *part) for part in parts])
        applied = tuple(self._part(*part) for part in parts)
        place = database_place(self.connection.path)
        _check_no_secret(name, definition.checkpoint)
        checkpoint = Checkpoint.of(place, name, definition.checkpoint)
        last = read_mark(name, self._offset(name))
        if last is not None and checkpoint.query(self.connection.spark) != last.query:
            raise lost(name, last)
        applying = _Applying(self, name, applied, checkpoint)
        stream = Stream(name, ", ".join(definition.tables), applying.apply)
        writer = _writer(stream, rows, definition, checkpoint)
        before = self._define(name, definition)
        try:
            self._run(stream, writer)
        except BaseException:
            # What cannot be started is not there to be resumed.
            self._define(name, before)
            raise
        self.running[name] = stream
        return stream

    def _rows(
        self, name: str, definition: StreamDefinition, node: Table, given: Given
    ) -> DataFrame:
        """The rows for one of the tables as they are collected."""
        for each in [given.frame] if given.deletes is None else [given.frame, given.deletes]:
            if not isinstance(each, DataFrame) or not each.isStreaming:
                raise DefinitionError(
                    f"stream '{name}' is not given a streaming DataFrame",
                    hint="such as spark.readStream.schema(...).json(directory)",
                )
        check_mode(definition, node, given.deletes)
        _check_keys(given.keys, node)
        return prepared(self.connection.catalyst, given.frame, given.deletes, node, definition)

    def _part(self, definition: StreamDefinition, node: Table, given: Given) -> _Part:
        """How rows change one of the tables, with the tables that this needs beside it."""
        sequences = self._sequences(given.frame, node, definition)
        if definition.rejects:
            self._ensure(rejected_name(node.name), SCHEMA, ())
        return _Part(node, definition, sequences)

    def _refuse(self, name: str, definition: StreamDefinition) -> None:
        """Raise if the stream runs already, or is another one."""
        if name in self.running and self.running[name].status == RUNNING:
            raise DefinitionError(
                f"stream '{name}' is running",
                hint="stop it first, or give the other one a name= of its own",
            )
        for part in definition.parts:
            if part.mode not in MODES:
                raise unknown_name("mode of a stream", part.mode, MODES)
            if part.unknown:
                raise DefinitionError(
                    f"stream '{name}' was defined by a newer version of Rekindle",
                    detail=f"unknown: {', '.join(part.unknown)}",
                    hint="upgrade the rekindle package, or drop the stream and define it again",
                )
        known = self.connection.engine.state.streams.get(name)
        if known is not None and known.tables != definition.tables:
            were, are = (" and ".join(map(repr, d.tables)) for d in (known, definition))
            raise DefinitionError(
                f"stream '{name}' goes into {were} and not into {are}",
                hint=f"give another name=, or DROP STREAM {name}",
            )

    def _table(self, name: str) -> Table:
        entry = self.connection.engine.state.entry(name)
        if not isinstance(entry, TableEntry) or entry.part_of is not None:
            raise DefinitionError(
                f"'{name}' is no table that rows can be streamed into",
                hint="stream into a table that a view reads",
            )
        return table_node(entry)

    def _offset(self, name: str) -> str | None:
        try:
            return position(self.connection.engine.state.offsets, name)
        except DefinitionError as error:
            raise StreamError(
                f"how far stream '{name}' had been read is not known",
                detail=error.detail,
                hint=f"find out which rows are there; then DROP STREAM {name} and begin it again "
                "after those, as the source's options allow",
            ) from error

    def _sequences(
        self, frame: DataFrame, node: Table, definition: StreamDefinition
    ) -> Sequences | None:
        column = definition.sequence_by
        if column is None:
            return None
        type_ = sequence_type(frame, node, column)
        if isinstance(data_type(type_), T.StructType | T.ArrayType | T.MapType | T.VariantType):
            raise DefinitionError(f"'{column}' is {type_}, which is not ordered as a sequence")
        key = tuple(node.schema.names[i] for i in node.key)
        if {"sequence", "deleted"}.intersection(each.lower() for each in key):
            raise DefinitionError(
                f"a key of '{node.name}' is called 'sequence' or 'deleted', as what is noted of it"
            )
        fields = [
            T.StructField(node.schema.names[i], data_type(node.schema.types[i]), False)
            for i in node.key
        ]
        fields += [
            T.StructField("sequence", data_type(type_)),
            T.StructField("deleted", T.BooleanType(), False),
        ]
        name = sequences_name(node.name)
        self._ensure(name, T.StructType(fields), key)
        names = [each.lower() for each in node.schema.names]
        place = names.index(column.lower()) if column.lower() in names else None
        return Sequences(self._table(name), node.key, place)

    def _ensure(self, name: str, schema: T.StructType | str, key: tuple[str, ...]) -> None:
        """Let there be a table with these columns."""
        state = self.connection.engine.state
        if not state.knows(name):
            self.create_table(name, schema, key)
            return
        entry = state.entry(name)
        struct = T.StructType() if isinstance(schema, str) else schema
        if isinstance(schema, str):
            struct = T._parse_datatype_string(schema)  # type: ignore[assignment]
        wanted = [(f.name.lower(), f.dataType.simpleString()) for f in struct.fields]
        found = [(f.name.lower(), data_type(f.type).simpleString()) for f in entry.schema]
        if not isinstance(entry, TableEntry) or wanted != found:
            raise DefinitionError(
                f"'{name}' exists and is not what a stream needs it for",
                detail=f"it would have the columns {struct.simpleString()}",
                hint=f"rename or drop '{name}'",
            )

    def _define(self, name: str, definition: StreamDefinition | None) -> StreamDefinition | None:
        """Store a definition, or none; gives the one before."""
        engine = self.connection.engine
        with self.connection.turn:
            state = engine.state
            before = state.streams.get(name)
            if before != definition:
                streams = {k: v for k, v in state.streams.items() if k != name}
                if definition is not None:
                    streams[name] = definition
                engine.define_streams(streams, state.offsets)
        if definition is not None:
            remember_definition(definition)
        return before

    def _run(self, stream: Stream, writer: DataStreamWriter) -> None:
        try:
            stream.started(writer.start())
        except (Py4JJavaError, PySparkException) as error:
            stream.given_up()
            found = spark_error(error)
            raise StreamError(
                f"stream '{stream.name}' cannot be started",
                detail=found.detail or found.message,
                hint=found.hint,
            ) from error

    def create(self, name: str, definition: StreamDefinition) -> Stream:
        """Start a stream whose source is a format with options."""
        check_source(name, definition)
        return self.start(name, definition, [Given(*frames_of(self.connection, definition))])

    # ---- afterwards --------------------------------------------------------------------------

    def handle(self, name: str) -> Stream:
        """The stream of a name, which was started by this connection."""
        known = self.connection.refreshed().state.streams
        if name not in known and name not in self.running:
            raise unknown_name("stream", name, known)
        if name not in self.running:
            raise StreamError(
                f"stream '{name}' was not started by this connection",
                hint="start it by db.resume_streams()",
            )
        return self.running[name]

    def listed(self) -> list[StreamInfo]:
        """Every stream of the database."""
        state = self.connection.refreshed().state
        found = []
        for name, definition in sorted(state.streams.items()):
            stream = self.running.get(name)
            source = "a DataFrame" if definition.source is None else definition.source.format
            offset = state.offsets.get(name)
            found.append(
                StreamInfo(
                    name,
                    ", ".join(definition.tables),
                    ", ".join(dict.fromkeys(part.mode for part in definition.parts)),
                    "stopped" if stream is None else stream.status,
                    source,
                    None if offset is None else offset.text,
                )
            )
        return found

    def resume(self, frames: Mapping[str, Any]) -> dict[str, Stream]:
        """Start every stream that does not run; those given as DataFrames need them again."""
        self.connection.check_writable()
        known = self.connection.engine.state.streams
        for name in frames:
            if name not in known:
                raise unknown_name("stream", name, known)
        waiting = {
            name: definition
            for name, definition in known.items()
            if name not in self.running or self.running[name].status != RUNNING
        }
        missing = [n for n, d in waiting.items() if d.source is None and n not in frames]
        if missing:
            raise DefinitionError(
                f"stream '{missing[0]}' was given as a DataFrame, which is not stored",
                detail=f"needed: {', '.join(missing)}",
                hint="give it again: db.resume_streams({"
                + f"'{missing[0]}': spark.readStream..."
                + "}), or drop the stream",
            )
        for name, definition in waiting.items():
            refuse_untrusted(self.connection, name, definition, is_given=name in frames)
        given = {
            name: self._given(name, definition, frames.get(name))
            for name, definition in waiting.items()
        }
        return {
            name: self.start(name, definition, given[name]) for name, definition in waiting.items()
        }

    def _given(self, name: str, definition: StreamDefinition, frame: Any) -> list[Given]:
        """The rows for each table of a stream that is resumed."""
        if not definition.beside:
            frames = frames_of(self.connection, definition) if frame is None else frame
            return [Given.of(frames)]
        tables = frame if isinstance(frame, Mapping) else {}
        if sorted(tables) != sorted(definition.tables):
            raise DefinitionError(
                f"stream '{name}' goes into several tables, each of which needs its DataFrame",
                detail=f"they are {', '.join(definition.tables)}",
                hint="give db.resume_streams({name: {table: spark.readStream..., ...}})",
            )
        return [Given.of(tables[table]) for table in definition.tables]

    def drop(self, name: str) -> None:
        """Stop a stream and forget it, with how far it was read. Its rows stay."""
        self.connection.check_writable()
        state = self.connection.engine.state
        if name not in state.streams:
            raise unknown_name("stream", name, state.streams)
        checkpoint = None
        if state.streams[name].checkpoint is None:
            checkpoint = Checkpoint.of(database_place(self.connection.path), name, None)
        stream = self.running.pop(name, None)
        if stream is not None:
            stream.stop()
        engine = self.connection.engine
        with self.connection.turn:
            state = engine.state
            streams = {k: v for k, v in state.streams.items() if k != name}
            offsets = {k: v for k, v in state.offsets.items() if k != name}
            engine.define_streams(streams, offsets)
        if checkpoint is not None:
            # After the record: notes without a stream are harmless, a stream without is not.
            checkpoint.remove()

    def close(self) -> None:
        """Stop what runs."""
        running = list(self.running.values())
        self.running.clear()
        with ExitStack() as stopping:  # Each is stopped, whatever becomes of the others.
            for stream in running:
                stopping.callback(stream.stop)


@dataclass(frozen=True, slots=True)
class _Part:
    """How rows of a stream change one of its tables."""

    node: Table
    definition: StreamDefinition
    sequences: Sequences | None

    def apply(self, tx: Transaction, rows: pa.Table, stream: str, number: int) -> Applied:
        """Change the table by the rows of a batch that are for it."""
        node = tx.changeable(self.definition.table)
        if node.id != self.node.id:
            raise StreamError(
                f"'{node.name}' has got other columns since stream '{stream}' was started",
                hint="start the stream again, with the columns that the table has now",
            )
        batch = Batch.collected(rows, node, self.definition, self.sequences)
        if len(rows):
            batch.apply(tx)
        aside = batch.rejects.rows(stream, number)
        if aside:
            tx.insert(rejected_name(node.name), aside)
        return Applied(None, len(rows), len(aside), batch.late)


@dataclass(frozen=True, slots=True)
class _Applying:
    """How batches of one stream are applied."""

    streams: Streams
    name: str
    parts: tuple[_Part, ...]
    checkpoint: Checkpoint

    def apply(self, rows: pa.Table, number: int, query: str) -> Applied:
        """Apply a batch in a transaction, with its mark; it may be there already."""
        connection = self.streams.connection
        connection.check_open()
        mark = self.checkpoint.planned(connection.spark, number, query)
        applied: list[Applied] = []

        def work(tx: Transaction) -> None:
            applied.clear()  # It may be done again.
            last = read_mark(self.name, tx.offset(self.name))
            if is_repeated(self.name, last, mark):
                return
            for part, own in zip(self.parts, apart(rows, len(self.parts)), strict=True):
                applied.append(part.apply(tx, own, self.name, number))
            tx.advance(self.name, mark.text)

        epoch = self.streams.change(work)
        rejected, late = (sum(each.rejected for each in applied), sum(a.late for a in applied))
        return Applied(epoch, len(rows), rejected, late)


def _writer(
    stream: Stream, rows: DataFrame, definition: StreamDefinition, checkpoint: Checkpoint
) -> DataStreamWriter:
    """The query of a stream, ready to be started; refuses what cannot be a trigger."""
    # Names of queries are unique in a session, which may have several databases.
    title = f"{stream.name}-{secrets.token_hex(4)}"
    writer = rows.writeStream.foreachBatch(stream.take).queryName(title)
    writer = writer.option("checkpointLocation", checkpoint.place)
    try:
        if definition.available_now:
            return writer.trigger(availableNow=True)
        if definition.interval is not None:
            return writer.trigger(processingTime=definition.interval)
        return writer
    except (Py4JJavaError, PySparkException, ValueError) as error:
        stream.given_up()
        raise DefinitionError(
            f"stream '{stream.name}' cannot be triggered every '{definition.interval}'",
            detail=str(error).split("\n")[0],
            hint="such as interval='5 seconds'",
        ) from error


def _named(definition: StreamDefinition, nodes: Sequence[Table]) -> StreamDefinition:
    """A definition with its tables as they are called, each of them once."""
    names = [node.name for node in nodes]
    twice = [name for i, name in enumerate(names) if name in names[:i]]
    if twice:
        raise DefinitionError(
            f"rows for '{twice[0]}' are given twice",
            hint="union the DataFrames, or make two streams of them",
        )
    parts = [replace(d, table=n) for d, n in zip(definition.parts, names, strict=True)]
    return parts[0].with_beside(tuple(parts[1:]))


def _check_no_secret(name: str, place: str | None) -> None:
    """Raise if the place of a checkpoint, which is stored, has in it what opens it."""
    if place is not None and without_secrets(place) != place:
        raise DefinitionError(
            f"the checkpoint of stream '{name}' would be stored for all to read, with its key",
            detail=place,
            hint="name the place without users, keys and tokens, and give them to Spark's session",
        )


def _check_keys(keys: object, node: Table) -> None:
    """Raise unless the keys, where they are given, are the primary key."""
    if keys is None:
        return
    given = names("keys", [keys] if isinstance(keys, str) else keys)
    wanted = [node.schema.names[i] for i in node.key]
    if sorted(str(k).lower() for k in given) != sorted(k.lower() for k in wanted):
        said = f"({', '.join(wanted)})" if wanted else "none"
        raise DefinitionError(
            f"keys={given} is not the primary key of '{node.name}'", detail=f"that is {said}"
        )
