"""The policy `view_tree`: an aggregate over joins as an ordinary term that follows a view tree.

    γ[A; Σ b·d](R ⋈ S ⋈ T)  =  γ[A; Σ b·s](γ[A; Σ b](R) ⋈ γ[A; Σ d](S ⋈ γ[C; Σ d](T)))

The term means the same, with SQL's NULLs and over empty input. Its incremental form comes from the
same pipeline as that of any term, and what is kept for a view is an integral like any other; so
the policy is this rewriting and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from rekindle.calculus.scalars import Column, Scalar
from rekindle.calculus.terms import Aggregate, Map, Term
from rekindle.errors import DefinitionError
from rekindle.incremental.policies.arithmetic import Arithmetic
from rekindle.incremental.policies.decisions import Built, Factorised, apply_policy
from rekindle.incremental.policies.joins import JoinQuery, Parts, Refusal
from rekindle.incremental.policies.orders import find_order
from rekindle.incremental.policies.payloads import Builder, InexactError, Rows
from rekindle.incremental.policies.trees import View, view_tree

Plan: TypeAlias = Callable[[JoinQuery], View | Refusal]
"""Chooses the tree of a query, or says why it is to stay as it is."""


def follow_best_order(query: JoinQuery) -> View:
    """The tree over the order that is best when nothing is known of sizes."""
    return view_tree(find_order(query.hypergraph), query.hypergraph)


def factorise(term: Term, arithmetic: Arithmetic, plan: Plan = follow_best_order) -> Factorised:
    """An equal term of the same schema, in which every join query follows its plan."""

    def build(query: JoinQuery, _: Aggregate) -> Built | Refusal:
        tree = plan(query)
        if isinstance(tree, Refusal):
            return tree
        found = tree_term(query, tree, arithmetic)
        return found if isinstance(found, Refusal) else Built(found, tree)

    return apply_policy(term, arithmetic, build)


def tree_term(query: JoinQuery, tree: View, arithmetic: Arithmetic) -> Term | Refusal:
    """The query's result computed along the tree."""
    try:
        root = Builder(query, arithmetic).root(tree)
    except InexactError as error:
        return Refusal(str(error))
    return result_term(query, root, arithmetic)


def result_term(query: JoinQuery, root: Rows, arithmetic: Arithmetic) -> Term:
    """The query's columns from its variables and components."""
    fields = query.schema.fields
    outputs: list[tuple[str, Scalar]] = [
        (found.name, Column(root.variables[variable], found.type, found.nullable))
        for found, variable in zip(fields, query.keys, strict=False)
    ]
    for parts in query.measures:
        outputs.append((parts.measure.name, _result(parts, root, arithmetic)))
    term = Map(root.term, tuple(outputs))
    if term.schema != query.schema:
        raise DefinitionError(
            "a factorised term changed its schema: this is a defect of Rekindle",
            detail=f"{query.schema} became {term.schema}",
            hint="please report the view definition",
        )
    return term


def _result(parts: Parts, root: Rows, arithmetic: Arithmetic) -> Scalar:
    """A measure from the sums at the root."""
    schema = root.term.schema

    def column(place: int | None) -> Column:
        assert place is not None, "an aggregate's payloads are columns"
        return root.column(place)

    values: list[Scalar] = [column(root.payloads[parts.count])]
    if parts.sums in root.totals:
        values.append(root.column(root.totals[parts.sums]))
        return arithmetic.finished(parts.measure, values, schema)
    summands = [(sign, column(root.payloads[component])) for sign, component in parts.sums]
    match summands:
        case []:
            pass
        case [(1, only)]:
            values.append(only)
        case _:
            values.append(arithmetic.signed_sum(summands, schema))
    return arithmetic.finished(parts.measure, values, schema)
