"""One block of a normal form as a SELECT.

Scalars that are computed from collections (measures) are joined: the rows of the block with the
values that each measure depends on, then for each combination of those the aggregate of what the
collection holds, by a left join, so that an empty collection counts 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from pyspark.sql import types as T

from rekindle.errors import UnsupportedError
from rekindle.frontends.comprehension.blocks import Block, Inner, Table, blocks
from rekindle.frontends.comprehension.collections import spark_type
from rekindle.frontends.comprehension.scope import Known, Path, Scope, path_of, paths_in
from rekindle.names import HIDDEN, quoted, sql_text
from rekindle.nested import terms as core
from rekindle.nested.levels import LABEL, VALUE, Level
from rekindle.nested.terms import KeyTerm, RingTerm
from rekindle.nested.types import KeyType, Record, Scalar, is_flat

WEIGHT = "_count"


@dataclass(frozen=True, slots=True)
class Domain:
    """What a collection is computed for: a relation that is joined as `d`, and what it gives."""

    relation: str
    scope: Scope
    carried: tuple[str, ...]
    """The columns of it that begin every row."""


@dataclass(frozen=True, slots=True)
class LabelTerm:
    """A new label: the way in which it is made, and its values; those of other ways are NULL."""

    index: int
    fields: tuple[tuple[str, KeyType, KeyTerm | None], ...]


@dataclass(frozen=True, slots=True)
class StructTerm:
    """A row in which something was replaced by labels; NULL where `absent` is."""

    fields: tuple[tuple[str, Cell], ...]
    absent: KeyTerm | None = None


Cell: TypeAlias = KeyTerm | LabelTerm | StructTerm


class Select:
    """Says one block in SQL; `numbers` make names that no part of the query has yet."""

    def __init__(
        self,
        known: Mapping[str, Known],
        block: Block,
        domain: Domain | None,
        numbers: Iterator[int],
    ) -> None:
        self.block = block
        self.domain = domain
        self._known = known
        self._numbers = numbers
        self._from: list[str] = []
        self._lateral: list[str] = []
        self._where: list[str] = []
        self.scope = Scope()
        if domain is not None:
            self._from.append(f"{domain.relation} AS d")
            self.scope = domain.scope
        for variable, source in block.generators:
            self._add(variable, source)

    def _add(self, variable: core.KeyVariable, source: Table | Inner) -> None:
        name = variable.name
        row = quoted(self._alias(name))
        if isinstance(source, Table):
            known = self._known[source.name]
            level = known.level
            read = source.name if level is None else level.view
            self._from.append(f"{quoted(read)} AS {row}")
            schema = self._known[read].schema
            self.scope = self.scope.ranging(name, row, schema, level, table=True)
            return
        path = path_of(source.path)
        if path is None:
            raise UnsupportedError("only tables, views and their columns can be ranged over")
        written = self.scope.written(path, source.path.type)
        level = self.scope.bag(path)
        if level is None:
            type_ = self.scope.type(path)
            if isinstance(type_, T.MapType):
                written = self.scope.entries(path, source.path.type)
            self._explode(name, written, type_)
            return
        schema = self._known[level.view].schema
        self._from.append(f"{quoted(level.view)} AS {row}")
        self._where.append(f"{row}.{quoted(LABEL)} = {written}")
        if level.of_values:
            inner = level.bag(VALUE)
            nested = None if inner is None else Level(level.view, (("", inner),))
            value = f"{row}.{quoted(VALUE)}"
            self.scope = self.scope.ranging(
                name, value, schema[VALUE].dataType, nested, table=False
            )
        else:
            self.scope = self.scope.ranging(name, row, schema, level, table=True)

    def _alias(self, variable: str) -> str:
        """What a variable is called in SQL, where `d` may be the domain."""
        return f"{variable}{HIDDEN}" if variable == "d" and self.domain is not None else variable

    def _explode(self, name: str, written: str, type_: T.DataType) -> None:
        element: T.DataType
        if isinstance(type_, T.MapType):
            element = T.StructType(
                [T.StructField("key", type_.keyType), T.StructField("value", type_.valueType)]
            )
        else:
            assert isinstance(type_, T.ArrayType)
            element = type_.elementType
        alias = quoted(self._alias(name))
        self._lateral.append(f"LATERAL VIEW explode({written}) {alias} AS {quoted(VALUE)}")
        row = f"{alias}.{quoted(VALUE)}"
        self.scope = self.scope.ranging(name, row, element, None, table=False)

    # ---- the text --------------------------------------------------------------------------

    def sql(self, columns: Sequence[tuple[str, Cell]], weight: str | None = None) -> str:
        """The rows of the block, with what they count for in a column, if that has a name."""
        measures = self._measures(columns)
        if measures:
            return self._measured(columns, measures, weight)
        writer = Writer(self.scope, {})
        where = [*self._where, *map(writer.key, self.block.conditions)]
        return _select(self._shown(writer, columns, weight, "d"), self._relation(), where)

    def _shown(
        self, writer: Writer, columns: Sequence[tuple[str, Cell]], weight: str | None, carrier: str
    ) -> list[str]:
        carried = () if self.domain is None else self.domain.carried
        shown = [f"{carrier}.{quoted(name)}" for name in carried]
        shown += [f"{writer.cell(cell)} AS {quoted(name)}" for name, cell in columns]
        return shown if weight is None else [*shown, f"{writer.weight(self.block)} AS {weight}"]

    def _relation(self) -> str:
        return " ".join([" CROSS JOIN ".join(self._from) or "(SELECT 1)", *self._lateral])

    # ---- measures --------------------------------------------------------------------------

    def _measures(self, columns: Sequence[tuple[str, Cell]]) -> list[core.Measure]:
        terms = [*self.block.conditions, *self._late(columns)]
        found = [measure for term in terms for measure in _measures_in(term)]
        return list(dict.fromkeys([*found, *map(_count, self.block.absent)]))

    def _late(self, columns: Sequence[tuple[str, Cell]]) -> list[KeyTerm]:
        """The terms that are written where measures are known."""
        return [*self.block.factors, *(term for _, cell in columns for term in _terms_of(cell))]

    def _measured(
        self,
        columns: Sequence[tuple[str, Cell]],
        measures: Sequence[core.Measure],
        weight: str | None,
    ) -> str:
        guarded = [each for each in self.block.conditions if any(_measures_in(each))]
        needed: dict[Path, KeyType] = {}
        for term in [*guarded, *self._late(columns), *measures]:
            needed.update(paths_in(term, self.scope))
        names = {path: f"p{next(self._numbers)}" for path in needed}
        early = Writer(self.scope, {})
        shown = [f"{self.scope.compared(p, type_)} AS {names[p]}" for p, type_ in needed.items()]
        carried = () if self.domain is None else self.domain.carried
        shown += [f"d.{quoted(name)}" for name in carried]
        plain = [early.key(each) for each in self.block.conditions if each not in guarded]
        base = _select(shown or ["1 AS p"], self._relation(), [*self._where, *plain])
        joins, texts = [], dict[core.Measure, str]()
        for measure in measures:
            alias = f"m{next(self._numbers)}"
            joins.append(self._join(alias, measure, base, names))
            zero = measure.name in ("count", "sum")
            texts[measure] = f"coalesce({alias}.v, 0)" if zero else f"{alias}.v"
        late = Writer(self.scope.computed({p: f"b.{name}" for p, name in names.items()}), texts)
        where = [late.key(each) for each in guarded]
        where += [f"{late.key(_count(number))} = 0" for number in self.block.absent]
        shown = self._shown(late, columns, weight, "b")
        return _select(shown, " ".join([f"({base}) AS b", *joins]), where)

    def _join(self, alias: str, measure: core.Measure, base: str, names: Mapping[Path, str]) -> str:
        """The join with what an aggregate gives for the values that its collection depends on."""
        read = list(dict.fromkeys(path for path, _ in paths_in(measure, self.scope)))
        keys = tuple(names[path] for path in read)
        domain = None
        if keys:
            scope = self.scope.computed({path: f"d.{names[path]}" for path in read})
            domain = Domain(f"(SELECT DISTINCT {', '.join(keys)} FROM ({base}))", scope, keys)
        parts = blocks(measure.collection)
        rows = " UNION ALL ".join(
            Select(self._known, block, domain, self._numbers)._elements(measure) for block in parts
        )
        value = f"{_aggregate(measure, parts)} AS v"
        if not rows:
            raise UnsupportedError(f"{measure.name} of a collection that is always empty")
        group = f" GROUP BY {', '.join(keys)}" if keys else ""
        found = f"(SELECT {', '.join([*keys, value])} FROM ({rows}){group})"
        if not keys:
            return f"CROSS JOIN {found} AS {alias}"
        same = " AND ".join(f"b.{key} <=> {alias}.{key}" for key in keys)
        return f"LEFT JOIN {found} AS {alias} ON {same}"

    def _elements(self, measure: core.Measure) -> str:
        """The elements of a measured collection, and what they count for."""
        key: KeyTerm = self.block.keys[0] if self.block.keys else core.UNIT_ROW
        if measure.name == "count":
            return self.sql([], weight="w")
        if measure.name != "sum" and (self.block.count != 1 or self.block.factors):
            raise UnsupportedError(
                f"{measure.name} of a collection whose elements count other than once"
            )
        if measure.name == "array":
            if not is_flat(key.type):
                raise UnsupportedError(
                    "a function of Spark cannot read a collection of collections here",
                    hint="range over it with for",
                )
        elif isinstance(key.type, Record):
            (name,) = key.type.names
            key = (
                dict(key.fields)[name]
                if isinstance(key, core.MakeRecord)
                else core.Field(key, name)
            )
        return self.sql([("e", key)], weight="w")


def _aggregate(measure: core.Measure, parts: Sequence[Block]) -> str:
    """The aggregate over the elements of some blocks, and what each counts for."""
    match measure.name:
        case "count":
            return "sum(w)"
        case "sum" if any(part.count != 1 or part.factors for part in parts):
            # Else without a product, which of decimals has fewer digits after the point.
            return "sum(w * e)"
        case "array":
            return "transform(sort_array(collect_list(named_struct('e', e))), x -> x.e)"
    return f"{measure.name}(e)"


def _count(number: RingTerm) -> core.Measure:
    return core.Measure("count", number, Scalar("bigint"))


def _select(shown: Sequence[str], relation: str, where: Sequence[str]) -> str:
    text = f"SELECT {', '.join(shown) or '1 AS one'} FROM {relation}"
    return f"{text} WHERE {' AND '.join(where)}" if where else text


def _measures_in(term: KeyTerm) -> Iterator[core.Measure]:
    """The measures of a term, but for those of collections in it."""
    match term:
        case core.Measure():
            yield term
        case core.ToKey():
            return
        case _:
            for child in core.children(term):
                yield from _measures_in(child)  # type: ignore[arg-type]


def _terms_of(cell: Cell) -> Iterator[KeyTerm]:
    match cell:
        case LabelTerm(_, fields):
            yield from (term for _, _, term in fields if term is not None)
        case StructTerm(fields, absent):
            if absent is not None:
                yield absent
            for _, inner in fields:
                yield from _terms_of(inner)
        case _:
            yield cell


class Writer:
    """Writes terms in a scope; measures are texts that have been joined."""

    def __init__(self, scope: Scope, measures: Mapping[core.Measure, str]) -> None:
        self._scope = scope
        self._measures = measures

    def cell(self, cell: Cell) -> str:
        """A column."""
        match cell:
            case LabelTerm(index, fields):
                parts = [f"'i', {index}"]
                for name, type_, term in fields:
                    parts.append(f"{sql_text(name)}, {self._held(type_, term)}")
                return f"named_struct({', '.join(parts)})"
            case StructTerm(fields, absent):
                parts = [f"{sql_text(name)}, {self.cell(inner)}" for name, inner in fields]
                made = f"named_struct({', '.join(parts)})"
                if absent is None:
                    return made
                return f"CASE WHEN {self.key(absent)} IS NOT NULL THEN {made} END"
            case _:
                return self.key(cell)

    def _held(self, type_: KeyType, term: KeyTerm | None) -> str:
        """What a label holds of a value; NULL if it is made in another way."""
        if term is None:
            return f"CAST(NULL AS {spark_type(type_)})"
        path = path_of(term)
        return self.key(term) if path is None else self._scope.compared(path, type_)

    def key(self, term: KeyTerm) -> str:
        """A row, a part of one, or a scalar."""
        path = path_of(term)
        if path is not None:
            return self._scope.written(path, term.type)
        match term:
            case core.Apply(function, arguments):
                return f"({function.text.format(*map(self.key, arguments))})"
            case core.MakeRecord(fields):
                parts = [f"{sql_text(name)}, {self.key(inner)}" for name, inner in fields]
                return f"named_struct({', '.join(parts)})"
            case core.Field(inner, name):
                return f"{self.key(inner)}.{quoted(name)}"
            case core.KeyConstant(value):
                return "NULL" if value is None else repr(value)
            case core.Measure():
                return self._measures[term]
        raise UnsupportedError(f"{type(term).__name__} cannot be written as a scalar")

    def weight(self, block: Block) -> str:
        """What the elements of a block count for."""
        return " * ".join([str(block.count), *map(self.key, block.factors)])
