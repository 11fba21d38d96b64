"""Each rule on text plans: where it applies, and where it must not."""

from __future__ import annotations

from textwrap import dedent

import pytest

from rekindle.calculus.terms import Term
from rekindle.calculus.text import parse, to_text
from rekindle.rewrite.analyses.positivity import is_positive
from rekindle.rewrite.analyses.setness import is_set
from rekindle.rewrite.pipeline import RULES, Rule, apply_everywhere, rewrite
from rekindle.rewrite.rules.cancel_negations import cancel_negations
from rekindle.rewrite.rules.collapse_distincts import collapse_distincts
from rekindle.rewrite.rules.drop_inner_distincts import drop_inner_distincts
from rekindle.rewrite.rules.flatten_unions import flatten_unions
from rekindle.rewrite.rules.pull_distincts import pull_distincts


def plan(text: str) -> Term:
    """A plan in which `r` and `s` stand for tables and `σ`, `⋈`, `π`, `γ` for whole lines."""
    short = {
        "r": "source r (x: int, y: int)",
        "s": "source s (x: int, y: int)",
        "σ": "filter less($0:int, 2:int):boolean",
        "π": "map x = $0:int, y = $1:int",
        "⋈": "join on $0:int = $0:int",
        "×": "join",
        "γ": "aggregate by x = $0:int compute y = count():int",
        "γ₀": "aggregate compute y = count():int",
    }
    lines = []
    for line in dedent(text).strip("\n").splitlines():
        word = line.strip()
        lines.append(line.replace(word, short.get(word, word)))
    return parse("\n".join(lines))


APPLIES: list[tuple[Rule, str, str]] = [
    (cancel_negations, "negate\n  negate\n    r", "r"),
    (flatten_unions, "union\n  r", "r"),
    (
        flatten_unions,
        "union\n  r\n  union\n    s\n    union\n      r\n      s",
        "union\n  r\n  s\n  r\n  s",
    ),
    (collapse_distincts, "distinct\n  distinct\n    r", "distinct\n  r"),
    (collapse_distincts, "distinct\n  γ\n    r", "γ\n  r"),
    (collapse_distincts, "distinct\n  γ₀\n    negate\n      r", "γ₀\n  negate\n    r"),
    (collapse_distincts, "distinct\n  σ\n    γ\n      r", "σ\n  γ\n    r"),
    (
        collapse_distincts,
        "distinct\n  ⋈\n    γ\n      r\n    distinct\n      s",
        "⋈\n  γ\n    r\n  distinct\n    s",
    ),
    (pull_distincts, "σ\n  distinct\n    r", "distinct\n  σ\n    r"),
    (
        pull_distincts,
        "⋈\n  distinct\n    r\n  distinct\n    s",
        "distinct\n  ⋈\n    r\n    s",
    ),
    (
        # A set is positive although it was made from something that is not.
        pull_distincts,
        "σ\n  distinct\n    γ\n      negate\n        r",
        "distinct\n  σ\n    γ\n      negate\n        r",
    ),
    (drop_inner_distincts, "distinct\n  π\n    distinct\n      r", "distinct\n  π\n    r"),
    (drop_inner_distincts, "distinct\n  σ\n    distinct\n      r", "distinct\n  σ\n    r"),
    (
        drop_inner_distincts,
        "distinct\n  union\n    distinct\n      r\n    s",
        "distinct\n  union\n    r\n    s",
    ),
    (
        # With an outer distinct, one side of a join is enough.
        drop_inner_distincts,
        "distinct\n  ⋈\n    distinct\n      r\n    s",
        "distinct\n  ⋈\n    r\n    s",
    ),
    (
        drop_inner_distincts,
        "distinct\n  ×\n    distinct\n      r\n    distinct\n      s",
        "distinct\n  ×\n    r\n    s",
    ),
    (
        drop_inner_distincts,
        "distinct\n  π\n    π\n      ⋈\n        σ\n          distinct\n            r\n        s",
        "distinct\n  π\n    π\n      ⋈\n        σ\n          r\n        s",
    ),
]

DOES_NOT_APPLY: list[tuple[Rule, str]] = [
    (cancel_negations, "negate\n  π\n    negate\n      r"),
    (flatten_unions, "union\n  r\n  negate\n    union\n      r\n      s"),
    (collapse_distincts, "distinct\n  π\n    distinct\n      r"),
    (collapse_distincts, "distinct\n  union\n    distinct\n      r\n    distinct\n      r"),
    (collapse_distincts, "distinct\n  ⋈\n    γ\n      r\n    s"),
    # The weights of the bag on the other side would be lost.
    (pull_distincts, "⋈\n  distinct\n    r\n  s"),
    (pull_distincts, "⋈\n  r\n  distinct\n    s"),
    # A map or a union of sets is a bag.
    (pull_distincts, "π\n  distinct\n    r"),
    (pull_distincts, "union\n  distinct\n    r\n  distinct\n    s"),
    # All pairs would be kept.
    (pull_distincts, "×\n  distinct\n    r\n  distinct\n    s"),
    # Not positive.
    (pull_distincts, "σ\n  distinct\n    negate\n      r"),
    (
        pull_distincts,
        "⋈\n  distinct\n    union\n      r\n      negate\n        s\n  distinct\n    s",
    ),
    (drop_inner_distincts, "distinct\n  π\n    distinct\n      negate\n        r"),
    (drop_inner_distincts, "distinct\n  union\n    distinct\n      r\n    negate\n      s"),
    (drop_inner_distincts, "distinct\n  negate\n    distinct\n      r"),
    (drop_inner_distincts, "distinct\n  ⋈\n    distinct\n      r\n    negate\n      s"),
    # An aggregate sees how often a row occurs.
    (drop_inner_distincts, "distinct\n  γ\n    distinct\n      r"),
    (drop_inner_distincts, "π\n  distinct\n    r"),
]


def _name(value: object) -> str:
    return getattr(value, "__name__", "")


@pytest.mark.parametrize(("rule", "before", "after"), APPLIES, ids=_name)
def test_where_a_rule_applies(rule: Rule, before: str, after: str) -> None:
    term = plan(before)
    while (changed := apply_everywhere(rule, term)) != term:
        term = changed
    assert to_text(term) == to_text(plan(after))
    assert term.schema == plan(before).schema


@pytest.mark.parametrize(("rule", "text"), DOES_NOT_APPLY, ids=_name)
def test_where_a_rule_does_not_apply(rule: Rule, text: str) -> None:
    assert to_text(apply_everywhere(rule, plan(text))) == to_text(plan(text))


def test_every_rule_has_both_kinds_of_test() -> None:
    assert {rule for rule, _, _ in APPLIES} == set(RULES)
    assert {rule for rule, _ in DOES_NOT_APPLY} == set(RULES)


@pytest.mark.parametrize(
    ("text", "positive", "set_"),
    [
        ("r", True, False),
        ("negate\n  r", False, False),
        ("negate\n  negate\n    r", False, False),
        ("π\n  distinct\n    negate\n      r", True, False),
        ("union\n  r\n  negate\n    s", False, False),
        ("distinct\n  union\n    r\n    negate\n      s", True, True),
        ("γ\n  negate\n    r", True, True),
        ("σ\n  γ\n    r", True, True),
        ("⋈\n  γ\n    r\n  s", True, False),
        ("⋈\n  γ\n    r\n  distinct\n    s", True, True),
    ],
)
def test_analyses(text: str, positive: bool, set_: bool) -> None:
    assert is_positive(plan(text)) is positive
    assert is_set(plan(text)) is set_


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (  # a pulled distinct meets another and goes
            "π\n  distinct\n    σ\n      distinct\n        r",
            "π\n  distinct\n    σ\n      r",
        ),
        (  # three distincts become one at the end
            "⋈\n  ⋈\n    distinct\n      r\n    distinct\n      s\n  distinct\n    r",
            "distinct\n  ⋈\n    ⋈\n      r\n      s\n    r",
        ),
        (  # a cancelled negation makes the input positive
            "distinct\n  π\n    distinct\n      negate\n        negate\n          r",
            "distinct\n  π\n    r",
        ),
        (  # a difference keeps its distincts
            "distinct\n  union\n    distinct\n      r\n    negate\n      distinct\n        s",
            "distinct\n  union\n    distinct\n      r\n    negate\n      distinct\n        s",
        ),
    ],
)
def test_rules_work_together(before: str, after: str) -> None:
    assert to_text(rewrite(plan(before))) == to_text(plan(after))
