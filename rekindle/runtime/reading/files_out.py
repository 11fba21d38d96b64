"""A view as files of a directory: after each epoch that changed it, all its rows as one file.

`epoch-00000012.txt` has the rows as they were after epoch 12, one a line in the notation of MRQL,
in their order. The files are the record of what was written: who begins again goes on after the
newest of them. A file appears whole, under its name, and what an epoch is does not change, so each
epoch has its file once, wherever the writer was killed.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from rekindle.errors import StorageError
from rekindle.mrql_language.files import line_of
from rekindle.mrql_language.values import NULL, Bag, Record, Value, sort_key
from rekindle.runtime.reading.subscriptions import Subscription

if TYPE_CHECKING:
    from rekindle.runtime.database import Database

_FILE = re.compile(r"epoch-(\d+)\.txt")


def written_epochs(directory: Path) -> list[int]:
    """The epochs that have a file, ascending."""
    found = (_FILE.fullmatch(path.name) for path in directory.iterdir())
    return sorted(int(each.group(1)) for each in found if each is not None)


def write_files(database: Database, name: str, directory: Path) -> Subscription:
    """Write the contents now, unless there are files, and then those after each change."""

    def write(epoch: int) -> None:
        place = directory / f"epoch-{epoch:08}.txt"
        begun = place.with_suffix(".begun")
        with begun.open("w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in _lines(database.arrow(name, epoch)))
            file.flush()
            os.fsync(file.fileno())
        begun.replace(place)

    try:
        directory.mkdir(parents=True, exist_ok=True)
        known = written_epochs(directory)
        since = known[-1] if known else database.epoch
        if not known:
            write(since)
    except OSError as error:
        raise StorageError(f"no files can be written to '{directory}'", detail=str(error)) from None
    return database.subscribe(name, lambda batch: write(batch.epoch), since)


def _lines(rows: pa.Table) -> list[str]:
    names = rows.column_names
    columns = [map(_value, column.to_pylist()) for column in rows.columns]
    elements = [_element(names, row) for row in zip(*columns, strict=True)]
    return [line_of(each) for each in sorted(elements, key=sort_key)]


def _element(names: list[str], row: tuple[Value, ...]) -> Value:
    """A row as the element that it stands for: a tuple's are _1, _2, ..., another's is `value`."""
    if names == ["value"]:
        return row[0]
    if names == [f"_{i}" for i in range(1, len(names) + 1)]:
        return row
    return Record(tuple(zip(names, row, strict=True)))


def _value(value: object) -> Value:
    match value:
        case None:
            return NULL
        case dict():
            return _element(list(value), tuple(map(_value, value.values())))
        case list():
            return Bag(map(_value, value))
        case tuple():
            return tuple(map(_value, value))
        case bool() | int() | float() | str():
            return value
        case _:
            return str(value)
