"""The flat collections that stand for a nested one, as a tree.

    customers                         the top, a row a customer, with a label for its orders
    └─ orders                         a row an element, with the label of the bag that it is in
       └─ orders.lines

A level is a view or table of flat rows. Below the top each row begins with `_label`, the label of
the bag that it is an element of. An inner bag is a column that holds a label. The elements of a bag
of scalars have one column, `value`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

LABEL = "_label"
VALUE = "value"
POSITION = "_position"


@dataclass(frozen=True, slots=True)
class Level:
    """A flat collection: its view, and the level of each column that holds labels.

    A column within a struct is named with dots.
    """

    view: str
    bags: tuple[tuple[str, Level], ...] = ()
    of_values: bool = False
    """Is an element one value, rather than a row of columns?"""

    def paths(self, path: str = "") -> Iterator[tuple[str, Level]]:
        """The level and those below it with the paths that lead to them; the top has no name.

        >>> orders = Level("o", (("lines", Level("l")),))
        >>> [path for path, _ in Level("c", (("orders", orders),)).paths()]
        ['', 'orders', 'orders.lines']
        """
        yield path, self
        for column, level in self.bags:
            yield from level.paths(f"{path}.{column}" if path else column)

    def bag(self, column: str) -> Level | None:
        """The level of a column of labels; None for any other column."""
        return dict(self.bags).get(column)

    def to_json(self) -> dict[str, Any]:
        bags = [[column, level.to_json()] for column, level in self.bags]
        return {"view": self.view, "bags": bags, "of_values": self.of_values}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        bags = tuple((column, cls.from_json(level)) for column, level in data["bags"])
        return cls(data["view"], bags, data["of_values"])
