"""The state of a database at an epoch: one immutable value, and its JSON form.

Everything a reader needs is here: what tables and views there are, the trace of each node, and the
history of each table and view (`history.py`), of which a few changes are named and the rest are in
files. A transaction makes the next state; the commit log (`log.py`) makes it durable.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any

from rekindle.calculus.schema import Field, Schema
from rekindle.catalyst.settings import Settings
from rekindle.circuit.stored_nodes import StoredNode
from rekindle.errors import HistoryError, unknown_name
from rekindle.incremental.policies.choice import Policy
from rekindle.incremental.policies.factorised import Factorisation
from rekindle.names import is_hidden
from rekindle.nested.levels import Level
from rekindle.runtime.epochs.history import Changes, History
from rekindle.runtime.epochs.offsets import Offsets
from rekindle.runtime.epochs.times import Times
from rekindle.runtime.streaming.definition import Streams
from rekindle.runtime.time.lateness import Lateness
from rekindle.runtime.views.definition import (
    ViewDefinition,
    definition_from_json,
    definition_to_json,
    early_definition,
    options_said,
)
from rekindle.traces.segment import Segment
from rekindle.traces.store import Store
from rekindle.traces.trace import Trace


@dataclass(frozen=True, slots=True)
class TableEntry:
    """A table: its columns, its primary key, and a mark that tells it from namesakes.

    `declared` has the types of columns with a CHAR(n) or VARCHAR(n), by their positions. A table
    with a `level` has no node in the circuit: it stands for the tables with its name in `part_of`,
    which keep its rows and the elements of its arrays.
    """

    name: str
    schema: Schema
    key: tuple[int, ...]
    incarnation: str
    node: str
    created: int
    declared: Mapping[int, str] = field(default_factory=dict)
    part_of: str | None = None
    """The view that the table feeds, which keeps no rows then and is not shown, or the nested
    table that it keeps a part of."""
    comments: Mapping[str, str] = field(default_factory=dict)
    """What was said of columns, by their names, and of the table, by no name."""
    level: Level | None = None
    """The flat tables of a nested one."""
    index: tuple[int, ...] = ()
    """What a table without a key is arranged by."""
    said: Mapping[str, str] = field(default_factory=dict)
    """The options that the user gave."""
    lateness: Lateness | None = None
    """How late its rows may be."""

    @property
    def stands(self) -> bool:
        """Has it no rows of its own, but parts that it stands for?"""
        return self.level is not None


@dataclass(frozen=True, slots=True)
class ViewEntry:
    """A view: its columns, its definition as the user gave it, and its term.

    What differs from one language to another is in `definition`. A view with a `factorisation` has
    no node of its own: it stands for the collections that the views with its name in `part_of`
    keep, which users do not see.
    """

    name: str
    schema: Schema
    node: str
    definition: ViewDefinition
    term: str
    scalars: tuple[str, ...]
    """The opaque parts of the term."""
    spark: str
    """The version of Spark whose forms these parts have."""
    created: int
    policy: Policy = Policy.FIRST_ORDER
    factorisation: Factorisation | None = None
    level: Level | None = None
    """The flat collections of a nested view, which has no node of its own either."""
    part_of: str | None = None
    settings: Settings | None = None
    """What the session was set to when the view was made; early databases do not say."""
    said: Mapping[str, str] = field(default_factory=dict)
    """What the user said beside the definition: options, a comment."""
    reads: Mapping[str, Schema] | None = None
    """The tables and views that it reads, with the columns it knows of; early databases do not
    say."""
    stale: int | None = None
    """The last epoch that it was followed to, if tables that it reads have changed since."""
    since: int | None = None
    """The epoch of its first row, if that is later than the view: a redefinition made it."""
    index: tuple[int, ...] = ()
    """The columns that rows of a part of a nested view are found by; early parts have none."""

    @property
    def own(self) -> str:
        """The identity of its node, if it keeps it when functions that it uses are redefined."""
        return self.node if self.definition.functions else ""

    @property
    def stands(self) -> bool:
        """Has it no rows of its own, but parts that it stands for?"""
        return self.factorisation is not None or self.level is not None


Entry = TableEntry | ViewEntry


def own_identity() -> str:
    """An identity of a view's node that does not follow from its definition."""
    return f"view-{secrets.token_hex(8)}"


@dataclass(frozen=True, slots=True)
class State:
    """A database at `epoch`."""

    epoch: int = 0
    entries: Mapping[str, Entry] = field(default_factory=dict)
    traces: Mapping[str, Trace] = field(default_factory=dict)
    history: Mapping[str, History] = field(default_factory=dict)
    horizon: int = 0
    """Changes at epochs up to this one are no longer retained."""
    nodes: Mapping[str, StoredNode] = field(default_factory=dict)
    """The plans of the views: the nodes of the circuit, as they were when each was made."""
    times: Times = field(default_factory=Times)
    offsets: Offsets = field(default_factory=dict)
    """How far each source of changes has been read."""
    functions: Mapping[str, str] = field(default_factory=dict)
    """The functions that users defined for comprehensions, as they wrote them, by their names."""
    streams: Streams = field(default_factory=dict)
    """The streams that are read into tables, by their names."""
    retain: int | None = None
    """For how many epochs changes are kept, by connections that do not say so; None for all."""

    @property
    def in_order(self) -> list[Entry]:
        """The tables and views, each after those that it reads; a definition knows only older."""
        return sorted(self.entries.values(), key=lambda entry: entry.created)

    def entry(self, name: str) -> Entry:
        """The table or view of that name; names differ in more than case."""
        found = None
        if isinstance(name, str):
            found = self.entries.get(name) or self.entries.get(self._folded().get(name.lower(), ""))
        if found is None:
            raise unknown_name("table or view", name, [each.name for each in self.shown])
        return found

    @property
    def shown(self) -> list[Entry]:
        """The tables and views that users made."""
        entries = self.entries.values()
        return [e for e in entries if e.part_of is None and not is_hidden(e.name)]

    def parts(self, name: str) -> list[Entry]:
        """What stands behind a table or view: the flat collections of a nested or factorised one,
        the feed of a fed one."""
        return [entry for entry in self.entries.values() if entry.part_of == name]

    def knows(self, name: str) -> bool:
        return name.lower() in self._folded()

    def _folded(self) -> dict[str, str]:
        return {name.lower(): name for name in self.entries}

    def function(self, name: str) -> str:
        """The name of a function as it was given; names differ in more than case."""
        folded = {each.lower(): each for each in self.functions}
        if not isinstance(name, str) or name.lower() not in folded:
            raise unknown_name("function", name, self.functions)
        return folded[name.lower()]

    def changes(self, name: str, since: int) -> Changes:
        """The retained changes of a table or view after the epoch `since`."""
        entry = self.entry(name)
        self.refuse_uncommitted(since)
        if since < self.horizon and since != 0:
            raise self._expired(since)
        if since == 0 and self.horizon > 0:
            raise self._expired(since)
        return self.history.get(entry.node, History()).since(int(since))

    def refuse_uncommitted(self, epoch: int) -> None:
        """Raise unless this is the number of an epoch that has been committed."""
        check_epoch(epoch)
        if epoch > self.epoch:
            raise HistoryError(
                f"epoch {epoch} has not been committed yet",
                detail=f"the last committed epoch is {self.epoch}",
            )

    def undone(self, name: str, epoch: int) -> Changes:
        """The changes to take back from the contents now for those at an epoch."""
        entry = self.entry(name)
        check_epoch(epoch)
        if epoch < entry.created:
            word = "view" if isinstance(entry, ViewEntry) else "table"
            raise HistoryError(
                f"{word} '{entry.name}' did not exist at epoch {epoch}",
                detail=f"it was created at epoch {entry.created}",
            )
        if isinstance(entry, ViewEntry) and entry.since is not None and epoch < entry.since:
            raise HistoryError(
                f"view '{entry.part_of or entry.name}' cannot be read as of epoch {epoch}",
                detail=f"what keeps it was derived anew by a redefinition at epoch {entry.since}",
            )
        return self.changes(name, epoch)

    def _expired(self, since: int) -> HistoryError:
        return HistoryError(
            f"the changes since epoch {since} are no longer retained",
            detail=f"retained: epochs {self.horizon + 1} to {self.epoch}",
            hint=f"ask for since={self.horizon} or later, or open with a larger retention",
        )

    def epoch_at(self, instant: int, shown: str, store: Store) -> int:
        """The last epoch that was committed at an instant or before it; `shown` is its text."""
        found = self.times.at(instant, store)
        if found is not None and found >= self.horizon:
            return found
        first = next((int(epochs[0]) for epochs, _ in self.times.known(store, self.horizon)), None)
        if self.horizon:
            raise HistoryError(
                f"what there was at {shown} is no longer retained",
                detail=f"retained: epochs {self.horizon} to {self.epoch}",
                hint="db.commits() lists when epochs were committed",
            )
        if first is None or first > 1:
            unknown = self.epoch if first is None else first - 1
            raise HistoryError(
                f"the epoch at {shown} is not known",
                detail=f"epochs up to {unknown} were committed before their times were noted",
                hint="give the epoch by its number",
            )
        raise HistoryError(
            f"nothing had been committed at {shown}",
            hint="db.commits() lists when epochs were committed",
        )

    @property
    def segments(self) -> Iterator[Segment]:
        """Every data file that the state needs; one may come several times."""
        for trace in self.traces.values():
            yield from trace.segments
        for past in self.history.values():
            yield from past.segments
        yield from self.times.segments

    @property
    def paths(self) -> frozenset[str]:
        """The name of every data file that the state needs."""
        return frozenset(segment.path for segment in self.segments)

    def files_of(self, node: str) -> set[str]:
        """The names of the files that the contents and the history of a node need."""
        found: set[str] = set()
        if node in self.traces:
            found.update(segment.path for segment in self.traces[node].segments)
        if node in self.history:
            found.update(segment.path for segment in self.history[node].segments)
        return found

    def succeeded(self) -> State:
        """The state as that of the next epoch, which is committed now."""
        epoch = self.epoch + 1
        return replace(self, epoch=epoch, times=self.times.plus(epoch, self.times.next()))

    def retaining(self, epochs: int | None) -> State:
        """The state with at most so many epochs of history."""
        if epochs is None or self.epoch - epochs <= self.horizon:
            return self
        return self.after(self.epoch - epochs)

    def after(self, horizon: int) -> State:
        """The state without the history up to a horizon."""
        kept = {node: past.after(horizon) for node, past in self.history.items()}
        kept = {node: past for node, past in kept.items() if past}
        return replace(self, history=kept, horizon=horizon, times=self.times.after(horizon))


# ---- JSON --------------------------------------------------------------------------------------


def check_epoch(epoch: object) -> None:
    if isinstance(epoch, bool) or not isinstance(epoch, Integral):
        raise HistoryError(
            f"{epoch!r} is not an epoch",
            detail="epochs are whole numbers, counted from 1",
            hint="db.epoch is the last one",
        )


def schema_to_json(schema: Schema) -> list[list[Any]]:
    return [[f.name, f.type, f.nullable] for f in schema]


def schema_from_json(data: list[list[Any]]) -> Schema:
    return Schema(tuple(Field(name, type_, nullable) for name, type_, nullable in data))


def entry_to_json(entry: Entry) -> dict[str, Any]:
    common = {"name": entry.name, "schema": schema_to_json(entry.schema), "node": entry.node}
    match entry:
        case TableEntry():
            return {
                "kind": "table",
                **common,
                "key": list(entry.key),
                "incarnation": entry.incarnation,
                "declared": sorted(entry.declared.items()),
                "created": entry.created,
                "part_of": entry.part_of,
                **({"comments": dict(entry.comments)} if entry.comments else {}),
                **({} if entry.level is None else {"level": entry.level.to_json()}),
                **({"index": list(entry.index)} if entry.index else {}),
                **({"said": dict(entry.said)} if entry.said else {}),
                **({} if entry.lateness is None else {"lateness": entry.lateness.to_json()}),
            }
        case ViewEntry():
            return {
                "kind": "view",
                **common,
                "definition": definition_to_json(entry.definition),
                "term": entry.term,
                "scalars": list(entry.scalars),
                "spark": entry.spark,
                "created": entry.created,
                "policy": entry.policy.value,
                "factorisation": None
                if entry.factorisation is None
                else entry.factorisation.to_json(),
                **({} if entry.level is None else {"level": entry.level.to_json()}),
                "part_of": entry.part_of,
                "settings": None if entry.settings is None else dict(entry.settings.values),
                **({"said": dict(entry.said)} if entry.said else {}),
                **({} if entry.reads is None else {"reads": _reads_to_json(entry.reads)}),
                **({} if entry.stale is None else {"stale": entry.stale}),
                **({} if entry.since is None else {"since": entry.since}),
                **({"index": list(entry.index)} if entry.index else {}),
            }


def _reads_to_json(reads: Mapping[str, Schema]) -> dict[str, Any]:
    return {name: schema_to_json(schema) for name, schema in reads.items()}


def _reads_from_json(data: Mapping[str, Any] | None) -> dict[str, Schema] | None:
    if data is None:
        return None
    return {name: schema_from_json(schema) for name, schema in data.items()}


def _declared(data: Mapping[str, Any]) -> dict[int, str]:
    """The declared types of a table; early databases have the lengths of texts alone."""
    padded = data.get("padded", ())
    early = {
        i: json.dumps(f"{'char' if i in padded else 'varchar'}({most})")
        for i, most in data.get("lengths", ())
    }
    return early | dict(data.get("declared", ()))


def entry_from_json(data: Mapping[str, Any]) -> Entry:
    schema = schema_from_json(data["schema"])
    if data["kind"] == "table":
        return TableEntry(
            name=data["name"],
            schema=schema,
            key=tuple(data["key"]),
            incarnation=data["incarnation"],
            declared=_declared(data),
            node=data["node"],
            # Early databases do not say when; 0 refuses no epoch.
            created=data.get("created", 0),
            part_of=data.get("part_of"),
            comments=data.get("comments", {}),
            level=None if "level" not in data else Level.from_json(data["level"]),
            index=tuple(data.get("index", ())),
            said=data.get("said", {}),
            lateness=None if "lateness" not in data else Lateness.from_json(data["lateness"]),
        )
    early = "definition" not in data
    said = data.get("said", {})
    return ViewEntry(
        name=data["name"],
        schema=schema,
        node=data["node"],
        definition=early_definition(data) if early else definition_from_json(data["definition"]),
        term=data["term"],
        scalars=tuple(data["scalars"]),
        spark=data["spark"],
        created=data["created"],
        policy=Policy(data.get("policy", Policy.FIRST_ORDER.value)),
        factorisation=Factorisation.from_json(data.get("factorisation")),
        level=None if "level" not in data else Level.from_json(data["level"]),
        part_of=data.get("part_of"),
        settings=Settings.of_json(data.get("settings")),
        said=options_said(said) if early else said,
        reads=_reads_from_json(data.get("reads")),
        stale=data.get("stale"),
        since=data.get("since"),
        index=tuple(data.get("index", ())),
    )
