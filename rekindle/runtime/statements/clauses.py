"""Clauses of statements that have no meaning for tables kept by Rekindle: refused by name.

A clause is honoured or it is an error; nothing that a user wrote is passed over.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rekindle.catalyst.jvm import JavaObject, items, option, simple_name
from rekindle.errors import DefinitionError, StatementError, did_you_mean
from rekindle.names import quoted

_PRIVILEGES = "__required_write_privileges__"
"""An option that Spark's parser itself puts on the table of a statement."""


def named_table(relation: JavaObject) -> str:
    """The one name of the table that a statement is about; raises where more is said of it."""
    parts = [str(part) for part in items(relation.multipartIdentifier())]
    check_unqualified(parts)
    if simple_name(relation) == "UnresolvedRelation":
        options = relation.options()
        given = [str(key) for key in options.keySet() if str(key) != _PRIVILEGES]
        if given:
            raise StatementError(
                f"WITH ({', '.join(sorted(given))}) cannot be said of the table '{parts[-1]}'",
                detail="a table of Rekindle has no options",
            )
    return parts[-1]


def check_unqualified(parts: list[str]) -> None:
    """Raise unless a table's name has one part."""
    if len(parts) > 1:
        raise StatementError(
            f"'{'.'.join(parts)}' is not the name of a table",
            detail="a table or view has no catalog or schema before its name",
            hint=f"write {parts[-1]}",
        )


def check_insert(insert: JavaObject, table: str) -> None:
    """Raise unless every clause of an INSERT has a meaning."""
    partition = insert.partitionSpec()
    if not partition.isEmpty():
        names = [str(key) for key in items(partition.keys().toSeq())]
        raise StatementError(
            f"INSERT INTO {table} PARTITION ({', '.join(names)}) is not supported",
            detail="a table of Rekindle has no partitions",
            hint="write the value in its column: INSERT INTO "
            f"{table} ({', '.join(map(quoted, names))}, ...) SELECT value, ...",
        )
    if insert.ifPartitionNotExists():
        raise StatementError(f"INSERT INTO {table} ... IF NOT EXISTS is not supported")
    if insert.withSchemaEvolution():
        raise _evolution("INSERT", table)
    criteria = option(insert.replaceCriteriaOpt())
    if criteria is not None and simple_name(criteria) != "InsertReplaceWhere":
        word = simple_name(criteria).removeprefix("InsertReplace").upper()
        raise StatementError(
            f"INSERT INTO {table} REPLACE {word} is not supported",
            hint="use REPLACE WHERE, or MERGE",
        )


def check_merge(merge: JavaObject, table: str) -> None:
    """Raise unless every clause of a MERGE has a meaning."""
    if merge.withSchemaEvolution():
        raise _evolution("MERGE", table)


def _evolution(verb: str, table: str) -> StatementError:
    return StatementError(
        f"{verb} WITH SCHEMA EVOLUTION INTO {table} is not supported",
        hint=f"ALTER TABLE {table} ADD COLUMN ... first",
    )


def listed(show: JavaObject, names: Sequence[str]) -> list[str]:
    """The names that SHOW TABLES or SHOW VIEWS asks for: all, or those LIKE a pattern."""
    if simple_name(show.namespace()) != "CurrentNamespace":
        raise StatementError("tables and views are in no schema", hint="leave out IN or FROM")
    pattern = option(show.pattern())
    if pattern is None:
        return list(names)
    parts = [re.escape(each.strip()).replace(r"\*", ".*") for each in str(pattern).split("|")]
    wanted = re.compile("|".join(parts), re.IGNORECASE)
    return [name for name in names if wanted.fullmatch(name)]


def create_options(create: JavaObject, name: str) -> dict[str, str]:
    """The OPTIONS of a CREATE TABLE by their names."""
    found = {}
    for each in items(create.tableSpec().optionExpression().options()):
        option_name, value = str(each._1()).lower(), each._2()
        if option_name not in _OPTIONS:
            raise DefinitionError(
                f"unknown option '{option_name}' of table '{name}'",
                detail=f"known OPTIONS: {', '.join(_OPTIONS)}",
                hint=did_you_mean(option_name, _OPTIONS),
            )
        found[option_name] = str(value.value()) if hasattr(value, "value") else str(value)
    return found


_OPTIONS = ("shredding", "late")


def check_create(create: JavaObject, name: str) -> None:
    """Raise unless every clause of a CREATE TABLE has a meaning."""
    said = create.tableSpec()
    given = {
        "USING": option(said.provider()) is not None,
        "PARTITIONED BY, CLUSTERED BY or CLUSTER BY": bool(items(create.partitioning())),
        "LOCATION": option(said.location()) is not None,
        "TBLPROPERTIES": not said.properties().isEmpty(),
        "DEFAULT COLLATION": option(said.collation()) is not None,
        "STORED AS or ROW FORMAT": option(said.serde()) is not None,
        "EXTERNAL": bool(said.external()),
    }
    for clause, is_given in given.items():
        if is_given:
            raise DefinitionError(
                f"table '{name}' cannot be given {clause}",
                detail="a table of Rekindle has its own storage",
            )
