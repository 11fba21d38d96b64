"""What a table or view was defined by, as text.

A table's and an SQL view's text is a statement that makes the same again: run on a database with
the same tables it gives the same definition. Views that SQL text does not define have a text that
says what they are, in comments or as the call that makes them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from rekindle.names import quoted
from rekindle.runtime.engine import table_node
from rekindle.runtime.lengths import declared_type
from rekindle.runtime.models import ModelSpec
from rekindle.runtime.state import Entry, TableEntry, ViewEntry

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def definition_text(entry: Entry, sources: Iterable[str]) -> str:
    """The text of a table or view, which reads `sources`."""
    match entry:
        case TableEntry():
            return _table(entry)
        case ViewEntry() if entry.model is not None:
            return _model(entry.name, entry.model, ", ".join(sources))
        case ViewEntry() if "datalog" in entry.said:
            return f"DATALOG\n{entry.said['datalog'].strip()}"
        case ViewEntry() if entry.sql is not None:
            return _view(entry, entry.sql)
        case ViewEntry():
            return _other(entry, ", ".join(sources))


def sql_name(name: str) -> str:
    """A name as SQL writes it, quoted only where it has to be.

    >>> sql_name("orders"), sql_name("a b")
    ('orders', '`a b`')
    """
    return name if _PLAIN.match(name) else quoted(name)


def sql_text(text: str) -> str:
    """A text between quotes.

    >>> sql_text("it's")
    "'it\\\\'s'"
    """
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


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
    comment = f" COMMENT {sql_text(entry.comments[''])}" if "" in entry.comments else ""
    return f"CREATE TABLE {sql_name(entry.name)} (\n  " + ",\n  ".join(lines) + f"\n){comment}"


def _view(entry: ViewEntry, query: str) -> str:
    said = dict(entry.said)
    head = f"CREATE MATERIALIZED VIEW {sql_name(entry.name)}"
    written = said.pop("agca", None)
    comment = said.pop("comment", None)
    if comment is not None:
        head += f" COMMENT {sql_text(comment)}"
    if said:
        head += " OPTIONS (" + ", ".join(f"{name} = '{said[name]}'" for name in said) + ")"
    note = "" if written is None else _noted(f"written in AGCA: {written.strip()}") + "\n"
    return f"{note}{head} AS\n{query.strip()}"


def _model(name: str, spec: ModelSpec, sources: str) -> str:
    rows = repr(spec.query.strip()) if spec.query else f"<a DataFrame over {sources}>"
    said: dict[str, object] = {
        "label": spec.label,
        "features": list(spec.features),
        "kind": spec.kind,
    }
    if spec.kind == "ridge":
        said["penalty"] = spec.penalty
    if spec.degree != 1:
        said["degree"] = spec.degree
    if spec.categorical:
        said["categorical"] = list(spec.categorical)
    given = ", ".join(f"{word}={value!r}" for word, value in said.items() if value is not None)
    return f"db.create_model({name!r}, {rows}, {given})"


def _other(entry: ViewEntry, sources: str) -> str:
    shown = sql_name(entry.name)
    if entry.loop is None:
        text = f"view {shown} is defined by a DataFrame over {sources or 'no tables'}"
    elif entry.loop.queries:
        parts = zip(entry.loop.names, entry.loop.queries, strict=True)
        rules = "\n".join(f"{name}: {' '.join(query.split())}" for name, query in parts)
        text = f"view {shown} is {entry.loop.names[entry.loop.output]} of the recursion\n{rules}"
    else:
        text = (
            f"view {shown} is a fixpoint of DataFrame functions over {sources or 'no tables'}, "
            f"of at most {entry.loop.limit} iterations"
        )
    return _noted(f"{text}\nsee db.explain({entry.name!r})")


def _noted(text: str) -> str:
    """The text as comments of SQL."""
    return "\n".join(f"-- {line}" for line in text.splitlines())
