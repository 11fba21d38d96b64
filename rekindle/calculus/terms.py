"""The terms: views as expressions over collections.

A term denotes a Z-set of rows. Each node states its `linearity`, and that alone decides how its
change is derived (`rekindle.incremental`): no list of operators exists anywhere else.

| class    | the change of the output                   | nodes                                  |
|----------|--------------------------------------------|----------------------------------------|
| linear   | f(Δx)                                      | Map, Filter, FlatMap, UnionAll, Negate |
| bilinear | Δx·y + x·Δy + Δx·Δy                        | Join                                   |
| per key  | f(x+Δx) − f(x) on the keys that Δx touches | Distinct, Aggregate, PerGroup          |
| derived  | that of its definition (`derived.py`)      | SemiJoin, OuterJoin, mixed Aggregate   |
| scope    | the same with one more time (`nested_time`) | Fix                                    |
| given    | what the node's own triggers compute       | Triggered                              |

Nodes are frozen, and an ill-typed node cannot be built: a constructor raises `DefinitionError`.
A term is a graph: a node may be an input of several others, and whatever is done to terms visits it
once (`walks.py`, `identity.py`; docs/design/terms.md).
DBSP, section 4.2 and table 1.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeAlias, runtime_checkable

from rekindle.aggregates import AggregateFunction as AggregateFunction
from rekindle.calculus.identity import Node
from rekindle.calculus.relation import Relation
from rekindle.calculus.scalars import Scalar
from rekindle.calculus.schema import Field, Schema
from rekindle.calculus.walks import fold
from rekindle.errors import DefinitionError


class Linearity(enum.Enum):
    """How an operator's change follows from its inputs' changes."""

    SOURCE = "source"
    LINEAR = "linear"
    BILINEAR = "bilinear"
    PER_KEY = "per key"
    DERIVED = "derived"
    SCOPE = "recursive scope"
    GIVEN = "given"


class Positivity(enum.Enum):
    """What an operator gives for inputs that are bags (Definition 4.2)."""

    POSITIVE = "positive"
    ANY = "any"


def _check_references(scalar: Scalar, width: int, where: str) -> None:
    outside = [i for i in scalar.references if not 0 <= i < width]
    if outside:
        raise DefinitionError(
            f"{where} reads column {outside[0]} of an input that has {width} columns",
            detail=scalar.text,
        )


def _check_predicate(scalar: Scalar, width: int, where: str) -> None:
    _check_references(scalar, width, where)
    if scalar.type != "boolean":
        raise DefinitionError(f"{where} must be boolean, not {scalar.type}", detail=scalar.text)


def _settle(term: object, schema: Schema) -> None:
    """Give a new node its schema: asked for later, it would be computed down to the leaves."""
    object.__setattr__(term, "schema", schema)


@dataclass(frozen=True, slots=True, eq=False)
class Source(Node):
    """A named table or view of the database."""

    name: str
    schema: Schema

    linearity = Linearity.SOURCE
    positivity = Positivity.POSITIVE

    @property
    def children(self) -> tuple[Term, ...]:
        return ()


@dataclass(frozen=True, slots=True, eq=False)
class Constant(Node):
    """A relation that never changes: VALUES, range(), a query without a table."""

    schema: Schema
    relation: Relation

    linearity = Linearity.SOURCE
    positivity = Positivity.POSITIVE

    @property
    def children(self) -> tuple[Term, ...]:
        return ()


@dataclass(frozen=True, slots=True, eq=False)
class Map(Node):
    """π: one output row for each input row, its columns computed by `outputs`."""

    child: Term
    outputs: tuple[tuple[str, Scalar], ...]
    schema: Schema = field(init=False, repr=False, compare=False)

    linearity = Linearity.LINEAR
    positivity = Positivity.POSITIVE

    def __post_init__(self) -> None:
        _settle(self, Schema(tuple(Field(name, s.type, s.nullable) for name, s in self.outputs)))
        for name, scalar in self.outputs:
            _check_references(scalar, len(self.child.schema), f"the projection '{name}'")

    @property
    def children(self) -> tuple[Term, ...]:
        return (self.child,)


@dataclass(frozen=True, slots=True, eq=False)
class Filter(Node):
    """σ: the input rows on which `predicate` is true (neither false nor NULL)."""

    child: Term
    predicate: Scalar
    schema: Schema = field(init=False, repr=False, compare=False)

    linearity = Linearity.LINEAR
    positivity = Positivity.POSITIVE

    def __post_init__(self) -> None:
        _settle(self, self.child.schema)
        _check_predicate(self.predicate, len(self.child.schema), "a filter")

    @property
    def children(self) -> tuple[Term, ...]:
        return (self.child,)


@runtime_checkable
class Generator(Protocol):
    """A function from one row to finitely many, such as explode."""

    @property
    def schema(self) -> Schema:
        """The columns that it adds."""

    @property
    def references(self) -> frozenset[int]: ...

    @property
    def text(self) -> str: ...


@dataclass(frozen=True, slots=True, eq=False)
class FlatMap(Node):
    """Each input row's `kept` columns, followed by each of the rows its `generator` gives."""

    child: Term
    generator: Generator
    kept: tuple[int, ...]
    schema: Schema = field(init=False, repr=False, compare=False)

    linearity = Linearity.LINEAR
    positivity = Positivity.POSITIVE

    def __post_init__(self) -> None:
        width = len(self.child.schema)
        if any(not 0 <= i < width for i in (*self.generator.references, *self.kept)):
            raise DefinitionError(
                f"a generator reads outside its input of {width} columns",
                detail=self.generator.text,
            )
        fields = self.child.schema.fields
        _settle(self, Schema(tuple(fields[i] for i in self.kept)) + self.generator.schema)

    @property
    def children(self) -> tuple[Term, ...]:
        return (self.child,)


@dataclass(frozen=True, slots=True, eq=False)
class UnionAll(Node):
    """+: the sum of collections of the same row type."""

    children: tuple[Term, ...]
    schema: Schema = field(init=False, repr=False, compare=False)

    linearity = Linearity.LINEAR
    positivity = Positivity.POSITIVE

    def __post_init__(self) -> None:
        if not self.children:
            raise DefinitionError("a union needs at least one input")
        first = self.children[0].schema.types
        for child in self.children[1:]:
            if child.schema.types != first:
                raise DefinitionError(
                    "a union needs inputs of equal column types",
                    detail=f"{self.children[0].schema} against {child.schema}",
                )
        columns = zip(*(child.schema.fields for child in self.children), strict=True)
        _settle(
            self,
            Schema(
                tuple(
                    replace(first, nullable=any(f.nullable for f in column))
                    for first, column in zip(self.children[0].schema, columns, strict=True)
                )
            ),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Negate(Node):
    """−: every multiplicity with its sign turned."""

    child: Term
    schema: Schema = field(init=False, repr=False, compare=False)

    linearity = Linearity.LINEAR
    positivity = Positivity.ANY

    def __post_init__(self) -> None:
        _settle(self, self.child.schema)

    @property
    def children(self) -> tuple[Term, ...]:
        return (self.child,)


@dataclass(frozen=True, slots=True)
class Range:
    """Where the rows of one side stand that a row of the other side can match.

    All three are bigints that are never NULL: `place` of a row that is looked for, `low` and `high`
    of the row that it is looked for by. A pair on which the join's residual is true has
    low ≤ place ≤ high. The converse need not hold. If the range `decides`, the residual is the same
    for all pairs of a row at `place` with rows for which low < place < high.
    """

    place: Scalar
    low: Scalar | None
    high: Scalar | None
    decides: bool = False

    @property
    def ends(self) -> tuple[Scalar, ...]:
        return tuple(end for end in (self.low, self.high) if end is not None)


@dataclass(frozen=True, slots=True)
class RangeCondition:
    """The ranges that the rows of either side can be found in; they say nothing new of a join.

    `left` is about the rows of the left side, looked for by those of the right, `right` about the
    rows of the right side.
    """

    left: Range | None = None
    right: Range | None = None


def _check_band(
    band: RangeCondition | None, residual: Scalar | None, left: int, right: int
) -> None:
    if band is None:
        return
    if residual is None:
        raise DefinitionError("a join without a condition has no ranges")
    if band.left is None and band.right is None:
        raise DefinitionError("a band needs a range on one side at least")
    for range_, own, other in ((band.left, left, right), (band.right, right, left)):
        if range_ is None:
            continue
        if not range_.ends:
            raise DefinitionError("a range needs an end", detail=range_.place.text)
        _check_references(range_.place, own, "the place of a range")
        for end in range_.ends:
            _check_references(end, other, "the end of a range")
        for scalar in (range_.place, *range_.ends):
            if scalar.type != "bigint" or scalar.nullable:
                raise DefinitionError(
                    "a range is one of bigints that are never NULL", detail=scalar.text
                )


@dataclass(frozen=True, slots=True, eq=False)
class Join(Node):
    """⋈: pairs of rows with equal keys on which `residual`, if there is one, is true.

    Keys are compared as SQL's `=` compares: a NULL key matches nothing. No keys at all make a
    product. The residual reads the left columns, then the right ones; `band` says where the rows
    on which it can be true are to be found.
    """

    left: Term
    right: Term
    left_keys: tuple[Scalar, ...]
    right_keys: tuple[Scalar, ...]
    residual: Scalar | None = None
    band: RangeCondition | None = None
    schema: Schema = field(init=False, repr=False, compare=False)

    linearity = Linearity.BILINEAR
    positivity = Positivity.POSITIVE

    def __post_init__(self) -> None:
        _settle(self, self.left.schema + self.right.schema)
        if tuple(k.type for k in self.left_keys) != tuple(k.type for k in self.right_keys):
            raise DefinitionError(
                "a join needs keys of equal types on both sides",
                detail=f"{[k.text for k in self.left_keys]} against "
                f"{[k.text for k in self.right_keys]}",
            )
        for key in self.left_keys:
            _check_references(key, len(self.left.schema), "a left join key")
        for key in self.right_keys:
            _check_references(key, len(self.right.schema), "a right join key")
        if self.residual is not None:
            _check_predicate(self.residual, len(self.schema), "a join condition")
        _check_band(self.band, self.residual, len(self.left.schema), len(self.right.schema))

    @property
    def children(self) -> tuple[Term, ...]:
        return (self.left, self.right)


class Answer(enum.Enum):
    """What a semi join gives of its left rows."""

    MATCHED = "matched"
    UNMATCHED = "unmatched"
    MARKED = "marked"
    """Every row, with a boolean more that says whether it has a match."""


@dataclass(frozen=True, slots=True)
class Condition:
    """Equal keys, a residual on the pair, and a predicate on each side alone."""

    left_keys: tuple[Scalar, ...] = ()
    right_keys: tuple[Scalar, ...] = ()
    residual: Scalar | None = None
    left_predicate: Scalar | None = None
    right_predicate: Scalar | None = None
    band: RangeCondition | None = None


@dataclass(frozen=True, slots=True, eq=False)
class SemiJoin(Node):
    """⋉: the left rows for which some right row satisfies one of the `conditions`, or does not."""

    left: Term
    right: Term
    conditions: tuple[Condition, ...]
    answer: Answer
    schema: Schema = field(init=False, repr=False, compare=False)

    linearity = Linearity.DERIVED
    positivity = Positivity.POSITIVE

    def __post_init__(self) -> None:
        marks = (Field("exists", "boolean", nullable=False),) * (self.answer is Answer.MARKED)
        _settle(self, self.left.schema + Schema(marks))
        left, right = len(self.left.schema), len(self.right.schema)
        for condition in self.conditions:
            for key in condition.left_keys:
                _check_references(key, left, "a left join key")
            for key in condition.right_keys:
                _check_references(key, right, "a right join key")
            for predicate, width in (
                (condition.residual, left + right),
                (condition.left_predicate, left),
                (condition.right_predicate, right),
            ):
                if predicate is not None:
                    _check_predicate(predicate, width, "a join condition")
            _check_band(condition.band, condition.residual, left, right)

    @property
    def children(self) -> tuple[Term, ...]:
        return (self.left, self.right)


class Padded(enum.Enum):
    """The sides of an outer join whose columns are NULL beside a row without a match."""

    RIGHT = "right"
    BOTH = "both"


@dataclass(frozen=True, slots=True, eq=False)
class OuterJoin(Node):
    """⟕ and ⟗: the join, and each row without a match beside NULLs."""

    left: Term
    right: Term
    left_keys: tuple[Scalar, ...]
    right_keys: tuple[Scalar, ...]
    residual: Scalar | None
    padded: Padded
    band: RangeCondition | None = None
    schema: Schema = field(init=False, repr=False, compare=False)

    linearity = Linearity.DERIVED
    positivity = Positivity.POSITIVE

    def __post_init__(self) -> None:
        ours = self.left.schema
        if self.padded is Padded.BOTH:
            ours = ours.as_nullable()
        _settle(self, ours + self.right.schema.as_nullable())
        Join(self.left, self.right, self.left_keys, self.right_keys, self.residual, self.band)

    @property
    def children(self) -> tuple[Term, ...]:
        return (self.left, self.right)


@dataclass(frozen=True, slots=True, eq=False)
class Distinct(Node):
    """Every row of positive multiplicity, once (Definition 4.3).

    Over rows with `stamps`, the iterations of so many nested scopes in the last columns: at every
    iteration of each.
    """

    child: Term
    stamps: int = 0
    schema: Schema = field(init=False, repr=False, compare=False)

    linearity = Linearity.PER_KEY
    positivity = Positivity.POSITIVE

    def __post_init__(self) -> None:
        _settle(self, self.child.schema)

    @property
    def children(self) -> tuple[Term, ...]:
        return (self.child,)


class Values(enum.Enum):
    """Which values of its arguments an aggregate sees: those of all rows, or each once."""

    ALL = "all"
    DISTINCT = "distinct"


@dataclass(frozen=True, slots=True)
class Measure:
    """One aggregate of a group: a function of argument scalars, giving a column.

    `finish` is the front end's own last step from the ring value to the result, opaque here;
    `text` identifies it. A NULL argument is skipped, as SQL does.
    """

    name: str
    function: AggregateFunction
    arguments: tuple[Scalar, ...]
    type: str
    nullable: bool = True
    text: str = ""
    finish: object = None
    values: Values = Values.ALL
    order: Scalar | None = None
    """For `least` and `greatest`: a bigint that is smallest on the rows that decide the result; of
    a quantile one that ascends with its values."""
    fractions: tuple[float, ...] = ()
    """Of a quantile: how far the values that decide it are on the way from the first row to the
    last, by `order`, which is the same where the value is. The value is the first argument, and the
    last is how many rows a row stands for: one, until only some of them are seen."""

    @property
    def is_linear(self) -> bool:
        return self.function.is_linear and self.values is Values.ALL


@dataclass(frozen=True, slots=True, eq=False)
class Aggregate(Node):
    """γ: for each group of rows with equal `keys`, one row of the keys and the measures.

    Grouping is null-safe: NULL keys form a group. Without keys there is one group, which exists
    over an empty input too, as in SQL. With measures that are not linear it is a derived operator:
    a join of simpler ones on the keys.

    Where `merged` is given, the input is aggregated in part already: a row stands for as many rows
    as this bigint says, and the arguments of its sums are sums over them. Whether a group exists,
    and how many values a sum has, follow from that number and not from weights.
    """

    child: Term
    keys: tuple[tuple[str, Scalar], ...]
    measures: tuple[Measure, ...]
    merged: Scalar | None = None
    schema: Schema = field(init=False, repr=False, compare=False)

    positivity = Positivity.POSITIVE

    @property
    def linearity(self) -> Linearity:
        if all(measure.is_linear for measure in self.measures):
            return Linearity.PER_KEY
        return Linearity.DERIVED

    def __post_init__(self) -> None:
        keys = tuple(Field(name, key.type, key.nullable) for name, key in self.keys)
        measures = tuple(Field(m.name, m.type, m.nullable) for m in self.measures)
        _settle(self, Schema(keys + measures))
        width = len(self.child.schema)
        for name, key in self.keys:
            _check_references(key, width, f"the grouping key '{name}'")
        for measure in self.measures:
            for argument in measure.arguments:
                _check_references(argument, width, f"the aggregate '{measure.name}'")
        if self.merged is not None:
            _check_references(self.merged, width, "the number of merged rows")
            for measure in self.measures:
                if not measure.function.is_mergeable or measure.values is not Values.ALL:
                    raise DefinitionError(f"'{measure.name}' cannot be merged from partial sums")

    @property
    def children(self) -> tuple[Term, ...]:
        return (self.child,)


@runtime_checkable
class Body(Protocol):
    """What becomes of the rows of one group."""

    @property
    def schema(self) -> Schema:
        """The columns that it gives."""

    @property
    def text(self) -> str: ...


@dataclass(frozen=True, slots=True)
class TopRows:
    """Only the first `rows` rows of a group matter, in the order of the bigint column `column`.

    Rows that agree with the last of them in that column matter too.
    """

    column: int
    rows: int


class Distance(enum.Enum):
    """What the distance between two rows of a group is measured in."""

    ROWS = "rows"
    VALUES = "values"
    """Differences of the order."""


@dataclass(frozen=True, slots=True)
class SlidingFrame:
    """What becomes of a row depends on the rows near it, in the order of the column `column`.

    They are those from `before` rows before it to `after` rows after it, or those whose order is
    no more than that away. Rows that agree in the column are ordered by the body alone.
    """

    column: int
    before: int
    after: int
    distance: Distance

    @property
    def furthest(self) -> int:
        """How far from a change the rows are that decide what it changes.

        A change at x alters the rows from x − after to x + before, which see from `before` before
        the first of them to `after` after the last.
        """
        return self.before + self.after


@dataclass(frozen=True, slots=True)
class RunningFrame:
    """What becomes of a row follows from what became of the one before it, and the row itself.

    The order is that of the column `column`; rows that agree in it are ordered by the body alone.
    The column `rows` of what the body gives is greatest on the last of them.
    """

    column: int
    rows: int


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Only the values at some ranks of a group matter, in the order of the bigint column `column`.

    They are those on either side of the `fractions` of the way from its first row to its last. Rows
    with a NULL in the column `value` come last and do not count; others that agree in the order
    agree in the value. The body is given such rows alone, with the number of rows that each stands
    for in the column `rows`.
    """

    column: int
    value: int
    rows: int
    fractions: tuple[float, ...]


Reach: TypeAlias = TopRows | SlidingFrame | RunningFrame | Quantiles
"""Which rows of a group a change makes it necessary to see."""


@dataclass(frozen=True, slots=True, eq=False)
class PerGroup(Node):
    """The rows that `body` makes of each group of rows with equal `keys` columns.

    Grouping is null-safe. Without keys there is one group, which exists over an empty input too.
    A change of a group makes it necessary to see all its rows, or those that the `reach` says.
    Over rows with `stamps`, as many last columns, the body sees the other columns, at every
    iteration.
    """

    child: Term
    keys: tuple[int, ...]
    body: Body
    reach: Reach | None = None
    stamps: int = 0
    schema: Schema = field(init=False, repr=False, compare=False)

    linearity = Linearity.PER_KEY
    positivity = Positivity.POSITIVE

    def __post_init__(self) -> None:
        _settle(self, with_stamps(self.body.schema, self.stamps))
        width = len(self.child.schema)
        wanted = (*self.keys, *(() if self.reach is None else (self.reach.column,)))
        if any(not 0 <= i < width for i in wanted):
            raise DefinitionError(
                f"a grouping reads outside its input of {width} columns", detail=self.body.text
            )

    @property
    def children(self) -> tuple[Term, ...]:
        return (self.child,)


STAMP = "_stamp"
STAMPED = Schema((Field(STAMP, "int", nullable=False),))
"""The column that says at which iteration of a scope a row comes or goes."""


def with_stamps(schema: Schema, count: int) -> Schema:
    """The columns, followed by the iterations of so many scopes, the outermost first.

    >>> with_stamps(Schema.of(x="int"), 2).names
    ('x', '_stamp', '_stamp')
    """
    return Schema(schema.fields + STAMPED.fields * count)


class Bound(enum.Enum):
    """What is to be said of a recursion that has not come to rest at its limit."""

    ERROR = "error"
    """It has no value: it must come to rest within so many iterations."""
    RESULT = "result"
    """What it is then is its value."""


@dataclass(frozen=True, slots=True, eq=False)
class Fix(Node):
    """μ: what the relations `names` become when each is computed by its body again and again.

    They begin empty, or with `seeds`, and end when nothing changes any more, or after `limit`
    iterations, as the `bound` says. A body reads a relation as a source of that name. The term
    denotes the relation number `output`.
    """

    names: tuple[str, ...]
    bodies: tuple[Term, ...]
    seeds: tuple[Term, ...] = ()
    output: int = 0
    limit: int = 10_000
    bound: Bound = Bound.ERROR
    schema: Schema = field(init=False, repr=False, compare=False)

    linearity = Linearity.SCOPE
    positivity = Positivity.POSITIVE

    def __post_init__(self) -> None:
        if len(self.names) != len(self.bodies) or len(self.seeds) not in (0, len(self.bodies)):
            raise DefinitionError("a recursion needs one body, and one seed or none, for each name")
        if self.bound is Bound.RESULT and self.limit < 1:
            raise DefinitionError("a recursion has one iteration at least")
        _settle(self, self.bodies[self.output].schema)
        for name, body in zip(self.names, self.bodies, strict=True):
            for read, schema in sources(body).items():
                if read in self.names and schema.types != self.schema_of(read).types:
                    raise DefinitionError(
                        f"'{read}' is read with columns that it does not have",
                        detail=f"{schema} against {self.schema_of(read)}, in the body of '{name}'",
                    )

    def schema_of(self, name: str) -> Schema:
        """The columns of one of the relations; any of them may be NULL at some iteration."""
        return self.bodies[self.names.index(name)].schema.as_nullable()

    @property
    def children(self) -> tuple[Term, ...]:
        return (*self.bodies, *self.seeds)


class Reading(enum.Enum):
    """What a source inside a trigger stands for."""

    CHANGE = "change"
    """The change of a leaf."""
    GIVEN = "given"
    """What an earlier trigger gives."""
    BEFORE = "before"
    """The integral of what an earlier trigger gives, without this transaction."""
    AFTER = "after"
    """The same with this transaction."""


def reading(of: Reading, number: int, schema: Schema) -> Source:
    """The source by which a trigger reads leaf or trigger `number`."""
    return Source(f"{of.value} {number}", schema)


def read_by(source: Source) -> tuple[Reading, int]:
    """What a source inside a trigger reads.

    >>> read_by(reading(Reading.BEFORE, 3, Schema.of(x="int")))
    (<Reading.BEFORE: 'before'>, 3)
    """
    word, _, number = source.name.partition(" ")
    return Reading(word), int(number)


@dataclass(frozen=True, slots=True, eq=False)
class Triggered(Node):
    """A term whose change is given: it means `meaning`, and `triggers` compute how that changes.

    A trigger denotes a change, computed from changes of the leaves and from integrals of what
    triggers before it give (`Reading`). An aggregate inside a trigger denotes the change of its
    result. The last trigger gives the change of the meaning.
    """

    meaning: Term
    leaves: tuple[Term, ...]
    triggers: tuple[Term, ...]
    schema: Schema = field(init=False, repr=False, compare=False)

    linearity = Linearity.GIVEN
    positivity = Positivity.POSITIVE

    def __post_init__(self) -> None:
        _settle(self, self.meaning.schema)
        if not self.triggers or self.triggers[-1].schema.types != self.meaning.schema.types:
            raise DefinitionError("the last trigger must give rows of the term that it changes")
        for number, trigger in enumerate(self.triggers):
            for name, schema in sources(trigger).items():
                read, place = read_by(Source(name, schema))
                known = self.leaves if read is Reading.CHANGE else self.triggers[:number]
                if place >= len(known) or known[place].schema.types != schema.types:
                    raise DefinitionError(f"trigger {number} cannot read '{name}'")

    @property
    def children(self) -> tuple[Term, ...]:
        return (self.meaning, *self.leaves)


Term: TypeAlias = (
    Source
    | Constant
    | Map
    | Filter
    | FlatMap
    | UnionAll
    | Negate
    | Join
    | SemiJoin
    | OuterJoin
    | Distinct
    | Aggregate
    | PerGroup
    | Fix
    | Triggered
)


def with_children(term: Term, children: tuple[Term, ...]) -> Term:
    """The same operator over other inputs."""
    match term, children:
        case Source() | Constant(), ():
            return term
        case (
            Map() | Filter() | FlatMap() | Negate() | Distinct() | Aggregate() | PerGroup(),
            (child,),
        ):
            return replace(term, child=child)
        case UnionAll(), _:
            return UnionAll(children)
        case Join() | SemiJoin() | OuterJoin(), (left, right):
            return replace(term, left=left, right=right)
        case Fix(), _:
            count = len(term.bodies)
            return replace(term, bodies=children[:count], seeds=children[count:])
        case Triggered(), (meaning, *leaves):
            return replace(term, meaning=meaning, leaves=tuple(leaves))
    raise DefinitionError(f"{type(term).__name__} does not take {len(children)} inputs")


def over(term: Term, children: tuple[Term, ...]) -> Term:
    """The same operator over some inputs; the term itself if they are the ones it has."""
    same = all(new is old for new, old in zip(children, term.children, strict=True))
    return term if same else with_children(term, children)


def replaced(term: Term, change: Callable[[Term], Term | None]) -> Term:
    """The term with every topmost node for which `change` gives a term replaced by that."""
    found: dict[int, Term] = {}

    def below(node: Term) -> tuple[Term, ...]:
        new = change(node)
        if new is None:
            return node.children
        found[id(node)] = new
        return ()

    def rebuilt(node: Term, children: tuple[Term, ...]) -> Term:
        return found[id(node)] if id(node) in found else over(node, children)

    return fold(term, below, rebuilt)


def bare(term: Term) -> Term:
    """The operator at the root of a term, over sources in the place of its inputs.

    It is as small as it can be: to hash it or to compare it does not walk down the term.
    """
    inputs = tuple(Source(f"·{i}", child.schema) for i, child in enumerate(term.children))
    return with_children(term, inputs)


def sources(term: Term) -> dict[str, Schema]:
    """The tables and views that a term reads, with the columns that it knows of."""
    return fold(term, _children, _sources)


def _children(term: Term) -> tuple[Term, ...]:
    return term.children


def _sources(term: Term, below: tuple[dict[str, Schema], ...]) -> dict[str, Schema]:
    if isinstance(term, Source):
        return {term.name: term.schema}
    if len(below) == 1 and not isinstance(term, Fix):
        return below[0]
    bound = term.names if isinstance(term, Fix) else ()
    return {name: schema for read in below for name, schema in read.items() if name not in bound}
