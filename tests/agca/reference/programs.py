"""NC0C: trigger programs that keep maps up to date without looking at the database.

    on +C(cid, nation) {
      q[cid] += q1[nation];
      foreach cid2 do q[cid2] += q2[cid2, nation];
      q[cid] += 1
    }

A map takes tuples to numbers. A statement adds a term to entries of one map, for all values of its
loop variables at which the entries read are defined; an entry written for the first time starts
from its initialiser, written `m[x]<initial>` where it is not 0. Every loop variable is a key of
the entry written, so an entry is written once by a statement, with a fixed number of operations:
that is the whole point.

The right-hand side is a term of AGCA whose aggregates are over comparisons of known variables.
Such an aggregate is a functional if, and is printed as one.

Section 6 (syntax and semantics, proposition 6.2).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import assert_never

from rekindle.frontends.agca.ast import (
    ZERO,
    Aggregate,
    Call,
    Comparison,
    Constant,
    MapAccess,
    Negation,
    Plus,
    Product,
    Query,
    Schema,
    Term,
    Variable,
)
from rekindle.frontends.agca.text import written
from tests.agca.reference.delta import Event, Sign, degree
from tests.agca.reference.extract import accesses
from tests.agca.reference.monomials import body_parts


@dataclass(frozen=True, slots=True)
class Statement:
    """foreach loops do map[keys]<initial> ±= term."""

    target: str
    keys: tuple[str, ...]
    loops: tuple[str, ...]
    sign: Sign
    term: Term
    initial: Term = ZERO

    @property
    def unbounded(self) -> tuple[str, ...]:
        """Loop variables that no map access gives values: they run over the active domain."""
        given = {key for access in accesses(self.term) for key in access.keys}
        return tuple(name for name in self.loops if name not in given)

    @property
    def cost(self) -> int:
        """Reads, comparisons and ring operations for one entry: a number known without data."""
        return _operations(self.term) + 1


@dataclass(frozen=True, slots=True)
class Trigger:
    """on ±R(x, ...) { statements }."""

    event: Event
    statements: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Map:
    """A map, the query that it holds, and the value of its entries on the empty database."""

    query: Query
    initial: Term

    @property
    def name(self) -> str:
        return self.query.name


@dataclass(frozen=True, slots=True)
class Program:
    """Maps and the triggers that maintain them, over relations with the given columns.

    A trigger's arguments are named after the columns of its relation.
    """

    schema: Schema
    maps: tuple[Map, ...]
    triggers: tuple[Trigger, ...]

    @property
    def query(self) -> Query:
        """What the program is for: the first map's query."""
        return self.maps[0].query

    @property
    def statements(self) -> Iterator[Statement]:
        return (statement for trigger in self.triggers for statement in trigger.statements)

    @property
    def needs_domain(self) -> bool:
        """Some statement cannot find its entries from the maps: run it with an active domain."""
        started = {kept.name for kept in self.maps if kept.initial != ZERO}
        return any(
            statement.unbounded or any(read.name in started for read in accesses(statement.term))
            for statement in self.statements
        )

    def merged(self) -> Program:
        """One trigger for each event, in which no map is read after it is written.

        A statement reads maps of a lower degree than the one that it writes, so descending
        degrees are such an order.
        """
        degrees = {kept.name: degree(kept.query.term) for kept in self.maps}
        events = dict.fromkeys(trigger.event for trigger in self.triggers)
        return Program(
            self.schema,
            self.maps,
            tuple(Trigger(event, self._statements_of(event, degrees)) for event in events),
        )

    def _statements_of(self, event: Event, degrees: dict[str, int]) -> tuple[Statement, ...]:
        found = [
            statement
            for trigger in self.triggers
            if trigger.event == event
            for statement in trigger.statements
        ]
        return tuple(sorted(found, key=lambda statement: -degrees[statement.target]))

    def __str__(self) -> str:
        return "\n".join(map(written_trigger, self.triggers))


def by_event(triggers: Iterable[Trigger], schema: Schema) -> tuple[Trigger, ...]:
    """The triggers, those of one update next to each other, in the order of the schema."""
    places = {(name, sign): place for place, (name, sign) in enumerate(product(schema, Sign))}
    return tuple(
        sorted(triggers, key=lambda trigger: places[trigger.event.relation, trigger.event.sign])
    )


def written_trigger(trigger: Trigger) -> str:
    """A trigger; one that has a single statement stays on one line."""
    statements = [written_statement(statement) for statement in trigger.statements]
    if len(statements) == 1:
        return f"on {trigger.event} {{ {statements[0]} }}"
    body = ";\n".join(f"  {statement}" for statement in statements)
    return f"on {trigger.event} {{\n{body}\n}}"


def written_statement(statement: Statement) -> str:
    """A statement, with its loop and its initialiser where it has them."""
    loop = f"foreach {', '.join(statement.loops)} do " if statement.loops else ""
    initial = f"<{_right_side(statement.initial)}>" if statement.initial != ZERO else ""
    entry = f"{statement.target}[{', '.join(statement.keys)}]{initial}"
    return f"{loop}{entry} {statement.sign.value}= {_right_side(statement.term)}"


def _right_side(term: Term) -> str:
    match term:
        case Aggregate(value, body):
            conditions = " and ".join(
                f"({_compact(part)})" for part in body_parts(body) if isinstance(part, Comparison)
            )
            return f"if {conditions} then {_right_side(value)} else 0"
        case Plus(left, Negation(right)):
            return f"{_operand(left, (Plus,))} - {_operand(right, ())}"
        case Plus(left, right):
            return f"{_operand(left, (Plus,))} + {_operand(right, ())}"
        case Product(left, right):
            return f"{_operand(left, (Product,))} * {_operand(right, ())}"
        case Negation(operand):
            return f"-{_operand(operand, ())}"
        case Variable() | Constant() | Call() | MapAccess():
            return written(term)
        case _:
            assert_never(term)


def _operand(term: Term, bare: tuple[type[object], ...]) -> str:
    simple = isinstance(term, (Variable, Constant, Call, MapAccess, *bare))
    return _right_side(term) if simple else f"({_right_side(term)})"


def _compact(comparison: Comparison) -> str:
    return f"{written(comparison.left)}{comparison.operator.value}{written(comparison.right)}"


def _operations(term: Term) -> int:
    match term:
        case Aggregate(value, body):
            conditions = [part for part in body_parts(body) if isinstance(part, Comparison)]
            sides = sum(_operations(part.left) + _operations(part.right) for part in conditions)
            return len(conditions) + sides + _operations(value)
        case Product(left, right) | Plus(left, right):
            return 1 + _operations(left) + _operations(right)
        case Negation(operand):
            return 1 + _operations(operand)
        case Call(_, arguments):
            return 1 + sum(map(_operations, arguments))
        case MapAccess():
            return 1
        case Variable() | Constant():
            return 0
        case _:
            assert_never(term)
