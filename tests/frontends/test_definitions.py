"""The definitions of views as data: each front end has one, and every stored form is read back.

No Spark is started here.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, get_args

import pytest

from rekindle.calculus.terms import Bound
from rekindle.frontends.agca.definition import AgcaDefinition
from rekindle.frontends.comprehension.definition import ComprehensionDefinition
from rekindle.frontends.dataframes.definition import FrameDefinition
from rekindle.frontends.datalog.definition import DatalogDefinition
from rekindle.frontends.definition import ViewFacts
from rekindle.frontends.fixpoints.definition import FixpointDefinition, Iterated, Nested
from rekindle.frontends.iteration import LIMIT
from rekindle.frontends.mrql.definition import MrqlDefinition
from rekindle.frontends.mrql.loops import Loop, Turning
from rekindle.frontends.spark_sql.definition import SqlDefinition
from rekindle.runtime.models.definition import ModelDefinition
from rekindle.runtime.models.model import ModelSpec
from rekindle.runtime.views.definition import (
    ViewDefinition,
    check_definition,
    definition_from_json,
    definition_to_json,
    early_definition,
    options_said,
)
from rekindle.runtime.views.front_ends import FRONT_ENDS, front_end_of
from rekindle.shapes import ShapeError

SPEC = ModelSpec("y", ("x",), "ridge", 0.5, query="SELECT x, y FROM t", centres={"x": 1.5})
DEFINITIONS: list[ViewDefinition] = [
    SqlDefinition("SELECT 1"),
    FrameDefinition("AAAA"),
    AgcaDefinition("q[x] = t(x)", "SELECT x FROM t"),
    DatalogDefinition("p(x) :- t(x).", ("p",), ("SELECT x FROM t",), 0, LIMIT, recursive=False),
    DatalogDefinition("", ("p", "q"), ("SELECT 1", "SELECT 2"), 1, 9, recursive=True),
    FixpointDefinition(
        "AAAA",
        Iterated(("·v",), 9),
        0,
        (Nested(Iterated(("·v.in",), 5), ("·v.in·result",), ("·v",)),),
    ),
    ModelDefinition(SPEC, SqlDefinition("SELECT sum(x) FROM t")),
    ModelDefinition(ModelSpec("y", ("x",)), FrameDefinition("BBBB")),
]
LATER: list[ViewDefinition] = [
    ComprehensionDefinition("for x in t yield x", ((1, "SELECT * FROM t"), (-2, "SELECT 1"))),
    MrqlDefinition("select t.x from t in T", "f = 1;", "SELECT x FROM T"),
]
"""What early databases have no form of."""
EARLY: list[dict[str, Any]] = [
    {"sql": "SELECT 1", "plan": None},
    {"sql": None, "plan": "AAAA"},
    {"sql": "SELECT x FROM t", "plan": None, "said": {"agca": "q[x] = t(x)", "comment": "c"}},
    {"name": "p", "sql": "SELECT x FROM t", "plan": None, "said": {"datalog": "p(x) :- t(x)."}},
    {
        "sql": None,
        "plan": None,
        "loop": {"names": ["p", "q"], "queries": ["SELECT 1", "SELECT 2"], "output": 1, "limit": 9},
    },
    {
        "sql": None,
        "plan": "AAAA",
        "loop": {
            "names": ["·v"],
            "queries": [],
            "output": 0,
            "limit": 9,
            "nested": [["·v.in", "·v.in·result", 5, ["·v"]]],
        },
    },
    {"sql": "SELECT sum(x) FROM t", "plan": None, "model": SPEC.to_json(), "loop": None},
    {"sql": None, "plan": "BBBB", "model": ModelSpec("y", ("x",)).to_json()},
]
"""The same as one record with optional fields, which early databases have."""


def test_each_definition_has_one_front_end() -> None:
    kept = [each.keeps for each in FRONT_ENDS]
    assert len(kept) == len(set(kept))
    assert (
        set(kept)
        == set(get_args(ViewDefinition))
        == {type(each) for each in (*DEFINITIONS, *LATER)}
    )
    assert len({each.kind for each in get_args(ViewDefinition)}) == len(kept)
    for each in DEFINITIONS:
        assert front_end_of(each).keeps is type(each)


@pytest.mark.parametrize("definition", [*DEFINITIONS, *LATER], ids=lambda each: each.kind)
def test_the_stored_form_is_read_back(definition: ViewDefinition) -> None:
    data = json.loads(json.dumps(definition_to_json(definition)))
    check_definition(data, "it")
    assert definition_from_json(data) == definition
    for field in data:
        with pytest.raises(ShapeError):
            check_definition({name: data[name] for name in data if name != field}, "it")
    with pytest.raises(ShapeError, match="more"):
        check_definition({**data, "more": 1}, "it")


def test_a_fixpoint_of_several_relations_is_read_back() -> None:
    inner = Nested(Iterated(("·in",), 5, Bound.RESULT, (0,)), ("·in·result",), ("·b",))
    definition = FixpointDefinition("AAAA", Iterated(("·a", "·b"), 9, tell=(1,)), 1, (inner,))
    data = json.loads(json.dumps(definition_to_json(definition)))
    check_definition(data, "it")
    assert definition_from_json(data) == definition
    for wrong in (
        {"output": 2},
        {"tell": [2]},
        {"bound": "never"},
        {"together": "b"},
        {"nested": [{**inner.to_json(), "results": []}]},
        {"nested": [{**inner.to_json(), "more": 1}]},
    ):
        with pytest.raises(ShapeError):
            check_definition({**data, **wrong}, "it")


def test_what_stands_for_a_stream_is_read_back() -> None:
    asked = "select t from t in stream(text, 'd')"
    definition = MrqlDefinition(asked, "", "SELECT value FROM d", (("stream text 'd'", "d"),))
    data = json.loads(json.dumps(definition_to_json(definition)))
    check_definition(data, "it")
    assert definition_from_json(data) == definition
    with pytest.raises(ShapeError):
        check_definition({**data, "sources": [["d"]]}, "it")


def test_loops_of_mrql_are_read_back() -> None:
    loop = Loop("·v·1", "SELECT 1 AS c0", "SELECT c0, false FROM `·v·1`", 9, Bound.RESULT)
    definition = MrqlDefinition("repeat x = {1} step x", "", "SELECT 1", loops=(loop,))
    data = json.loads(json.dumps(definition_to_json(definition)))
    check_definition(data, "it")
    assert definition_from_json(data) == definition
    assert definition.is_recursive and loop.first in definition.queries
    together = replace(loop, others=(Turning("·v·1·2", "SELECT 2", "SELECT * FROM `·v·1`"),))
    beside = replace(definition, loops=(together,))
    stored = json.loads(json.dumps(definition_to_json(beside)))
    check_definition(stored, "it")
    assert definition_from_json(stored) == beside
    assert "SELECT 2" in beside.queries and "SELECT * FROM `·v·1`" in beside.queries
    short = data["loops"][0]
    wrongs = (
        ["·v·1"],
        [*short[:3], 0, "error"],
        [*short[:4], "what"],
        [*short, [["·v·2"]]],
        [*short, [], []],
    )
    for wrong in wrongs:
        with pytest.raises(ShapeError):
            check_definition({**data, "loops": [wrong]}, "it")


def test_a_part_of_a_query_is_read_back() -> None:
    definition = SqlDefinition("SELECT collect_list(x) AS xs FROM t", "xs")
    data = json.loads(json.dumps(definition_to_json(definition)))
    check_definition(data, "it")
    assert definition_from_json(data) == definition
    assert definition.is_of_part and not SqlDefinition("SELECT 1").is_of_part
    with pytest.raises(ShapeError):
        check_definition({**data, "part": 1}, "it")


@pytest.mark.parametrize(("early", "definition"), [*zip(EARLY, DEFINITIONS, strict=True)])
def test_the_form_of_early_databases_is_read(
    early: dict[str, Any], definition: ViewDefinition
) -> None:
    assert early_definition(early) == definition
    assert not {"agca", "datalog"} & options_said(early.get("said", {})).keys()


@pytest.mark.parametrize(
    "early",
    [
        {"sql": None, "plan": None},
        {"sql": None, "plan": None, "loop": {**EARLY[4]["loop"], "output": 2}},
        {"sql": None, "plan": None, "loop": {**EARLY[4]["loop"], "queries": ["SELECT 1"]}},
        {"sql": None, "plan": "AAAA", "loop": {**EARLY[5]["loop"], "names": []}},
    ],
)
def test_an_early_form_that_makes_no_sense(early: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        early_definition(early)


@pytest.mark.parametrize("value", [None, 5, {}, {"kind": "cobol"}, {"kind": []}, ["sql"]])
def test_no_definition(value: object) -> None:
    with pytest.raises(ShapeError, match="expected a definition"):
        check_definition(value, "it")


def test_texts_that_make_a_view_again() -> None:
    view = ViewFacts("v", {"comment": "it's", "policy": "view_tree"}, ["t"])
    head = "CREATE MATERIALIZED VIEW v COMMENT 'it\\'s' OPTIONS (policy = 'view_tree') AS\n"
    assert SqlDefinition(" SELECT 1\n").text(view) == f"{head}SELECT 1"
    assert DEFINITIONS[2].text(view) == f"-- written in AGCA: q[x] = t(x)\n{head}SELECT x FROM t"
    assert DEFINITIONS[3].text(view) == "DATALOG\np(x) :- t(x)."
    assert DEFINITIONS[4].text(view).splitlines()[0] == "-- view v is q of the recursion"
