"""Columns in the form in which they are stored."""

from __future__ import annotations

from pyspark.sql import Column

_MONTHS = ("interval year", "interval month")


def encoded_column(column: Column, type_: str) -> Column:
    """A column of the given type as it is stored: year-month intervals as numbers of months."""
    if type_.startswith(_MONTHS):
        return column.cast("interval month").cast("int")
    return column
