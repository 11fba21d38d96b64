"""Components put in: a program whose relations all have names of their own.

An instance has the members of its component and of the component's bases; a name stands for the
relation of the innermost instance that declares it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tests.external.souffle_syntax import (
    TESTS,
    Aggregate,
    Argument,
    Atom,
    Call,
    Clause,
    Comparison,
    Component,
    Declaration,
    Either,
    Items,
    Literal,
    NotParsed,
    Use,
)

_BASIC = ("number", "unsigned", "float", "symbol")
Types = Mapping[str, str]


@dataclass(slots=True)
class Program:
    """Relations with the basic types of their columns, rules over them, and what is asked."""

    relations: dict[str, Declaration] = field(default_factory=dict)
    clauses: list[Clause] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    sizes: list[str] = field(default_factory=list)


def flattened(items: Items) -> Program:
    """The program without its components."""
    flat = _Flattening(Program())
    flat.declare("", [(items, {})], ())
    for resolve in flat.later:
        resolve.run(flat.program)
    return flat.program


@dataclass(frozen=True, slots=True)
class _Scope:
    """An instance: its name with a full stop behind it, and the components that it knows."""

    prefix: str
    components: Mapping[str, Component]


@dataclass(slots=True)
class _Flattening:
    program: Program
    later: list[_Resolution] = field(default_factory=list)

    def declare(
        self, prefix: str, members: Sequence[tuple[Items, Types]], outer: tuple[_Scope, ...]
    ) -> None:
        """Declare what an instance has; its clauses wait until all names are known."""
        components = {k: c for items, _ in members for k, c in items.components.items()}
        scopes = (_Scope(prefix, components), *outer)
        aliases = {k: t for items, _ in members for k, t in items.types.items()}
        for i, (items, types) in enumerate(members):
            known = {**aliases, **types}
            for declared in items.declarations:
                name = prefix + declared.name
                basic = tuple(_basic(t, known) for t in declared.types)
                self.program.relations[name] = replace(declared, name=name, types=basic)
            hidden = {name for later, _ in members[i + 1 :] for name in later.overridden}
            clauses = [c for c in items.clauses if not any(h.name in hidden for h in c.heads)]
            self.later.append(_Resolution(clauses, items.directives, scopes))
            for name, use in items.instances:
                used = Use(use.name, tuple(_named(t, known) for t in use.types))
                self.declare(f"{prefix}{name}.", _members(used, scopes, known), scopes)


def _members(use: Use, scopes: tuple[_Scope, ...], known: Types) -> list[tuple[Items, Types]]:
    """The items of a component, after those of its bases."""
    component = next((s.components[use.name] for s in scopes if use.name in s.components), None)
    if component is None:
        raise NotParsed(f"no component {use.name!r}")
    types = {**known, **dict(zip(component.parameters, use.types, strict=True))}
    found: list[tuple[Items, Types]] = []
    for base in component.bases:
        given = Use(base.name, tuple(_named(t, types) for t in base.types))
        found += _members(given, scopes, known)
    return [*found, (component.items, types)]


def _named(name: str, known: Types) -> str:
    return _basic(name, known) if name in known else name


def _basic(name: str, known: Types) -> str:
    """The basic type behind a name."""
    seen: set[str] = set()
    while name not in _BASIC:
        if name in seen or name not in known:
            raise NotParsed(f"no type {name!r}")
        seen.add(name)
        name = known[name]
    return name


@dataclass(frozen=True, slots=True)
class _Resolution:
    """Clauses and directives of a scope, to be given the full names of their relations."""

    clauses: Sequence[Clause]
    directives: Sequence[tuple[str, str]]
    scopes: tuple[_Scope, ...]

    def run(self, program: Program) -> None:
        program.clauses += [
            Clause(
                tuple(self._atom(head, program) for head in clause.heads),
                tuple(self._literal(literal, program) for literal in clause.body),
            )
            for clause in self.clauses
        ]
        places = {"input": program.inputs, "output": program.outputs, "printsize": program.sizes}
        for word, name in self.directives:
            places[word].append(self._name(name, program))

    def _name(self, name: str, program: Program) -> str:
        if name in TESTS:
            return name
        full = (scope.prefix + name for scope in self.scopes)
        found = next((candidate for candidate in full if candidate in program.relations), None)
        if found is None:
            raise NotParsed(f"no relation {name!r}")
        return found

    def _atom(self, atom: Atom, program: Program) -> Atom:
        arguments = tuple(self._argument(a, program) for a in atom.arguments)
        return Atom(self._name(atom.name, program), arguments, atom.negated)

    def _literal(self, literal: Literal, program: Program) -> Literal:
        match literal:
            case Atom():
                return self._atom(literal, program)
            case Comparison(operator, left, right):
                return Comparison(
                    operator, self._argument(left, program), self._argument(right, program)
                )
            case Either(options):
                return Either(
                    tuple(tuple(self._literal(x, program) for x in option) for option in options)
                )

    def _argument(self, argument: Argument, program: Program) -> Argument:
        match argument:
            case Call(name, arguments):
                return Call(name, tuple(self._argument(a, program) for a in arguments))
            case Aggregate(function, value, body):
                inner = None if value is None else self._argument(value, program)
                return Aggregate(function, inner, tuple(self._literal(x, program) for x in body))
        return argument
