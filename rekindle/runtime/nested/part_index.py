"""What the rows of a nested view's parts are found by, so that reading a row reads its bags alone.

The elements of a bag are found by their label, the rows of the top by the first column that has
values which are equal only where they are the same: what identifies a row mostly comes first. Other
columns can be asked for too; they are compared. A part without such a column is arranged by its
whole rows, as other views are.
"""

from __future__ import annotations

from rekindle.calculus.schema import Schema
from rekindle.nested.levels import LABEL, Level
from rekindle.spark.vectors import has_equal_bytes, is_compared


def index_of(schema: Schema, level: Level) -> tuple[int, ...]:
    """The columns that the rows of a part are found by; none where they cannot be."""
    if schema.names[:1] == (LABEL,):
        return (0,) if has_equal_bytes(schema.types[0]) else ()
    labels = {column.split(".")[0] for column, _ in level.bags}
    for place, field in enumerate(schema):
        if field.name not in labels and is_compared(field.type):
            return (place,)
    return ()
