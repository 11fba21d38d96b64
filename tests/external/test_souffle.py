"""Soufflé's programs: their reader, the evaluator in memory, the translation, and a few in full."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.external.compare import Difference
from tests.external.material import absent, material
from tests.external.souffle import LARGEST, replay, require_published
from tests.external.souffle_cases import Published, places, read
from tests.external.souffle_components import flattened
from tests.external.souffle_dialect import translated
from tests.external.souffle_naive import TooLarge, evaluate
from tests.external.souffle_syntax import NotApplicable, parse


def root() -> Path:
    found = material("souffle")
    if found is None:
        pytest.skip(absent("souffle"))
    return found


def rows(text: str, name: str) -> set[tuple[object, ...]]:
    return evaluate(flattened(parse(text)), {})[name]


def text_of(text: str) -> str:
    return translated(flattened(parse(text))).text


def test_the_evaluator_gives_the_published_results() -> None:
    """Every program with a counterpart, also in the text of our dialect."""
    outcomes: Counter[str] = Counter()
    for place in places(root()):
        try:
            case = read(place)
            found = evaluate(case.program, case.facts, LARGEST)
        except (NotApplicable, TooLarge):
            outcomes["not applicable"] += 1
            continue
        for name in (*case.program.outputs, *case.program.sizes):
            require_published(case, name, list(found[name]))
        assert translated(case.program).tables or translated(case.program).text
        outcomes["as published"] += 1
    assert outcomes == {"as published": 122, "not applicable": 33}


def test_some_of_souffle(spark: SparkSession, tmp_path: Path) -> None:
    chosen = [p for p in places(root()) if p.stem in ("independent_body2", "neg1", "rec_lists")]
    results = replay(spark, tmp_path, chosen, 1, 7, lambda _: None)
    assert results.summary == "3 cases: 2 passed, 1 not applicable"


def test_a_wrong_result_is_seen() -> None:
    program = flattened(parse(".decl a(x: number)\n.output a\na(1)."))
    case = Published("p", program, {}, {"a": ["1"]}, {})
    require_published(case, "a", [(1,)])
    for wrong in ([], [(2,)], [(1,), (1,)]):
        with pytest.raises(Difference):
            require_published(case, "a", wrong)


def test_facts_beside_rules_are_copied_from_a_table() -> None:
    made = translated(flattened(parse(".decl a(x: number)\na(1). a(x + 1) :- a(x), x < 3.")))
    assert made.tables["a"].name == "a_given" and made.tables["a"].rows == [(1,)]
    assert made.text == "a(c0) :- a_given(c0).\na((x + 1L)) :- a(x), x < 3L."


def test_operators_bind_as_souffle_has_it() -> None:
    program = ".decl a(x: number)\na(-2 * 3 + 2 ^ 2 ^ 3 band 15). a(7 / -2). a(-7 % 3)."
    assert rows(program, "a") == {((-6 + 256) & 15,), (-3,), (-1,)}


def test_unsigned_numbers_have_32_bits() -> None:
    program = ".decl a(x: unsigned)\na(0u - 1u). a(bnot(1u))."
    assert rows(program, "a") == {(2**32 - 1,), (2**32 - 2,)}
    assert "((0L - 1L) & 4294967295L)" in text_of(program)


def test_an_aggregate_may_use_the_name_of_its_result() -> None:
    program = ".decl a, b(x: number)\na(1). a(2). b(y) :- y = max y : a(y)."
    assert rows(program, "b") == {(2,)}


def test_names_in_components_are_those_of_the_innermost_instance() -> None:
    program = """
        .comp A { .decl r(x: number) overridable  r(1). }
        .comp B : A { .override r  .decl s(x: number)  r(2). s(x) :- r(x). }
        .init b = B
        .decl s(x: number)
        s(x) :- b.s(x).
    """
    assert rows(program, "s") == {(2,)}
    assert text_of(program) == "s(x) :- b_s(x).\nb_s(x) :- b_r(x)."


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (".type r = [x: number]", "records"),
        (".decl a(x: number) choice-domain x", "choices"),
        (".decl a(x: number)\na(x) <= a(y) :- x < y.", "subsumption"),
        (".decl a(x: number)\na(autoinc()).", "autoinc"),
        (".decl a, b(x: number)\na(x) :- 1 = count : { b(x) }.", "a witness"),
    ],
)
def test_what_has_no_counterpart_is_named(program: str, reason: str) -> None:
    with pytest.raises(NotApplicable, match=reason):
        evaluate(flattened(parse(program)), {})
