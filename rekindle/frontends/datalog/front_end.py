"""`db.datalog`: from a program to the definitions of its views."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import ClassVar

from pyspark.sql import DataFrame
from pyspark.sql.types import DataType, NullType, NumericType, StructField, StructType

from rekindle.calculus.terms import Fix
from rekindle.errors import DefinitionError, RekindleError, StatementError, unknown_name
from rekindle.frontends.catalog import Catalog, ContentsOf
from rekindle.frontends.datalog.definition import DatalogDefinition
from rekindle.frontends.datalog.parse import Atom, Place, Rule, parse_program
from rekindle.frontends.datalog.program import Relation, Stratum, strata
from rekindle.frontends.datalog.queries import column_names, query_of, query_of_rule
from rekindle.frontends.definition import Definition
from rekindle.frontends.iteration import After, Rows, fixed_point
from rekindle.frontends.protocol import Defined, FrontEnd
from rekindle.frontends.spark_sql.analyse import resolve
from rekindle.frontends.spark_sql.front_end import define_query, recompute_query

_ROUNDS = 5
"""How often types may widen through a recursion before they are said not to agree."""


@dataclass(frozen=True, slots=True)
class DatalogProgram:
    """Rules as text, and how many iterations a recursion of theirs may take."""

    text: str
    limit: int


class Datalog(FrontEnd[DatalogProgram, DatalogDefinition]):
    """Views that are the relations of a program."""

    takes: ClassVar[type] = DatalogProgram
    keeps: ClassVar[type[Definition]] = DatalogDefinition

    def define(self, name: str, given: DatalogProgram, catalog: Catalog) -> Sequence[Defined]:
        return _ProgramReader(given, catalog).read()

    def define_again(self, name: str, definition: DatalogDefinition, catalog: Catalog) -> Defined:
        if definition.is_recursive:
            return _recursion(name, definition, _schemas_again(definition, catalog), catalog)
        return define_query(name, definition, definition.query, catalog)

    def recompute(
        self, name: str, definition: DatalogDefinition, catalog: Catalog, contents: ContentsOf
    ) -> DataFrame:
        if definition.is_recursive:
            return _recomputed(definition, catalog, contents)
        return recompute_query(definition.query, catalog, contents)


def _recursion(
    name: str, definition: DatalogDefinition, schemas: Mapping[str, StructType], catalog: Catalog
) -> Defined:
    """One of the relations that need each other, whose columns are known."""
    with catalog.assumed(schemas):
        frames = [catalog.resolve(query) for query in definition.bodies]
        bodies = tuple(catalog.translate(frame, definition.names) for frame in frames)
    term = Fix(definition.names, bodies, output=definition.output, limit=definition.limit)
    columns = frames[definition.output].schema
    return Defined(name, definition, term, columns, catalog.catalyst.settings())


def _schemas_again(definition: DatalogDefinition, catalog: Catalog) -> dict[str, StructType]:
    """The columns of relations that need each other, of which some were views before.

    One that was dropped has the columns that its rules give it.
    """
    known, names = catalog.leaves.plans, definition.names
    found = {name: catalog.leaves.schema(name) for name in names if name in known}
    for relation in _dropped(definition, catalog) if len(found) < len(names) else ():
        found[relation.name] = StructType(
            [StructField(column, NullType()) for column in column_names(relation)]
        )
    if len(found) == len(names):
        for _ in range(_ROUNDS):
            given = [catalog.schema_of(query, found) for query in definition.bodies]
            after = dict(zip(names, given, strict=True))
            if _types(after) == _types({name: found[name] for name in names}):
                return after
            found = after
    raise DefinitionError(
        f"the relations {', '.join(names)} cannot be read again",
        detail="one of them was dropped, or means something else by now",
        hint="drop the others and run the program again",
    )


def _dropped(definition: DatalogDefinition, catalog: Catalog) -> list[Relation]:
    """The relations of a definition that are no views any more."""

    def is_relation(name: str) -> bool:
        return name in definition.names or not catalog.has_function(name)

    rules = parse_program(definition.program, is_relation)
    relations = [relation for stratum in strata(rules) for relation in stratum.relations]
    gone = set(definition.names) - set(catalog.leaves.plans)
    return [relation for relation in relations if relation.name in gone]


def _recomputed(definition: DatalogDefinition, catalog: Catalog, contents: ContentsOf) -> DataFrame:
    """The recursion evaluated by Spark, one query after another."""
    spark = catalog.catalyst.spark
    schemas = _schemas_again(definition, catalog)
    dropped = {name: s for name, s in schemas.items() if name not in catalog.leaves.plans}

    def evaluate(query: str, frames: Mapping[str, DataFrame]) -> DataFrame:
        plan = catalog.parse(query)
        scope = catalog.scope_of_rows(
            plan, lambda name: frames[name] if name in frames else contents(name)
        )
        return resolve(catalog.catalyst, plan, scope, catalog.leaves.plans)

    def step(values: Rows) -> After:
        frames = {name: spark.createDataFrame(rows, schemas[name]) for name, rows in values.items()}
        queries = zip(definition.names, definition.bodies, strict=True)
        with catalog.assumed(dropped):
            return After({name: evaluate(query, frames).toArrow() for name, query in queries})

    empty = {name: spark.createDataFrame([], schema).toArrow() for name, schema in schemas.items()}
    found = fixed_point(empty, definition.limit, step)
    output = definition.names[definition.output]
    return spark.createDataFrame(found[output], schemas[output])


class _ProgramReader:
    """Reads one program over the tables and views of a catalog."""

    def __init__(self, program: DatalogProgram, catalog: Catalog) -> None:
        self._program = program
        self._catalog = catalog
        self._columns = {name.lower(): names for name, names in catalog.columns.items()}

    def read(self) -> list[Defined]:
        """The views that the program defines, each after those that it reads."""
        rules = parse_program(self._program.text, self._is_relation)
        if not rules:
            raise StatementError("the program has no rules", hint="write head(x) :- body(x).")
        found: list[Defined] = []
        with ExitStack() as stack:
            for stratum in strata(rules):
                for relation in stratum.relations:
                    self._add(relation)
                with _at(stratum.relations[0].rules[0].place):
                    made = self._define(stratum)
                known = {view.name: view.columns for view in made}
                stack.enter_context(self._catalog.assumed(known))
                found += made
        return found

    def _is_relation(self, name: str) -> bool:
        return name.lower() in self._columns or not self._catalog.has_function(name)

    def _add(self, relation: Relation) -> None:
        if relation.name.lower() in self._columns:
            raise relation.rules[0].place.error(
                f"'{relation.name}' exists already", hint="drop it first, or choose another name"
            )
        self._columns[relation.name.lower()] = column_names(relation)

    def _columns_of(self, name: str, place: Place) -> Sequence[str]:
        found = self._columns.get(name.lower())
        if found is None:
            error = unknown_name("relation", name, self._columns)
            raise place.error(error.message, error.hint or error.detail)
        return found

    def _define(self, stratum: Stratum) -> list[Defined]:
        names = tuple(relation.name for relation in stratum.relations)
        if not stratum.is_recursive:
            self._agreed(stratum.relations[0], {})
        queries = tuple(query_of(relation, self._columns_of) for relation in stratum.relations)
        text, limit = self._program.text, self._program.limit
        if not stratum.is_recursive:
            definition = DatalogDefinition(text, names, queries, 0, limit, recursive=False)
            return [define_query(names[0], definition, queries[0], self._catalog)]
        schemas = self._schemas(stratum, queries)
        with self._catalog.assumed(schemas):
            frames = [self._catalog.resolve(query) for query in queries]
            bodies = tuple(self._catalog.translate(frame, names) for frame in frames)
        return [
            Defined(
                name,
                DatalogDefinition(text, names, queries, i, limit, recursive=True),
                Fix(names, bodies, output=i, limit=limit),
                frame.schema,
                self._catalog.catalyst.settings(),
            )
            for i, (name, frame) in enumerate(zip(names, frames, strict=True))
        ]

    def _schemas(self, stratum: Stratum, queries: Sequence[str]) -> dict[str, StructType]:
        """The columns of relations that need each other, from the rules that need none of them.

        Other rules may widen them, as a union does.
        """
        found = self._first_schemas(stratum)
        names = [relation.name for relation in stratum.relations]
        for _ in range(_ROUNDS):
            given = [self._catalog.schema_of(query, found) for query in queries]
            after = dict(zip(names, given, strict=True))
            if _types(after) == _types(found):
                for relation in stratum.relations:
                    self._agreed(relation, found)
                return found
            found = after
        raise (
            stratum.relations[0]
            .rules[0]
            .place.error(
                f"the types of '{names[0]}' do not agree: they grow at every turn",
                hint="cast the columns of the head, such as CAST(x + 1 AS BIGINT)",
            )
        )

    def _first_schemas(self, stratum: Stratum) -> dict[str, StructType]:
        found: dict[str, StructType] = {}
        waiting = list(stratum.relations)
        while waiting:
            unknown = {relation.name.lower() for relation in waiting}
            ready = [
                (relation, part)
                for relation in waiting
                if (part := _started(relation, unknown)) is not None
            ]
            if not ready:
                raise (
                    waiting[0]
                    .rules[0]
                    .place.error(
                        f"'{waiting[0].name}' has no rule that begins it: it would always be empty",
                        hint="add a rule whose body does not need it, or a fact",
                    )
                )
            for relation, part in ready:
                self._agreed(part, found, column_names(relation))
                query = query_of(part, self._columns_of, column_names(relation))
                found[relation.name] = self._catalog.schema_of(query, found)
                waiting.remove(relation)
        return found

    def _agreed(
        self, relation: Relation, assumed: Mapping[str, StructType], names: Sequence[str] = ()
    ) -> None:
        """Raise unless the rules of a relation give its columns types that can be one.

        A union would read texts as numbers, and fail on the first that is none.
        """
        if len(relation.rules) < 2:
            return
        names = names or column_names(relation)
        first: list[tuple[Rule, DataType]] = []
        for rule in relation.rules:
            with _at(rule.place):
                query = query_of_rule(rule, self._columns_of, names)
                types = [f.dataType for f in self._catalog.schema_of(query, assumed).fields]
            first = first or [(rule, type_) for type_ in types]
            for i, (type_, (other, known)) in enumerate(zip(types, first, strict=True)):
                if isinstance(known, NullType):
                    first[i] = rule, type_
                elif not _are_alike(type_, known):
                    raise rule.place.error(
                        f"column {i + 1} of '{relation.name}', {names[i]}, is "
                        f"{type_.simpleString().upper()} here and "
                        f"{known.simpleString().upper()} at line {other.place.line}",
                        hint="cast one of them, such as CAST(x AS STRING), so that the rules of a "
                        "relation agree",
                    )


def _are_alike(one: DataType, other: DataType) -> bool:
    """Has a union of two types a type that takes all values of both as they are?"""
    numbers = all(isinstance(type_, NumericType) for type_ in (one, other))
    times = all(type_.typeName() in _TIMES for type_ in (one, other))
    nothing = any(isinstance(type_, NullType) for type_ in (one, other))
    # What is inside of nested types is for Spark to widen, or to refuse.
    return nothing or numbers or times or type(one) is type(other)


_TIMES = ("date", "timestamp", "timestamp_ntz")


def _started(relation: Relation, unknown: set[str]) -> Relation | None:
    """The relation with the rules that read nothing unknown, if there are any."""
    rules = tuple(
        rule
        for rule in relation.rules
        if not any(isinstance(x, Atom) and x.name.lower() in unknown for x in rule.body)
    )
    return Relation(relation.name, rules) if rules else None


def _types(schemas: Mapping[str, StructType]) -> dict[str, list[str]]:
    return {name: [f.dataType.simpleString() for f in s.fields] for name, s in schemas.items()}


@contextmanager
def _at(place: Place) -> Iterator[None]:
    """Errors of a block say at which rule they arose."""
    try:
        yield
    except RekindleError as error:
        if not error.message.startswith("line "):
            error.message = f"line {place.line}: {error.message}"
        raise
