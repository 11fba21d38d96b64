"""Step 2: distinct elimination, the rules of propositions 4.4 and 4.5 until convergence.

The rules are those of `rekindle.rewrite`, which holds some more that cost nothing to apply here.
"""

from __future__ import annotations

from rekindle.calculus.terms import Term
from rekindle.rewrite.pipeline import rewrite


def eliminate_distincts(term: Term) -> Term:
    """An equal term with no more distincts than it needs."""
    return rewrite(term)
