"""INSERT, DELETE, UPDATE and MERGE as weighted changes of a transaction.

Spark parses the statement; its expressions are placed, unresolved, into a query over the table's
contents, and Spark resolves and evaluates that query. Its rows become deletions and insertions. A
condition that fixes the primary key reads only the rows of those keys.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rekindle.calculus.schema import Schema
from rekindle.circuit.nodes import Table
from rekindle.errors import ConstraintError, RowError, StatementError, unknown_name
from rekindle.frontends.spark_sql.encoded import encoded_column
from rekindle.frontends.spark_sql.jvm import Catalyst, JavaObject, items, option, simple_name
from rekindle.runtime.lengths import fitted_column
from rekindle.runtime.transaction import Transaction
from rekindle.spark.frames import collect

Query = Callable[[JavaObject, DataFrame | None, Table], DataFrame]
"""Runs an unresolved plan; the frame, if given, stands for the table."""


@dataclass(frozen=True, slots=True)
class Target:
    """The table a statement changes, and its relation (perhaps under an alias) in the plan."""

    node: Table
    relation: JavaObject
    alias: str


class Statements:
    """Turns parsed DML into changes."""

    def __init__(
        self,
        catalyst: Catalyst,
        table: Callable[[str], Table],
        query: Query,
        analyse: Callable[[JavaObject], DataFrame],
        keyed: Callable[[Table, pa.Table], DataFrame],
    ) -> None:
        self._catalyst = catalyst
        self._table = table
        self._query = query
        self._analyse = analyse
        self._keyed = keyed

    # ---- INSERT ----------------------------------------------------------------------------

    def insert(self, tx: Transaction, plan: JavaObject) -> None:
        target = self._target(plan.table())
        node = target.node
        if plan.overwrite():
            raise StatementError(
                "INSERT OVERWRITE is not supported",
                hint=f"DELETE FROM {node.name} first, in the same transaction",
            )
        rows = self._query(plan.query(), None, node)
        named = [str(name) for name in items(plan.userSpecifiedCols())]
        if bool(plan.byName()):
            named = rows.columns
        positions = self._positions(node, named) if named else list(range(len(node.schema)))
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
        tx.add_frame(node, self.encode(rows, node, positions), 1)

    def encode(self, frame: DataFrame, node: Table, positions: Sequence[int]) -> DataFrame:
        """The frame's columns, standing for the table's at `positions`, in stored form."""
        renamed = frame.toDF(*(f"p{i}" for i in range(len(positions))))
        given = {position: f"p{i}" for i, position in enumerate(positions)}
        types = dict(renamed.dtypes)
        columns = []
        for i, field in enumerate(node.schema):
            if i not in given:
                columns.append(F.lit(None).cast(field.type).alias(f"c{i}"))
                continue
            name = given[i]
            self._check_assignable(renamed, name, types[name], node, i)
            fitting = fitted_column(F.col(name).cast(field.type), node, i)
            columns.append(encoded_column(fitting, field.type).alias(f"c{i}"))
        return renamed.select(*columns)

    def encode_by_name(self, frame: DataFrame, node: Table) -> DataFrame:
        """A user's DataFrame, whose columns have the table's names."""
        missing = {n.lower() for n in node.schema.names} - {n.lower() for n in frame.columns}
        if missing:
            raise RowError(
                f"the DataFrame for '{node.name}' lacks the columns {', '.join(sorted(missing))}",
                detail=f"it has {', '.join(frame.columns)}; the table has "
                f"{', '.join(node.schema.names)}",
            )
        return self.encode(frame, node, self._positions(node, frame.columns))

    def _check_assignable(
        self, frame: DataFrame, name: str, source: str, node: Table, position: int
    ) -> None:
        field = node.schema.fields[position]
        java = frame._jdf.schema().apply(name).dataType()
        cast = self._catalyst.module("org.apache.spark.sql.catalyst.expressions.Cast")
        if not cast.canANSIStoreAssign(java, self._catalyst.data_type(field.type)):
            raise RowError(
                f"column '{field.name}' of '{node.name}' is {field.type} and cannot take {source}",
                hint=f"CAST the value to {field.type.upper()}",
            )

    # ---- DELETE and UPDATE -----------------------------------------------------------------

    def delete(self, tx: Transaction, plan: JavaObject) -> None:
        target = self._target(plan.table())
        rows = self._filtered(target, plan.condition())
        frame = self._query(rows, self._restricted(target, rows), target.node)
        tx.add_frame(target.node, self.encode(frame, target.node, _all(target.node)), -1)

    def update(self, tx: Transaction, plan: JavaObject) -> None:
        target = self._target(plan.table())
        node = target.node
        condition = option(plan.condition())
        source = target.relation if condition is None else self._filtered(target, condition)
        assigned = self._assignments(target, items(plan.assignments()))
        old = [self._attribute(target, name) for name in node.schema.names]
        new = [assigned.get(i, old[i]) for i in range(len(old))]
        both = self._select(source, [*old, *new])
        frame = self._query(both, self._restricted(target, source), node)
        frame = frame.toDF(*_old(node), *_new(node))
        tx.add_frame(node, self.encode(frame.select(*_old(node)), node, _all(node)), -1)
        tx.add_frame(node, self.encode(frame.select(*_new(node)), node, _all(node)), 1)

    # ---- MERGE -----------------------------------------------------------------------------

    def merge(self, tx: Transaction, plan: JavaObject) -> None:
        """Pair target and source rows, decide an action for each pair, and change accordingly."""
        target = self._target(plan.targetTable())
        node = target.node
        matched = items(plan.matchedActions())
        unmatched = items(plan.notMatchedActions())
        orphaned = items(plan.notMatchedBySourceActions())
        source = plan.sourceTable()
        names = self._query(source, None, node).columns
        # The number is in the plan: the source may read the table too, and has no such column.
        number = self._catalyst.expression("MonotonicallyIncreasingID")()
        left = self._with(target.relation, __target=self._true(), __row=number)
        right = self._with(source, __source=self._true())
        join = self._catalyst.plan("Join")(
            left,
            right,
            self._join_type("FullOuter" if orphaned else "RightOuter"),
            self._catalyst.some(plan.mergeCondition()),
            self._catalyst.module("org.apache.spark.sql.catalyst.plans.logical.JoinHint").NONE(),
        )
        actions = [
            *((action, "both") for action in matched),
            *((action, "source") for action in unmatched),
            *((action, "target") for action in orphaned),
        ]
        chosen = self._case(
            [
                (self._applies(action, side), self._catalyst.literal(str(i)))
                for i, (action, side) in enumerate(actions)
            ],
            self._catalyst.literal("-1"),
        )
        old = [self._attribute(target, name) for name in node.schema.names]
        new = [
            self._case(
                [
                    (
                        self._equals(self._name("__action"), i),
                        self._value(action, target, position, old, names, source),
                    )
                    for i, (action, _) in enumerate(actions)
                    if simple_name(action) != "DeleteAction"
                ],
                self._catalyst.literal("NULL"),
            )
            for position in range(len(node.schema))
        ]
        decided = self._select(join, [self._star(), self._catalyst.named(chosen, "__action")])
        final = self._select(decided, [self._name("__action"), self._name("__row"), *old, *new])
        self._apply_merge(tx, node, self._query(final, None, node), actions)

    def _apply_merge(
        self,
        tx: Transaction,
        node: Table,
        frame: DataFrame,
        actions: Sequence[tuple[JavaObject, str]],
    ) -> None:
        renamed = frame.toDF("__action", "__row", *_old(node), *_new(node))
        renamed = renamed.where(F.col("__action") >= 0)
        kinds = [simple_name(action) for action, _ in actions]
        removing = [i for i, k in enumerate(kinds) if not k.startswith("Insert")]
        adding = [i for i, k in enumerate(kinds) if k != "DeleteAction"]
        pairs = renamed.where(F.col("__row").isNotNull())
        counted = pairs.groupBy("__row").count()
        twice = collect(counted.where(F.col("count") > 1).limit(1))
        if twice and any(side == "both" for _, side in actions):
            raise ConstraintError(
                f"MERGE INTO {node.name} matches one row with several source rows",
                hint="nothing was applied; make the source unique by the merge condition",
            )
        action = F.col("__action")
        if removing:
            gone = renamed.where(action.isin(removing)).select(*_old(node))
            tx.add_frame(node, self.encode(gone, node, _all(node)), -1)
        if adding:
            came = renamed.where(action.isin(adding)).select(*_new(node))
            tx.add_frame(node, self.encode(came, node, _all(node)), 1)

    def _with(self, plan: JavaObject, **columns: JavaObject) -> JavaObject:
        named = [self._catalyst.named(column, name) for name, column in columns.items()]
        return self._select(plan, [self._star(), *named])

    def _true(self) -> JavaObject:
        return self._catalyst.literal("true")

    def _applies(self, action: JavaObject, side: str) -> JavaObject:
        present = self._catalyst.expression("IsNotNull")
        absent = self._catalyst.expression("IsNull")
        target, source = self._name("__target"), self._name("__source")
        where = {
            "both": (present(target), present(source)),
            "source": (absent(target), present(source)),
            "target": (present(target), absent(source)),
        }[side]
        conjunction = self._catalyst.expression("And")(*where)
        condition = option(action.condition())
        if condition is not None:
            conjunction = self._catalyst.expression("And")(conjunction, condition)
        return conjunction

    def _value(
        self,
        action: JavaObject,
        target: Target,
        position: int,
        old: Sequence[JavaObject],
        names: Sequence[str],
        source: JavaObject,
    ) -> JavaObject:
        """What an action puts into a column."""
        kind = simple_name(action)
        column = target.node.schema.names[position]
        if kind in ("UpdateStarAction", "InsertStarAction"):
            if column.lower() not in {name.lower() for name in names}:
                raise unknown_name("source column", column, names)
            return self._catalyst.class_(
                "org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute"
            )(self._catalyst.seq([*_qualifier(source), column]))
        assigned = self._assignments(target, items(action.assignments()))
        if position in assigned:
            return assigned[position]
        return old[position] if kind == "UpdateAction" else self._catalyst.literal("NULL")

    # ---- pieces of plans -------------------------------------------------------------------

    def _target(self, relation: JavaObject) -> Target:
        alias = ""
        inner = relation
        if simple_name(relation) == "SubqueryAlias":
            alias = str(relation.alias())
            inner = relation.child()
        parts = [str(part) for part in items(inner.multipartIdentifier())]
        node = self._table(parts[-1])
        plain = self._relation(node.name)
        if alias:
            plain = relation.withNewChildren(self._catalyst.seq([plain]))
        return Target(node, plain, alias or node.name)

    def _relation(self, name: str) -> JavaObject:
        empty = self._catalyst.class_("org.apache.spark.sql.util.CaseInsensitiveStringMap").empty()
        return self._catalyst.class_("org.apache.spark.sql.catalyst.analysis.UnresolvedRelation")(
            self._catalyst.seq([name]), empty, False
        )

    def _restricted(self, target: Target, filtered: JavaObject) -> DataFrame | None:
        """The table's rows of the primary keys that a filter fixes; None to read them all."""
        node = target.node
        if not node.key or simple_name(filtered) != "Filter":
            return None
        analysed = self._analyse(filtered)._jdf.queryExecution().analyzed()
        condition = _find_condition(analysed)
        if condition is None:
            return None
        wanted = _fixed_values(condition, node.schema)
        if any(i not in wanted for i in node.key):
            return None
        keys: list[tuple[JavaObject, ...]] = [()]
        for i in node.key:
            keys = [(*key, value) for key in keys for value in wanted[i]]
        if len(keys) > 10_000:
            return None
        frame = self._constants(keys, [node.schema.fields[i].type for i in node.key])
        encoded = self.encode(frame, node, node.key)
        return self._keyed(node, encoded.toArrow())

    def _constants(self, keys: Sequence[tuple[JavaObject, ...]], types: Sequence[str]) -> DataFrame:
        rows = [
            self._select(
                self._catalyst.plan("OneRowRelation")(),
                [self._catalyst.named(value, f"k{i}") for i, value in enumerate(key)],
            )
            for key in keys
        ]
        frame = self._catalyst.dataframe(rows[0])
        for row in rows[1:]:
            frame = frame.unionAll(self._catalyst.dataframe(row))
        return frame.select(*(F.col(f"k{i}").cast(t) for i, t in enumerate(types)))

    def _filtered(self, target: Target, condition: JavaObject) -> JavaObject:
        return self._catalyst.plan("Filter")(condition, target.relation)

    def _assignments(
        self, target: Target, assignments: Sequence[JavaObject]
    ) -> dict[int, JavaObject]:
        found = {}
        for assignment in assignments:
            parts = [str(part) for part in items(assignment.key().nameParts())]
            (position,) = self._positions(target.node, [parts[-1]])
            found[position] = assignment.value()
        return found

    def _positions(self, node: Table, names: Sequence[str]) -> list[int]:
        known = {name.lower(): i for i, name in enumerate(node.schema.names)}
        for name in names:
            if name.lower() not in known:
                raise unknown_name("column", name, node.schema.names, node.name)
        return [known[name.lower()] for name in names]

    def _attribute(self, target: Target, column: str) -> JavaObject:
        return self._catalyst.class_("org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute")(
            self._catalyst.seq([target.alias, column])
        )

    def _name(self, column: str) -> JavaObject:
        return self._catalyst.class_("org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute")(
            self._catalyst.seq([column])
        )

    def _select(self, plan: JavaObject, columns: Sequence[JavaObject]) -> JavaObject:
        named = [
            self._catalyst.named(column, f"e{i}") if _needs_alias(column) else column
            for i, column in enumerate(columns)
        ]
        return self._catalyst.plan("Project")(self._catalyst.seq(named), plan)

    def _star(self) -> JavaObject:
        return self._catalyst.class_("org.apache.spark.sql.catalyst.analysis.UnresolvedStar")(
            self._catalyst.none()
        )

    def _case(
        self, branches: Sequence[tuple[JavaObject, JavaObject]], otherwise: JavaObject
    ) -> JavaObject:
        if not branches:
            return otherwise
        pairs = [self._catalyst.jvm.scala.Tuple2(when, then) for when, then in branches]
        return self._catalyst.expression("CaseWhen")(
            self._catalyst.seq(pairs), self._catalyst.some(otherwise)
        )

    def _equals(self, expression: JavaObject, number: int) -> JavaObject:
        return self._catalyst.expression("EqualTo")(expression, self._catalyst.literal(str(number)))

    def _join_type(self, name: str) -> JavaObject:
        return self._catalyst.module(f"org.apache.spark.sql.catalyst.plans.{name}")


def _all(node: Table) -> list[int]:
    return list(range(len(node.schema)))


def _old(node: Table) -> list[str]:
    """The columns of rows that go away."""
    return [f"o{i}" for i in _all(node)]


def _new(node: Table) -> list[str]:
    """The columns of rows that come."""
    return [f"n{i}" for i in _all(node)]


def _needs_alias(column: JavaObject) -> bool:
    return simple_name(column) not in ("Alias", "UnresolvedAttribute", "UnresolvedStar")


def _qualifier(source: JavaObject) -> list[str]:
    """The name under which a MERGE source's columns are known."""
    match simple_name(source):
        case "SubqueryAlias":
            return [str(source.alias())]
        case "UnresolvedRelation":
            return [str(items(source.multipartIdentifier())[-1])]
    return []


def _find_condition(plan: JavaObject) -> JavaObject | None:
    while True:
        if simple_name(plan) == "Filter":
            return plan.condition()
        children = items(plan.children())
        if not children:
            return None
        plan = children[-1]


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
