"""The examples of the thesis, with its texts and numbers."""

from __future__ import annotations

import math

import pytest

from rekindle.errors import UnsupportedError
from rekindle.nested import contexts
from rekindle.nested.cost import Sizes, cost, less, prices, size, steps
from rekindle.nested.degree import degree
from rekindle.nested.delta import delta, deltas
from rekindle.nested.domains import Equal, OwnLabel, PrimaryKey, domains
from rekindle.nested.labels import Finite, LabelError, LabelValue, added, label_union
from rekindle.nested.meaning import Environment, meaning, value_of
from rekindle.nested.nesting import evaluated, materialised, nest, new_labels, shred
from rekindle.nested.nrc import (
    bag,
    boxed,
    flatten,
    for_in,
    let,
    minus,
    path,
    plus,
    row,
    sng,
    times,
    where,
)
from rekindle.nested.recursive_anf import (
    Strategy,
    join_text,
    joined,
    normal_text,
    recursive_anf,
)
from rekindle.nested.scalars import both, equal, greater, number, strict
from rekindle.nested.scalars import less as smaller
from rekindle.nested.scalars import text as literal
from rekindle.nested.shredding import shredded, shredded_names
from rekindle.nested.terms import (
    Apply,
    Change,
    FromKey,
    KeyTerm,
    KeyVariable,
    Lift,
    Multiply,
    Not,
    Predicate,
    RingTerm,
    ScalarFunction,
    Singleton,
    Sum,
)
from rekindle.nested.text import text
from rekindle.nested.types import BOOLEAN, Bag, Boxed, Mapping, Record, Scalar
from rekindle.nested.values import Box, add
from tests.nested_collections.movies import JARHEAD, MOVIES, RELATED, M, related_to

INT = Scalar("bigint")
STRING = Scalar("string")
P = ScalarFunction("p({0})", BOOLEAN, strict(lambda value: value > 2))


def p(key: KeyTerm) -> KeyTerm:
    return Apply(P, (key,))


def filtered(rows: RingTerm) -> RingTerm:
    return for_in("x", rows, lambda x: where(p(x), sng(x)))


R = bag("R", INT)


# --- chapter 2 and section 3.2 --------------------------------------------------------------------


def test_example_1_filter() -> None:
    assert text(filtered(R)) == "for x in R where p(x) yield x"
    assert meaning(filtered(R), {"R": {1: 1, 3: 2, None: 1}}) == {3: 2}


def test_example_2_dramas_in_oz() -> None:
    """DOz: the movies of σ(Sh) ⋈ σ(M), and its delta for changes of both."""
    shows = bag("Sh", Record((("movie", STRING), ("location", STRING), ("time", INT))))
    movies = bag("M", Record((("movie", STRING), ("genre", STRING))))
    join = for_in(
        "s",
        shows,
        lambda s: where(
            equal(path(s, "location"), literal("Oz")),
            for_in(
                "m",
                movies,
                lambda m: where(
                    both(
                        equal(path(m, "genre"), literal("Drama")),
                        equal(path(s, "movie"), path(m, "movie")),
                    ),
                    sng(path(m, "movie")),
                ),
            ),
        ),
    )
    oz = "where s.location = 'Oz'"
    drama = "where m.genre = 'Drama' AND s.movie = m.movie yield m.movie"
    assert text(join) == f"for s in Sh {oz} for m in M {drama}"
    assert text(delta(join, {"Sh"})) == f"for s in ΔSh {oz} for m in M {drama}"
    assert text(delta(join, {"Sh", "M"})) == (
        f"(for s in Sh {oz} for m in ΔM {drama}) ⊎ "
        f"(for s in ΔSh {oz} collect ((for m in M {drama}) ⊎ (for m in ΔM {drama})))"
    )
    assert degree(join, {"Sh", "M"}) == 2
    tables = {"Sh": {("Drive", "Oz", 8): 1}, "M": {("Drive", "Drama"): 2, ("Up", "Animation"): 1}}
    assert meaning(join, tables) == {"Drive": 2}


def test_example_3_the_related_movies() -> None:
    after = add(MOVIES, JARHEAD)
    assert meaning(RELATED, {"M": MOVIES}) == {
        ("Drive", Box.of({})): 1,
        ("Skyfall", Box.of({"Rush": 1})): 1,
        ("Rush", Box.of({"Skyfall": 1})): 1,
    }
    assert meaning(RELATED, {"M": after}) == {
        ("Drive", Box.of({"Jarhead": 1})): 1,
        ("Skyfall", Box.of({"Rush": 1, "Jarhead": 1})): 1,
        ("Rush", Box.of({"Skyfall": 1})): 1,
        ("Jarhead", Box.of({"Drive": 1, "Skyfall": 1})): 1,
    }
    assert degree(RELATED, {"M"}) == math.inf


def test_section_3_1_2_related_is_shredded() -> None:
    queries = {name: text(query) for name, query in shredded(RELATED).queries.items()}
    same = "m.name <> m2.name AND (m.gen = m2.gen OR m.dir = m2.dir)"
    assert queries == {
        "": "for m in M yield ⟨m.name, related: ι1⟨m.name, m.gen, m.dir⟩⟩",
        "related": f"{{ι1⟨m.name, m.gen, m.dir⟩ => for m2 in M where {same} yield m2.name}}",
    }
    changes = {name: text(delta(q, {"M"})) for name, q in shredded(RELATED).queries.items()}
    assert changes == {
        "": "for m in ΔM yield ⟨m.name, related: ι1⟨m.name, m.gen, m.dir⟩⟩",
        "related": f"{{ι1⟨m.name, m.gen, m.dir⟩ => for m2 in ΔM where {same} yield m2.name}}",
    }


def test_section_3_1_2_the_values_of_related_shredded() -> None:
    value = materialised(evaluated(shredded(RELATED), Environment({"M": MOVIES})))
    drive, skyfall, rush = (LabelValue(1, movie) for movie in MOVIES)
    assert value.flat == {("Drive", drive): 1, ("Skyfall", skyfall): 1, ("Rush", rush): 1}
    assert dict(contexts.named(value.context)) == {
        "related": Finite({drive: {}, skyfall: {"Rush": 1}, rush: {"Skyfall": 1}})
    }
    assert nest(value) == meaning(RELATED, {"M": MOVIES})


def test_example_4_the_delta_of_a_filter_filters_the_change() -> None:
    assert delta(filtered(R), {"R"}) == filtered(Change("R", R.type))
    assert text(delta(filtered(R), {"R"})) == "for x in ΔR where p(x) yield x"


def test_example_5_higher_deltas() -> None:
    nested = bag("R", Boxed(Bag(INT)))
    h = times(flatten(nested), flatten(nested))
    assert [text(each) for each in deltas(h, {"R"}, 3)] == [
        "flatten(R) × flatten(R)",
        "flatten(R) × flatten(ΔR) ⊎ flatten(ΔR) × (flatten(R) ⊎ flatten(ΔR))",
        "flatten(Δ'R) × flatten(ΔR) ⊎ flatten(ΔR) × flatten(Δ'R)",
        "∅",
    ]
    assert [degree(each, {"R"}) for each in deltas(h, {"R"}, 2)] == [2, 1, 0]


GENRES = Bag(Record((("gen", STRING), ("movies", Boxed(Bag(STRING))))))
COMEDIES = {
    ("Comedy", Box.of({"Carnage": 1})): 1,
    ("Animation", Box.of({"Up": 1, "Shrek": 1, "Cars": 1})): 1,
}


def test_example_6_the_size_of_a_nested_bag() -> None:
    assert str(size(COMEDIES, GENRES)) == "2{⟨1, 3{1}⟩}"
    assert (
        str(
            size(
                {Box.of({"a": 1}): 1, Box.of({"b": 1}): 1, Box.of({"c": 1, "d": 1}): 1},
                Bag(Boxed(Bag(STRING))),
            )
        )
        == "3{2{1}}"
    )
    one_more = {("Drama", Box.of({"Drive": 1, "Rush": 1})): 1}
    assert less(size(one_more, GENRES), size(COMEDIES, GENRES))
    one_large = {("Drama", Box.of({"a": 1, "b": 1, "c": 1, "d": 1})): 1}
    assert not less(size(one_large, GENRES), size(COMEDIES, GENRES))


def test_example_7_a_filter_costs_its_input() -> None:
    sizes = Sizes({"R": size({1: 5, 2: 7}, R.type)})
    assert cost(filtered(R), sizes) == sizes.tables["R"]


def test_example_8_the_cost_of_related() -> None:
    sizes = Sizes({"M": size(MOVIES, M.type)})
    found = cost(RELATED, sizes)
    assert str(found) == "3{⟨1, 3{1}⟩}"
    assert steps(found) == 3 * (1 + 3)


def test_the_price_of_a_change_of_related() -> None:
    """Recomputing is quadratic, a shredded change is not; a change in nested form saves nothing."""
    nested = prices(RELATED, {"M": 1_000}, {"M": 1})
    assert steps(nested.whole) == 1_001_000 and nested.ratio == 1
    shred_prices = [prices(q, {"M": 1_000}, {"M": 1}) for q in shredded(RELATED).queries.values()]
    assert [round(each.ratio) for each in shred_prices] == [1000, 500]


# --- section 3.3 ----------------------------------------------------------------------------------


def test_example_9_a_label_dictionary() -> None:
    """d(⟨ι, m⟩) = relB(m), and nothing for labels of another index."""
    dictionary = shredded(RELATED).queries["related"]
    d = value_of(dictionary, Environment({"M": MOVIES}))
    for movie in MOVIES:
        scope = Environment({"M": MOVIES}, keys={"m": movie})
        assert d.find(LabelValue(1, movie)) == value_of(
            related_to(KeyVariable("m", M.type.key)), scope
        )
    assert d.find(LabelValue(2, ("Drive", "Drama", "Refn"))) is None


def test_example_10_label_union_and_addition() -> None:
    one = Finite({"l1": {"b1": 1}, "l2": {"b2": 1, "b3": 1}})
    same = Finite({"l2": {"b2": 1, "b3": 1}, "l3": {"b4": 1}})
    other = Finite({"l2": {"b5": 1}, "l3": {"b4": 1}})
    assert label_union(one, same) == Finite(
        {"l1": {"b1": 1}, "l2": {"b2": 1, "b3": 1}, "l3": {"b4": 1}}
    )
    assert added(one, same, add) == Finite(
        {"l1": {"b1": 1}, "l2": {"b2": 2, "b3": 2}, "l3": {"b4": 1}}
    )
    with pytest.raises(LabelError) as error:
        label_union(one, other)
    assert error.value.message == "label l2 has two definitions"
    assert error.value.detail == "one is {'b2': 1, 'b3': 1}, the other {'b5': 1}"
    assert added(one, other, add).find("l2") == {"b2": 1, "b3": 1, "b5": 1}


def test_an_empty_definition_is_not_an_undefined_label() -> None:
    empty, none = Finite({"l": {}}), Finite({})
    assert empty.find("l") == {} and none.find("l") is None
    with pytest.raises(LabelError):
        label_union(empty, Finite({"l": {"b": 1}}))
    assert label_union(none, Finite({"l": {"b": 1}})).find("l") == {"b": 1}


# --- chapter 5 ------------------------------------------------------------------------------------

PACKET = Record((("req_id", INT), ("time", INT), ("payload", STRING)))
SERVER = bag(
    "Server",
    Record((("ip", INT), ("incoming", Boxed(Bag(PACKET))), ("outgoing", Boxed(Bag(PACKET))))),
)
INVALID = ScalarFunction(
    "startswith({0}, 'INVALID')", BOOLEAN, strict(lambda text: text.startswith("INVALID"))
)
LATER = ScalarFunction("{1} - {0} > 10", BOOLEAN, strict(lambda start, end: end - start > 10))


def _violations(s: KeyTerm) -> RingTerm:
    def condition(i: KeyTerm, o: KeyTerm) -> KeyTerm:
        return both(
            both(
                equal(path(i, "req_id"), path(o, "req_id")),
                Apply(LATER, (path(i, "time"), path(o, "time"))),
            ),
            Apply(INVALID, (path(o, "payload"),)),
        )

    return for_in(
        "i",
        FromKey(path(s, "incoming")),
        lambda i: for_in(
            "o",
            FromKey(path(s, "outgoing")),
            lambda o: where(condition(i, o), sng(path(i, "payload"))),
        ),
    )


VIOLATIONS = for_in("s", SERVER, lambda s: sng(row(ip=path(s, "ip"), late=boxed(_violations(s)))))


def test_section_5_1_servers() -> None:
    """A nested-to-nested query: a label holds the labels of the collections that it joins."""
    assert shredded_names("Server", SERVER.type) == (
        "Server^F",
        "Server^Γ.incoming",
        "Server^Γ.outgoing",
    )
    queries = shredded(VIOLATIONS).queries
    condition = (
        "i.req_id = o.req_id AND (o.time - i.time > 10) AND startswith(o.payload, 'INVALID')"
    )
    assert {name: text(query) for name, query in queries.items()} == {
        "": "for s in Server^F yield ⟨s.ip, late: ι1⟨s.incoming, s.outgoing⟩⟩",
        "late": "{ι1⟨s.incoming, s.outgoing⟩ => for i in Server^Γ.incoming(s.incoming)"
        f" for o in Server^Γ.outgoing(s.outgoing) where {condition} yield i.payload}}",
    }
    # New requests of a server change one definition, and leave the flat query alone.
    assert text(delta(queries[""], {"Server^Γ.incoming"})) == "∅"
    assert text(delta(queries["late"], {"Server^Γ.incoming"})).startswith(
        "{ι1⟨s.incoming, s.outgoing⟩ => for i in ΔServer^Γ.incoming(s.incoming) for o in"
    )


def test_section_5_1_values() -> None:
    servers = {
        (1, Box.of({(7, 0, "a"): 1, (8, 0, "b"): 1}), Box.of({(7, 20, "INVALID"): 1})): 1,
        (2, Box.of({(9, 0, "c"): 1}), Box.of({(9, 5, "INVALID"): 1})): 1,
    }
    value = shred(servers, SERVER.type, new_labels())
    nested = meaning(VIOLATIONS, {"Server": servers})
    assert nested == {(1, Box.of({"a": 1})): 1, (2, Box.of({})): 1}
    tables = value.as_tables("Server")
    assert nest(evaluated(shredded(VIOLATIONS), Environment(tables))) == nested


def test_section_5_1_the_domain_is_that_of_the_flat_query() -> None:
    (domain,) = domains(shredded(VIOLATIONS))
    assert text(domain.query) == ("for s in Server^F yield ⟨s.incoming, s.outgoing⟩")
    # Each request is in the collection of a label, so the labels need not be brought to it.
    assert domain.determined_by == (
        (
            OwnLabel("s.incoming", "Server^Γ.incoming"),
            OwnLabel("s.outgoing", "Server^Γ.outgoing"),
        ),
    )


X = bag("X", Record((("1", STRING), ("2", INT))))


def nest_r() -> RingTerm:
    """Value nesting: for(⟨k1, k2⟩ ← X if p(k2)) yield k1 ↦ sng(k2)."""
    return for_in(
        "x", X, lambda x: Singleton(path(x, "1"), where(p(path(x, "2")), sng(path(x, "2"))))
    )


def group(k: KeyTerm, rows: RingTerm = X) -> RingTerm:
    return for_in(
        "y",
        rows,
        lambda y: where(both(equal(k, path(y, "1")), p(path(y, "2"))), sng(path(y, "2"))),
    )


def nest_k() -> RingTerm:
    """Key nesting: for(⟨k1, k2⟩ ← X) yield ⟨k1, toK(group(k1))⟩."""
    return for_in("x", X, lambda x: sng(row(k=path(x, "1"), group=boxed(group(path(x, "1"))))))


PAIRS = {("a", 1): 4, ("b", 2): 3, ("b", 3): 2, ("b", 4): 1}


def test_example_13_and_17_flattening() -> None:
    nested = bag("X", Boxed(Bag(INT)))
    assert text(flatten(nested)) == "flatten(X)"
    assert meaning(flatten(nested), {"X": {Box.of({1: 2, 2: 1}): 3, Box.of({2: 1}): 1}}) == {
        1: 6,
        2: 4,
    }
    queries = shredded(flatten(nested)).queries
    assert {name: text(q) for name, q in queries.items()} == {"": "for x in X^F collect X^Γ.[](x)"}


def test_example_14_exists_and_forall() -> None:
    exists = for_in("x", R, lambda x: Predicate(p(x)))
    forall = Not(for_in("x", R, lambda x: Not(Predicate(p(x)))))
    assert meaning(exists, {"R": {1: 1, 3: 1}}) and not meaning(exists, {"R": {1: 1}})
    assert meaning(forall, {"R": {3: 2}}) and not meaning(forall, {"R": {1: 1, 3: 1}})


def test_example_15_key_and_value_nesting_differ_on_empty_groups() -> None:
    assert meaning(nest_r(), {"X": PAIRS}) == {"b": {3: 2, 4: 1}}
    assert meaning(nest_k(), {"X": PAIRS}) == {
        ("a", Box.of({})): 4,
        ("b", Box.of({3: 2, 4: 1})): 6,
    }
    assert nest_r().type == Mapping(STRING, Bag(INT))


def test_example_16_deltas_of_both_kinds_of_nesting() -> None:
    assert text(nest_r()) == "for x in X where p(x.2) yield x.1 => sng(x.2)"
    assert text(delta(nest_r(), {"X"})) == "for x in ΔX where p(x.2) yield x.1 => sng(x.2)"
    inner = "where x.1 = y.1 AND p(y.2) yield y.2"
    old = f"sng(⟨k: x.1, group: toK(for y in X {inner})⟩)"
    new = f"⟨k: x.1, group: toK(for y in (X ⊎ ΔX) {inner})⟩"
    assert text(delta(nest_k(), {"X"})) == (
        f"(for x in X collect (sng({new}) ⊖ {old})) ⊎ (for x in ΔX yield {new})"
    )


def test_example_18_the_context_of_key_nesting() -> None:
    """nestK^Γ = ⟨d₁, ⟨{ℓ => group(ℓ.k₁)}, d₂⟩⟩ for rows whose parts hold collections."""
    inner = Boxed(Bag(INT))
    nested = bag("X", Record((("id", INT), ("k1", inner), ("k2", inner))))
    query = for_in(
        "x",
        nested,
        lambda x: sng(
            row(
                k1=path(x, "k1"),
                group=boxed(
                    for_in(
                        "y",
                        nested,
                        lambda y: where(equal(path(x, "id"), path(y, "id")), sng(path(y, "k2"))),
                    )
                ),
            )
        ),
    )
    assert {name: text(q) for name, q in shredded(query).queries.items()} == {
        "": "for x in X^F yield ⟨x.k1, group: ι1⟨x.id⟩⟩",
        "k1": "X^Γ.k1",
        "group": "{ι1⟨x.id⟩ => for y in X^F where x.id = y.id yield y.k2}",
        "group.[]": "X^Γ.k2",
    }


def three_way_join() -> RingTerm:
    """for(⟨x, y⟩ ← R) for(⟨z, w⟩ ← S) for(⟨v, t⟩ ← T if ..) yield ⟨x, t⟩."""
    one, two, three = (
        bag(name, Record(((first, INT), (second, INT))))
        for name, first, second in (("R", "x", "y"), ("S", "z", "w"), ("T", "v", "t"))
    )

    def condition(r: KeyTerm, s: KeyTerm, t: KeyTerm) -> KeyTerm:
        return both(
            both(
                both(greater(path(r, "x"), number(5)), equal(path(r, "y"), path(s, "z"))),
                equal(path(s, "w"), path(t, "v")),
            ),
            smaller(path(t, "t"), number(12)),
        )

    def yielded(r: KeyTerm, s: KeyTerm, t: KeyTerm) -> RingTerm:
        return where(condition(r, s, t), sng(row(x=path(r, "x"), t=path(t, "t"))))

    return for_in(
        "r",
        one,
        lambda r: for_in("s", two, lambda s: for_in("t", three, lambda t: yielded(r, s, t))),
    )


def test_example_19_as_it_is_printed() -> None:
    join = joined(three_way_join())
    assert join_text(join) == (
        "Q = for(⟨x, y⟩ ← R) collect\n"
        "for(⟨z, w⟩ ← S) collect\n"
        "for(⟨v, t⟩ ← T if x > 5 && y == z && w == v && t < 12) yield ⟨x, t⟩"
    )
    assert normal_text(join) == (
        "Q = let Q_1 := for(⟨z, w⟩ ← S) collect for(⟨v, t⟩ ← T) yield ⟨z, w, v, t⟩ in\n"
        "let Q_2 := for(⟨x, y⟩ ← R) collect for(⟨z, w, v, t⟩ ← Q_1)"
        " yield ⟨x, y, z, w, v, t⟩ in\n"
        "for(⟨x, y, z, w, v, t⟩ ← Q_2 if x > 5 && y == z && w == v && t < 12) yield ⟨x, t⟩"
    )


def test_example_20_the_rules_in_one_direction_as_printed() -> None:
    assert str(recursive_anf(three_way_join(), Strategy.AS_WRITTEN)) == (
        "Q = let Q_T := for(⟨v, t⟩ ← T if t < 12) yield ⟨v, t⟩ in\n"
        "let Q_ST := for(⟨z, w⟩ ← S) collect for(⟨v, t⟩ ← Q_T if w == v) yield ⟨z, t⟩ in\n"
        "let Q_R := for(⟨x, y⟩ ← R if x > 5) yield ⟨x, y⟩ in\n"
        "for(⟨x, y⟩ ← Q_R) collect for(⟨z, t⟩ ← Q_ST if y == z) yield ⟨x, t⟩"
    )


def test_example_20_the_recursive_form_as_printed() -> None:
    form = recursive_anf(three_way_join())
    assert str(form) == (
        "Q = let Q_T := for(⟨v, t⟩ ← T if t < 12) yield ⟨v, t⟩ in\n"
        "let Q_ST := for(⟨z, w⟩ ← S) collect for(⟨v, t⟩ ← Q_T if w == v) yield ⟨z, t⟩\n"
        "         := for(⟨v, t⟩ ← Q_T) collect for(⟨z, w⟩ ← S if w == v) yield ⟨z, t⟩ in\n"
        "let Q_R := for(⟨x, y⟩ ← R if x > 5) yield ⟨x, y⟩ in\n"
        "for(⟨x, y⟩ ← Q_R) collect for(⟨z, t⟩ ← Q_ST if y == z) yield ⟨x, t⟩\n"
        "  = let Q_RT := for(⟨x, y⟩ ← Q_R) collect for(⟨v, t⟩ ← Q_T) yield ⟨x, y, v, t⟩\n"
        "         := for(⟨v, t⟩ ← Q_T) collect for(⟨x, y⟩ ← Q_R) yield ⟨x, y, v, t⟩ in\n"
        "for(⟨z, w⟩ ← S) collect for(⟨x, y, v, t⟩ ← Q_RT if y == z && w == v) yield ⟨x, t⟩\n"
        "  = let Q_RS := for(⟨x, y⟩ ← Q_R) collect for(⟨z, w⟩ ← S if y == z) yield ⟨x, w⟩\n"
        "         := for(⟨z, w⟩ ← S) collect for(⟨x, y⟩ ← Q_R if y == z) yield ⟨x, w⟩ in\n"
        "for(⟨v, t⟩ ← Q_T) collect for(⟨x, w⟩ ← Q_RS if w == v) yield ⟨x, t⟩"
    )
    tables = {
        "R": {(6, 1): 1, (5, 1): 1, (7, 2): 2},
        "S": {(1, 3): 1, (2, 3): -1, (2, 4): 1},
        "T": {(3, 11): 1, (3, 12): 1, (4, 0): 3},
    }
    for plan in form.plans():
        assert meaning(form.term(plan), tables) == {(6, 11): 1, (7, 11): -2, (7, 0): 6}


def test_example_19_a_three_way_join_is_of_degree_three() -> None:
    pair = Record((("1", INT), ("2", INT)))
    one, two, three = (bag(name, pair) for name in "RST")
    join = for_in(
        "r",
        one,
        lambda r: for_in(
            "s",
            two,
            lambda s: for_in(
                "t",
                three,
                lambda t: where(
                    both(
                        both(greater(path(r, "1"), number(5)), equal(path(r, "2"), path(s, "1"))),
                        both(equal(path(s, "2"), path(t, "1")), smaller(path(t, "2"), number(12))),
                    ),
                    sng(row(x=path(r, "1"), t=path(t, "2"))),
                ),
            ),
        ),
    )
    assert text(join) == (
        "for r in R for s in S for t in T where r.1 > 5 AND r.2 = s.1 AND s.2 = t.1 AND t.2 < 12"
        " yield ⟨x: r.1, t: t.2⟩"
    )
    assert degree(join, set("RST")) == 3
    assert text(delta(join, {"S"})).startswith("for r in R for s in ΔS for t in T where")
    assert text(deltas(join, set("RST"), 3)[3]).count("Δ''") > 0
    assert degree(deltas(join, set("RST"), 3)[3], set("RST")) == 0


def test_example_20_the_join_with_selections_pushed_computes_the_same() -> None:
    pair = Record((("1", INT), ("2", INT)))
    one, two, three = (bag(name, pair) for name in "RST")

    def joined(r: KeyTerm, rows: RingTerm) -> RingTerm:
        return for_in(
            "st",
            rows,
            lambda st: where(
                equal(path(r, "2"), path(st, "z")), sng(row(x=path(r, "1"), t=path(st, "t")))
            ),
        )

    pushed = let(
        "Q_T",
        for_in("t", three, lambda t: where(smaller(path(t, "2"), number(12)), sng(t))),
        lambda q_t: let(
            "Q_ST",
            for_in(
                "s",
                two,
                lambda s: for_in(
                    "t",
                    q_t,
                    lambda t: where(
                        equal(path(s, "2"), path(t, "1")), sng(row(z=path(s, "1"), t=path(t, "2")))
                    ),
                ),
            ),
            lambda q_st: for_in(
                "r", one, lambda r: where(greater(path(r, "1"), number(5)), joined(r, q_st))
            ),
        ),
    )
    assert text(pushed) == (
        "let Q_T := (for t in T where t.2 < 12 yield t) in"
        " let Q_ST := (for s in S for t in Q_T where s.2 = t.1 yield ⟨z: s.1, t: t.2⟩) in"
        " for r in R where r.1 > 5 for st in Q_ST where r.2 = st.z yield ⟨x: r.1, st.t⟩"
    )
    tables = {
        "R": {(6, 1): 1, (5, 1): 1, (7, 2): 2},
        "S": {(1, 3): 1, (2, 3): -1, (2, 4): 1},
        "T": {(3, 11): 1, (3, 12): 1, (4, 0): 3},
    }
    assert meaning(pushed, tables) == {(6, 11): 1, (7, 11): -2, (7, 0): 6}
    assert degree(pushed, set("RST")) == 3
    change = {"S": {(1, 4): 1}}
    after = {**tables, "S": add(tables["S"], change["S"])}
    moved = meaning(delta(pushed, {"S"}), tables, change)
    assert add(meaning(pushed, tables), moved) == meaning(pushed, after)


def test_the_delta_of_let_is_that_of_figure_5_1() -> None:
    """δ_R(e₂) + δ_X(e₂) + δ_R(δ_X(e₂)), in one derivation."""
    query = let("X", filtered(R), lambda named: times(named, R))
    assert text(delta(query, {"R"})) == (
        "let X := (for x in R where p(x) yield x) in"
        " let ΔX := (for x in ΔR where p(x) yield x) in X × ΔR ⊎ ΔX × (R ⊎ ΔR)"
    )
    unread = let("X", R, lambda _: sng(number(1)))
    assert text(delta(unread, {"R"})) == "∅" and degree(unread, {"R"}) == 0


# --- aggregates, domains, refusals ----------------------------------------------------------------


def test_sums_are_lifted_scalars_and_counts_are_not() -> None:
    qty = bag("L", Record((("order", INT), ("qty", INT))))
    total = for_in("l", qty, lambda line: Lift(path(line, "qty")))
    assert text(total) == "for l in L collect l.qty"
    assert meaning(total, {"L": {(1, 3): 2, (1, None): 1, (2, 4): 1}}) == 10
    assert text(delta(total, {"L"})) == "for l in ΔL collect l.qty"
    assert meaning(Sum(qty), {"L": {(1, 3): 2, (1, None): 1}}) == 3


def test_a_number_in_a_row_is_a_dictionary_of_numbers() -> None:
    orders = bag("O", Record((("id", INT),)))
    lines = bag("L", Record((("order", INT), ("qty", INT))))
    query = for_in(
        "o",
        orders,
        lambda o: sng(
            row(
                id=path(o, "id"),
                total=boxed(
                    for_in(
                        "l",
                        lines,
                        lambda line: where(
                            equal(path(o, "id"), path(line, "order")), Lift(path(line, "qty"))
                        ),
                    )
                ),
            )
        ),
    )
    tables = {"O": {(1,): 1, (2,): 1}, "L": {(1, 3): 2, (1, 4): 1}}
    assert meaning(query, tables) == {(1, Box.of(10)): 1, (2, Box.of(0)): 1}
    queries = shredded(query)
    assert nest(evaluated(queries, Environment(tables))) == meaning(query, tables)
    assert text(delta(queries.queries["total"], {"L"})) == (
        "{ι1⟨o.id⟩ => for l in ΔL where o.id = l.order collect l.qty}"
    )
    (domain,) = domains(queries)
    assert domain.determined_by == (
        (Equal("o.id", path(KeyVariable("l", lines.type.key), "order")),),
    )


def customers(primary_keys: dict[str, tuple[str, ...]]) -> object:
    """The names of a customer's orders; the label holds the key and another column."""
    table = bag("C", Record((("id", INT), ("name", STRING))))
    orders = bag("O", Record((("customer", INT), ("what", STRING))))
    query = for_in(
        "c",
        table,
        lambda c: sng(
            row(
                orders=boxed(
                    for_in(
                        "o",
                        orders,
                        lambda o: where(
                            equal(path(o, "customer"), path(c, "id")),
                            sng(row(what=path(o, "what"), by=path(c, "name"))),
                        ),
                    )
                )
            )
        ),
    )
    (domain,) = domains(shredded(query), primary_keys)
    return domain.determined_by


def test_a_primary_key_determines_the_other_columns_of_a_label() -> None:
    orders = bag("O", Record((("customer", INT), ("what", STRING))))
    assert customers({}) is None
    assert customers({"C": ("id", "name")}) is None
    assert customers({"C": ("id",)}) == (
        (
            Equal("c.id", path(KeyVariable("o", orders.type.key), "customer")),
            PrimaryKey("c.name", "C", ("id",)),
        ),
    )


def test_related_needs_its_domain() -> None:
    """Genre or director: neither of them is known from a movie alone."""
    (domain,) = domains(shredded(RELATED))
    assert text(domain.query) == "for m in M yield ⟨m.name, m.gen, m.dir⟩"
    assert domain.determined_by is None


def test_collections_are_not_compared_by_label() -> None:
    nested = bag("R", Boxed(Bag(INT)))
    with pytest.raises(UnsupportedError, match="collections are compared"):
        shredded(Multiply(nested, nested))


def test_union_keeps_the_labels_of_both_sides() -> None:
    both_ways = plus(RELATED, minus(RELATED))
    queries = shredded(both_ways).queries
    assert text(queries["related"]).count("∪") == 1
    assert [domain.index for domain in domains(shredded(both_ways))] == [1, 2]
    assert nest(evaluated(shredded(both_ways), Environment({"M": MOVIES}))) == {}
