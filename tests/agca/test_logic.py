"""First-order logic in AGCA (theorem 4.3)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rekindle.algebra.zset import ZSet
from rekindle.frontends.agca.ast import Atom, Comparison, Operator, Variable
from rekindle.frontends.agca.text import written
from rekindle.frontends.agca.variables import Names, check_formula
from tests.agca.reference.logic import (
    And,
    Exists,
    Logic,
    NotExists,
    Or,
    logic_to_formula,
    satisfies,
)
from tests.agca.reference.semantics import Database, evaluate_formula

from .strategies import DOMAIN, NAMES, SCHEMA, law, operators, values
from .test_sql import bags

FREE = ("x", "y")


@st.composite
def logics(draw: st.DrawFn, known: Names, depth: int = 3) -> Logic:
    """A formula whose free variables are among the known ones; quantifiers may reuse names."""
    variables = st.sampled_from(sorted(known))
    kinds = ["atom", "comparison"] + ["and", "or", "exists", "not exists", "not"] * bool(depth)
    match draw(st.sampled_from(kinds)):
        case "comparison":
            left, right = Variable(draw(variables)), Variable(draw(variables))
            return Comparison(left, draw(operators), right)
        case "and":
            return And(draw(logics(known, depth - 1)), draw(logics(known, depth - 1)))
        case "or":
            return Or(draw(logics(known, depth - 1)), draw(logics(known, depth - 1)))
        case "not":
            return NotExists((), draw(logics(known, depth - 1)))
        case "exists" | "not exists" as kind:
            name = draw(st.sampled_from(NAMES))
            inner = known | {name}
            body = And(Atom("S", (name,)), draw(logics(inner, depth - 1)))
            return (Exists if kind == "exists" else NotExists)((name,), body)
        case _:
            relation = draw(st.sampled_from(sorted(SCHEMA)))
            return Atom(relation, tuple(draw(variables) for _ in SCHEMA[relation]))


@law
@given(logics(frozenset(FREE)), bags, st.tuples(values, values))
def test_theorem_4_3(logic: Logic, database: Database, row: tuple[int, int]) -> None:
    bound = dict(zip(FREE, row, strict=True))
    formula = logic_to_formula(logic, FREE)
    check_formula(formula, frozenset(FREE))
    holds = satisfies(logic, database, bound, DOMAIN)
    assert holds == (len(evaluate_formula(formula, database, bound)) > 0)


def students() -> Logic:
    not_taken = NotExists((), Atom("T", ("x", "y")))
    return And(Atom("S", ("x",)), NotExists(("y",), And(Atom("C", ("y",)), not_taken)))


def test_example_4_4() -> None:
    """The body of the paper's Sum; comparisons stand in parentheses here."""
    assert written(logic_to_formula(students(), ["x"])) == (
        "S(x) * (Sum(1, C(y) * (Sum(1, T(x, y)) = 0)) = 0)"
    )


def test_example_4_4_finds_the_students_with_all_courses() -> None:
    database: Database = {
        "S": ZSet.from_rows([("ann",), ("bob",)]),
        "C": ZSet.from_rows([("db",), ("os",)]),
        "T": ZSet.from_rows([("ann", "db"), ("ann", "os"), ("bob", "db")]),
    }
    formula = logic_to_formula(students(), ["x"])
    found = [
        name for name in ("ann", "bob") if len(evaluate_formula(formula, database, {"x": name}))
    ]
    assert found == ["ann"]


def test_a_quantifier_that_reuses_a_name_gets_another() -> None:
    logic = And(Atom("S", ("x",)), Exists(("x",), Atom("R", ("x", "y"))))
    equal = Comparison(Variable("x"), Operator.EQUAL, Variable("y"))
    formula = logic_to_formula(And(logic, equal), ["x", "y"])
    assert written(formula) == "S(x) * (Sum(1, R(x2, y)) != 0) * (x = y)"
