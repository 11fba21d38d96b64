"""The text of comprehensions: what is read, and where errors point."""

from __future__ import annotations

import pytest

from rekindle.errors import StatementError
from rekindle.frontends.comprehension.parse import parse
from rekindle.frontends.comprehension.syntax import (
    Call,
    Collect,
    For,
    Group,
    Let,
    Negate,
    Path,
    Quantified,
    Scalar,
    Tuple,
    Union,
)


def test_the_parts_of_a_comprehension() -> None:
    found = parse("for m in movies, n in m.others where n.a = m.a yield (name: m.name, n.a)")
    assert isinstance(found, For)
    first, second = found.generators
    assert (first.variable, first.condition) == ("m", None)
    assert isinstance(second.source, Path) and second.source.names == ("m", "others")
    assert isinstance(second.condition, Scalar)
    assert isinstance(found.key, Tuple)
    assert [name for name, _ in found.key.fields] == ["name", "a"]


@pytest.mark.parametrize(
    ("text", "same"),
    [
        (
            "for m in movies for n in m.others where n.a = m.a yield n",
            "for m in movies, n in m.others where n.a = m.a yield n",
        ),
        (
            "for m in movies where m.a > 1 for n in (for x in m.y yield x) for z in n yield (z)",
            "for m in movies where m.a > 1, n in (for x in m.y yield x), z in n yield (z)",
        ),
    ],
)
def test_generators_follow_a_comma_or_another_for(text: str, same: str) -> None:
    found, other = parse(text), parse(same)
    assert isinstance(found, For) and isinstance(other, For)
    for one, two in zip(found.generators, other.generators, strict=True):
        assert one.variable == two.variable and type(one.source) is type(two.source)
        assert (one.condition is None) is (two.condition is None)


def test_an_inner_comprehension_ends_with_its_bracket() -> None:
    found = parse("for m in movies yield (a: for n in m.x where (n.b = 1) yield n.b, c: m.c)")
    assert isinstance(found, For) and isinstance(found.key, Tuple)
    assert [name for name, _ in found.key.fields] == ["a", "c"]
    assert isinstance(found.key.fields[0][1], For)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("for x in t collect for y in x.ys yield y", Collect),
        ("let big = for x in t yield x in for b in big yield b", Let),
        ("t union negate(t) union u", Union),
        ("negate(t)", Negate),
        ("sum(for x in t yield x.v)", Call),
        ("exists(x in t where x.a > 1)", Quantified),
        ("forall(x in (for y in t yield y): x.a > 1)", Quantified),
    ],
)
def test_every_form_is_read(text: str, kind: type) -> None:
    assert isinstance(parse(text), kind)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("let n = count(t) in (n: n, m: 2 * n)", Tuple),
        ("let n = x.a in (1, 2) in (n: n, m: (n in (true)))", Tuple),
        ("let big = for x in t where x.k in (1, 2) yield x in (for b in big yield b)", Group),
        ("let a = 1 in let b = a in (3) in (for x in (t) where x.k in (1) yield b)", Let),
        ("let a = t in (a) union for y in u yield y", Union),
        ("let a = 'in (' in ( -- in (\n a)", Group),
    ],
)
def test_a_bracket_may_follow_the_in_of_let(text: str, name: type) -> None:
    found = parse(text)
    assert isinstance(found, Let) and isinstance(found.body, name)
    inner = parse(f"for x in t yield (k: x.k, r: {text})")
    assert isinstance(inner, For) and isinstance(inner.key, Tuple)
    assert inner.key.fields[1][1].place.text.endswith(f"{text})")


def test_a_value_follows_an_arrow() -> None:
    found = parse("for x in t yield x.k => x.v * 2")
    assert isinstance(found, For) and isinstance(found.value, Scalar)


@pytest.mark.parametrize(
    "scalar",
    [
        "x.a in (1, 2, 3)",
        "x.a between 1 and 2 and x.b is not null",
        "case when (x.a > 1) then 'it''s' else upper(x.b) end = 'a'",
        "x.arr[0].z = 1 and exists(x.arr, e -> e.z > 1)",
        "cast(x.a as decimal(10, 2)) = 1.50 or not (x.b like 'a%')",
        "date '2020-01-01' + interval 1 day < x.d -- a comment",
    ],
)
def test_scalars_are_text_of_spark(scalar: str) -> None:
    found = parse(f"for x in t where {scalar}\nyield x.a")
    assert isinstance(found, For)
    assert found.generators[0].condition is not None


@pytest.mark.parametrize(
    ("text", "message", "expected"),
    [
        ("for x in t yeld x", "line 1, column 18: the text ends too early", "'yield'"),
        ("for x t yield 1", "line 1, column 7: 't' cannot stand here", "'in'"),
        ("for x in t\nwhere (x.a yield 3", "line 2, column 12: 'yield' cannot stand", "')'"),
        ("for x in t yield", "line 1, column 17: the text ends too early", ""),
        ("for x in t where 'abc yield 3", "line 1, column 18: what begins here", "quotes"),
        ("t union", "line 1, column 3: a side of 'union' is missing", ""),
        ("flatten(t, u)", "line 1, column 1: flatten takes one collection", ""),
        ("", "line 1, column 1: the text ends too early", ""),
    ],
)
def test_errors_point_at_the_text(text: str, message: str, expected: str) -> None:
    with pytest.raises(StatementError) as raised:
        parse(text)
    assert raised.value.message.startswith(message)
    assert expected in raised.value.hint
