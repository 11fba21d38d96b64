"""The language: what is read, where an error is, and that every query of the material is read."""

from __future__ import annotations

import json

import pytest

from rekindle.errors import StatementError
from rekindle.mrql_language import syntax as s
from rekindle.mrql_language.parse import parse, parse_expression, parse_statement, pieces
from tests.external.material import absent, material


def test_a_select_with_every_clause() -> None:
    found = parse_expression(
        "select distinct (k, sum(x)) from (x,i) in X, <A:y,B:*> in Y, z = x*y where y > 2 "
        "group by k: i having sum(x) > 3 order by k desc, sum(x) limit 5"
    )
    assert isinstance(found, s.Select)
    assert found.kind == "distinct" and [b.each for b in found.bindings] == ["in", "in", "="]
    assert found.bindings[1].pattern == s.RecordPattern(
        (("A", s.Variable("y")), ("B", s.Anything()))
    )
    assert found.grouping is not None and found.grouping.having is not None
    assert found.ordering is not None and found.ordering.limit == s.Literal(5)
    assert [key.direction for key in found.ordering.keys] == ["desc", "asc"]


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("1 + 2 * 3", "1 + (2 * 3)"),
        ("10 - 3 - 2", "(10 - 3) - 2"),
        ("1/2 as double", "1/(2 as double)"),
        ("not a = b and c or d", "((not (a = b)) and c) or d"),
        ("if c then a else b + 1", "if c then a else (b + 1)"),
        ("-7/2", "(-7)/2"),
        ("1..3+2", "(1..3)+2"),
        ("<A: (1 > 2), B: {1}>.A", "(<A: (1 > 2), B: {1}>).A"),
        ("a < b", "(a) < (b)"),
        ("SELECT x FROM x IN X", "select x from x in X"),
        ("p#0.X+q#0.X", "((p#0).X)+((q#0).X)"),
    ],
)
def test_what_binds_tighter(text: str, same: str) -> None:
    assert parse_expression(text) == parse_expression(same)


def test_statements_are_cut_outside_of_strings_comments_and_templates() -> None:
    script = '"a;b"; // c;d\nx = [xml| <a>;</a> |]; /* ; */ 1;'
    assert [type(statement).__name__ for statement in parse(script)] == [
        "Evaluate",
        "Assign",
        "Evaluate",
    ]


def test_a_long_script_is_cut_in_one_pass() -> None:
    """The text of a statement is looked at once: a statement of 200 kB takes no minutes."""
    (piece, after) = pieces("  /* a */ f(" + "x, " * 70_000 + "x);\n 1;")
    assert (piece.line, piece.column, len(piece.text)) == (1, 11, 210_004)
    assert (after.line, after.column, after.text) == (2, 2, "1")


def test_the_last_statement_needs_no_semicolon() -> None:
    assert parse("1;\n x ") == parse("1;\n x;")
    assert parse("1; // no more") == parse("1;")
    assert parse("  ") == ()


@pytest.mark.parametrize(
    ("script", "line", "column", "expected"),
    [
        ("select x from x in;", 1, 19, "an expression"),
        ("1;\n  2 +;", 2, 6, "an expression"),
        ("select (k,v) from (k,v) in X group by k: v, j: v;", 1, 43, "';'"),
        ("function f(x int): int { x };", 1, 14, "':'"),
        ("1; 2 +", 1, 7, "an expression"),
        ("x ?;", 1, 3, ""),
    ],
)
def test_errors_say_where_and_what_was_expected(
    script: str, line: int, column: int, expected: str
) -> None:
    with pytest.raises(StatementError) as error:
        parse(script)
    assert f"line {line}, column {column}:" in error.value.message
    assert expected in error.value.detail


def test_a_deep_expression_is_refused_rather_than_overflowing() -> None:
    with pytest.raises(StatementError, match="nested too deeply"):
        parse("(" * 300 + "1" + "+1)" * 300 + ";")


def test_every_query_of_the_material_is_read() -> None:
    """All but those that the original refuses to read too; one of these is read here."""
    place = material("mrql")
    if place is None:
        pytest.skip(absent("mrql"))
    unread: list[tuple[str, int]] = []
    syntax_errors: list[tuple[str, int]] = []
    for path in sorted(place.glob("queries/*/*.mrql")):
        for index, piece in enumerate(pieces(path.read_text()), 1):
            try:
                parse_statement(piece)
            except StatementError:
                unread.append((path.name, index))
        result = place / "expected" / path.parent.name / f"{path.stem}.json"
        if result.exists():
            statements = json.loads(result.read_text()).get("statements", ())
            for statement in statements:
                if statement.get("error_kind", "").startswith("syntax"):
                    syntax_errors.append((path.name, statement["index"]))
    assert set(syntax_errors) - set(unread) == {("x_errors.mrql", 32)}  # `}}` are two braces here
    assert set(unread) <= set(syntax_errors)
