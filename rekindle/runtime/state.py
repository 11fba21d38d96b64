"""The state of a database at an epoch: one immutable value, and its JSON form.

Everything a reader needs is here: what tables and views there are, the trace of each node, and the
runs by which tables and views changed at each retained epoch. A transaction makes the next state;
the commit log (`log.py`) makes it durable.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any

from rekindle.calculus.schema import Field, Schema
from rekindle.errors import HistoryError, unknown_name
from rekindle.frontends.spark_sql.settings import Settings
from rekindle.incremental.policies.choice import Policy
from rekindle.incremental.policies.factorised import Factorisation
from rekindle.runtime.models import ModelSpec
from rekindle.runtime.recursion import Loop
from rekindle.traces.segment import Run
from rekindle.traces.trace import Trace


@dataclass(frozen=True, slots=True)
class TableEntry:
    """A table: its columns, its primary key, and a mark that tells it from namesakes.

    `declared` has the types of columns with a CHAR(n) or VARCHAR(n), by their positions.
    """

    name: str
    schema: Schema
    key: tuple[int, ...]
    incarnation: str
    node: str
    created: int
    declared: Mapping[int, str] = field(default_factory=dict)
    part_of: str | None = None
    """The view that the table feeds, which keeps no rows then and is not shown."""
    comments: Mapping[str, str] = field(default_factory=dict)
    """What was said of columns, by their names, and of the table, by no name."""


@dataclass(frozen=True, slots=True)
class ViewEntry:
    """A view: its definition as the user wrote it and as a term, and its columns.

    A view with a `factorisation` has no node of its own: it stands for the collections that the
    views with its name in `part_of` keep, which users do not see.
    """

    name: str
    schema: Schema
    node: str
    sql: str | None
    term: str
    scalars: tuple[str, ...]
    plan: str | None
    spark: str
    created: int
    loop: Loop | None = None
    policy: Policy = Policy.FIRST_ORDER
    model: ModelSpec | None = None
    factorisation: Factorisation | None = None
    part_of: str | None = None
    settings: Settings | None = None
    """What the session was set to when the view was made; early databases do not say."""
    said: Mapping[str, str] = field(default_factory=dict)
    """What the user said beside the query: options, a comment, the text in another language."""


Entry = TableEntry | ViewEntry


@dataclass(frozen=True, slots=True)
class Change:
    """The run by which a table or view changed at an epoch."""

    epoch: int
    run: Run


@dataclass(frozen=True, slots=True)
class State:
    """A database at `epoch`."""

    epoch: int = 0
    entries: Mapping[str, Entry] = field(default_factory=dict)
    traces: Mapping[str, Trace] = field(default_factory=dict)
    history: Mapping[str, tuple[Change, ...]] = field(default_factory=dict)
    horizon: int = 0
    """Changes at epochs up to this one are no longer retained."""

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
        return [entry for entry in self.entries.values() if entry.part_of is None]

    def parts(self, name: str) -> list[Entry]:
        """What stands behind a view: the collections of a factorised one, the feed of a fed one."""
        return [entry for entry in self.entries.values() if entry.part_of == name]

    def knows(self, name: str) -> bool:
        return name.lower() in self._folded()

    def _folded(self) -> dict[str, str]:
        return {name.lower(): name for name in self.entries}

    def changes(self, name: str, since: int) -> tuple[Change, ...]:
        """The retained changes of a table or view after the epoch `since`."""
        entry = self.entry(name)
        _check_epoch(since)
        if since > self.epoch:
            raise HistoryError(
                f"epoch {since} has not been committed yet",
                detail=f"the last committed epoch is {self.epoch}",
            )
        if since < self.horizon and since != 0:
            raise self._expired(since)
        if since == 0 and self.horizon > 0:
            raise self._expired(since)
        found = self.history.get(entry.node, ())
        return tuple(change for change in found if change.epoch > since)

    def undone(self, name: str, epoch: int) -> tuple[Change, ...]:
        """The changes to take back from the contents now for those at an epoch."""
        entry = self.entry(name)
        _check_epoch(epoch)
        if epoch < entry.created:
            word = "view" if isinstance(entry, ViewEntry) else "table"
            raise HistoryError(
                f"{word} '{entry.name}' did not exist at epoch {epoch}",
                detail=f"it was created at epoch {entry.created}",
            )
        return self.changes(name, epoch)

    def _expired(self, since: int) -> HistoryError:
        return HistoryError(
            f"the changes since epoch {since} are no longer retained",
            detail=f"retained: epochs {self.horizon + 1} to {self.epoch}",
            hint=f"ask for since={self.horizon} or later, or open with a larger retention",
        )

    @property
    def paths(self) -> frozenset[str]:
        """Every data file that the state needs."""
        stored = {s.path for trace in self.traces.values() for s in trace.segments}
        changed = {
            path
            for changes in self.history.values()
            for change in changes
            for path in change.run.paths
        }
        return frozenset(stored | changed)

    def retaining(self, epochs: int | None) -> State:
        """The state with at most so many epochs of history."""
        if epochs is None or self.epoch - epochs <= self.horizon:
            return self
        horizon = self.epoch - epochs
        kept = {
            node: tuple(change for change in changes if change.epoch > horizon)
            for node, changes in self.history.items()
        }
        return replace(self, history=kept, horizon=horizon)


# ---- JSON --------------------------------------------------------------------------------------


def _check_epoch(epoch: object) -> None:
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
            }
        case ViewEntry():
            return {
                "kind": "view",
                **common,
                "sql": entry.sql,
                "term": entry.term,
                "scalars": list(entry.scalars),
                "plan": entry.plan,
                "spark": entry.spark,
                "created": entry.created,
                "loop": None if entry.loop is None else entry.loop.to_json(),
                "policy": entry.policy.value,
                "model": None if entry.model is None else entry.model.to_json(),
                "factorisation": None
                if entry.factorisation is None
                else entry.factorisation.to_json(),
                "part_of": entry.part_of,
                "settings": None if entry.settings is None else dict(entry.settings.values),
                **({"said": dict(entry.said)} if entry.said else {}),
            }


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
        )
    return ViewEntry(
        name=data["name"],
        schema=schema,
        node=data["node"],
        sql=data["sql"],
        term=data["term"],
        scalars=tuple(data["scalars"]),
        plan=data["plan"],
        spark=data["spark"],
        created=data["created"],
        loop=Loop.from_json(data.get("loop")),
        policy=Policy(data.get("policy", Policy.FIRST_ORDER.value)),
        model=ModelSpec.from_json(data.get("model")),
        factorisation=Factorisation.from_json(data.get("factorisation")),
        part_of=data.get("part_of"),
        settings=Settings.of_json(data.get("settings")),
        said=data.get("said", {}),
    )


def change_to_json(change: Change) -> dict[str, Any]:
    return {"epoch": change.epoch, "run": change.run.to_json()}


def change_from_json(data: Mapping[str, Any]) -> Change:
    return Change(data["epoch"], Run.from_json(data["run"]))
