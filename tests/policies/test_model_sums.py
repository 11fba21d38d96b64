"""The rows of a model's view are the cofactor over relations, whatever the axes."""

from __future__ import annotations

from functools import reduce
from math import prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import Row

from rekindle.algebra.cofactor import Cofactor, Entry, categorical_ring, category, quantity
from rekindle.algebra.groups import total
from rekindle.errors import DefinitionError
from rekindle.runtime.models.sums import Category, Monomial, Sums, axes_of

Sample = dict[str, object]
samples = st.fixed_dictionaries(
    {
        "x": st.integers(-4, 4),
        "z": st.integers(-4, 4),
        "y": st.integers(-9, 9),
        "c": st.sampled_from("abc"),
        "d": st.booleans(),
    }
)


def sums_of(features: list[str], categories: list[str], degree: int, *, label: bool) -> Sums:
    numbers = [f for f in features if f not in categories] + ["y"] * label
    axes = (*axes_of(features, categories, degree), *([Monomial(("y",))] * label))
    return Sums(tuple(numbers), tuple(categories), axes)


def view(sums: Sums, rows: list[Sample]) -> list[Row]:
    """The view's query by hand."""
    found = []
    for place, part in enumerate(sums.parts):
        groups: dict[tuple[object, ...], list[Sample]] = {} if part else {(): []}
        for row in rows:
            groups.setdefault(tuple(row[name] for name in part), []).append(row)
        summed = (sums.moments, sums.monomials, ())[len(part)]
        for values, group in groups.items():
            keys = {f"k{sums.categories.index(n)}": v for n, v in zip(part, values, strict=True)}
            totals = [
                float(sum(prod(int(str(row[c])) for c in columns) for row in group))
                for columns in summed
            ]
            found.append(Row(part=place, n=len(group), sums=totals, **keys))
    return found


def by_the_ring(sums: Sums, rows: list[Sample]) -> Cofactor[Entry]:
    ring = categorical_ring(len(sums.axes))

    def lifted(row: Sample) -> Cofactor[Entry]:
        values = [
            category(axis.name, str(row[axis.name]))
            if isinstance(axis, Category)
            else quantity(prod(int(str(row[c])) for c in axis.columns))
            for axis in sums.axes
        ]
        return reduce(ring.multiply, (ring.lift(i, value) for i, value in enumerate(values)))

    return total(ring, map(lifted, rows))


@settings(max_examples=40)
@given(
    st.lists(samples, max_size=8),
    st.sampled_from(
        [
            sums_of(["x", "z"], [], 1, label=True),
            sums_of(["x", "c", "z", "d"], ["c", "d"], 1, label=True),
            sums_of(["c", "x", "z"], ["c"], 2, label=True),
            sums_of(["c", "d"], ["c", "d"], 1, label=False),
            sums_of(["x", "z"], [], 1, label=False),
        ]
    ),
)
def test_the_view_holds_the_cofactor(rows: list[Sample], sums: Sums) -> None:
    texts = [{**row, "d": str(row["d"])} for row in rows]
    assert sums.cofactor(view(sums, texts)) == by_the_ring(sums, texts)


def test_equal_products_are_summed_once() -> None:
    sums = sums_of(["a", "b", "c"], [], 2, label=True)
    assert [axis.name for axis in sums.axes] == [
        *["a", "b", "c"],
        *["a^2", "a*b", "a*c", "b^2", "b*c", "c^2"],
        "y",
    ]
    assert len(sums.moments) == len(set(sums.moments)) == 45


def test_parts_are_single_categories_and_pairs() -> None:
    mixed = sums_of(["x", "c", "d"], ["c", "d"], 1, label=True)
    assert mixed.parts == ((), ("c",), ("d",), ("c", "d"))
    assert sums_of(["c", "d"], ["c", "d"], 1, label=False).parts == (("c", "d"),)
    assert "`a``b`" in sums_of(["a`b"], [], 1, label=False).query("SELECT 1 AS `a``b`")


def test_a_sum_that_is_not_finite_is_refused() -> None:
    sums = sums_of(["x"], [], 1, label=False)
    with pytest.raises(DefinitionError, match="the sum of x\\^2 is inf"):
        sums.cofactor([Row(part=0, n=1, sums=[1e200, float("inf")])])
