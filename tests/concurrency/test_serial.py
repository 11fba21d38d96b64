"""The checker finds the anomalies that have names, and finds none where there is none."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.concurrency.serial import Key, Observed, Outcome, Writers, anomalies


def committed(
    id_: int,
    epoch: int,
    appends: str = "",
    reads: Mapping[Key, Writers] | None = None,
    begun: float = 0,
    ended: float = 100,
) -> Observed:
    return Observed(
        id_, begun, ended, Outcome.COMMITTED, epoch, reads or {}, frozenset(appends.split())
    )


def rolled_back(id_: int, appends: str) -> Observed:
    return Observed(id_, 0, 100, Outcome.ABORTED, None, {}, frozenset(appends.split()))


def test_one_after_the_other() -> None:
    observed = [
        committed(1, 1, "x", begun=0, ended=1),
        committed(2, 2, "x y", {"x": (1,)}, begun=2, ended=3),
        committed(3, 3, "", {"x": (1, 2), "y": (2,)}, begun=4, ended=5),
        rolled_back(4, "x"),
    ]
    assert anomalies(observed, {"x": (1, 2), "y": (2,)}) == []


def test_two_that_do_not_touch_share_an_epoch() -> None:
    observed = [committed(1, 1, "x", {"y": ()}), committed(2, 1, "y", {"x": ()})]
    assert anomalies(observed, {"x": (1,), "y": (2,)}) == [], "write skew is allowed"


@pytest.mark.parametrize(
    ("observed", "final", "words"),
    [
        ([committed(1, 1, "x"), committed(2, 1, "x")], {"x": (2,)}, "1 was told epoch 1"),
        ([rolled_back(1, "x")], {"x": (1,)}, "1 was rolled back, and is in x"),
        (
            [rolled_back(1, "x"), committed(2, 1, "", {"x": (1,)})],
            {"x": ()},
            "2 read 1 in x, which was rolled back",
        ),
        ([committed(1, 1, "x")], {"x": (1, 1)}, "2 times"),
        ([], {"x": (9,)}, "nobody wrote 9"),
        (
            [committed(1, 1, "x"), committed(2, 2, "x"), committed(3, 2, "", {"x": (2,)})],
            {"x": (1, 2)},
            "3 read (2,) in x",
        ),
        ([committed(1, 2, "x"), committed(2, 1, "x")], {"x": (1, 2)}, "1 at 2 before 2 at 1"),
        (
            [committed(1, 1, "x"), committed(2, 2, "x", {"x": ()})],
            {"x": (1, 2)},
            "no order explains",
        ),
        (
            [committed(1, 1, "x y"), committed(2, 2, "", {"x": (1,), "y": ()})],
            {"x": (1,), "y": (1,)},
            "no order explains",
        ),
        (
            [committed(1, 1, "x", ended=1), committed(2, 2, "", {"x": ()}, begun=2)],
            {"x": (1,)},
            "no order explains",
        ),
    ],
    ids=[
        "lost write",
        "aborted write",
        "dirty read",
        "write twice",
        "write of nobody",
        "torn read",
        "epochs out of order",
        "lost update",
        "half a transaction",
        "stale read",
    ],
)
def test_an_anomaly(observed: list[Observed], final: dict[Key, Writers], words: str) -> None:
    found = anomalies(observed, final)
    assert any(words in each for each in found), found
