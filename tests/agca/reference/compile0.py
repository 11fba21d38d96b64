"""Compile0: the plain form of the compiler, in which every change of a map is a map.

    on ±R(a) { foreach b do q[b]<initial> += qR[a, b] }    where qR[a, b] = Δq[b] for ±R(a)

until a change reads no relation, which then stands in the statement as an if. Nothing is
simplified on the way, so maps have many keys and statements loop over all of them: the programs
need an active domain. `compile` is the algorithm to use; this one shows why it works, and checks
it.

Where the change under -R is the opposite of that under +R, as in any query that has R once, both
use one map, and the deletion subtracts.

Section 7.1 (theorem 7.2).
"""

from __future__ import annotations

from collections import deque

from rekindle.frontends.agca.ast import ZERO, MapAccess, Query, Schema, Term
from tests.agca.reference.compile import apart_from, check_compilable, initial_value
from tests.agca.reference.delta import Event, Sign, degree, term_delta
from tests.agca.reference.monomials import as_term, opposite, polynomial
from tests.agca.reference.programs import Map, Program, Statement, Trigger, by_event
from tests.agca.reference.simplify import simplify


def compile_query_plainly(query: Query, schema: Schema) -> Program:
    """Compile0(q, b, t): one trigger a statement.

    >>> from rekindle.frontends.agca.parse import parse_query
    >>> print(compile_query_plainly(parse_query("q[] = Sum(x, R(x))"), {"R": ["u"]}))
    on +R(u) { q[] += u }
    on -R(u) { q[] -= u }
    """
    check_compilable(query, schema)
    compiler = _Compiler(schema)
    compiler.waiting.append(query)
    while compiler.waiting:
        compiler.maintain(compiler.waiting.popleft())
    return Program(schema, tuple(compiler.maps), by_event(compiler.triggers, schema))


class _Compiler:
    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self.waiting: deque[Query] = deque()
        self.maps: list[Map] = []
        self.triggers: list[Trigger] = []

    def maintain(self, kept: Query) -> None:
        """Adds a map and its triggers; the maps of its changes wait."""
        self.maps.append(Map(kept, initial_value(kept)))
        for relation, columns in self._schema.items():
            arguments = tuple(columns)
            query = apart_from(kept, arguments)
            bound = (*arguments, *query.group)
            insertion, deletion = (
                polynomial(
                    term_delta(query.term, Event(sign, relation, arguments), query.group), bound
                )
                for sign in Sign
            )
            name = kept.name + relation
            if deletion == opposite(insertion):
                term = self._change(Query(name, bound, as_term(insertion)))
                changes = [term, term]
                signs = list(Sign)
            else:
                changes = [
                    self._change(Query(f"{name}_insert", bound, as_term(insertion))),
                    self._change(Query(f"{name}_delete", bound, as_term(deletion))),
                ]
                signs = [Sign.PLUS, Sign.PLUS]
            self.triggers += [
                Trigger(Event(event, relation, arguments), (_statement(query, sign, term),))
                for event, sign, term in zip(Sign, signs, changes, strict=True)
                if term != ZERO
            ]

    def _change(self, change: Query) -> Term:
        """MakeC of a change that reads no relation; an access of a new map for any other."""
        if degree(change.term) == 0:
            return as_term(simplify(change.term, change.group))
        self.waiting.append(change)
        return MapAccess(change.name, change.group)


def _statement(query: Query, sign: Sign, term: Term) -> Statement:
    return Statement(query.name, query.group, query.group, sign, term, initial_value(query))
