"""The list of operators, and the names that others know their nodes by.

Each operator is a module of `rekindle.circuit.operators`, with all that the circuit, explain,
costs, stored plans and steps want to know of it. A new one is added to this list, and nowhere else.
"""

from __future__ import annotations

from rekindle.circuit.operators.arrangement import Arrangement
from rekindle.circuit.operators.constant import Constant
from rekindle.circuit.operators.distinct import DistinctRows
from rekindle.circuit.operators.exchange import Exchange
from rekindle.circuit.operators.feedback import Feedback, Variable
from rekindle.circuit.operators.group import Group
from rekindle.circuit.operators.group_map import GroupMap
from rekindle.circuit.operators.half_join import HalfJoin, RangeLookup, Side
from rekindle.circuit.operators.indexes import Nulls
from rekindle.circuit.operators.node import (
    Formed,
    Indexed,
    Indexing,
    Node,
    Passing,
    Stateful,
    fingerprint,
)
from rekindle.circuit.operators.running import Moment
from rekindle.circuit.operators.table import Table
from rekindle.circuit.operators.view import IndexedView, View

OPERATORS: tuple[type[Node], ...] = (
    Table,
    Constant,
    Arrangement,
    Exchange,
    HalfJoin,
    DistinctRows,
    Group,
    GroupMap,
    View,
    IndexedView,
    Variable,
    Feedback,
)

__all__ = [
    "OPERATORS",
    "Arrangement",
    "Constant",
    "DistinctRows",
    "Exchange",
    "Feedback",
    "Formed",
    "Group",
    "GroupMap",
    "HalfJoin",
    "Indexed",
    "IndexedView",
    "Indexing",
    "Moment",
    "Node",
    "Nulls",
    "Passing",
    "RangeLookup",
    "Side",
    "Stateful",
    "Table",
    "Variable",
    "View",
    "fingerprint",
]
