"""Stored views: from what a front end reads to an entry of the catalog, and back to its term.

The term of an entry is read from its stored form. Where that cannot be, in another version of Spark
or because it would run code of the database, it is read again from the texts of its definition.
Policies are applied here: the same definition has another term under each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, cast

from pyspark.sql import DataFrame

from rekindle.calculus.terms import Term
from rekindle.calculus.text import parse as parse_term
from rekindle.calculus.text import to_text_with_table
from rekindle.catalyst.jvm import Catalyst, JavaObject
from rekindle.catalyst.persist import dump, load, refuse_python
from rekindle.catalyst.settings import described
from rekindle.catalyst.stored_functions import read_trusted
from rekindle.catalyst.stored_objects import read_listed, read_text
from rekindle.catalyst.stored_plans import plans_from_text
from rekindle.errors import (
    CorruptionError,
    DefinitionError,
    UnsupportedError,
    UntrustedError,
)
from rekindle.frontends.catalog import Catalog, ContentsOf
from rekindle.frontends.protocol import Defined, FrontEnd
from rekindle.frontends.spark_sql.analyse import Leaves
from rekindle.frontends.spark_sql.front_end import without_ties
from rekindle.incremental.policies.arithmetic import Arithmetic
from rekindle.incremental.policies.choice import Policy
from rekindle.incremental.policies.decisions import Factorised
from rekindle.incremental.policies.factored_updates import FactoredView, fed
from rekindle.incremental.policies.factorised import factorise_rows
from rekindle.incremental.policies.higher_order import follow_deltas
from rekindle.incremental.policies.joins import Refusal, recognise_rows
from rekindle.incremental.policies.narrow_views import follow_narrow_views
from rekindle.runtime.epochs.state import ViewEntry, own_identity
from rekindle.runtime.epochs.stored import sound_definition
from rekindle.runtime.nested.part_index import index_of
from rekindle.runtime.trust import Trust
from rekindle.runtime.views.definition import ViewDefinition
from rekindle.runtime.views.front_ends import front_end_of
from rekindle.shapes import ShapeError
from rekindle.spark.arithmetic import SparkArithmetic
from rekindle.spark.exact_arithmetic import ExactArithmetic

_POLICIES: Mapping[Policy, Callable[[Term, Arithmetic], Factorised]] = {
    Policy.VIEW_TREE: follow_narrow_views,
    Policy.HIGHER_ORDER: follow_deltas,
}
_WORDS = {Policy.VIEW_TREE: "a view tree", Policy.HIGHER_ORDER: "deltas of deltas"}


class Definitions:
    """Makes and reads the view entries of one database."""

    def __init__(self, catalyst: Catalyst, leaves: Leaves, trust: Trust) -> None:
        self._catalyst = catalyst
        self._trust = trust
        self.catalog = Catalog(catalyst, leaves, self._stored_plans)
        self.catalog.trusts = trust.covers

    # ---- new entries -----------------------------------------------------------------------

    def read(
        self, front_end: FrontEnd[Any, Any], name: str, given: object
    ) -> list[tuple[ViewEntry, Term]]:
        """The entries and terms of the views that a front end makes of what a user gives."""
        found = front_end.define(name, given, self.catalog)
        return [self.entered(defined) for defined in found]

    def entered(self, defined: Defined) -> tuple[ViewEntry, Term]:
        """The entry and term of a view that has rows of its own."""
        return self._entry(defined), defined.term

    def nested(self, defined: Defined) -> tuple[ViewEntry, list[tuple[ViewEntry, Term]]]:
        """A nested view as an entry without a node, and the views that keep its collections."""
        owner = replace(self._entry(defined), level=defined.level, term="", scalars=())
        assert defined.level is not None
        levels = {level.view: level for _, level in defined.level.paths()}
        parts = []
        for part in defined.parts:
            level = levels.get(part.name)
            index = () if level is None else index_of(part.schema, level)
            entry = replace(self._entry(part), part_of=defined.name, index=index)
            parts.append((entry, part.term))
        return owner, parts

    def _entry(self, defined: Defined) -> ViewEntry:
        text, objects = to_text_with_table(defined.term)
        return ViewEntry(
            name=defined.name,
            schema=defined.schema,
            node=own_identity() if defined.definition.functions and not defined.level else "",
            definition=cast(ViewDefinition, defined.definition),
            term=text,
            scalars=tuple(dump(self._catalyst, value) for value in objects),
            spark=self.spark_version,
            created=0,
            policy=Policy.FIRST_ORDER if defined.policy is None else Policy(defined.policy),
            settings=defined.settings,
        )

    @property
    def spark_version(self) -> str:
        return str(self._catalyst.spark.version)

    # ---- stored entries --------------------------------------------------------------------

    def term(self, entry: ViewEntry) -> Term:
        """The term of a stored view; raises `UntrustedError` if it needs code of the database.

        What Java's form of it has beyond the list is derived from the texts, if it has such.
        """
        with self._catalyst.under(entry.settings):
            return self._term(entry)

    def _term(self, entry: ViewEntry) -> Term:
        is_text = entry.definition.is_text
        if entry.spark == self.spark_version:
            try:
                with sound_definition(entry.name):
                    return parse_term(entry.term, [self.part(text) for text in entry.scalars])
            except (UntrustedError, CorruptionError):
                if not is_text:
                    raise
        if not is_text:
            how = f"was defined by {entry.definition.words} of Spark {entry.spark}"
            raise DefinitionError(
                f"view '{entry.name}' {how}",
                detail=f"it {how}, and this is Spark {self.spark_version}",
                hint="open the database with that version, or drop the view and create it again",
            )
        return self._term_again(entry)

    def _term_again(self, entry: ViewEntry) -> Term:
        """The term of a view of texts, under its policy."""
        if entry.part_of is not None and not entry.definition.is_of_part:
            _, parts = self.factorised(*self.read_again(replace(entry, name=entry.part_of)))
            return next(term for part, term in parts if part.name == entry.name)
        defined = self._defined_again(entry)
        if defined.policy is not None:
            return defined.term
        return self.under(entry.policy, self._entry(defined), defined.term)[1]

    def read_again(self, entry: ViewEntry) -> tuple[ViewEntry, Term]:
        """The entry and term of a stored view of texts, before any policy."""
        defined = self._defined_again(entry)
        return self._entry(defined), defined.term

    def _defined_again(self, entry: ViewEntry) -> Defined:
        front_end = front_end_of(entry.definition)
        with self.on_behalf_of(entry):
            return front_end.define_again(entry.name, entry.definition, self.catalog)

    def defined_anew(self, entry: ViewEntry) -> tuple[ViewEntry, Term]:
        """A stored view as this version of Rekindle and Spark keeps it."""
        with self._catalyst.under(entry.settings):
            term = self._term(entry)
            fresh = self.stored_over(entry, term, entry.policy)
        return replace(fresh, spark=self.spark_version), term

    @contextmanager
    def on_behalf_of(self, entry: ViewEntry) -> Iterator[None]:
        """What is read until the end stands in a stored entry, and is doubted unless trusted."""
        doubted = not self._trust.covers_all(entry.definition.queries)
        with self._catalyst.under(entry.settings), self.catalog.doubting(doubted):
            yield

    @contextmanager
    def reading(self, entry: ViewEntry) -> Iterator[None]:
        """Parts of a stored view are read until the end."""
        with self._catalyst.under(entry.settings):
            yield

    def part(self, text: str) -> object:
        """An opaque part of a stored term or plan; raises `UntrustedError` where that runs code."""
        if self._trust.covers(text):
            return load(text, partial(read_trusted, self._catalyst))
        refuse_python(text)
        return load(text, lambda data: read_listed(self._catalyst, data))

    def dumped(self, part: object) -> str:
        """The text of an opaque part."""
        return dump(self._catalyst, part)

    def _stored_plans(self, view: str, text: str, count: int) -> list[JavaObject]:
        """So many plans that a text in the definition of a view stands for."""
        read = plans_from_text if self._trust.covers(text) else read_text
        with sound_definition(view):
            plans = read(self._catalyst, text)
            if len(plans) != count:
                raise ShapeError(f"{len(plans)} plans are stored, and {count} are needed")
            return plans

    def settings_apart(self, entry: ViewEntry) -> str:
        """The settings of a stored view that the session has otherwise, for people."""
        now = self._catalyst.settings()
        return "" if entry.settings is None else described(entry.settings, now)

    def settings_for(self, entry: ViewEntry) -> dict[str, str | None]:
        """What the session would have to set, or unset, for the settings of a stored view."""
        return {} if entry.settings is None else self._catalyst.settings().towards(entry.settings)

    # ---- policies --------------------------------------------------------------------------

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
        return ExactArithmetic(self._catalyst, self.catalog.translator)

    @property
    def rounding(self) -> SparkArithmetic:
        """Arithmetic that takes products of doubles apart, although they are rounded then."""
        return SparkArithmetic(self._catalyst, self.catalog.translator)

    def fed(self, entry: ViewEntry, term: Term) -> FactoredView:
        """The view as one that is fed by what changes add to it."""
        found = fed(term, f"{entry.name}·feed", self.rounding)
        if isinstance(found, Refusal):
            raise UnsupportedError(
                f"view '{entry.name}' cannot be kept by the policy 'factored'",
                detail=found.reason,
                hint="it is for one sum of products over a join of different tables",
            )
        return found

    def fed_again(self, entry: ViewEntry) -> FactoredView:
        """The same for a stored view."""
        with self._catalyst.under(entry.settings):
            return self.fed(*self.read_again(entry))

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

    # ---- from scratch ----------------------------------------------------------------------

    def recomputation(self, entry: ViewEntry, contents: ContentsOf) -> DataFrame:
        """The view's definition over the tables' contents, for Spark to run from scratch."""
        front_end = front_end_of(entry.definition)
        with self.on_behalf_of(entry):
            return front_end.recompute(entry.name, entry.definition, self.catalog, contents)

    def without_ties(self, entry: ViewEntry, recomputation: DataFrame) -> DataFrame | None:
        """A view's recomputation with ties taken as the view does; None if that changes nothing."""
        if entry.definition.is_recursive:
            return None
        with self._catalyst.under(entry.settings):
            return without_ties(self._catalyst, recomputation)
