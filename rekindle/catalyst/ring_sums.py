"""How the front end knows a sum in a user's ring among Python aggregates.

The Python function that Spark runs carries the stored sum as an attribute, of a name that no one
else gives; only functions in which that name occurs are unpickled.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rekindle.algebra.ring_sums import StoredSum
from rekindle.catalyst.jvm import JavaObject, simple_name
from rekindle.catalyst.scalars import CatalystScalar

_CARRIED = "_rekindle_ring_sum"


@dataclass(frozen=True, slots=True)
class CatalystRingSum(CatalystScalar):
    """The last step of a sum in a ring: its result as it is. `sum` is the text of the sum."""

    sum: str


def carrying(function: Callable[..., Any], stored: StoredSum) -> Callable[..., Any]:
    """The function, with what it sums."""
    setattr(function, _CARRIED, stored)
    return function


def carried(aggregate: JavaObject) -> StoredSum | None:
    """The sum that an aggregate function of a plan is, if it is one."""
    if simple_name(aggregate) != "PythonUDAF":
        return None
    # A Scala sequence of bytes has no direct way through py4j.
    written = str(aggregate.func().command().mkString(","))
    command = bytes(int(byte) & 255 for byte in written.split(","))
    if _CARRIED.encode() not in command:
        return None
    found = getattr(pickle.loads(command)[0], _CARRIED, None)
    return found if isinstance(found, StoredSum) else None
