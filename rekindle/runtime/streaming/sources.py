"""The DataFrame of a stream that was defined by a format and options.

A stored definition is data that anybody who can write the directory can write. So what is read from
one is a short list of formats that are Spark's own and read rows alone: a format that is the name
of a class would load it, and clients such as Kafka's load classes that their options name. Those
need the word of the user, by `connect(path, trust=True)` or by the DataFrame given again; what this
process defined itself it may read again. SQL in a definition is looked at as that of views is.
"""

from __future__ import annotations

import json
import re

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from rekindle.catalyst.failures import spark_error
from rekindle.errors import DefinitionError, UntrustedError
from rekindle.frontends.spark_sql.analyse import parse
from rekindle.frontends.spark_sql.stored_queries import refuse_code
from rekindle.names import quoted
from rekindle.redaction import without_secrets
from rekindle.runtime.connection import Connection
from rekindle.runtime.streaming.definition import Source, StreamDefinition
from rekindle.runtime.trust import remember_text

PLAIN_FORMATS = ("csv", "json", "orc", "parquet", "rate", "rate-micro-batch", "text", "xml")
PLAIN_OPTIONS = frozenset(
    (
        *("path", "recursivefilelookup", "pathglobfilter", "latestfirst", "maxfileage"),
        *("maxfilespertrigger", "maxbytespertrigger", "filenameonly", "ignoremissingfiles"),
        *("header", "sep", "delimiter", "encoding", "charset", "quote", "escape", "comment"),
        *("nullvalue", "nanvalue", "positiveinf", "negativeinf", "emptyvalue", "mode", "locale"),
        *("dateformat", "timestampformat", "timestampntzformat", "timezone", "multiline"),
        *("linesep", "wholetext", "rowtag", "roottag", "mergeschema", "enforceschema"),
        *("ignoreleadingwhitespace", "ignoretrailingwhitespace", "columnnameofcorruptrecord"),
        *("primitivesasstring", "prefersdecimal", "allowcomments", "allowsinglequotes"),
        *("allowunquotedfieldnames", "attributeprefix", "valuetag", "ignoresurroundingspaces"),
        *("rowspersecond", "rowsperbatch", "rampuptime", "numpartitions"),
        *("starttimestamp", "advancemillisperbatch"),
    )
)
"""What may be said of a source without trust.

Others write, or remove what was read (`cleanSource`), or name classes and files to be loaded."""
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.\-]*\Z")
_SECRET = re.compile(r"passw|secret|token|credential|jaas|access\.?key", re.IGNORECASE)


def check_source(name: str, definition: StreamDefinition) -> None:
    """Raise unless the source of a new stream can be stored."""
    for source in definition.sources:
        if not _NAME.match(source.format):
            raise DefinitionError(f"'{source.format}' is not the name of a format")
        for option, value in source.options.items():
            if any(_SECRET.search(x) or without_secrets(x) != x for x in (option, value)):
                raise DefinitionError(
                    f"the option '{option}' of stream '{name}' would be stored for all to read",
                    hint="give the source as a DataFrame: db.stream(table, spark.readStream...)",
                )


def remember_definition(definition: StreamDefinition) -> None:
    """A definition that this process has made, and may run again without asking."""
    remember_text(_text(definition))


def frames_of(
    connection: Connection, definition: StreamDefinition
) -> tuple[DataFrame, DataFrame | None]:
    """The streaming DataFrames of a stored definition: of its rows, and of those that leave."""
    assert definition.source is not None
    rows = _frame_of(connection, definition.source)
    leaving = definition.deletes
    return rows, None if leaving is None else _frame_of(connection, leaving)


def _frame_of(connection: Connection, source: Source) -> DataFrame:
    try:
        reader = connection.spark.readStream.format(source.format).options(**source.options)
        if source.schema is not None:
            reader = reader.schema(source.schema)
        return reader.load()
    except (Py4JJavaError, PySparkException) as error:
        raise spark_error(error) from error


def refuse_untrusted(
    connection: Connection, name: str, definition: StreamDefinition, *, is_given: bool
) -> None:
    """Raise if a stored definition could run code or write elsewhere; its source may be given."""
    if connection.definitions.catalog.trusts(_text(definition)):
        return
    hint = (
        "if you trust whoever wrote the directory, open it with rekindle.connect(path, "
        "trust=True); or start the stream by db.stream, with all that it needs"
    )
    for source in () if is_given else definition.sources:
        if source.format.lower() not in PLAIN_FORMATS:
            raise UntrustedError(
                f"stream '{name}' reads '{source.format[:80]}', which could run code",
                detail=f"read without trust: {', '.join(PLAIN_FORMATS)}",
                hint=hint,
            )
        for option in source.options:
            if option.lower() not in PLAIN_OPTIONS:
                raise UntrustedError(
                    f"stream '{name}' has the option '{option[:80]}', which could write or run "
                    "code",
                    detail="an option that does not only say how rows are read needs trust",
                    hint=hint,
                )
    if definition.checkpoint is not None:
        raise UntrustedError(
            f"stream '{name}' would write to '{definition.checkpoint[:200]}'",
            detail="its checkpoint is not in the database",
            hint=hint,
        )
    for part in definition.parts:
        if part.apply_as_deletes is not None:
            query = f"SELECT * FROM {quoted(name)} WHERE {part.apply_as_deletes}"
            refuse_code(connection.catalyst, parse(connection.catalyst, query), [name])


def _text(definition: StreamDefinition) -> str:
    """What a definition could run, as a text that trust belongs to."""
    return json.dumps(definition.to_json(), sort_keys=True)
