"""What a table or view was defined by, as text.

A table's and an SQL view's text is a statement that makes the same again: run on a database with
the same tables it gives the same definition. Views that SQL text does not define have a text that
says what they are, in comments or as the call that makes them.
"""

from __future__ import annotations

from collections.abc import Sequence

from rekindle.frontends.definition import ViewFacts
from rekindle.names import sql_name, sql_text
from rekindle.runtime.engine import table_node
from rekindle.runtime.epochs.state import Entry, TableEntry, ViewEntry
from rekindle.runtime.rows.lengths import declared_type
from rekindle.runtime.time.lateness import Late


def definition_text(entry: Entry, sources: Sequence[str]) -> str:
    """The text of a table or view, which reads `sources`."""
    match entry:
        case TableEntry():
            return _table(entry)
        case ViewEntry():
            return entry.definition.text(ViewFacts(entry.name, entry.said, sources))


def _table(entry: TableEntry) -> str:
    node = table_node(entry)
    lines = []
    for i, field in enumerate(entry.schema):
        line = f"{sql_name(field.name)} {declared_type(node, i)}"
        if not field.nullable:
            line += " NOT NULL"
        if entry.lateness is not None and entry.lateness.column == i:
            line += f" LATENESS {_length(entry.lateness.micros)}"
        if field.name in entry.comments:
            line += f" COMMENT {sql_text(entry.comments[field.name])}"
        lines.append(line)
    if entry.key:
        key = ", ".join(sql_name(entry.schema.names[i]) for i in entry.key)
        lines.append(f"PRIMARY KEY ({key})")
    said = dict(entry.said)
    if entry.lateness is not None and entry.lateness.late is not Late.DROPPED:
        said["late"] = entry.lateness.late.value
    options = ", ".join(f"{name} = {sql_text(word)}" for name, word in said.items())
    options = f" OPTIONS ({options})" if options else ""
    comment = f" COMMENT {sql_text(entry.comments[''])}" if "" in entry.comments else ""
    return (
        f"CREATE TABLE {sql_name(entry.name)} (\n  "
        + ",\n  ".join(lines)
        + f"\n){options}{comment}{_retention(entry)}"
    )


def _retention(entry: TableEntry) -> str:
    if entry.lateness is None or entry.lateness.retain is None:
        return ""
    return f" RETAIN {_length(entry.lateness.retain)}"


def _length(micros: int) -> str:
    """A length of time in the largest unit of which it is a whole number."""
    for unit, size in _UNITS.items():
        if micros % size == 0:
            return f"INTERVAL {micros // size} {unit}"
    return f"INTERVAL {micros} MICROSECONDS"


_UNITS = {"DAYS": 86_400_000_000, "HOURS": 3_600_000_000, "MINUTES": 60_000_000, "SECONDS": 10**6}
