"""Functions that users define, and the views that follow when one gets another definition.

A view that uses a function is read again, under its own settings, with the new definition. Mostly
it is kept as before: the same parts with the same columns. Where it is not, because an inner
collection is made in another way, its parts are derived anew, and so are the views that read them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from rekindle.calculus.terms import Term
from rekindle.errors import ConstraintError, DefinitionError, UnsupportedError
from rekindle.frontends.comprehension.definition import ComprehensionDefinition
from rekindle.frontends.comprehension.elaborate import AGGREGATES
from rekindle.frontends.comprehension.front_end import Comprehension, Comprehensions
from rekindle.frontends.comprehension.functions import checked, read_function, used
from rekindle.frontends.spark_sql.depth import not_too_deep
from rekindle.runtime.arguments import text
from rekindle.runtime.definitions import Definitions
from rekindle.runtime.engine import Engine
from rekindle.runtime.state import State, ViewEntry
from rekindle.runtime.trust import remember_text

Entered = tuple[ViewEntry, Term]


@dataclass(slots=True)
class _Plan:
    """What a redefinition changes in the catalog."""

    definitions: list[Entered] = field(default_factory=list)
    standing: list[ViewEntry] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Redefining:
    """Defines the functions of one database."""

    engine: Engine
    definitions: Definitions

    def define(self, name: str, definition: str) -> None:
        """Make a function known."""
        state, catalog = self.engine.state, self.definitions.catalog
        text("the name of a function", name)
        text("the definition of a function", definition)
        if name.lower() in (each.lower() for each in state.functions):
            raise DefinitionError(
                f"function '{name}' exists already",
                hint=f"db.redefine({name!r}, ...) gives it another definition",
            )
        after = checked(name, definition, state.functions)
        if name.lower() in AGGREGATES or catalog.has_function(name):
            raise DefinitionError(
                f"'{name}' is a function of Spark", hint="choose another name for yours"
            )
        self._commit(after, definition)

    def redefine(self, name: str, definition: str) -> list[ViewEntry]:
        """Give a function another definition; gives the entries of views that are kept otherwise.

        The views that use it, also through other functions and views, follow in the same epoch.
        """
        state = self.engine.state
        text("the definition of a function", definition)
        name = state.function(name)
        after = checked(name, definition, state.functions)
        using = self._using(state, name)
        if not using:
            self._commit(after, definition)
            return []
        self.engine.refresh()
        plan = self._planned(self.engine.state, name, after)
        self.engine.redefine(after, plan.definitions, plan.standing, plan.dropped)
        self.definitions.catalog.functions = after
        remember_text(definition)
        return plan.standing

    def drop(self, name: str) -> None:
        """Forget a function that nothing uses."""
        state = self.engine.state
        name = state.function(name)
        views = [entry.name for entry in self._using(state, name)]
        others = [
            other
            for other, said in state.functions.items()
            if name.lower() in used(read_function(other, said).body, state.functions)
        ]
        if views or others:
            raise ConstraintError(
                f"function '{name}' cannot be dropped: it is used by {', '.join(views + others)}",
                hint="drop those first",
            )
        after = {each: said for each, said in state.functions.items() if each != name}
        self.engine.define_functions(after)
        self.definitions.catalog.functions = after

    def _commit(self, functions: Mapping[str, str], definition: str) -> None:
        self.engine.define_functions(functions)
        self.definitions.catalog.functions = functions
        remember_text(definition)

    @staticmethod
    def _using(state: State, name: str) -> list[ViewEntry]:
        """The views that use a function, also through others, in the order of creation."""
        return [
            entry
            for entry in state.in_order
            if isinstance(entry, ViewEntry)
            and entry.part_of is None
            and name in entry.definition.functions
        ]

    # ---- views -----------------------------------------------------------------------------

    def _planned(self, state: State, name: str, functions: Mapping[str, str]) -> _Plan:
        """The views that have other definitions when `name` has."""
        plan = _Plan()
        with self._having(functions):
            for entry in self._using(state, name):
                self._refuse_left_out(entry)
                with not_too_deep(entry.name):
                    owner, parts = self._read(entry)
                self._refuse_other_columns(entry, owner)
                known = {p.name: p for p in state.parts(entry.name) or [entry]}
                found = {part.name: part.schema for part, _ in parts}
                if found != {p.name: p.schema for p in known.values()} or (
                    owner.level != entry.level
                ):
                    raise UnsupportedError(
                        f"the new definition of '{name}' changes how view '{entry.name}' is kept",
                        hint=f"DROP VIEW {entry.name} and create it again",
                    )
                for part, term in parts:
                    old = known[part.name]
                    assert isinstance(old, ViewEntry)
                    part = replace(part, node=old.node, created=old.created, said=old.said)
                    if part.definition.queries != old.definition.queries:
                        plan.definitions.append((part, term))
                    else:
                        plan.standing.append(replace(old, definition=part.definition))
                if entry.level is not None:
                    plan.standing.append(replace(entry, definition=owner.definition))
        return plan

    @contextmanager
    def _having(self, functions: Mapping[str, str]) -> Iterator[None]:
        with self.definitions.catalog.having(functions):
            yield

    def _refuse_left_out(self, entry: ViewEntry) -> None:
        engine, state = self.engine, self.engine.state
        parts = [part.name for part in state.parts(entry.name)] or [entry.name]
        for name in parts:
            reason = engine.untrusted.reasons.get(name) or engine.stale.reasons.get(name)
            if reason is not None:
                raise ConstraintError(
                    f"view '{entry.name}' is not followed, and uses the function",
                    detail=reason,
                    hint="db.untrusted and db.stale say which views are not, and why",
                )
        engine.untrusted.refuse_changes(parts, state, engine.terms.reads)

    @staticmethod
    def _refuse_other_columns(entry: ViewEntry, found: ViewEntry) -> None:
        if entry.schema != found.schema:
            raise DefinitionError(
                f"the columns of view '{entry.name}' would be others",
                detail=f"it has {entry.schema}, and would have {found.schema}",
                hint="a function gives values of the same type as before; or drop the view first",
            )

    def _read(self, entry: ViewEntry) -> tuple[ViewEntry, Sequence[Entered]]:
        """A comprehension view as it is now, and what keeps its rows."""
        definitions, definition = self.definitions, entry.definition
        assert isinstance(definition, ComprehensionDefinition)
        with definitions.on_behalf_of(entry):
            given = Comprehension(definition.written)
            (found,) = Comprehensions().define(entry.name, given, definitions.catalog)
            if found.level is None:
                part = self._under(entry, definitions.entered(found))
                return part[0], [part]
            owner, parts = definitions.nested(found)
            return owner, [self._under(self._old_part(part[0], entry), part) for part in parts]

    def _old_part(self, part: ViewEntry, owner: ViewEntry) -> ViewEntry:
        old = self.engine.state.entries.get(part.name)
        return old if isinstance(old, ViewEntry) else owner

    def _under(self, old: ViewEntry, fresh: Entered) -> Entered:
        """A view under the policy that it had, if that is still for it."""
        try:
            return self.definitions.under(old.policy, *fresh)
        except UnsupportedError:
            return fresh
