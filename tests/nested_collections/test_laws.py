"""The laws of nested collections, on random types, tables, changes and terms."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from rekindle.nested import contexts
from rekindle.nested.cost import Each, Many, Sizes, at_most, cost, least, size, steps
from rekindle.nested.degree import degree
from rekindle.nested.delta import delta, deltas, reads
from rekindle.nested.domains import domains, maintained
from rekindle.nested.labels import Finite, LabelValue
from rekindle.nested.meaning import Environment, meaning, value_of
from rekindle.nested.nesting import (
    ShreddedValue,
    evaluated,
    materialised,
    nest,
    new_labels,
    occurring,
    shred,
)
from rekindle.nested.shredding import shredded
from rekindle.nested.simplify import simplified
from rekindle.nested.terms import Relation, RingTerm, Zero
from rekindle.nested.text import text
from rekindle.nested.types import Bag, Boxed, Label, Mapping, Record
from rekindle.nested.values import add
from tests.nested_collections.databases import databases, with_change
from tests.nested_collections.strategies import (
    COUNTS,
    INT,
    STRING,
    Draw,
    Fragment,
    bag_types,
    nested_types,
    ring_terms,
    rings,
)

law = settings(
    max_examples=200,
    deadline=None,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.filter_too_much,
        HealthCheck.data_too_large,
    ],
)

S = Relation("S", Bag(Record((("a", INT), ("b", STRING)))))
T = Relation("T", Mapping(INT, Bag(STRING)))

ALL = Fragment()
INCREMENTAL = Fragment(boxes=False)
WITHOUT_ZEROS = Fragment(boxes=False, zeros=False)
POSITIVE = Fragment(signs=False)


@st.composite
def problems(draw: Draw, fragment: Fragment, weights: Any = None) -> tuple[RingTerm, Any, Any]:
    """A term over tables of which one is nested, and the tables."""
    R = Relation("R", draw(nested_types()))
    tables = (R, S, T)
    nested = st.integers(1, 2).flatmap(bag_types)
    pairs = Bag(Record((("1", R.type.key), ("2", S.type.key))))
    boxed = Bag(Record((("a", INT), ("r", Boxed(R.type)))))
    target = draw(st.sampled_from([R.type, S.type, T.type, pairs, boxed, boxed]) | nested)
    term = draw(ring_terms(target, tables, fragment))
    database, labels = draw(databases(tables) if weights is None else databases(tables, weights))
    return term, database, labels


@law
@given(st.data())
def test_shredding_a_value_and_nesting_it_back_is_the_value(data: Any) -> None:
    """Lemma 6."""
    type_ = data.draw(nested_types(4))
    value = data.draw(rings(type_))
    assert nest(shred(value, type_, new_labels())) == value
    assert nest(materialised(shred(value, type_, new_labels()))) == value


@law
@given(problems(ALL), st.data())
def test_the_delta_is_the_change(problem: Any, data: Any) -> None:
    """Proposition 3.2.1, with the rules of figure 5.1 for all constructs."""
    term, database, _ = problem
    before = database.nested
    change = {name: data.draw(rings(type_)) for name, type_ in database.types.items()}
    after = {name: add(value, change[name]) for name, value in before.items()}
    tables = data.draw(st.sampled_from([("R",), ("S", "T"), ("R", "S", "T")]))
    only = {name: after[name] if name in tables else before[name] for name in before}
    moved = meaning(delta(term, tables), before, {n: change[n] for n in tables})
    assert add(meaning(term, before), moved) == meaning(term, only)


@law
@given(problems(ALL), st.data())
def test_the_delta_of_a_delta_is_its_change(problem: Any, data: Any) -> None:
    """Section 3.2.1: δ(h)[R + Δ'R, ΔR] = δ(h)[R, ΔR] + δ²(h)[R, ΔR, Δ'R]."""
    term, database, _ = problem
    before = database.nested
    first = {name: data.draw(rings(type_)) for name, type_ in database.types.items()}
    second = {name: data.draw(rings(type_)) for name, type_ in database.types.items()}
    after = {name: add(value, second[name]) for name, value in before.items()}
    _, once, twice = deltas(term, ("R", "S"), 2)
    changes = {(n, 1): first[n] for n in ("R", "S")} | {(n, 2): second[n] for n in ("R", "S")}
    only = after | {"T": before["T"]}
    known = Environment(before, changes)
    assert add(value_of(once, known), value_of(twice, known)) == value_of(
        once, Environment(only, changes)
    )


@law
@given(problems(ALL))
def test_what_reads_no_table_does_not_change(problem: Any) -> None:
    """Lemma 1."""
    term, _, _ = problem
    assert delta(term, {"another"}) == Zero(term.type)
    if not reads(term, {"R"}):
        assert delta(term, {"R"}) == Zero(term.type)


@law
@given(problems(ALL))
def test_a_simplified_term_has_the_same_value(problem: Any) -> None:
    term, database, _ = problem
    assert meaning(simplified(term), database.nested) == meaning(term, database.nested)


@law
@given(problems(WITHOUT_ZEROS))
def test_a_delta_has_one_degree_less(problem: Any) -> None:
    """Theorem 2 and corollary 3.2.2."""
    term = simplified(problem[0])
    tables = ("R", "S", "T")
    degrees = [degree(each, tables) for each in deltas(term, tables, int(degree(term, tables)))]
    assert degrees == [degrees[0] - taken for taken in range(len(degrees))]
    assert not reads(deltas(term, tables, int(degrees[0]))[-1], tables) or degrees[-1] == 0


@law
@given(problems(WITHOUT_ZEROS), st.data())
def test_an_incremental_change_costs_less_than_the_whole(problem: Any, data: Any) -> None:
    """Theorem 4, for queries whose results are bags; and no part of one costs more."""
    term = simplified(problem[0])
    tables = {"R": problem[1].types["R"], "S": S.type, "T": T.type}
    assume(degree(term, tables) > 0)
    whole = {name: data.draw(_sizes(least(type_))) for name, type_ in tables.items()}
    less = {(name, 1): data.draw(_smaller(each)) for name, each in whole.items()}
    sizes = Sizes(whole, less)
    change, full = cost(delta(term, tables), sizes), cost(term, sizes)
    assert at_most(change, full)
    if term.type.ring == Bag(INT).ring:
        assert steps(change) < steps(full)


def _sizes(shape: Any) -> Any:
    """Costs of a shape in which every collection has at least two rows."""
    match shape:
        case Many(_, row):
            return st.builds(Many, st.integers(2, 50), _sizes(row))
        case Each(costs):
            return st.builds(Each, st.tuples(*(_sizes(part) for part in costs)))
        case _:
            return st.just(shape)


def _smaller(whole: Any) -> Any:
    match whole:
        case Many(count, row):
            return st.builds(Many, st.integers(1, count - 1), _smaller(row))
        case Each(costs):
            return st.builds(Each, st.tuples(*(_smaller(part) for part in costs)))
        case _:
            return st.just(whole)


@law
@given(problems(Fragment(signs=False, zeros=False)), st.data())
def test_shredded_every_query_is_incremental(problem: Any, data: Any) -> None:
    """Theorem 5: a query that puts collections into rows is shredded into some that do not.

    Each has a degree, which its delta has one less of, and its delta costs less.
    """
    term, database, _ = problem
    types: dict[str, Any] = {}
    for name, type_ in database.types.items():
        flat = shredded(Relation(name, type_))
        queries = flat.queries.values()
        types |= {query.name: query.type for query in queries if isinstance(query, Relation)}
    whole = {name: data.draw(_sizes(least(type_))) for name, type_ in types.items()}
    sizes = Sizes(whole, {(name, 1): data.draw(_smaller(each)) for name, each in whole.items()})
    for query in shredded(term).queries.values():
        each = simplified(query)
        taken = degree(each, types)
        if taken:
            change = delta(each, types)
            assert degree(change, types) == taken - 1
            assert at_most(cost(change, sizes), cost(each, sizes))
            if _has_no_values_but_numbers(each.type):
                assert steps(cost(change, sizes)) < steps(cost(each, sizes))


def _has_no_values_but_numbers(type_: Any) -> bool:
    """Whether a query is of NRC+: a bag, or a dictionary of bags."""
    ring = (
        type_.ring.ring if isinstance(type_.ring, Mapping) and type_.key == Label() else type_.ring
    )
    return bool(ring == Bag(INT).ring)


@law
@given(st.data())
def test_the_size_of_a_sum_is_at_least_that_of_its_parts(data: Any) -> None:
    type_ = data.draw(nested_types())
    one, other = data.draw(rings(type_, COUNTS)), data.draw(rings(type_, COUNTS))
    assert at_most(size(one, type_), size(add(one, other), type_))


@law
@given(problems(ALL))
def test_nesting_a_shredded_query_is_the_query(problem: Any) -> None:
    """Lemma 7, theorems 8 and 14; lemma 17, because an undefined label would be an error."""
    term, database, _ = problem
    value = evaluated(shredded(term), database.scope)
    assert nest(value) == meaning(term, database.nested)
    assert nest(materialised(value)) == meaning(term, database.nested)


@law
@given(problems(ALL))
def test_no_shredded_query_puts_a_collection_into_a_row(problem: Any) -> None:
    """Section 3.3: what is shredded has a degree, if no truth is negated."""
    term, database, _ = problem
    for query in shredded(term).queries.values():
        assert degree(query, database.names) < math.inf or "¬" in text(query)


@law
@given(problems(ALL), st.data())
def test_maintained_through_changes_it_stays_the_query(problem: Any, data: Any) -> None:
    """Theorem 5 and section 3.1.2, for sequences of shallow and deep changes.

    The flat query and the dictionaries are kept up to date by their deltas; definitions are
    computed in full for labels only that are new.
    """
    term, database, labels = problem
    queries = shredded(term)
    paths = dict(contexts.named(queries.context))
    view = materialised(evaluated(queries, database.scope))
    for _ in range(data.draw(st.integers(1, 3))):
        database = with_change(data.draw, database, labels)
        names = database.names
        flat = add(view.flat, value_of(delta(queries.flat, names), database.scope))
        after = database.changed()
        labels_now = occurring(evaluated(queries, after.scope))
        stored = dict(contexts.named(view.context))
        kept: dict[str, Finite] = {}
        for path, query in paths.items():
            change = value_of(delta(query, names), database.scope)
            whole = value_of(query, after.scope)
            kept[path] = maintained(
                stored[path],
                Finite(change) if isinstance(change, dict) else change,
                Finite(whole) if isinstance(whole, dict) else whole,
                labels_now[path],
            )
        view = ShreddedValue(term.type, flat, _in_shape(term.type, kept))
        database = after
        assert nest(view) == meaning(term, database.nested)


def _in_shape(type_: Any, kept: dict[str, Finite]) -> Any:
    return contexts.context_of(type_, lambda path, _: kept[path])


@law
@given(problems(POSITIVE, COUNTS))
def test_the_domain_of_a_dictionary_are_the_labels_that_occur(problem: Any) -> None:
    term, database, _ = problem
    queries = shredded(term)
    found = occurring(evaluated(queries, database.scope))
    computed: dict[str, set[Any]] = {path: set() for path in found}
    for domain in domains(queries):
        rows = value_of(domain.query, database.scope)
        assert all(count > 0 for count in rows.values())
        computed[domain.path] |= {LabelValue(domain.index, row) for row in rows}
    assert computed == {
        path: {label for label in labels if label.index > 0} for path, labels in found.items()
    }
