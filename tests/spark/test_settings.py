"""A view means what it meant when it was made, whatever the session is set to later."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import rekindle
from rekindle.calculus.schema import Schema
from rekindle.catalyst.jvm import Catalyst
from rekindle.catalyst.settings import Settings
from rekindle.errors import CheckError, CorruptionError, DefinitionError, EvaluationError
from rekindle.frontends.spark_sql.definition import SqlDefinition
from rekindle.runtime.database import Database
from rekindle.runtime.epochs.state import ViewEntry, entry_from_json, entry_to_json

MADE = {
    "spark.sql.session.timeZone": "America/New_York",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
    "spark.sql.legacy.timeParserPolicy": "LEGACY",
}
LATER = {
    "spark.sql.session.timeZone": "Asia/Tokyo",
    "spark.sql.ansi.enabled": "false",
    "spark.sql.mapKeyDedupPolicy": "EXCEPTION",
    "spark.sql.caseSensitive": "true",
}
VIEWS = {
    "days": "SELECT date(at) AS day, count(*) AS n, max(hour(at)) AS h FROM t GROUP BY date(at)",
    "texts": "SELECT ID, string(at) AS s, TIMESTAMP '2024-01-01 00:00:00' AS new_year FROM t",
    "maps": "SELECT id, map_from_arrays(array(1, 1), array(id, id + 1)) AS m FROM t",
    "parsed": "SELECT id, to_date(said, 'yyyy-MM-dd') AS d FROM t",
    "windows": "SELECT id, row_number() OVER (PARTITION BY date(at) ORDER BY id) AS r FROM t",
    "quotients": "SELECT id, 10 div (id - 99) AS q FROM t",
}


@contextmanager
def set_to(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[SparkSession]:
    """A session of its own with these settings."""
    session = spark.newSession()
    for name, value in settings.items():
        session.conf.set(name, value)
    try:
        yield session
    finally:
        spark._jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(spark._jsparkSession)


@pytest.fixture
def made(spark: SparkSession, warehouse: str) -> str:
    """A database with views that were made under `MADE`."""
    with set_to(spark, MADE) as session, rekindle.connect(warehouse, session) as db:
        db.sql("CREATE TABLE t (id BIGINT, at TIMESTAMP, said STRING)")
        for name, query in VIEWS.items():
            db.create_view(name, query)
        db.create_view("frame", db.table("t").select(F.date_trunc("day", "at").alias("d"), "id"))
        db.sql("INSERT INTO t VALUES (1, TIMESTAMP '2024-05-01 23:30:00', '2024-5-1 and more')")
    return warehouse


def _check_all(db: Database) -> None:
    for name in [*VIEWS, "frame"]:
        db.check(name)


@pytest.mark.parametrize("placement", ["inline", "spark"])
def test_a_view_keeps_its_meaning_in_another_session(
    spark: SparkSession, made: str, placement: str
) -> None:
    with set_to(spark, LATER) as session, rekindle.connect(made, session) as db:
        db.check("days")
        db.place(placement)
        # 2024-05-02 04:30 UTC: just after midnight in New York.
        db.sql("INSERT INTO t VALUES (2, TIMESTAMP '2024-05-02 13:30:00', '2024-5-2x')")
        db.sql("DELETE FROM t WHERE id = 1")
        _check_all(db)
        (row,) = db.table("days").selectExpr("string(day) AS day", "n", "h").collect()
        assert tuple(row) == ("2024-05-02", 1, 0)
        (text,) = db.table("texts").collect()
        assert text.s == "2024-05-02 00:30:00"
        assert [r.m for r in db.table("maps").collect()] == [{1: 3}]
        assert [str(r.d) for r in db.table("parsed").collect()] == ["2024-05-02"]
        with pytest.raises(EvaluationError, match="DIVIDE_BY_ZERO"):
            db.sql("INSERT INTO t VALUES (99, NULL, NULL)")


def test_settings_that_change_under_an_open_connection(spark: SparkSession, made: str) -> None:
    with set_to(spark, MADE) as session, rekindle.connect(made, session) as db:
        db.sql("INSERT INTO t VALUES (2, TIMESTAMP '2024-05-02 20:00:00', '2024-5-2x')")
        for name, value in LATER.items():
            session.conf.set(name, value)
        db.sql("INSERT INTO t VALUES (3, TIMESTAMP '2024-05-02 09:00:00', '2024-5-3x')")
        for name in ("days", "maps", "windows"):
            db.check(name)


def test_views_of_different_settings_stand_side_by_side(spark: SparkSession, made: str) -> None:
    with set_to(spark, LATER) as session, rekindle.connect(made, session) as db:
        db.create_view("days_here", VIEWS["days"])
        db.create_view("quotients_here", VIEWS["quotients"])
        db.drop_view("quotients")
        db.sql("INSERT INTO t VALUES (99, TIMESTAMP '2024-05-02 13:30:00', '2024-5-2')")
        days = {
            name: sorted(str(row.day) for row in db.table(name).collect())
            for name in ("days", "days_here")
        }
        assert days == {"days": ["2024-05-01", "2024-05-02"], "days_here": ["2024-05-02"]}
        for name in ("days", "days_here", "maps"):
            db.check(name)


def test_explain_says_what_the_session_has_otherwise(spark: SparkSession, made: str) -> None:
    with set_to(spark, LATER) as session, rekindle.connect(made, session) as db:
        text = str(db.explain("days"))
        assert "spark.sql.session.timeZone = America/New_York" in text
        assert "spark.sql.ansi.enabled = true" in text
        assert "storeAssignmentPolicy" not in text
        assert "America/New_York" in json.loads(db.explain("days").json())["settings"]
    with set_to(spark, MADE) as session, rekindle.connect(made, session) as db:
        assert "New_York" not in str(db.explain("days"))


def test_the_session_of_the_day_would_give_a_difference(spark: SparkSession, made: str) -> None:
    """The control: without the settings that it was made under, the view is another query."""
    with set_to(spark, LATER) as session, rekindle.connect(made, session) as db:
        entry = db._engine.state.entry("days")
        assert isinstance(entry, ViewEntry)
        object.__setattr__(entry, "settings", None)
        with pytest.raises(CheckError, match="'days' differs"):
            db.check("days")


def test_an_entry_without_settings_is_read() -> None:
    """Databases of early versions do not say."""
    settings = Settings.of({"spark.sql.ansi.enabled": "false"})
    query = SqlDefinition("q")
    entry = ViewEntry("v", Schema(()), "n", query, "t", (), "4.3.0", 1, settings=settings)
    data = json.loads(json.dumps(entry_to_json(entry)))
    assert entry_from_json(data) == entry
    del data["settings"]
    assert entry_from_json(data) == replace(entry, settings=None)


@pytest.mark.parametrize(
    "settings",
    [{"spark.sql.catalog.evil": "some.Class"}, {"spark.sql.ansi.enabled": 1}, ["zone"], "zone"],
)
def test_settings_that_are_none_are_damage(settings: object) -> None:
    """A log that somebody else wrote sets nothing that could load a class."""
    with pytest.raises(CorruptionError, match="decides nothing about queries"):
        Settings.of_json(settings)


def test_a_setting_that_this_spark_refuses_is_named(spark: SparkSession) -> None:
    wanted = Settings.of({"spark.sql.session.timeZone": "Middle/Earth"})
    with pytest.raises(DefinitionError, match="timeZone cannot be 'Middle/Earth'"):
        Catalyst(spark).copy_with(wanted)
