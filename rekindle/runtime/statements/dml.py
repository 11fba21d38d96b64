"""INSERT, DELETE, UPDATE and MERGE as weighted changes of a transaction.

Spark parses the statement and resolves it over the table's contents (`spark_sql.commands`); what
it has made of the statement is placed into a query, whose rows become deletions and
insertions. A condition that fixes the primary key reads only the rows of those keys. All rows of a
statement are those of queries on the contents before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rekindle.calculus.schema import Schema
from rekindle.catalyst.encoded import encoded_column
from rekindle.catalyst.jvm import Catalyst, JavaObject, items, option, simple_name
from rekindle.catalyst.types import payload_schema
from rekindle.circuit.nodes import Table
from rekindle.columns import column_name
from rekindle.errors import ConstraintError, RowError, StatementError, unknown_name
from rekindle.frontends.spark_sql.commands import command, fitting, fitting_names, frame, updated
from rekindle.frontends.spark_sql.defaults import with_defaults
from rekindle.frontends.spark_sql.merging import (
    ACTION,
    PAIRED,
    ROW,
    Action,
    actions_of,
    may_match_once_only,
    merged,
)
from rekindle.runtime.rows.lengths import fitted_column
from rekindle.runtime.statements.clauses import check_insert, check_merge, named_table
from rekindle.runtime.transactions.transaction import Transaction
from rekindle.spark.frames import collect, to_arrow

_KEYS_READ = 10_000
"""A condition that names more primary keys reads the whole table."""

_CHANGES = ("InsertIntoStatement", "DeleteFromTable", "UpdateTable", "MergeIntoTable")


class Contents(Protocol):
    """What an unresolved plan becomes over current contents; a frame may stand for the table."""

    def __call__(
        self,
        plan: JavaObject,
        frame: DataFrame | None,
        node: Table | None,
        resolve: Callable[..., Any] = ...,
    ) -> JavaObject: ...


@dataclass(frozen=True, slots=True)
class Change:
    """Rows of a table, in stored form, that a statement adds or removes."""

    node: Table
    rows: DataFrame
    weight: int


@dataclass(frozen=True, slots=True)
class Target:
    """The table that a statement changes, and the name under which it speaks of it."""

    node: Table
    alias: str


@dataclass(frozen=True, slots=True)
class Said:
    """One change of a statement, and the statement with the WITH clause that goes before it."""

    change: JavaObject
    within: JavaObject | None

    @property
    def whole(self) -> JavaObject:
        return self.change if self.within is None else self.within


def changes_of(plan: JavaObject) -> list[Said]:
    """The changes that a parsed statement asks for; none if it is something else.

    FROM x INSERT INTO a ... INSERT INTO b ... asks for several.
    """
    kind = simple_name(plan)
    if kind in _CHANGES:
        return [Said(plan, None)]
    if kind == "UnresolvedWith":
        return [Said(each.change, plan) for each in changes_of(plan.child())]
    if kind == "Union":
        parts = [changes_of(child) for child in items(plan.children())]
        return [each for part in parts for each in part] if all(parts) else []
    return []


class Statements:
    """Turns parsed DML into changes."""

    def __init__(
        self,
        catalyst: Catalyst,
        table: Callable[[str], Table],
        contents: Contents,
        analyse: Callable[[JavaObject], JavaObject],
        keyed: Callable[[Table, pa.Table], DataFrame],
    ) -> None:
        self._catalyst = catalyst
        self._table = table
        self._contents = contents
        self._analyse = analyse
        self._keyed = keyed

    def run(self, tx: Transaction, plan: JavaObject) -> None:
        """Add what a statement changes to a transaction."""
        found = [change for said in changes_of(plan) for change in self._changes(said)]
        for change in found:
            tx.add_frame(change.node, change.rows, change.weight)

    def truncate(self, tx: Transaction, plan: JavaObject) -> None:
        """Remove every row of the table of a TRUNCATE TABLE."""
        node = self._table(named_table(plan.table()))
        tx.add_frame(node, self._removed(node, self._everything(node)).rows, -1)

    def _changes(self, said: Said) -> list[Change]:
        match simple_name(said.change):
            case "InsertIntoStatement":
                return self._insert(said)
            case "DeleteFromTable":
                return self._delete(said)
            case "UpdateTable":
                return self._update(said)
            case _:
                return self._merge(said)

    # ---- INSERT ----------------------------------------------------------------------------

    def _insert(self, said: Said) -> list[Change]:
        plan = said.change
        node = self._target(plan.table()).node
        check_insert(plan, node.name)
        rows = self._inserted_rows(said, node)
        named = [str(name) for name in items(plan.userSpecifiedCols())]
        by_name = bool(plan.byName())
        if by_name:
            named = rows.columns
        positions = self._positions(node, named) if named else _all(node)
        if len(set(positions)) < len(positions):
            raise RowError(
                f"INSERT INTO {node.name} names a column twice",
                detail=f"the columns are {', '.join(named)}",
            )
        if len(rows.columns) != len(positions):
            raise RowError(
                f"INSERT INTO {node.name} gives {len(rows.columns)} values a row, "
                f"not {len(positions)}",
                detail=f"the columns are {', '.join(node.schema.names[i] for i in positions)}",
                hint="give a value, or NULL, for every column",
            )
        fit = self._encode_names if by_name else self.encode
        added = Change(node, fit(rows, node, positions), 1)
        if not plan.overwrite():
            return [added]
        criteria = option(plan.replaceCriteriaOpt())
        gone = self._everything(node)
        if criteria is not None:
            gone = self._catalyst.plan("Filter")(criteria.cond(), gone)
        return [self._removed(node, gone), added]

    def _inserted_rows(self, said: Said, node: Table) -> DataFrame:
        query = said.change.query()
        within = said.within
        while within is not None and simple_name(within) == "UnresolvedWith":
            query = self._catalyst.plan("UnresolvedWith")(
                query, within.cteRelations(), within.allowRecursion()
            )
            within = within.child()

        def resolve(plan: JavaObject) -> DataFrame:
            found: DataFrame = self._contents(plan, None, node)
            return found

        return with_defaults(self._catalyst, query, resolve)

    def encode(self, rows: DataFrame, node: Table, positions: Sequence[int]) -> DataFrame:
        """The frame's columns, standing for the table's at `positions`, in stored form."""
        self._check_assignable(rows, node, positions)
        fields = [node.schema.fields[i] for i in positions]
        fitted = fitting(self._catalyst, node.name, [(f.name, f.type) for f in fields], rows)
        return self._stored(fitted, node, positions)

    def encode_by_name(self, frame: DataFrame, node: Table) -> DataFrame:
        """A user's DataFrame whose columns, and the fields of structs in them, have the names."""
        missing = {n.lower() for n in node.schema.names} - {n.lower() for n in frame.columns}
        if missing:
            raise RowError(
                f"the DataFrame for '{node.name}' lacks the columns {', '.join(sorted(missing))}",
                detail=f"it has {', '.join(frame.columns)}; the table has "
                f"{', '.join(node.schema.names)}",
            )
        positions = self._positions(node, frame.columns)
        if len(positions) > len(node.schema):
            raise RowError(
                f"the DataFrame for '{node.name}' has a column twice",
                detail=f"it has {', '.join(frame.columns)}",
            )
        return self._encode_names(frame, node, positions)

    def _encode_names(self, rows: DataFrame, node: Table, positions: Sequence[int]) -> DataFrame:
        self._check_assignable(rows, node, positions)
        fields = [node.schema.fields[i] for i in positions]
        fitted = fitting_names(self._catalyst, node.name, [(f.name, f.type) for f in fields], rows)
        return self._stored(fitted, node, positions)

    def _stored(self, frame: DataFrame, node: Table, positions: Sequence[int]) -> DataFrame:
        """Columns of the table's types in stored form; NULL in those that are not given."""
        renamed = frame.toDF(*(f"p{i}" for i in range(len(positions))))
        given = {position: f"p{i}" for i, position in enumerate(positions)}
        columns = []
        for i, field in enumerate(node.schema):
            if i not in given:
                value = F.lit(None).cast(field.type)
            else:
                value = fitted_column(F.col(given[i]).cast(field.type), node, i)
            columns.append(encoded_column(value, field.type).alias(column_name(i)))
        return renamed.select(*columns)

    def _check_assignable(self, rows: DataFrame, node: Table, positions: Sequence[int]) -> None:
        """Raise for a plain value that Spark does not put into a column of another type."""
        fields = items(rows._jdf.schema().toSeq())
        for (_, source), java, i in zip(rows.dtypes, fields, positions, strict=True):
            self._check_value(java.dataType(), source, node, i)

    def _check_value(self, java: JavaObject, source: str, node: Table, position: int) -> None:
        field = node.schema.fields[position]
        if field.type.lower().startswith(("struct<", "array<", "map<")):
            return
        cast = self._catalyst.module("org.apache.spark.sql.catalyst.expressions.Cast")
        if not cast.canANSIStoreAssign(java, self._catalyst.data_type(field.type)):
            raise RowError(
                f"column '{field.name}' of '{node.name}' is {field.type} and cannot take {source}",
                hint=f"CAST the value to {field.type.upper()}",
            )

    # ---- DELETE and UPDATE -----------------------------------------------------------------

    def _delete(self, said: Said) -> list[Change]:
        target = self._target(said.change.table(), said)
        delete = self._resolved(said, target.node)
        gone = self._catalyst.plan("Filter")(delete.condition(), delete.table())
        return [self._change(target.node, self._select(delete.table(), gone), -1)]

    def _update(self, said: Said) -> list[Change]:
        target = self._target(said.change.table(), said)
        node = target.node
        self._check_keys(target, items(said.change.assignments()))
        update = self._resolved(said, node)
        condition = option(update.condition())
        touched = update.table()
        if condition is not None:
            touched = self._catalyst.plan("Filter")(condition, touched)
        old = items(update.table().output())
        new = [
            self._catalyst.named(value, name)
            for value, name in zip(
                updated(self._catalyst, update.table(), update), _new(node), strict=True
            )
        ]
        both = self._catalyst.plan("Project")(self._catalyst.seq([*old, *new]), touched)
        rows = frame(self._catalyst, both).toDF(*_old(node), *_new(node))
        return [
            Change(node, self._stored(rows.select(*_old(node)), node, _all(node)), -1),
            Change(node, self._stored(rows.select(*_new(node)), node, _all(node)), 1),
        ]

    def _resolved(self, said: Said, node: Table) -> JavaObject:
        """An UPDATE or DELETE that Catalyst has resolved over the rows that it may touch."""
        few = self._restricted(said, node)
        return self._contents(said.whole, few, node, command)

    def _change(self, node: Table, plan: JavaObject, weight: int) -> Change:
        rows = frame(self._catalyst, plan)
        return Change(node, self._stored(rows, node, _all(node)), weight)

    def _select(self, table: JavaObject, rows: JavaObject) -> JavaObject:
        return self._catalyst.plan("Project")(table.output(), rows)

    def _everything(self, node: Table) -> JavaObject:
        """The table as an unresolved plan."""
        empty = self._catalyst.class_("org.apache.spark.sql.util.CaseInsensitiveStringMap").empty()
        return self._catalyst.class_("org.apache.spark.sql.catalyst.analysis.UnresolvedRelation")(
            self._catalyst.seq([node.name]), empty, False
        )

    def _removed(self, node: Table, unresolved: JavaObject) -> Change:
        """The removal of the rows that an unresolved plan gives."""
        rows: DataFrame = self._contents(unresolved, None, node)
        return Change(node, self._stored(rows, node, _all(node)), -1)

    # ---- MERGE -----------------------------------------------------------------------------

    def _merge(self, said: Said) -> list[Change]:
        """Pair target and source rows, decide an action for each pair, and change accordingly."""
        target = self._target(said.change.targetTable(), said)
        node = target.node
        check_merge(said.change, node.name)
        for action in self._written_actions(said.change):
            if simple_name(action) in ("UpdateAction", "InsertAction"):
                self._check_keys(target, items(action.assignments()))
        merge = self._contents(said.whole, None, node, command)
        rows = frame(self._catalyst, merged(self._catalyst, merge))
        rows = rows.toDF(ACTION, ROW, PAIRED, *_old(node), *_new(node))
        if not merge.sourceTable().deterministic():
            # Every change below runs the query again, and must find the same rows.
            rows = rows.localCheckpoint()
        if may_match_once_only(merge):
            self._check_single_matches(node, rows)
        return self._merge_changes(node, rows, actions_of(merge))

    def _written_actions(self, merge: JavaObject) -> list[JavaObject]:
        return [
            *items(merge.matchedActions()),
            *items(merge.notMatchedActions()),
            *items(merge.notMatchedBySourceActions()),
        ]

    def _check_single_matches(self, node: Table, rows: DataFrame) -> None:
        matches = rows.where(F.col(PAIRED)).groupBy(ROW).count()
        if collect(matches.where(F.col("count") > 1).limit(1)):
            raise ConstraintError(
                f"MERGE INTO {node.name} matches one row with several source rows",
                hint="nothing was applied; make the source unique by the merge condition",
            )

    def _merge_changes(
        self, node: Table, rows: DataFrame, actions: Sequence[Action]
    ) -> list[Change]:
        removing = [each.number for each in actions if each.kind != "InsertAction"]
        adding = [each.number for each in actions if each.kind != "DeleteAction"]
        found = []
        if removing:
            # A row that several source rows match is deleted once.
            gone = rows.where(F.col(ACTION).isin(removing)).dropDuplicates([ROW])
            found.append(Change(node, self._stored(gone.select(*_old(node)), node, _all(node)), -1))
        if adding:
            came = rows.where(F.col(ACTION).isin(adding)).select(*_new(node))
            found.append(Change(node, self._stored(came, node, _all(node)), 1))
        return found

    # ---- names -----------------------------------------------------------------------------

    def _target(self, relation: JavaObject, said: Said | None = None) -> Target:
        """The table that a statement changes; a WITH clause cannot stand for it."""
        alias = ""
        inner = relation
        if simple_name(relation) == "SubqueryAlias":
            alias = str(relation.alias())
            inner = relation.child()
        name = named_table(inner)
        within = None if said is None else said.within
        if within is not None and simple_name(within) == "UnresolvedWith":
            given = [str(each._1()) for each in items(within.cteRelations())]
            if name.lower() in {each.lower() for each in given}:
                raise StatementError(
                    f"'{name}' of the WITH clause cannot be changed",
                    hint="give it another name than the table's",
                )
        node = self._table(name)
        return Target(node, alias or node.name)

    def _check_keys(self, target: Target, assignments: Sequence[JavaObject]) -> None:
        """Raise unless what is assigned to begins with a column of the table."""
        known = {name.lower() for name in target.node.schema.names}
        for assignment in assignments:
            parts = [str(part) for part in items(assignment.key().nameParts())]
            own = parts[0].lower() == target.alias.lower() and len(parts) > 1
            if parts[0].lower() in known or (own and parts[1].lower() in known):
                continue
            column = ".".join(parts[1:] if own else parts)
            raise unknown_name("column", column, target.node.schema.names, target.node.name)

    def _positions(self, node: Table, names: Sequence[str]) -> list[int]:
        known = {name.lower(): i for i, name in enumerate(node.schema.names)}
        for name in names:
            if name.lower() not in known:
                raise unknown_name("column", name, node.schema.names, node.name)
        return [known[name.lower()] for name in names]

    # ---- rows of primary keys --------------------------------------------------------------

    def _restricted(self, said: Said, node: Table) -> DataFrame | None:
        """The table's rows of the primary keys that a condition fixes; None to read them all."""
        if not node.key:
            return None
        analysed = self._analyse(said.whole)
        condition = analysed.condition()
        if simple_name(analysed) == "UpdateTable":
            condition = option(condition)
        if condition is None:
            return None
        wanted = _fixed_values(condition, node.schema)
        if any(i not in wanted for i in node.key):
            return None
        keys: list[tuple[JavaObject, ...]] = [()]
        for i in node.key:
            keys = [(*key, value) for key in keys for value in wanted[i]]
            if len(keys) > _KEYS_READ:
                return None
        rows = self._constants(keys, [node.schema.fields[i].type for i in node.key])
        columns = to_arrow(self._stored(rows, node, node.key))
        return self._keyed(node, columns.cast(payload_schema(node.schema)))

    def _constants(self, keys: Sequence[tuple[JavaObject, ...]], types: Sequence[str]) -> DataFrame:
        rows = [
            self._catalyst.plan("Project")(
                self._catalyst.seq(
                    self._catalyst.named(value, f"k{i}") for i, value in enumerate(key)
                ),
                self._catalyst.plan("OneRowRelation")(),
            )
            for key in keys
        ]
        frame = self._catalyst.dataframe(rows[0])
        for row in rows[1:]:
            frame = frame.unionAll(self._catalyst.dataframe(row))
        return frame.select(*(F.col(f"k{i}").cast(t) for i, t in enumerate(types)))


def _all(node: Table) -> list[int]:
    return list(range(len(node.schema)))


def _old(node: Table) -> list[str]:
    """The columns of rows that go away."""
    return [f"o{i}" for i in _all(node)]


def _new(node: Table) -> list[str]:
    """The columns of rows that come."""
    return [f"n{i}" for i in _all(node)]


def _fixed_values(condition: JavaObject, schema: Schema) -> dict[int, list[JavaObject]]:
    """For each column that the condition fixes, the constants it may equal."""
    found: dict[int, list[JavaObject]] = {}
    known = {name.lower(): i for i, name in enumerate(schema.names)}

    def column_of(expression: JavaObject) -> int | None:
        if simple_name(expression) != "AttributeReference":
            return None
        return known.get(str(expression.name()).lower())

    def visit(expression: JavaObject) -> None:
        match simple_name(expression):
            case "And":
                visit(expression.left())
                visit(expression.right())
            case "EqualTo":
                for one, other in (
                    (expression.left(), expression.right()),
                    (expression.right(), expression.left()),
                ):
                    column = column_of(one)
                    if column is not None and other.foldable():
                        found.setdefault(column, [other])
            case "In":
                column = column_of(expression.value())
                values = items(expression.list())
                if column is not None and all(value.foldable() for value in values):
                    found.setdefault(column, values)

    visit(condition)
    return found
