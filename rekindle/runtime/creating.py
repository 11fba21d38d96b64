"""New views: from what a user writes, and how it shall be kept, to views of the engine."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from typing import TypeAlias

from pyspark.sql import DataFrame

from rekindle.calculus.terms import Term, sources
from rekindle.circuit.nodes import Table
from rekindle.errors import DefinitionError, UnsupportedError, did_you_mean
from rekindle.frontends.spark_sql.depth import not_too_deep
from rekindle.incremental.policies.choice import Policy
from rekindle.runtime.arguments import optional_text, text
from rekindle.runtime.choosing import Choosing
from rekindle.runtime.definitions import Definitions
from rekindle.runtime.engine import Engine, Incremental
from rekindle.runtime.feeding import Feeding
from rekindle.runtime.recursion import Fixpoint
from rekindle.runtime.ring_queries import Agca, sql_of
from rekindle.runtime.state import TableEntry, ViewEntry

Definition: TypeAlias = str | DataFrame | Fixpoint | Agca
"""What a view may be defined by."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """How a view shall be kept; a policy of None is chosen by what each would keep."""

    incremental: Incremental
    policy: str | None
    factorised: bool
    comment: str | None = None

    def said(self, definition: Definition) -> dict[str, str]:
        """What is kept of the user's words beside the query."""
        given = {
            "comment": self.comment,
            "policy": self.policy,
            "incremental": None if self.incremental is Incremental.PREFERRED else "required",
            "representation": "factorised" if self.factorised else None,
            "agca": definition.text if isinstance(definition, Agca) else None,
        }
        return {name: word for name, word in given.items() if word is not None}


@dataclass(frozen=True, slots=True)
class Creating:
    """Makes the views of one database."""

    engine: Engine
    definitions: Definitions
    feeding: Feeding

    def create(self, name: str, definition: Definition, wanted: Wanted) -> ViewEntry:
        """Create a view and fill it."""
        self.check_new(name)
        with not_too_deep(name):
            return self._create(name, definition, wanted)

    def _create(self, name: str, definition: Definition, wanted: Wanted) -> ViewEntry:
        if optional_text("a policy", wanted.policy) == Policy.FACTORED.value:
            return self._create_fed(name, definition, wanted)
        entry, term = self._define(name, definition, wanted.policy)
        entry = replace(entry, said=wanted.said(definition))
        if not wanted.factorised:
            self.engine.create_views([(entry, term)], wanted.incremental)
            return entry
        entry, parts = self.definitions.factorised(entry, term)
        for part, _ in parts:
            self.check_new(part.name)
        self.engine.create_views(parts, wanted.incremental, [entry])
        return entry

    def replace(self, old: ViewEntry, definition: Definition, wanted: Wanted) -> ViewEntry:
        """Give a view another definition."""
        optional_text("a policy", wanted.policy)
        if old.model is not None:
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
            entry, term = self._define(old.name, definition, wanted.policy)
        if old.name in sources(term):
            raise DefinitionError(
                f"the new definition of view '{old.name}' reads the view itself",
                hint="write its query in its place, or define it by WITH RECURSIVE or Datalog",
            )
        entry = replace(entry, said=wanted.said(definition))
        self.engine.create_views([(entry, term)], wanted.incremental)
        return entry

    def read_again(self, entry: ViewEntry, definition: Definition) -> tuple[ViewEntry, Term]:
        """The entry and term that a definition would have, kept as a stored view is."""
        fresh, term = self._read(entry.name, definition)
        return self.definitions.under(entry.policy, fresh, term)

    @property
    def choosing(self) -> Choosing:
        """Policies compared for the tables as they are now."""
        return Choosing(self.engine.state, self.engine.store, self.definitions.arithmetic)

    @property
    def columns(self) -> dict[str, list[str]]:
        """The columns of every table and view, by its name."""
        return {entry.name: list(entry.schema.names) for entry in self.engine.state.shown}

    def check_new(self, name: str) -> None:
        """Raise unless the name is free."""
        text("the name of a table or view", name)
        if self.engine.state.knows(name):
            raise DefinitionError(
                f"'{name}' exists already", hint="drop it first, or choose another name"
            )
        if "/" in name or not name.isprintable() or not name.strip():
            raise DefinitionError(f"'{name}' is not a name for a table or view")

    def _create_fed(self, name: str, definition: Definition, wanted: Wanted) -> ViewEntry:
        """Create a view of which nothing is kept but the result."""
        entry, term = self._read(name, definition)
        if entry.sql is None or wanted.factorised:
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
            entry = replace(entry, said=wanted.said(definition))
            self.engine.create_views([(entry, view.term)], feeds=[(feed, rows)])
        except BaseException:
            self.feeding.remove(name)
            raise
        return entry

    def _define(
        self, name: str, definition: Definition, policy: str | None
    ) -> tuple[ViewEntry, Term]:
        known = [each.value for each in Policy]
        if policy is not None and policy not in known:
            raise UnsupportedError(
                f"the policy '{policy}' of view '{name}' is not available",
                detail=f"available: {', '.join(known)}",
                hint=did_you_mean(str(policy), known),
            )
        entry, term = self._read(name, definition)
        if policy is None:
            return self._under_chosen(entry, term)
        return self.definitions.under(Policy(policy), entry, term)

    def _under_chosen(self, entry: ViewEntry, term: Term) -> tuple[ViewEntry, Term]:
        """The view under the policy that keeps least, where that matters."""
        choosing = self.choosing
        if entry.loop is not None or not choosing.is_worth_it(term):
            return entry, term
        try:
            return self.definitions.under(choosing.policy(term), entry, term)
        except UnsupportedError:
            return entry, term

    def _read(self, name: str, definition: Definition) -> tuple[ViewEntry, Term]:
        if isinstance(definition, Agca):
            definition = sql_of(definition, self.columns)
        if isinstance(definition, str):
            return self.definitions.of_sql(name, definition)
        if isinstance(definition, DataFrame):
            return self.definitions.of_frame(name, definition)
        if isinstance(definition, Fixpoint):
            return self.definitions.of_fixpoint(name, definition)
        raise DefinitionError(
            f"view '{name}' cannot be defined by a {type(definition).__name__}",
            hint="give SQL text, a DataFrame built from db.table(...), rekindle.fixpoint(...) or "
            "rekindle.agca(...)",
        )
