"""The policy `higher_order`: an aggregate over joins with triggers, and views on its deltas.

    ΔQ = γ[A; Σ b·m](ΔR ⋈ M(S, T)) + …,   M(S, T)[B; m] kept by triggers of its own

The parts and their deltas are those of `deltas.py`; here they become terms. Every delta is a
trigger, and so is every part: the sum of its deltas, added up by key where it has payloads. The
input of an aggregate is a sum of products that is never kept, only the accumulators of its groups.

Rows of a part without payloads have their counts as weights. A part with payloads has one row for
each key, with a count and sums for columns, and so have the rows of its deltas, each of which
stands for as many rows of the join as its count says (`merged` of `terms.Aggregate`). They are not
the change of the join as a collection, but of its sums.

A row is added by products with what was there when it came, and taken back by products with what is
there when it goes. Only exact numbers cancel then, so sums of doubles are kept as exact ones and
rounded where they leave the root (`algebra.exact_sums`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from rekindle.calculus.scalars import Literal, Scalar
from rekindle.calculus.terms import Aggregate, Map, Reading, Term, Triggered, UnionAll, reading
from rekindle.incremental.policies.arithmetic import Arithmetic
from rekindle.incremental.policies.decisions import Built, Factorised, apply_policy
from rekindle.incremental.policies.deltas import (
    MAXIMUM_LEAVES,
    Delta,
    Deltas,
    Lookup,
    Maintained,
    Part,
    When,
    higher_order_deltas,
)
from rekindle.incremental.policies.factors import Component
from rekindle.incremental.policies.hypergraph import Hypergraph
from rekindle.incremental.policies.joins import JoinQuery, Refusal
from rekindle.incremental.policies.payloads import (
    COUNT,
    Builder,
    InexactError,
    Rows,
    payload_name,
)
from rekindle.incremental.policies.variables import ONE
from rekindle.incremental.policies.view_tree import result_term


def follow_deltas(term: Term, arithmetic: Arithmetic) -> Factorised:
    """An equal term of the same schema, in which every join query is kept by triggers."""

    def build(query: JoinQuery, aggregate: Aggregate) -> Built | Refusal:
        return triggered(query, aggregate, arithmetic, higher_order_deltas)

    return apply_policy(term, arithmetic, build)


def triggered(
    query: JoinQuery,
    aggregate: Aggregate,
    arithmetic: Arithmetic,
    plan: Callable[[Hypergraph], Deltas],
) -> Built | Refusal:
    """The aggregate with the triggers of the deltas that a plan gives."""
    refusal = _refusal(query)
    if refusal is not None:
        return refusal
    deltas = plan(query.hypergraph)
    try:
        return Built(_Compiler(query, arithmetic).term(aggregate, deltas), deltas)
    except InexactError as error:
        return Refusal(str(error))


def _refusal(query: JoinQuery) -> Refusal | None:
    if len(query.leaves) > MAXIMUM_LEAVES:
        return Refusal(
            f"it joins {len(query.leaves)} tables, and deltas of deltas are followed for "
            f"{MAXIMUM_LEAVES} at most"
        )
    return None


class _Compiler:
    """Makes the triggers of one query."""

    def __init__(self, query: JoinQuery, arithmetic: Arithmetic) -> None:
        self._query = query
        self._arithmetic = arithmetic
        self._builder = Builder(query, arithmetic, (COUNT,))
        self._leaves = {leaf.name: i for i, leaf in enumerate(query.leaves)}
        self._turn: tuple[str, ...] = ()
        self._triggers: list[Term] = []
        self._kept: dict[Part, tuple[int, Rows]] = {}
        self._deltas: dict[Part, dict[str, int]] = {}
        """The triggers of the deltas of a part, by relation and in its turn."""

    def term(self, meaning: Aggregate, deltas: Deltas) -> Term:
        *below, top = deltas.parts
        self._turn = top.part.relations
        for maintained in below:
            self._keep(maintained)
        summed = self._summed(top)
        named = tuple(summed.named(top.part.key))
        root = self._builder.totalled(summed, named, top.part.key, _merged(summed))
        self._add(result_term(self._query, root, self._arithmetic))
        leaves = tuple(leaf.term for leaf in self._query.leaves)
        return Triggered(meaning, leaves, tuple(self._triggers))

    def _add(self, trigger: Term) -> int:
        self._triggers.append(trigger)
        return len(self._triggers) - 1

    def _keep(self, maintained: Maintained) -> None:
        part = maintained.part
        if len(part.relations) == 1:
            rows = self._single(part)
        else:
            rows = self._summed(maintained)
            if _merged(rows) is not None:
                named = rows.named(part.key) or (ONE,)
                rows = self._builder.aggregated(rows, named, part.key, _merged(rows))
        self._kept[part] = self._add(rows.term), rows

    def _single(self, part: Part) -> Rows:
        """A leaf with the variables of a key; the same term as in a view tree."""
        rows = self._changed(part.relations[0])
        leaf = self._query.leaves[self._leaves[part.relations[0]]]
        if all(place is None for place in rows.payloads.values()):
            return self._builder.projected(rows, part.key)
        if not leaf.local and set(part.key) == set(leaf.variables):
            return rows
        return self._builder.aggregated(rows, rows.named(part.key) or (ONE,), part.key)

    def _changed(self, relation: str) -> Rows:
        """The change of a leaf."""
        position = self._leaves[relation]
        rows = self._builder.leaf(position)
        return replace(rows, term=reading(Reading.CHANGE, position, rows.term.schema))

    def _summed(self, maintained: Maintained) -> Rows:
        """The sum of a part's deltas."""
        part = maintained.part
        numbers: dict[str, int] = {}
        for delta in maintained.deltas:
            rows = self._laid_out(self._delta(part, delta), part)
            numbers[delta.relation] = self._add(rows.term)
        self._deltas[part] = numbers
        return replace(rows, term=self._given(numbers.values()))

    def _given(self, numbers: Iterable[int]) -> Term:
        """The sum of what triggers give."""
        terms = [reading(Reading.GIVEN, n, self._triggers[n].schema) for n in numbers]
        return terms[0] if len(terms) == 1 else UnionAll(tuple(terms))

    def _delta(self, part: Part, delta: Delta) -> Rows:
        """The change of one relation, joined with one part after another."""
        rows = self._changed(delta.relation)
        for i, lookup in enumerate(delta.lookups):
            later = (other.part.key for other in delta.lookups[i + 1 :])
            needed = frozenset(part.key).union(*later)
            rows = self._looked_up(rows, lookup, needed, delta.relation)
        return rows

    def _looked_up(self, rows: Rows, lookup: Lookup, needed: frozenset[str], relation: str) -> Rows:
        number, kept = self._kept[lookup.part]

        def joined(part: Term) -> Rows:
            return self._builder.pair(rows, replace(kept, term=part), needed)

        moment = Reading.AFTER if lookup.when is When.AFTER else Reading.BEFORE
        found = joined(reading(moment, number, kept.term.schema))
        if lookup.when is not When.BETWEEN:
            return found
        earlier = self._earlier(lookup.part, relation)
        return replace(found, term=UnionAll((found.term, joined(self._given(earlier)).term)))

    def _earlier(self, part: Part, relation: str) -> list[int]:
        """The deltas of a part for the relations that have their turn before another one."""
        turn = self._turn.index(relation)
        return [n for name, n in self._deltas[part].items() if self._turn.index(name) < turn]

    def _laid_out(self, rows: Rows, part: Part) -> Rows:
        """The variables of the key and then all payloads, whatever the delta."""
        outputs = list(rows.named(part.key))
        payloads: dict[Component, int | None] = {}
        plain = all(place is None for place in rows.payloads.values())
        for component, place in rows.payloads.items():
            payloads[component] = None if plain else len(outputs)
            if not plain:
                value: Scalar = Literal(1, "bigint")
                if place is not None:
                    value = self._arithmetic.widened(rows.column(place), rows.term.schema)
                outputs.append((payload_name(component, len(payloads)), value))
        variables = {name: i for i, name in enumerate(part.key)}
        return Rows(Map(rows.term, tuple(outputs) or (ONE,)), rows.leaves, variables, payloads)


def _merged(rows: Rows) -> Scalar | None:
    """The column that says how many rows each stands for, if weights do not."""
    place = rows.payloads[COUNT]
    return None if place is None else rows.column(place)
