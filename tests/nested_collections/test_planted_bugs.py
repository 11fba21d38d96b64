"""Negative controls: a bug planted into a law's implementation must be seen.

Each breaks one function, and the check that holds for the right one has to fail.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rekindle.nested import contexts, delta, domains, meaning, simplify
from rekindle.nested.labels import Finite, LabelError, added, label_union
from rekindle.nested.meaning import Environment, value_of
from rekindle.nested.nesting import (
    ShreddedValue,
    evaluated,
    materialised,
    nest,
    new_labels,
    occurring,
    shred,
)
from rekindle.nested.nrc import bag, plus
from rekindle.nested.shredding import shredded
from rekindle.nested.terms import Add, Negate, RingTerm, Singleton
from rekindle.nested.types import Bag, Boxed, Scalar
from rekindle.nested.values import Box, add
from tests.nested_collections.movies import JARHEAD, MOVIES, RELATED

TABLES = {"M": MOVIES}
DRIVE_GOES = {("Drive", "Drama", "Refn"): -1}


def deltas_hold() -> bool:
    """Proposition 3.2.1 on the movies."""
    change = meaning.meaning(delta.delta(RELATED, {"M"}), TABLES, {"M": JARHEAD})
    after = meaning.meaning(RELATED, {"M": add(MOVIES, JARHEAD)})
    return bool(add(meaning.meaning(RELATED, TABLES), change) == after)


def unions_hold() -> bool:
    """Theorem 14 on a sum whose sides share labels."""
    rows = Bag(Boxed(Bag(Scalar("int"))))
    tables: dict[str, Any] = {}
    values = {name: {Box.of({1: 1}): 1} for name in "RS"}
    labels = new_labels()
    for name, value in values.items():
        tables |= shred(value, rows, labels).as_tables(name)
    query = plus(*(bag(name, rows.key) for name in "RSR"))
    found = nest(evaluated(shredded(query), Environment(tables)))
    return bool(found == meaning.meaning(query, values))


def maintenance_holds() -> bool:
    """A view of the movies through changes that bring a label, and drop one."""
    queries = shredded(RELATED)
    now = dict(MOVIES)
    view = materialised(evaluated(queries, Environment({"M": now})))
    for change in (JARHEAD, DRIVE_GOES):
        scope = Environment({"M": now}, {("M", 1): change})
        now = add(now, change)
        after = Environment({"M": now})
        flat = add(view.flat, value_of(delta.delta(queries.flat, {"M"}), scope))
        query = queries.queries["related"]
        kept = domains.maintained(
            dict(contexts.named(view.context))["related"],
            value_of(delta.delta(query, {"M"}), scope),
            value_of(query, after),
            occurring(evaluated(queries, after))["related"],
        )
        view = _with(view, flat, kept)
        labels = {row[1] for row in flat}
        if set(kept.definitions) != labels:
            return False
        if nest(view) != meaning.meaning(RELATED, {"M": now}):
            return False
    return True


def _with(view: ShreddedValue, flat: Any, kept: Finite) -> ShreddedValue:
    return ShreddedValue(view.type, flat, contexts.mapped(view.context, lambda _: kept))


def test_without_a_bug_everything_holds() -> None:
    assert deltas_hold() and unions_hold() and maintenance_holds()


def seen(check: Callable[[], bool]) -> bool:
    """Whether a check fails, or ends in the error that is there for it."""
    try:
        return not check()
    except LabelError:
        return True


def test_a_label_union_that_adds_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meaning, "label_union", lambda left, right: added(left, right, add))
    assert seen(unions_hold)


def test_a_label_union_that_drops_a_side_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meaning, "label_union", lambda left, right: left)
    assert seen(unions_hold)


def test_a_label_union_that_does_not_check_would_hide_a_conflict() -> None:
    with pytest.raises(LabelError, match="two definitions"):
        label_union(Finite({"l": {1: 1}}), Finite({"l": {2: 1}}))


def test_a_delta_of_sng_that_forgets_the_old_row_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    right: Callable[..., RingTerm] = delta._delta

    def broken(term: RingTerm, changed: delta.Changed) -> RingTerm:
        found = right(term, changed)
        match term, found:
            case Singleton(), Add(new, Negate()):
                return new
        return found

    monkeypatch.setattr(delta, "_delta", broken)
    assert seen(deltas_hold)


def test_a_delta_of_sng_that_keeps_the_old_key_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delta, "_new", lambda term, changed: term)
    assert seen(deltas_hold)


def test_a_product_without_its_third_summand_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    right = simplify.iteration_of

    def broken(variable: Any, source: RingTerm, body: RingTerm) -> RingTerm:
        match body:
            case Add(first, _):
                return right(variable, source, first)
            case _:
                return right(variable, source, body)

    monkeypatch.setattr(delta, "iteration_of", broken)
    monkeypatch.setattr(delta, "sum_of", Add)
    assert seen(deltas_hold)


@pytest.mark.parametrize("bug", ["new labels from the change", "empty new labels", "no end"])
def test_a_bug_in_domain_maintenance_is_seen(monkeypatch: pytest.MonkeyPatch, bug: str) -> None:
    right = domains.maintained

    def broken(stored: Any, change: Any, definition: Any, labels: Any) -> Finite:
        match bug:
            case "new labels from the change":
                return right(stored, change, change, labels)
            case "empty new labels":
                return right(stored, change, Finite({label: {} for label in labels}), labels)
            case _:
                return right(stored, change, definition, [*stored.definitions, *labels])

    monkeypatch.setattr(domains, "maintained", broken)
    assert seen(maintenance_holds)
