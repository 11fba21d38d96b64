"""A nested view equals the reference semantics of its comprehension after every step."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import rekindle
from rekindle.errors import UnsupportedError
from rekindle.frontends.comprehension.front_end import elaborate
from rekindle.nested.types import Mapping, Record
from rekindle.runtime.database import Database
from tests.nested_collections.comprehensions.reference import reference, ring_of, rows_of
from tests.nested_collections.comprehensions.texts import NESTED, SOURCES, wholes

EXAMPLES = int(os.environ.get("REKINDLE_FUZZ_EXAMPLES", "60"))

small = st.one_of(st.integers(0, 3), st.integers(0, 3), st.none())
TABLES: dict[str, Any] = {
    "r": st.tuples(small, small),
    "s": st.tuples(small, small),
    "arrays": st.tuples(
        small,
        st.one_of(st.none(), st.lists(small, max_size=3)),
        st.lists(st.tuples(small, st.lists(small, max_size=2)), max_size=2),
    ),
}


YS = st.none() | st.lists(st.tuples(small), max_size=2)
ELEMENTS = st.tuples(small, YS)
KEYS = st.integers(0, 2)
DEEP = st.one_of(
    st.tuples(
        st.just("upsert"),
        KEYS,
        st.none() | st.lists(small, max_size=2),
        st.none() | st.lists(ELEMENTS, max_size=2),
    ),
    st.tuples(st.just("delete"), KEYS),
    st.tuples(st.just("insert"), KEYS, ELEMENTS),
    st.tuples(st.just("insert"), KEYS, ELEMENTS),
    st.tuples(st.just("deeper"), KEYS, st.integers(0, 3), small),
    st.tuples(st.just("remove"), KEYS, st.integers(0, 3)),
)
"""Changes of the table that is kept in parts: of rows, of elements, and of elements of these."""


@st.composite
def changes(draw: st.DrawFn) -> dict[str, Any]:
    """Rows to add to some tables, and the share of what is there to take away; deep changes."""
    names = [*TABLES, "kept"]
    chosen = draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
    found: dict[str, Any] = {
        name: (
            draw(st.lists(TABLES[name], max_size=3)),
            draw(st.sampled_from([0.0, 0.0, 0.5, 1.0])),
        )
        for name in chosen
        if name in TABLES
    }
    return found | {"kept": draw(st.lists(DEEP, max_size=3)) if "kept" in chosen else []}


def deepened(tx: Any, rows: dict[int, Any], kind: str, key: int, *given: Any) -> None:
    """Change the table that is kept in parts, and what it is held to."""
    there = rows.get(key)
    if kind == "upsert":
        rows[key] = (key, *given)
        tx.upsert("kept", [rows[key]])
        return
    if there is None:
        return
    inner = list(there[2] or [])
    match kind, given:
        case "delete", ():
            tx.delete("kept", [rows.pop(key)])
            return
        case "insert", (element,):
            tx.nested("kept", key, "inner").insert([element])
            inner.append(element)
        case "deeper", (x, y):
            places = [i for i, (each, _) in enumerate(inner) if each == x]
            if len(places) == 1:
                tx.nested("kept", key, "inner", {"x": x}, "ys").insert([(y,)])
                inner[places[0]] = (x, [*(inner[places[0]][1] or []), (y,)])
        case "remove", (x,):
            tx.nested("kept", key, "inner").delete_where({"x": x})
            inner = [each for each in inner if each[0] != x]
    rows[key] = (*there[:2], inner)


@pytest.fixture(scope="module")
def db(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    found = rekindle.connect(str(tmp_path_factory.mktemp("nested") / "db"), spark=spark)
    found.sql("CREATE TABLE r (k INT, a INT)")
    found.sql("CREATE TABLE s (k INT, b INT)")
    found.sql(
        "CREATE TABLE arrays (id INT, tags ARRAY<INT>, inner ARRAY<STRUCT<x: INT, ys: ARRAY<INT>>>)"
    )
    found.sql(
        "CREATE TABLE kept (id INT, tags ARRAY<INT>, "
        "inner ARRAY<STRUCT<x: INT, ys: ARRAY<STRUCT<y: INT>>>>, PRIMARY KEY (id))"
    )
    found.create_view("nested", rekindle.comprehension(NESTED))
    yield found
    found.close()


def law(db: Database, texts: list[str], steps: list[dict[str, Any]]) -> None:
    """Views of some texts equal their meaning when they are made and after every step."""
    held: dict[str, list[Any]] = {name: [] for name in TABLES}
    kept: dict[int, Any] = {}
    with db.transaction() as tx:
        for name in [*TABLES, "kept"]:
            tx.delete(name, db.table(name))
    catalog = db._connection.definitions.catalog
    views = {}
    try:
        for i, text in enumerate(texts):
            term = elaborate(text, catalog).term
            try:
                db.create_view(f"v{i}", rekindle.comprehension(text))
            except UnsupportedError:
                continue
            views[f"v{i}"] = (text, term)
        for step in steps:
            with db.transaction() as tx:
                for each in step["kept"]:
                    deepened(tx, kept, *each)
                for name in TABLES.keys() & step:
                    added, share = step[name]
                    gone = held[name][: int(len(held[name]) * share)]
                    held[name] = held[name][len(gone) :] + added
                    tx.delete(name, gone)
                    tx.insert(name, added)
            tables = {name: rows_of(held[name], SOURCES[name]) for name in TABLES}
            tables["kept"] = rows_of(kept.values(), SOURCES["kept"])
            assert rows_of(db.table("kept").collect(), SOURCES["kept"]) == tables["kept"]
            tables["nested"] = reference(elaborate(NESTED, catalog).term, tables)
            assert rows_of(db.table("nested").collect(), SOURCES["nested"]) == tables["nested"]
            for name, (text, term) in views.items():
                assert isinstance(term.type, Mapping)
                found = db.table(name).collect()
                single = len(db.table(name).columns) == 1 and not _is_row(term)
                rows = [row[0] for row in found] if single else found
                assert ring_of(rows, term.type) == reference(term, tables), text
                looked_up(db, name)
    finally:
        for name in views:
            db.drop_view(name)


def looked_up(db: Database, view: str) -> None:
    """Rows that are looked up by their numbers are those of all that have these."""
    whole = db.arrow(view)
    for column in (f.name for f in whole.schema if pa.types.is_integer(f.type)):
        for wanted in (1, [0, 3]):
            found = db.arrow(view, where={column: wanted}).to_pylist()
            values = wanted if isinstance(wanted, list) else [wanted]
            expected = [row for row in whole.to_pylist() if row[column] in values]
            assert sorted(map(str, found)) == sorted(map(str, expected)), (view, column)


def _is_row(term: Any) -> bool:
    return isinstance(term.type.key, Record)


DEPTHS = st.sampled_from([2, 2, 2, 3, 4])
"""How deep texts are nested: most errors are at little depth, and what is deep takes longest."""


@settings(
    max_examples=6,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(
    st.lists(DEPTHS.flatmap(wholes), min_size=2, max_size=4),
    st.lists(changes(), min_size=2, max_size=3),
)
def test_views_equal_their_meaning(db: Database, texts: Any, steps: Any) -> None:
    law(db, texts, steps)


@pytest.mark.fuzz
@settings(
    max_examples=EXAMPLES,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(
    st.lists(st.integers(1, 4).flatmap(wholes), min_size=1, max_size=4),
    st.lists(changes(), min_size=1, max_size=4),
)
def test_many_views_equal_their_meaning(db: Database, texts: Any, steps: Any) -> None:
    law(db, texts, steps)
