"""Views that are defined by comprehensions over nested collections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import reduce
from typing import ClassVar

from pyspark.sql import DataFrame
from pyspark.sql import types as T

from rekindle.calculus.terms import Negate, Term, UnionAll
from rekindle.frontends.catalog import Catalog, ContentsOf
from rekindle.frontends.comprehension.assembling import nested_query
from rekindle.frontends.comprehension.collections import Collections
from rekindle.frontends.comprehension.definition import Bag, ComprehensionDefinition
from rekindle.frontends.comprehension.differences import difference
from rekindle.frontends.comprehension.elaborate import Elaborated, Elaborator
from rekindle.frontends.comprehension.folding import folded
from rekindle.frontends.comprehension.functions import Function, used
from rekindle.frontends.comprehension.parse import parse
from rekindle.frontends.comprehension.parts import Part, Shredded, shred
from rekindle.frontends.comprehension.scope import Known
from rekindle.frontends.definition import Definition
from rekindle.frontends.protocol import Defined, FrontEnd
from rekindle.frontends.spark_sql.front_end import define_query, recompute_query
from rekindle.names import quoted
from rekindle.names import text as check_text
from rekindle.nested import terms as core

FULL, PARTIAL, NONE = "full", "partial", "none"
SHREDDINGS = (FULL, PARTIAL, NONE)


@dataclass(frozen=True, slots=True)
class Comprehension:
    """A comprehension as text."""

    text: str
    shredding: str = FULL
    bags: tuple[Bag, ...] = ()
    """Where the bags of each level are kept, if some stay in their rows for what was measured."""


def comprehension(text: str) -> Comprehension:
    """The definition of a view by a comprehension, whose rows may hold collections.

    Such as `for m in movies yield (name: m.name, related: for n in movies where ... yield n.name)`.
    """
    return Comprehension(check_text("a comprehension", text))


class Comprehensions(FrontEnd[Comprehension, ComprehensionDefinition]):
    """Views whose rows may hold collections, kept as flat parts."""

    takes: ClassVar[type] = Comprehension
    keeps: ClassVar[type[Definition]] = ComprehensionDefinition
    given_as: ClassVar[str] = "rekindle.comprehension(...)"

    def define(self, name: str, given: Comprehension, catalog: Catalog) -> Sequence[Defined]:
        functions = used(parse(given.text), catalog.functions)
        with catalog.doubting_stored(each.text for each in functions.values()):
            return [self._define(name, given, functions, catalog)]

    def _define(
        self,
        name: str,
        given: Comprehension,
        functions: Mapping[str, Function],
        catalog: Catalog,
    ) -> Defined:
        elaborated = elaborate(given.text, catalog, functions)
        names = tuple(sorted(each.name for each in functions.values()))
        whole = ComprehensionDefinition(given.text, (), names, given.bags)
        shredded = _kept(shred(name, elaborated, _known(catalog)), given, whole, catalog)
        if not shredded.level.bags:
            (part,) = shredded.parts
            return _defined(name, whole, part, catalog)
        parts = []
        with ExitStack() as stack:
            for part in shredded.parts:
                made = _defined(part.name, whole, part, catalog)
                parts.append(made)
                stack.enter_context(catalog.assumed({part.name: made.columns}))
            query = nested_query(shredded.level, catalog.leaves.schema)
            columns = _columns(catalog.resolve(query).schema, whole)
        settings = catalog.catalyst.settings()
        top = next(part for part in parts if part.name == shredded.level.view)
        return Defined(
            name,
            whole,
            top.term,
            columns,
            settings,
            level=shredded.level,
            parts=tuple(parts),
        )

    def differences(
        self, name: str, given: Comprehension, catalog: Catalog, before: Mapping[str, str]
    ) -> dict[str, Term]:
        """The change of parts of a view when the functions were others `before`, as terms.

        It is given for the parts that differ in conditions alone, of a view that is kept as before.
        """
        shredded = []
        for texts in (before, catalog.functions):
            with catalog.having(texts):
                functions = used(parse(given.text), texts)
                with catalog.doubting_stored(each.text for each in functions.values()):
                    elaborated = elaborate(given.text, catalog, functions)
            found = shred(name, elaborated, _known(catalog))
            whole = ComprehensionDefinition(given.text)
            shredded.append(_kept(found, given, whole, catalog))
        old, new = ({part.name: part for part in each.parts} for each in shredded)
        whole, flat = ComprehensionDefinition(given.text), not shredded[1].level.bags
        changed = {}
        for part in new:
            made = difference(old[part], new[part], _known(catalog)) if part in old else None
            if made is not None:
                changed[name if flat else part] = _defined(part, whole, made, catalog).term
        return changed

    def define_again(
        self, name: str, definition: ComprehensionDefinition, catalog: Catalog
    ) -> Defined:
        return _defined(name, definition, Part(name, definition.summands), catalog)

    def recompute(
        self,
        name: str,
        definition: ComprehensionDefinition,
        catalog: Catalog,
        contents: ContentsOf,
    ) -> DataFrame:
        added = [query for count, query in definition.summands for _ in range(count)]
        taken = [query for count, query in definition.summands for _ in range(-count)]
        sides = [
            reduce(DataFrame.unionAll, [recompute_query(each, catalog, contents) for each in side])
            for side in (added, taken)
            if side
        ]
        if not added:
            return sides[0].limit(0)
        return sides[0] if not taken else sides[0].exceptAll(sides[1])


def elaborate(
    text: str, catalog: Catalog, functions: Mapping[str, Function] | None = None
) -> Elaborated:
    """A comprehension as a term over what the database holds, and over functions by their names."""
    expression = parse(text)
    if functions is None:
        functions = used(expression, catalog.functions)
    elaborator = Elaborator(Collections(catalog), functions, list(catalog.functions))
    return elaborator.whole(expression)


def names_read(text: str, catalog: Catalog) -> set[str]:
    """The tables and views that a comprehension ranges over, also in functions that it uses."""
    found, waiting = set[str](), [elaborate(text, catalog).term]
    while waiting:
        term = waiting.pop()
        if isinstance(term, core.Relation):
            found.add(term.name)
        waiting += core.children(term)  # type: ignore[arg-type]
    return found


def _kept(
    shredded: Shredded, given: Comprehension, whole: ComprehensionDefinition, catalog: Catalog
) -> Shredded:
    """The parts of a view that keeps inner bags where it is told to."""
    inside = {path for path, _, stays in given.bags if stays}
    if given.shredding == FULL or (given.shredding == PARTIAL and not inside):
        return shredded
    with ExitStack() as stack:
        for part in shredded.parts:
            columns = _defined(part.name, whole, part, catalog).columns
            stack.enter_context(catalog.assumed({part.name: columns}))
        if given.shredding == NONE:
            return folded(shredded, catalog.leaves.schema)
        return folded(shredded, catalog.leaves.schema, inside.__contains__)


def _known(catalog: Catalog) -> dict[str, Known]:
    leaves = catalog.leaves
    return {
        name: Known(leaves.schema(name), leaves.keys.get(name, ()), leaves.levels.get(name))
        for name in leaves.plans
    }


def _defined(name: str, whole: ComprehensionDefinition, part: Part, catalog: Catalog) -> Defined:
    """A view of flat rows, the sum of its queries."""
    definition = replace(whole, summands=part.queries)
    found = [define_query(name, definition, query, catalog) for _, query in part.queries]
    if any(_types(each) != _types(found[0]) for each in found):
        # They differ in where a label may have NULLs.
        queries = [(n, _cast(q, found[0].columns)) for n, q in part.queries]
        definition = replace(whole, summands=tuple(queries))
        found = [define_query(name, definition, query, catalog) for _, query in queries]
    terms: list[Term] = []
    for (count, _), each in zip(part.queries, found, strict=True):
        terms += [each.term if count > 0 else Negate(each.term)] * abs(count)
    columns = _columns(found[0].columns, whole)
    term = terms[0] if len(terms) == 1 else UnionAll(tuple(terms))
    return Defined(name, definition, term, columns, found[0].settings)


def _types(defined: Defined) -> tuple[str, ...]:
    return defined.schema.types


def _cast(query: str, columns: T.StructType) -> str:
    """A query whose structs may have NULLs anywhere."""
    shown = [
        f"CAST({quoted(f.name)} AS {_sql_type(f.dataType)}) AS {quoted(f.name)}"
        if isinstance(f.dataType, T.StructType)
        else quoted(f.name)
        for f in columns.fields
    ]
    return f"SELECT {', '.join(shown)} FROM ({query})"


def _sql_type(type_: T.DataType) -> str:
    match type_:
        case T.StructType():
            fields = (f"{quoted(f.name)}: {_sql_type(f.dataType)}" for f in type_.fields)
            return f"STRUCT<{', '.join(fields)}>"
        case T.ArrayType():
            return f"ARRAY<{_sql_type(type_.elementType)}>"
        case T.MapType():
            return f"MAP<{_sql_type(type_.keyType)}, {_sql_type(type_.valueType)}>"
    return type_.simpleString()


def _columns(columns: T.StructType, definition: ComprehensionDefinition) -> T.StructType:
    """The columns of a view; where functions may be given other bodies, all may be NULL."""
    if not definition.functions:
        return columns
    found = _nullable(columns)
    assert isinstance(found, T.StructType)
    return found


def _nullable(type_: T.DataType) -> T.DataType:
    match type_:
        case T.StructType():
            fields = [T.StructField(f.name, _nullable(f.dataType), True) for f in type_.fields]
            return T.StructType(fields)
        case T.ArrayType():
            return T.ArrayType(_nullable(type_.elementType), True)
        case T.MapType():
            return T.MapType(_nullable(type_.keyType), _nullable(type_.valueType), True)
    return type_
