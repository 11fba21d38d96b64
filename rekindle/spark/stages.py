"""Stages of linear work as Catalyst expressions.

Every stage of `rekindle.circuit.stages`, and the preparation of rows for a trace, is lowered once
to the same small form: the attributes it reads, a predicate, and named output expressions. Where
those expressions run is decided elsewhere: compiled into the driver (`compiled_stages.py`) or as
part of a Spark job (`frames.py`). The result is the same because the expressions are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, assert_never

from rekindle.algebra.exact_sums import ExactSum
from rekindle.algebra.polynomials import Polynomials
from rekindle.calculus.scalars import Call, Column, Literal, Scalar
from rekindle.calculus.schema import Schema
from rekindle.catalyst.evaluations import CatalystEvaluation
from rekindle.catalyst.hashing import KEY_SEED, SEEDS, hashes, key_hash
from rekindle.catalyst.jvm import Catalyst, JavaObject, id_of, type_of
from rekindle.catalyst.scalars import CatalystGenerator, CatalystScalar
from rekindle.catalyst.types import data_type
from rekindle.circuit.nodes import Indexing, Nulls
from rekindle.circuit.operators.indexes import ByColumns, ByGroup, ByKeys, BySpread, ByStamps
from rekindle.circuit.stages import Branch, Finish, Match, Project, Stage, Where
from rekindle.columns import column_name
from rekindle.errors import RekindleError
from rekindle.spark.identity import Copied, Hashed, Identity, Spread, hashed_key, identity_of
from rekindle.traces.arrays import IDENTITY, KEY
from rekindle.traces.spread import WITHIN

MARKS = (KEY, *IDENTITY)
Marks: TypeAlias = tuple[JavaObject, JavaObject, JavaObject]
"""The expressions of a row's key and identity."""
_OVER_INPUTS = (CatalystScalar, CatalystGenerator, CatalystEvaluation)


@dataclass(frozen=True, slots=True)
class Output:
    """One column that a stage gives."""

    name: str
    expression: JavaObject
    type: str


@dataclass(frozen=True, slots=True)
class Rowwise:
    """Rows of `attributes` on which `predicate` holds, as `columns` and the marks of an identity.

    Marks are made when Spark is to compute them; `identity` says how they come from the columns
    where Spark is not needed for it.
    """

    attributes: tuple[JavaObject, ...]
    predicate: JavaObject | None
    columns: tuple[Output, ...]
    marks: Callable[[], Marks] | None = None
    identity: Identity | None = None

    @property
    def outputs(self) -> tuple[Output, ...]:
        """All that the stage gives, as expressions."""
        if self.marks is None:
            return self.columns
        return (*self.columns, *map(Output, MARKS, self.marks(), ("bigint",) * len(MARKS)))


@dataclass(frozen=True, slots=True)
class Generated:
    """Rows of `attributes`, each repeated for the rows that `generator` gives."""

    attributes: tuple[JavaObject, ...]
    generator: CatalystGenerator | CatalystEvaluation
    kept: tuple[int, ...]


Lowered: TypeAlias = Rowwise | Generated


class Lowering:
    """Lowers stages for one session."""

    def __init__(self, catalyst: Catalyst) -> None:
        self.catalyst = catalyst
        self._positional: dict[tuple[tuple[str, ...], tuple[int, ...]], Rowwise] = {}
        self._nulls: dict[str, JavaObject] = {}

    def stage(self, stage: Stage, schema: Schema) -> Lowered:
        """A stage over rows of `schema`."""
        match stage:
            case Project():
                scalars = [scalar for _, scalar in stage.outputs]
                attributes = self._attributes(scalars, schema)
                return Rowwise(attributes, None, self._outputs(scalars, attributes))
            case Where():
                attributes = self._attributes([stage.predicate], schema)
                predicate = self._expression(stage.predicate, attributes)
                return Rowwise(attributes, predicate, _same(attributes))
            case Match():
                return self._match(stage, schema)
            case Finish():
                return self._finish(stage)
            case _:
                generator = stage.generator
                if not isinstance(generator, CatalystGenerator | CatalystEvaluation):
                    raise RekindleError(f"Spark cannot run the generator {generator.text}")
                attributes = self._attributes([generator], schema)
                return Generated(attributes, generator, stage.kept)

    def branch(self, branch: Branch) -> list[Lowered]:
        """All stages of a branch, in order."""
        schema = branch.schema
        lowered = []
        for stage in branch.stages:
            lowered.append(self.stage(stage, schema))
            schema = stage.output(schema)
        return lowered

    def preparation(self, node: Indexing) -> tuple[Rowwise, ...]:
        """From rows to what the node's trace is built from: hashes beside the columns."""
        index = node.keyed_by
        match index:
            case ByColumns():
                return (self._by_columns(index),)
            case BySpread():
                return (self._by_spread(index),)
            case ByKeys():
                return (self._by_keys(index),)
            case ByStamps():
                return (self._by_stamps(index),)
            case ByGroup():
                return self._by_group(index)
        assert_never(index)

    def _match(self, stage: Match, schema: Schema) -> Rowwise:
        width = stage.left_width
        left_schema, right_schema = Schema(schema.fields[:width]), Schema(schema.fields[width:])
        left = self._attributes(stage.left_keys, left_schema)
        # Not those of its keys: equal keys of both sides may be one object over one list of them.
        right = self.fresh(right_schema)
        attributes = left + right
        equal = self.catalyst.expression("EqualTo")
        conditions = [
            equal(self._expression(a, left), self._expression(b, right))
            for a, b in zip(stage.left_keys, stage.right_keys, strict=True)
        ]
        if stage.residual is not None:
            conditions.append(self._expression(stage.residual, attributes))
        return Rowwise(attributes, self.catalyst.conjunction(conditions), _same(attributes))

    def _finish(self, stage: Finish) -> Rowwise:
        attributes = list(self.fresh(stage.keys))
        outputs = [
            Output(column_name(i), attribute, field.type)
            for i, (attribute, field) in enumerate(zip(attributes, stage.keys, strict=True))
        ]
        for measure in stage.measures:
            finish = measure.finish
            if finish is None or isinstance(finish, Polynomials | ExactSum):
                # The accumulator's own buffer is the result.
                result = self.catalyst.attribute(measure.name, measure.type)
                attributes.append(result)
                outputs.append(Output(column_name(len(outputs)), result, measure.type))
                continue
            if not isinstance(finish, CatalystScalar):
                raise RekindleError(f"Spark cannot finish the aggregate {measure.name}")
            # Two sums may share one expression: each reads buffers of its own.
            buffers = [self.catalyst.attribute(str(a.name()), type_of(a)) for a in finish.inputs]
            attributes.extend(buffers)
            expression = self._rebase(finish, buffers)
            outputs.append(Output(column_name(len(outputs)), expression, measure.type))
        return Rowwise(tuple(attributes), None, tuple(outputs))

    def _by_columns(self, index: ByColumns) -> Rowwise:
        """Rows by the columns of a primary key, or by their identity when there is none."""
        schema, key = index.schema, index.columns
        case = (tuple(schema.types), key)
        if case not in self._positional:
            self._positional[case] = self._positionally(schema, key)
        return self._positional[case]

    def _positionally(self, schema: Schema, key: tuple[int, ...]) -> Rowwise:
        attributes = self.fresh(schema)
        types = [data_type(field.type) for field in schema]

        def marks() -> Marks:
            first, second = hashes(self.catalyst, attributes, types)
            if not key:
                return first, first, second
            columns = [attributes[i] for i in key]
            return key_hash(self.catalyst, columns, [types[i] for i in key]), first, second

        rows = _hashed(range(len(schema)))
        columns = [Column(i, schema.fields[i].type) for i in key]
        place = hashed_key(columns, KEY_SEED) if key else rows[0]
        identity = identity_of(schema.types, place, *rows)
        return Rowwise(attributes, None, _same(attributes), marks, identity)

    def _by_spread(self, index: BySpread) -> Rowwise:
        """Rows by an index, and by their identity within it."""
        schema, types = index.schema, [data_type(field.type) for field in index.schema]
        attributes = self.fresh(schema)

        def marks() -> Marks:
            first, second = hashes(self.catalyst, attributes, types)
            columns = [attributes[i] for i in index.columns]
            indexed = key_hash(self.catalyst, columns, [types[i] for i in index.columns])
            return self._spread(indexed, first), first, second

        rows = _hashed(range(len(schema)))
        key = hashed_key([Column(i, schema.fields[i].type) for i in index.columns], KEY_SEED)
        spread_ = None if key is None else Spread(key, rows[0])
        return Rowwise(
            attributes, None, _same(attributes), marks, identity_of(schema.types, spread_, *rows)
        )

    def _spread(self, indexed: JavaObject, row: JavaObject) -> JavaObject:
        """The upper bits of one hash with the lower ones of another."""
        both, either = (self.catalyst.expression(f"Bitwise{word}") for word in ("And", "Or"))
        within, beyond = (self.catalyst.literal(f"{mask}L") for mask in (WITHIN, ~WITHIN))
        return either(both(indexed, beyond), both(row, within))

    def _by_keys(self, index: ByKeys) -> Rowwise:
        keys, schema = index.keys, index.schema
        attributes = self._attributes(keys, schema)
        expressions = [self._expression(key, attributes) for key in keys]
        types = [data_type(field.type) for field in schema]

        def marks() -> Marks:
            first, second = hashes(self.catalyst, attributes, types)
            # In an ordered trace the order stands where a hash does; the key and the second hash
            # still tell rows apart.
            place = first if index.order is None else attributes[index.order]
            hash_ = key_hash(self.catalyst, expressions, [data_type(key.type) for key in keys])
            return hash_, place, second

        present = [
            self.catalyst.expression("IsNotNull")(expression)
            for key, expression in zip(keys, expressions, strict=True)
            if key.nullable and index.nulls is Nulls.LEFT_OUT
        ]
        rows = _hashed(range(len(schema)))
        place = rows[0] if index.order is None else Copied(index.order)
        identity = identity_of(schema.types, hashed_key(keys, KEY_SEED), place, rows[1])
        predicate = self.catalyst.conjunction(present)
        return Rowwise(attributes, predicate, _same(attributes), marks, identity)

    def _by_stamps(self, index: ByStamps) -> Rowwise:
        """Rows told apart by all columns but the last, which are stamps; one alone orders them."""
        attributes = self._attributes(index.keys or (), index.schema)
        width = len(attributes) - index.stamps
        columns, stamps = attributes[:width], attributes[width:]
        types = [data_type(field.type) for field in index.schema.fields[:width]]

        def marks() -> Marks:
            first, second = hashes(self.catalyst, columns, types)
            if index.keys is not None:
                keys = [self._expression(key, attributes) for key in index.keys]
                first = key_hash(self.catalyst, keys, [data_type(key.type) for key in index.keys])
            if len(stamps) == 1:
                time = self.catalyst.cast(stamps[0], self.catalyst.data_type("bigint"))
            else:
                _, time = hashes(self.catalyst, stamps, [data_type("int")] * len(stamps))
            return first, second, time

        rows = _hashed(range(len(columns)))
        key = rows[0] if index.keys is None else hashed_key(index.keys, KEY_SEED)
        times = _hashed(range(width, len(attributes)))
        time = Copied(width) if len(stamps) == 1 else times[1]
        identity = identity_of(index.schema.types, key, rows[1], time)
        return Rowwise(attributes, None, _same(attributes), marks, identity)

    def _by_group(self, index: ByGroup) -> tuple[Rowwise, Rowwise]:
        scalars, keys, schema = index.scalars, index.keys, index.schema
        attributes = self._attributes(scalars, schema)
        columns = [
            Output(
                column_name(i) if i < keys else f"x{i - keys}",
                self._expression(scalar, attributes),
                scalar.type,
            )
            for i, scalar in enumerate(scalars)
        ]
        inner = tuple(self.catalyst.attribute(c.name, c.type) for c in columns)
        types = [data_type(scalar.type) for scalar in scalars[:keys]]

        def marks() -> Marks:
            first, second = hashes(self.catalyst, inner[:keys], types)
            return first, first, second

        same = tuple(
            Output(column.name, attribute, column.type)
            for column, attribute in zip(columns, inner, strict=True)
        )
        rows = _hashed(range(keys))
        identity = identity_of([c.type for c in columns], rows[0], *rows)
        return (
            Rowwise(attributes, None, tuple(columns)),
            Rowwise(inner, None, same, marks, identity),
        )

    def fresh(self, schema: Schema) -> tuple[JavaObject, ...]:
        return self.catalyst.attributes([(column_name(i), f.type) for i, f in enumerate(schema)])

    def _attributes(
        self, scalars: Iterable[Scalar | CatalystGenerator | CatalystEvaluation], schema: Schema
    ) -> tuple[JavaObject, ...]:
        """The attributes that a stage's expressions were written over, or fresh ones."""
        for scalar in scalars:
            if isinstance(scalar, _OVER_INPUTS) and scalar.inputs:
                # A column that no expression reads may hold NULLs that Catalyst does not expect.
                known = tuple(attribute.withNullability(True) for attribute in scalar.inputs)
                # Inside a recursion a stamp follows the columns that the expression knows of.
                return known + self.fresh(schema)[len(known) :]
        return self.fresh(schema)

    def _outputs(
        self, scalars: Sequence[Scalar], attributes: tuple[JavaObject, ...]
    ) -> tuple[Output, ...]:
        return tuple(
            Output(column_name(i), self._expression(scalar, attributes), scalar.type)
            for i, scalar in enumerate(scalars)
        )

    def _expression(self, scalar: Scalar, attributes: Sequence[JavaObject]) -> JavaObject:
        """The scalar's expression over exactly these attributes."""
        match scalar:
            case Column():
                return attributes[scalar.position]
            case CatalystScalar():
                return self._rebase(scalar, attributes)
            case Literal():
                return self._literal(scalar)
            case Call(function="row"):
                return self._row([self._expression(a, attributes) for a in scalar.arguments])
            case Call(function="exactly"):
                # The text of -0.0 has its sign, also inside of arrays, maps and structs.
                value = self._expression(scalar.arguments[0], attributes)
                return self.catalyst.cast(value, self.catalyst.data_type("string"))
            case Call(function="greatest"):
                values = [self._expression(a, attributes) for a in scalar.arguments]
                return self.catalyst.expression("Greatest")(self.catalyst.seq(values))
        raise RekindleError(f"Spark cannot evaluate the scalar {scalar.text}")

    def _literal(self, literal: Literal) -> JavaObject:
        data_type_ = self.catalyst.data_type(literal.type)
        if literal.value is None:
            return self._nothing(literal.type)
        return self.catalyst.cast(self.catalyst.literal(_sql(literal.value)), data_type_)

    def _nothing(self, type_: str) -> JavaObject:
        if type_ not in self._nulls:
            self._nulls[type_] = self.catalyst.null(self.catalyst.data_type(type_))
        return self._nulls[type_]

    def _row(self, expressions: Sequence[JavaObject]) -> JavaObject:
        """A struct, which is never NULL itself and equal to another where all its fields are."""
        parts = []
        for i, expression in enumerate(expressions):
            parts += [self.catalyst.literal(f"'_{i}'"), expression]
        return self.catalyst.expression("CreateNamedStruct")(self.catalyst.seq(parts))

    def _rebase(self, scalar: CatalystScalar, attributes: Sequence[JavaObject]) -> JavaObject:
        moved = {
            id_of(source): target
            for source, target in zip(scalar.inputs, attributes, strict=False)
            if id_of(source) != id_of(target)
        }
        return self.catalyst.rebased(scalar.expression, moved) if moved else scalar.expression


def _hashed(positions: Iterable[int]) -> tuple[Hashed, Hashed]:
    found = tuple(positions)
    return Hashed(found, SEEDS[0]), Hashed(found, SEEDS[1])


def _same(attributes: Sequence[JavaObject]) -> tuple[Output, ...]:
    return tuple(
        Output(column_name(i), attribute, type_of(attribute))
        for i, attribute in enumerate(attributes)
    )


def _sql(value: bool | int | float | str) -> str:
    """A constant as SQL writes it."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return repr(value)
