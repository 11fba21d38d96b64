"""The comparison of policies: what each keeps, and which is chosen."""

from __future__ import annotations

from rekindle.calculus.terms import Aggregate
from rekindle.incremental.policies.choice import Policy, Sizes, choose
from rekindle.incremental.policies.hypergraph import Hypergraph
from rekindle.incremental.policies.joins import JoinQuery, Refusal, recognise
from rekindle.incremental.policies.view_tree import factorise
from tests.policies.arithmetic import PYTHON
from tests.policies.test_joins import BOTH, COUNT
from tests.policies.test_state import STAR

RUNNING = Hypergraph.of("", R="A B", S="A C E", T="C D")


def test_a_join_with_many_matches_gets_a_tree() -> None:
    choice = choose(RUNNING, Sizes({"R": 1000, "S": 5000, "T": 1000}, {("R", "A"): 50}))
    assert choice.policy is Policy.VIEW_TREE
    kept = {policy: [each.view for each in views] for policy, views in choice.kept.items()}
    assert "R ⋈ S" in kept[Policy.FIRST_ORDER]
    assert "R ⋈ S" not in kept[Policy.VIEW_TREE]
    assert "M(R, S)[C]" in kept[Policy.HIGHER_ORDER]
    assert choice.rows(Policy.VIEW_TREE) < choice.rows(Policy.HIGHER_ORDER)
    assert str(choice).startswith("least in view_tree; rows: about ")
    assert "V@B[A]: 50" in str(choice)


def test_a_join_along_foreign_keys_into_its_own_groups_stays() -> None:
    query = Hypergraph.of("B", R="A", S="A B")
    choice = choose(query, Sizes({"R": 10, "S": 10}, {("S", "B"): 10}))
    assert choice.policy is Policy.FIRST_ORDER


def test_a_tree_of_a_star_keeps_less_where_keys_have_many_matches() -> None:
    query = recognise(Aggregate(STAR, (), (COUNT,)), PYTHON)
    assert isinstance(query, JoinQuery)
    many = {(name, "x"): 3 for name in "abcde"}
    choice = choose(query.hypergraph, Sizes(dict.fromkeys("abcde", 100), many))
    assert choice.rows(Policy.VIEW_TREE) < choice.rows(Policy.FIRST_ORDER)
    one = choose(query.hypergraph, Sizes(dict.fromkeys("abcde", 1)))
    assert one.rows(Policy.VIEW_TREE) >= one.rows(Policy.FIRST_ORDER)


def test_a_term_whose_query_stays_is_unchanged_and_says_why() -> None:
    term = Aggregate(BOTH, (), (COUNT,))
    found = factorise(term, PYTHON, lambda query: Refusal("it is small"))
    assert found.term is term
    assert [str(decision) for decision in found.decisions] == ["(n) stays as it is: it is small"]


def test_a_tree_joined_with_itself_has_the_size_of_its_table() -> None:
    assert Sizes({"e": 7}).of("e#2") == 7
