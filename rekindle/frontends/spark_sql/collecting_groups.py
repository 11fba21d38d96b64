"""Queries whose groups collect their elements, as the flat parts of a nested view.

    SELECT g, collect_list(x) AS xs, count(*) AS n FROM t GROUP BY g

    v·      SELECT g, {g} AS xs, count(*) AS n FROM t GROUP BY g
    v·xs    SELECT {g} AS _label, x AS value FROM t WHERE x IS NOT NULL

The label of a group is made of its keys, so the dictionary needs no join to know it: one element
more is one row more, however many its group has. A struct that is collected has a column for each
of its fields. Arrays are read in the order of their elements (`comprehension/assembling.py`), so
sort_array of what is collected is the same as what is collected.

Only what a column of the result is by itself is kept so, in the outermost aggregate. Anything else
that is computed from a collected array is computed from the rows of its group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from rekindle.catalyst.classes import classes_of_plan
from rekindle.catalyst.jvm import (
    Catalyst,
    JavaObject,
    child_of,
    children_of,
    has_pattern,
    id_of,
    ids_read,
    is_collated,
    items,
    option,
    simple_name,
    without_alias,
)
from rekindle.frontends.spark_sql.rules.compute_sessions import is_session
from rekindle.names import RESERVED
from rekindle.nested.levels import LABEL, VALUE

COLLECTING = ("CollectList", "CollectSet")
_ABOVE = ("Project", "Filter", "Sort", "SubqueryAlias")
_RECURSIVE = ("UnionLoop", "UnionLoopRef")


@dataclass(frozen=True, slots=True)
class Dictionary:
    """The elements that the groups of a query collect, by the labels of the groups."""

    plan: JavaObject
    of_values: bool


@dataclass(frozen=True, slots=True)
class CollectingGroups:
    """A query with labels in the place of what it collects, and the dictionary of each column."""

    top: JavaObject
    dictionaries: dict[str, Dictionary]


def collecting_groups(catalyst: Catalyst, plan: JavaObject) -> CollectingGroups | None:
    """An analysed query as parts; None if no column is what its groups collect."""
    if not collects(plan) or not classes_of_plan(plan).isdisjoint(_RECURSIVE):
        return None
    if simple_name(plan) != "WithCTE":
        return _Division(catalyst, lambda part: part).divided(plan)
    definitions = plan.cteDefs()
    within = catalyst.plan("WithCTE")
    return _Division(catalyst, lambda part: within(part, definitions)).divided(plan.plan())


def collects(plan: JavaObject) -> bool:
    """Is anything in a plan an array of what its rows have?"""
    aggregates = has_pattern(plan, "AGGREGATE_EXPRESSION")
    return aggregates and not classes_of_plan(plan).isdisjoint(COLLECTING)


@dataclass(slots=True)
class _Division:
    """Divides one query."""

    catalyst: Catalyst
    within: Callable[[JavaObject], JavaObject]
    """A part under the definitions of the query's WITH clause."""
    _calls: dict[int, JavaObject] = field(default_factory=dict)
    """What is collected, by the columns of the result."""

    def divided(self, plan: JavaObject) -> CollectingGroups | None:
        whole, above = plan, []
        while simple_name(plan) in _ABOVE:
            above.append(plan)
            plan = child_of(plan)
        if simple_name(plan) != "Aggregate":
            return None
        groupings = items(plan.groupingExpressions())
        if any(is_collated(g.dataType()) or is_session(g) for g in groupings):
            # Which rows are in such a group is not said by their own keys.
            return None
        calls = {
            id_of(named): call
            for named in items(plan.aggregateExpressions())
            if (call := _collected(without_alias(named))) is not None
        }
        for each in reversed(above):
            calls = _passed(each, calls)
        calls = _with_names(whole, calls)
        if not calls:
            return None
        self._calls = calls
        return self._parts(plan, above[::-1], groupings)

    def _parts(
        self, aggregate: JavaObject, above: Sequence[JavaObject], groupings: Sequence[JavaObject]
    ) -> CollectingGroups:
        catalyst = self.catalyst
        label = self._label(groupings)
        kept = {_number(call) for call in self._calls.values()}
        labels: dict[int, JavaObject] = {}
        results = []
        for named in items(aggregate.aggregateExpressions()):
            call = _collected(without_alias(named))
            if call is None or _number(call) not in kept:
                results.append(named)
                continue
            results.append(catalyst.named(label, named.name()))
            labels[id_of(named)] = results[-1].toAttribute()
        top = catalyst.plan("Aggregate")(
            aggregate.groupingExpressions(),
            catalyst.seq(results),
            aggregate.child(),
            aggregate.hint(),
        )
        for each in above:
            top, labels = self._over(each, top, labels)
        names = {id_of(column): str(column.name()) for column in items(top.output())}
        dictionaries = {}
        for old, column in labels.items():
            name = names[id_of(column)]
            dictionaries[name] = self._dictionary(self._calls[old], label, aggregate.child())
        return CollectingGroups(self.within(top), dictionaries)

    def _over(
        self, node: JavaObject, below: JavaObject, labels: dict[int, JavaObject]
    ) -> tuple[JavaObject, dict[int, JavaObject]]:
        """A node of the query over labels, and these as it shows them."""
        catalyst = self.catalyst
        if simple_name(node) != "Project":
            return node.withNewChildren(catalyst.seq([below])), labels
        shown, passed = [], {}
        for named in items(node.projectList()):
            label = labels.get(id_of(bare)) if _is_column(bare := without_alias(named)) else None
            shown.append(named if label is None else catalyst.named(label, named.name()))
            if label is not None:
                passed[id_of(named)] = shown[-1].toAttribute()
        return catalyst.plan("Project")(catalyst.seq(shown), below), passed

    def _label(self, groupings: Sequence[JavaObject]) -> JavaObject:
        """The label of a group; the constant is all that one has where there are no keys."""
        catalyst = self.catalyst
        parts = [catalyst.literal("'i'"), catalyst.literal("0")]
        for i, grouping in enumerate(groupings):
            key = catalyst.with_one_zero(without_alias(grouping))
            parts += [catalyst.literal(f"'k{i}'"), key]
        return catalyst.expression("CreateNamedStruct")(catalyst.seq(parts))

    def _dictionary(self, call: JavaObject, label: JavaObject, rows: JavaObject) -> Dictionary:
        catalyst = self.catalyst
        function = call.aggregateFunction()
        element = function.child()
        conditions = []
        if (wanted := option(call.filter())) is not None:
            conditions.append(wanted)
        if function.ignoreNulls():
            conditions.append(catalyst.expression("IsNotNull")(element))
        condition = catalyst.conjunction(conditions)
        if condition is not None:
            rows = catalyst.plan("Filter")(condition, rows)
        fields = _fields(element) if function.ignoreNulls() else []
        columns = [catalyst.named(label, LABEL)]
        for i, name in enumerate(fields):
            value = catalyst.expression("GetStructField")(element, i, catalyst.some(name))
            columns.append(catalyst.named(value, name))
        if not fields:
            columns.append(catalyst.named(element, VALUE))
        plan = catalyst.plan("Project")(catalyst.seq(columns), rows)
        if _is_distinct(call):
            plan = catalyst.plan("Distinct")(plan)
        return Dictionary(self.within(plan), of_values=not fields)


def _collected(expression: JavaObject) -> JavaObject | None:
    """The call of collect_list or collect_set that an expression is, or sorts."""
    if simple_name(expression) == "SortArray":
        expression, ascending = children_of(expression)
        if not (ascending.foldable() and ascending.eval(None)):
            return None
    if simple_name(expression) != "AggregateExpression":
        return None
    function = expression.aggregateFunction()
    if simple_name(function) not in COLLECTING:
        return None
    # Which of the texts that a collation takes for one is shown is for Spark to say.
    collated = _is_distinct(expression) and is_collated(function.dataType())
    return None if collated else expression


def _is_distinct(call: JavaObject) -> bool:
    """Does a call take each element once?"""
    return bool(call.isDistinct()) or simple_name(call.aggregateFunction()) == "CollectSet"


def _passed(node: JavaObject, calls: dict[int, JavaObject]) -> dict[int, JavaObject]:
    """The columns of a node that are what is collected, where nothing is computed from that."""
    passed, used = calls, ids_read(node)
    if simple_name(node) == "Project":
        shown = items(node.projectList())
        plain = [named for named in shown if _is_column(without_alias(named))]
        used = {
            column
            for named in shown
            if not _is_column(without_alias(named))
            for column in ids_read(named)
        }
        passed = {
            id_of(named): calls[id_of(without_alias(named))]
            for named in plain
            if id_of(without_alias(named)) in calls
        }
    computed = {_number(call) for column, call in calls.items() if column in used}
    return {column: call for column, call in passed.items() if _number(call) not in computed}


def _with_names(plan: JavaObject, calls: dict[int, JavaObject]) -> dict[int, JavaObject]:
    """Those of the columns by which a part can be called: a dot leads into a struct."""
    names = {id_of(column): str(column.name()) for column in items(plan.output())}
    unnamed = {
        _number(call)
        for column, call in calls.items()
        if not names[column].isprintable() or not {".", "/"}.isdisjoint(names[column])
    }
    return {column: call for column, call in calls.items() if _number(call) not in unnamed}


def _number(call: JavaObject) -> int:
    """What tells a call from others."""
    return int(call.resultId().id())


def _is_column(expression: JavaObject) -> bool:
    return simple_name(expression) == "AttributeReference"


def _fields(element: JavaObject) -> list[str]:
    """The fields of a struct, if they can be columns of a dictionary."""
    if simple_name(element.dataType()) != "StructType":
        return []
    names = [str(name) for name in element.dataType().fieldNames()]
    folded = [name.lower() for name in names]
    if len(set(folded)) < len(folded) or not {LABEL, *RESERVED}.isdisjoint(folded):
        return []
    return [] if any("." in name for name in names) else names
