"""The queries of the material: recorded results, or the meaning where the original has a quirk."""

from __future__ import annotations

import pytest

from rekindle.mrql_language.normalise import normalise
from rekindle.mrql_language.unnest import unnest
from tests.external.material import absent, material
from tests.external.mrql import outcomes, stream_outcomes


@pytest.mark.parametrize("suite", ["tests", "extra"])
def test_values_are_the_recorded_ones(suite: str) -> None:
    place = material("mrql")
    if place is None:
        pytest.skip(absent("mrql"))
    found = list(outcomes(place, suite))
    assert [each for each in found if each.verdict == "different"] == []
    assert sum(each.verdict == "equal" for each in found) >= {"tests": 81, "extra": 338}[suite]


def test_streams_follow_recomputation_batch_by_batch() -> None:
    """Also where the original's own incremental mode does not: joins of streams, having, order."""
    place = material("mrql")
    if place is None:
        pytest.skip(absent("mrql"))
    found = list(stream_outcomes(place))
    assert [each for each in found if each.verdict == "different"] == []
    assert len(found) >= 36


def test_normal_form_has_the_same_values() -> None:
    place = material("mrql")
    if place is None:
        pytest.skip(absent("mrql"))
    found = list(outcomes(place, "extra", lambda term: normalise(unnest(term))))
    assert [each for each in found if each.verdict == "different"] == []
