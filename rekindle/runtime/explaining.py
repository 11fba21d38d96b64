"""What is known of a table or view: its circuit, its state, and what policies would keep."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pyspark.sql import Row

from rekindle.calculus.terms import Term
from rekindle.circuit.drawing_levels import LevelTable, draw_levels
from rekindle.circuit.explain import Explanation, NodeFacts, explain
from rekindle.errors import RekindleError, UntrustedError
from rekindle.frontends.catalog import Catalog
from rekindle.frontends.comprehension.collections import Collections
from rekindle.frontends.comprehension.definition import ComprehensionDefinition
from rekindle.frontends.comprehension.front_end import elaborate
from rekindle.incremental.pipeline import trace_steps
from rekindle.incremental.policies.choice import Policy
from rekindle.nested.cost import prices
from rekindle.nested.levels import Level
from rekindle.nested.shredding import dictionary_name, shredded, shredded_names
from rekindle.runtime.choosing import Choosing, described
from rekindle.runtime.connection import Connection
from rekindle.runtime.definitions import Definitions
from rekindle.runtime.engine import Engine
from rekindle.runtime.model_definition import ModelDefinition
from rekindle.runtime.reading import DataReader
from rekindle.runtime.shredded import level_of
from rekindle.runtime.state import Entry, State, ViewEntry


def explain_entry(connection: Connection, reading: DataReader, name: str) -> Explanation:
    """How a table or view is kept, or why it is not followed."""
    engine = connection.refreshed()
    with engine.turn:
        entry = engine.state.entry(name)
        if isinstance(entry, ViewEntry) and entry.factorisation is not None:
            root = explain_entry(connection, reading, entry.factorisation.roots[0].view)
            kept = reading.factorised(name).tree(sizes=True)
            return replace(root, title=f"view {entry.name}", derivation=(), kept=kept)
        if entry.level is not None:
            return _explained_levels(connection, reading, entry, entry.level)
        if entry.name in engine.untrusted.reasons:
            reason = engine.untrusted.reasons[entry.name]
            return Explanation(f"view {entry.name} (untrusted)", (), untrusted=reason)
        if entry.name in engine.stale.reasons:
            reason = engine.stale.reasons[entry.name]
            return Explanation(f"view {entry.name} (stale)", (), stale=reason)
        return _explained(engine, entry, connection.definitions, connection.creating.choosing)


def _explained_levels(
    connection: Connection, reading: DataReader, entry: Entry, level: Level
) -> Explanation:
    """How a nested table or view is kept: the circuit of its top, its levels, what it costs."""
    top = explain_entry(connection, reading, level.view)
    state = connection.engine.state
    lines = ["inner collections are labels, and dictionaries define them"]
    for path, each in level.paths():
        view = state.entry(each.view)
        columns = ", ".join(view.schema.names)
        line = f"  {path or 'top':<20} {_rows(state, each):>10,} rows  ({columns})"
        epoch, step = connection.engine.steps.get(view.node, (0, None))
        if step is not None and step.rebuilt:
            line += f"; epoch {epoch}: {step.rows_out:,} rows moved, {step.rebuilt}"
        lines.append(line)
    lines += _estimated(connection, entry)
    title = f"{'view' if isinstance(entry, ViewEntry) else 'table'} {entry.name}"

    def picture() -> str:
        return draw_levels(title, [_sampled(reading, state, *found) for found in level.paths()])

    return replace(top, title=title, levels="\n".join(lines), picture=picture)


def _rows(state: State, level: Level) -> int:
    trace = state.traces.get(state.entry(level.view).node)
    return 0 if trace is None else trace.rows


def _estimated(connection: Connection, entry: Entry) -> Iterator[str]:
    """The cost of each flat query, and of its change, by the cost model of nested queries."""
    definition = entry.definition if isinstance(entry, ViewEntry) else None
    if not isinstance(definition, ComprehensionDefinition):
        return
    catalog, state = connection.definitions.catalog, connection.engine.state
    with catalog.doubting(True):
        try:
            term = elaborate(definition.written, catalog).term
        except RekindleError:
            return  # A table that it reads has other columns since.
    sizes = {
        flat: rows for name in catalog.shown for flat, rows in _sizes(state, name, catalog).items()
    }
    for path, query in shredded(term).queries.items():
        estimated = prices(query, sizes, dict.fromkeys(sizes, 1))
        each = " for each label" if path else ""
        yield f"estimated for {path or 'top'}{each}: {estimated} of one row"


def _sizes(state: State, name: str, catalog: Catalog) -> dict[str, int]:
    """How many rows the flat collection and the dictionaries of a table or view have."""
    entry = state.entry(name)
    type_ = Collections(catalog).type(name)
    flat, *dictionaries = shredded_names(name, type_)
    level = level_of(entry)
    if level is None:
        trace = state.traces.get(entry.node)
        rows = 0 if trace is None else trace.rows
        return dict.fromkeys([flat, *dictionaries], rows)
    found = {dictionary_name(name, path): _rows(state, each) for path, each in level.paths()}
    return {flat: _rows(state, level), **found}


def _sampled(reading: DataReader, state: State, path: str, level: Level) -> LevelTable:
    rows = reading.committed(state, level.view).limit(SAMPLE).collect()
    below = [(column, f"{path}.{column}" if path else column) for column, _ in level.bags]
    return LevelTable(
        path,
        _rows(state, level),
        state.entry(level.view).schema.names,
        tuple(tuple(_shown(value) for value in row) for row in rows),
        tuple(below),
    )


def _shown(value: object) -> str:
    """A value in a cell; a label by what it holds."""
    if isinstance(value, Row):
        return "⟨" + ", ".join(_shown(each) for each in value if each is not None) + "⟩"
    return "NULL" if value is None else str(value)


SAMPLE = 5


def _explained(
    engine: Engine, entry: Entry, definitions: Definitions, choosing: Choosing
) -> Explanation:
    """How an entry with a node of its own is kept."""
    term = engine.terms.get(entry.name)
    found = explain(
        engine.circuit,
        entry.node,
        {key: _facts(engine, key) for key in engine.circuit.nodes},
        name=entry.name,
        derivation=() if term is None else tuple(trace_steps(term)),
    )
    if not isinstance(entry, ViewEntry) or term is None:
        return found
    taken = [] if engine.feeding is None else engine.feeding.taken.get(entry.name, [])
    policies = _policies(entry, term, definitions, choosing)
    settings = definitions.settings_apart(entry)
    return replace(found, policies=policies, fed="\n".join(taken), settings=settings)


def _policies(entry: ViewEntry, term: Term, definitions: Definitions, choosing: Choosing) -> str:
    """What each policy would keep now for the view's aggregates over joins, and what is kept."""
    definition = entry.definition
    if isinstance(definition, ModelDefinition) or definition.is_recursive:
        return ""
    decisions: list[str] = []
    if entry.policy is not Policy.FIRST_ORDER:
        if not definition.is_text:
            return f"policy {entry.policy.value}"
        try:
            _, term = definitions.read_again(entry)
        except UntrustedError as error:
            return f"policy {entry.policy.value}; {error.message}: {error.detail}"
        if entry.policy is not Policy.FACTORED:
            decisions = [str(each) for each in definitions.decided(entry.policy, term).decisions]
    choices = dict(choosing.choices(term))
    if not choices and not decisions:
        return ""
    return "\n".join([described(choices, entry.policy), *decisions])


def _facts(engine: Engine, key: str) -> NodeFacts:
    trace = engine.state.traces.get(key)
    epoch, step = engine.steps.get(key, (None, None))
    return NodeFacts(
        rows_stored=None if trace is None else trace.rows,
        bytes_stored=None if trace is None else sum(s.size for s in trace.segments),
        runs=None if trace is None else len(trace.readable_runs),
        rows_in=None if step is None else step.rows_in,
        rows_out=None if step is None else step.rows_out,
        seconds=None if step is None else step.seconds,
        placement=None if step is None else step.placement.value,
        epoch=epoch,
        rebuilt="" if step is None else step.rebuilt,
    )
