"""The text form parses back, whatever a term holds; errors give the place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rekindle.calculus.bodies import Measures
from rekindle.calculus.generators import Explode, ExplodeOuter
from rekindle.calculus.scalars import Call, Column, Literal
from rekindle.calculus.schema import Field, Schema
from rekindle.calculus.terms import (
    Aggregate,
    AggregateFunction,
    Distance,
    Distinct,
    Filter,
    FlatMap,
    Join,
    Map,
    Measure,
    PerGroup,
    Quantiles,
    Reach,
    RunningFrame,
    SlidingFrame,
    Source,
    Term,
    TopRows,
    UnionAll,
)
from rekindle.calculus.text import parse, to_text, to_text_with_table
from rekindle.errors import DefinitionError
from tests.calculus.strategies import BASKETS, terms

T1 = Source("t1", Schema((Field("x", "int"), Field("id", "bigint", False), Field("a", "int"))))
ITEM = Schema.of(item="int")
T2 = Source("t2", Schema((Field("id", "bigint", False), Field("y", "string"))))

TYPES = (
    "int",
    "decimal(10,2)",
    "decimal(10, 2)",
    "array<string>",
    "struct<a:int,b:array<string>>",
    'struct<`a "b"`:int>',
    "interval day to second",
    "map<string,struct<x:int!>>",
    "timestamp_ntz",
    "",
)


@dataclass(frozen=True)
class OpaqueScalar:
    """A scalar without a Python form."""

    text: str
    type: str = "int"
    nullable: bool = True
    references: frozenset[int] = frozenset()


@dataclass(frozen=True)
class OpaqueGenerator:
    """A generator without a Python form."""

    text: str
    schema: Schema = ITEM
    references: frozenset[int] = frozenset()


def test_the_form_is_readable() -> None:
    joined = Join(
        Filter(T1, Call("greater", (Column(2, "int"), Literal(2, "int")), "boolean")),
        T2,
        (Column(1, "bigint", False),),
        (Column(0, "bigint", False),),
    )
    term = Distinct(Map(joined, (("x", Column(0, "int")), ("the y", Column(4, "string")))))
    assert to_text(term) == (
        "distinct\n"
        "  map x = $0:int, `the y` = $4:string\n"
        "    join on $1:bigint! = $0:bigint!\n"
        "      filter greater($2:int, 2:int):boolean\n"
        "        source t1 (x: int, id: bigint!, a: int)\n"
        "      source t2 (id: bigint!, y: string)"
    )


@given(terms())
@settings(max_examples=150, deadline=None)
def test_every_term_parses_back(term: Term) -> None:
    text, table = to_text_with_table(term)
    assert table == ()
    assert parse(text) == term
    assert to_text(parse(text)) == text


@given(st.text(), st.text(), st.sampled_from(TYPES), st.booleans())
@settings(max_examples=150, deadline=None)
def test_any_name_type_and_string_parse_back(
    name: str, value: str, type_: str, nullable: bool
) -> None:
    source = Source(name, Schema((Field(name, type_, nullable), Field(value, type_, nullable))))
    outputs = ((name, Literal(value, type_)), (value, Column(0, type_, nullable)))
    term = Map(source, outputs)
    assert parse(to_text(term)) == term
    assert len(to_text(term).splitlines()) == 2


@given(st.one_of(st.integers(), st.floats(allow_nan=False), st.booleans(), st.none()))
@settings(max_examples=150, deadline=None)
def test_any_constant_parses_back_with_its_python_type(
    value: bool | int | float | None,
) -> None:
    parsed = parse(to_text(Map(T1, (("c", Literal(value, "double")),))))
    assert isinstance(parsed, Map)
    constant = parsed.outputs[0][1]
    assert isinstance(constant, Literal)
    assert repr(constant.value) == repr(value)


@pytest.mark.parametrize("column", [Column(0, t, n) for t in TYPES for n in (True, False)])
def test_a_scalar_is_printed_as_its_own_text(column: Column) -> None:
    scalar = Call("coalesce", (column, Literal("a'b\\\n", "string")), "array<int>")
    assert scalar.text in to_text(Map(Source("t", Schema((Field("c", "int"),))), (("o", scalar),)))


@pytest.mark.parametrize(
    "term",
    [
        Map(T1, ()),
        Join(T1, T2, (), ()),
        Join(T1, T2, (), (), Literal(True, "boolean")),
        UnionAll((T1,)),
        Aggregate(T1, (), ()),
        Source("empty", Schema(())),
        FlatMap(BASKETS, Explode(1, Field("item", "int")), ()),
        FlatMap(BASKETS, ExplodeOuter(1, Field("the item", "array<int>", False)), (0, 0)),
        Aggregate(
            T1,
            (("finish", Column(0, "int")), ("compute", Column(1, "bigint", False))),
            (
                Measure("finish", AggregateFunction.COUNT, (), "bigint", False, "count(1)"),
                Measure("by", AggregateFunction.SUM, (Column(2, "int"),), "decimal(38,2)"),
            ),
        ),
    ],
)
def test_corners_parse_back(term: Term) -> None:
    assert parse(to_text(term)) == term


def test_opaque_objects_are_numbered_in_order_and_equal_ones_share() -> None:
    last_step = object()
    term = Aggregate(
        FlatMap(
            Map(T1, (("a", OpaqueScalar("f(x)")), ("b", OpaqueScalar("g(x)")))),
            OpaqueGenerator("stack(2)"),
            (0,),
        ),
        (("k", OpaqueScalar("g(x)")),),
        (
            Measure("n", AggregateFunction.SUM, (OpaqueScalar("h"),), "int", True, "s", last_step),
            Measure("m", AggregateFunction.SUM, (Column(0, "int"),), "int", True, "s", last_step),
        ),
    )
    text, table = to_text_with_table(term)
    assert text.splitlines() == [
        "aggregate by k = @0 compute n = sum(@1):int 's' finish @2, "
        "m = sum($0:int):int 's' finish @2",
        "  flatmap keep 0 generate @3",
        "    map a = @4, b = @0",
        "      source t1 (x: int, id: bigint!, a: int)",
    ]
    assert table == (
        OpaqueScalar("g(x)"),
        OpaqueScalar("h"),
        last_step,
        OpaqueGenerator("stack(2)"),
        OpaqueScalar("f(x)"),
    )
    assert parse(text, table) == term


def test_objects_that_overload_equality_are_told_apart() -> None:
    class Answering:
        def __eq__(self, other: object) -> Callable[[], object]:  # type: ignore[override]
            return lambda: other

        __hash__ = None  # type: ignore[assignment]

    first, second = Answering(), Answering()
    measures = tuple(
        Measure(name, AggregateFunction.COUNT, (), "int", finish=finish)
        for name, finish in (("a", first), ("b", second), ("c", first))
    )
    text, table = to_text_with_table(Aggregate(T1, (), measures))
    assert len(table) == 2
    assert table[0] is first
    assert table[1] is second
    assert "c = count():int finish @0" in text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "an empty text denotes no term"),
        ("sauce t (x: int)", "line 1, column 1: unknown operator 'sauce'"),
        ("source t (x int)", "line 1, column 13: expected ':', found 'int)'"),
        ("source t (x: int", "line 1, column 17: expected ')', found the end"),
        ("source t (x: int) y", "line 1, column 19: expected the end of the line, found 'y'"),
        ("distinct", "line 1, column 9: distinct takes 1 input(s), found 0"),
        ("join\n  source t (x: int)", "line 1, column 5: join takes 2 input(s), found 1"),
        ("union", "line 1: a union needs at least one input"),
        (
            "distinct\n    source t (x: int)",
            "line 2, column 5: expected an indentation of 2 spaces, found 4",
        ),
        (
            "source t (x: int)\nsource u (x: int)",
            "line 2, column 1: a text denotes one term, but a second one starts here",
        ),
        (
            "filter $0:int\n  source t (x: int)",
            "line 1: a filter must be boolean, not int",
        ),
        (
            "distinct\n  map y = $3:int\n    source t (x: int)",
            "line 2: the projection 'y' reads column 3 of an input that has 1 columns",
        ),
        (
            "map y = frobnicate($0:int):int\n  source t (x: int)",
            "line 1, column 9: unknown scalar function 'frobnicate'",
        ),
        (
            "aggregate compute m = median($0:int):int\n  source t (x: int)",
            "line 1, column 23: unknown aggregate 'median'",
        ),
        (
            "map y = @2\n  source t (x: int)",
            "line 1, column 10: the reference @2 is not in a table of 0",
        ),
        ("map y = 'open:string\n  source t (x: int)", "line 1, column 9: expected a scalar"),
    ],
)
def test_an_error_says_where_and_what(text: str, message: str) -> None:
    with pytest.raises(DefinitionError) as raised:
        parse(text)
    assert raised.value.message.startswith(message)


@pytest.mark.parametrize(
    "reach",
    [
        None,
        TopRows(1, 3),
        SlidingFrame(0, 2, 5, Distance.ROWS),
        SlidingFrame(2, 0, 1, Distance.VALUES),
        RunningFrame(1, 4),
        Quantiles(1, 2, 3, (0.0, 0.25, 1e-09)),
    ],
)
def test_the_reach_of_a_group_parses_back(reach: Reach | None) -> None:
    body = Measures(Schema.of(x="int"), (Measure("n", AggregateFunction.COUNT, (), "bigint"),))
    term = PerGroup(T1, (0,), body, reach)
    assert parse(to_text(term)) == term


def test_the_fractions_of_a_quantile_parse_back() -> None:
    """Beside another measure: both are lists."""
    order = Column(0, "bigint")
    measures = tuple(
        Measure(name, AggregateFunction.OTHER, (order,), "double", order=order, fractions=fractions)
        for name, fractions in (("m", (0.5,)), ("p", (0.25, 1.0)), ("q", ()))
    )
    term = Aggregate(T1, (), measures)
    assert parse(to_text(term)) == term


def test_a_distance_is_of_rows_or_of_values() -> None:
    body = Measures(Schema.of(x="int"), (Measure("n", AggregateFunction.COUNT, (), "bigint"),))
    text = to_text(PerGroup(T1, (0,), body, SlidingFrame(0, 2, 5, Distance.ROWS)))
    with pytest.raises(DefinitionError, match="a distance, one of rows, values, found 'miles'"):
        parse(text.replace("rows of", "miles of"))
