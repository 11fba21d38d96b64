"""What is known of a table or view: its circuit, its state, and what policies would keep."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from pyspark.sql import Row

from rekindle.calculus.terms import Term
from rekindle.circuit.drawing_levels import LevelTable, draw_levels
from rekindle.circuit.explain import Explanation, NodeFacts, explain
from rekindle.circuit.explain_words import count_words
from rekindle.errors import RekindleError, UntrustedError
from rekindle.frontends.comprehension.definition import ComprehensionDefinition
from rekindle.frontends.comprehension.front_end import NONE, elaborate
from rekindle.frontends.mrql.definition import MrqlDefinition
from rekindle.frontends.mrql.explaining import explained
from rekindle.incremental.pipeline import trace_steps
from rekindle.incremental.policies.choice import Policy
from rekindle.nested.cost import prices, tables_of
from rekindle.nested.levels import Level
from rekindle.nested.shredding import dictionary_name, shredded, shredded_names
from rekindle.nested.terms import Relation
from rekindle.runtime.connection import Connection
from rekindle.runtime.engine import Engine
from rekindle.runtime.epochs.state import Entry, State, ViewEntry
from rekindle.runtime.models.definition import ModelDefinition
from rekindle.runtime.nested.bag_sizes import MOST_ELEMENTS
from rekindle.runtime.nested.heavy_labels import heavy_labels
from rekindle.runtime.nested.shredded import level_of
from rekindle.runtime.nested.stored_parts import Part
from rekindle.runtime.reading.reading import DataReader
from rekindle.runtime.views.choosing import Choosing, described
from rekindle.runtime.views.definitions import Definitions


def explain_entry(connection: Connection, reading: DataReader, name: str) -> Explanation:
    """How a table or view is kept, or why it is not followed."""
    engine = connection.refreshed()
    with engine.turn:
        entry = engine.state.entry(name)
        explanation = _explanation(connection, reading, entry)
        # Of a view that stands for others, one of these may be left out.
        untrusted = engine.untrusted.shown(engine.state).get(entry.name, "")
        stale = engine.stale.shown(engine.state).get(entry.name, "")
        if untrusted or stale:
            title = f"view {entry.name}{_left_out(engine, entry.name)}"
            return replace(explanation, title=title, untrusted=untrusted, stale=stale)
        return explanation


def _explanation(connection: Connection, reading: DataReader, entry: Entry) -> Explanation:
    engine = connection.engine
    if isinstance(entry, ViewEntry) and entry.factorisation is not None:
        root = explain_entry(connection, reading, entry.factorisation.roots[0].view)
        kept = reading.factorised(entry.name).tree(sizes=True)
        return replace(root, title=f"view {entry.name}", derivation=(), kept=kept)
    if entry.level is not None:
        return _explained_levels(connection, reading, entry, entry.level)
    if entry.name in {*engine.untrusted.reasons, *engine.stale.reasons}:
        return Explanation(f"view {entry.name}", ())
    found = _explained(engine, entry, connection.definitions, connection.creating.choosing)
    if isinstance(entry, ViewEntry) and isinstance(entry.definition, MrqlDefinition):
        with connection.definitions.catalog.doubting(True):
            said = explained(entry.definition, connection.definitions.catalog)
        return replace(found, language=said)
    measured = "\n".join(_measured(entry))
    return replace(found, levels=_IN_ROWS if _is_in_rows(entry) else measured)


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
        if path and view.node in state.traces:
            part = Part.of(state, each.view)
            partitions = connection.frames.partitions
            said = heavy_labels(part, connection.engine.store, partitions, _label)
            lines.append(f"  {'':<20} {said}{_divided(connection.engine, view.node)}")
    if _is_in_rows(entry):
        lines.append(f"{_IN_ROWS}; those above are of elements without an order, or of a source")
    lines += [*_measured(entry), *_chosen(state, entry, level), *_estimated(connection, entry)]
    title = f"{'view' if isinstance(entry, ViewEntry) else 'table'} {entry.name}"
    title += _left_out(connection.engine, entry.name)

    def picture() -> str:
        return draw_levels(title, [_sampled(reading, state, *found) for found in level.paths()])

    return replace(top, title=title, levels="\n".join(lines), picture=picture)


def _left_out(engine: Engine, name: str) -> str:
    """What a title adds of a view that is not followed."""
    if name in engine.untrusted.shown(engine.state):
        return " (untrusted)"
    return " (stale)" if name in engine.stale.shown(engine.state) else ""


_IN_ROWS = "inner collections are arrays in their rows: shredding = 'none'"


def _is_in_rows(entry: Entry) -> bool:
    """Did the user ask for a comprehension's inner collections to stay in their rows?"""
    return isinstance(entry, ViewEntry) and entry.said.get("shredding") == NONE


def _measured(entry: Entry) -> Iterator[str]:
    """Where bags were put by their sizes when the view was made."""
    definition = entry.definition if isinstance(entry, ViewEntry) else None
    if isinstance(definition, ComprehensionDefinition) and entry.part_of is None:
        apart = {path for path, _ in entry.level.paths()} if entry.level is not None else set()
        for path, largest, _ in definition.bags:
            place = "in a dictionary" if path in apart else "arrays in their rows"
            yield (
                f"bags of {path} are {place}: shredding = 'partial', the largest had {largest:,} "
                f"elements when the view was made, and up to {MOST_ELEMENTS} stay"
            )


def _chosen(state: State, entry: Entry, level: Level) -> Iterator[str]:
    """Why the bags of a comprehension are where they are, if the user did not say.

    An array is made anew from the rows of its bag, which are kept for that, and so are those around
    it. So it never keeps or writes less than a dictionary, and gains at reading only.
    """
    definition = entry.definition if isinstance(entry, ViewEntry) else None
    if not isinstance(definition, ComprehensionDefinition) or definition.is_of_part:
        return
    if isinstance(entry, ViewEntry) and "shredding" not in entry.said:
        top, *inner = (_rows(state, each) for _, each in level.paths())
        mean = sum(inner) / max(1, top)
        yield (
            f"shredding = 'full' by cost: {top + sum(inner):,} rows kept, 1 written for an element "
            f"that comes; as arrays {top + 2 * sum(inner):,} kept, about {mean + 1:,.1f} written"
        )


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
    sizes: dict[str, int] = {}
    for table in tables_of(term):
        sizes |= _sizes(state, table)
    for path, query in shredded(term).queries.items():
        estimated = prices(query, sizes, dict.fromkeys(sizes, 1))
        each = " for each label" if path else ""
        yield f"estimated for {path or 'top'}{each}: {estimated} of one row"


def _sizes(state: State, table: Relation) -> dict[str, int]:
    """How many rows the flat collection and the dictionaries of a table or view have."""
    name = table.name
    entry = state.entry(name)
    flat, *dictionaries = shredded_names(name, table.type)
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


def _divided(engine: Engine, node: str) -> str:
    """How many heavy keys were divided when last some were, for a node."""
    if node not in engine.circuit.nodes:
        return ""  # Of a view that is not followed.
    waiting, seen, found = [node], {node}, dict[int, list[tuple[int, int]]]()
    while waiting:
        key = waiting.pop()
        epoch, step = engine.steps.get(key, (0, None))
        if step is not None and step.heavy_keys:
            found.setdefault(epoch, []).append((step.heavy_keys, step.threshold))
        new = set(engine.circuit.nodes[key].inputs) - seen
        seen |= new
        waiting += new
    if not found:
        return ""
    epoch = max(found)
    keys, threshold = max(found[epoch])
    heavy = count_words(keys, "heavy key")
    return f"; epoch {epoch}: {heavy} of joins divided, of more than {threshold:,} pairs"


def _label(value: object) -> str:
    """A label by what it holds."""
    held = value.values() if isinstance(value, dict) else [value]
    return "⟨" + ", ".join(map(_label_part, held)) + "⟩"


def _label_part(value: object) -> str:
    return _label(value) if isinstance(value, dict) else _shown(value)


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
    forgets = engine.forgetting.words(engine.circuit, engine.state)
    found = explain(
        engine.circuit,
        entry.node,
        {key: _facts(engine, key, forgets) for key in engine.circuit.nodes},
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


def _facts(engine: Engine, key: str, forgets: Mapping[str, str]) -> NodeFacts:
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
        heavy_keys=0 if step is None else step.heavy_keys,
        threshold=0 if step is None else step.threshold,
        forgets=forgets.get(key, ""),
    )
