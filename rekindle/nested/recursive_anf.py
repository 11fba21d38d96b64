"""Recursive A-normal form: the equivalent plans of a join, each part of them written once.

    for(⟨x, y⟩ ← R) collect for(⟨z, w⟩ ← S) collect for(⟨v, t⟩ ← T if p) yield ⟨x, t⟩

A-normal form names every intermediate collection. Rules in one direction are always applied: a
condition is tested where all that it reads is there, and of an intermediate row only what is read
later is kept. Rules in both directions are not applied but listed: a join of some collections is an
`Alternation` of the steps that compute it. Its parts are alternations too, one for each set of
collections, so the whole is a graph, and a part that many plans have is expanded once.

    law: every plan has the value of the query, and so has the change of every plan

Which steps are listed is a `Strategy`; steps that pair everything with everything can be left out.

Lupei's thesis, section 5.4.1, whose notation the texts have.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

from rekindle.errors import UnsupportedError
from rekindle.nested.cost import Sizes, cost, steps
from rekindle.nested.scalars import AND, EQUAL
from rekindle.nested.terms import (
    ONE,
    Apply,
    Change,
    Field,
    For,
    KeyTerm,
    KeyVariable,
    Let,
    MakeRecord,
    Predicate,
    Product,
    Relation,
    RingTerm,
    Singleton,
    Term,
    Variable,
    children,
    free_variables,
)
from rekindle.nested.text import text
from rekindle.nested.types import Mapping, Record
from rekindle.nested.variables import fresh_name, rebuilt, substitute


class Strategy(enum.Enum):
    """Which ways to compute a join are listed."""

    AS_WRITTEN = "as written"
    """One: the first collection with the join of the others."""
    RIGHT_DEEP = "right deep"
    """Each collection with the join of the others."""
    LEFT_DEEP = "left deep"
    """The join of the others with each collection."""
    ALL = "all"
    """Each part of the collections with the rest."""


@dataclass(frozen=True, slots=True)
class Input:
    """A collection that a join ranges over; its columns have names that no other has."""

    name: str
    source: RingTerm
    columns: tuple[KeyVariable, ...]


@dataclass(frozen=True, slots=True)
class Join:
    """for x₁ in R₁ .. for xₙ in Rₙ where p₁ AND .. yield e, over columns rather than rows."""

    inputs: tuple[Input, ...]
    conditions: tuple[KeyTerm, ...]
    row: KeyTerm


@dataclass(frozen=True, slots=True)
class Scan:
    """The rows of one collection that its own conditions leave, with the columns that are read."""

    name: str
    input: Input
    conditions: tuple[KeyTerm, ...]
    columns: tuple[KeyVariable, ...]

    @property
    def is_named(self) -> bool:
        """Is it anything but the collection itself?"""
        return bool(self.conditions) or self.columns != self.input.columns


@dataclass(frozen=True, slots=True)
class Step:
    """for outer collect for inner if conditions yield columns."""

    outer: Node
    inner: Node
    conditions: tuple[KeyTerm, ...]


@dataclass(frozen=True, slots=True)
class Alternation:
    """A join of some of the collections: equivalent steps, each of which computes it."""

    name: str
    columns: tuple[KeyVariable, ...]
    steps: tuple[Step, ...]


Node: TypeAlias = Scan | Alternation


@dataclass(frozen=True, slots=True)
class Plan:
    """A tree of joins: one step for each alternation that it needs; a scan has none."""

    node: Node
    step: Step | None = None
    outer: Plan | None = None
    inner: Plan | None = None


# --- the query ------------------------------------------------------------------------------------


def joined(query: RingTerm) -> Join:
    """A query as a join; raises `UnsupportedError` for any other.

    It ranges over collections of records, tests conditions and yields a row. Columns that several
    collections have are told apart by the variable, such as `m.name`.
    """
    rows: list[tuple[KeyVariable, RingTerm]] = []
    found: list[KeyTerm] = []
    body = query
    while True:
        match body:
            case For(variable, Relation() | Change() | Variable() as source, inner):
                rows.append((variable, source))
                body = inner
            case Product(Predicate(key), inner):
                found += _conjuncts(key)
                body = inner
            case Singleton(key, value) if value == ONE and rows:
                break
            case _:
                raise UnsupportedError(
                    f"{type(body).__name__} in the place of a join",
                    hint="write for x in R .. where .. yield ..",
                )
    names = [name for variable, _ in rows for name in _fields(variable)]
    columns = {
        variable: {
            name: KeyVariable(
                name if names.count(name) == 1 else f"{variable.name}.{name}", type_.field(name)
            )
            for name in _fields(variable)
        }
        for variable, _ in rows
        if isinstance(type_ := variable.type, Record)
    }
    tables = [text(source) for _, source in rows]
    inputs = tuple(
        Input(
            table if tables.count(table) == 1 else variable.name,
            source,
            tuple(columns[variable].values()),
        )
        for table, (variable, source) in zip(tables, rows, strict=True)
    )
    conditions = tuple(_by_column(each, columns) for each in found)
    return Join(inputs, conditions, _by_column(key, columns))


def _fields(variable: KeyVariable) -> tuple[str, ...]:
    if not isinstance(variable.type, Record):
        raise UnsupportedError(f"'{variable.name}' is no record but {variable.type}")
    return variable.type.names


def _conjuncts(key: KeyTerm) -> list[KeyTerm]:
    if isinstance(key, Apply) and key.function == AND:
        return [each for side in key.arguments for each in _conjuncts(side)]
    return [key]


def _by_column(key: Term, columns: dict[KeyVariable, dict[str, KeyVariable]]) -> KeyTerm:
    match key:
        case Field(KeyVariable() as variable, name) if variable in columns:
            return columns[variable][name]
        case KeyVariable() if key in columns:
            return MakeRecord(tuple(columns[key].items()))
    below = (_by_column(each, columns) for each in children(key))
    return cast(KeyTerm, rebuilt(key, tuple(below)))


# --- the form -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RecursiveAnf:
    """The plans of a join."""

    join: Join
    root: Node

    def plans(self) -> Iterator[Plan]:
        """Every plan."""
        return _plans(self.root)

    def term(self, plan: Plan) -> RingTerm:
        """A plan as a query, in which each intermediate collection is bound by a name."""
        bound: list[tuple[Variable, RingTerm]] = []
        found = self._bound(plan, bound, self.join.row)
        for variable, value in reversed(bound):
            found = Let(variable, value, found)
        return found

    def cheapest(self, sizes: Sizes) -> Plan:
        """The plan with the least estimated cost, the first one of several."""
        return min(self.plans(), key=lambda plan: steps(cost(self.term(plan), sizes)))

    def _bound(
        self, plan: Plan, bound: list[tuple[Variable, RingTerm]], row: KeyTerm | None
    ) -> RingTerm:
        """What a plan gives, by its columns or as rows of the query; adds what it needs."""
        node = plan.node
        given = row if row is not None else _record(node.columns)
        if isinstance(node, Scan):
            if row is None and not node.is_named:
                return node.input.source
            inputs = [(node.input.source, node.input.columns)]
            value = _nested(inputs, node.conditions, given)
        else:
            assert plan.step is not None and plan.outer is not None and plan.inner is not None
            inner = self._bound(plan.inner, bound, None), plan.step.inner.columns
            outer = self._bound(plan.outer, bound, None), plan.step.outer.columns
            value = _nested([outer, inner], plan.step.conditions, given)
        if row is not None:
            return value
        bound.append((Variable(node.name, value.type), value))
        return bound[-1][0]

    def __str__(self) -> str:
        """The form as the thesis prints it: `:=` and `=` before each way to compute the same."""
        seen: set[str] = set()
        lines = _written(self.root, seen, "Q = ", "  = ", text(self.join.row))
        return "\n".join(lines)


def _record(columns: Sequence[KeyVariable]) -> KeyTerm:
    return MakeRecord(tuple((column.name, column) for column in columns))


def _nested(
    inputs: Sequence[tuple[RingTerm, Sequence[KeyVariable]]],
    conditions: Sequence[KeyTerm],
    row: KeyTerm,
) -> RingTerm:
    """for .. for .. where conditions yield row."""
    found: RingTerm = Singleton(row)
    for condition in reversed(conditions):
        found = Product(Predicate(condition), found)
    taken = {column.name for _, columns in inputs for column in columns}
    for source, columns in reversed(inputs):
        assert isinstance(source.type, Mapping) and isinstance(source.type.key, Record)
        variable = KeyVariable(fresh_name("row", taken), source.type.key)
        taken.add(variable.name)
        fields = zip(columns, source.type.key.names, strict=True)
        paths: dict[Term, Term] = {column: Field(variable, name) for column, name in fields}
        found = For(variable, source, substitute(found, paths))
    return found


def recursive_anf(
    query: RingTerm, strategy: Strategy = Strategy.RIGHT_DEEP, *, products: bool = True
) -> RecursiveAnf:
    """The recursive A-normal form of a join.

    Without `products` a step is left out that pairs everything with everything, or a part of which
    does, where there is another one.
    """
    join = joined(query)
    expansion = _Expansion(join, strategy, products)
    return RecursiveAnf(join, expansion.node(tuple(range(len(join.inputs)))))


class _Expansion:
    """Makes each part of the form once."""

    def __init__(self, join: Join, strategy: Strategy, products: bool) -> None:
        self._join = join
        self._strategy = strategy
        self._products = products
        self._nodes: dict[tuple[int, ...], Node] = {}

    def node(self, members: tuple[int, ...]) -> Node:
        """The join of the collections of some numbers, which ascend."""
        if members not in self._nodes:
            self._nodes[members] = self._made(members)
        return self._nodes[members]

    def _made(self, members: tuple[int, ...]) -> Node:
        names = [self._join.inputs[i].name for i in members]
        name = "Q_" + ("" if all(len(each) == 1 for each in names) else "_").join(names)
        columns = self._read_outside(members)
        if len(members) == 1:
            (number,) = members
            return Scan(name, self._join.inputs[number], self._within(members), columns)
        cuts = [*self._cuts(members)]
        if not self._products:
            cuts = [cut for cut in cuts if not self._pairs_all(*cut)] or cuts
        found = (
            Step(self.node(outer), self.node(inner), self._between(outer, inner))
            for outer, inner in cuts
        )
        return Alternation(name, columns, tuple(found))

    def _pairs_all(self, outer: Sequence[int], inner: Sequence[int]) -> bool:
        """Is a step a product, or one of its parts?"""
        return not (
            self._between(outer, inner) and self._is_connected(outer) and self._is_connected(inner)
        )

    def _is_connected(self, members: Sequence[int]) -> bool:
        """Do conditions lead from each of some collections to all of them?"""
        reached, left = {members[0]}, {*members[1:]}
        while near := {i for i in left if self._between(sorted(reached), [i])}:
            reached |= near
            left -= near
        return not left

    def _cuts(self, members: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
        some: list[tuple[int, ...]]
        match self._strategy:
            case Strategy.AS_WRITTEN:
                yield members[:1], members[1:]
                return
            case Strategy.RIGHT_DEEP:
                some = [(each,) for each in members]
            case Strategy.LEFT_DEEP:
                some = [tuple(i for i in members if i != each) for each in members]
            case Strategy.ALL:
                sizes = range(1, len(members))
                some = [part for n in sizes for part in itertools.combinations(members, n)]
        for outer in some:
            yield outer, tuple(i for i in members if i not in outer)

    def _columns(self, members: Sequence[int]) -> frozenset[KeyVariable]:
        return frozenset(column for i in members for column in self._join.inputs[i].columns)

    def _reads(self, key: KeyTerm) -> frozenset[KeyVariable]:
        return self._columns(range(len(self._join.inputs))) & free_variables(key)

    def _within(self, members: Sequence[int]) -> tuple[KeyTerm, ...]:
        """The conditions that some collections decide; one that reads nothing is for the first."""
        there, first = self._columns(members), 0 in members
        return tuple(
            each
            for each in self._join.conditions
            if (reads := self._reads(each)) <= there and (reads or first)
        )

    def _between(self, outer: Sequence[int], inner: Sequence[int]) -> tuple[KeyTerm, ...]:
        """The conditions that two parts decide together, and neither alone."""
        known = [*self._within(outer), *self._within(inner)]
        return tuple(each for each in self._within([*outer, *inner]) if each not in known)

    def _read_outside(self, members: Sequence[int]) -> tuple[KeyVariable, ...]:
        """The columns of some collections that the row or a later condition reads."""
        within = self._within(members)
        keys = [self._join.row, *(c for c in self._join.conditions if c not in within)]
        reads = frozenset[KeyVariable]().union(*map(self._reads, keys))
        return tuple(
            column for i in members for column in self._join.inputs[i].columns if column in reads
        )


def _plans(node: Node) -> Iterator[Plan]:
    if isinstance(node, Scan):
        yield Plan(node)
        return
    for step in node.steps:
        for outer in _plans(step.outer):
            for inner in _plans(step.inner):
                yield Plan(node, step, outer, inner)


# --- texts ----------------------------------------------------------------------------------------


def join_text(join: Join) -> str:
    """A join as it is written."""
    last = len(join.inputs) - 1
    lines = [
        _for(each.columns, each.name, join.conditions if i == last else ())
        for i, each in enumerate(join.inputs)
    ]
    return "Q = " + " collect\n".join(lines) + f" yield {text(join.row)}"


def normal_text(join: Join) -> str:
    """The A-normal form before any rule: all products, then the conditions."""
    *before, last = join.inputs
    columns, name, lines = last.columns, last.name, list[str]()
    for number, each in enumerate(reversed(before), 1):
        both = (*each.columns, *columns)
        lines.append(
            f"let Q_{number} := {_for(each.columns, each.name)} collect "
            f"{_for(columns, name)} yield {_row(both)} in"
        )
        columns, name = both, f"Q_{number}"
    lines.append(f"{_for(columns, name, join.conditions)} yield {text(join.row)}")
    return "Q = " + "\n".join(lines)


def _written(node: Node, seen: set[str], first: str, again: str, row: str) -> list[str]:
    """The lines of a node as the whole; `let` for each part of it that was not seen."""
    if isinstance(node, Scan):
        return [f"{first}{_for(node.input.columns, node.input.name, node.conditions)} yield {row}"]
    lines = []
    for number, step in enumerate(node.steps):
        found = [*_lets(step.inner, seen), *_lets(step.outer, seen)]
        found.append(f"{_step(step)} yield {row}")
        lines += [(again if number else first) + found[0], *found[1:]]
    return lines


def _lets(node: Node, seen: set[str]) -> list[str]:
    """The definitions that a node needs, its own the last, of those that were not seen."""
    if node.name in seen or (isinstance(node, Scan) and not node.is_named):
        return []
    seen.add(node.name)
    yields = f"yield {_row(node.columns)}"
    if isinstance(node, Scan):
        scanned = _for(node.input.columns, node.input.name, node.conditions)
        return [f"let {node.name} := {scanned} {yields} in"]
    lines = list[str]()
    for step in node.steps:
        lines += [*_lets(step.inner, seen), *_lets(step.outer, seen)]
    indent = " " * len(f"let {node.name} ")
    ways = [f"{_step(step)} {yields}" for step in node.steps]
    heads = [f"let {node.name} := ", *[f"{indent}:= "] * (len(ways) - 1)]
    lines += [head + way for head, way in zip(heads, ways, strict=True)]
    lines[-1] += " in"
    return lines


def _step(step: Step) -> str:
    outer, inner = step.outer, step.inner
    return (
        f"{_for(outer.columns, _name(outer))} collect "
        f"{_for(inner.columns, _name(inner), step.conditions)}"
    )


def _name(node: Node) -> str:
    return node.input.name if isinstance(node, Scan) and not node.is_named else node.name


def _for(columns: Sequence[KeyVariable], name: str, conditions: Sequence[KeyTerm] = ()) -> str:
    guard = f" if {' && '.join(map(_condition, conditions))}" if conditions else ""
    return f"for({_row(columns)} ← {name}{guard})"


def _row(columns: Sequence[KeyVariable]) -> str:
    return f"⟨{', '.join(column.name for column in columns)}⟩"


def _condition(key: KeyTerm) -> str:
    if isinstance(key, Apply) and key.function == EQUAL:
        left, right = map(text, key.arguments)
        return f"{left} == {right}"
    return text(key)
