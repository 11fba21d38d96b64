"""Random rules under random transactions, against an evaluator in memory after every step."""

from __future__ import annotations

import tempfile

import pytest
from hypothesis import given, note
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import rekindle
from rekindle.runtime.database import Database
from tests.external.souffle_components import Program, flattened
from tests.external.souffle_naive import evaluate
from tests.external.souffle_syntax import parse
from tests.property.oracle import collected
from tests.property.rules import TABLES, RuleSet, rule_sets
from tests.property.test_campaign import BOUNDED, LONG

Facts = dict[str, set[tuple[int, ...]]]
_VALUES = st.integers(0, 5)


@BOUNDED
@given(st.data())
def test_rules_follow_every_change(spark: SparkSession, data: st.DataObject) -> None:
    _follow(spark, data)


@pytest.mark.fuzz
@LONG
@given(st.data())
def test_rules_follow_every_change_for_long(spark: SparkSession, data: st.DataObject) -> None:
    _follow(spark, data)


def _follow(spark: SparkSession, data: st.DataObject) -> None:
    rules = data.draw(rule_sets(), "rules")
    note(rules.text)
    program = flattened(parse(rules.declared))
    facts: Facts = {name: set() for name in TABLES}
    with tempfile.TemporaryDirectory() as path, rekindle.connect(path, spark=spark) as db:
        for name, width in TABLES.items():
            db.sql(f"CREATE TABLE {name} ({', '.join(f'c{i} BIGINT' for i in range(width))})")
        _move(db, facts, data)
        db.datalog(rules.text)
        _check(db, program, rules, facts)
        for _ in range(data.draw(st.integers(2, 5), "steps")):
            _move(db, facts, data)
            _check(db, program, rules, facts)


def _move(db: Database, facts: Facts, data: st.DataObject) -> None:
    """One transaction: some rows of the tables leave, others come, some of them again."""
    with db.transaction() as transaction:
        for name, width in TABLES.items():
            rows = st.lists(st.tuples(*[_VALUES] * width), max_size=6, unique=True)
            chosen = data.draw(rows, name)
            gone = [row for row in chosen if row in facts[name]]
            new = [row for row in chosen if row not in facts[name]]
            if gone:
                transaction.delete(name, gone)
            if new:
                transaction.insert(name, new)
            facts[name] = facts[name].difference(gone).union(new)


def _check(db: Database, program: Program, rules: RuleSet, facts: Facts) -> None:
    expected = evaluate(program, facts)
    for name in rules.arities:
        assert collected(db.table(name)) == dict.fromkeys(expected[name], 1)
