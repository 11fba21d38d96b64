"""A machine that runs trigger programs on streams of single-tuple updates, counting its work.

Two ways to range over loop variables:

- From the maps. A loop variable takes the values that make the map accesses of the right-hand side
  defined. Each map is indexed by the keys known at its accesses, so entries are found and not
  searched for. This is how programs of primitive queries run.
- From an active domain, fixed from the start, for programs that say they need one. All entries are
  then defined, one that was never written having the value of its initialiser.

The machine evaluates both sides of an if and never stops early, so that the operations counted
for an entry are those of the statement, whatever the data.

Section 6 (semantics), section 7.3 (initialisers and the active domain).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TypeAlias, assert_never

from rekindle.errors import EvaluationError, RowError, UnsupportedError, unknown_name
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
    Term,
    Value,
    Variable,
)
from tests.agca.reference.arithmetic import Number, call, compare, number
from tests.agca.reference.delta import Sign
from tests.agca.reference.extract import accesses
from tests.agca.reference.monomials import body_parts
from tests.agca.reference.programs import Map, Program, Statement, written_statement
from tests.agca.reference.semantics import Row

Valuation: TypeAlias = Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Write:
    """A statement changed one entry: by how much, under which values, with how many operations."""

    statement: Statement
    key: Row
    amount: Number
    valuation: Valuation
    operations: int


@dataclass(slots=True)
class _Map:
    """Entries, and for each set of key positions in use the keys by their values there."""

    definition: Map
    entries: dict[Row, Number] = field(default_factory=dict)
    indexes: dict[tuple[int, ...], dict[Row, dict[Row, None]]] = field(default_factory=dict)

    def matching(self, positions: tuple[int, ...], values: Row) -> list[Row]:
        """The keys with these values at these positions."""
        if positions not in self.indexes:
            self.indexes[positions] = {}
            for key in self.entries:
                self._enter(positions, key)
        return list(self.indexes[positions].get(values, ()))

    def put(self, key: Row, value: Number) -> None:
        if key not in self.entries:
            for positions in self.indexes:
                self._enter(positions, key)
        self.entries[key] = value

    def drop(self, key: Row) -> None:
        del self.entries[key]
        for positions, index in self.indexes.items():
            found = index[_at(key, positions)]
            del found[key]
            if not found:
                del index[_at(key, positions)]

    def _enter(self, positions: tuple[int, ...], key: Row) -> None:
        self.indexes[positions].setdefault(_at(key, positions), {})[key] = None


def _at(key: Row, positions: Sequence[int]) -> Row:
    return tuple(key[position] for position in positions)


class Machine:
    """The maps of a program, brought up to date by each update.

    >>> from tests.agca.reference.compile import compile_query
    >>> from rekindle.frontends.agca.parse import parse_query
    >>> query = parse_query("q[] = Sum(1, R(x) * S(x))")
    >>> machine = Machine(compile_query(query, {"R": ["u"], "S": ["v"]}))
    >>> for update in [(Sign.PLUS, "R", (1,)), (Sign.PLUS, "S", (1,)), (Sign.PLUS, "R", (1,))]:
    ...     _ = machine.apply(*update)
    >>> machine.value("q", ())
    2
    """

    def __init__(self, program: Program, domain: Iterable[Value] | None = None) -> None:
        if domain is None and program.needs_domain:
            raise _without_domain(program)
        self._program = program.merged()
        self._domain = None if domain is None else tuple(domain)
        self._maps = {kept.name: _Map(kept) for kept in program.maps}
        self._triggers = {
            (trigger.event.sign, trigger.event.relation): trigger
            for trigger in self._program.triggers
        }

    def value(self, name: str, key: Row) -> Number:
        """m[key]: what was written, or what the initialiser gives."""
        kept = self._kept(name)
        if key in kept.entries:
            return kept.entries[key]
        valuation = dict(zip(kept.definition.query.group, key, strict=True))
        return number(_Evaluation(self, valuation).term(kept.definition.initial))

    def contents(self, name: str) -> dict[Row, Number]:
        """The written entries of a map that are not 0."""
        return {key: value for key, value in self._kept(name).entries.items() if value}

    def _kept(self, name: str) -> _Map:
        if name not in self._maps:
            raise unknown_name("map", name, self._maps)
        return self._maps[name]

    def apply(self, sign: Sign, relation: str, row: Row) -> list[Write]:
        """Runs the trigger of an update; the writes say what was done. On an error, nothing is."""
        schema = self._program.schema
        if relation not in schema:
            raise unknown_name("relation", relation, schema)
        if len(row) != len(schema[relation]):
            expected = ", ".join(schema[relation])
            raise RowError(f"{row} does not fit {relation}({expected})", hint="one value a column")
        trigger = self._triggers.get((sign, relation))
        if trigger is None:
            return []
        arguments = dict(zip(trigger.event.arguments, row, strict=True))
        done: list[Write] = []
        try:
            for statement in trigger.statements:
                done += self._execute(statement, arguments)
        except EvaluationError:
            for write in reversed(done):
                self._increase(write.statement.target, write.key, -write.amount)
            raise
        return done

    def _execute(self, statement: Statement, arguments: Valuation) -> list[Write]:
        """All amounts are computed before any is added: a statement reads what was there before."""
        counted = [
            (valuation, _Evaluation(self, valuation))
            for valuation in self._valuations(statement, arguments)
        ]
        amounts = [number(evaluation.term(statement.term)) for _, evaluation in counted]
        return [
            self._add(statement, valuation, amount, evaluation.operations + 1)
            for (valuation, evaluation), amount in zip(counted, amounts, strict=True)
        ]

    def _add(
        self, statement: Statement, valuation: Valuation, amount: Number, operations: int
    ) -> Write:
        key = tuple(valuation[name] for name in statement.keys)
        signed = amount * statement.sign.weight
        self._increase(statement.target, key, signed)
        return Write(statement, key, signed, valuation, operations)

    def _increase(self, name: str, key: Row, amount: Number) -> None:
        kept = self._maps[name]
        after = self.value(name, key) + amount
        if after or kept.definition.initial != ZERO:
            kept.put(key, after)
        elif key in kept.entries:
            kept.drop(key)

    def _valuations(self, statement: Statement, arguments: Valuation) -> Iterator[Valuation]:
        if self._domain is not None:
            for values in product(self._domain, repeat=len(statement.loops)):
                yield {**arguments, **dict(zip(statement.loops, values, strict=True))}
            return
        yield from self._defined(list(accesses(statement.term)), arguments)

    def _defined(self, reads: list[MapAccess], known: Valuation) -> Iterator[Valuation]:
        """The extensions of `known` at which every entry read is defined."""
        if not reads:
            yield known
            return
        first, *others = reads
        positions = tuple(place for place, name in enumerate(first.keys) if name in known)
        values = tuple(known[first.keys[place]] for place in positions)
        for key in self._maps[first.name].matching(positions, values):
            yield from self._defined(others, {**known, **dict(zip(first.keys, key, strict=True))})


class _Evaluation:
    """The value of right-hand sides under one valuation, with the operations done."""

    def __init__(self, machine: Machine, valuation: Valuation) -> None:
        self._machine = machine
        self._valuation = valuation
        self.operations = 0

    def term(self, term: Term) -> Value:
        match term:
            case Variable(name):
                return self._valuation[name]
            case Constant(value):
                return value
            case Plus(left, right):
                return self._counted(self._number(left) + self._number(right))
            case Product(left, right):
                return self._counted(self._number(left) * self._number(right))
            case Negation(operand):
                return self._counted(-self._number(operand))
            case Call(function, arguments):
                return self._counted(call(function, [self.term(each) for each in arguments]))
            case MapAccess(name, keys):
                key = tuple(self._valuation[each] for each in keys)
                return self._counted(self._machine.value(name, key))
            case Aggregate(value, body):
                conditions = [part for part in body_parts(body) if isinstance(part, Comparison)]
                held = [self._holds(condition) for condition in conditions]
                amount = self._number(value)
                return amount if all(held) else 0
            case _:
                assert_never(term)

    def _number(self, term: Term) -> Number:
        return number(self.term(term))

    def _holds(self, comparison: Comparison) -> bool:
        self.operations += 1
        left, right = self.term(comparison.left), self.term(comparison.right)
        return compare(left, comparison.operator, right)

    def _counted(self, result: Number) -> Number:
        self.operations += 1
        return result


def _without_domain(program: Program) -> UnsupportedError:
    unbounded = [statement for statement in program.statements if statement.unbounded]
    shown = "; ".join(map(written_statement, unbounded[:2]))
    return UnsupportedError(
        f"'{program.query.name}' can only be maintained over a known set of values",
        detail=f"no map gives values for the loop of: {shown}" if shown else "",
        hint="give the machine an active domain, or join on equality only",
    )
