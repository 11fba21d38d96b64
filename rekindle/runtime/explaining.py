"""What is known of a table or view: its circuit, its state, and what policies would keep."""

from __future__ import annotations

from dataclasses import replace

from rekindle.calculus.terms import Term
from rekindle.circuit.explain import Explanation, NodeFacts, explain
from rekindle.errors import UntrustedError
from rekindle.incremental.pipeline import trace_steps
from rekindle.incremental.policies.choice import Policy
from rekindle.nested.levels import Level
from rekindle.runtime.choosing import Choosing, described
from rekindle.runtime.connection import Connection
from rekindle.runtime.definitions import Definitions
from rekindle.runtime.engine import Engine
from rekindle.runtime.model_definition import ModelDefinition
from rekindle.runtime.reading import DataReader
from rekindle.runtime.state import Entry, ViewEntry


def explain_entry(connection: Connection, reading: DataReader, name: str) -> Explanation:
    """How a table or view is kept, or why it is not followed."""
    engine = connection.refreshed()
    with engine.turn:
        entry = engine.state.entry(name)
        if isinstance(entry, ViewEntry) and entry.factorisation is not None:
            root = explain_entry(connection, reading, entry.factorisation.roots[0].view)
            kept = reading.factorised(name).tree(sizes=True)
            return replace(root, title=f"view {entry.name}", derivation=(), kept=kept)
        if isinstance(entry, ViewEntry) and entry.level is not None:
            return _explained_levels(connection, reading, entry, entry.level)
        if entry.name in engine.untrusted.reasons:
            reason = engine.untrusted.reasons[entry.name]
            return Explanation(f"view {entry.name} (untrusted)", (), untrusted=reason)
        if entry.name in engine.stale.reasons:
            reason = engine.stale.reasons[entry.name]
            return Explanation(f"view {entry.name} (stale)", (), stale=reason)
        return _explained(engine, entry, connection.definitions, connection.creating.choosing)


def _explained_levels(
    connection: Connection, reading: DataReader, entry: ViewEntry, level: Level
) -> Explanation:
    """How the parts of a nested view are kept: the top, and below it a line for each dictionary."""
    top = explain_entry(connection, reading, level.view)
    traces, entries = connection.engine.state.traces, connection.engine.state.entries
    lines = ["kept shredded: inner collections are labels, and a dictionary defines each"]
    for path, each in level.paths():
        view = entries[each.view]
        rows = traces[view.node].rows if view.node in traces else 0
        columns = ", ".join(view.schema.names)
        line = f"  {path or 'top':<20} {rows:>10,} rows  {each.view}({columns})"
        epoch, step = connection.engine.steps.get(view.node, (0, None))
        if step is not None and step.rebuilt:
            line += f"; epoch {epoch}: {step.rows_out:,} rows moved, {step.rebuilt}"
        lines.append(line)
    return replace(top, title=f"view {entry.name}", kept="\n".join(lines))


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
