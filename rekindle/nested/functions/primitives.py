"""Primitives over integers and Z-sets, each with the delta and the cost that the calculus asks for.

Three deltas serve almost every primitive, and are the classes of `rekindle.calculus` again: linear,
bilinear, and computed anew. NRC's `for x in e union f(x)` is one of the bilinear ones, in the
function as much as in the bag; `redefinition` is about its left argument.

Costs are 1 + the size of what is made, so that zero costs 1 and a product with zero does too. Only
then is a bilinear primitive efficiently incrementalisable in the strict sense (`cost`).
"""

from __future__ import annotations

from collections.abc import Callable

from rekindle.algebra.groups import INTEGERS
from rekindle.algebra.zset import ZSet
from rekindle.nested.functions.evaluation import Closure
from rekindle.nested.functions.terms import (
    Defined,
    Pair,
    Term,
    added,
    minus_of,
    pick,
    plus_of,
)
from rekindle.nested.functions.types import (
    BAG,
    INTEGER,
    UNIT,
    BagOfIntegers,
    Function,
    Product,
    Type,
    twice,
)


def linear(primitive: Defined) -> Term:
    """udef_Δ = udef ∘ π₂, of a primitive with udef(a ⊕ da) = udef(a) ⊕ udef(da)."""
    return primitive @ pick(twice(primitive.takes), 2)


def bilinear(primitive: Defined) -> Term:
    """udef_Δ((x, y), (dx, dy)) = udef(x, dy) ⊕ udef(dx, y ⊕ dy)."""
    both = twice(primitive.takes)
    x, y, dx, dy = (pick(both, *path) for path in ((1, 1), (2, 1), (1, 2), (2, 2)))
    return added(primitive @ Pair(x, dy), primitive @ Pair(dx, added(y, dy)))


def computed_anew(primitive: Defined) -> Term:
    """udef_Δ(a, da) = udef(a ⊕ da) ⊖ udef(a): right for any primitive, and no cheaper than it."""
    before = primitive @ pick(twice(primitive.takes), 1)
    return added(primitive @ plus_of(primitive.takes), minus_of(primitive.gives) @ before)


def _times(values: tuple[int, int]) -> int:
    return values[0] * values[1]


def _count(bag: BagOfIntegers) -> int:
    return sum(weight for _, weight in bag)


def _scale(values: tuple[int, BagOfIntegers]) -> BagOfIntegers:
    factor, bag = values
    return ZSet(((row, factor * weight) for row, weight in bag), INTEGERS)


def _intersect(bags: tuple[BagOfIntegers, BagOfIntegers]) -> BagOfIntegers:
    left, right = bags
    return ZSet(((row, weight * right.weight(row)) for row, weight in left), INTEGERS)


def _for_each(values: tuple[Callable[[int], BagOfIntegers], BagOfIntegers]) -> BagOfIntegers:
    function, bag = values
    return ZSet(
        ((made, weight * times) for row, weight in bag for made, times in function(row)),
        INTEGERS,
    )


def _singleton(value: int) -> BagOfIntegers:
    return ZSet.of({value: 1})


def _positive_part(value: int) -> int:
    return max(value, 0)


def _as_large(size: int) -> int:
    return size


def product_of_sizes(costs: tuple[int, int]) -> int:
    """1 + (n − 1)(m − 1): a product is as large as its factors together, and empty if one is.

    >>> product_of_sizes((4, 3)), product_of_sizes((4, 1))
    (7, 1)
    """
    return 1 + (costs[0] - 1) * (costs[1] - 1)


def _size_for_each(costs: tuple[Callable[[int], int], int]) -> int:
    function, size = costs
    return product_of_sizes((function(1), size))


def _one_row(_: int) -> int:
    return 2


TIMES = Defined("×", twice(INTEGER), INTEGER, _times, bilinear, product_of_sizes)
COUNT = Defined("count", BAG, INTEGER, _count, linear, _as_large)
SCALE = Defined("scale", Product(INTEGER, BAG), BAG, _scale, bilinear, product_of_sizes)
INTERSECT = Defined("⋈", twice(BAG), BAG, _intersect, bilinear, product_of_sizes)
FOR_EACH = Defined(
    "for", Product(Function(INTEGER, BAG), BAG), BAG, _for_each, bilinear, _size_for_each
)
SINGLETON = Defined("{·}", INTEGER, BAG, _singleton, computed_anew, _one_row)
POSITIVE_PART = Defined("max₀", INTEGER, INTEGER, _positive_part, computed_anew, _as_large)

EFFICIENT = (TIMES, COUNT, SCALE, INTERSECT, FOR_EACH)
"""Those whose delta costs strictly less than they do, unless both cost 1."""

PRIMITIVES = (*EFFICIENT, SINGLETON, POSITIVE_PART)


def closed(primitive: Defined) -> Closure:
    """The primitive as a functional value, with nothing assigned.

    >>> closed(COUNT)(ZSet.of({7: 3}))
    3
    """
    return Closure(primitive @ pick(Product(UNIT, primitive.takes), 2), ())


def function_of_rows(name: str, run: Callable[[int], BagOfIntegers], gives: Type = BAG) -> Closure:
    """A Python function of a row as a functional value; its delta computes it anew.

    >>> twins = function_of_rows("twins", lambda row: ZSet.of({row: 2}))
    >>> FOR_EACH.run((twins, ZSet.of({7: 3})))
    ZSet({7: 6})
    """
    return closed(Defined(name, INTEGER, gives, run, computed_anew, _one_row))
