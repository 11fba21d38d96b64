"""Terms as text, in the notation of comprehensions.

    for m in M yield ⟨m.name, related: toK(for m2 in M where m.gen = m2.gen yield m2.name)⟩

| term                             | text                            |
|----------------------------------|---------------------------------|
| For, body Singleton              | for x in r yield e              |
| For, body Singleton with a value | for x in r yield e => r         |
| For, body Product(Predicate, ..) | for x in r where p ..           |
| For, any other body              | for x in r collect r            |
| For, body the opened row         | flatten(r)                      |
| Add, Negate, Product, Zero       | ⊎ ⊖ × ∅ of collections, + − · 0 |
| Change                           | ΔR, Δ'R                         |
| NewLabel, LabelDictionary        | ι1⟨m.name⟩, {ι1⟨m.name⟩ => r}   |
| FromKey with a dictionary        | d(e)                            |

A field of a record that is called like what it holds is written once: ⟨m.name⟩ and not
⟨name: m.name⟩. The texts are for readers (explain, golden tests); nothing reads them back.
"""

from __future__ import annotations

from typing import assert_never

from rekindle.nested.terms import (
    ONE,
    Add,
    Apply,
    Change,
    Constant,
    Dictionary,
    Field,
    For,
    FromKey,
    KeyConstant,
    KeyTerm,
    KeyVariable,
    LabelDictionary,
    LabelUnion,
    Let,
    Lift,
    MakeRecord,
    MakeRingRecord,
    Measure,
    Multiply,
    Negate,
    NewLabel,
    Not,
    Predicate,
    Product,
    Relation,
    RingField,
    RingTerm,
    ScalarFunction,
    Singleton,
    Sum,
    Term,
    ToKey,
    Variable,
    Zero,
)
from rekindle.nested.types import Mapping

KEYS = (KeyConstant, KeyVariable, MakeRecord, Field, Apply, ToKey, NewLabel, Measure)

OPEN, SUM, FACTOR, ATOM = range(4)
"""How tightly a text holds together: what is looser than its place asks for gets brackets."""


def text(term: Term) -> str:
    """The text of a term.

    >>> from rekindle.nested.nrc import bag, flatten, plus
    >>> from rekindle.nested.types import Bag, Boxed, Scalar
    >>> rows = bag("R", Boxed(Bag(Scalar("int"))))
    >>> text(plus(flatten(rows), flatten(Change("R", rows.type))))
    'flatten(R) ⊎ flatten(ΔR)'
    """
    return _key(term) if isinstance(term, KEYS) else _ring(term, OPEN)


def _ring(term: RingTerm, place: int) -> str:
    written, holds = _ring_parts(term)
    return written if holds >= place else f"({written})"


def _ring_parts(term: RingTerm) -> tuple[str, int]:
    many = isinstance(term.type, Mapping)
    match term:
        case Zero():
            return ("∅" if many else "0"), ATOM
        case Constant(value):
            return str(value), ATOM
        case Relation(name) | Variable(name):
            return name, ATOM
        case Change(name, _, order):
            return "Δ" + "'" * (order - 1) + name, ATOM
        case MakeRingRecord(fields):
            return f"({', '.join(f'{name}: {_ring(part, SUM)}' for name, part in fields)})", ATOM
        case RingField(record, name):
            return f"{_ring(record, ATOM)}.{name}", ATOM
        case Let(variable, value, body):
            return f"let {variable.name} := {_ring(value, SUM)} in {_ring(body, OPEN)}", OPEN
        case Add(left, Negate(right)):
            sign = "⊖" if many else "−"
            return f"{_ring(left, SUM)} {sign} {_ring(right, FACTOR)}", SUM
        case Add(left, right):
            return f"{_ring(left, SUM)} {'⊎' if many else '+'} {_ring(right, SUM)}", SUM
        case Negate(below):
            return f"{'⊖' if many else '−'}{_ring(below, ATOM)}", FACTOR
        case Product(Predicate(key), body):
            return f"where {_key(key)} {_body(body)}", OPEN
        case Product(left, right):
            both = isinstance(left.type, Mapping) and isinstance(right.type, Mapping)
            return f"{_ring(left, FACTOR)} {'×' if both else '·'} {_ring(right, ATOM)}", FACTOR
        case Multiply(left, right):
            return f"{_ring(left, FACTOR)} * {_ring(right, ATOM)}", FACTOR
        case Sum(below):
            return f"sum({_ring(below, SUM)})", ATOM
        case For(variable, source, FromKey(key, None)) if key == variable:
            return f"flatten({_ring(source, SUM)})", ATOM
        case For(variable, source, body):
            return f"for {variable.name} in {_ring(source, FACTOR)} {_body(body)}", OPEN
        case Dictionary(variable, body):
            return f"{{{variable.name} => {_ring(body, OPEN)}}}", ATOM
        case LabelDictionary(index, parameters, body):
            names = ", ".join(parameter.name for parameter in parameters)
            return f"{{ι{index}⟨{names}⟩ => {_ring(body, OPEN)}}}", ATOM
        case LabelUnion(left, right):
            return f"{_ring(left, SUM)} ∪ {_ring(right, SUM)}", SUM
        case Predicate(key):
            return f"[{_key(key)}]", ATOM
        case Not(below):
            return f"¬{_ring(below, ATOM)}", ATOM
        case Lift(key):
            return _operand(key), ATOM
        case Singleton(key, value) if value == ONE:
            return f"sng({_key(key)})", ATOM
        case Singleton(key, value):
            return f"sng({_key(key)}, {_ring(value, SUM)})", ATOM
        case FromKey(key, None):
            return f"fromK({_key(key)})", ATOM
        case FromKey(key, dictionary):
            assert dictionary is not None
            return f"{_ring(dictionary, ATOM)}({_key(key)})", ATOM
        case _:
            assert_never(term)


def _body(term: RingTerm) -> str:
    """What follows `for x in r`."""
    match term:
        case Singleton(key, value) if value == ONE:
            return f"yield {_key(key)}"
        case Singleton(key, Product(Predicate(condition), value)):
            return f"where {_key(condition)} {_body(Singleton(key, value))}"
        case Singleton(key, Predicate(condition)):
            return f"where {_key(condition)} yield {_key(key)}"
        case Singleton(key, value):
            return f"yield {_key(key)} => {_value(value)}"
        case Product(Predicate()):
            return _ring(term, OPEN)
        case For() if not _is_flatten(term):
            return _ring(term, OPEN)
        case _:
            return f"collect {_ring(term, FACTOR)}"


def _value(term: RingTerm) -> str:
    return _ring(term, FACTOR)


def _is_flatten(term: RingTerm) -> bool:
    match term:
        case For(variable, _, FromKey(key, None)):
            return key == variable
        case _:
            return False


def _key(term: KeyTerm) -> str:
    match term:
        case KeyConstant(value):
            return _literal(value)
        case KeyVariable(name):
            return name
        case MakeRecord(fields):
            return f"⟨{', '.join(_named(name, part) for name, part in fields)}⟩"
        case Field(key, name):
            return f"{_key(key)}.{name}"
        case Apply(function, arguments):
            written = [_argument(function, argument) for argument in arguments]
            return function.text.format(*written)
        case ToKey(_, ring):
            return f"toK({_ring(ring, OPEN)})"
        case Measure(name, collection):
            return f"{name}({_ring(collection, OPEN)})"
        case NewLabel(index, fields):
            return f"ι{index}⟨{', '.join(_key(part) for _, part in fields)}⟩"
        case _:
            assert_never(term)


def _named(name: str, part: KeyTerm) -> str:
    written = _key(part)
    plain = name.isdigit() or name in (written, written.split(".")[-1])
    return written if plain else f"{name}: {written}"


def _literal(value: object) -> str:
    if value is None:
        return "NULL"
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


def _argument(function: ScalarFunction, argument: KeyTerm) -> str:
    """An argument, in brackets where an operator stands within another."""
    written = _key(argument)
    if not isinstance(argument, Apply) or not _is_operator(function.text):
        return written
    inner = argument.function.text
    chained = inner == function.text and inner in ("{0} AND {1}", "{0} OR {1}")
    compared = function.text in ("{0} AND {1}", "{0} OR {1}") and inner in _COMPARISONS
    return written if chained or compared or not _is_operator(inner) else f"({written})"


_COMPARISONS = tuple(f"{{0}} {sign} {{1}}" for sign in ("=", "<=>", "<>", "<", ">", "<=", ">="))


def _is_operator(template: str) -> bool:
    return " " in template and not template.startswith("(") and "(" not in template


def _operand(key: KeyTerm) -> str:
    written = _key(key)
    return f"({written})" if isinstance(key, Apply) and _is_operator(key.function.text) else written
