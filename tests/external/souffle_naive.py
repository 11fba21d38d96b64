"""A small evaluator of Soufflé's programs: loops over sets in memory, from scratch every time.

It is there to check results and shares nothing with Rekindle but the reader of programs. A rule is
a chain of steps, each of which extends the values of variables found so far; recursive rules are
applied until nothing is new, each time to what was new the time before.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tests.external.souffle_components import Program
from tests.external.souffle_functors import COMPARE, Value, apply, cast, matches, numbers
from tests.external.souffle_syntax import (
    TESTS,
    Aggregate,
    Anything,
    Argument,
    Atom,
    Call,
    Comparison,
    Constant,
    Either,
    Literal,
    NotApplicable,
    Variable,
)
from tests.external.souffle_types import inner_variables, kind_of, kinds_of, variables, widest

Row = tuple[Value, ...]
Values = dict[str, Value]
Expression = Callable[[Values], Value]
Step = Callable[[Values], Iterator[Values]]
_WITNESS = "a witness: a variable that has a value only inside an aggregate"


class TooLarge(Exception):
    """A result grows beyond what is worth computing here, or has no end."""


@dataclass(slots=True)
class Rows:
    """A relation, with an index for each set of columns that was asked for."""

    known: set[Row] = field(default_factory=set)
    indexes: dict[tuple[int, ...], dict[Row, list[Row]]] = field(default_factory=dict)

    def add(self, row: Row) -> bool:
        if row in self.known:
            return False
        self.known.add(row)
        for columns, index in self.indexes.items():
            index.setdefault(tuple(row[i] for i in columns), []).append(row)
        return True

    def find(self, columns: tuple[int, ...], key: Row) -> Iterable[Row]:
        if not columns:
            return list(self.known)
        if columns not in self.indexes:
            index: dict[Row, list[Row]] = {}
            for row in self.known:
                index.setdefault(tuple(row[i] for i in columns), []).append(row)
            self.indexes[columns] = index
        return self.indexes[columns].get(key, ())


def evaluate(
    program: Program, facts: Mapping[str, Iterable[Row]], limit: int = 100_000
) -> dict[str, set[Row]]:
    """Every relation of the program with these facts besides those of its clauses."""
    return _Evaluation(program, limit).run(facts)


@dataclass(frozen=True, slots=True)
class _Rule:
    """A head and a conjunction."""

    head: Atom
    body: tuple[Literal, ...]


@dataclass(slots=True)
class _Evaluation:
    program: Program
    limit: int
    rows: dict[str, Rows] = field(default_factory=dict)
    fresh: Iterator[int] = field(default_factory=itertools.count)

    def run(self, facts: Mapping[str, Iterable[Row]]) -> dict[str, set[Row]]:
        self.rows = {name: Rows() for name in self.program.relations}
        for name, given in facts.items():
            for row in given:
                self.rows[name].add(row)
        rules = [
            rule
            for clause in self.program.clauses
            for rule in self._rules(clause.heads, clause.body)
        ]
        for name, declared in self.program.relations.items():
            if "eqrel" in declared.qualifiers:
                rules += equivalence(name)
        for names in _layers(rules):
            self._saturate([rule for rule in rules if rule.head.name in names], names)
        return {name: rows.known for name, rows in self.rows.items()}

    def _rules(self, heads: Sequence[Atom], body: Sequence[Literal]) -> Iterator[_Rule]:
        for option in _options(body):
            yield from (_Rule(head, self._plain(option)) for head in heads)

    def _plain(self, body: Sequence[Literal]) -> tuple[Literal, ...]:
        """The body with atoms of variables and constants; what else they had is compared."""
        found: list[Literal] = []
        for literal in body:
            if isinstance(literal, Atom) and not literal.negated and literal.name not in TESTS:
                arguments = []
                for argument in literal.arguments:
                    if isinstance(argument, Call | Aggregate):
                        own = Variable(f" {next(self.fresh)}")
                        found.append(Comparison("=", own, argument))
                        argument = own
                    arguments.append(argument)
                literal = Atom(literal.name, tuple(arguments))
            found.append(literal)
        return tuple(found)

    def _saturate(self, rules: Sequence[_Rule], names: set[str]) -> None:
        new = self._add([row for rule in rules for row in self._derive(rule, None, {})])
        while new:
            found = []
            for rule in rules:
                for i, literal in enumerate(rule.body):
                    if isinstance(literal, Atom) and literal.name in new and literal.name in names:
                        found += list(self._derive(rule, i, new))
            new = self._add(found)

    def _add(self, found: Sequence[tuple[str, Row]]) -> dict[str, Rows]:
        new: dict[str, Rows] = {}
        for name, row in found:
            if self.rows[name].add(row):
                new.setdefault(name, Rows()).add(row)
        if any(len(rows.known) > self.limit for rows in self.rows.values()):
            raise TooLarge(f"a relation has more than {self.limit} rows")
        return new

    def _derive(
        self, rule: _Rule, changed: int | None, new: Mapping[str, Rows]
    ) -> Iterator[tuple[str, Row]]:
        """The rows of a head, with one atom of the body read from what is new."""
        relations = self.program.relations
        body = _Body(self, dict(kinds_of(rule.body, relations)))
        steps = body.steps(rule.body, set(), changed, new, once=True)
        types = relations[rule.head.name].types
        head = [body.expression(a) for a in rule.head.arguments]
        unbound = variables(rule.head) - body.bound
        if unbound:
            raise NotApplicable(_WITNESS)
        for count, values in enumerate(_all(steps, {})):
            if count > 100 * self.limit:
                raise TooLarge("a rule has too many solutions")
            yield (
                rule.head.name,
                tuple(cast(e(values), k) for e, k in zip(head, types, strict=True)),
            )


@dataclass(slots=True)
class _Body:
    """A conjunction, being put in an order in which every step knows what it needs."""

    evaluation: _Evaluation
    kinds: dict[str, str]
    bound: set[str] = field(default_factory=set)
    read: set[str] = field(default_factory=set)
    once: bool = False

    def steps(
        self,
        body: Sequence[Literal],
        bound: set[str],
        changed: int | None = None,
        new: Mapping[str, Rows] | None = None,
        once: bool = False,
    ) -> list[Step]:
        """The steps in order; `once` where it does not matter in how many ways a body holds."""
        self.bound = set(bound)
        self.once = once
        self.read = {
            name
            for atom in body
            if isinstance(atom, Atom) and not self._filters(atom)
            for name in variables(atom)
        }
        waiting = list(body)
        outside = {name for literal in body for name in variables(literal)}
        found = []
        if changed is not None and new is not None:
            atom = waiting.pop(changed)
            assert isinstance(atom, Atom)
            found.append(self._read(atom, new[atom.name]))
        while waiting:
            literal = self._ready(waiting, outside)
            waiting.remove(literal)
            found.append(self._step(literal))
        return found

    def _ready(self, waiting: Sequence[Literal], outside: set[str]) -> Literal:
        """The literal to take next: those that only filter first, then those that bind most."""
        for literal in waiting:
            if self._filters(literal) and not self._lacking(literal, outside):
                return literal
        for literal in waiting:
            if self._assigned(literal, outside) is not None:
                return literal
        atoms = [x for x in waiting if isinstance(x, Atom) and not self._filters(x)]
        if not atoms:
            raise NotApplicable(_WITNESS)
        return max(atoms, key=lambda atom: sum(self._given(a) for a in atom.arguments))

    @staticmethod
    def _filters(literal: Literal) -> bool:
        return not isinstance(literal, Atom) or literal.negated or literal.name in TESTS

    def _given(self, argument: Argument) -> bool:
        return not isinstance(argument, Anything) and variables(argument) <= self.bound

    def _lacking(self, part: Argument | Literal, outside: set[str]) -> set[str]:
        needed = variables(part) | (inner_variables(part) & outside)
        return needed - self.bound

    def _assigned(self, literal: Literal, outside: set[str]) -> tuple[str, Argument] | None:
        """The variable to which a comparison gives a value now, and the value."""
        if isinstance(literal, Comparison) and literal.operator == "=":
            for one, other in ((literal.left, literal.right), (literal.right, literal.left)):
                if isinstance(one, Variable) and one.name not in self.bound:
                    # A result's name may stand for something else inside its own aggregate.
                    own = set() if one.name in self.read else {one.name}
                    if not self._lacking(other, outside - own):
                        return one.name, other
        return None

    def _step(self, literal: Literal) -> Step:
        match literal:
            case Atom(name, arguments, negated) if name in TESTS:
                return self._test(name, [self.expression(a) for a in arguments], negated)
            case Atom(name, arguments, True):
                return self._deny(literal)
            case Atom(name):
                return self._read(literal, self.evaluation.rows[name])
            case Comparison(operator, left, right):
                given = self._assigned(literal, set())
                if given is not None:
                    return self._assign(*given)
                return self._compare(operator, left, right)
        raise AssertionError(literal)

    def _read(self, atom: Atom, rows: Rows) -> Step:
        declared = self.evaluation.program.relations[atom.name]
        columns, keys = [], []
        names: list[tuple[int, str]] = []
        same: list[tuple[int, int]] = []
        for i, argument in enumerate(atom.arguments):
            if isinstance(argument, Variable) and argument.name not in self.bound:
                earlier = next((j for j, name in names if name == argument.name), None)
                if earlier is None:
                    names.append((i, argument.name))
                else:
                    same.append((i, earlier))
            elif not isinstance(argument, Anything):
                columns.append(i)
                keys.append(_cast(self.expression(argument), declared.types[i]))
        self.bound |= {name for _, name in names}
        place = tuple(columns)
        is_test = self.once and not names

        def step(values: Values) -> Iterator[Values]:
            for row in rows.find(place, tuple(key(values) for key in keys)):
                if all(row[i] == row[j] for i, j in same):
                    yield {**values, **{name: row[i] for i, name in names}}
                    if is_test:
                        return

        return step

    def _deny(self, atom: Atom) -> Step:
        rows = self.evaluation.rows[atom.name]
        types = self.evaluation.program.relations[atom.name].types
        given = [
            (i, _cast(self.expression(a), types[i]))
            for i, a in enumerate(atom.arguments)
            if not isinstance(a, Anything)
        ]
        place = tuple(i for i, _ in given)

        def step(values: Values) -> Iterator[Values]:
            if not list(rows.find(place, tuple(key(values) for _, key in given))):
                yield values

        return step

    def _test(self, name: str, arguments: Sequence[Expression], negated: bool) -> Step:
        def step(values: Values) -> Iterator[Values]:
            one, other = (a(values) for a in arguments)
            holds = one in other if name == "contains" else matches(one, other)
            if holds != negated:
                yield values

        return step

    def _assign(self, name: str, value: Argument) -> Step:
        if isinstance(value, Call) and value.name == "range":
            bounds = [self.expression(a) for a in value.arguments]

            def each(values: Values) -> Iterator[Values]:
                for found in numbers(*(bound(values) for bound in bounds)):
                    yield {**values, name: found}

            self.bound.add(name)
            return each
        expression = self.expression(value)
        self.bound.add(name)

        def step(values: Values) -> Iterator[Values]:
            found = expression(values)
            if found is not None:
                yield {**values, name: found}

        return step

    def _compare(self, operator: str, left: Argument, right: Argument) -> Step:
        one, other, holds = self.expression(left), self.expression(right), COMPARE[operator]

        def step(values: Values) -> Iterator[Values]:
            a, b = one(values), other(values)
            if a is not None and b is not None and holds(a, b):
                yield values

        return step

    def expression(self, argument: Argument) -> Expression:
        """What gives an argument's value; None where an aggregate of nothing has none."""
        match argument:
            case Variable(name):
                return lambda values: values[name]
            case Constant(value, _):
                return lambda _: value
            case Call(name, arguments):
                kind = self._kind(argument)
                parts = [self.expression(a) for a in arguments]
                taken = widest([self._kind(a) for a in arguments])
                return lambda values: apply(name, taken, kind, [part(values) for part in parts])
            case Aggregate():
                return self._aggregate(argument)
            case Anything():
                raise NotApplicable(_WITNESS)

    def _kind(self, argument: Argument) -> str:
        return kind_of(argument, self.kinds, self.evaluation.program.relations)

    def _aggregate(self, argument: Aggregate) -> Expression:
        relations = self.evaluation.program.relations
        chains: list[tuple[list[Step], Expression]] = []
        for option in _options(argument.body):
            plain = self.evaluation._plain(option)
            inner = _Body(self.evaluation, kinds_of(plain, relations, self.kinds))
            steps = inner.steps(plain, self.bound)
            value = inner.expression(argument.value or Constant(1, "number"))
            chains.append((steps, value))

        def expression(values: Values) -> Value:
            found = [value(v) for steps, value in chains for v in _all(steps, values)]
            match argument.function:
                case "count":
                    return len(found)
                case "sum":
                    return sum(found)
                case "mean":
                    return sum(found) / len(found) if found else None
                case "min":
                    return min(found, default=None)
            return max(found, default=None)

        return expression


def _all(steps: Sequence[Step], values: Values) -> Iterator[Values]:
    if not steps:
        yield values
        return
    for found in steps[0](values):
        yield from _all(steps[1:], found)


def _options(body: Sequence[Literal]) -> Iterator[tuple[Literal, ...]]:
    """The conjunctions of which a body is the disjunction."""
    for i, literal in enumerate(body):
        if isinstance(literal, Either):
            for option in literal.options:
                yield from _options((*body[:i], *option, *body[i + 1 :]))
            return
    yield tuple(body)


def equivalence(name: str) -> list[_Rule]:
    """What `eqrel` says of a relation."""
    x, y, z = Variable("x"), Variable("y"), Variable("z")
    given = Atom(name, (x, y))
    return [
        _Rule(Atom(name, (x, x)), (given,)),
        _Rule(Atom(name, (y, x)), (given,)),
        _Rule(Atom(name, (x, z)), (given, Atom(name, (y, z)))),
    ]


def _layers(rules: Sequence[_Rule]) -> list[set[str]]:
    """Relations with rules that need each other, each group after those that it needs."""
    reads: dict[str, set[str]] = {}
    for rule in rules:
        found = reads.setdefault(rule.head.name, set())
        found |= {name for literal in rule.body for name in _names(literal)}
    reach = {name: set(found) for name, found in reads.items()}
    changed = True
    while changed:
        changed = False
        for found in reach.values():
            more = {other for name in found for other in reach.get(name, ())} - found
            found |= more
            changed = changed or bool(more)
    done: set[str] = set()
    layers = []
    while len(done) < len(reads):
        ready = next(
            name
            for name in reads
            if name not in done
            and all(n in done or name in reach.get(n, ()) for n in reach[name] if n in reads)
        )
        group = {ready} | {n for n in reach[ready] if ready in reach.get(n, ())}
        layers.append(group)
        done |= group
    return layers


def _names(part: Literal | Argument) -> Iterator[str]:
    match part:
        case Atom(name, arguments):
            yield name
            yield from (n for a in arguments for n in _names(a))
        case Comparison(_, left, right):
            yield from (*_names(left), *_names(right))
        case Call(_, arguments):
            yield from (n for a in arguments for n in _names(a))
        case Aggregate(_, _, body):
            yield from (n for literal in body for n in _names(literal))
        case Either(options):
            yield from (n for option in options for literal in option for n in _names(literal))


def _cast(expression: Expression, kind: str) -> Expression:
    return lambda values: cast(expression(values), kind)
