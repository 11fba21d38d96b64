"""The nodes of a circuit: its inputs, its stateful operators and its outputs.

A node's `id` is a fingerprint of all that determines its value, so equal subterms of any views are
one node, and its state is found again when the database is reopened. Nodes that keep an integral
(a trace) are listed in `Keeping`.
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from rekindle.calculus.relation import Relation
from rekindle.calculus.scalars import Column, Scalar
from rekindle.calculus.schema import Schema
from rekindle.calculus.terms import Body, Extent, First, Linearity, Measure, Onwards, with_stamps
from rekindle.circuit.stages import Branch, LinearForm


def fingerprint(*parts: object) -> str:
    """A short stable digest of the parts' texts."""
    return hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()[:16]


class Moment(enum.Enum):
    """What a half of a join reads of its other side: z⁻¹(I(x)), I(x), or Δx alone."""

    BEFORE = "before"
    AFTER = "after"
    DURING = "during"


class Side(enum.Enum):
    LEFT = "left"
    RIGHT = "right"


@dataclass(frozen=True)
class Table:
    """An input: a table's changes, and its contents as their integral, arranged by its key.

    `incarnation` tells a table from an earlier one of the same name that was dropped; `declared`
    has the types, in JSON, of columns with a CHAR(n) or VARCHAR(n), strings in the schema.
    """

    name: str
    schema: Schema
    key: tuple[int, ...]
    incarnation: str
    declared: Mapping[int, str] = field(default_factory=dict, hash=False)

    linearity = Linearity.SOURCE

    @cached_property
    def id(self) -> str:
        return "table-" + fingerprint("table", self.name, self.incarnation)

    @property
    def inputs(self) -> tuple[str, ...]:
        return ()


@dataclass(frozen=True)
class Constant:
    """An input that changes once, when it is made: a constant relation, arranged by the row."""

    schema: Schema
    relation: Relation

    linearity = Linearity.SOURCE

    @cached_property
    def id(self) -> str:
        return "constant-" + fingerprint("constant", *self.schema.types, self.relation.text)

    @property
    def inputs(self) -> tuple[str, ...]:
        return ()


class Nulls(enum.Enum):
    """What an arrangement does with rows that have a NULL in their key."""

    LEFT_OUT = "left out"
    """They join nothing."""
    KEPT = "kept"
    """They form groups like any others."""


@dataclass(frozen=True)
class Arrangement:
    """I(x), indexed by `keys`, or by the whole row where that is None.

    The rows of one key are in the order of the bigint column `order`, if there is one. Rows whose
    last columns are `stamps` are told apart by the other columns first; those that differ in one
    stamp alone are in its order.
    """

    form: LinearForm
    keys: tuple[Scalar, ...] | None
    nulls: Nulls = Nulls.LEFT_OUT
    order: int | None = None
    stamps: int = 0

    linearity = Linearity.LINEAR

    @cached_property
    def id(self) -> str:
        keys = ("row",) if self.keys is None else tuple(key.text for key in self.keys)
        more: tuple[str, ...] = () if self.nulls is Nulls.LEFT_OUT else ("nulls",)
        if self.order is not None:
            more += (f"order {self.order}",)
        more += ("stamped",) * self.stamps
        return "arrange-" + fingerprint("arrange", self.form.text, *keys, *more)

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.form.nodes

    @property
    def schema(self) -> Schema:
        return self.form.schema


@dataclass(frozen=True)
class Routed:
    """A change by the `keys` of a join, for this step only: its integral is not kept."""

    form: LinearForm
    keys: tuple[Scalar, ...]

    linearity = Linearity.LINEAR
    nulls = Nulls.LEFT_OUT
    order = None

    @cached_property
    def id(self) -> str:
        return "route-" + fingerprint("route", self.form.text, *(key.text for key in self.keys))

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.form.nodes

    @property
    def schema(self) -> Schema:
        return self.form.schema


@dataclass(frozen=True, slots=True)
class Lookup:
    """The rows of its key that a changed row meets: those whose order is from `low` to `high`.

    Both are columns of the change; an end without a column is open.
    """

    low: int | None
    high: int | None


@dataclass(frozen=True)
class HalfJoin:
    """A product of a change and an integral: Δa ⋈ z⁻¹(I(b)), I(a) ⋈ Δb.

    A join's change is the sum of two of them. With the moment `during` it is Δa ⋈ Δb. What it reads
    may have columns after those of the join's inputs, by which ranges are found; the left input
    has `left_width` of its own.
    """

    change: str
    against: str
    moment: Moment
    change_side: Side
    schema: Schema
    left_width: int
    lookup: Lookup | None = None

    linearity = Linearity.BILINEAR

    @cached_property
    def id(self) -> str:
        ends = () if self.lookup is None else (f"{self.lookup.low} to {self.lookup.high}",)
        return "join-" + fingerprint(
            "join", self.change, self.against, self.moment.value, self.change_side.value, *ends
        )

    @property
    def widths(self) -> tuple[int, int]:
        """How many columns of the left and of the right rows the pairs have."""
        return self.left_width, len(self.schema) - self.left_width

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.change, self.against)


@dataclass(frozen=True)
class Deduplicate:
    """H of Proposition 4.7 over an arrangement by the whole row, at every value of its `stamps`."""

    arrangement: str
    schema: Schema
    stamps: int = 0

    linearity = Linearity.PER_KEY

    @cached_property
    def id(self) -> str:
        return "distinct-" + fingerprint("distinct", self.arrangement)

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.arrangement,)


@dataclass(frozen=True)
class Group:
    """Accumulators of linear aggregates for each group; gives the old and new buffers.

    Where `merged` is given, a row stands for that many rows (`terms.Aggregate`).
    """

    form: LinearForm
    keys: tuple[tuple[str, Scalar], ...]
    measures: tuple[Measure, ...]
    schema: Schema
    merged: Scalar | None = None

    linearity = Linearity.PER_KEY

    @cached_property
    def id(self) -> str:
        measures = (
            f"{m.function.value}/{m.text}/{','.join(a.text for a in m.arguments)}"
            for m in self.measures
        )
        keys = (key.text for _, key in self.keys)
        merged = () if self.merged is None else ("merged", self.merged.text)
        return "group-" + fingerprint(
            "group", self.form.text, *keys, "measures", *measures, *merged
        )

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.form.nodes


@dataclass(frozen=True)
class Regroup:
    """The touched groups of an arrangement, computed anew from their rows before and after.

    With an `extent` that goes `onwards`, what the rows before a change became is read from the
    arrangement `kept` of the node's own results.
    """

    arrangement: str
    keys: tuple[int, ...]
    body: Body
    extent: Extent | None
    stamps: int = 0

    linearity = Linearity.PER_KEY

    @cached_property
    def id(self) -> str:
        rows = self.extent.rows if isinstance(self.extent, First) else self.extent
        return "regroup-" + fingerprint("regroup", self.arrangement, self.body.text, rows)

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.arrangement,)

    @property
    def schema(self) -> Schema:
        return with_stamps(self.body.schema, self.stamps)

    @cached_property
    def kept(self) -> Arrangement | None:
        """The arrangement of its results that it reads as it was before the step, if it does."""
        if not isinstance(self.extent, Onwards):
            return None
        fields = self.schema.fields
        return Arrangement(
            LinearForm((Branch(self.id, self.schema),), self.schema),
            tuple(Column(i, fields[i].type, fields[i].nullable) for i in self.keys),
            Nulls.KEPT,
            self.extent.column,
        )

    @property
    def is_recomputed(self) -> bool:
        """Is its one group all rows, each of which matters?"""
        return not self.keys and self.extent is None


@dataclass(frozen=True)
class View:
    """An output: a view's changes, and its contents as their integral, arranged by the row."""

    name: str
    form: LinearForm

    linearity = Linearity.LINEAR

    @cached_property
    def id(self) -> str:
        return "view-" + fingerprint("view", self.form.text)

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.form.nodes

    @property
    def schema(self) -> Schema:
        return self.form.schema


@dataclass(frozen=True)
class Variable:
    """A relation inside its own recursion, one iteration late: ↑z⁻¹ of what `Recur` gives.

    `scope` is a digest of the whole recursion: its variables and what they are computed by.
    """

    scope: str
    name: str
    schema: Schema
    limit: int
    depth: int = 1
    """How many scopes it is in, its own among them; as many stamps end its rows."""

    linearity = Linearity.SOURCE

    @cached_property
    def id(self) -> str:
        return "variable-" + fingerprint("variable", self.scope, self.name)

    @cached_property
    def recur(self) -> str:
        """The node that it is fed by."""
        return "recur-" + fingerprint("recur", self.id)

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.recur,)


@dataclass(frozen=True)
class Recur:
    """What a relation of a recursion is computed to be, with the iterations of its changes."""

    variable: Variable
    form: LinearForm

    linearity = Linearity.SCOPE

    @property
    def id(self) -> str:
        return self.variable.recur

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.form.nodes

    @property
    def schema(self) -> Schema:
        return self.form.schema


Node: TypeAlias = (
    Table
    | Constant
    | Arrangement
    | Routed
    | HalfJoin
    | Deduplicate
    | Group
    | Regroup
    | View
    | Variable
    | Recur
)
Indexed: TypeAlias = Table | Constant | Arrangement | View | Recur | Routed
"""The nodes that a join can read."""
Keeping: TypeAlias = Table | Constant | Arrangement | Group | View | Recur
"""The nodes that keep an integral."""
Indexing: TypeAlias = Keeping | Routed
"""The nodes whose change is hashed and sorted by a key."""

Formed: TypeAlias = Arrangement | Routed | Group | View | Recur
"""The nodes that read a linear form."""
Passing: TypeAlias = HalfJoin | Deduplicate | Group | Regroup
"""The nodes whose output is stored nowhere: a group keeps accumulators and not what it gives."""


def is_arranged_by(node: Table | Constant | View, keys: tuple[Scalar, ...] | None) -> bool:
    """Does the node's own trace serve lookups by these keys, or by the row where they are None?"""
    primary = node.key if isinstance(node, Table) else ()
    if keys is None:
        return not primary
    positions = tuple(k.position if isinstance(k, Column) else -1 for k in keys)
    return bool(primary) and positions == primary
