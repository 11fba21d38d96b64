"""What the text of a program means: rules with one head and no alternatives, and their queries."""

from __future__ import annotations

import pytest

from rekindle.errors import StatementError
from rekindle.frontends.datalog.parse import Aggregated, Atom, Expression, Rule, parse_program
from rekindle.frontends.datalog.program import strata
from rekindle.frontends.datalog.queries import column_names, query_of

COLUMNS = {"edge": ["a", "b"], "node": ["n"], "in": ["a", "b", "c"]}


def rules_of(text: str) -> list[Rule]:
    return parse_program(text, lambda name: name in COLUMNS)


def query(text: str) -> str:
    """The query of the last relation, without the DISTINCT around its rules."""
    columns = dict(COLUMNS)
    relations = [relation for stratum in strata(rules_of(text)) for relation in stratum.relations]
    columns.update({relation.name: column_names(relation) for relation in relations})
    found = query_of(relations[-1], lambda name, _: columns[name])
    return found[found.index("(") + 1 : -1]


def test_heads_and_alternatives_are_rules_of_their_own() -> None:
    rules = rules_of("p(x), q(x) :- node(x), (edge(x, _) ; edge(_, x), x > 2).")
    shown = [(rule.head.name, len(rule.body)) for rule in rules]
    assert shown == [("p", 2), ("q", 2), ("p", 3), ("q", 3)]
    assert rules[2].body[1:] == (Atom("edge", ("_", "x")), Expression("x > 2"))


def test_alternatives_bind_less_than_commas() -> None:
    rules = rules_of("p(x) :- node(x), x > 2 ; edge(x, _).")
    assert [rule.body for rule in rules] == [
        (Atom("node", ("x",)), Expression("x > 2")),
        (Atom("edge", ("x", "_")),),
    ]


def test_aggregates_may_stand_in_expressions() -> None:
    (rule,) = rules_of("p(x, count : edge(x, _)) :- node(x), 2 * max y : { edge(x, y) } + 1 > x.")
    inner = (Atom("edge", ("x", "y")),)
    assert rule.head == Atom("p", ("x", "__1"))
    assert rule.body == (
        Atom("node", ("x",)),
        Aggregated("__0", "max", "y", inner),
        Expression("2 * __0 + 1 > x"),
        Aggregated("__1", "count", "", (Atom("edge", ("x", "_")),)),
    )
    assert column_names(strata([rule])[0].relations[0]) == ["x", "c1"]


def test_variables_may_be_called_as_functions_are() -> None:
    (rule,) = rules_of("p(count) :- count = count : { edge(_, _) }, count > max y : edge(_, y).")
    assert [type(literal) for literal in rule.body] == [Aggregated, Aggregated, Expression]
    assert rule.body[0] == Aggregated("count", "count", "", (Atom("edge", ("_", "_")),))


@pytest.mark.parametrize("text", ["x = max(y)", "x = 'max y : { z }'", "x = y::int", "min(y) > 3"])
def test_what_is_no_aggregate_stays_an_expression(text: str) -> None:
    (rule,) = rules_of(f"p(x) :- edge(x, y), {text}.")
    assert rule.body[1:] == (Expression(text),)


def test_functions_may_be_negated() -> None:
    (rule,) = rules_of("p(x) :- node(x), !contains(x, 'a'), !edge(x, _).")
    assert rule.body[1:] == (Expression("!contains(x, 'a')"), Atom("edge", ("x", "_"), True))


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("p(x) :- node(x), n = count : x.", "needs braces"),
        ("p(n) :- n = count : { node(_) ; edge(_, _) }.", "has alternatives"),
        ("p(n) :- n = sum : { node(_) }.", "'sum' needs value"),
        ("p(x) :- (node(x), ).", "a literal is missing"),
        ("p(x), 3 :- node(x).", "line 1, column 7: '3' is not a head"),
        ("p(1).\np(x) :- edge(x,, _).", "line 2, column 16: a literal is missing before ','"),
        ("p(x) :- edge(x, _)), x > 2.", r"column 19: '\)' cannot stand here"),
        ("p(x) :- edge(x ; y).", r"column 16: ';' cannot stand here"),
        ("p(x) :- node(x) :- node(x).", "column 17: ':-' cannot stand here"),
        ("p(x) :- edge(x, 'a).", "column 17: what begins with a quote"),
        ("p(x) :- (node(x), edge(x, 2.5).", "a rule is not ended"),
        (f"p(x) :- {'(' * 2000}node(x){')' * 2000}.", "nested too deeply"),
    ],
)
def test_errors(rule: str, words: str) -> None:
    with pytest.raises(StatementError, match=words):
        rules_of(rule)


def test_an_error_shows_the_rule_and_what_is_missing() -> None:
    with pytest.raises(StatementError) as caught:
        rules_of("p(1).\np(x) :- (edge(x, 2.5),\n  node(x).")
    assert caught.value.message == "line 2: a rule is not ended"
    assert caught.value.detail == "in: p(x) :- (edge(x, 2.5), node(x)"
    assert caught.value.hint == "')' is missing"


def test_names_in_backticks_may_hold_what_separates() -> None:
    (rule,) = rules_of("p(x) :- edge(x, `a, b.c`), x > 2.5 /* a. comment, */ + `;`. // the end.")
    assert rule.body == (Atom("edge", ("x", "`a, b.c`")), Expression("x > 2.5 + `;`"))


def test_a_relation_without_columns_holds_or_not() -> None:
    assert query("p() :- edge(_, _).") == "SELECT true AS `holds` FROM `edge` AS _0"
    assert query("p() :- edge(_, _). q() :- !p().").endswith("NOT EXISTS (SELECT 1 FROM `p` AS _0)")


def test_atoms_apart_from_the_others_only_have_to_hold() -> None:
    assert query("p(x) :- node(x), edge(y, z), node(z).") == (
        "SELECT _0.`n` AS `x` FROM `node` AS _0 CROSS JOIN (SELECT DISTINCT true AS `holds` "
        "FROM `edge` AS _1 CROSS JOIN `node` AS _2 WHERE _2.`n` = _1.`b`) AS _3"
    )
    assert "DISTINCT" not in query("p(x, y) :- node(x), edge(y, _).")
    assert query("p(x) :- node(x), 3 < sum y : { edge(y, y) }.").count("CROSS") == 0
    assert "DISTINCT" not in query("p(1) :- node(x), edge(y, _), x < y.")


def test_the_order_of_literals_does_not_matter() -> None:
    assert query("p(x) :- edge(x + 1, _), node(x).").endswith("WHERE _0.`a` = (_1.`n` + 1)")
    assert query("p(z) :- y + 1 = z, y = x * 2, node(x).") == (
        "SELECT ((_0.`n` * 2) + 1) AS `z` FROM `node` AS _0"
    )


def test_an_aggregate_waits_for_what_it_mentions() -> None:
    """Else the variable inside would stand for any value."""
    for body in ("n = count : { edge(z, _) }, z = x + 1", "z = x + 1, n = count : { edge(z, _) }"):
        assert "WHERE _1.`a` = (_0.`n` + 1)) AS `n`" in query(f"p(n) :- node(x), {body}.")


def test_an_aggregate_in_an_aggregate_reads_what_is_around_both() -> None:
    found = query("p(n) :- node(x), n = max m : { node(y), m = count : { edge(x, y) } }.")
    count = "(SELECT count(*) FROM (SELECT DISTINCT * FROM `edge`) AS _3 "
    count += "WHERE _3.`a` = _1.`__x` AND _3.`b` = _2.`n`)"
    domain = "(SELECT DISTINCT _0.`n` AS `__x` FROM `node` AS _0) AS _1"
    rows = f"(SELECT {count} AS `value`, _1.`__x` FROM {domain} CROSS JOIN "
    rows += "(SELECT DISTINCT * FROM `node`) AS _2)"
    assert found.startswith(f"SELECT (SELECT max(`value`) FROM {rows} WHERE `__x` <=> _0.`n`) AS")


def test_equality_beside_and_is_a_condition() -> None:
    assert query("p(x) :- node(x), x = 3 AND x > 2.").endswith("WHERE (_0.`n` = 3 AND _0.`n` > 2)")


def test_variables_may_be_called_as_words_of_sql_are() -> None:
    assert query("p(year) :- node(day), year = day + 1.") == (
        "SELECT (_0.`n` + 1) AS `year` FROM `node` AS _0"
    )
    assert query("p(x) :- in(x, _, _).") == "SELECT _0.`a` AS `x` FROM `in` AS _0"


def test_elements_of_arrays_and_parameters_of_functions() -> None:
    assert query("p(y) :- node(x), y = explode(transform(x, v -> v + 1)).") == (
        "SELECT _1.`element` AS `y` FROM `node` AS _0 "
        "CROSS JOIN LATERAL explode(transform(_0.`n`, v -> v + 1)) AS _1(`element`)"
    )


def test_an_extreme_is_all_of_a_column() -> None:
    assert "`y` FROM `edge` AS _0) GROUP BY `x" in query("p(x, min(y)) :- edge(x, y).")
    assert "GROUP BY" not in query("p(min(x) + min(y)) :- edge(x, y).")
