"""The streams of one connection: starting, listing, resuming and dropping them.

Each batch is one transaction, committed with the mark of the batch (`marks.py`). Streams run beside
each other; batches that are committed at the same time share an epoch, as any transactions do
(`commits.py`), and no batch waits for another stream's.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import types as T

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
from rekindle.runtime.streaming.handle import RUNNING, Applied, Stream
from rekindle.runtime.streaming.marks import is_repeated, lost, read_mark
from rekindle.runtime.streaming.preparing import check_mode, prepared, sequence_type
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
        self,
        name: str | None,
        frame: DataFrame,
        definition: StreamDefinition,
        *,
        deletes: DataFrame | None = None,
        keys: object = None,
    ) -> Stream:
        """Start a stream, which is stored first."""
        self.connection.check_writable()
        node = self._table(definition.table)
        definition = replace(definition, table=node.name)
        name = check_name(node.name if name is None else name)
        self._refuse(name, definition)
        for each in [frame] if deletes is None else [frame, deletes]:
            if not isinstance(each, DataFrame) or not each.isStreaming:
                raise DefinitionError(
                    f"stream '{name}' is not given a streaming DataFrame",
                    hint="such as spark.readStream.schema(...).json(directory)",
                )
        check_mode(definition, node, deletes)
        _check_keys(keys, node)
        rows = prepared(self.connection.catalyst, frame, deletes, node, definition)
        sequences = self._sequences(frame, node, definition)
        if definition.rejects:
            self._ensure(rejected_name(node.name), SCHEMA, ())
        place = database_place(self.connection.path)
        _check_no_secret(name, definition.checkpoint)
        checkpoint = Checkpoint.of(place, name, definition.checkpoint)
        last = read_mark(name, self._offset(name))
        if last is not None and checkpoint.query(self.connection.spark) != last.query:
            raise lost(name, last)
        self._define(name, definition)
        applying = _Applying(self, name, node, definition, sequences, checkpoint)
        stream = Stream(name, node.name, applying.apply)
        self._run(stream, rows, definition, checkpoint)
        self.running[name] = stream
        return stream

    def _refuse(self, name: str, definition: StreamDefinition) -> None:
        """Raise if the stream runs already, or is another one."""
        if name in self.running and self.running[name].status == RUNNING:
            raise DefinitionError(
                f"stream '{name}' is running",
                hint="stop it first, or give the other one a name= of its own",
            )
        if definition.mode not in MODES:
            raise unknown_name("mode of a stream", definition.mode, MODES)
        if definition.unknown:
            raise DefinitionError(
                f"stream '{name}' was defined by a newer version of Rekindle",
                detail=f"unknown: {', '.join(definition.unknown)}",
                hint="upgrade the rekindle package, or drop the stream and define it again",
            )
        known = self.connection.engine.state.streams.get(name)
        if known is not None and known.table != definition.table:
            raise DefinitionError(
                f"stream '{name}' goes into '{known.table}' and not into '{definition.table}'",
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

    def _define(self, name: str, definition: StreamDefinition) -> None:
        engine = self.connection.engine
        with self.connection.turn:
            state = engine.state
            if state.streams.get(name) != definition:
                engine.define_streams({**state.streams, name: definition}, state.offsets)
        remember_definition(definition)

    def _run(
        self,
        stream: Stream,
        rows: DataFrame,
        definition: StreamDefinition,
        checkpoint: Checkpoint,
    ) -> None:
        # Names of queries are unique in a session, which may have several databases.
        title = f"{stream.name}-{secrets.token_hex(4)}"
        writer = rows.writeStream.foreachBatch(stream.take).queryName(title)
        writer = writer.option("checkpointLocation", checkpoint.place)
        try:
            if definition.available_now:
                writer = writer.trigger(availableNow=True)
            elif definition.interval is not None:
                writer = writer.trigger(processingTime=definition.interval)
            stream.started(writer.start())
        except (Py4JJavaError, PySparkException) as error:
            stream.given_up()
            raise spark_error(error) from error
        except ValueError as error:
            stream.given_up()
            raise DefinitionError(
                f"stream '{stream.name}' cannot be triggered so", detail=str(error)
            ) from error

    def create(self, name: str, definition: StreamDefinition) -> Stream:
        """Start a stream whose source is a format with options."""
        check_source(name, definition)
        rows, deletes = frames_of(self.connection, definition)
        return self.start(name, rows, definition, deletes=deletes)

    # ---- afterwards --------------------------------------------------------------------------

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
                    definition.table,
                    definition.mode,
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
            name: self._given(definition, frames.get(name)) for name, definition in waiting.items()
        }
        return {
            name: self.start(name, given[name][0], definition, deletes=given[name][1])
            for name, definition in waiting.items()
        }

    def _given(
        self, definition: StreamDefinition, frame: Any
    ) -> tuple[DataFrame, DataFrame | None]:
        if frame is None:
            return frames_of(self.connection, definition)
        pair = frame if isinstance(frame, tuple) and len(frame) == 2 else (frame, None)
        return pair[0], pair[1]

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
class _Applying:
    """How batches of one stream are applied."""

    streams: Streams
    name: str
    node: Table
    definition: StreamDefinition
    sequences: Sequences | None
    checkpoint: Checkpoint

    def apply(self, rows: pa.Table, number: int, query: str) -> Applied:
        """Apply a batch in a transaction, with its mark; it may be there already."""
        connection = self.streams.connection
        connection.check_open()
        mark = self.checkpoint.planned(connection.spark, number, query)
        late = rejected = 0

        def work(tx: Transaction) -> None:
            nonlocal late, rejected
            last = read_mark(self.name, tx.offset(self.name))
            if is_repeated(self.name, last, mark):
                return
            node = tx.changeable(self.definition.table)
            if node.id != self.node.id:
                raise StreamError(
                    f"'{node.name}' has got other columns since stream '{self.name}' was started",
                    hint="start the stream again, with the columns that the table has now",
                )
            batch = Batch.collected(rows, node, self.definition, self.sequences)
            if len(rows):
                batch.apply(tx)
            aside = batch.rejects.rows(self.name, number)
            if aside:
                tx.insert(rejected_name(node.name), aside)
            late, rejected = batch.late, len(aside)
            tx.advance(self.name, mark.text)

        epoch = self.streams.change(work)
        return Applied(epoch, len(rows), rejected, late)


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
