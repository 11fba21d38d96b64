"""Random expressions of AGCA, safe by construction, with databases and streams of updates.

Values come from {0, 1, 2} and variables from five names, so that joins match, deletions meet
insertions, and names clash between neighbouring aggregates. Multiplicities may be negative: the
laws hold in the whole ring.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from hypothesis import settings
from hypothesis import strategies as st

from rekindle.algebra.zset import ZSet
from rekindle.frontends.agca.ast import (
    Aggregate,
    Atom,
    Call,
    Comparison,
    Constant,
    Formula,
    MapAccess,
    Negation,
    Operator,
    Plus,
    Product,
    Query,
    Term,
    Truth,
    Variable,
    conjunction,
    multiplication,
)
from rekindle.frontends.agca.variables import Names, safe
from tests.agca.reference.delta import Sign
from tests.agca.reference.semantics import Database, Row

SCHEMA = {"R": ("a", "b"), "S": ("c",)}
DOMAIN = (0, 1, 2)
NAMES = ("x", "y", "z", "a", "w")

law = settings(deadline=None, max_examples=60)
fewer = settings(deadline=None, max_examples=20)
names = st.sampled_from(NAMES)
values = st.sampled_from(DOMAIN)
operators = st.sampled_from(Operator)


@dataclass(frozen=True)
class Shape:
    """What may occur.

    Aggregates `nested` in values, `conditions` on aggregates, `inequalities` between variables,
    `calls` of functions, `sums` and negations of formulae and of whole queries, and `literals`:
    true, false and 0, which make a degree overstate itself.
    """

    nested: bool = True
    conditions: bool = False
    inequalities: bool = True
    literals: bool = False
    calls: bool = True
    sums: bool = True


@st.composite
def formulae(draw: st.DrawFn, bound: Names, shape: Shape, depth: int = 2) -> Formula:
    """A formula that is safe when the given variables are bound."""
    result = draw(_factor(bound, shape, depth))
    for _ in range(draw(st.integers(0, 2))):
        result = Product(result, draw(_factor(safe(result, bound), shape, depth)))
    return result


@st.composite
def _factor(draw: st.DrawFn, bound: Names, shape: Shape, depth: int) -> Formula:
    kinds = ["atom", "atom", "atom"]
    if bound:
        kinds += ["equality", "constant"] + ["order"] * shape.inequalities
    if depth:
        kinds += ["product"] + ["plus", "negation"] * shape.sums
        kinds += ["condition"] * shape.conditions
    if shape.literals:
        kinds += ["literal"]
    inner = partial(_factor, bound, shape, depth - 1)
    match draw(st.sampled_from(kinds)):
        case "atom":
            return draw(_atoms())
        case "equality":
            sides = [Variable(draw(_bound(bound))), Variable(draw(names))]
            left, right = draw(st.permutations(sides))
            return Comparison(left, Operator.EQUAL, right)
        case "constant":
            compared = Constant(draw(values))
            return Comparison(Variable(draw(_bound(bound))), draw(operators), compared)
        case "order":
            left, right = Variable(draw(_bound(bound))), Variable(draw(_bound(bound)))
            return Comparison(left, draw(operators), right)
        case "condition":
            value = draw(_aggregates(bound, shape, depth - 1))
            return Comparison(value, draw(operators), draw(terms(bound, Shape(nested=False), 0)))
        case "plus":
            return Plus(draw(inner()), draw(inner()))
        case "negation":
            return Negation(draw(inner()))
        case "product":
            return draw(formulae(bound, shape, depth - 1))
        case _:
            return Truth(draw(st.booleans()))


def _bound(bound: Names) -> st.SearchStrategy[str]:
    return st.sampled_from(sorted(bound))


@st.composite
def terms(draw: st.DrawFn, bound: Names, shape: Shape, depth: int = 2) -> Term:
    """A term that is safe when the given variables are bound."""
    kinds = ["constant"] + ["variable"] * 2 * bool(bound)
    if depth:
        kinds += ["plus", "times", "negation"] + ["sum"] * shape.nested
        kinds += ["call"] * shape.calls
    inner = partial(terms, bound, shape, depth - 1)
    match draw(st.sampled_from(kinds)):
        case "variable":
            return Variable(draw(_bound(bound)))
        case "constant":
            return Constant(draw(st.integers(0 if shape.literals else 1, 3)))
        case "plus":
            return Plus(draw(inner()), draw(inner()))
        case "times":
            return Product(draw(inner()), draw(inner()))
        case "negation":
            return Negation(draw(inner()))
        case "call":
            plain = Shape(nested=shape.conditions, conditions=shape.conditions)
            return Call("abs", (draw(terms(bound, plain, depth - 1)),))
        case _:
            return draw(_aggregates(bound, shape, depth - 1))


@st.composite
def _aggregates(draw: st.DrawFn, bound: Names, shape: Shape, depth: int) -> Term:
    body = draw(formulae(bound, shape, depth))
    return Aggregate(draw(terms(safe(body, bound), shape, depth)), body)


@st.composite
def queries(draw: st.DrawFn, shape: Shape, most_groups: int = 2, depth: int = 2) -> Query:
    """A query: an aggregate with group variables, or a sum or product of two."""
    group = tuple(draw(st.lists(names, max_size=most_groups, unique=True)))
    aggregates = _aggregates(frozenset(group), shape, depth)
    match draw(st.sampled_from(["sum"] * 3 + ["plus", "times"] * shape.sums)):
        case "plus":
            return Query("q", group, Plus(draw(aggregates), draw(aggregates)))
        case "times":
            return Query("q", group, Product(draw(aggregates), draw(aggregates)))
        case _:
            return Query("q", group, draw(aggregates))


@st.composite
def primitive_queries(draw: st.DrawFn, most_atoms: int = 3) -> Query:
    """Joins by equality, grouped by variables of the atoms: what needs no active domain."""
    atoms = draw(st.lists(_atoms(), min_size=1, max_size=most_atoms))
    known = sorted({name for atom in atoms for name in atom.variables})
    variables = st.sampled_from(known)
    conditions = st.builds(
        Comparison,
        st.builds(Variable, variables),
        st.just(Operator.EQUAL),
        st.builds(Variable, variables),
    ) | st.builds(
        Comparison, st.builds(Variable, variables), operators, st.builds(Constant, values)
    )
    body: list[Formula] = [*atoms, *draw(st.lists(conditions, max_size=2))]
    group = tuple(draw(st.lists(variables, max_size=2, unique=True)))
    measured = draw(st.lists(st.builds(Variable, variables), max_size=2))
    return Query("q", group, Aggregate(multiplication(measured), conjunction(body)))


@st.composite
def _atoms(draw: st.DrawFn) -> Atom:
    relation = draw(st.sampled_from(sorted(SCHEMA)))
    return Atom(relation, tuple(draw(names) for _ in SCHEMA[relation]))


rows: dict[str, st.SearchStrategy[Row]] = {
    relation: st.tuples(*[values] * len(columns)) for relation, columns in SCHEMA.items()
}
databases: st.SearchStrategy[Database] = st.fixed_dictionaries(
    {
        relation: st.dictionaries(rows[relation], st.integers(-2, 2), max_size=4).map(ZSet.of)
        for relation in SCHEMA
    }
)
updates: st.SearchStrategy[tuple[Sign, str, Row]] = st.sampled_from(sorted(SCHEMA)).flatmap(
    lambda relation: st.tuples(st.sampled_from(Sign), st.just(relation), rows[relation])
)
EMPTY: Database = {relation: ZSet.of({}) for relation in SCHEMA}

# Any expression at all, for the text form: most of these are not safe.

_identifiers = st.sampled_from(["x", "y", "c1", "n'", "_t", "abs", "total"])
_relations = st.sampled_from(["R", "Orders", "orders", "Sum", "true", "my table"])
_constants = st.builds(
    Constant,
    st.integers(-3, 12)
    | st.fractions(-2, 2, max_denominator=5).filter(lambda value: value.denominator > 1)
    | st.sampled_from(["", "US", "it's", "a\\b", "\n"]),
)
_columns = st.lists(_identifiers, max_size=3).map(tuple)
_leaf_terms: st.SearchStrategy[Term] = st.one_of(
    st.builds(Variable, _identifiers), _constants, st.builds(MapAccess, _identifiers, _columns)
)
_leaf_formulae: st.SearchStrategy[Formula] = st.one_of(
    st.builds(Truth, st.booleans()), st.builds(Atom, _relations, _columns)
)


def _wider_terms(inner: st.SearchStrategy[Term]) -> st.SearchStrategy[Term]:
    return st.one_of(
        st.builds(Product, inner, inner),
        st.builds(Plus, inner, inner),
        st.builds(Negation, inner),
        st.builds(Call, _identifiers, st.lists(inner, max_size=2).map(tuple)),
        st.builds(Aggregate, inner, _wider_formulae(_leaf_formulae, inner)),
    )


def _wider_formulae(
    inner: st.SearchStrategy[Formula], sides: st.SearchStrategy[Term]
) -> st.SearchStrategy[Formula]:
    wider = inner | st.builds(Comparison, sides, operators, sides)
    for _ in range(2):
        wider = st.one_of(
            wider,
            st.builds(Product, wider, wider),
            st.builds(Plus, wider, wider),
            st.builds(Negation, wider),
        )
    return wider


any_terms: st.SearchStrategy[Term] = st.recursive(_leaf_terms, _wider_terms, max_leaves=8)
any_formulae = _wider_formulae(_leaf_formulae, any_terms)
any_queries = st.builds(Query, _identifiers, _columns, any_terms)
