"""Bodies of groups as logical plans.

The rows of all touched groups, before and after a change, are one relation: a column `MOMENT` says
which they are, and takes part in the grouping. One plan therefore gives the old results and the
new ones, and Spark plans it once for as long as the node lives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rekindle.calculus.bodies import Measures
from rekindle.calculus.scalars import Column
from rekindle.calculus.terms import Body, Measure, RunningFrame
from rekindle.catalyst.bodies import (
    CatalystAggregate,
    CatalystCogroupMap,
    CatalystGroupMap,
    CatalystPicking,
    CatalystRunning,
    CatalystTop,
    CatalystWindow,
)
from rekindle.catalyst.jvm import Catalyst, JavaObject, id_of, without_alias
from rekindle.catalyst.numbering import ascending, in_order, ranked, windowed
from rekindle.catalyst.table_functions import over_partitions
from rekindle.circuit.nodes import GroupMap
from rekindle.columns import column_name
from rekindle.errors import RekindleError
from rekindle.kernels.regroup import MOMENT, MOMENTS


class Bodies:
    """Builds the plans of one session."""

    def __init__(self, catalyst: Catalyst) -> None:
        self._catalyst = catalyst

    def attributes(self, types: Sequence[str]) -> tuple[JavaObject, ...]:
        """Fresh attributes of a group's rows: the moment, then the columns."""
        catalyst = self._catalyst
        columns = (catalyst.attribute(column_name(i), type_) for i, type_ in enumerate(types))
        return (catalyst.attribute(MOMENT, "bigint"), *columns)

    def of_node(
        self,
        node: GroupMap,
        keys: Sequence[int],
        rows: JavaObject,
        attributes: Sequence[JavaObject],
    ) -> JavaObject:
        """The plan of a node's body, over all rows of a group or those from a change on."""
        if isinstance(node.reach, RunningFrame) and isinstance(node.body, CatalystRunning):
            return self._going_on(node.body, keys, rows, attributes)
        return self.plan(node.body, keys, rows, attributes)

    def _going_on(
        self,
        body: CatalystRunning,
        keys: Sequence[int],
        rows: JavaObject,
        attributes: Sequence[JavaObject],
    ) -> JavaObject:
        """Rows and the functions' values, which go on from a row of moment 0 before the others."""
        catalyst = self._catalyst
        moment, *columns = attributes
        before = [body.moment, *body.inputs, *(e.toAttribute() for e in body.expressions)]
        moved = self._moved(before, [moment, *columns])
        expressions = [self._result(catalyst.rebased(e, moved)) for e in body.going_on]
        order = [ascending(catalyst, moment), *(catalyst.rebased(o, moved) for o in body.order)]
        plan = windowed(self._catalyst, expressions, [columns[i] for i in keys], order, rows)
        later = catalyst.expression("GreaterThan")(moment, catalyst.literal("0L"))
        outputs = [*columns[: len(body.inputs)], *(e.toAttribute() for e in expressions)]
        return self._project([moment, *outputs], catalyst.plan("Filter")(later, plan))

    def plan(
        self,
        body: Body,
        keys: Sequence[int],
        rows: JavaObject,
        attributes: Sequence[JavaObject],
    ) -> JavaObject:
        """The plan that gives the moment and the body's columns, from a plan of `attributes`.

        Those of groups at iterations end in bounds: a stamp and an end for each scope, which are
        among the keys. They stand where `GroupMap.bounds` says.
        """
        moment, *columns = attributes
        groups = [moment, *(columns[i] for i in keys)]
        match body:
            case Measures():
                return self._measures(body, groups, columns, rows)
            case CatalystWindow():
                own, bounds = columns[: len(body.inputs)], columns[len(body.inputs) :]
                moved = self._moved(body.inputs, own)
                expressions = [self._renamed(e, moved) for e in body.expressions]
                order = [self._catalyst.rebased(o, moved) for o in body.order]
                if isinstance(body, CatalystPicking):
                    total = [self._catalyst.rebased(o, moved) for o in body.total]
                    plan = self._picking(expressions, groups, order, total, rows)
                else:
                    plan = windowed(self._catalyst, expressions, groups, order, rows)
                outputs = [*own, *(e.toAttribute() for e in expressions), *bounds]
                return self._project([moment, *outputs], plan)
            case CatalystTop():
                return self._top(body, moment, groups, columns, rows)
            case CatalystGroupMap():
                return self._group_map(body, keys, rows, attributes)
        raise RekindleError(f"Spark cannot compute the groups of {body.text}")

    def total(
        self, body: Measures, rows: JavaObject, attributes: Sequence[JavaObject]
    ) -> JavaObject:
        """The measures of all rows as one group, without a moment; a row over no rows too."""
        return self._measures(body, [], attributes[1:], rows)

    def _measures(
        self,
        body: Measures,
        groups: Sequence[JavaObject],
        columns: Sequence[JavaObject],
        rows: JavaObject,
    ) -> JavaObject:
        results = [self._result(self._aggregate(m, columns)) for m in body.measures]
        catalyst = self._catalyst
        return catalyst.plan("Aggregate")(
            catalyst.seq(groups), catalyst.seq([*groups, *results]), rows, catalyst.none()
        )

    def _aggregate(self, measure: Measure, columns: Sequence[JavaObject]) -> JavaObject:
        finish = measure.finish
        if not isinstance(finish, CatalystAggregate):
            raise RekindleError(f"Spark cannot compute the aggregate {measure.name}")
        places = [a.position for a in measure.arguments if isinstance(a, Column)]
        call = self._catalyst.rebased(
            finish.expression, self._moved(finish.inputs, [columns[i] for i in places])
        )
        # Equal calls of different columns may be one object, and Spark knows a result by its id.
        return self._catalyst.call(call.aggregateFunction(), call)

    def _top(
        self,
        body: CatalystTop,
        moment: JavaObject,
        groups: Sequence[JavaObject],
        columns: Sequence[JavaObject],
        rows: JavaObject,
    ) -> JavaObject:
        catalyst = self._catalyst
        moved = self._moved(body.inputs, columns[: len(body.inputs)])
        order = [self._catalyst.rebased(o, moved) for o in body.order]
        place = ranked(catalyst, catalyst.rebased(body.rank, moved), groups, order)
        plan = windowed(catalyst, [place], groups, order, rows)
        within = catalyst.expression("And")(
            catalyst.expression("GreaterThan")(
                place.toAttribute(), catalyst.literal(str(body.offset))
            ),
            catalyst.expression("LessThanOrEqual")(
                place.toAttribute(), catalyst.literal(str(body.last))
            ),
        )
        return self._project([moment, *columns], catalyst.plan("Filter")(within, plan))

    def _group_map(
        self,
        body: CatalystGroupMap,
        keys: Sequence[int],
        rows: JavaObject,
        attributes: Sequence[JavaObject],
    ) -> JavaObject:
        catalyst, moment = self._catalyst, attributes[0]
        parts = []
        for sign in MOMENTS:
            is_then = catalyst.expression("EqualTo")(moment, catalyst.literal(f"{sign}L"))
            then = catalyst.plan("Filter")(is_then, rows)
            parts.append(self.at_moment(body, sign, keys, then, attributes))
        return catalyst.plan("Union")(catalyst.seq(parts), False, False)

    def at_moment(
        self,
        body: CatalystGroupMap,
        sign: int,
        keys: Sequence[int],
        rows: JavaObject,
        attributes: Sequence[JavaObject],
    ) -> JavaObject:
        """What a function gives for groups at one moment; its results do not say at which."""
        catalyst, columns = self._catalyst, attributes[1:]
        groups = [columns[i] for i in keys]
        moved = self._moved(body.inputs, columns)
        results = [catalyst.attribute("result", field.type) for field in body.schema]
        match body:
            case CatalystCogroupMap():
                mapped = self._cogroup_map(body, groups, results, rows, moved)
            case _:
                seen, ordered = self._given(body.columns, body.order, groups, rows, moved)
                function = catalyst.rebased(body.function, self._renaming(body.columns, seen))
                mapped = self._mapped(body.node, groups, function, results, seen, ordered)
        return self._project([self._result(catalyst.literal(f"{sign}L")), *results], mapped)

    def _given(
        self,
        columns: Sequence[JavaObject],
        order: Sequence[JavaObject],
        groups: Sequence[JavaObject],
        rows: JavaObject,
        moved: Mapping[int, JavaObject],
    ) -> tuple[list[JavaObject], JavaObject]:
        """The columns that a function is given, by the names that it knows, of rows in an order."""
        catalyst = self._catalyst
        ordered = in_order(catalyst, groups, [catalyst.rebased(o, moved) for o in order], rows)
        seen = [
            catalyst.named(catalyst.rebased(without_alias(column), moved), str(column.name()))
            for column in columns
        ]
        return seen, ordered

    def _renaming(
        self, columns: Sequence[JavaObject], seen: Sequence[JavaObject]
    ) -> dict[int, JavaObject]:
        return self._moved([c.toAttribute() for c in columns], [s.toAttribute() for s in seen])

    def _cogroup_map(
        self,
        body: CatalystCogroupMap,
        groups: Sequence[JavaObject],
        results: Sequence[JavaObject],
        rows: JavaObject,
        moved: Mapping[int, JavaObject],
    ) -> JavaObject:
        catalyst = self._catalyst
        side = moved[id_of(body.inputs[0])]
        given = ((body.columns, body.order), (body.other_columns, body.other_order))
        renaming: dict[int, JavaObject] = {}
        plans = []
        for number, (columns, order) in enumerate(given):
            is_of_side = catalyst.expression("EqualTo")(side, catalyst.literal(str(number)))
            of_side = catalyst.plan("Filter")(is_of_side, rows)
            seen, ordered = self._given(columns, order, groups, of_side, moved)
            renaming |= self._renaming(columns, seen)
            # Both sides read one plan: under names of their own they have no column in common.
            keys = [catalyst.named(group, str(group.name())) for group in groups]
            plans.append(self._project([*keys, *seen], ordered))
        function = catalyst.rebased(body.function, renaming)
        length = len(groups)
        return catalyst.plan(body.node)(length, length, function, catalyst.seq(results), *plans)

    def _mapped(
        self,
        node: str,
        groups: Sequence[JavaObject],
        function: JavaObject,
        results: Sequence[JavaObject],
        seen: Sequence[JavaObject],
        rows: JavaObject,
    ) -> JavaObject:
        """A function over columns of rows; a table function finds its partitions by itself."""
        catalyst = self._catalyst
        if node == "Generate":
            return over_partitions(catalyst, function, results, seen, rows)
        return catalyst.plan(node)(
            catalyst.seq(groups),
            function,
            catalyst.seq(results),
            self._project([*groups, *seen], rows),
        )

    def _picking(
        self,
        expressions: Sequence[JavaObject],
        groups: Sequence[JavaObject],
        order: Sequence[JavaObject],
        total: Sequence[JavaObject],
        rows: JavaObject,
    ) -> JavaObject:
        """Window functions over rows that a window below has brought into the order `total`.

        Its rows are in the order of the window above already, so they are not sorted again.
        """
        return windowed(
            self._catalyst,
            expressions,
            groups,
            order,
            in_order(self._catalyst, groups, total, rows),
        )

    # ---- expressions -----------------------------------------------------------------------

    def _project(self, columns: Sequence[JavaObject], plan: JavaObject) -> JavaObject:
        return self._catalyst.plan("Project")(self._catalyst.seq(columns), plan)

    def _result(self, expression: JavaObject) -> JavaObject:
        return self._catalyst.named(expression, "result")

    def _renamed(self, named: JavaObject, moved: Mapping[int, JavaObject]) -> JavaObject:
        """The named expression over other columns, under a fresh name."""
        return self._result(self._catalyst.rebased(named.child(), moved))

    @staticmethod
    def _moved(
        inputs: Sequence[JavaObject], columns: Sequence[JavaObject]
    ) -> dict[int, JavaObject]:
        return {id_of(source): column for source, column in zip(inputs, columns, strict=True)}
