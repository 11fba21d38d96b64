"""Rows that have a label of their own: the domain of what is in them needs no DISTINCT.

A label holds the values that a bag depends on, so two rows with the same values share it, and its
definition is computed once: `SELECT DISTINCT label`. Where primary keys say that no two rows have
the same values, DISTINCT would keep an integral of all labels to change nothing.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

from rekindle.frontends.comprehension.blocks import Block, Table
from rekindle.frontends.comprehension.scope import Known, Path, path_of
from rekindle.frontends.comprehension.select import Select
from rekindle.nested import terms as core

_EQUALS = re.compile(r"\s*\{0\}\s*==?\s*\{1\}\s*")
_SAME = frozenset(
    ["boolean", "tinyint", "smallint", "int", "bigint", "string", "date", "timestamp"]
)
"""Types whose equal values are the same."""


def has_own_labels(select: Select, read: Collection[Path], known: Mapping[str, Known]) -> bool:
    """Does a label of the values at `read` stand in one row of a block at most?

    It does if they have the primary keys of the tables that the block ranges over, and what the
    block is computed for, or else a column of one of these tables equals that.
    """
    block, domain = select.block, select.domain
    if not block.generators or block.factors or block.count != 1:
        return False
    for row, source in block.generators:
        key = known[source.name].key if isinstance(source, Table) else ()
        if not key or not all((row.name, column) in read for column in key):
            return False
    given = set() if domain is None else set(domain.scope.columns)
    return given <= {*read, *_equated(block, given)}


def _equated(block: Block, given: Collection[Path]) -> Iterator[Path]:
    """Those of some paths that a condition equates with a column of a table.

    A condition that a function stands for has more arguments, and may be another one tomorrow.
    """
    rows = {row.name for row, _ in block.generators}
    for each in block.conditions:
        if not isinstance(each, core.Apply) or not _EQUALS.fullmatch(each.function.text):
            continue
        if len(each.arguments) != 2 or len({arg.type for arg in each.arguments}) != 1:
            continue
        one, other = map(path_of, each.arguments)
        if one is None or other is None or str(each.arguments[0].type) not in _SAME:
            continue
        for path, column in ((one, other), (other, one)):
            if path in given and column[0] in rows:
                yield path
