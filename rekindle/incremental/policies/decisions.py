"""A policy applied everywhere in a term, with a decision for each aggregate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from rekindle.calculus.terms import Aggregate, Fix, Term, over
from rekindle.calculus.walks import fold
from rekindle.incremental.policies.arithmetic import Arithmetic
from rekindle.incremental.policies.deltas import Deltas
from rekindle.incremental.policies.joins import Fused, JoinQuery, Refusal, recognise_around
from rekindle.incremental.policies.trees import View, tree_text


@dataclass(frozen=True, slots=True)
class Decision:
    """What became of one aggregate: the tree or the deltas that it follows, or why neither."""

    columns: tuple[str, ...]
    outcome: View | Deltas | Refusal
    fused: tuple[Fused, ...] = ()
    """The parts of its join that are kept first order."""

    def __str__(self) -> str:
        what = f"({', '.join(self.columns)})"
        match self.outcome:
            case Refusal(reason):
                return f"{what} stays as it is: {reason}"
            case View() as tree:
                found = f"{what} follows\n{tree_text(tree)}"
            case Deltas() as deltas:
                found = f"{what} is kept by\n{deltas}"
        return "\n".join([found, *(f"where {each}" for each in self.fused)])


@dataclass(frozen=True, slots=True)
class Built:
    """A term for a query, and what it follows."""

    term: Term
    follows: View | Deltas


Build: TypeAlias = Callable[[JoinQuery, Aggregate], Built | Refusal]
"""Makes the term of a query that an aggregate was recognised as, or says why it is to stay."""


@dataclass(frozen=True, slots=True)
class Factorised:
    """A term whose aggregates over joins follow a policy, with a decision for each."""

    term: Term
    decisions: tuple[Decision, ...]

    @property
    def refusals(self) -> tuple[str, ...]:
        """Why aggregates stayed as they are."""
        outcomes = (decision.outcome for decision in self.decisions)
        return tuple(outcome.reason for outcome in outcomes if isinstance(outcome, Refusal))

    @property
    def is_followed(self) -> bool:
        """Does an aggregate follow the policy?"""
        return len(self.refusals) < len(self.decisions)

    @property
    def has_nested(self) -> bool:
        """Does an aggregate stay as it is because a condition compares with another one?"""
        outcomes = (decision.outcome for decision in self.decisions)
        return any(isinstance(outcome, Refusal) and outcome.nested for outcome in outcomes)


def apply_policy(term: Term, arithmetic: Arithmetic, build: Build) -> Factorised:
    """An equal term of the same schema, in which every join query is built anew.

    Recursions are left as they are: inside them rows carry the iteration.
    """
    decisions: list[Decision] = []

    def visit(node: Term, children: tuple[Term, ...]) -> Term:
        rebuilt = node if isinstance(node, Fix) else over(node, children)
        if not isinstance(rebuilt, Aggregate):
            return rebuilt
        query = recognise_around(rebuilt, arithmetic)
        outcome = query if isinstance(query, Refusal) else build(query, rebuilt)
        if isinstance(outcome, Refusal):
            decisions.append(Decision(node.schema.names, outcome))
            return rebuilt
        assert isinstance(query, JoinQuery)
        decisions.append(Decision(node.schema.names, outcome.follows, query.fused))
        return outcome.term

    result = fold(term, lambda node: () if isinstance(node, Fix) else node.children, visit)
    return Factorised(result, tuple(decisions))
