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
from tests.nested_collections.comprehensions.reference import reference, rows_of
from tests.nested_collections.comprehensions.texts import NESTED, SOURCES, Scope, collections

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


@st.composite
def changes(draw: st.DrawFn) -> dict[str, tuple[list[Any], float]]:
    """Rows to add to some tables, and the share of what is there to take away."""
    chosen = draw(st.lists(st.sampled_from(list(TABLES)), min_size=1, max_size=3, unique=True))
    return {
        name: (
            draw(st.lists(TABLES[name], max_size=3)),
            draw(st.sampled_from([0.0, 0.0, 0.5, 1.0])),
        )
        for name in chosen
    }


@pytest.fixture(scope="module")
def db(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    found = rekindle.connect(str(tmp_path_factory.mktemp("nested") / "db"), spark=spark)
    found.sql("CREATE TABLE r (k INT, a INT)")
    found.sql("CREATE TABLE s (k INT, b INT)")
    found.sql(
        "CREATE TABLE arrays (id INT, tags ARRAY<INT>, inner ARRAY<STRUCT<x: INT, ys: ARRAY<INT>>>)"
    )
    found.create_view("nested", rekindle.comprehension(NESTED))
    yield found
    found.close()


def law(db: Database, texts: list[str], steps: list[dict[str, tuple[list[Any], float]]]) -> None:
    """Views of some texts equal their meaning when they are made and after every step."""
    held: dict[str, list[Any]] = {name: [] for name in TABLES}
    with db.transaction() as tx:
        for name in TABLES:
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
                for name, (added, share) in step.items():
                    gone = held[name][: int(len(held[name]) * share)]
                    held[name] = held[name][len(gone) :] + added
                    tx.delete(name, gone)
                    tx.insert(name, added)
            tables = {name: rows_of(held[name], SOURCES[name]) for name in TABLES}
            tables["nested"] = reference(elaborate(NESTED, catalog).term, tables)
            assert rows_of(db.table("nested").collect(), SOURCES["nested"]) == tables["nested"]
            for name, (text, term) in views.items():
                assert isinstance(term.type, Mapping)
                found = db.table(name).collect()
                single = len(db.table(name).columns) == 1 and not _is_row(term)
                rows = [row[0] for row in found] if single else found
                assert rows_of(rows, term.type.key) == reference(term, tables), text
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
    st.lists(DEPTHS.flatmap(lambda depth: collections(Scope(), depth)), min_size=2, max_size=4),
    st.lists(changes(), min_size=2, max_size=3),
)
def test_views_equal_their_meaning(db: Database, texts: Any, steps: Any) -> None:
    law(db, [text for text, _ in texts], steps)


@pytest.mark.fuzz
@settings(
    max_examples=EXAMPLES,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(
    st.lists(st.integers(1, 4).flatmap(lambda d: collections(Scope(), d)), min_size=1, max_size=4),
    st.lists(changes(), min_size=1, max_size=4),
)
def test_many_views_equal_their_meaning(db: Database, texts: Any, steps: Any) -> None:
    law(db, [text for text, _ in texts], steps)
