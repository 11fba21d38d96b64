"""Rekindle keeps Spark views fresh by computing on changes only.

The names below are imported when they are first used: Spark's Python workers import parts of this
package for every task and need none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rekindle.errors import RekindleError
    from rekindle.frontends.agca.front_end import agca
    from rekindle.frontends.comprehension.front_end import comprehension
    from rekindle.frontends.fixpoints.fixpoint import fixpoint
    from rekindle.frontends.mrql.front_end import mrql
    from rekindle.runtime.database import Database, connect
    from rekindle.runtime.reading.read_only import Reader, read
    from rekindle.runtime.transactions.transaction import Transaction
    from rekindle.runtime.upkeep.restore import restore
    from rekindle.runtime.upkeep.verify import verify
    from rekindle.runtime.views.ring_sums import ring_sum

__all__ = [
    "Database",
    "Reader",
    "RekindleError",
    "Transaction",
    "agca",
    "comprehension",
    "connect",
    "fixpoint",
    "mrql",
    "read",
    "restore",
    "ring_sum",
    "verify",
]
__version__ = "0.1.0"

_HOMES = {
    "Database": "rekindle.runtime.database",
    "Reader": "rekindle.runtime.reading.read_only",
    "RekindleError": "rekindle.errors",
    "Transaction": "rekindle.runtime.transactions.transaction",
    "agca": "rekindle.frontends.agca.front_end",
    "comprehension": "rekindle.frontends.comprehension.front_end",
    "connect": "rekindle.runtime.database",
    "fixpoint": "rekindle.frontends.fixpoints.fixpoint",
    "mrql": "rekindle.frontends.mrql.front_end",
    "read": "rekindle.runtime.reading.read_only",
    "restore": "rekindle.runtime.upkeep.restore",
    "ring_sum": "rekindle.runtime.views.ring_sums",
    "verify": "rekindle.runtime.upkeep.verify",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'rekindle' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
