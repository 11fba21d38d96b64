"""What the columns of rows are called between Spark, the kernels and the files.

A row's own columns go by their position, since names may repeat and change: c0, c1, ... The columns
that the system adds to them (a weight, a hash, an identity) begin with an underscore.
"""

from __future__ import annotations


def column_name(position: int) -> str:
    """The name of the column at a position.

    >>> column_name(3)
    'c3'
    """
    return f"c{position}"


def column_names(width: int) -> list[str]:
    """The names of the columns of rows so wide.

    >>> column_names(2)
    ['c0', 'c1']
    """
    return [column_name(position) for position in range(width)]


def is_added(name: str) -> bool:
    """Whether a column is one that the system adds to rows.

    >>> is_added("_weight"), is_added("c0")
    (True, False)
    """
    return name.startswith("_")
