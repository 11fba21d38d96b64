"""The meaning of statements, one by one: values as the language prints them."""

from __future__ import annotations

from pathlib import Path

import pytest

from rekindle.errors import IterationLimitError, RekindleError, StatementError
from rekindle.mrql_language.files import Files
from rekindle.mrql_language.printing import show
from rekindle.mrql_language.session import NOTHING, Session, run
from rekindle.mrql_language.values import Bag

CASES = {
    # arithmetic that depends on the width of numbers
    "7/2": "3",
    "-7 mod 3": "-1",
    "2147483647 + 1": "-2147483648",
    "(2147483647 as long) + 1": "2147483648",
    "1.0/0": "Infinity",
    "-3.9 as int": "-3",
    "0.00001": "1.0E-5",
    # collections
    "{1,2} union {2,3}": "{ 1, 2, 2, 3 }",
    "{1,1,2,3} intersect {1,1,3}": "{ 1, 1, 3 }",
    "{1,1,2,3} except {1}": "{ 2, 3 }",
    "[10,20,30][1:9]": "[ 20, 30 ]",
    '{("a",1),("b",2)}["b"]': "2",
    "{1,2} = {2,1}": "true",
    # selects
    "select x from x in {5,3,1,2,4} order by x limit 2": "[ 1, 2 ]",
    "select distinct x from x in {3,1,2,1} order by x desc": "[ 3, 2, 1 ]",
    "select (i,v,w) from (v,i) in {(10,1),(20,2)}, (w,i) in {(100,1),(300,3)}": "{ (1,10,100) }",
    "select x from x in {1,2}, x in {2,3}": "{ 2 }",
    "select a from (a,a) in {(1,1),(1,2)}": "{ 1 }",
    "select n from <A:1,B:n> in {<A:1,B:2>,<A:3,B:4>}": "{ 2 }",
    "select x from x in {1,2} where some y in {1,1,2}: x = y": "{ 1, 2 }",
    'select (k,sum(v),count(i)) from (i,k,v) in {(1,"a",10),(2,"a",20)} group by k': (
        '{ ("a",30,2) }'
    ),
    "select (x,count(select y from y in {1,1} where y = x)) from x in {1,2}": "{ (1,2), (2,0) }",
    "avg(select x from x in {1} where x > 5)": "NaN",
    # iteration
    "repeat x = {1,2} step select y+1 from y in x limit 2": "{ 3, 4 }",
    "repeat x = {0} step select (y+1, y+1 < 3) from y in x": "{ 3 }",
    "repeat (x,y) = ({1},{2}) step (y,x) limit 3": "({ 2 },{ 1 })",
    # documents and data
    '[xml| <a x="1"><b>t</b><b>u</b></a> |].b': "[ <b>t</b>, <b>u</b> ]",
    'text([xml| <a>{{"v"}}</a> |])': '"v"',
    '[json| {"a": [1, 2.5]} |].a[1]': "2.5",
    "case 2 { 1: 10 | *: 20 }": "20",
    'case [json| {"a": 1, "b": 2} |] { [json| {"a": {{x}} } |]: [x] | *: [] }': "[ 1 ]",
    'case [json| {"b": 2} |] { [json| {"a": {{x}} } |]: [x] | *: [] }': "[]",
    'case [json| [1, "b"] |] { [json| [{{1}}, {{x}}] |]: [x] | *: [] }': '[ "b" ]',
    'case [xml| <a>x</a> |] { [xml| <a>{{"x"}}</a> |]: 1 | *: 0 }': "1",
    "round(1.0/0.0)": "9223372036854775807",
    # texts
    'split("a,b,,", ",")': '[ "a", "b" ]',
    'split("a,b,c", ",", 2)': '[ "a", "b,c" ]',
    'split("a,b", ",", 1)': '[ "a,b" ]',
}


@pytest.mark.parametrize("query", CASES)
def test_values(query: str) -> None:
    (value,) = run(f"{query};")
    assert show(value) == CASES[query]


HOSTILE = (
    'replaceAll("a", "(", "b")',
    'replaceFirst("a", "[", "b")',
    'split("a", "(")',
    'toInt("1_0")',
    'select x from x in {1,2} order by x limit "a"',
    "select x from x in {1,2} order by x limit {1}",
    'repeat x = {1} step x limit "a"',
    "Node(1,2,3).a",
    "case [json| 1 |] { [json| {{1+1}} |]: 1 | *: 0 }",
    "source(line)",
    'source(line, "f")',
    'source(line, "f", "", type(<a:string>))',
    'source(line, "f", 5, type(<a:string>))',
    'source(line, "f", ",", type((string,int)), "op")',
    'source(line, "f", ",", type(<a:string>), "op")',
    'source(xml, "f", 5)',
    'source(json, "f")',
    'source(text, "bytes")',
    "[" * 500 + "]" * 500,
    "{" * 3000 + "1" + " }" * 3000,
    "select x from x in " * 2000 + "{1}",
    "select x from " + ", ".join(f"x{i} in {{1}}" for i in range(800)) + ", x in {1}",
    " union ".join(["{1}"] * 3000),
)
"""What Python would refuse by an exception of its own."""


@pytest.mark.parametrize("query", HOSTILE, ids=lambda query: query[:40])
def test_whatever_fails_is_an_error_of_the_language(query: str, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a,1\n")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    (result,) = Session(Files(lambda name: tmp_path / name)).run(f"{query};")
    assert result.error is not None and result.error.message


def test_lines_with_a_tag_come_and_go(tmp_path: Path) -> None:
    (tmp_path / "1").write_text("insert,1\ninsert,1\ninsert,2\n")
    (tmp_path / "2").write_text("DELETE,1\nc,3\nd,2\n")
    session = Session(Files(lambda _: tmp_path))
    (rows,) = session.run('stream(line, "d", ",", type(<op:string,v:int>), "op");')
    assert show(rows.value) == "{ < v: 1 >, < v: 3 > }"
    (tmp_path / "3").write_text("what,1\n")
    (rows,) = session.run('stream(line, "d", ",", type(<op:string,v:int>), "op");')
    assert rows.error is not None and "'what'" in rows.error.message


def test_definitions_last_and_macros_capture_nothing() -> None:
    script = """
        v = 1; w = v + 1; v = 10; w;
        aa = 10; macro p(aa) { aa+1 }; p(5);
        macro twice(e) { select (y,e) from y in {1,2} }; store y := 99; twice(y+1);
        function fact(n: int): long { if n <= 0 then 1 as long else n*fact(n-1) }; fact(20);
        data shape = Circle: double | Square: double;
        select r from Square(r) in {Circle(1.0), Square(2.0)};
        aggregation product(\\(x:int,y:int):int.x*y, 1): int; product({2,3,4});
    """
    assert [show(value) for value in run(script)] == [
        "11",
        "6",
        "{ (1,100), (2,100) }",
        "2432902008176640000",
        "{ 2.0 }",
        "24",
    ]


def test_a_failed_statement_does_not_stop_the_next() -> None:
    results = Session().run("1/0; nosuch; 2 +; 3;")
    assert [result.error is not None for result in results] == [True, True, True, False]
    assert results[3].value == 3 and results[0].value is NOTHING
    unknown = results[1].error
    assert isinstance(unknown, StatementError) and "line 1, column 6" in unknown.message


def test_an_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(RekindleError) as error:
        run("select x from x in Ordrs;", {"Orders": Bag()})
    assert "Orders" in error.value.hint


def test_lines_that_do_not_fit_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a,1\nb,x\nc\nd,4,more\n")
    files = Files(lambda name: tmp_path / name)
    session = Session(files, files)
    rows = session.run('source(line,"f",",",type(<k:string,v:int>)); dump "g" from {(1,"a")};')
    assert show(rows[0].value) == '{ < k: "a", v: 1 >, < k: "d", v: 4 > }'
    assert files.left_out == ["b,x", "c"]
    assert (tmp_path / "g").read_text() == '1,"a"\n'
    refused = session.run('dump "no/such/place" from {1};')[0].error
    assert refused is not None and "'no/such/place' cannot be written" in refused.message


def test_rows_come_by_one_directory_and_go_by_another(tmp_path: Path) -> None:
    for folder, lines in (("in", "a,1\na,1\nb,2\n"), ("out", "a,1\n")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "f").write_text(lines)
    files = Files(lambda name: tmp_path / name)
    stream = 'stream(line,("{}","{}"),",",type((string,int)))'
    held, wrong, three = Session(files).run(
        f"{stream.format('in', 'out')}; {stream.format('out', 'in')}; stream(text,(1,2,3));"
    )
    assert show(held.value) == '{ ("a",1), ("b",2) }'
    assert wrong.error is not None and "a row goes that is not there" in wrong.error.message
    assert three.error is not None and "where rows come, and where they go" in three.error.message


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("1 + sqrt()", "line 1, column 5: 'sqrt' does not take 0 arguments"),
        ("pow(2)", "'pow' does not take 1 argument"),
        ("split(1, 2, 3, 4)", "'split' does not take 4 arguments"),
        ("count(1..2000000000)", "the range 1..2000000000 has more than 10,000,000 numbers"),
        ("sum()", "'sum' takes 1 argument, and is given 0"),
        ("member(1)", "'member' takes 2 arguments, and is given 1"),
        ("2 as foo", "line 1, column 6: there is no type 'foo'"),
    ],
)
def test_what_is_wrong_is_said_before_anything_runs(statement: str, words: str) -> None:
    (result,) = Session().run(f"{statement};")
    assert result.error is not None and words in result.error.message


def test_what_is_wrong_with_a_value_is_said_where_it_is_used() -> None:
    """Of an error within another's arguments the place is its own."""
    script = '1 + (2 / 0);\nselect <a: s>.b from s in {1}; sqrt("a") + 1; -"a"; [1, 2].c;'
    said = [str(result.error).splitlines()[0] for result in Session().run(script)]
    assert said == [
        "MRQL: line 1, column 6: division by zero",
        "MRQL: line 2, column 8: the record has no field 'b'",
        "MRQL: line 2, column 32: a number was expected",
        "MRQL: line 2, column 47: '-' is not defined on string and string",
        "MRQL: line 2, column 53: a int has no field 'c'",
    ]


def test_types_are_what_they_were_when_they_were_given() -> None:
    script = """
        type t = long; type u = t; type t = string; function f ( x: u ): u { x }; f(2147483647) + 1;
        data d = A: int | B: d; function g ( x: d ): d { x }; case g(B(A(1))) { B(x): 2 | *: 1 };
    """
    assert [show(value) for value in run(script)] == ["2147483648", "2"]


def test_an_iteration_without_an_end_is_ended() -> None:
    (result,) = Session().run("repeat x = {1} step select (y, true) from y in x;")
    assert isinstance(result.error, IterationLimitError) and "of x" in result.error.message
