"""New views: from what a user writes, and how it shall be kept, to views of the engine."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from pyspark.sql import DataFrame

from rekindle.calculus.terms import Term, sources
from rekindle.circuit.nodes import Table
from rekindle.errors import DefinitionError, UnsupportedError, did_you_mean
from rekindle.frontends.agca.front_end import Agca
from rekindle.frontends.comprehension.front_end import SHREDDINGS, Comprehension, names_read
from rekindle.frontends.fixpoints.fixpoint import Fixpoint
from rekindle.frontends.mrql.front_end import Mrql
from rekindle.frontends.protocol import Defined, FrontEnd
from rekindle.frontends.spark_sql.depth import not_too_deep
from rekindle.incremental.policies.choice import Policy
from rekindle.runtime.arguments import one_of, optional_text, text
from rekindle.runtime.engine import Engine, Incrementality
from rekindle.runtime.epochs.state import TableEntry, ViewEntry
from rekindle.runtime.matrices.maintenance import FactoredMaintenance
from rekindle.runtime.models.definition import ModelDefinition
from rekindle.runtime.time.emission import ON_CLOSE, WAYS, emitted_on_close
from rekindle.runtime.views.choosing import Choosing
from rekindle.runtime.views.definitions import Definitions
from rekindle.runtime.views.factorised import is_factorised
from rekindle.runtime.views.front_ends import front_end_for

Given: TypeAlias = str | DataFrame | Fixpoint | Agca | Comprehension | Mrql
"""What a view may be defined by."""
EXACT, APPROXIMATE = "exact", "approximate"
"""Ways to follow an iteration."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """How a view shall be kept; a policy of None is chosen by what each would keep."""

    incremental: Incrementality
    policy: str | None
    factorised: bool
    comment: str | None = None
    shredding: str | None = None
    on_close: bool = False
    """Does it show the windows that are closed alone?"""
    iteration: str | None = None

    @property
    def said(self) -> dict[str, str]:
        """What is kept of the user's words beside the definition."""
        given = {
            "comment": self.comment,
            "policy": self.policy,
            "incremental": None if self.incremental is Incrementality.PREFERRED else "required",
            "representation": "factorised" if self.factorised else None,
            "shredding": self.shredding,
            "iteration": self.iteration,
        }
        return {name: word for name, word in given.items() if word is not None}


def wanted(
    incremental: str,
    policy: str | None,
    representation: str,
    comment: str | None,
    shredding: str | None = None,
    emit: str | None = None,
    iteration: str | None = None,
) -> Wanted:
    """How a user asks for a view to be kept, checked as far as it goes without the definition."""
    words = [each.value for each in Incrementality]
    if shredding is not None:
        one_of("value of shredding", shredding, SHREDDINGS)
    if iteration is not None:
        iteration = one_of("value of iteration", _lower(iteration), (EXACT, APPROXIMATE))
    if iteration == APPROXIMATE:
        raise UnsupportedError(
            "iteration = 'approximate' is not offered: a view follows an iteration exactly",
            detail="what the approximate algorithm gives depends on the batches in which the rows "
            "came, so that it is not the query of the rows that are there",
            hint="leave it out, or write iteration = 'exact'; db.explain(view) shows how the "
            "approximate algorithm would follow the step of a query in MRQL",
        )
    return Wanted(
        Incrementality(one_of("value of incremental", incremental, words)),
        policy,
        is_factorised(representation),
        optional_text("a comment", comment),
        shredding,
        emit is not None and one_of("value of emit", _lower(emit), WAYS) == ON_CLOSE,
        iteration,
    )


def _lower(given: Any) -> Any:
    """A word as it is known; anything else is left to be refused."""
    return given.lower() if isinstance(given, str) else given


@dataclass(frozen=True, slots=True)
class Creating:
    """Makes the views of one database."""

    engine: Engine
    definitions: Definitions
    feeding: FactoredMaintenance

    def create(self, name: str, given: Given, wanted: Wanted) -> ViewEntry:
        """Create a view and fill it."""
        self.check_new(name)
        with not_too_deep(name):
            return self._create(name, given, wanted)

    def _create(self, name: str, given: Given, wanted: Wanted) -> ViewEntry:
        given = self._emitted(name, _shredded_as(name, given, wanted), wanted)
        if optional_text("a policy", wanted.policy) == Policy.FACTORED.value:
            return self._create_fed(name, given, wanted)
        found = self._defined_flat(name, given) if wanted.factorised else self._defined(name, given)
        if found.level is not None:
            return self._create_nested(found, wanted)
        entry, term = self._kept(name, self.definitions.entered(found), wanted.policy)
        entry = replace(entry, said=wanted.said)
        if not wanted.factorised:
            self.engine.create_views([(entry, term)], wanted.incremental)
            return entry
        entry, parts = self.definitions.factorised(entry, term)
        for part, _ in parts:
            self.check_new(part.name)
        self.engine.create_views(parts, wanted.incremental, [entry])
        return entry

    def _create_nested(
        self, found: Defined, wanted: Wanted, replaced: Sequence[str] = ()
    ) -> ViewEntry:
        """Create the parts of a nested view, and the view that stands for them.

        They may take the places of a view and its parts, which are `replaced`.
        """
        if wanted.factorised:
            raise UnsupportedError(
                f"view '{found.name}' is nested and cannot be kept factorised",
                hint="leave out representation = 'factorised'",
            )
        owner, parts = self.definitions.nested(found)
        refusals: list[UnsupportedError] = []
        kept = []
        for part, term in parts:
            if part.name not in replaced:
                self.check_new(part.name)
            try:
                kept.append(self._kept(found.name, (part, term), wanted.policy))
            except UnsupportedError as error:
                # A policy may be for some of the parts.
                refusals.append(error)
                kept.append((part, term))
        if len(refusals) == len(parts):
            raise refusals[0]
        owner = replace(owner, said=wanted.said)
        self.engine.create_views(kept, wanted.incremental, [owner], replaced=replaced)
        return owner

    def create_all(
        self, front_end: FrontEnd[Any, Any], name: str, given: object
    ) -> list[ViewEntry]:
        """Create and fill the views that a front end of its own call defines, in one epoch."""
        found = self.definitions.read(front_end, name, given)
        self.engine.create_views(found)
        return [entry for entry, _ in found]

    def replace(self, old: ViewEntry, given: Given, wanted: Wanted) -> ViewEntry:
        """Give a view another definition."""
        optional_text("a policy", wanted.policy)
        if isinstance(old.definition, ModelDefinition):
            raise DefinitionError(
                f"'{old.name}' is a model, and no view can take its place",
                detail="its rows are the sums that db.model reads",
                hint=f"DROP VIEW {old.name}, then create the view, or the model with another query",
            )
        fed = Policy.FACTORED.value in (wanted.policy, old.policy.value)
        if fed or wanted.factorised or old.factorisation is not None:
            raise UnsupportedError(
                f"'{old.name}' cannot be replaced where it is, or shall be, factorised or factored",
                hint=f"DROP VIEW {old.name} and create it again",
            )
        with not_too_deep(old.name):
            given = self._emitted(old.name, _shredded_as(old.name, given, wanted), wanted)
            found = self._defined(old.name, given)
            self._refuse_own_name(old, given, found)
            replaced = [old.name, *(part.name for part in self.engine.state.parts(old.name))]
            if found.level is not None:
                return self._create_nested(found, wanted, replaced)
            entry, term = self._kept(old.name, self.definitions.entered(found), wanted.policy)
        entry = replace(entry, said=wanted.said)
        self.engine.create_views([(entry, term)], wanted.incremental, replaced=replaced[1:])
        return entry

    def _refuse_own_name(self, old: ViewEntry, given: Given, found: Defined) -> None:
        """Raise if a view would be defined by itself."""
        names = {old.name, *(part.name for part in self.engine.state.parts(old.name))}
        if isinstance(given, Comprehension):
            # Parts read each other, under names that the old ones may have.
            reads = names_read(given.text, self.definitions.catalog)
        else:
            terms = [part.term for part in found.parts] or [found.term]
            reads = {source for term in terms for source in sources(term)}
        if not names.isdisjoint(reads):
            raise DefinitionError(
                f"the new definition of view '{old.name}' reads the view itself",
                hint="write its query in its place, or define it by WITH RECURSIVE or Datalog",
            )

    def read_again(self, entry: ViewEntry, given: Given) -> tuple[ViewEntry, Term]:
        """The entry and term that a definition would have, kept as a stored view is."""
        fresh, term = self._read(entry.name, given)
        return self.definitions.under(entry.policy, fresh, term)

    @property
    def choosing(self) -> Choosing:
        """Policies compared for the tables as they are now."""
        return Choosing(self.engine.state, self.engine.store, self.definitions.arithmetic)

    def check_new(self, name: str) -> None:
        """Raise unless the name is free."""
        text("the name of a table or view", name)
        if self.engine.state.knows(name):
            raise DefinitionError(
                f"'{name}' exists already", hint="drop it first, or choose another name"
            )
        if "/" in name or not name.isprintable() or not name.strip():
            raise DefinitionError(f"'{name}' is not a name for a table or view")

    def _create_fed(self, name: str, given: Given, wanted: Wanted) -> ViewEntry:
        """Create a view of which nothing is kept but the result."""
        entry, term = self._read(name, given)
        if not entry.definition.is_text or wanted.factorised:
            raise UnsupportedError(
                f"view '{name}' cannot be kept by the policy 'factored'",
                detail="it is for views that are defined by SQL text and listed",
            )
        view = self.definitions.fed(entry, term)
        for source in sources(term):
            if isinstance(self.engine.state.entry(source), ViewEntry):
                raise UnsupportedError(
                    f"view '{name}' cannot be kept by the policy 'factored'",
                    detail=f"'{source}' is a view, and the changes of tables are what feeds it",
                )
        self.check_new(view.feed.name)
        table = Table(view.feed.name, view.feed.schema, (), secrets.token_hex(8))
        feed = TableEntry(
            table.name, table.schema, (), table.incarnation, table.id, 0, part_of=entry.name
        )
        self.feeding.add(name, view)
        try:
            rows = self.feeding.initial(name, self.engine.table_node, self.engine.rows_of)
            entry = self.definitions.stored_over(entry, view.term, Policy.FACTORED)
            entry = replace(entry, said=wanted.said)
            self.engine.create_views([(entry, view.term)], feeds=[(feed, rows)])
        except BaseException:
            if name not in self.engine.state.entries:
                self.feeding.remove(name)
            raise
        return entry

    def _kept(
        self, name: str, read: tuple[ViewEntry, Term], policy: str | None
    ) -> tuple[ViewEntry, Term]:
        """A view under the policy that the user asks for, or that is chosen."""
        known = [each.value for each in Policy]
        if policy is not None and policy not in known:
            raise UnsupportedError(
                f"the policy '{policy}' of view '{name}' is not available",
                detail=f"available: {', '.join(known)}",
                hint=did_you_mean(str(policy), known),
            )
        entry, term = read
        if policy is None:
            return self._under_chosen(entry, term)
        return self.definitions.under(Policy(policy), entry, term)

    def _under_chosen(self, entry: ViewEntry, term: Term) -> tuple[ViewEntry, Term]:
        """The view under the policy that keeps least, where that matters."""
        choosing = self.choosing
        if entry.definition.is_recursive or not choosing.is_worth_it(term):
            return entry, term
        try:
            return self.definitions.under(choosing.policy(term), entry, term)
        except UnsupportedError:
            return entry, term

    def _emitted(self, name: str, given: Given, wanted: Wanted) -> Given:
        """What a view is defined by, if it shows closed windows alone."""
        if not wanted.on_close:
            return given
        if not isinstance(given, str):
            raise UnsupportedError(
                f"view '{name}' is not defined by a text of SQL, and cannot be given on close",
                hint="write its query in SQL, or make a view of it and one in SQL over that",
            )
        found = self._defined_flat(name, given)
        return emitted_on_close(name, given.strip(), found.term, self.engine)

    def _read(self, name: str, given: Given) -> tuple[ViewEntry, Term]:
        found = self._defined_flat(name, given)
        if found.level is not None:
            raise UnsupportedError(f"view '{name}' is nested, which cannot be here")
        return self.definitions.entered(found)

    def _defined(self, name: str, given: Given) -> Defined:
        front_end = front_end_for(name, given)
        (found,) = front_end.define(name, given, self.definitions.catalog)
        return found

    def _defined_flat(self, name: str, given: Given) -> Defined:
        """The view with rows of its own, as far as its definition leaves that open."""
        front_end = front_end_for(name, given)
        (found,) = front_end.define_flat(name, given, self.definitions.catalog)
        return found


def _shredded_as(name: str, given: Given, wanted: Wanted) -> Given:
    """What a view is defined by, with the user's word on where its inner bags are kept."""
    if wanted.shredding is None:
        return given
    if not isinstance(given, Comprehension):
        raise UnsupportedError(
            f"view '{name}' is no comprehension, and cannot have the option shredding",
            hint="leave it out",
        )
    return replace(given, shredding=wanted.shredding)
