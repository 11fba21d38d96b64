"""Random transactions over a model of the tables: what a user does, and what must come of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from tests.property.oracle import normalised
from tests.property.schemas import TableSpec

Row = tuple[Any, ...]
STATEMENTS = {
    "delete zeros": "DELETE FROM {t} WHERE k = 0",
    "update ones": "UPDATE {t} SET k = k + 1 WHERE k = 1",
    "insert again": "INSERT INTO {t} SELECT * FROM {t} WHERE k = 2",
    "merge": "MERGE INTO {t} t USING (SELECT 1 AS k) s ON t.k = s.k "
    "WHEN MATCHED THEN UPDATE SET k = 0 WHEN NOT MATCHED BY SOURCE AND t.k = 2 THEN DELETE",
}
VERBS = ("insert", "delete", "upsert", "apply", *STATEMENTS)


@dataclass(frozen=True)
class Edit:
    """One call on one table: `insert`, `delete`, `upsert`, `apply`, or `sql` with its text.

    The rows of `apply` end with their weights.
    """

    verb: str
    table: str
    rows: tuple[Row, ...] = ()
    sql: str = ""


@dataclass
class Model:
    """The tables as lists of rows."""

    specs: dict[str, TableSpec]
    rows: dict[str, list[Row]] = field(default_factory=dict)

    @classmethod
    def empty(cls, specs: Sequence[TableSpec]) -> Model:
        return cls({s.name: s for s in specs}, {s.name: [] for s in specs})

    def apply(self, edit: Edit) -> None:
        """What the edit does to the table's rows."""
        rows = self.rows[edit.table]
        spec = self.specs[edit.table]
        match edit.verb:
            case "insert":
                rows.extend(edit.rows)
            case "delete":
                for row in edit.rows:
                    wanted = normalised(row)
                    rows.pop(next(i for i, r in enumerate(rows) if normalised(r) == wanted))
            case "upsert":
                for row in edit.rows:
                    rows[:] = [r for r in rows if r[0] != row[0]]
                    rows.append(row)
            case "delete zeros":
                k = spec.position("k")
                rows[:] = [r for r in rows if r[k] != 0]
            case "update ones":
                k = spec.position("k")
                rows[:] = [(*r[:k], 2, *r[k + 1 :]) if r[k] == 1 else r for r in rows]
            case "insert again":
                k = spec.position("k")
                rows.extend([r for r in rows if r[k] == 2])
            case "merge":
                k = spec.position("k")
                kept = [r for r in rows if r[k] != 2]
                rows[:] = [(*r[:k], 0, *r[k + 1 :]) if r[k] == 1 else r for r in kept]
            case "apply":
                for *values, weight in edit.rows:
                    for _ in range(weight):
                        rows.append(tuple(values))
                    for _ in range(-weight):
                        wanted = normalised(tuple(values))
                        rows.pop(next(i for i, r in enumerate(rows) if normalised(r) == wanted))


def _fresh_keys(spec: TableSpec, rows: Sequence[Row], taken: set[Any]) -> tuple[Row, ...]:
    """The rows, with unused values of the primary key where there is one."""
    if not spec.keyed:
        return tuple(rows)
    found = []
    for row in rows:
        key = next(i for i in range(10_000) if i not in taken)
        taken.add(key)
        found.append((key, *row[1:]))
    return tuple(found)


@st.composite
def transactions(draw: st.DrawFn, model: Model, most: int = 5, statements: int = 10) -> list[Edit]:
    """Edits that are lawful one after the other; `model` is moved along.

    One in so many is a statement.
    """
    if draw(st.integers(1, statements)) == 1:
        edit = draw(_statements(model))
        model.apply(edit)
        return [edit]
    return draw(calls(model, most))


@st.composite
def loads(draw: st.DrawFn, model: Model) -> list[Edit]:
    """Rows for every table, so many that a group has some which a change does not reach."""
    edits = []
    for spec in model.specs.values():
        new = draw(st.lists(spec.rows(), min_size=12, max_size=24))
        edits.append(Edit("insert", spec.name, _fresh_keys(spec, new, set())))
        model.apply(edits[-1])
    return edits


@st.composite
def calls(draw: st.DrawFn, model: Model, most: int = 5) -> list[Edit]:
    """The same without SQL: their rows are known, so that they can be run in other batches."""
    edits: list[Edit] = []
    for _ in range(draw(st.integers(1, 3))):
        spec = draw(st.sampled_from(list(model.specs.values())))
        rows = model.rows[spec.name]
        taken = {row[0] for row in rows} if spec.keyed else set()
        verbs = ["insert", "insert", "cancel", "empty"]
        if rows:
            verbs += ["delete", "delete", "update", "clear"]
            verbs += ["upsert"] if spec.keyed else ["duplicate", "apply"]
        match draw(st.sampled_from(verbs)):
            case "insert":
                new = draw(st.lists(spec.rows(), min_size=1, max_size=most))
                added = [Edit("insert", spec.name, _fresh_keys(spec, new, taken))]
            case "duplicate":
                added = [Edit("insert", spec.name, tuple(draw(_picked(rows))))]
            case "apply":
                gone = [(*row, -1) for row in draw(_picked(rows))]
                added = [Edit("apply", spec.name, (*gone, (*draw(spec.rows()), 2)))]
            case "cancel":
                new = _fresh_keys(spec, [draw(spec.rows())], taken)
                added = [Edit("insert", spec.name, new), Edit("delete", spec.name, new)]
            case "delete":
                added = [Edit("delete", spec.name, tuple(draw(_picked(rows))))]
            case "clear":
                added = [Edit("delete", spec.name, tuple(rows))]
            case "update":
                old = tuple(draw(_picked(rows)))
                new = draw(st.lists(spec.rows(), min_size=len(old), max_size=len(old)))
                if spec.keyed:
                    new = [(o[0], *n[1:]) for o, n in zip(old, new, strict=True)]
                added = [Edit("delete", spec.name, old), Edit("insert", spec.name, tuple(new))]
            case "upsert":
                new = list(_fresh_keys(spec, draw(st.lists(spec.rows(), max_size=2)), taken))
                new += [(rows[0][0], *draw(spec.rows())[1:])]
                added = [Edit("upsert", spec.name, tuple(new))]
            case _:
                added = [Edit("insert", spec.name, ())]
        for edit in added:
            model.apply(edit)
        edits += added
    return edits


@st.composite
def _statements(draw: st.DrawFn, model: Model) -> Edit:
    spec = draw(st.sampled_from(list(model.specs.values())))
    # Rows that are inserted once more would have the key of others.
    verbs = [verb for verb in STATEMENTS if not (spec.keyed and verb == "insert again")]
    verb = draw(st.sampled_from(verbs))
    return Edit(verb, spec.name, sql=STATEMENTS[verb].format(t=spec.name))


def _picked(rows: Sequence[Row]) -> st.SearchStrategy[list[Row]]:
    """Some of the rows, each at most as often as it is there."""
    most = min(len(rows), 4)
    places = st.lists(st.integers(0, len(rows) - 1), min_size=1, max_size=most, unique=True)
    return places.map(lambda chosen: [rows[i] for i in chosen])
