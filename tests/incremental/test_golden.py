"""The worked example of section 4.5: every step as text, and the shape of the final circuit.

    SELECT DISTINCT a.x, b.y FROM (
        SELECT t1.x, t1.id FROM t1 WHERE t1.a > 2
    ) a JOIN (
        SELECT t2.id, t2.y FROM t2 WHERE t2.s > 5
    ) b ON a.id = b.id

By table 1 a distinct follows each operator whose result need not be a set; as in the paper's
drawing there is one after each σ and π, and one after ⋈ too. Run with
REKINDLE_UPDATE_GOLDEN=1 to write the file anew.
"""

from __future__ import annotations

import os
from pathlib import Path

from rekindle.calculus.scalars import Column
from rekindle.calculus.schema import Schema
from rekindle.calculus.terms import Distinct, Fix, Join, Map, Source, Term, UnionAll
from rekindle.calculus.text import parse
from rekindle.incremental.pipeline import derive, trace_steps
from rekindle.incremental.stream import Update
from rekindle.incremental.traversal import joins, nodes
from tests.incremental.circuits import integrals

GOLDEN = Path(__file__).parents[1] / "golden" / "dbsp_4_5.txt"

EXAMPLE = """\
distinct
  map x = $0:int, y = $3:int
    distinct
      join on $1:int = $0:int
        distinct
          map x = $0:int, id = $1:int
            distinct
              filter greater($2:int, 2:int):boolean
                source t1 (x: int, id: int, a: int)
        distinct
          map id = $0:int, y = $1:int
            distinct
              filter greater($2:int, 5:int):boolean
                source t2 (id: int, y: int, s: int)
"""


def test_every_step_of_the_example() -> None:
    shown = "\n\n".join(f"-- {name}\n{text}" for name, text in trace_steps(parse(EXAMPLE))) + "\n"
    if os.environ.get("REKINDLE_UPDATE_GOLDEN"):
        GOLDEN.write_text(shown, encoding="utf-8")
    assert shown == GOLDEN.read_text(encoding="utf-8")


def test_the_final_circuit_has_three_integrals_and_two_joins() -> None:
    circuit = derive(parse(EXAMPLE))
    assert len(integrals(circuit)) == 3
    assert len(joins(circuit)) == 2
    assert sum(isinstance(node, Update) for node in nodes(circuit)) == 1


def test_one_distinct_of_six_is_left() -> None:
    def distincts(term: Term) -> int:
        return isinstance(term, Distinct) + sum(map(distincts, term.children))

    steps = dict(trace_steps(parse(EXAMPLE)))
    assert distincts(parse(steps["translate"])) == 6
    assert distincts(parse(steps["eliminate_distincts"])) == 1


def test_equal_integrals_are_counted_once() -> None:
    self_join = parse("join on $0:int = $0:int\n  source t (x: int)\n  source t (x: int)")
    circuit = derive(self_join)
    assert len(integrals(circuit)) == 1
    assert len(joins(circuit)) == 2


def test_a_recursion_shows_what_runs_inside() -> None:
    """The join of the closure, with its integrals, at every iteration."""
    edge = Source("edge", Schema.of(src="int", dst="int"))
    path = Source("path", Schema.of(src="int", dst="int").as_nullable())
    step = Map(
        Join(path, edge, (Column(1, "int"),), (Column(0, "int"),)),
        (("src", Column(0, "int")), ("dst", Column(3, "int"))),
    )
    steps = dict(trace_steps(Fix(("path",), (Distinct(UnionAll((edge, step))),))))
    inside = steps["inside μ: path"]
    assert "↑H[distinct]" in inside
    assert inside.count("⋈") == 2
    assert "z⁻¹(I(edge))" in inside or "I(edge)" in inside
