"""Compile: a query becomes a program that maintains it with a fixed amount of work an entry.

For each map, at first the query's own, and each update ±R: derive the change, `simplify` it, take
out the aggregates that still read the database (`extract`) and keep each in a map. What is left of
a monomial is one statement, and a condition that equates a key with something known becomes part
of the key (`eliminate_loops`). Then the same for the new maps. Changes have a lower degree than
what they are changes of, so this ends.

Equal aggregates, up to the names of variables, share a map. A map that is the only new one of its
relation's updates is named after it, others are numbered.

A comparison of an aggregate is refused: its change is no simpler than itself. A join by order is
accepted, but the program then needs an active domain to run.

Section 7.2 (figure 3, theorem 7.8), section 7.3.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from itertools import count

from rekindle.errors import UnsupportedError, unknown_name
from rekindle.frontends.agca.ast import (
    Aggregate,
    Atom,
    Call,
    Comparison,
    Query,
    Schema,
    Term,
    within,
)
from rekindle.frontends.agca.renaming import fresh, substitute
from rekindle.frontends.agca.text import written
from rekindle.frontends.agca.variables import Names, check_query, occurring
from tests.agca.reference.delta import Event, Sign, degree, term_delta
from tests.agca.reference.extract import extract
from tests.agca.reference.loops import eliminate_loops
from tests.agca.reference.monomials import Monomial, as_term
from tests.agca.reference.programs import Map, Program, Statement, Trigger, by_event
from tests.agca.reference.simplify import simplify


def compile_query(query: Query, schema: Schema) -> Program:
    """Compile(q, b, t): one trigger a statement; `merged()` puts those of an update together.

    >>> from rekindle.frontends.agca.parse import parse_query
    >>> query = parse_query("q[] = Sum(1, R(x) * S(x))")
    >>> print(compile_query(query, {"R": ["u"], "S": ["v"]}).merged())
    on +R(u) {
      q[] += qR[u];
      qS[u] += 1
    }
    on -R(u) {
      q[] -= qR[u];
      qS[u] -= 1
    }
    on +S(v) {
      q[] += qS[v];
      qR[v] += 1
    }
    on -S(v) {
      q[] -= qS[v];
      qR[v] -= 1
    }
    """
    check_compilable(query, schema)
    maps = _Maps()
    triggers: list[Trigger] = []
    maps.add(query)
    while maps.waiting:
        kept = maps.waiting.popleft()
        for relation in schema:
            triggers += _triggers(kept, relation, schema, maps)
    return Program(schema, tuple(maps.known), by_event(triggers, schema))


def _triggers(kept: Query, relation: str, schema: Schema, maps: _Maps) -> list[Trigger]:
    """The statements that maintain one map under insertions and deletions of one relation."""
    arguments = tuple(schema[relation])
    query = apart_from(kept, arguments)
    bound = frozenset(arguments) | frozenset(query.group)
    events = [Event(sign, relation, arguments) for sign in Sign]
    changes = {
        event: simplify(term_delta(query.term, event, query.group), bound) for event in events
    }
    monomials = [monomial for change in changes.values() for monomial in change]
    maps.keep(kept.name, relation, [monomial.term for monomial in monomials], bound)
    return [
        Trigger(event, (_statement(query, monomial, maps, bound),))
        for event, change in changes.items()
        for monomial in change
    ]


def _statement(query: Query, monomial: Monomial, maps: _Maps, bound: Names) -> Statement:
    term = extract(monomial.term, bound, maps.name)
    initial = initial_value(query)
    statement = Statement(query.name, query.group, query.group, monomial.sign, term, initial)
    return eliminate_loops(statement)


def check_compilable(query: Query, schema: Schema) -> None:
    """Raises unless the query is safe, over known relations, and its changes are simpler."""
    check_query(query)
    for part in within(query.term):
        match part:
            case Atom(relation, variables):
                if relation not in schema:
                    raise unknown_name("relation", relation, schema)
                if len(variables) != len(schema[relation]):
                    raise UnsupportedError(
                        f"'{written(part)}' has {len(variables)} columns, not "
                        f"{len(schema[relation])}",
                        detail=f"columns: {', '.join(schema[relation])}",
                    )
            case Comparison() | Call() if degree(part):
                raise UnsupportedError(
                    f"'{written(part)}' depends on an aggregate",
                    detail="its change under an update is no simpler than itself",
                    hint="keep the aggregate as a query of its own",
                )


def apart_from(query: Query, names: Iterable[str]) -> Query:
    """The query with other names for its variables that are among `names`."""
    taken = {*names, *query.group, *occurring(query.term)}
    renamed: dict[str, str] = {}
    for name in dict.fromkeys((*query.group, *occurring(query.term))):
        if name in names:
            renamed[name] = fresh(name, taken)
            taken.add(renamed[name])
    group = tuple(renamed.get(name, name) for name in query.group)
    return Query(query.name, group, substitute(query.term, renamed))


def initial_value(query: Query) -> Term:
    """The term on the empty database: its monomials without atoms."""
    monomials = simplify(query.term, query.group)
    return as_term(tuple(monomial for monomial in monomials if not degree(monomial.term)))


class _Maps:
    """The maps kept so far; equal aggregates, whatever their variables are called, share one."""

    def __init__(self) -> None:
        self.known: list[Map] = []
        self.waiting: deque[Query] = deque()
        self._names: dict[Query, str] = {}

    def add(self, query: Query) -> None:
        self.known.append(Map(query, initial_value(query)))
        self.waiting.append(query)
        self._names[_canonical(query)] = query.name

    def name(self, aggregate: Aggregate, keys: tuple[str, ...]) -> str:
        """The name of the map that holds this aggregate."""
        return self._names[_canonical(Query("", keys, aggregate))]

    def keep(self, parent: str, relation: str, terms: Iterable[Term], bound: Names) -> None:
        """Gives every aggregate that the terms need a map."""
        new: dict[Query, Query] = {}

        def collect(aggregate: Aggregate, keys: tuple[str, ...]) -> str:
            query = Query("", keys, aggregate)
            form = _canonical(query)
            if form not in self._names:
                new.setdefault(form, query)
            return ""

        for term in terms:
            extract(term, bound, collect)
        for query in new.values():
            self.add(replace(query, name=self._fresh_name(parent, relation, len(new))))

    def _fresh_name(self, parent: str, relation: str, wanted: int) -> str:
        taken = {kept.name for kept in self.known}
        if wanted == 1 and parent + relation not in taken:
            return parent + relation
        return next(name for i in count(1) if (name := f"{parent}{i}") not in taken)


def _canonical(query: Query) -> Query:
    """The query with its variables numbered in order: equal for queries that differ in names."""
    names = dict.fromkeys((*query.group, *occurring(query.term)))
    numbered = {name: f"v{number}" for number, name in enumerate(names)}
    group = tuple(numbered[name] for name in query.group)
    return Query("", group, substitute(query.term, numbered))
