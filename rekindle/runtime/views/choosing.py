"""The choice of a policy by cost: what each would keep, from the sizes that tables have now.

Rows of tables are known. How many values a join key has is counted on the rows of one part of the
key space, which is a fair sample, since rows are spread over it by a hash.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from rekindle.calculus.scalars import Column
from rekindle.calculus.terms import Aggregate, Filter, Fix, Map, Source, Term, sources
from rekindle.calculus.walks import visited
from rekindle.incremental.policies.arithmetic import Arithmetic
from rekindle.incremental.policies.choice import Choice, Policy, Sizes, choose
from rekindle.incremental.policies.joins import JoinQuery, recognise
from rekindle.runtime.epochs.state import State
from rekindle.traces.reader import TraceReader
from rekindle.traces.store import Store

SAMPLED_ROWS = 200_000
LEAST_ROWS = 20_000
"""Tables of fewer rows in all are not worth a choice."""
LEAST_LEAVES = 3
"""Of a join of two nothing is kept but its inputs."""


@dataclass(frozen=True, slots=True)
class Choosing:
    """Compares policies for terms over the tables of one state."""

    state: State
    store: Store
    arithmetic: Arithmetic

    def is_worth_it(self, term: Term) -> bool:
        """Are the tables large enough for a policy to matter?"""
        names = set(sources(term))
        # Parts of a nested view read others that are made with them.
        known = all(name in self.state.entries for name in names)
        return known and len(names) >= 2 and sum(map(self._rows, names)) >= LEAST_ROWS

    def choices(self, term: Term) -> Iterator[tuple[tuple[str, ...], Choice]]:
        """For each aggregate over joins its columns and what policies would keep for it."""
        for aggregate in _aggregates(term):
            query = recognise(aggregate, self.arithmetic)
            if isinstance(query, JoinQuery) and len(query.leaves) >= LEAST_LEAVES:
                yield aggregate.schema.names, choose(query.hypergraph, self._sizes(query))

    def policy(self, term: Term) -> Policy:
        """The policy that is clearly cheapest, first order unless there is one."""
        found = [choice.worthwhile for _, choice in self.choices(term)]
        return next((each for each in found if each is not Policy.FIRST_ORDER), Policy.FIRST_ORDER)

    def _sizes(self, query: JoinQuery) -> Sizes:
        rows: dict[str, int] = {}
        values: dict[tuple[str, str], int] = {}
        for leaf in query.leaves:
            names = sources(leaf.term)
            if len(set(names)) != 1:
                continue
            rows[leaf.name] = self._rows(next(iter(names)))
            for position, variable in enumerate(leaf.variables):
                found = _origin(leaf.term, position)
                if found is not None:
                    values[leaf.name, variable] = self._values(*found)
        return Sizes(rows, values)

    def _rows(self, name: str) -> int:
        trace = self.state.traces.get(self.state.entry(name).node)
        return 0 if trace is None else trace.live

    def _values(self, name: str, position: int) -> int:
        """About how many different values a column has."""
        trace = self.state.traces.get(self.state.entry(name).node)
        if trace is None or not trace.live:
            return 1
        column = trace.layout.payload.names[position]
        sample: list[pa.ChunkedArray] = []
        for table in TraceReader.of_trace(trace, self.store).scan(SAMPLED_ROWS):
            sample.append(table.column(column))
            if sum(map(len, sample)) >= SAMPLED_ROWS:
                break
        whole = pa.chunked_array([chunk for each in sample for chunk in each.chunks])
        if pa.types.is_nested(whole.type):
            # A label: Arrow does not count structs, but their texts.
            whole = pa.chunked_array([[str(value) for value in whole.to_pylist()]])
        counts = pc.value_counts(whole)
        often = pc.sum(pc.greater(counts.field("counts"), 1).cast(pa.int64())).as_py() or 0
        if len(whole) >= trace.live or often > len(counts) // 2:
            return len(counts)
        # Most values of the sample are in it once: there are more where the sample came from.
        return int(len(counts) * trace.live / len(whole))


def described(choices: Mapping[tuple[str, ...], Choice], policy: Policy) -> str:
    """What each policy would keep, for people."""
    lines = [f"policy {policy.value} is in force, since the view was created"]
    for columns, choice in choices.items():
        lines += [f"({', '.join(columns)})", *(f"  {line}" for line in str(choice).splitlines())]
    return "\n".join(lines)


def _aggregates(term: Term) -> Iterator[Aggregate]:
    within = visited(term, lambda node: () if isinstance(node, Fix) else node.children)
    return (node for node in within if isinstance(node, Aggregate))


def _origin(term: Term, position: int) -> tuple[str, int] | None:
    """The table and the column that a column is a copy of, if it is one."""
    match term:
        case Source():
            return term.name, position
        case Filter():
            return _origin(term.child, position)
        case Map():
            scalar = term.outputs[position][1]
            return _origin(term.child, scalar.position) if isinstance(scalar, Column) else None
    return None
