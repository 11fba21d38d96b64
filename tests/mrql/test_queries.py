"""What the compiler makes of queries, and says of those that have none; Spark is not started."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from pyspark.sql import types as T

from rekindle.errors import RekindleError, UnknownNameError, UnsupportedError
from rekindle.frontends.mrql.compile import Compiled, Compiler
from rekindle.frontends.mrql.scope import Known
from rekindle.frontends.mrql.values import Type
from rekindle.mrql_language import syntax as s
from rekindle.mrql_language.parse import parse_statement, pieces
from rekindle.mrql_language.session import Session
from rekindle.runtime.views.creating import wanted
from tests.external.material import absent, material

_LONG = T.LongType()
_ITEM = T.StructType([T.StructField("k", _LONG), T.StructField("q", _LONG)])
TABLES = {
    "S": T.StructType([T.StructField("k", _LONG), T.StructField("v", _LONG)]),
    "N": T.StructType([T.StructField("id", _LONG), T.StructField("items", T.ArrayType(_ITEM))]),
    "C": T.StructType(
        [
            T.StructField("name", T.StringType()),
            T.StructField("old", T.DecimalType(10, 2)),
            T.StructField("new", T.DecimalType(8, 4)),
        ]
    ),
    "M": T.StructType([T.StructField(f"_{i}", _LONG) for i in (1, 2, 3)]),
}


def unasked(template: str, types: Sequence[Type]) -> Type:
    raise AssertionError(f"Spark would be asked for the type of {template}")


def query(script: str) -> Compiled:
    """The query of the last statement of a script, as that of a view."""
    session = Session(prepare=lambda term: term)
    session.definitions.tables = dict.fromkeys(TABLES, "stream")
    *before, last = pieces(f"{script};")
    for piece in before:
        session.execute(parse_statement(piece))
    statement = parse_statement(last)
    assert isinstance(statement, s.Evaluate)
    term = session.term(statement.expression)
    run = session.interpreter
    return Compiler(Known(TABLES, run.functions, run.stored, unasked), "view").compile(term)


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("select s.k from s in Ss", "line 1, column 22: there is no 'Ss'"),
        ("select s.kk from s in S", "line 1, column 8: there is no field 'kk'"),
        ("1;\nsum(S.kk)", "line 2, column 5: there is no field 'kk'"),
        ("select fo(s.k) from s in S", "there is no function 'fo'"),
        (
            'select s.k + "a" from s in S',
            "column 8: '+' is not defined on a bigint and a string",
        ),
        ("select -c.name from c in C", "line 1, column 8: '-' is not defined on a string"),
        ("select s.k * (s.k = 1) from s in S", "'*' is not defined on a bigint and a boolean"),
        ("select s / 2 from s in S", "'/' is not defined on a record of k, v and an int"),
        ("select s.k from s in S where s.k", "a condition is a boolean, and not a bigint"),
        ("select if s.k then 1 else 2 from s in S", "the condition of 'if' is a boolean"),
        ("select s.k = 1 and s.v from s in S", "a side of 'and' is a boolean, and not a bigint"),
        ("select not s.k from s in S", "'not' is of is a boolean, and not a bigint"),
        ("select x from n in N, x in (select i from i in n.items where i.k)", "a condition is"),
        ("some(select s.k from s in S)", "each value that 'some' is of is a boolean"),
        ('select s.k < "a" from s in S', "a bigint and a string cannot be compared by '<'"),
        ("select s.k < s from s in S", "a bigint and a record of k, v cannot be compared"),
        ("sum(C.name)", "'sum' is of numbers, and not of a string"),
        ('sum({"a"})', "'sum' is of numbers, and not of a string"),
        ("avg(S)", "'avg' is of numbers, and not of a record of k, v"),
        ("select substring(s.k, 0, 1) from s in S", "'substring' is not defined on a bigint"),
        ("select sqrt(c.name) from c in C", "'sqrt' is not defined on a string"),
        ("select length(s.k) from s in S", "'length' is not defined on a bigint"),
        ("select sqrt() from s in S", "column 8: 'sqrt' does not take 0 arguments"),
        ("select toInt({s.k}) from s in S", "'toInt' is not defined on a bag"),
        ("function f ( x: lng ): long { x }; f(1)", "column 17: there is no type 'lng'"),
        ("5 as foo", "line 1, column 6: there is no type 'foo'"),
        ("type t = <a: bag(strin)>; 1", "there is no type 'strin'"),
        ("type t = bag(t); 1", "there is no type 't'"),
        ("data d = A: int | B: e; 1", "there is no type 'e'"),
        ("let (a, b) = (1, 2, 3) in a", "a pattern of 2 components does not fit a tuple of 3"),
        ("let (a, b) = (S, S, N) in a", "a pattern of 2 components does not fit a tuple of 3"),
        (
            "let (a, b, c) = repeat (x, y) = (S, S) step (y, x) limit 2 in a",
            "a pattern of 3 components does not fit a tuple of 2",
        ),
        ("select x from (x, x) in M", "a pattern of 2 components does not fit a tuple of 3"),
        ("repeat (x, y) = ({1}, {2}) step (y, x, x) limit 3", "there are 2: x, y"),
        ("repeat (x, y) = {1} step (y, x) limit 3", "there are 2: x, y"),
        ('repeat (x, y) = ({1}, {2}) step (y, {"a"}) limit 300', "no type in common"),
        (
            "select (s.k, repeat x = {s.k} step select n.id from n in N, y in x where y = n.id "
            "limit 2) from s in S",
            "reads a row that no join brings",
        ),
        ("function f ( x: bag(long) ): bag(long) { f(x) }; f(S.k)", "'f' calls itself"),
    ],
)
def test_mistakes_are_named(script: str, words: str) -> None:
    with pytest.raises(RekindleError, match=re.escape(words)):
        query(script)


def test_what_has_a_query() -> None:
    """Lists of bags of tables, decimals of two widths, bags by functions of the script."""
    assert "collect_list" in query("[S]").query
    both = query("select {c.old, c.new} from c in C").query
    assert "CAST(t1.`old` AS decimal(12,4)), CAST(t1.`new` AS decimal(12,4))" in both
    assert query("function same ( x: bag(long) ): bag(long) { x }; same(S.k)").is_collection
    assert "collect_list" not in query("let (n, xs) = (count(S), S) in select n from x in xs").query


@pytest.mark.parametrize(
    "script",
    [
        "S.k",
        "sum(S.k)",
        "let t = S in count(t.v)",
        "S.k union N.id",
        "select x from x in M#2, y in S.k where x = y",
        "select (s, member(s.k, N.id)) from s in S",
        "function f ( x: bag(long) ): long { sum(x.v) }; f(S)",
    ],
)
def test_a_column_of_a_table_is_followed_row_by_row(script: str) -> None:
    assert "collect_list" not in query(script).query


def test_a_field_of_a_table_that_it_does_not_have() -> None:
    with pytest.raises(UnknownNameError, match="there is no field 'kk'"):
        query("sum(S.kk)")
    with pytest.raises(UnsupportedError, match="there is no component 0"):
        query("S#0")


def test_the_first_of_an_order_is_the_first_row() -> None:
    best = query("(select <a: s.k, b: s.v> from s in S order by s.v desc, s.k)[0]").query
    assert "collect_list" not in best and "LIMIT 1" in best
    nearest = "select (s.k, (select n.id from n in N order by abs(n.id - s.k))[0]) from s in S"
    assert "LIMIT" not in query(nearest).query


def test_collections_that_are_repeated_together() -> None:
    """What `let` takes apart is there once, as relations and not as arrays in a row."""
    turn = "repeat (x, y) = (S, S) step (y, select s from s in x where s.k > 1) limit {} "
    few = query(f"let (a, b) = {turn.format(2)} in select (c, d) from c in a, d in b")
    assert "collect_list" not in few.query and not few.loops
    assert few.query.count("WHERE") == 2
    for script in (
        f"let (a, b) = {turn.format(101)} in select (c, d) from c in a, d in b",
        f"function f ( x: bag(any) ): any {{ {turn.format(101)} }}; "
        "let (a, b) = f(S) in select (c, d) from c in a, d in b",
    ):
        many = query(script)
        (loop,) = many.loops
        assert [each.name for each in loop.relations] == ["·view·1", "·view·1·2"]
        assert loop.limit == 101 and not loop.tells
        assert "·view·1·2·result" in many.query and "collect_list" not in many.query
    assert query(f"({turn.format(101)})#1").loops == many.loops


def test_the_materials_factorisations_are_followed_by_rows() -> None:
    place = material("mrql")
    if place is None:
        pytest.skip(absent("mrql"))
    script = (place / "queries/examples/factorization3.mrql").read_text()
    for name in "XYZ":
        script = script.replace(f'source(binary,"tmp/{name}matrix.bin")', "M")
    assert "collect_list" not in query(script.strip().rstrip(";")).query


def test_iterations_are_exact() -> None:
    assert wanted("preferred", None, "listing", None, iteration="EXACT").said == {
        "iteration": "exact"
    }
    with pytest.raises(UnsupportedError, match="'approximate' is not offered"):
        wanted("preferred", None, "listing", None, iteration="approximate")
    with pytest.raises(RekindleError, match="iteration"):
        wanted("preferred", None, "listing", None, iteration="nearly")
