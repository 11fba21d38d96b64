"""View trees as text: the paper's running example, its delta trees, and what must be kept."""

from __future__ import annotations

from collections.abc import Iterable
from textwrap import dedent

import pytest
from hypothesis import given, settings

from rekindle.incremental.policies.hypergraph import Hypergraph
from rekindle.incremental.policies.orders import find_order
from rekindle.incremental.policies.trees import (
    Tree,
    View,
    relations,
    tree_text,
    view_tree,
    views,
)
from tests.policies.orders import parse_order
from tests.policies.test_orders import RUNNING, TRIANGLE, hypergraphs

TREE = view_tree(parse_order("A(B, C(D, E))"), RUNNING)


def text(drawing: str) -> str:
    return dedent(drawing).strip("\n")


def test_the_running_example() -> None:
    assert tree_text(TREE) == text("""
        V@A[]
        ├─ V@B[A]
        │  └─ R[A, B]
        └─ V@C[A]
           ├─ V@D[C]
           │  └─ T[C, D]
           └─ V@E[A, C]
              └─ S[A, C, E]
    """)


def test_the_delta_tree_of_one_relation() -> None:
    assert tree_text(TREE, ("T",)) == text("""
        δV@A[]
        ├─ V@B[A]
        │  └─ R[A, B]
        └─ δV@C[A]
           ├─ δV@D[C]
           │  └─ δT[C, D]
           └─ V@E[A, C]
              └─ S[A, C, E]
    """)


def materialised(tree: View, updatable: Iterable[str]) -> tuple[Tree, ...]:
    """What must be kept when only some relations are updated: the result, and siblings of paths."""
    changing = frozenset(updatable)
    kept: list[Tree] = [tree]
    for view in views(tree):
        reached = [bool(changing.intersection(relations(child))) for child in view.children]
        for i, child in enumerate(view.children):
            if any(reached[:i] + reached[i + 1 :]):
                kept.append(child)
    return tuple(kept)


@pytest.mark.parametrize(
    ("updatable", "kept"),
    [
        ("", {"V@A[]"}),
        ("T", {"V@A[]", "V@B[A]", "V@E[A, C]"}),
        ("R", {"V@A[]", "V@C[A]"}),
        ("RT", {"V@A[]", "V@B[A]", "V@C[A]", "V@E[A, C]"}),
        ("RST", {"V@A[]", "V@B[A]", "V@C[A]", "V@D[C]", "V@E[A, C]"}),
    ],
)
def test_only_siblings_of_update_paths_are_kept(updatable: str, kept: set[str]) -> None:
    assert {str(tree) for tree in materialised(TREE, updatable)} == kept


def test_variables_that_nothing_comes_between_are_summed_out_together() -> None:
    query = Hypergraph.of("", R="A B C", S="A D")
    assert tree_text(view_tree(parse_order("A(B(C), D)"), query)) == text("""
        V@A[]
        ├─ V@B,C[A]
        │  └─ R[A, B, C]
        └─ V@D[A]
           └─ S[A, D]
    """)


def test_views_under_free_variables_meet_at_the_root() -> None:
    query = Hypergraph.of("A C", R="A B", S="A C E", T="C D")
    assert tree_text(view_tree(parse_order("A(C)"), query)) == text("""
        V[A, C]
        ├─ V@E[A, C]
        │  └─ S[A, C, E]
        ├─ V@D[C]
        │  └─ T[C, D]
        └─ V@B[A]
           └─ R[A, B]
    """)


def test_the_triangle_joins_two_relations_below() -> None:
    assert tree_text(view_tree(parse_order("A(B(C))"), TRIANGLE)) == text("""
        V@A,B[]
        ├─ V@C[A, B]
        │  ├─ S[B, C]
        │  └─ T[C, A]
        └─ R[A, B]
    """)


@given(hypergraphs())
@settings(max_examples=100, deadline=None)
def test_every_tree_has_each_relation_once_and_sums_out_each_bound_variable(
    query: Hypergraph,
) -> None:
    tree = view_tree(find_order(query), query)
    assert sorted(relations(tree)) == sorted(relation.name for relation in query.relations)
    bound = [variable for view in views(tree) for variable in view.bound]
    assert sorted(bound) == sorted(set(query.variables) - set(query.free))
    for view in views(tree):
        below = {v for child in view.children for v in child.variables}
        assert set(view.key) == below - set(view.bound)
