"""Compiled programs maintain what they say, after every update (theorems 7.2 and 7.8)."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rekindle.errors import EvaluationError, RowError, UnknownNameError, UnsupportedError
from rekindle.frontends.agca.ast import Constant, Query
from rekindle.frontends.agca.parse import parse_query
from tests.agca.reference.compile import compile_query
from tests.agca.reference.compile0 import compile_query_plainly
from tests.agca.reference.delta import Sign, apply_update, degree
from tests.agca.reference.extract import accesses
from tests.agca.reference.programs import Program, Statement
from tests.agca.reference.run import Machine
from tests.agca.reference.semantics import Database, Row, evaluate_query

from .strategies import DOMAIN, EMPTY, SCHEMA, Shape, law, primitive_queries, queries, updates

Updates = list[tuple[Sign, str, Row]]
streams = st.lists(updates, min_size=1, max_size=6)
EQUALITIES = Shape(inequalities=False)


def compilable(shape: Shape, most: int = 3) -> st.SearchStrategy[Query]:
    return queries(shape).filter(lambda query: 0 < degree(query.term) <= most)


def check_maps(program: Program, machine: Machine, database: Database) -> None:
    """Every map of the program holds its query, at every key over the domain."""
    for kept in program.maps:
        expected = evaluate_query(kept.query, database, DOMAIN)
        for key in product(DOMAIN, repeat=len(kept.query.group)):
            assert machine.value(kept.name, key) == expected.get(key, 0), (kept, key)


@law
@given(compilable(Shape()), streams)
def test_theorem_7_8_over_an_active_domain(query: Query, stream: Updates) -> None:
    program = compile_query(query, SCHEMA)
    machine = Machine(program, DOMAIN)
    database = EMPTY
    for update in stream:
        machine.apply(*update)
        database = apply_update(database, *update)
        check_maps(program, machine, database)


@law
@given(compilable(EQUALITIES), streams)
def test_theorem_7_8_from_the_maps_alone(query: Query, stream: Updates) -> None:
    program = compile_query(query, SCHEMA)
    assume(not program.needs_domain)
    machine = Machine(program)
    database = EMPTY
    for update in stream:
        machine.apply(*update)
        database = apply_update(database, *update)
        check_maps(program, machine, database)
        if program.maps[0].initial == Constant(0):
            assert machine.contents("q") == evaluate_query(query, database)


@law
@given(primitive_queries(), streams)
def test_theorem_7_8_for_joins_by_equality(query: Query, stream: Updates) -> None:
    """No active domain, every map right after every update, and no entry left for a 0."""
    program = compile_query(query, SCHEMA)
    assert not program.needs_domain
    machine = Machine(program)
    database = EMPTY
    for update in stream:
        machine.apply(*update)
        database = apply_update(database, *update)
        for kept in program.maps:
            assert machine.contents(kept.name) == evaluate_query(kept.query, database)


@law
@given(compilable(Shape(nested=False), most=2), streams)
def test_theorem_7_2_both_compilers_agree(query: Query, stream: Updates) -> None:
    assume(len(query.group) < 2)
    machine = Machine(compile_query(query, SCHEMA), DOMAIN)
    plain = Machine(compile_query_plainly(query, SCHEMA), DOMAIN)
    database = EMPTY
    for update in stream[:3]:
        machine.apply(*update)
        plain.apply(*update)
        database = apply_update(database, *update)
        expected = evaluate_query(query, database, DOMAIN)
        for key in product(DOMAIN, repeat=len(query.group)):
            assert machine.value("q", key) == plain.value("q", key) == expected.get(key, 0)


@law
@given(primitive_queries(), streams)
def test_inserting_and_deleting_leaves_nothing(query: Query, stream: Updates) -> None:
    program = compile_query(query, SCHEMA)
    machine = Machine(program)
    for update in stream:
        machine.apply(*update)
    for sign, relation, row in stream:
        machine.apply(sign * Sign.MINUS, relation, row)
    assert all(machine.contents(kept.name) == {} for kept in program.maps)


@law
@given(compilable(Shape()))
def test_programs_are_nc0c(query: Query) -> None:
    """Statements read maps of lower degree, loop over their own keys only, in a safe order."""
    program = compile_query(query, SCHEMA).merged()
    degrees = {kept.name: degree(kept.query.term) for kept in program.maps}
    for trigger in program.triggers:
        written: set[str] = set()
        for statement in trigger.statements:
            known = {*statement.loops, *trigger.event.arguments}
            reads = list(accesses(statement.term))
            assert set(statement.loops) <= set(statement.keys) <= known
            assert written.isdisjoint(read.name for read in reads)
            assert all(degrees[read.name] < degrees[statement.target] for read in reads)
            assert all(known.issuperset(read.keys) for read in reads)
            written.add(statement.target)


@law
@given(primitive_queries(), streams)
def test_proposition_6_2_an_entry_costs_what_its_statement_says(
    query: Query, stream: Updates
) -> None:
    program = compile_query(query, SCHEMA)
    machine = Machine(program)
    for update in stream:
        writes = machine.apply(*update)
        assert all(write.operations == write.statement.cost for write in writes)
        touched = [(id(write.statement), write.key) for write in writes]
        assert len(touched) == len(set(touched))


@pytest.mark.parametrize("size", [4, 40, 400])
def test_proposition_6_2_the_work_of_an_entry_does_not_grow(size: int) -> None:
    query = parse_query("q[a] = Sum(x * z, R(a, x) * S(x, z) * T(z))")
    schema = {"R": ["u", "v"], "S": ["s", "t"], "T": ["w"]}
    machine = Machine(compile_query(query, schema))
    for i in range(size):
        machine.apply(Sign.PLUS, "R", (i % 3, i))
        machine.apply(Sign.PLUS, "S", (i, i % 5))
        machine.apply(Sign.PLUS, "T", (i,))
    costs: dict[Statement, set[int]] = {}
    for update in [("R", (1, 1)), ("S", (1, 3)), ("T", (3,))]:
        for write in machine.apply(Sign.MINUS, *update):
            costs.setdefault(write.statement, set()).add(write.operations)
    assert costs and all(seen == {statement.cost} for statement, seen in costs.items())
    assert max(statement.cost for statement in costs) == 3
    assert sum(len(machine.apply(Sign.PLUS, "R", (9, 9))) for _ in range(3)) <= 9


def test_control_a_dropped_statement_is_caught() -> None:
    query = parse_query("q[] = Sum(1, S(x) * S(y) * (x = y))")
    program = compile_query(query, SCHEMA)
    broken = Program(program.schema, program.maps, program.triggers[1:])
    machine = Machine(broken)
    machine.apply(Sign.PLUS, "S", (1,))
    machine.apply(Sign.PLUS, "S", (1,))
    assert machine.value("q", ()) != 4


def test_a_join_by_order_needs_a_domain() -> None:
    query = parse_query("q[] = Sum(1, R(x, y) * S(z) * (x < z))")
    program = compile_query(query, SCHEMA)
    assert program.needs_domain
    with pytest.raises(UnsupportedError, match="over a known set of values") as caught:
        Machine(program)
    assert caught.value.detail.startswith("no map gives values for the loop of: foreach ")
    machine = Machine(program, DOMAIN)
    machine.apply(Sign.PLUS, "S", (2,))
    machine.apply(Sign.PLUS, "R", (0, 0))
    assert machine.value("q", ()) == 1


def test_a_comparison_with_a_constant_needs_none() -> None:
    program = compile_query(parse_query("q[] = Sum(x, R(x, y) * S(y) * (x > 1))"), SCHEMA)
    assert not program.needs_domain


def test_an_aggregate_of_comparisons_may_be_compared() -> None:
    query = parse_query("q[] = Sum(abs(Sum(x, x = z)), S(x) * (Sum(1, x = y) = x))")
    machine = Machine(compile_query(query, SCHEMA))
    for value in (1, 1, 2):
        machine.apply(Sign.PLUS, "S", (value,))
    assert machine.value("q", ()) == 2


def test_initialisers_give_the_value_of_untouched_groups() -> None:
    query = parse_query("q[a] = Sum(1, R(a, x)) + Sum(5, a = 2) ")
    program = compile_query(query, SCHEMA)
    machine = Machine(program, DOMAIN)
    assert [machine.value("q", (key,)) for key in DOMAIN] == [0, 0, 5]
    machine.apply(Sign.PLUS, "R", (2, 0))
    machine.apply(Sign.PLUS, "R", (0, 0))
    assert [machine.value("q", (key,)) for key in DOMAIN] == [1, 0, 6]
    assert "q[a]<if (a=2) then 5 else 0> += 1" in str(program)


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("q[] = Sum(1, S(x) * (Sum(1, S(y)) = 1))", UnsupportedError, "depends on an aggregate"),
        ("q[] = abs(Sum(1, S(y)))", UnsupportedError, "depends on an aggregate"),
        ("q[] = Sum(1, Q(x))", UnknownNameError, "unknown relation 'Q'"),
        ("q[] = Sum(1, R(x))", UnsupportedError, "has 1 columns, not 2"),
    ],
)
def test_what_cannot_be_compiled_is_refused(
    text: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        compile_query(parse_query(text), SCHEMA)


def test_an_update_that_fails_changes_nothing() -> None:
    query = parse_query("q[] = Sum(x, S(x) * R(x, y)) + Sum(1, S(z))")
    machine = Machine(compile_query(query, SCHEMA))
    machine.apply(Sign.PLUS, "S", (2,))
    before = machine.contents("q")
    with pytest.raises(EvaluationError, match="is not a number"):
        machine.apply(Sign.PLUS, "S", ("two",))
    assert machine.contents("q") == before
    machine.apply(Sign.PLUS, "R", (2, 1))
    assert machine.value("q", ()) == 3


def test_updates_must_fit_the_schema() -> None:
    machine = Machine(compile_query(parse_query("q[] = Sum(1, S(x))"), SCHEMA))
    assert machine.apply(Sign.PLUS, "R", (1, 2)) == []
    with pytest.raises(RowError, match=r"does not fit S\(c\)"):
        machine.apply(Sign.PLUS, "S", (1, 2))
    with pytest.raises(UnknownNameError, match="unknown relation 'T'"):
        machine.apply(Sign.PLUS, "T", (1,))
