"""Ill-typed terms cannot be built, and the error names what does not fit."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rekindle.errors import DefinitionError
from rekindle.nested.meaning import meaning
from rekindle.nested.nrc import bag, boxed, flatten, for_in, let, path, sng
from rekindle.nested.scalars import EQUAL, equal, number
from rekindle.nested.scalars import text as literal
from rekindle.nested.terms import (
    Add,
    Apply,
    Constant,
    Dictionary,
    Field,
    For,
    FromKey,
    KeyConstant,
    KeyVariable,
    LabelDictionary,
    LabelUnion,
    Let,
    Lift,
    MakeRecord,
    Multiply,
    NewLabel,
    Not,
    Predicate,
    Product,
    Relation,
    RingField,
    ScalarFunction,
    Singleton,
    Sum,
    Variable,
    Zero,
    free_variables,
)
from rekindle.nested.text import text
from rekindle.nested.types import (
    BOOLEAN,
    DOUBLE,
    Bag,
    Boxed,
    Label,
    Mapping,
    Number,
    Record,
    RingRecord,
    Scalar,
)
from rekindle.nested.variables import renamed_apart, substitute

INT = Scalar("bigint")
STRING = Scalar("string")
R = bag("R", INT)
S = bag("S", STRING)
NESTED = bag("N", Record((("id", INT), ("inner", Boxed(Bag(INT))))))
x = KeyVariable("x", INT)
n = KeyVariable("n", NESTED.type.key)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Add(R, S), "no sum of Bag(bigint) and Bag(string)"),
        (lambda: For(x, S, sng(x)), "'x' of type bigint ranges over rows of type string"),
        (
            lambda: For(x, Constant(1), sng(x)),
            "what 'x' ranges over is not a collection but bigint",
        ),
        (
            lambda: For(KeyVariable("x", STRING), S, sng(x)),
            "'x' is bound as string and read as bigint",
        ),
        (
            lambda: Let(Variable("X", R.type), S, R),
            "'X' of type Bag(bigint) is bound to a value of type Bag(string)",
        ),
        (lambda: Sum(Constant(1)), "what is summed is not a collection but bigint"),
        (lambda: Predicate(number(1)), "a condition is of type bigint, not boolean"),
        (lambda: Not(R), "no negation of Bag(bigint), only of bigint"),
        (lambda: Lift(literal("a")), "string cannot be added up, only numbers can"),
        (lambda: Lift(Field(n, "inner")), "[Bag(bigint)] cannot be added up, only numbers can"),
        (lambda: Field(x, "a"), "field 'a' of bigint, which is no record"),
        (lambda: Field(n, "other"), "no field 'other' in ⟨id: bigint, inner: [Bag(bigint)]⟩"),
        (lambda: RingField(R, "a"), "field 'a' of Bag(bigint), which is no ring record"),
        (lambda: FromKey(x), "bigint holds no collection to open"),
        (lambda: FromKey(KeyVariable("l", Label())), "a label is opened without a dictionary"),
        (
            lambda: FromKey(KeyVariable("l", Label()), R),
            "a label is looked up in Bag(bigint), no dictionary",
        ),
        (lambda: flatten(R), "bigint holds no collection to open"),
        (
            lambda: Multiply(R, S),
            "Bag(bigint) and Bag(string) have no keys in common to multiply at",
        ),
        (lambda: LabelUnion(R, R), "a label union of Bag(bigint), which is no dictionary"),
        (
            lambda: Apply(EQUAL, (n, n)),
            "'{0} = {1}' reads ⟨id: bigint, inner: [Bag(bigint)]⟩, which holds a collection",
        ),
        (
            lambda: NewLabel(1, (("n.inner", Field(n, "inner")),)),
            "field 'n.inner' of a label is a collection, [Bag(bigint)]",
        ),
        (lambda: MakeRecord((("a", x), ("a", x))), "a record has two fields 'a'"),
        (lambda: Constant(1.5), "1.5 is no constant of type bigint"),
        (lambda: Constant(float("nan"), DOUBLE), "nan is in no ring of numbers"),
        (lambda: Number("string"), "no ring of numbers 'string'"),
        (
            lambda: Product(Zero(RingRecord(())), Zero(RingRecord(()))),
            "no product of two ring records: () and ()",
        ),
        (
            lambda: Product(Zero(Number("decimal(5,2)")), Zero(Number("decimal(9,3)"))),
            "no product of decimal(5,2) and decimal(9,3)",
        ),
    ],
)
def test_an_ill_typed_term_cannot_be_built(build: Callable[[], object], message: str) -> None:
    with pytest.raises(DefinitionError) as error:
        build()
    assert error.value.message == message


def test_types_of_products() -> None:
    assert str(Product(R, S).type) == "Bag(⟨1: bigint, 2: string⟩)"
    assert str(Product(Constant(2), R).type) == "Bag(bigint)"
    assert str(Product(Constant(0.5, DOUBLE), R).type) == "bigint → double"
    assert str(Multiply(R, Dictionary(x, S)).type) == "bigint → Bag(string)"
    assert str(LabelDictionary(1, (x,), S).type) == "Label → Bag(string)"


def test_two_functions_of_the_same_text_are_equal() -> None:
    assert Apply(ScalarFunction("{0} = {1}", BOOLEAN), (x, x)) == equal(x, x)


def test_a_function_without_python_is_computed_by_spark_only() -> None:
    condition = Apply(ScalarFunction("{0} LIKE 'a%'", BOOLEAN), (KeyConstant("a", STRING),))
    with pytest.raises(DefinitionError, match="is computed by Spark only"):
        meaning(Predicate(condition), {})


def test_a_collection_without_end_is_not_ranged_over() -> None:
    with pytest.raises(DefinitionError, match="without end"):
        meaning(Sum(Dictionary(x, R)), {"R": {}})
    assert meaning(Sum(Multiply(R, Dictionary(x, Lift(x)))), {"R": {3: 2}}) == 6


def test_substitution_does_not_capture() -> None:
    y = KeyVariable("y", INT)
    body = For(x, R, Singleton(MakeRecord((("a", x), ("b", y)))))
    assert text(substitute(body, {y: x})) == "for x_2 in R yield ⟨a: x_2, b: x⟩"
    assert substitute(body, {x: y}) == body


def test_renamed_apart_no_name_is_bound_twice() -> None:
    twice = Add(for_in("x", R, lambda x: for_in("x", R, sng)), for_in("x", R, sng))
    assert text(renamed_apart(twice)) == (
        "(for x in R for x_2 in R yield x_2) ⊎ (for x_3 in R yield x_3)"
    )
    named = let("X", R, lambda X: let("X", Product(Constant(2), X), lambda X: X))
    assert text(renamed_apart(named)) == "let X := R in let X_2 := 2 · X in X_2"
    assert meaning(named, {"R": {1: 1}}) == {1: 2}


def test_free_variables() -> None:
    inner = for_in("x", FromKey(Field(n, "inner")), sng)
    assert free_variables(inner) == {n}
    assert free_variables(sng(MakeRecord((("i", boxed(inner)),)))) == {n}
    assert free_variables(LabelDictionary(1, (n,), inner)) == frozenset()


def test_a_mapping_with_collections_as_values() -> None:
    table = Relation("T", Mapping(INT, Bag(STRING)))
    assert meaning(Sum(table), {"T": {1: {"a": 1}, 2: {"a": 2, "b": 1}}}) == {"a": 3, "b": 1}
    keyed = for_in("t", table, lambda t: Predicate(equal(t, number(2))))
    assert keyed.type == Bag(STRING)
    assert meaning(keyed, {"T": {1: {"a": 1}, 2: {"a": 2, "b": 1}}}) == {"a": 2, "b": 1}
    assert path(n, "inner").type == Boxed(Bag(INT))
