"""View definitions: from what a user writes to a term, and back to a query Spark can recompute.

SQL text is its own definition. A DataFrame is kept as its analysed plan in which every leaf that
stands for a table of the database is replaced by a named marker, so that it can be stored and, when
the view is checked, run over the tables as they are then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, StructType

from rekindle.calculus.schema import Schema
from rekindle.calculus.terms import Fix, Term, UnionAll
from rekindle.calculus.text import parse as parse_term
from rekindle.calculus.text import to_text_with_table
from rekindle.catalyst.jvm import (
    Catalyst,
    JavaObject,
    items,
    settings_of,
    simple_name,
)
from rekindle.catalyst.persist import dump, load, refuse_python
from rekindle.catalyst.settings import described
from rekindle.catalyst.stored_objects import read_listed, read_text
from rekindle.catalyst.stored_plans import (
    plans_from_text,
    plans_to_text,
    restored,
    storable,
)
from rekindle.catalyst.types import check_storable, schema_of
from rekindle.errors import (
    CorruptionError,
    DefinitionError,
    UnsupportedError,
    UntrustedError,
)
from rekindle.frontends.spark_sql.analyse import Leaves, optimise, parse, resolve
from rekindle.frontends.spark_sql.shared_queries import (
    divided,
    evaluate_parts,
    resolve_parts,
    translate_parts,
)
from rekindle.frontends.spark_sql.stored_queries import refuse_code
from rekindle.frontends.spark_sql.subqueries import with_joined_subqueries
from rekindle.frontends.spark_sql.ties import decided
from rekindle.frontends.spark_sql.translate import Translator
from rekindle.incremental.policies.arithmetic import Arithmetic
from rekindle.incremental.policies.choice import Policy
from rekindle.incremental.policies.decisions import Factorised
from rekindle.incremental.policies.factored_updates import Fed, fed
from rekindle.incremental.policies.factorised import factorise_rows
from rekindle.incremental.policies.higher_order import follow_deltas
from rekindle.incremental.policies.joins import Refusal, recognise_rows
from rekindle.incremental.policies.narrow_views import follow_narrow_views
from rekindle.runtime.contents import RESERVED
from rekindle.runtime.fixpoints import Evaluation, Reading, assuming
from rekindle.runtime.model_terms import sums_terms
from rekindle.runtime.models import ModelSpec
from rekindle.runtime.recursion import Fixpoint, Loop, fixed_point
from rekindle.runtime.state import ViewEntry
from rekindle.runtime.stored import sound_definition
from rekindle.runtime.trust import Trust, queries_of
from rekindle.spark.arithmetic import SparkArithmetic
from rekindle.spark.exact_arithmetic import ExactArithmetic

MARK = "rekindle."
GIVEN = "·given"
"""What a DataFrame is called in a query over it."""

_POLICIES: Mapping[Policy, Callable[[Term, Arithmetic], Factorised]] = {
    Policy.VIEW_TREE: follow_narrow_views,
    Policy.HIGHER_ORDER: follow_deltas,
}
_WORDS = {Policy.VIEW_TREE: "a view tree", Policy.HIGHER_ORDER: "deltas of deltas"}


_DOUBTED: ContextVar[bool] = ContextVar("doubted", default=False)
"""Is the SQL that is read now somebody else's?"""


class Definitions:
    """Reads and keeps the view definitions of one database."""

    def __init__(self, catalyst: Catalyst, leaves: Leaves, trust: Trust) -> None:
        self._catalyst = catalyst
        self._leaves = leaves
        self._trust = trust
        self._translator = Translator(catalyst, leaves)

    def of_sql(self, name: str, sql: str) -> tuple[ViewEntry, Term]:
        """The entry and term of a view given as SQL text."""
        plan = self._parsed(sql)
        query = divided(self._catalyst, plan, self._leaves.plans)
        if not query.parts:
            return self._entry(name, self._over_tables(plan), sql=sql, plan=None)
        scope = self._scope(plan)
        frame, parts = resolve_parts(self._catalyst, self._leaves, query, scope)
        term = translate_parts(self._translator, frame, parts).term
        return self._stored(name, frame, term, sql=sql), term

    def settings_apart(self, entry: ViewEntry) -> str:
        """The settings of a stored view that the session has otherwise, for people."""
        now = self._catalyst.settings()
        return "" if entry.settings is None else described(entry.settings, now)

    def settings_for(self, entry: ViewEntry) -> dict[str, str | None]:
        """What the session would have to set, or unset, for the settings of a stored view."""
        return {} if entry.settings is None else self._catalyst.settings().towards(entry.settings)

    def of_model(
        self, name: str, query: str | DataFrame, spec: ModelSpec
    ) -> tuple[ViewEntry, Term]:
        """The entry and term of a model's sums; over joins they follow a view tree if one can."""
        given: dict[str, JavaObject] = {}
        if isinstance(query, DataFrame):
            given[GIVEN] = query._jdf.queryExecution().analyzed()
            query = f"SELECT * FROM `{GIVEN}`"
        else:
            spec = replace(spec, query=query)
        sums = spec.sums.query(query)
        frame = self._resolved(sums, given)
        kept = self._kept(name, frame) if given else None
        rows = self._translated(self._resolved(spec.sums.rows(query), given))
        parts = sums_terms(spec.sums, rows, self._schema(name, frame), self.rounding)
        term = UnionAll(tuple(part.term for part in parts))
        policy = Policy.VIEW_TREE if any(p.follows_a_tree for p in parts) else Policy.FIRST_ORDER
        entry = self._stored(name, frame, term, sql=None if given else sums, plan=kept)
        return replace(entry, model=spec, policy=policy), term

    def of_frame(self, name: str, frame: DataFrame) -> tuple[ViewEntry, Term]:
        """The entry and term of a view given as a DataFrame over `db.table(...)`."""
        entry, term = self._entry(name, frame, sql=None, plan=None)
        settings = settings_of(frame)
        return replace(entry, plan=self._kept(name, frame), settings=settings), term

    def _kept(self, name: str, frame: DataFrame) -> str:
        """The plan of a frame with markers for the tables, as it is stored."""
        return self._stored_plans(name, [self._marked(frame._jdf.queryExecution().analyzed())])

    def _stored_plans(self, name: str, plans: Sequence[JavaObject]) -> str:
        try:
            return plans_to_text(self._catalyst, plans)
        except Py4JJavaError as error:
            raise DefinitionError(
                f"the DataFrame of view '{name}' cannot be stored",
                detail=str(error.java_exception),
                hint="define the view by SQL text; a DataFrame may not have subqueries inside "
                "(scalar(), exists()), but may be a join",
            ) from error

    def of_loops(
        self, loops: Sequence[Loop], schemas: Mapping[str, StructType]
    ) -> list[tuple[ViewEntry, Term]]:
        """The entries and terms of the views that a recursion defines together."""
        first = loops[0]
        with self.assumed(schemas):
            frames = [self._resolved(query) for query in first.queries]
            bodies = tuple(
                self._translator.translate_query(optimise(self._catalyst, frame), first.names).term
                for frame in frames
            )
        entries: list[tuple[ViewEntry, Term]] = []
        for loop, frame in zip(loops, frames, strict=True):
            term = Fix(loop.names, bodies, output=loop.output, limit=loop.limit)
            name = loop.names[loop.output]
            entries.append((self._stored(name, frame, term, loop=loop), term))
        return entries

    def of_fixpoint(self, name: str, definition: Fixpoint) -> tuple[ViewEntry, Term]:
        """The entry and term of a view given by iteration."""
        with assuming(self._leaves, _nullable) as assume:
            reading = Reading(
                name, self._catalyst, self._leaves, self._translator, assume, self._marked
            )
            loop, term = reading.read(definition)
            kept = self._stored_plans(name, reading.plans)
        return self._stored(name, definition.initial, term, plan=kept, loop=loop), term

    def schema_of(self, query: str, assumed: Mapping[str, StructType]) -> StructType:
        """The columns of a query in which some names stand for what does not exist yet."""
        with self.assumed(assumed):
            return self._resolved(query).schema

    @contextmanager
    def assumed(self, schemas: Mapping[str, StructType]) -> Iterator[None]:
        """Names that are known for a moment."""
        with assuming(self._leaves, _nullable) as assume:
            for name, schema in schemas.items():
                assume(name, schema)
            yield

    def _resolved(self, sql: str, given: Mapping[str, JavaObject] | None = None) -> DataFrame:
        """The query over the tables, and over plans that have names for the moment."""
        return self._over_tables(self._parsed(sql, given or {}), given)

    def _over_tables(
        self, plan: JavaObject, given: Mapping[str, JavaObject] | None = None
    ) -> DataFrame:
        scope = self._scope(plan) | dict(given or {})
        return resolve(self._catalyst, plan, scope, self._leaves.plans)

    def _scope(self, plan: JavaObject) -> dict[str, JavaObject]:
        """The leaves of the tables and views that an unresolved plan mentions."""
        known = self._leaves.plans
        return {mention: known[mention] for mention in mentioned(plan, known)}

    def _parsed(self, sql: str, given: Iterable[str] = ()) -> JavaObject:
        """The unresolved plan of a query; one that is doubted is looked at before it goes on."""
        plan = parse(self._catalyst, sql)
        if _DOUBTED.get():
            refuse_code(self._catalyst, plan, [*self._leaves.plans, *given])
        return plan

    @contextmanager
    def _on_behalf_of(self, entry: ViewEntry) -> Iterator[None]:
        """What is read until the end stands in a stored entry, and is doubted unless trusted."""
        token = _DOUBTED.set(not self._trust.covers_all(queries_of(entry)))
        try:
            yield
        finally:
            _DOUBTED.reset(token)

    def term(self, entry: ViewEntry) -> Term:
        """The term of a stored view; raises `UntrustedError` if it needs code of the database.

        What Java's form of it has beyond the list is derived from the SQL text, if there is one.
        """
        with self._catalyst.under(entry.settings):
            return self._term(entry)

    def _term(self, entry: ViewEntry) -> Term:
        if entry.spark == self.spark_version:
            try:
                with sound_definition(entry.name):
                    return parse_term(entry.term, [self.part(text) for text in entry.scalars])
            except (UntrustedError, CorruptionError):
                if entry.sql is None:
                    raise
        if entry.sql is None:
            how = "a DataFrame" if entry.loop is None else "Datalog"
            raise DefinitionError(
                f"view '{entry.name}' was defined by {how} of Spark {entry.spark}",
                detail=f"it was defined by {how} of Spark {entry.spark}, and this is Spark "
                f"{self.spark_version}",
                hint="open the database with that version, or drop the view and create it again",
            )
        with self._on_behalf_of(entry):
            return self._translated_anew(entry)

    def _translated_anew(self, entry: ViewEntry) -> Term:
        assert entry.sql is not None
        if entry.model is not None:
            return self.of_model(entry.name, entry.model.query, entry.model)[1]
        if entry.part_of is not None:
            _, parts = self.factorised(*self.of_sql(entry.part_of, entry.sql))
            return next(term for part, term in parts if part.name == entry.name)
        again, term = self.of_sql(entry.name, entry.sql)
        return self.under(entry.policy, again, term)[1]

    def defined_anew(self, entry: ViewEntry) -> tuple[ViewEntry, Term]:
        """A stored view as this version of Rekindle and Spark keeps it."""
        with self._catalyst.under(entry.settings):
            term = self._term(entry)
            fresh = self.stored_over(entry, term, entry.policy)
        return replace(fresh, spark=self.spark_version), term

    @property
    def spark_version(self) -> str:
        return str(self._catalyst.spark.version)

    @contextmanager
    def reading(self, entry: ViewEntry) -> Iterator[None]:
        """Parts of a stored view are read until the end."""
        with self._catalyst.under(entry.settings):
            yield

    def part(self, text: str) -> object:
        """An opaque part of a stored term or plan; raises `UntrustedError` where that runs code."""
        if self._trust.covers(text):
            return load(text, self._catalyst.deserialise)
        refuse_python(text)
        return load(text, lambda data: read_listed(self._catalyst, data))

    def dumped(self, part: object) -> str:
        """The text of an opaque part."""
        return dump(self._catalyst, part)

    def of_stored(self, entry: ViewEntry) -> tuple[ViewEntry, Term]:
        """The entry and term of the SQL text of a stored view, before any policy."""
        assert entry.sql is not None
        with self._catalyst.under(entry.settings), self._on_behalf_of(entry):
            return self.of_sql(entry.name, entry.sql)

    def under(self, policy: Policy, entry: ViewEntry, term: Term) -> tuple[ViewEntry, Term]:
        """The view with the integrals that a policy asks for; refuses one that has no use.

        Under `higher_order` a query that compares with a nested aggregate falls back to first order
        for the part that does, be it the whole.
        """
        if policy is Policy.FIRST_ORDER:
            return entry, term
        if policy is Policy.FACTORED:
            return entry, self.fed(entry, term).term
        found = self.decided(policy, term)
        falls_back = policy is Policy.HIGHER_ORDER and found.has_nested
        if not found.is_followed and not falls_back:
            raise UnsupportedError(
                f"view '{entry.name}' cannot follow {_WORDS[policy]}",
                detail="; ".join(found.refusals) or "it has no aggregate over a join",
                hint=f"leave out policy = '{policy.value}'",
            )
        return self.stored_over(entry, found.term, policy), found.term

    def decided(self, policy: Policy, term: Term) -> Factorised:
        """What a policy makes of a view's term."""
        return _POLICIES[policy](term, self.arithmetic)

    @property
    def arithmetic(self) -> ExactArithmetic:
        """Arithmetic that rounds nothing."""
        return ExactArithmetic(self._catalyst, self._translator)

    @property
    def rounding(self) -> SparkArithmetic:
        """Arithmetic that takes products of doubles apart, although they are rounded then."""
        return SparkArithmetic(self._catalyst, self._translator)

    def fed(self, entry: ViewEntry, term: Term) -> Fed:
        """The view as one that is fed by what changes add to it."""
        found = fed(term, f"{entry.name}·feed", self.rounding)
        if isinstance(found, Refusal):
            raise UnsupportedError(
                f"view '{entry.name}' cannot be kept by the policy 'factored'",
                detail=found.reason,
                hint="it is for one sum of products over a join of different tables",
            )
        return found

    def fed_again(self, entry: ViewEntry) -> Fed:
        """The same for a stored view."""
        with self._catalyst.under(entry.settings):
            return self.fed(*self.of_stored(entry))

    def stored_over(self, entry: ViewEntry, term: Term, policy: Policy) -> ViewEntry:
        """The entry with another term under a policy."""
        text, objects = to_text_with_table(term)
        scalars = tuple(dump(self._catalyst, value) for value in objects)
        return replace(entry, term=text, scalars=scalars, policy=policy)

    def factorised(
        self, entry: ViewEntry, term: Term
    ) -> tuple[ViewEntry, list[tuple[ViewEntry, Term]]]:
        """The view as an entry without a node, and the views that keep its collections."""
        query = recognise_rows(term, self.arithmetic)
        if isinstance(query, Refusal):
            raise UnsupportedError(
                f"view '{entry.name}' cannot be kept factorised",
                detail=query.reason,
                hint="a factorised view joins rows by equal keys; leave out representation = "
                "'factorised' for anything else",
            )
        kept = factorise_rows(query, entry.name)
        parts: list[tuple[ViewEntry, Term]] = []
        for name, part in kept.terms.items():
            hidden = replace(entry, name=name, schema=part.schema, part_of=entry.name)
            parts.append((self.stored_over(hidden, part, entry.policy), part))
        owner = replace(entry, factorisation=kept.factorisation)
        return owner, parts

    def recomputation(self, entry: ViewEntry, contents: Callable[[str], DataFrame]) -> DataFrame:
        """The view's query over the tables' contents, for Spark to run from scratch."""
        with self._catalyst.under(entry.settings), self._on_behalf_of(entry):
            return self._recomputation(entry, contents)

    def _recomputation(self, entry: ViewEntry, contents: Callable[[str], DataFrame]) -> DataFrame:
        if entry.sql is not None:
            plan = self._parsed(entry.sql)
            names = mentioned(plan, self._leaves.plans)
            scope = {n: contents(n)._jdf.queryExecution().analyzed() for n in names}
            query = divided(self._catalyst, plan, self._leaves.plans)
            return evaluate_parts(self._catalyst, query, scope, self._leaves.plans, self._cut)
        if entry.plan is None:
            assert entry.loop is not None
            return self._fixed_point(entry.loop, contents)
        read = plans_from_text if self._trust.covers(entry.plan) else read_text
        with sound_definition(entry.name):
            marked = read(self._catalyst, entry.plan)
            initial, step = marked[0], marked[0 if entry.loop is None else 1]
        if entry.loop is None:
            return self._filled(initial, contents)
        loop = entry.loop
        whole = Evaluation.of(self._catalyst, self._filled, contents, loop, marked)
        return whole.rows(loop.names[0], loop.limit, initial, step, {})

    def _cut(self, part: DataFrame) -> DataFrame:
        """The rows of a part of a query, computed now, with ties taken as views do."""
        return (self._without_ties(part) or part).localCheckpoint()

    def without_ties(self, entry: ViewEntry, recomputation: DataFrame) -> DataFrame | None:
        """A view's recomputation with ties taken as the view does; None if that changes nothing."""
        with self._catalyst.under(entry.settings):
            return self._without_ties(recomputation)

    def _without_ties(self, recomputation: DataFrame) -> DataFrame | None:
        plan = self._catalyst.optimised(recomputation._jdf.queryExecution().analyzed())
        joined = with_joined_subqueries(self._catalyst, plan)
        again = decided(self._catalyst, joined)
        if again.equals(joined):
            return None
        try:
            return self._catalyst.dataframe(again)
        except (AnalysisException, Py4JJavaError):
            # Not every optimised plan can be analysed again; the difference stands as it was.
            return None

    def _filled(self, marked: JavaObject, contents: Callable[[str], DataFrame]) -> DataFrame:
        """The plan that a stored one with markers stands for, over the rows that these do."""

        def fill(node: JavaObject) -> JavaObject | None:
            if simple_name(node) != "SubqueryAlias" or not str(node.alias()).startswith(MARK):
                return None
            rows = contents(str(node.alias())[len(MARK) :])._jdf.queryExecution().analyzed()
            renamed = [
                self._catalyst.alias(column, wanted.name(), wanted.exprId())
                for column, wanted in zip(
                    items(rows.output()), items(node.child().output()), strict=True
                )
            ]
            return self._catalyst.plan("Project")(self._catalyst.seq(renamed), rows)

        filled = self._catalyst.transform(marked, fill)
        return self._catalyst.dataframe(restored(self._catalyst, filled))

    def _entry(
        self, name: str, frame: DataFrame, *, sql: str | None, plan: str | None
    ) -> tuple[ViewEntry, Term]:
        term = self._translated(frame)
        return self._stored(name, frame, term, sql=sql, plan=plan), term

    def _translated(self, frame: DataFrame) -> Term:
        return self._translator.translate_query(optimise(self._catalyst, frame)).term

    def _stored(
        self,
        name: str,
        frame: DataFrame,
        term: Term,
        *,
        sql: str | None = None,
        plan: str | None = None,
        loop: Loop | None = None,
    ) -> ViewEntry:
        text, objects = to_text_with_table(term)
        return ViewEntry(
            name=name,
            schema=self._schema(name, frame),
            node="",
            sql=sql,
            term=text,
            scalars=tuple(dump(self._catalyst, value) for value in objects),
            plan=plan,
            spark=self.spark_version,
            created=0,
            loop=loop,
            settings=self._catalyst.settings(),
        )

    def _fixed_point(self, loop: Loop, contents: Callable[[str], DataFrame]) -> DataFrame:
        """The recursion evaluated by Spark, one query after another."""
        spark = self._catalyst.spark
        schemas = {name: self._leaves.schema(name) for name in loop.names}

        def evaluate(query: str, values: Mapping[str, pa.Table]) -> pa.Table:
            plan = self._parsed(query)
            frames = {
                name: spark.createDataFrame(rows, schemas[name]) for name, rows in values.items()
            }
            scope = {}
            for name in mentioned(plan, self._leaves.plans):
                rows = frames[name] if name in frames else contents(name)
                scope[name] = rows._jdf.queryExecution().analyzed()
            found = resolve(self._catalyst, plan, scope, self._leaves.plans)
            return found.toArrow()

        empty = {
            name: spark.createDataFrame([], schema).toArrow() for name, schema in schemas.items()
        }
        output = schemas[loop.names[loop.output]]
        return spark.createDataFrame(fixed_point(loop, empty, evaluate), output)

    def _schema(self, name: str, frame: DataFrame) -> Schema:
        names = [column.lower() for column in frame.columns]
        twice = sorted({column for column in names if names.count(column) > 1})
        if twice:
            raise DefinitionError(
                f"view '{name}' has several columns called '{twice[0]}'",
                hint="give each column its own name with AS",
            )
        reserved = [column for column in names if column in RESERVED]
        if reserved:
            raise DefinitionError(
                f"view '{name}' cannot have a column called '{reserved[0]}'",
                detail="its changes have a column of that name",
                hint="give the column another name with AS",
            )
        for field in frame.schema.fields:
            check_storable(field.dataType, field.name)
        return schema_of(frame.schema)

    def _marked(self, plan: JavaObject) -> JavaObject:
        """A plan in the form that is stored, with markers for the tables."""
        alias = self._catalyst.module("org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias")

        def mark(node: JavaObject) -> JavaObject | None:
            if simple_name(node) != "LogicalRDD":
                return None
            name = self._leaves.name_of(node)
            if name is None:
                raise UnsupportedError(
                    "the view reads data that is not a table of this database",
                    hint="build the DataFrame from db.table(...), or load the data into a table",
                )
            local = self._catalyst.plan("LocalRelation")(
                node.output(), self._catalyst.seq(()), False, self._catalyst.none()
            )
            return alias.apply(MARK + name, local)

        # Storable first: a lateral join does not show its subquery's leaves among its children.
        return self._catalyst.transform(storable(self._catalyst, plan), mark)


def _nullable(schema: StructType) -> StructType:
    """The columns of a relation of which nothing is known yet."""
    return StructType([StructField(f.name, f.dataType, True) for f in schema.fields])


def mentioned(plan: JavaObject, known: Iterable[str]) -> list[str]:
    """The names among `known` that occur in an unresolved plan, as far as its text shows."""
    return named_in(str(plan.toString()), known)


def named_in(text: str, known: Iterable[str]) -> list[str]:
    """The names among `known` whose words occur in a text."""
    words = set(_words(text))
    return [name for name in known if words.issuperset(_words(name))]


def _words(name: str) -> list[str]:
    return "".join(c if c.isalnum() or c == "_" else " " for c in name.lower()).split()
