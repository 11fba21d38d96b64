"""Columns in the form in which they are stored."""

from __future__ import annotations

import re

from pyspark.sql import Column

_MONTHS = ("interval year", "interval month")
_COLLATED = re.compile(r"\bSTRING\s+COLLATE\s+\w+", re.IGNORECASE)


def encoded_column(column: Column, type_: str) -> Column:
    """A column of the given type as it is stored.

    Year-month intervals are stored as numbers of months, strings without their collation.
    """
    if type_.startswith(_MONTHS):
        return column.cast("interval month").cast("int")
    bare = uncollated(type_)
    return column if bare == type_ else column.cast(bare)


def uncollated(type_: str) -> str:
    """The text of a type without collations.

    >>> uncollated("ARRAY<STRING COLLATE UNICODE_CI>")
    'ARRAY<STRING>'
    """
    return _COLLATED.sub("STRING", type_)
