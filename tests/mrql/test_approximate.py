"""The approximate algorithm beside the exact one: near to it, and by far less work."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from rekindle.benchmarks.mrql import K_MEANS
from rekindle.benchmarks.mrql_approximate import followed


def points(draw: np.random.Generator, rows: int) -> pa.Table:
    return pa.table({"X": draw.random(rows), "Y": draw.random(rows)})


def test_it_is_near_to_the_exact_answer_and_is_not_it() -> None:
    draw = np.random.default_rng(3)
    found = followed(K_MEANS, points(draw, 400), [points(draw, 4) for _ in range(3)])
    assert all(0 < apart < 0.05 for apart in found.apart)
    slow = min(sample.seconds for sample in found.scratch)
    assert slow > 5 * min(sample.seconds for sample in found.approximate)


def test_points_that_it_takes_elsewhere_are_seen() -> None:
    """Far points in every increment pull centroids that only the exact answer finds again."""
    draw = np.random.default_rng(3)
    far = pa.table({"X": [0.5] * 400, "Y": [0.5] * 400})
    found = followed(K_MEANS, points(draw, 100), [far])
    assert found.apart[0] > 0.02
