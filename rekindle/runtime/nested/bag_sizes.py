"""How large the inner bags of a comprehension are now, which says where they are kept.

With `shredding = 'partial'` bags of few elements stay in their rows: an array of them is made anew
for each change, which costs next to nothing, and is read without a join. The parts that the view
would have are evaluated once by Spark, and the largest bag of each level decides for the level, for
as long as the view is there. What is below a bag in a row is in the row too, so a level stays in
its rows only if all levels below it do.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rekindle.frontends.catalog import Catalog, ContentsOf
from rekindle.frontends.comprehension.definition import Bag, ComprehensionDefinition
from rekindle.frontends.comprehension.front_end import FULL, Comprehension, Comprehensions
from rekindle.nested.levels import LABEL
from rekindle.spark.frames import collect

MOST_ELEMENTS = 16
"""A bag of more elements is kept as a dictionary."""


def bags_of(
    name: str, given: Comprehension, catalog: Catalog, contents: ContentsOf
) -> tuple[Bag, ...]:
    """The largest bag of each level that the view would have of its own, and where it is kept."""
    front_end = Comprehensions()
    (defined,) = front_end.define(name, Comprehension(given.text, FULL), catalog)
    if defined.level is None:
        return ()
    largest: dict[str, int] = {}
    held: dict[str, DataFrame] = {}

    def rows(source: str) -> DataFrame:
        return held[source] if source in held else contents(source)

    with ExitStack() as stack:
        for part in defined.parts:
            assert isinstance(part.definition, ComprehensionDefinition)
            frame = front_end.recompute(part.name, part.definition, catalog, rows)
            held[part.name] = frame
            stack.enter_context(catalog.assumed({part.name: part.columns}))
            if LABEL in frame.columns:
                counts = frame.groupBy(LABEL).count()
                (row,) = collect(counts.agg(F.coalesce(F.max("count"), F.lit(0)).alias("n")))
                largest[part.name] = row.n
    levels = [(path, largest.get(level.view)) for path, level in defined.level.paths() if path]
    sizes = {path: size for path, size in levels if size is not None}
    return tuple((path, size, stays(path, sizes)) for path, size in sizes.items())


def stays(path: str, sizes: Mapping[str, int]) -> bool:
    """Are the bags of a level, and of all below it, small enough for their rows?

    >>> [stays(path, {"orders": 3, "orders.lines": 99, "tags": 2}) for path in ("orders", "tags")]
    [False, True]
    """
    below = [size for other, size in sizes.items() if f"{other}.".startswith(f"{path}.")]
    return max(below) <= MOST_ELEMENTS
