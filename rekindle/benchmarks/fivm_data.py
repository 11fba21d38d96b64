"""Databases for models over joins, in the shapes that were published with F-IVM.

Housing is a star: six relations about a postcode, with up to eight rows for one in each. Retailer
is a snowflake: an inventory by place, day and article, with places, their surroundings by zip code,
articles and the weather of a place on a day. The values are made: whole numbers, so that every
strategy can add them exactly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RelationShape:
    """A relation: its keys, its features, and how many rows it has for each unit of size."""

    keys: tuple[str, ...]
    features: tuple[str, ...]
    rows: float


@dataclass(frozen=True, slots=True)
class Shape:
    """A database: its relations, the label, how they are joined, and the keys that refer to them.

    `domains` says how many values a key has for each unit of size.
    """

    name: str
    label: str
    relations: Mapping[str, RelationShape]
    joined: str
    domains: Mapping[str, float]


HOUSING = Shape(
    "housing",
    "price",
    {
        "house": RelationShape(
            ("postcode",),
            (
                *("price", "livingarea", "nbbedrooms", "nbbathrooms", "kitchensize", "house"),
                *("flat", "unknown", "garden", "parking"),
            ),
            2,
        ),
        "shop": RelationShape(
            ("postcode",),
            ("openinghoursshop", "pricerangeshop", "sainsburys", "tesco", "ms"),
            2,
        ),
        "institution": RelationShape(("postcode",), ("typeeducation", "sizeinstitution"), 1),
        "restaurant": RelationShape(("postcode",), ("openinghoursrest", "pricerangerest"), 1),
        "demographics": RelationShape(
            ("postcode",), ("averagesalary", "crimesperyear", "unemployment", "nbhospitals"), 0.25
        ),
        "transport": RelationShape(
            ("postcode",), ("nbbuslines", "nbtrainstations", "distancecitycentre"), 0.25
        ),
    },
    "house JOIN shop USING (postcode) JOIN institution USING (postcode) "
    "JOIN restaurant USING (postcode) JOIN demographics USING (postcode) "
    "JOIN transport USING (postcode)",
    {"postcode": 0.25},
)

RETAILER = Shape(
    "retailer",
    "inventoryunits",
    {
        "inventory": RelationShape(("locn", "dateid", "ksn"), ("inventoryunits",), 20),
        "location": RelationShape(
            ("locn", "zip"),
            (
                *("rgn_cd", "clim_zn_nbr", "tot_area_sq_ft", "sell_area_sq_ft", "avghhi"),
                *("supertargetdistance", "targetdistance", "walmartdistance"),
            ),
            0.1,
        ),
        "census": RelationShape(
            ("zip",), ("population", "medianage", "houseunits", "families", "households"), 0.08
        ),
        "item": RelationShape(("ksn",), ("subcategory", "category", "prize"), 1),
        "weather": RelationShape(
            ("locn", "dateid"), ("rain", "snow", "maxtemp", "mintemp", "meanwind"), 3
        ),
    },
    "inventory JOIN location USING (locn) JOIN census USING (zip) JOIN item USING (ksn) "
    "JOIN weather USING (locn, dateid)",
    {"locn": 0.1, "dateid": 0.03, "ksn": 1, "zip": 0.08},
)
SHAPES = (HOUSING, RETAILER)


class Rows:
    """Makes the rows of a database of some size."""

    def __init__(self, shape: Shape, size: int) -> None:
        self._shape, self._size = shape, size
        self._random = np.random.default_rng(11)

    def first(self, relation: str) -> pa.Table:
        """What the relation begins with: every key that one relation alone is about, evenly."""
        found = self._shape.relations[relation]
        count = max(1, int(found.rows * self._size))
        numbers = np.arange(count)
        keys = {
            key: numbers % self._domain(key) if len(found.keys) < 3 else self._some(key, count)
            for key in found.keys
        }
        if len(found.keys) == 2 and relation == "weather":
            keys["dateid"] = numbers // self._domain("locn") % self._domain("dateid")
        return self._table(relation, keys, count)

    def more(self, relation: str, count: int) -> pa.Table:
        """Further rows about keys that there are."""
        found = self._shape.relations[relation]
        return self._table(relation, {key: self._some(key, count) for key in found.keys}, count)

    def _table(self, relation: str, keys: Mapping[str, Int64s], count: int) -> pa.Table:
        features = self._shape.relations[relation].features
        values = {name: self._random.integers(0, 100, count) for name in features}
        return pa.table({**keys, **values})

    def _some(self, key: str, count: int) -> Int64s:
        return self._random.integers(0, self._domain(key), count)

    def _domain(self, key: str) -> int:
        return max(1, int(self._shape.domains[key] * self._size))
