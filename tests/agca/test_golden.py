"""The paper's examples, as it prints them.

Normalised, because plain text has no subscripts, no stacked signs and no page width: c₁ is `c1`;
±t stands for two derivations, one for each sign, so `plus_minus` prints `±` where they differ in
sign; line breaks inside a trigger are not kept. Where the paper's print cannot be right, the test
says so and shows it.
"""

from __future__ import annotations

import re

from rekindle.algebra.zset import ZSet
from rekindle.frontends.agca.ast import (
    Aggregate,
    Constant,
    Formula,
    MapAccess,
    Product,
    Query,
    Term,
    multiplication,
)
from rekindle.frontends.agca.parse import parse_formula, parse_query, parse_term
from rekindle.frontends.agca.text import written
from tests.agca.reference.compile import compile_query
from tests.agca.reference.compile0 import compile_query_plainly
from tests.agca.reference.delta import (
    Event,
    Sign,
    apply_update,
    degree,
    formula_delta,
    term_delta,
)
from tests.agca.reference.extract import extract
from tests.agca.reference.factorise import factorise
from tests.agca.reference.monomials import (
    Polynomial,
    as_term,
    polynomial,
    written_polynomial,
)
from tests.agca.reference.programs import Program, written_statement
from tests.agca.reference.run import Machine, Write
from tests.agca.reference.semantics import Database, Row, evaluate_term
from tests.agca.reference.simplify import lift_ifs, simplify

SAME_NATION = "q[c1] = Sum(1, C(c1, n1) * C(c2, n2) * (n1 = n2))"
PLUS_C = Event(Sign.PLUS, "C", ("c", "n"))
MINUS_C = Event(Sign.MINUS, "C", ("c", "n"))


def plus_minus(insertion: Polynomial, deletion: Polynomial) -> list[str]:
    """The monomials of both changes with a common sign: `±` where they are opposites."""
    assert [each.factors for each in insertion] == [each.factors for each in deletion]
    signs = [
        one.sign.value if one.sign is other.sign else "±"
        for one, other in zip(insertion, deletion, strict=True)
    ]
    return [f"{sign} {written(each.term)}" for sign, each in zip(signs, insertion, strict=True)]


def one_line(program: Program, sign: Sign) -> list[str]:
    """The triggers of one sign, each on one line."""
    return [
        re.sub(r"\s+", " ", str(Program(program.schema, program.maps, (trigger,))))
        for trigger in program.triggers
        if trigger.event.sign is sign
    ]


def test_example_5_3_the_changes_of_the_parts() -> None:
    phi = parse_formula("C(c2, n2) * (n1 = n2)")
    psi = Product(parse_formula("C(c1, n1)"), phi)

    def change(formula: Formula) -> str:
        return written(formula_delta(formula, PLUS_C, ["c1"]))

    assert change(parse_formula("n1 = n2")) == "false"
    assert change(parse_formula("C(c1, n1)")) == "(c1 = c) * (n1 = n)"
    deleted = formula_delta(parse_formula("C(c1, n1)"), MINUS_C, ["c1"])
    assert written(deleted) == "-((c1 = c) * (n1 = n))"
    assert change(phi) == "(c2 = c) * (n2 = n) * (n1 = n2)"
    assert change(psi) == (
        "(c1 = c) * (n1 = n) * (C(c2, n2) * (n1 = n2))"
        " + C(c1, n1) * ((c2 = c) * (n2 = n) * (n1 = n2))"
        " + (c1 = c) * (n1 = n) * ((c2 = c) * (n2 = n) * (n1 = n2))"
    )


def test_example_5_3() -> None:
    query = parse_query(SAME_NATION)
    known = (*query.group, "c", "n")
    changes = [
        polynomial(term_delta(query.term, event, query.group), known) for event in (PLUS_C, MINUS_C)
    ]
    assert plus_minus(*changes) == [
        "± Sum(1, (c1 = c) * (n1 = n) * C(c2, n2) * (n1 = n2))",
        "± Sum(1, C(c1, n1) * (c2 = c) * (n2 = n) * (n1 = n2))",
        "+ Sum(1, (c1 = c) * (n1 = n) * (c2 = c) * (n2 = n) * (n1 = n2))",
    ]


def test_example_5_6() -> None:
    """The second change has degree 0 and the third is 0.

    The paper prints the first monomial as Sum(1, (c1 = c) * (c2 = c') * (n2 = n')). That leaves out
    the condition n = n', and the test shows that it is then not the second change: two customers
    of different nations would count each other.
    """
    query = parse_query(SAME_NATION)
    first = as_term(simplify(term_delta(query.term, PLUS_C, ["c1"]), ("c1", "c", "n")))
    second = term_delta(first, Event(Sign.PLUS, "C", ("c'", "n'")), ["c1", "c", "n"])
    known = ("c1", "c", "n", "c'", "n'")
    assert (degree(query.term), degree(first), degree(second)) == (2, 1, 0)
    assert written_polynomial(simplify(second, known)) == (
        "Sum(1, (c1 = c) * (n = n')) + Sum(1, (c1 = c') * (n = n'))"
    )
    assert written(term_delta(second, Event(Sign.PLUS, "C", ("x", "y")), known)) == "0"

    printed = parse_term("Sum(1, (c1 = c) * (c2 = c') * (n2 = n')) + Sum(1, (c1 = c') * (n = n'))")
    database: Database = {"C": ZSet.of({})}
    bound: dict[str, int | str] = {"c1": 1, "c": 1, "n": "US", "c'": 2, "n'": "UK"}
    later = apply_update(database, Sign.PLUS, "C", (2, "UK"))
    change = _number(first, later, bound) - _number(first, database, bound)
    assert change == _number(second, database, bound) == 0
    assert _number(printed, database, bound) == 1


def _number(term: Term, database: Database, bound: dict[str, int | str]) -> int:
    value = evaluate_term(term, database, bound)
    assert isinstance(value, int)
    return value


EXAMPLE_6_1 = """\
on +C(cid, nation) {
  q[cid] += q1[nation];
  foreach cid2 do q[cid2] += q2[cid2, nation];
  q[cid] += 1;
  q1[nation] += 1;
  q2[cid, nation] += 1
}"""


def nations() -> Program:
    query = parse_query("q[cid] = Sum(1, C(cid, n1) * C(c2, n2) * (n1 = n2))")
    return compile_query(query, {"C": ["cid", "nation"]}).merged()


def test_example_6_1() -> None:
    """The trigger, and that of deletions: -= everywhere but in the third statement."""
    insertions, deletions = str(nations()).split("\non -")
    assert insertions == EXAMPLE_6_1
    expected = EXAMPLE_6_1.replace("on +", "").replace("+=", "-=")
    assert deletions == expected.replace("q[cid] -= 1", "q[cid] += 1")


FIGURE_2: list[tuple[str, Row, dict[int, str], dict[int, int]]] = [
    ("+", (1, "US"), {1: "+1"}, {1: 1}),
    ("+", (2, "UK"), {2: "+1"}, {1: 1, 2: 1}),
    ("+", (3, "UK"), {2: "+q2[2,UK]", 3: "+q1[UK] +1"}, {1: 1, 2: 2, 3: 2}),
    ("+", (4, "US"), {1: "+q2[1,US]", 4: "+q1[US] +1"}, {1: 2, 2: 2, 3: 2, 4: 2}),
    ("-", (3, "UK"), {2: "-q2[2,UK]", 3: "-q1[UK] -q2[3,UK] +1"}, {1: 2, 2: 1, 3: 0, 4: 2}),
    (
        "+",
        (3, "US"),
        {1: "+q2[1,US]", 3: "+q1[US] +1", 4: "+q2[4,US]"},
        {1: 3, 2: 1, 3: 3, 4: 3},
    ),
]


def test_figure_2() -> None:
    """The trace of example 6.1: what is added to each q[x], and the values after each update.

    The figure writes the key of the updated tuple inside q2 (q[1] grows by q2[4,US] when (4,US)
    comes). The statement reads q2[cid2, nation], and q2[4,US] has no value then, so the entries
    here are those of the row that is updated: q2[1,US]. The numbers are the figure's.
    """
    machine = Machine(nations())
    for sign, row, changes, values in FIGURE_2:
        writes = [w for w in machine.apply(Sign(sign), "C", row) if w.statement.target == "q"]
        seen: dict[Row, list[str]] = {}
        for write in writes:
            seen.setdefault(write.key, []).append(cell(write))
        assert {key[0]: " ".join(cells) for key, cells in seen.items()} == changes
        assert {x: machine.value("q", (x,)) for x in values} == values


def cell(write: Write) -> str:
    match write.statement.term:
        case MapAccess(name, keys):
            shown = f"{name}[{','.join(str(write.valuation[key]) for key in keys)}]"
        case Constant(value):
            shown = str(value)
        case term:
            shown = written(term)
    return f"{write.statement.sign.value}{shown}"


JOIN = "q[] = Sum(1, R(x) * S(x))"
RS = {"R": ["u"], "S": ["v"]}


def test_example_7_3_the_changes() -> None:
    """The changes, of which the paper names the first two qR[u] and qS[v]."""
    query = parse_query(JOIN)
    for relation, argument, expected in [
        ("R", "u", "± Sum(1, (x = u) * S(x))"),
        ("S", "v", "± Sum(1, R(x) * (x = v))"),
    ]:
        changes = [
            polynomial(term_delta(query.term, Event(sign, relation, (argument,)), ()), (argument,))
            for sign in Sign
        ]
        assert plus_minus(*changes) == [expected]
    program = compile_query_plainly(query, RS)
    held = {kept.name: kept.query for kept in program.maps}
    assert held["qR"] == parse_query("qR[u] = Sum(1, (x = u) * S(x))")
    assert held["qS"] == parse_query("qS[v] = Sum(1, R(x) * (x = v))")
    second = term_delta(held["qR"].term, Event(Sign.PLUS, "S", ("v",)), ["u"])
    assert written(second) == "Sum(1, (x = u) * (x = v))"


def test_example_7_3() -> None:
    """Compile0's insert triggers; the delete triggers are these with - for +."""
    program = compile_query_plainly(parse_query(JOIN), RS)
    expected = [
        "on +R(u) { q[] += qR[u] }",
        "on +R(u) { foreach v do qS[v] += if (u=v) then 1 else 0 }",
        "on +S(v) { q[] += qS[v] }",
        "on +S(v) { foreach u do qR[u] += if (u=v) then 1 else 0 }",
    ]
    assert one_line(program, Sign.PLUS) == expected
    assert one_line(program, Sign.MINUS) == [line.replace("+", "-") for line in expected]


def test_example_7_4() -> None:
    """Extraction. The paper also notes each access's initialiser, which is 0 and left out here."""
    term = parse_term("Sum(x * Sum(v, R(v, z)), y = z) * Sum(u, R(x, u))")
    kept: list[tuple[str, Aggregate]] = []

    def keeper(aggregate: Aggregate, keys: tuple[str, ...]) -> str:
        kept.append((f"m{len(kept) + 1}[{', '.join(keys)}]", aggregate))
        return f"m{len(kept)}"

    rest = extract(term, frozenset("xy"), keeper)
    assert written(rest) == "Sum(x * m1[z], y = z) * m2[x]"
    assert [f"{access} -> {written(aggregate)}" for access, aggregate in kept] == [
        "m1[z] -> Sum(v, R(v, z))",
        "m2[x] -> Sum(u, R(x, u))",
    ]


def test_example_7_6() -> None:
    term = parse_term("Sum(5 * x * Sum(1, R(y, z)) * w, R(x, y) * R(v, w))")
    assert isinstance(term, Aggregate)
    assert written(multiplication(factorise(term))) == (
        "Sum(5, true) * Sum(x * Sum(1, R(y, z)), R(x, y)) * Sum(w, R(v, w))"
    )


def test_example_7_7() -> None:
    term = parse_term("Sum(1, C(c2, n) * (c1 = c))")
    lifted = lift_ifs(term, frozenset({"c1", "c", "n"}))
    assert written(lifted) == "Sum(Sum(1, C(c2, n)), c1 = c)"


def test_example_7_9() -> None:
    """Compile turns the two loops of example 7.3 into `qS[u] += 1` and `qR[v] += 1`."""
    assert one_line(compile_query(parse_query(JOIN), RS), Sign.PLUS) == [
        "on +R(u) { q[] += qR[u] }",
        "on +R(u) { qS[u] += 1 }",
        "on +S(v) { q[] += qS[v] }",
        "on +S(v) { qR[v] += 1 }",
    ]


def test_example_7_10() -> None:
    """The steps from the change of example 5.3 to the statements of example 6.1.

    The paper stops between steps 3 and 4 of Simplify; t1 is shown with its if already lifted.
    """
    query = parse_query(SAME_NATION)
    known = ("c1", "c", "n")
    changes = [
        simplify(term_delta(query.term, event, query.group), known) for event in (PLUS_C, MINUS_C)
    ]
    assert plus_minus(*changes) == [
        "± Sum(Sum(1, C(c2, n)), c1 = c)",
        "± Sum(1, C(c1, n))",
        "+ Sum(1, c1 = c)",
    ]
    program = compile_query(query, {"C": ["c", "n"]})
    assert [str_of(kept.query) for kept in program.maps[1:]] == [
        "q1[n] -> Sum(1, C(c2, n))",
        "q2[c1, n] -> Sum(1, C(c1, n))",
    ]
    own = [statement for statement in program.statements if statement.target == "q"]
    assert [written_statement(each) for each in own[:3]] == [
        "q[c] += q1[n]",
        "foreach c1 do q[c1] += q2[c1, n]",
        "q[c] += 1",
    ]
    assert [written_statement(each) for each in own[3:]] == [
        "q[c] -= q1[n]",
        "foreach c1 do q[c1] -= q2[c1, n]",
        "q[c] += 1",
    ]


def str_of(query: Query) -> str:
    return f"{query.name}[{', '.join(query.group)}] -> {written(query.term)}"


def test_example_4_6() -> None:
    sum_ = polynomial(parse_term("Sum(t, -P(t) * (-Q(t) + R(t)))"), ())
    assert written_polynomial(sum_) == "Sum(t, P(t) * Q(t)) - Sum(t, P(t) * R(t))"
    assert as_term(sum_) == parse_term(written_polynomial(sum_))
