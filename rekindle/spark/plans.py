"""What each node of a circuit needs to run: its file layout, accumulators and compiled stages.

Everything here is derived from the node alone and kept for as long as the node lives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from rekindle.aggregates.accumulators import Accumulator
from rekindle.aggregates.base import LinearAggregate
from rekindle.aggregates.extremes import Greatest, Least
from rekindle.calculus.bodies import Measures
from rekindle.calculus.scalars import Column
from rekindle.calculus.schema import Schema
from rekindle.calculus.terms import Body, Measure, RunningFrame
from rekindle.catalyst.bodies import CatalystGroupMap, CatalystTop
from rekindle.catalyst.jvm import JavaObject, id_of, simple_name, type_text
from rekindle.catalyst.scalars import CatalystScalar
from rekindle.catalyst.settings import Settings
from rekindle.catalyst.types import arrow_type, data_type, payload_schema
from rekindle.circuit.nodes import Group, GroupMap, Indexing, Node
from rekindle.circuit.stages import Branch
from rekindle.columns import column_names
from rekindle.errors import RekindleError
from rekindle.kernels.extremes import Extremes
from rekindle.kernels.regroup import MOMENT, MOMENTS
from rekindle.kernels.top import Direction, Level, Missing, Sorted, Top
from rekindle.spark.bodies import Bodies
from rekindle.spark.columnar import Columnar, columnar
from rekindle.spark.compiled_stages import Channel, CompiledStages
from rekindle.spark.generate import generated
from rekindle.spark.local_plan import LocalPlan, LocalPlans
from rekindle.spark.narrowing import Narrowed, narrowed
from rekindle.spark.stages import Generated, Lowering, Rowwise
from rekindle.spark.vectors import is_compared
from rekindle.traces.arrays import WEIGHT
from rekindle.traces.layout import TraceLayout


def _accumulators(group: Group) -> tuple[Accumulator, ...]:
    """The accumulators of a group's measures; their inputs are the columns x0, x1..."""
    found = []
    position = 0
    for measure in group.measures:
        width = len(measure.arguments)
        inputs = tuple(f"x{i}" for i in range(position, position + width))
        found.append(_accumulator(measure, inputs))
        position += width
    return tuple(found)


def _accumulator(measure: Measure, inputs: tuple[str, ...]) -> Accumulator:
    aggregate = measure.function.aggregate
    if not isinstance(aggregate, LinearAggregate):
        raise RekindleError(f"{measure.function.value} has no accumulator")
    return aggregate.accumulator(measure, inputs, _buffers(measure))


def _buffers(measure: Measure) -> tuple[pa.DataType, ...]:
    """The types of Spark's buffer; none where the accumulator's own is the result."""
    if not isinstance(measure.finish, CatalystScalar):
        return ()
    types = (type_text(attribute.dataType()) for attribute in measure.finish.inputs)
    return tuple(arrow_type(data_type(type_)) for type_ in types)


def group_columns(node: GroupMap, rows: Schema) -> tuple[tuple[int, ...], list[str]]:
    """Where the keys of touched groups are, and the types of their rows.

    Over stamped rows a group is also one of an iteration, which lasts until another, of each scope.
    Going onwards a row has results too.
    """
    if isinstance(node.reach, RunningFrame):
        return node.keys, list(node.schema.types)
    stamps = node.stamps
    if not stamps:
        return node.keys, list(rows.types)
    width = len(rows.types) - stamps
    bounds = range(width, width + 2 * stamps)
    return (*node.keys, *bounds), [*rows.types[:width], *["int"] * len(bounds)]


def extremes_of(body: Body, keys: Sequence[int], types: Sequence[str]) -> Extremes | None:
    """The body as extremes that need no Spark: min and max of types that Arrow orders alike."""
    if not isinstance(body, Measures) or not all(is_compared(types[i]) for i in keys):
        return None
    found = []
    for measure in body.measures:
        aggregate = measure.function.aggregate
        match measure.arguments:
            case (Column() as column,) if isinstance(aggregate, Least | Greatest) and is_compared(
                column.type
            ):
                found.append((column.position, aggregate.extreme))
            case _:
                return None
    return Extremes(tuple(keys), tuple(found))


def top_of(body: Body, keys: Sequence[int], types: Sequence[str]) -> Top | None:
    """The body as first rows that need no Spark, by columns of types that Arrow orders alike."""
    if not isinstance(body, CatalystTop) or not all(is_compared(types[i]) for i in keys):
        return None
    level = _LEVELS.get(simple_name(body.rank))
    places = {id_of(attribute): i for i, attribute in enumerate(body.inputs)}
    order = []
    for by in body.order:
        if simple_name(by.child()) != "AttributeReference":
            return None
        place = places[id_of(by.child())]
        if not is_compared(types[place]):
            return None
        direction = Direction[simple_name(by.direction()).upper()]
        order.append(Sorted(place, direction, _NULLS[simple_name(by.nullOrdering())]))
    return None if level is None else Top(tuple(keys), tuple(order), level, body.offset, body.last)


_LEVELS = {"RowNumber": Level.APART, "Rank": Level.TOGETHER}
_NULLS = {"NullsFirst": Missing.FIRST, "NullsLast": Missing.LAST}


def with_positional_names(table: pa.Table) -> pa.Table:
    """`_weight`, then c0, c1..., whatever the columns were called."""
    return table.rename_columns([WEIGHT, *column_names(table.num_columns - 1)])


@dataclass(frozen=True, slots=True)
class AtMoments:
    """A plan for the groups before a change, and one for those after it."""

    plans: Mapping[int, LocalPlan]

    def run(self, rows: pa.Table) -> pa.Table:
        """The weights and rows of both."""
        moments = rows.column(MOMENT)
        return pa.concat_tables(
            plan.run(rows.filter(pc.equal(moments, sign))) for sign, plan in self.plans.items()
        )


@dataclass(frozen=True, slots=True)
class AtStamps:
    """What gives groups that do not say at which iterations they are, for one after the other."""

    groups: AtMoments
    stamps: int

    def run(self, rows: pa.Table) -> pa.Table:
        """The weights and rows of all groups, each followed by its stamps and ends."""
        bounds = rows.column_names[-2 * self.stamps :]
        found = []
        for at in rows.select(bounds).group_by(bounds).aggregate([]).to_pylist():
            here = rows
            for name, value in at.items():
                column = here.column(name)
                mask = pc.is_null(column) if value is None else pc.equal(column, value)
                here = here.filter(mask)
            result = with_positional_names(self.groups.run(here.drop_columns(bounds)))
            for name, value in at.items():
                same = pa.array([value] * len(result), rows.schema.field(name).type)
                result = result.append_column(name, same)
            found.append(result)
        return pa.concat_tables(found)


class Plans:
    """Compiled work of the nodes of one database."""

    def __init__(
        self,
        lowering: Lowering,
        channel: Channel,
    ) -> None:
        self.lowering = lowering
        self.bodies = Bodies(lowering.catalyst)
        self._channel = channel
        self.settings: Mapping[str, Settings] = {}
        """Those of nodes, by id, that work under others than the session has."""
        self._copies: dict[Settings, JavaObject | None] = {}
        self._local: dict[Settings, LocalPlans] = {}
        self._regroups: dict[str, LocalPlan | Extremes | Top | AtMoments | AtStamps] = {}
        self._of_nothing: dict[str, pa.Table] = {}
        self._lowered: dict[tuple[str, str], Narrowed] = {}
        self._compiled: dict[tuple[str, str], CompiledStages] = {}
        self._columnar: dict[tuple[str, str], tuple[Columnar, ...] | None] = {}
        self._layouts: dict[str, TraceLayout] = {}
        self._accumulators: dict[str, tuple[Accumulator, ...]] = {}
        self._buffer_names: dict[str, list[str]] = {}

    def layout(self, node: Indexing) -> TraceLayout:
        """The layout of the trace that the node keeps, and of its changes."""
        if node.id not in self._layouts:
            self._layouts[node.id] = node.laid_out(self)
        return self._layouts[node.id]

    def payload(self, schema: Schema) -> pa.Schema:
        """The Arrow columns c0, c1... of rows of a schema."""
        return payload_schema(schema)

    def buffer_names(self, group: Group) -> list[str]:
        """The buffer columns that Spark's last expressions read; some accumulators know more."""
        if group.id not in self._buffer_names:
            self._buffer_names[group.id] = [
                f"b{i}_{j}"
                for i, measure in enumerate(group.measures)
                for j in range(len(_buffers(measure)) or 1)
            ]
        return self._buffer_names[group.id]

    def accumulators(self, group: Group) -> tuple[Accumulator, ...]:
        """The accumulators of a group's measures."""
        if group.id not in self._accumulators:
            self._accumulators[group.id] = _accumulators(group)
        return self._accumulators[group.id]

    def lowered(self, node: Indexing, branch: Branch) -> Narrowed:
        """A branch's stages and the node's preparation, and the columns that they read."""
        key = (node.id, branch.text)
        if key not in self._lowered:
            stages = [*self.lowering.branch(branch), *self.lowering.preparation(node)]
            self._lowered[key] = narrowed(stages)
        return self._lowered[key]

    def compiled(self, node: Indexing, branch: Branch) -> CompiledStages:
        """The same, compiled into the driver."""
        key = (node.id, branch.text)
        if key not in self._compiled:
            self._compiled[key] = CompiledStages(
                self.lowering.catalyst, self._channel, self.lowered(node, branch), self._generate
            )
        return self._compiled[key]

    def columnar(self, node: Indexing, branch: Branch) -> tuple[Columnar, ...] | None:
        """The same on Arrow columns, if all of it has such a shape."""
        key = (node.id, branch.text)
        if key not in self._columnar:
            stages = self.lowered(node, branch).stages
            found = [columnar(s) if isinstance(s, Rowwise) else None for s in stages]
            known = tuple(stage for stage in found if stage is not None)
            self._columnar[key] = known if len(known) == len(found) else None
        return self._columnar[key]

    @property
    def local(self) -> LocalPlans:
        """Plans that run in the driver; made when a node first needs one."""
        settings = self.lowering.catalyst.settings()
        if settings not in self._local:
            self._local[settings] = LocalPlans(self.lowering.catalyst, self._channel)
        return self._local[settings]

    def under_settings_of(self, node: Node) -> AbstractContextManager[None]:
        """A block in which expressions mean what they mean in the views of a node."""
        settings = self.settings.get(node.id)
        if settings is None:
            return nullcontext()
        if settings not in self._copies:
            self._copies[settings] = self.lowering.catalyst.copy_with(settings)
        return self.lowering.catalyst.working_in(self._copies[settings], settings)

    def _generate(self, stage: Generated) -> Callable[[pa.Table], pa.Table]:
        """A generator as a function on tables of `_weight` and columns."""
        catalyst = self.lowering.catalyst
        weight = catalyst.attribute(WEIGHT, "bigint")
        added = stage.generator.schema.types
        kept = [type_text(stage.attributes[i].dataType()) for i in stage.kept]
        plan = self.local.prepare(
            (weight, *stage.attributes),
            lambda leaf: generated(catalyst, leaf, stage),
            ["bigint", *kept, *added],
        )
        return lambda table: with_positional_names(plan.run(table))

    def regroup(
        self, node: GroupMap, rows: Schema
    ) -> LocalPlan | Extremes | Top | AtMoments | AtStamps:
        """From the rows of touched groups to the weights and rows that they become."""
        if node.id not in self._regroups:
            keys, types = group_columns(node, rows)
            self._regroups[node.id] = (
                extremes_of(node.body, keys, types)
                or top_of(node.body, keys, types)
                or self._by_spark(node, keys, types)
            )
        return self._regroups[node.id]

    def _by_spark(
        self, node: GroupMap, keys: tuple[int, ...], types: list[str]
    ) -> LocalPlan | AtMoments | AtStamps:
        if isinstance(node.body, CatalystGroupMap):
            return self._by_function(node, node.body, types)
        attributes = self.bodies.attributes(types)
        given, stamps = list(node.body.schema.types), node.stamps
        given[node.bounds : node.bounds] = ["int"] * (2 * stamps)
        return self.local.prepare(
            attributes,
            lambda leaf: self.bodies.of_node(node, keys, leaf, attributes),
            ["bigint", *given],
        )

    def _by_function(
        self, node: GroupMap, body: CatalystGroupMap, types: list[str]
    ) -> AtMoments | AtStamps:
        own = types[: len(types) - 2 * node.stamps]
        groups = AtMoments({s: self._at_moment(body, s, node.keys, own) for s in MOMENTS})
        return AtStamps(groups, node.stamps) if node.stamps else groups

    def _at_moment(
        self, body: CatalystGroupMap, sign: int, keys: Sequence[int], types: Sequence[str]
    ) -> LocalPlan:
        attributes = self.bodies.attributes(types)
        return self.local.prepare(
            attributes,
            lambda leaf: self.bodies.at_moment(body, sign, keys, leaf, attributes),
            ["bigint", *body.schema.types],
        )

    def of_nothing(self, node: GroupMap, rows: Schema) -> pa.Table:
        """The columns c0, c1... that an aggregate without keys has over no rows."""
        assert isinstance(node.body, Measures)
        body = node.body
        if node.id not in self._of_nothing:
            attributes = self.bodies.attributes(rows.types)
            plan = self.local.prepare(
                attributes,
                lambda leaf: self.bodies.total(body, leaf, attributes),
                list(node.schema.types),
            )
            nothing = pa.schema([pa.field(MOMENT, pa.int64()), *payload_schema(rows)]).empty_table()
            result = plan.run(nothing)
            names = column_names(result.num_columns)
            self._of_nothing[node.id] = result.rename_columns(names)
        return self._of_nothing[node.id]

    def forget(self, node: Node) -> None:
        """Let go of a node that was dropped."""
        self._layouts.pop(node.id, None)
        self._accumulators.pop(node.id, None)
        self._buffer_names.pop(node.id, None)
        self._regroups.pop(node.id, None)
        self._of_nothing.pop(node.id, None)
        for cache in (self._lowered, self._compiled, self._columnar):
            for key in [key for key in cache if key[0] == node.id]:
                del cache[key]
