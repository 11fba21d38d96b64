"""Reads of nested collections as reads of their flat parts.

To the optimiser a nested table or view is a leaf with columns of arrays. Here such a leaf becomes
its top part, which has labels in their place, and each use of a bag says what is read of it:

    a column that is not read        nothing
    explode(b), inline(b)            ⋈[b = _label] dictionary; ⟕ where it is outer
    size(b)                          ⟕[b = _label] γ[_label; count] dictionary
    b IS NULL                        is the label?
    anything else                    ⟕[b = _label] the array, assembled from the dictionary

Labels are carried through projections, filters and joins up to where they are used, so the rows of
a bag are joined with those that a query wants and no others. Elements have no order, so posexplode
is among "anything else". A bag that is NULL has no label; an empty one has a label without rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from rekindle.calculus.walks import fold
from rekindle.catalyst.jvm import (
    Catalyst,
    JavaObject,
    child_of,
    children_of,
    id_of,
    ids_read,
    items,
    option,
    simple_name,
    with_children,
    without_alias,
)
from rekindle.catalyst.rules import Rule
from rekindle.frontends.spark_sql.analyse import Leaves
from rekindle.frontends.spark_sql.carried import Carried, reached
from rekindle.frontends.spark_sql.dictionaries import Dictionaries
from rekindle.names import sql_text
from rekindle.nested.levels import POSITION, VALUE, Level

_PLANS = "org.apache.spark.sql.catalyst.plans"
_OPTIMISER = "org.apache.spark.sql.catalyst.optimizer"
_RULES = ("CollapseProject", "SimplifyExtractValueOps", "ColumnPruning")
"""What the optimiser would have done to the joins, had they been there."""
_PASSING = ("Sort", "Repartition", "RepartitionByExpression", "RebalancePartitions")
"""Nodes that give the rows that they get."""
_OUTER = ("LeftOuter", "RightOuter", "FullOuter")


def open_dictionaries(leaves: Leaves) -> Rule:
    """The rule that gives an equal plan without leaves of nested collections."""

    def open_dictionaries(catalyst: Catalyst, plan: JavaObject) -> JavaObject:
        if not leaves.levels or not any(
            _level(leaves, leaf) is not None for leaf in items(plan.collectLeaves())
        ):
            return plan
        opened = _Opening(catalyst, leaves).whole(plan)
        for rule in _RULES:
            opened = catalyst.module(f"{_OPTIMISER}.{rule}").apply(opened)
        return opened

    return open_dictionaries


def _level(leaves: Leaves, leaf: JavaObject) -> Level | None:
    if simple_name(leaf) != "LogicalRDD":
        return None
    name = leaves.name_of(leaf)
    return None if name is None else leaves.levels.get(name)


@dataclass(slots=True)
class _Rows:
    """A plan in the making, and the columns that it has in shredded form, by the old ids."""

    plan: JavaObject
    carried: dict[int, Carried] = field(default_factory=dict)
    made: list[tuple[JavaObject, JavaObject]] = field(default_factory=list)
    """Columns with what uses of bags come to, beside the uses."""

    def column(self, attribute: JavaObject) -> JavaObject:
        """The column as it is here."""
        found = self.carried.get(id_of(attribute))
        return attribute if found is None else found.shredded


class _Opening:
    """Opens one plan."""

    def __init__(self, catalyst: Catalyst, leaves: Leaves) -> None:
        self._catalyst = catalyst
        self._leaves = leaves
        self._dictionaries = Dictionaries(catalyst, leaves)
        self._no_hint = catalyst.module(f"{_PLANS}.logical.JoinHint").NONE()
        self._computed: set[int] = set()
        self._assembled_first: frozenset[int] = frozenset()

    def whole(self, plan: JavaObject) -> JavaObject:
        """A plan with the same columns over flat collections.

        A column of which some expression wants the array is assembled where it comes in: a filter
        on its size guards `element_at` only if both look at one array. The parts of a row may come
        and go one after the other within a step.
        """
        while True:
            opened = self._closed(plan, fold(plan, children_of, self._opened))
            if self._computed <= self._assembled_first:
                return opened
            self._assembled_first |= self._computed

    def _opened(self, node: JavaObject, below: tuple[_Rows, ...]) -> _Rows:
        kind = simple_name(node)
        if kind == "LogicalRDD" and (level := _level(self._leaves, node)) is not None:
            return self._top(node, level)
        if not any(rows.carried for rows in below):
            return _Rows(self._over(node, [rows.plan for rows in below]))
        rules: Mapping[str, Callable[[JavaObject, Sequence[_Rows]], _Rows]] = {
            "Project": self._project,
            "Filter": self._filter,
            "Join": self._join,
            "Aggregate": self._aggregate,
            "Generate": self._generate,
        }
        # A node below may be there for several: each makes its own of the rows.
        rows = [_Rows(each.plan, dict(each.carried), list(each.made)) for each in below]
        if kind in rules:
            return rules[kind](node, rows)
        if kind in _PASSING and ids_read(node).isdisjoint(rows[0].carried):
            return _Rows(self._over(node, [rows[0].plan]), rows[0].carried)
        closed = [
            self._closed(child, each) for child, each in zip(children_of(node), rows, strict=True)
        ]
        return _Rows(self._over(node, closed))

    def _over(self, node: JavaObject, children: Sequence[JavaObject]) -> JavaObject:
        same = all(new is old for new, old in zip(children, children_of(node), strict=True))
        return node if same else with_children(self._catalyst, node, children)

    def _closed(self, old: JavaObject, rows: _Rows) -> JavaObject:
        """The columns of the old plan, whole."""
        output = items(old.output())
        if not rows.carried:
            return rows.plan
        for attribute in output:
            self._assembled(attribute, rows)
        return self._projected(output, rows.plan)

    def _projected(self, columns: Sequence[JavaObject], plan: JavaObject) -> JavaObject:
        return self._catalyst.plan("Project")(self._catalyst.seq(columns), plan)

    # ---- nodes -----------------------------------------------------------------------------

    def _top(self, leaf: JavaObject, level: Level) -> _Rows:
        """The top part, under the ids of the leaf but for labels."""
        top = self._dictionaries.rows(level)
        columns = {str(column.name()): column for column in items(top.output())}
        shown, carried = [], {}
        for old in items(leaf.output()):
            name = str(old.name())
            found = Carried(columns[name], level, (name,), id_of(old))
            if found.holds_bags:
                carried[id_of(old)] = found
                shown.append(found.shredded)
            else:
                shown.append(self._catalyst.alias(columns[name], name, old.exprId()))
        return self._come_in(_Rows(self._projected(shown, top), carried), items(leaf.output()))

    def _come_in(self, rows: _Rows, columns: Sequence[JavaObject]) -> _Rows:
        """The rows, with those of the columns assembled of which expressions want the arrays."""
        for column in columns:
            if id_of(column) in self._assembled_first:
                self._assembled(column, rows)
        return rows

    def _project(self, node: JavaObject, below: Sequence[_Rows]) -> _Rows:
        (rows,) = below
        shown: list[JavaObject] = []
        carried: dict[int, Carried] = {}
        for named in items(node.projectList()):
            found = reached(self._catalyst, without_alias(named), rows.carried)
            if found is None or not found.holds_bags:
                shown.append(self._named(named, below))
                continue
            shown.append(self._catalyst.named(found.shredded, named.name()))
            carried[id_of(named)] = found.renamed(shown[-1].toAttribute())
        return _Rows(self._projected(shown, rows.plan), carried)

    def _filter(self, node: JavaObject, below: Sequence[_Rows]) -> _Rows:
        (rows,) = below
        condition = self._rewritten(node.condition(), below)
        return _Rows(self._catalyst.plan("Filter")(condition, rows.plan), rows.carried)

    def _join(self, node: JavaObject, below: Sequence[_Rows]) -> _Rows:
        left, right = below
        condition = option(node.condition())
        if condition is not None:
            condition = self._rewritten(condition, below)
        wanted = self._catalyst.none() if condition is None else self._catalyst.some(condition)
        kind = simple_name(node.joinType())
        joined = self._catalyst.plan("Join")(
            left.plan, right.plan, node.joinType(), wanted, node.hint()
        )
        half = kind in ("LeftSemi", "LeftAnti") or kind.startswith("Existence")
        carried = left.carried if half else {**left.carried, **right.carried}
        if kind in _OUTER:
            # Labels are NULL in rows that have no partner.
            columns = {id_of(column): column for column in items(joined.output())}
            carried = {
                old: found.renamed(columns[id_of(found.shredded)]) for old, found in carried.items()
            }
        return _Rows(joined, carried)

    def _aggregate(self, node: JavaObject, below: Sequence[_Rows]) -> _Rows:
        (rows,) = below
        groupings = [self._rewritten(each, below) for each in items(node.groupingExpressions())]
        results = [self._named(each, below) for each in items(node.aggregateExpressions())]
        catalyst = self._catalyst
        return _Rows(
            catalyst.plan("Aggregate")(
                catalyst.seq(groupings), catalyst.seq(results), rows.plan, node.hint()
            )
        )

    def _generate(self, node: JavaObject, below: Sequence[_Rows]) -> _Rows:
        (rows,) = below
        unneeded = {int(i) for i in items(node.unrequiredChildIndex())}
        needed = [
            column for i, column in enumerate(items(child_of(node).output())) if i not in unneeded
        ]
        kind = simple_name(node.generator())
        (of, *_) = children_of(node.generator()) or [None]
        found = None if of is None else reached(self._catalyst, of, rows.carried)
        if kind in ("Explode", "Inline") and found is not None and found.bag is not None:
            return self._exploded(node, rows, found, found.bag, needed)
        generator = self._rewritten(node.generator(), below)
        output = items(rows.plan.output())
        kept = {id_of(rows.column(column)) for column in needed}
        catalyst = self._catalyst
        generated = catalyst.plan("Generate")(
            generator,
            catalyst.seq(i for i, column in enumerate(output) if id_of(column) not in kept),
            node.outer(),
            node.qualifier(),
            node.generatorOutput(),
            rows.plan,
        )
        carried = {old: each for old, each in rows.carried.items() if id_of(each.shredded) in kept}
        return _Rows(generated, carried)

    def _exploded(
        self,
        node: JavaObject,
        rows: _Rows,
        bag: Carried,
        level: Level,
        needed: Sequence[JavaObject],
    ) -> _Rows:
        """The rows beside the elements of their bags."""
        dictionary = self._dictionaries.rows(level)
        label, *columns = items(dictionary.output())
        absent = [self._catalyst.expression("IsNull")(label)] if node.outer() else []
        if str(columns[0].name()) == POSITION:
            # An element that is NULL has no columns to say so, and a negative position.
            position = columns.pop(0)
            zero = self._catalyst.cast(self._catalyst.literal("0"), position.dataType())
            absent.append(self._catalyst.expression("LessThan")(position, zero))
        outer = bool(node.outer())
        joined = self._joined(rows.plan, bag.shredded, dictionary, label, outer=outer)
        outputs = items(node.generatorOutput())
        element = self._element(level, columns, bag.fields, absent)
        if simple_name(node.generator()) == "Inline":
            names = [str(name) for name in element.shredded.dataType().fieldNames()]
            given = [element.within(self._catalyst, name) for name in names]
        else:
            given = [element]
        shown = [rows.column(column) for column in needed]
        carried = {
            id_of(column): rows.carried[id_of(column)]
            for column in needed
            if id_of(column) in rows.carried
        }
        for output, each in zip(outputs, given, strict=True):
            if each.holds_bags:
                shown.append(self._catalyst.named(each.shredded, output.name()))
                found = replace(each, shredded=shown[-1].toAttribute(), origin=id_of(output))
                carried[id_of(output)] = found
            else:
                shown.append(self._catalyst.alias(each.shredded, output.name(), output.exprId()))
        return self._come_in(_Rows(self._projected(shown, joined), carried), outputs)

    def _element(
        self,
        level: Level,
        row: Sequence[JavaObject],
        fields: Sequence[str],
        absent: Sequence[JavaObject],
    ) -> Carried:
        """An element of a dictionary's row, or a field of it; NULL where a condition is true."""
        columns = {str(column.name()): column for column in row}
        if level.of_values:
            element = Carried(columns[VALUE], level, (VALUE,), 0)
        elif fields:
            element = Carried(columns[fields[0]], level, (fields[0],), 0)
            fields = fields[1:]
        else:
            element = Carried(self._struct(columns), level, (), 0)
            for condition in absent:
                element = element.renamed(self._unless(condition, element.shredded))
        for name in fields:
            element = element.within(self._catalyst, name)
        return element

    # ---- expressions -----------------------------------------------------------------------

    def _named(self, named: JavaObject, below: Sequence[_Rows]) -> JavaObject:
        """A named expression over the rows, under its own id."""
        if simple_name(named) == "Alias":
            child = self._rewritten(named.child(), below)
            return named.withNewChildren(self._catalyst.seq([child]))
        column = self._rewritten(named, below)
        if id_of(column) == id_of(named):
            return column
        return self._catalyst.alias(column, named.name(), named.exprId())

    def _rewritten(self, expression: JavaObject, below: Sequence[_Rows]) -> JavaObject:
        """The expression over the rows, which get the columns that it needs."""
        read = ids_read(expression)
        for rows in below:
            if not read.isdisjoint(rows.carried):
                expression = self._catalyst.transform(expression, partial(self._use, rows))
        return expression

    def _use(self, rows: _Rows, node: JavaObject) -> JavaObject | None:
        """What a use of a carried column comes to."""
        catalyst = self._catalyst
        match simple_name(node):
            case "IsNull" | "IsNotNull":
                found = reached(catalyst, child_of(node), rows.carried)
                return found and node.withNewChildren(catalyst.seq([found.shredded]))
            case "Size":
                found = reached(catalyst, child_of(node), rows.carried)
                if found is None or found.bag is None:
                    return None
                return self._size(node, found, found.bag, rows)
            case "AttributeReference" if id_of(node) in rows.carried:
                self._computed.add(rows.carried[id_of(node)].origin)
                return self._assembled(node, rows)
        found = reached(catalyst, node, rows.carried)
        if found is None or not found.holds_bags:
            return found and found.shredded
        self._computed.add(found.origin)
        return self._beside(node, rows, lambda: self._whole(found, rows))

    def _assembled(self, attribute: JavaObject, rows: _Rows) -> JavaObject:
        """A column as it was before it was shredded, under its own id."""
        found = rows.carried.pop(id_of(attribute), None)
        if found is None:
            return attribute
        whole = self._whole(found, rows)
        column = self._catalyst.alias(whole, attribute.name(), attribute.exprId())
        self._add(column, rows)
        return column.toAttribute()

    def _beside(self, use: JavaObject, rows: _Rows, make: Callable[[], JavaObject]) -> JavaObject:
        """The column with the value of a use, which is made once."""
        for known, column in rows.made:
            if known.semanticEquals(use):
                return column
        column = self._catalyst.named(make(), "made")
        self._add(column, rows)
        rows.made.append((use, column.toAttribute()))
        return rows.made[-1][1]

    def _add(self, column: JavaObject, rows: _Rows) -> None:
        rows.plan = self._projected([*items(rows.plan.output()), column], rows.plan)

    def _size(self, size: JavaObject, found: Carried, level: Level, rows: _Rows) -> JavaObject:
        """The number of elements; of NULL it is what Spark is set to say."""
        catalyst = self._catalyst

        def counted() -> JavaObject:
            plan, label, number = self._dictionaries.counts(level)
            rows.plan = self._joined(rows.plan, found.shredded, plan, label, outer=True)
            return catalyst.expression("Coalesce")(catalyst.seq([number, catalyst.literal("0L")]))

        number = catalyst.cast(self._beside(size, rows, counted), size.dataType())
        absent = catalyst.expression("IsNull")(found.shredded)
        of_null = (
            catalyst.literal("-1") if size.legacySizeOfNull() else catalyst.null(size.dataType())
        )
        return catalyst.expression("If")(absent, of_null, number)

    def _whole(self, found: Carried, rows: _Rows) -> JavaObject:
        """A value with its bags assembled, joined with the rows."""
        catalyst = self._catalyst
        level = found.bag
        if level is not None:
            plan, label, bag = self._dictionaries.bags(level)
            rows.plan = self._joined(rows.plan, found.shredded, plan, label, outer=True)
            nothing = catalyst.expression("CreateArray")(catalyst.seq(()), False)
            empty = catalyst.cast(nothing, bag.dataType())
            whole = catalyst.expression("Coalesce")(catalyst.seq([bag, empty]))
            whole = self._unless_null(found.shredded, whole)
            for name in found.fields:
                whole = self._field_of_each(whole, name)
            return whole
        if not found.holds_bags:
            return found.shredded
        names = [str(name) for name in found.shredded.dataType().fieldNames()]
        fields = {name: self._whole(found.within(catalyst, name), rows) for name in names}
        return self._unless_null(found.shredded, self._struct(fields))

    def _struct(self, fields: Mapping[str, JavaObject]) -> JavaObject:
        catalyst = self._catalyst
        parts = [
            part
            for name, value in fields.items()
            for part in (catalyst.literal(sql_text(name)), value)
        ]
        return catalyst.expression("CreateNamedStruct")(catalyst.seq(parts))

    def _unless_null(self, tested: JavaObject, value: JavaObject) -> JavaObject:
        return self._unless(self._catalyst.expression("IsNull")(tested), value)

    def _unless(self, condition: JavaObject, value: JavaObject) -> JavaObject:
        """The value, or NULL where a condition is true."""
        nothing = self._catalyst.null(value.dataType())
        return self._catalyst.expression("If")(condition, nothing, value)

    def _field_of_each(self, array: JavaObject, name: str) -> JavaObject:
        """A field of each element of an array of structs."""
        type_ = array.dataType()
        struct = type_.elementType()
        ordinal = struct.fieldIndex(name)
        chosen = struct.apply(name)
        return self._catalyst.expression("GetArrayStructFields")(
            array,
            chosen,
            ordinal,
            struct.length(),
            bool(type_.containsNull()) or bool(chosen.nullable()),
        )

    def _joined(
        self,
        rows: JavaObject,
        label: JavaObject,
        dictionary: JavaObject,
        known: JavaObject,
        *,
        outer: bool,
    ) -> JavaObject:
        """The rows beside those of a dictionary that have their label."""
        catalyst = self._catalyst
        condition = catalyst.expression("EqualTo")(label, known)
        kind = catalyst.module(f"{_PLANS}.{'LeftOuter' if outer else 'Inner'}")
        return catalyst.plan("Join")(
            rows, dictionary, kind, catalyst.some(condition), self._no_hint
        )
