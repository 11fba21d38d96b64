"""Functions that users define, and the views that follow when one gets another definition.

A view that uses a function is read again, under its own settings, with the new definition. Mostly
it is kept as before: the same parts with the same columns. Where it is not, because an inner
collection is made in another way, its parts are derived anew, and so are the views that read them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from rekindle.calculus.schema import Schema
from rekindle.calculus.terms import Term, sources
from rekindle.catalyst.types import struct_of
from rekindle.errors import ConstraintError, DefinitionError, UnsupportedError
from rekindle.frontends.comprehension.definition import ComprehensionDefinition
from rekindle.frontends.comprehension.front_end import FULL, Comprehension, Comprehensions
from rekindle.frontends.comprehension.functions import checked, read_function, used
from rekindle.frontends.spark_sql.depth import not_too_deep
from rekindle.runtime.arguments import text
from rekindle.runtime.engine import Engine
from rekindle.runtime.epochs.state import Entry, State, ViewEntry
from rekindle.runtime.nested.shredded import know_nested
from rekindle.runtime.trust import remember_text
from rekindle.runtime.views.definitions import Definitions

Entered = tuple[ViewEntry, Term]


@dataclass(slots=True)
class _Plan:
    """What a redefinition changes in the catalog."""

    definitions: list[Entered] = field(default_factory=list)
    standing: list[ViewEntry] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    differences: dict[str, Term] = field(default_factory=dict)
    """What views change by, where that is known without what they held."""
    reshaped: list[ViewEntry] = field(default_factory=list)
    """Views that are kept in parts with other columns than before."""
    moved: set[str] = field(default_factory=set)
    """What has another node by now."""
    names: list[str] = field(default_factory=list)
    """What is known to mean something else while the others are read."""


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
        if catalog.has_function(name):
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
        self.engine.redefine(after, plan.definitions, plan.differences, plan.standing, plan.dropped)
        self.definitions.catalog.functions = after
        remember_text(definition)
        return plan.reshaped

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
        """The views that have other definitions when `name` has, and those that follow them."""
        plan, catalog = _Plan(), self.definitions.catalog
        with catalog.having(functions), catalog.leaves.unchanged(plan.names):
            for entry in state.in_order:
                if not isinstance(entry, ViewEntry) or entry.part_of is not None:
                    continue
                uses = name in entry.definition.functions
                read = self.engine.sources_of(entry.name)
                if uses or not plan.moved.isdisjoint(read):
                    self._refuse_left_out(entry)
                    again = uses or not set(plan.names).isdisjoint(read)
                    with not_too_deep(entry.name):
                        owner, parts = self._read(entry) if again else self._as_it_is(entry)
                    self._refuse_other_columns(entry, owner)
                    self._add(plan, state, entry, owner, parts)
                    if uses:
                        plan.differences |= self._differences(plan, entry, state.functions)
        return plan

    def _differences(
        self, plan: _Plan, entry: ViewEntry, before: Mapping[str, str]
    ) -> dict[str, Term]:
        """What a view, or parts of it, change by, where rows differ by conditions alone."""
        definition = entry.definition
        assert isinstance(definition, ComprehensionDefinition)
        read = self.engine.sources_of(entry.name)
        if entry.name in plan.names or not plan.moved.isdisjoint(read):
            return {}
        with self.definitions.on_behalf_of(entry):
            given, catalog = _given(entry, definition), self.definitions.catalog
            found = Comprehensions().differences(entry.name, given, catalog, before)
        following = {part.name for part, _ in plan.definitions}
        return {name: term for name, term in found.items() if name in following}

    def _add(
        self,
        plan: _Plan,
        state: State,
        entry: ViewEntry,
        owner: ViewEntry,
        parts: Sequence[Entered],
    ) -> None:
        """Let a view have a definition that was read again."""
        known = {p.name: p for p in state.parts(entry.name) or [entry]}
        is_same = owner.level == entry.level and all(
            part.name in known and _is_alike(known[part.name], part) for part, _ in parts
        )
        made = []
        for part, term in parts:
            old = known.get(part.name)
            part = replace(part, created=entry.created, since=state.epoch + 1)
            if not isinstance(old, ViewEntry) or not _is_alike(old, part):
                plan.definitions.append((part, term))
                made.append(part)
                continue
            since = old.since if is_same else part.since
            schema = _as_wide(part, old)
            part = replace(
                part,
                node=old.node,
                said=old.said,
                since=since,
                schema=schema,
                index=old.index,
            )
            made.append(part)
            reads_on = is_same and plan.moved.isdisjoint(sources(term))
            if reads_on and part.definition.queries == old.definition.queries:
                plan.standing.append(replace(old, definition=part.definition))
                continue
            plan.definitions.append((part, term))
            if not part.own:
                plan.moved.add(part.name)
        if owner.level is None:
            owner = made[0]
        else:
            schema = _as_wide(owner, entry)
            owner = replace(owner, created=entry.created, said=entry.said, schema=schema)
            plan.standing.append(owner)
        if not is_same:
            # All of them come again in the order in which they read each other.
            plan.dropped += known
        if not is_same or any(known[part.name].schema != part.schema for part in made):
            self._reshape(plan, owner, [*known], made)

    def _reshape(
        self, plan: _Plan, owner: ViewEntry, known: Sequence[str], made: Sequence[ViewEntry]
    ) -> None:
        """Let a view be read with other columns by those that come after it."""
        plan.reshaped.append(owner)
        names = [owner.name, *known, *(part.name for part in made)]
        plan.names += names
        plan.moved.update(names)
        catalog = self.definitions.catalog
        if owner.level is None:
            catalog.leaves.add(owner.name, struct_of(owner.schema))
            catalog.leaves.levels.pop(owner.name, None)
        else:
            know_nested(catalog.leaves, owner, made)

    def _refuse_left_out(self, entry: ViewEntry) -> None:
        """Raise if a view, or one that reads it, is not followed: it could not follow this."""
        engine = self.engine
        parts = {part.name for part in engine.state.parts(entry.name)} or {entry.name}
        for left_out in (engine.untrusted, engine.stale):
            for name, reason in left_out.reasons.items():
                if not parts.isdisjoint(self._read_by(name)):
                    raise ConstraintError(
                        f"view '{name}' is not followed, and reads or uses the function",
                        detail=reason,
                        hint="db.untrusted and db.stale say which views are not, and why",
                    )

    def _read_by(self, name: str) -> set[str]:
        """A view, and all that it reads."""
        engine, found, waiting = self.engine, set[str](), [name]
        while waiting:
            each = waiting.pop()
            if each not in found:
                found.add(each)
                for reads in (engine.untrusted.reads, engine.stale.reads, engine.terms.reads):
                    waiting += reads.get(each, ())
        return found

    @staticmethod
    def _refuse_other_columns(entry: ViewEntry, found: ViewEntry) -> None:
        if not _is_alike(entry, found):
            raise DefinitionError(
                f"the columns of view '{entry.name}' would be others",
                detail=f"it has {entry.schema}, and would have {found.schema}",
                hint="a function gives values of the same type as before; or drop the view first",
            )

    def _read(self, entry: ViewEntry) -> tuple[ViewEntry, Sequence[Entered]]:
        """A view as its definition is read now, and what keeps its rows."""
        definitions, definition = self.definitions, entry.definition
        if not definition.is_text or entry.factorisation is not None:
            raise UnsupportedError(
                f"view '{entry.name}' cannot follow: what it reads would be kept otherwise",
                detail=f"it was defined by {definition.words}",
                hint=f"DROP VIEW {entry.name} and create it again",
            )
        if not isinstance(definition, ComprehensionDefinition):
            again, term = definitions.read_again(entry)
            fresh = replace(entry, term=again.term, scalars=again.scalars, schema=again.schema)
            part = self._under(entry, (fresh, term))
            return part[0], [part]
        with definitions.on_behalf_of(entry):
            given = _given(entry, definition)
            (found,) = Comprehensions().define(entry.name, given, definitions.catalog)
            if found.level is None:
                part = self._under(entry, definitions.entered(found))
                return part[0], [part]
            owner, parts = definitions.nested(found)
            return owner, [self._under(self._old_part(part[0], entry), part) for part in parts]

    def _as_it_is(self, entry: ViewEntry) -> tuple[ViewEntry, Sequence[Entered]]:
        """A view whose definition means what it did, and what keeps its rows."""
        parts = [p for p in self.engine.state.parts(entry.name) if isinstance(p, ViewEntry)]
        return entry, [(part, self.engine.terms[part.name]) for part in parts or [entry]]

    def _old_part(self, part: ViewEntry, owner: ViewEntry) -> ViewEntry:
        old = self.engine.state.entries.get(part.name)
        return old if isinstance(old, ViewEntry) else owner

    def _under(self, old: ViewEntry, fresh: Entered) -> Entered:
        """A view under the policy that it had, if that is still for it."""
        try:
            return self.definitions.under(old.policy, *fresh)
        except UnsupportedError:
            return fresh


def _given(entry: ViewEntry, definition: ComprehensionDefinition) -> Comprehension:
    """A comprehension as the user gave it."""
    shredding = entry.said.get("shredding", FULL)
    return Comprehension(definition.written, shredding, definition.bags)


def _is_alike(one: Entry, other: Entry) -> bool:
    """Have two the same columns, but for whether there may be NULLs?"""
    return one.schema.names == other.schema.names and one.schema.types == other.schema.types


def _as_wide(one: ViewEntry, other: ViewEntry) -> Schema:
    """The columns of two that are alike, with NULLs where one of them may have some."""
    pairs = zip(one.schema, other.schema, strict=True)
    return Schema(tuple(replace(f, nullable=f.nullable or g.nullable) for f, g in pairs))
