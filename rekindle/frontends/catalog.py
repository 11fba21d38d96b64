"""The names that a definition may read, and Spark to read it by: what every front end works with.

A front end that has SQL, or makes some, asks the catalog to parse and resolve it over the tables
and views of the database, and to translate what comes out into a term. Names that do not exist yet,
such as those of a recursion, can be assumed for as long as a definition is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, StructType

from rekindle.calculus.terms import Term
from rekindle.catalyst.jvm import Catalyst, JavaObject, analysed_plan, option
from rekindle.frontends.spark_sql.analyse import Leaves, optimise, parse, resolve
from rekindle.frontends.spark_sql.nested_frames import with_leaves
from rekindle.frontends.spark_sql.stored_queries import refuse_code
from rekindle.frontends.spark_sql.translate import Translator
from rekindle.names import is_hidden

ContentsOf = Callable[[str], DataFrame]
"""The rows of a table or view by its name."""
StoredPlans = Callable[[str, str, int], list[JavaObject]]
"""The plans that a text in the definition of a view stands for: the view's name, the text, and how
many they are."""
Assume = Callable[[str, StructType], None]

_DOUBTED: ContextVar[bool] = ContextVar("doubted", default=False)
"""Is the SQL that is read now somebody else's?"""


class Catalog:
    """The tables and views of one database, for front ends."""

    def __init__(self, catalyst: Catalyst, leaves: Leaves, stored_plans: StoredPlans) -> None:
        self.catalyst = catalyst
        self.leaves = leaves
        self.translator = Translator(catalyst, leaves)
        self.stored_plans = stored_plans
        self.functions: Mapping[str, str] = {}
        """The texts of the functions that users defined, by their names."""
        self.trusts: Callable[[str], bool] = lambda text: True
        """May code that a stored text asks for be run?"""

    @property
    def columns(self) -> dict[str, list[str]]:
        """The columns of every table and view, by its name."""
        return {name: self.leaves.schema(name).names for name in self.leaves.plans}

    @property
    def shown(self) -> list[str]:
        """The names of the tables and views that users know of."""
        return [name for name in self.leaves.plans if not is_hidden(name)]

    def has_function(self, name: str) -> bool:
        """Does the session know a function of that name?"""
        return bool(self.catalyst.spark.catalog.functionExists(name))

    def is_aggregate(self, name: str) -> bool:
        """Is it a function of Spark that gives one value for many rows?"""
        return self._group(name) == "agg_funcs"

    def is_scalar(self, name: str) -> bool:
        """Is it a function of the session that gives one value for one row?"""
        several = ("agg_funcs", "generator_funcs", "window_funcs", "table_funcs")
        return self.has_function(name) and self._group(name) not in several

    def _group(self, name: str) -> str:
        """What kind of function of Spark it is; nothing if it is none."""
        registry = self.catalyst.session.sessionState().functionRegistry()
        identifier = self.catalyst.class_("org.apache.spark.sql.catalyst.FunctionIdentifier")
        # Without its schema and catalog Spark refuses to look a function up.
        place = [self.catalyst.some(each) for each in ("builtin", "system")]
        found = option(registry.lookupFunction(identifier(name.lower(), *place)))
        return "" if found is None else str(found.getGroup())

    # ---- SQL -------------------------------------------------------------------------------

    def parse(self, sql: str, given: Iterable[str] = ()) -> JavaObject:
        """The unresolved plan of a query; one that is doubted is looked at before it goes on.

        `given` are names that it may read besides those of the database.
        """
        plan = parse(self.catalyst, sql)
        if _DOUBTED.get():
            refuse_code(self.catalyst, plan, [*self.leaves.plans, *given])
        return plan

    @contextmanager
    def doubting(self, doubted: bool) -> Iterator[None]:
        """SQL that is read until the end is, or is not, somebody else's."""
        token = _DOUBTED.set(doubted)
        try:
            yield
        finally:
            _DOUBTED.reset(token)

    @contextmanager
    def doubting_stored(self, texts: Iterable[str]) -> Iterator[None]:
        """SQL that is read until the end is made of stored texts, and doubted unless trusted."""
        with self.doubting(_DOUBTED.get() or not all(map(self.trusts, texts))):
            yield

    @contextmanager
    def having(self, functions: Mapping[str, str]) -> Iterator[None]:
        """Until the end these are the functions that users defined."""
        before, self.functions = self.functions, functions
        try:
            yield
        finally:
            self.functions = before

    def resolve(self, sql: str, given: Mapping[str, JavaObject] | None = None) -> DataFrame:
        """The query over the tables, and over plans that have names for the moment."""
        return self.over_tables(self.parse(sql, given or {}), given)

    def over_tables(
        self, plan: JavaObject, given: Mapping[str, JavaObject] | None = None
    ) -> DataFrame:
        """The DataFrame of an unresolved plan over the tables, and over `given` plans."""
        scope = self.scope(plan) | dict(given or {})
        return resolve(self.catalyst, plan, scope, self.leaves.plans)

    def scope(self, plan: JavaObject) -> dict[str, JavaObject]:
        """The leaves of the tables and views that an unresolved plan mentions."""
        known = self.leaves.plans
        return {mention: known[mention] for mention in mentioned(plan, known)}

    def scope_of_rows(self, plan: JavaObject, contents: ContentsOf) -> dict[str, JavaObject]:
        """The same with the rows that they hold."""
        names = mentioned(plan, self.leaves.plans)
        return {name: analysed_plan(contents(name)) for name in names}

    def schema_of(self, query: str, assumed: Mapping[str, StructType]) -> StructType:
        """The columns of a query in which some names stand for what does not exist yet."""
        with self.assumed(assumed):
            return self.resolve(query).schema

    def translate(self, frame: DataFrame, recursive: Iterable[str] = ()) -> Term:
        """The term of a DataFrame over leaves; `recursive` are those that a scope iterates."""
        frame = with_leaves(self.catalyst, self.leaves, frame)
        plan = optimise(self.catalyst, self.leaves, frame)
        return self.translator.translate_query(plan, list(recursive)).term

    # ---- names that do not exist yet -------------------------------------------------------

    @contextmanager
    def assumed(self, schemas: Mapping[str, StructType]) -> Iterator[None]:
        """Names that are known for a moment."""
        with self.assuming() as assume:
            for name, schema in schemas.items():
                assume(name, schema)
            yield

    @contextmanager
    def assuming(self) -> Iterator[Assume]:
        """A way to make names known until the end; one that is known means something else."""
        names: list[str] = []

        def assume(name: str, schema: StructType) -> None:
            names.append(name)
            self.leaves.add(name, _nullable(schema))

        with self.leaves.unchanged(names):
            yield assume


def _nullable(schema: StructType) -> StructType:
    """The columns of a relation of which nothing is known yet."""
    return StructType([StructField(f.name, f.dataType, True) for f in schema.fields])


def mentioned(plan: JavaObject, known: Iterable[str]) -> list[str]:
    """The names among `known` that occur in an unresolved plan, as far as its text shows."""
    return named_in(str(plan.toString()), known)


def named_in(text: str, known: Iterable[str]) -> list[str]:
    """The names among `known` whose words occur in a text.

    >>> named_in("SELECT a FROM orders", ["orders", "lines", "A"])
    ['orders', 'A']
    """
    words = set(_words(text))
    return [name for name in known if words.issuperset(_words(name))]


def _words(name: str) -> list[str]:
    return "".join(c if c.isalnum() or c == "_" else " " for c in name.lower()).split()
