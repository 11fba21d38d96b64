"""What AGCA means: formulae as relations with multiplicities, terms as numbers.

    [[φ]](A, b) ∈ ℤRel        [[t]](A, b) ∈ ℚ

for a database A and a tuple b of values of the bound variables. Formulae add and multiply in the
ring of relations, with one twist: the right factor of a product is evaluated once for each tuple
of the left one, whose safe variables are bound in it. That is how a comparison, which is no finite
relation by itself, learns its variables.

Every tuple of a result extends b. The paper leaves b out of an atom's tuples, and a factor to the
right of the atom would then not see it; up to the join with b the two readings agree.

This is the reference that all else is tested against: it is slow and follows the definition.
Section 4 (semantics).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from itertools import product
from typing import TypeAlias, assert_never

from rekindle.algebra.groups import INTEGERS
from rekindle.algebra.relations import RelationRing, Tuple
from rekindle.algebra.zset import ZSet
from rekindle.errors import DefinitionError, RowError, unknown_name
from rekindle.frontends.agca.ast import (
    Aggregate,
    Atom,
    Call,
    Comparison,
    Constant,
    Formula,
    MapAccess,
    Negation,
    Plus,
    Product,
    Query,
    Term,
    Truth,
    Value,
    Variable,
)
from rekindle.frontends.agca.text import written
from rekindle.frontends.agca.variables import safe
from tests.agca.reference.arithmetic import Number, call, compare, number

Row: TypeAlias = tuple[Value, ...]
Database: TypeAlias = Mapping[str, ZSet[Row, int]]
Relation: TypeAlias = ZSet[Tuple, int]

RELATIONS = RelationRing(INTEGERS)
"""ℤRel, the ring that formulae mean values of."""


def evaluate_formula(
    formula: Formula, database: Database, bound: Mapping[str, Hashable]
) -> Relation:
    """[[φ]](A, b): the tuples that extend b and satisfy the formula, with multiplicities."""
    given = Tuple(bound)
    match formula:
        case Plus(left, right):
            return evaluate_formula(left, database, given) + evaluate_formula(
                right, database, given
            )
        case Negation(operand):
            return -evaluate_formula(operand, database, given)
        case Product(left, right):
            known = safe(left, frozenset(given))
            rows = evaluate_formula(left, database, given)
            return ZSet(
                (
                    (joined, weight * other)
                    for row, weight in rows
                    for found, other in evaluate_formula(right, database, row.restricted(known))
                    if (joined := row.joined(found)) is not None
                ),
                INTEGERS,
            )
        case Truth(value):
            return RELATIONS.singleton(given) if value else RELATIONS.zero
        case Comparison(left, operator, right):
            extended = _equalised(formula, given)
            if extended is not None:
                return RELATIONS.singleton(extended)
            holds = compare(
                evaluate_term(left, database, given),
                operator,
                evaluate_term(right, database, given),
            )
            return RELATIONS.singleton(given) if holds else RELATIONS.zero
        case Atom():
            return ZSet(_matches(formula, database, given), INTEGERS)
        case _:
            assert_never(formula)


def _equalised(comparison: Comparison, given: Tuple) -> Tuple | None:
    """The tuple with both sides of x = y, when exactly one of them is given."""
    match comparison.equated:
        case (left, right) if left in given and right not in given:
            return Tuple({**given, right: given[left]})
        case (left, right) if right in given and left not in given:
            return Tuple({**given, left: given[right]})
        case _:
            return None


def _matches(atom: Atom, database: Database, given: Tuple) -> Iterator[tuple[Tuple, int]]:
    if atom.relation not in database:
        raise unknown_name("relation", atom.relation, database)
    for row, weight in database[atom.relation]:
        if len(row) != len(atom.variables):
            raise RowError(
                f"'{written(atom)}' does not fit a row of {len(row)} values", detail=f"row: {row}"
            )
        columns = dict(zip(atom.variables, row, strict=True))
        if all(columns[name] == value for name, value in zip(atom.variables, row, strict=True)):
            joined = given.joined(Tuple(columns))
            if joined is not None:
                yield joined, weight


def evaluate_term(term: Term, database: Database, bound: Mapping[str, Hashable]) -> Value:
    """[[t]](A, b): the value of the term.

    >>> from rekindle.frontends.agca.parse import parse_term
    >>> database = {"R": ZSet.of({(1, 5): 2, (1, 7): -1, (2, 9): 1})}
    >>> evaluate_term(parse_term("Sum(x, R(a, x))"), database, {"a": 1})
    3
    """
    given = Tuple(bound)
    match term:
        case Variable(name):
            value: Value = given[name]
            return value
        case Constant(value):
            return value
        case Plus(left, right):
            return _number(left, database, given) + _number(right, database, given)
        case Product(left, right):
            return _number(left, database, given) * _number(right, database, given)
        case Negation(operand):
            return -_number(operand, database, given)
        case Call(function, arguments):
            return call(function, [evaluate_term(each, database, given) for each in arguments])
        case Aggregate(value_term, body):
            known = safe(body, frozenset(given))
            rows = evaluate_formula(body, database, given)
            return sum(
                weight * _number(value_term, database, row.restricted(known))
                for row, weight in rows
            )
        case MapAccess():
            raise DefinitionError(
                f"'{written(term)}' has a meaning only in a trigger program",
                hint="put back the aggregate that the map stands for",
            )
        case _:
            assert_never(term)


def _number(term: Term, database: Database, given: Tuple) -> Number:
    return number(evaluate_term(term, database, given))


def evaluate_query(
    query: Query, database: Database, domain: Iterable[Value] | None = None
) -> dict[Row, Number]:
    """The groups with a value other than 0, among all combinations of values of the domain.

    The domain is the active one, every value in the database, unless another is given.

    >>> from rekindle.frontends.agca.parse import parse_query
    >>> evaluate_query(parse_query("q[a] = Sum(x, R(a, x))"), {"R": ZSet.of({(1, 5): 2})})
    {(1,): 10}
    """
    values = active_domain(database) if domain is None else domain
    found = {}
    for group in product(tuple(values), repeat=len(query.group)):
        bound = Tuple(dict(zip(query.group, group, strict=True)))
        value = _number(query.term, database, bound)
        if value:
            found[group] = value
    return found


def active_domain(database: Database) -> tuple[Value, ...]:
    """Every value in the database, once each."""
    return tuple(
        dict.fromkeys(
            value for relation in database.values() for row, _ in relation for value in row
        )
    )
