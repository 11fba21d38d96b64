"""Pairs of a join that are not there: which branches give them, and how they are added up.

A row that was deleted may still be stored twice, once with each sign, and Δ(a ⋈ b) is computed as
Δa ⋈ b + (a + Δa) ⋈ Δb, where a row that comes to a meets one that leaves b in both terms. The pairs
cancel out, but an expression that fails on one of them (`x / y`) fails all the same. Adding up
every join before its expressions are evaluated would cost more than most joins do; so it is done
when an expression has failed, and if it fails again, it fails on a pair that is there.
"""

from __future__ import annotations

from collections.abc import Iterable

from rekindle.circuit.circuit import Circuit
from rekindle.circuit.nodes import Arrangement, HalfJoin
from rekindle.circuit.stages import Branch, LinearForm


def pairs_of(circuit: Circuit, branches: Iterable[Branch]) -> list[list[Branch]]:
    """The branches that begin with the pairs of a join, those together that go on alike."""
    found: dict[tuple[str, ...], list[Branch]] = {}
    for branch in branches:
        if isinstance(circuit.nodes[branch.node], HalfJoin):
            alike = (*branch.schema.types, "", *(stage.text for stage in branch.stages))
            found.setdefault(alike, []).append(branch)
    return list(found.values())


def of_pairs(branches: list[Branch]) -> Arrangement:
    """A node that would hold the sum of the pairs."""
    schema = branches[0].schema
    pairs = tuple(Branch(branch.node, schema, sign=branch.sign) for branch in branches)
    return Arrangement(LinearForm(pairs, schema), None)
