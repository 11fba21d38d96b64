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
from rekindle.runtime.lengths import declared_type
from rekindle.runtime.state import Entry, TableEntry, ViewEntry


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
        if field.name in entry.comments:
            line += f" COMMENT {sql_text(entry.comments[field.name])}"
        lines.append(line)
    if entry.key:
        key = ", ".join(sql_name(entry.schema.names[i]) for i in entry.key)
        lines.append(f"PRIMARY KEY ({key})")
    options = ", ".join(f"{name} = {sql_text(word)}" for name, word in entry.said.items())
    options = f" OPTIONS ({options})" if options else ""
    comment = f" COMMENT {sql_text(entry.comments[''])}" if "" in entry.comments else ""
    return (
        f"CREATE TABLE {sql_name(entry.name)} (\n  "
        + ",\n  ".join(lines)
        + f"\n){options}{comment}"
    )
