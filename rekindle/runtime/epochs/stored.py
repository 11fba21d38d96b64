"""The stored forms of the commit log, and what is checked before one is believed.

The checksum of a file says that its bytes are those that somebody wrote, and not who that was. So a
record is read in three steps: it has the shape of a record (`RECORD`), its parts fit together
(`refuse_unsound`), and what goes wrong in any of them is a `CorruptionError` with the file's name.
Every name of a file in it is one that this package could have given: relative, under `data`, with
no way out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from rekindle.columns import column_names
from rekindle.errors import CorruptionError, DefinitionError, RekindleError
from rekindle.incremental.policies.choice import Policy
from rekindle.nested.levels import LABEL, POSITION, VALUE, Level
from rekindle.runtime.epochs.history import older_layout
from rekindle.runtime.epochs.state import Entry, State, TableEntry, ViewEntry
from rekindle.runtime.epochs.times import LAYOUT
from rekindle.runtime.streaming.definition import check_stream, is_name
from rekindle.runtime.time.lateness import TIMES, Late, watermark_name, watermark_schema
from rekindle.runtime.views.definition import EARLY, check_definition
from rekindle.shapes import (
    Shape,
    ShapeError,
    anything,
    either,
    list_of,
    map_of,
    one_of,
    open_record,
    optional,
    read_json,
    record,
    row_of,
    text,
    truth,
    whole,
)
from rekindle.traces.layout import RINGS
from rekindle.traces.trace import Trace
from rekindle.traces.values import Weight

LARGEST = 2**30
"""No record is larger; one that says so would be read into memory first."""

ROW_BYTES = 24
_count, _position = whole(0), whole(0, 100_000)


def _path(value: Any, place: str) -> None:
    text(value, place)
    if not is_data_path(value):
        raise ShapeError(f"{place}: '{value[:80]}' is not the name of a data file")


def is_data_path(path: str) -> bool:
    """Is this a name under `data` that leads nowhere else?

    >>> is_data_path("data/table-1/e1.arrow"), is_data_path("data/../../x"), is_data_path("/x")
    (True, False, False)
    """
    if len(path) > 1024 or "\0" in path or "\\" in path or not path.startswith("data/"):
        return False
    return all(part not in ("", ".", "..") for part in path.split("/"))


_schema = list_of(row_of(text, text, truth))
_segment_fields = record(
    {"growth": whole()},
    path=_path,
    rows=_count,
    low=whole(),
    high=whole(),
    size=_count,
    checksum=text,
)


def _segment(value: Any, place: str) -> None:
    """A file of the trace; every row of it has its key and its identity, three words."""
    _segment_fields(value, place)
    if value["rows"] * ROW_BYTES > value["size"]:
        raise ShapeError(f"{place}: {value['rows']} rows do not fit into {value['size']} bytes")


_run = list_of(_segment)
_value = record(
    {"limbs": whole(1, 64), "width": whole(1, 1_000_000), "group": text},
    kind=one_of(*RINGS),
    name=text,
)
_merge = record(
    inputs=list_of(_run), output=_run, next_key=whole(-(2**63), 2**63), done=_count, credit=_count
)
_trace = record(
    {"partial": truth},
    layout=record(values=list_of(_value), payload=text),
    runs=list_of(_run),
    merges=list_of(_merge),
)
_new_or_place = either(whole(0), _run)
_continued = record(
    {"partial": truth},
    runs=list_of(_new_or_place),
    merges=list_of(
        record(
            inputs=list_of(_new_or_place),
            output=list_of(either(whole(0), _segment)),
            next_key=whole(-(2**63), 2**63),
            done=_count,
            credit=_count,
        )
    ),
)


def _next_trace(value: Any, place: str) -> None:
    """A trace in full, with its layout, or what is new in it."""
    full = isinstance(value, dict) and "layout" in value
    (_trace if full else _continued)(value, place)


_collection = record(
    view=text,
    title=text,
    key=list_of(text),
    values=list_of(text),
    parent=optional(_position),
    is_leaf=truth,
)
_factorisation = record(collections=list_of(_collection), outputs=list_of(text))


def _level(value: Any, place: str) -> None:
    """A level of a nested view, with those below it; as deep as types are at most."""
    waiting = [(value, place, 0)]
    while waiting:
        each, where, depth = waiting.pop()
        _flat_level(each, where)
        if depth > MOST_LEVELS:
            raise ShapeError(f"{where}: more than {MOST_LEVELS} levels")
        waiting += [(below, f"{where}.{column}", depth + 1) for column, below in each["bags"]]


MOST_LEVELS = 100
_flat_level = record(view=text, bags=list_of(row_of(text, anything)), of_values=truth)
_common: Mapping[str, Shape] = {"kind": text, "name": text, "schema": _schema, "node": text}
_table = open_record(
    {
        "declared": list_of(row_of(_position, text)),
        "lengths": list_of(row_of(_position, _count)),
        "padded": list_of(_position),
        "created": _count,
        "part_of": optional(text),
        "comments": map_of(text),
        "level": _level,
        "index": list_of(_position),
        "said": map_of(text),
        "lateness": record(
            column=_position,
            micros=_count,
            late=one_of(*(late.value for late in Late)),
            retain=optional(_count),
        ),
    },
    **_common,
    key=list_of(_position),
    incarnation=text,
)
_known_later: Mapping[str, Shape] = {
    "policy": one_of(*(policy.value for policy in Policy)),
    "factorisation": optional(_factorisation),
    "level": _level,
    "part_of": optional(text),
    "settings": optional(map_of(text)),
    "said": map_of(text),
    "reads": map_of(_schema),
    "stale": _count,
    "since": _count,
    "index": list_of(_position),
}
_kept: Mapping[str, Shape] = {
    **_common,
    "term": text,
    "scalars": list_of(text),
    "spark": text,
    "created": _count,
}
_view = open_record(_known_later, **_kept, definition=check_definition)
_early_view = open_record(
    {**_known_later, "loop": EARLY["loop"], "model": EARLY["model"]},
    **_kept,
    sql=EARLY["sql"],
    plan=EARLY["plan"],
)
"""A view of a database that was made before each language had a form of its own."""


def _entry(value: Any, place: str) -> None:
    if not isinstance(value, dict) or value.get("kind") not in ("table", "view"):
        raise ShapeError(f"{place}: expected a table or a view")
    view = _view if "definition" in value else _early_view
    (_table if value["kind"] == "table" else view)(value, place)


_record = open_record(
    {
        "fence": _count,
        "writer": text,
        "nodes": map_of(row_of(whole(1), list_of(text), text, list_of(text))),
        "dropped_nodes": list_of(text),
        "moved": map_of(list_of(_count)),
        "older": map_of(_next_trace),
        "time": whole(),
        "times": record(recent=list_of(row_of(_count, whole())), older=optional(_trace)),
        "retain": optional(whole(1)),
        "offsets": map_of(row_of(optional(text), _count)),
        "functions": map_of(text),
        "dropped_functions": list_of(text),
        "dropped_offsets": list_of(text),
        "streams": map_of(check_stream),
        "dropped_streams": list_of(text),
    },
    format=whole(1),
    epoch=_count,
    entries=list_of(_entry),
    dropped_entries=list_of(text),
    traces=map_of(_next_trace),
    dropped_traces=list_of(text),
    history=map_of(list_of(record(epoch=_count, run=_run))),
    horizon=_count,
)
_head = open_record(format=whole(1))
"""What every record of every format has."""


def read_record(path: str, body: bytes, newest: int) -> dict[str, Any]:
    """The record in a file of the log, of a format up to the `newest` that is known."""
    try:
        if len(body) > LARGEST:
            raise ShapeError(f"it has {len(body):,} bytes")
        found: dict[str, Any] = read_json(body, _head)
        if found["format"] > newest:
            raise CorruptionError(
                f"file '{path}' was written by a newer version of Rekindle",
                hint="upgrade the rekindle package",
            )
        _record(found, "")
    except ShapeError as error:
        raise damaged(path, str(error)) from error
    return found


_FAULTS = (
    *(ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError),
    *(AssertionError, MemoryError, pa.ArrowException),
)
"""What reading a form raises that is of the shape and makes no sense."""


@contextmanager
def sound(path: str) -> Iterator[None]:
    """Whatever a file of the log turns out not to mean is reported with its name."""
    try:
        yield
    except CorruptionError:
        raise
    except RekindleError as error:
        raise damaged(path, f"{error.message} {error.detail}".strip()) from error
    except _FAULTS as error:
        raise damaged(path, f"{type(error).__name__}: {str(error)[:200]}") from error


@contextmanager
def sound_definition(view: str) -> Iterator[None]:
    """Whatever a stored definition turns out not to mean is reported with the view's name."""
    try:
        yield
    except (DefinitionError, Py4JError, PySparkException, *_FAULTS) as error:
        said = str(error).strip().split("\n")[0][:200]
        raise CorruptionError(
            f"the stored definition of view '{view}' cannot be read",
            detail=f"{type(error).__name__}: {said}",
            hint="restore the log directory from a backup",
        ) from error


def refuse_unsound(state: State) -> None:
    """Raise `ShapeError` unless the parts of a state fit together."""
    if state.horizon > state.epoch:
        raise ShapeError(f"the horizon {state.horizon} lies after the epoch {state.epoch}")
    for name, entry in state.entries.items():
        if not name or "/" in name or "\0" in name:
            raise ShapeError(f"'{name[:80]}' is not a name")
        if entry.part_of is not None and entry.part_of not in state.entries:
            raise ShapeError(f"'{name}' is a part of '{entry.part_of}', which is not there")
        if entry.level is not None:
            _refuse_unkept(state, entry.name, entry.level)
            if isinstance(entry, TableEntry):
                _refuse_unlike(state, entry, entry.level)
        elif isinstance(entry, ViewEntry) and entry.factorisation is not None:
            _refuse_loose(state, entry)
        else:
            _refuse_misfit(state, entry)
        if isinstance(entry, TableEntry) and entry.lateness is not None:
            _refuse_timeless(state, entry, entry.lateness.column)
    for key, trace in state.traces.items():
        _refuse_extensions(key, trace.layout.payload)
    for key, past in state.history.items():
        if past.older is not None:
            _refuse_strange(state, key, past.older)
    _refuse_disorder(state)
    for name in state.streams:
        # It is that of a directory, which is removed with the stream.
        if not is_name(name):
            raise ShapeError(f"'{name[:80]}' is not the name of a stream")
    for source, offset in state.offsets.items():
        if offset.epoch > state.epoch:
            raise ShapeError(f"'{source[:80]}' was read at an epoch that was not committed")


def _refuse_timeless(state: State, entry: TableEntry, column: int) -> None:
    """A column with a lateness is a time, and its watermark has a table."""
    if column >= len(entry.schema) or entry.schema.types[column] not in TIMES:
        raise ShapeError(f"the lateness of '{entry.name}' is not that of a time")
    mark = state.entries.get(watermark_name(entry.name))
    wanted = watermark_schema(entry.schema.types[column])
    if not isinstance(mark, TableEntry) or mark.schema.types != wanted.types:
        raise ShapeError(f"'{entry.name}' has no watermark")


def _refuse_strange(state: State, key: str, older: Trace) -> None:
    """Older changes are rows of the contents with their epochs, which have been committed."""
    trace = state.traces.get(key)
    if trace is None or older.layout.fingerprint != older_layout(trace.layout).fingerprint:
        raise ShapeError(f"the history of {key} does not have the columns of its contents")
    if any(not 0 <= s.low <= s.high <= state.epoch for s in older.segments):
        raise ShapeError(f"the history of {key} has epochs that were not committed")


def _refuse_disorder(state: State) -> None:
    """Epochs are in the order of their times."""
    times = state.times
    for (epoch, time), (later, then) in pairwise(times.recent):
        if epoch >= later or time >= then:
            raise ShapeError(f"the times of epochs {epoch} and {later} are not in order")
    if times.recent and times.recent[-1][0] > state.epoch:
        raise ShapeError(f"epoch {times.recent[-1][0]} has a time and was not committed")
    if times.older is not None and times.older.layout.fingerprint != LAYOUT.fingerprint:
        raise ShapeError("the times of epochs have columns of something else")


def _refuse_misfit(state: State, entry: Entry) -> None:
    """What users read of a table or view are rows with weights, of as many columns as it has."""
    trace = state.traces.get(entry.node)
    if trace is None:
        raise ShapeError(f"'{entry.name}' has no contents")
    width = len(entry.schema)
    if trace.layout.values != (Weight(),):
        raise ShapeError(f"the contents of '{entry.name}' have no weights")
    if trace.layout.payload.names != column_names(width):
        raise ShapeError(f"the contents of '{entry.name}' do not have its {width} columns")
    if isinstance(entry, ViewEntry) and any(place >= width for place in entry.index):
        raise ShapeError(f"the index of '{entry.name}' is beyond its {width} columns")
    if isinstance(entry, TableEntry):
        if any(place >= width for place in (*entry.key, *entry.declared, *entry.index)):
            raise ShapeError(f"the key of '{entry.name}' is beyond its {width} columns")
        for declared in entry.declared.values():
            # Python would import, or unpickle, the class of such a type.
            if "udt" in json.dumps(read_json(declared, anything)).lower():
                raise ShapeError(f"a column of '{entry.name}' has a type of somebody's own")


def _refuse_loose(state: State, entry: ViewEntry) -> None:
    """The collections of a factorised view are views, each under one before it."""
    assert entry.factorisation is not None
    collections, columns = entry.factorisation.collections, dict[str, str]()
    for i, each in enumerate(collections):
        view = state.entries.get(each.view)
        if not isinstance(view, ViewEntry) or view.part_of != entry.name:
            raise ShapeError(f"'{each.view}' is not a part of '{entry.name}'")
        if len(view.schema) != len(each.key) + len(each.values):
            raise ShapeError(f"'{each.view}' does not have the columns of its collection")
        if each.parent is not None and each.parent >= i:
            raise ShapeError(f"the collections of '{entry.name}' are not in order")
        above = () if each.parent is None else collections[each.parent]
        known = () if isinstance(above, tuple) else (*above.key, *above.values)
        if not set(each.key).issubset(known):
            raise ShapeError(f"the collection '{each.view}' has a key that is not above it")
        types = view.schema.types[len(each.key) :]
        columns.update(zip(each.values, types, strict=True))
    if not collections or collections[0].parent is not None:
        raise ShapeError(f"the collections of '{entry.name}' have no root")
    if [columns.get(name) for name in entry.factorisation.outputs] != list(entry.schema.types):
        raise ShapeError(f"a column of '{entry.name}' is in no collection")


def _refuse_unkept(state: State, name: str, level: Level) -> None:
    """The levels of a nested view are views, of it or of one that it reads, with such columns."""
    for path, each in level.paths():
        view = state.entries.get(each.view)
        if view is None or view.part_of is None:
            raise ShapeError(f"'{each.view}' keeps no part of '{name}'")
        columns = view.schema.names
        if path and columns[:1] != (LABEL,):
            raise ShapeError(f"'{each.view}' has no labels")
        if each.of_values and columns != (LABEL, VALUE):
            raise ShapeError(f"'{each.view}' does not have the columns of values")
        for column, _ in each.bags:
            if column.split(".")[0] not in columns:
                raise ShapeError(f"'{each.view}' has no column '{column}'")


def _refuse_unlike(state: State, entry: TableEntry, level: Level) -> None:
    """The levels of a nested table are tables of its own, the top with its columns and its key."""
    for path, each in level.paths():
        part = state.entries[each.view]
        if not isinstance(part, TableEntry) or part.part_of != entry.name:
            raise ShapeError(f"'{each.view}' is not a part of '{entry.name}'")
        if path and (part.schema.names[:2] != (LABEL, POSITION) or part.index != (0,)):
            raise ShapeError(f"the elements in '{each.view}' have no positions")
        if not path and (part.schema.names != entry.schema.names or part.key != entry.key):
            raise ShapeError(f"'{each.view}' does not have the columns of '{entry.name}'")


def _refuse_extensions(key: str, schema: Any) -> None:
    waiting = [field.type for field in schema]
    while waiting:
        type_ = waiting.pop()
        if isinstance(type_, pa.BaseExtensionType):
            raise ShapeError(f"the trace {key} has a column of a type of somebody's own")
        waiting += [type_.field(i).type for i in range(type_.num_fields)]


def damaged(path: str, detail: str) -> CorruptionError:
    """The error for a file of the log whose bytes are as written and make no sense."""
    return CorruptionError(
        f"file '{path}' of the commit log is damaged",
        detail=detail,
        hint="restore the file from a backup",
    )
