"""What users give of a stream: rows for a table, with how they change it.

db.stream("orders", frame, mode="upsert", sequence_by="at")
db.stream_together("shop", {"orders": frame, "lines": {"frame": other, "mode": "upsert"}})
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from rekindle.errors import DefinitionError, unknown_name
from rekindle.runtime.arguments import mapping, names, one_of, optional_text, text
from rekindle.runtime.streaming.definition import APPEND, MODES, StreamDefinition

OF_ROWS = (
    *("frame", "mode", "weight", "operation", "deletes", "keys", "sequence_by"),
    *("apply_as_deletes", "except_columns", "rejects"),
)
"""What may be said of the rows for one table."""


@dataclass(frozen=True, slots=True)
class Given:
    """The rows of a stream that are for one table."""

    frame: DataFrame
    deletes: DataFrame | None = None
    keys: object = None

    @staticmethod
    def of(frame: Any) -> Given:
        """A DataFrame, or one with that of deletions."""
        pair = frame if isinstance(frame, tuple) and len(frame) == 2 else (frame, None)
        return Given(pair[0], pair[1])


def read_given(table: object, given: Mapping[str, Any]) -> tuple[StreamDefinition, Given]:
    """How rows change a table, from the options of `db.stream`, and the rows."""
    for name in given:
        if name not in OF_ROWS:
            raise unknown_name("option of the rows of a stream", name, OF_ROWS)
    definition = StreamDefinition(
        table=text("the name of a table", table),
        mode=one_of("mode of a stream", given.get("mode", APPEND), MODES),
        weight=optional_text("weight", given.get("weight")),
        operation=optional_text("operation", given.get("operation")),
        sequence_by=optional_text("sequence_by", given.get("sequence_by")),
        apply_as_deletes=optional_text("apply_as_deletes", given.get("apply_as_deletes")),
        except_columns=tuple(names("except_columns", given.get("except_columns", ()))),
        rejects=bool(given.get("rejects", False)),
    )
    frame: Any = given.get("frame")
    return definition, Given(frame, given.get("deletes"), given.get("keys"))


def read_together(rows: object) -> tuple[StreamDefinition, list[Given]]:
    """The same of several tables, whose rows come in the same batches."""
    mapping("the rows of a stream for several tables", rows)
    assert isinstance(rows, Mapping)
    if not rows:
        raise DefinitionError(
            "a stream into several tables is given none",
            hint="write {table: spark.readStream..., ...}",
        )
    found = [
        read_given(table, given if isinstance(given, Mapping) else {"frame": given})
        for table, given in rows.items()
    ]
    (first, _), *others = found
    beside = tuple(definition for definition, _ in others)
    return first.with_beside(beside), [given for _, given in found]
