"""Views that are fed: what a step adds to them, from the tables and their changes.

With several changed tables the changes are taken one after another: a table that had its turn is
read as it is after the step, one that waits as it was before.

    Δ(A·B) = ΔA·B + (A + ΔA)·ΔB

What comes and what leaves are bags, each of which is multiplied out by itself. In the feed a group
of n joined rows with the sum s is a row with s and n − 1 rows with zero, so that a group vanishes
with its last row. A factored change leaves the number of rows as it is. So do products that are
found in a plain change (`products.py`) and change entries; where entries arrive or leave, the
vectors have all their rows and columns, and the rows that they join to are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from rekindle.calculus.schema import Schema
from rekindle.calculus.terms import sources
from rekindle.catalyst.types import payload_schema
from rekindle.circuit.nodes import Table
from rekindle.columns import column_name, column_names
from rekindle.errors import EvaluationError
from rekindle.incremental.policies.arithmetic import Arithmetic
from rekindle.incremental.policies.factored_updates import (
    FactoredView,
    followed,
    vectors,
    with_factors,
)
from rekindle.incremental.policies.joins import Refusal
from rekindle.runtime.matrices.factored import Factors, shape_of
from rekindle.runtime.matrices.products import Fate, Piece, Split
from rekindle.spark.evaluate import Evaluation
from rekindle.spark.inline import prepared
from rekindle.spark.plans import Plans
from rekindle.traces.arrays import WEIGHT, Int64s, integers
from rekindle.traces.store import Store


@dataclass(frozen=True, slots=True)
class Changed:
    """An arranged change of a table, its factors if it came as a product, and those found in it."""

    rows: pa.Table
    factors: Factors | None = None
    found: Split | None = None


PIECE = 16_384
"""Rows of a plain change that are multiplied out at a time."""

Contents = Callable[[str], pa.Table]
"""The arranged contents of a table."""


class FactoredMaintenance:
    """The fed views of one database, by name."""

    def __init__(self, plans: Plans, store: Store, arithmetic: Arithmetic) -> None:
        self._plans = plans
        self._store = store
        self._arithmetic = arithmetic
        self.views: dict[str, FactoredView] = {}
        self.taken: dict[str, list[str]] = {}
        """For each view, which parts of its last change went by vectors; for explain."""
        self._evaluations: dict[tuple[str, str], Evaluation] = {}
        self._refused: set[tuple[str, str]] = set()

    def add(self, name: str, view: FactoredView) -> None:
        self.views[name] = view

    def remove(self, name: str) -> None:
        self.views.pop(name, None)
        self.taken.pop(name, None)
        self.forget_circuits()

    def forget_circuits(self) -> None:
        """After this the circuits are made anew, for the tables as they are then."""
        self._evaluations = {}
        self._refused = set()

    def reads(self, name: str) -> Mapping[str, Schema]:
        """The tables that a fed view reads."""
        return sources(self.views[name].contributions)

    def initial(self, name: str, tables: Callable[[str], Table], contents: Contents) -> pa.Table:
        """The feed that makes a view of what the tables hold."""
        first, *others = self.reads(name)
        rest = {each: contents(each) for each in others}
        rows = list(self._multiplied(name, first, contents(first), tables, rest, 1))
        return pa.concat_tables(rows) if rows else self._nothing(name)

    def added(
        self,
        name: str,
        changes: Mapping[str, Changed],
        tables: Callable[[str], Table],
        before: Contents,
        after: Contents,
    ) -> pa.Table | None:
        """The rows that the feed of a view gets in a step, if any."""
        read = list(self.reads(name))
        found: list[pa.Table] = []
        turns = [each for each in read if each in changes]
        self.taken[name] = []
        for turn, changed in enumerate(turns):
            done = turns[:turn]
            others = {
                each: after(each) if each in done else before(each)
                for each in read
                if each != changed
            }
            found += self._of_one(name, changed, changes[changed], tables, others)
        return pa.concat_tables(found) if found else None

    def _of_one(
        self,
        name: str,
        changed: str,
        change: Changed,
        tables: Callable[[str], Table],
        others: Mapping[str, pa.Table],
    ) -> Iterator[pa.Table]:
        """What the change of one table adds, by vectors as far as it is made of them."""
        if change.factors is not None:
            found = self._by_vectors(name, changed, change.factors, tables, others)
            if found is not None:
                self.taken[name].append(f"{changed}: by the vectors that were given")
                yield from self._rows(name, found, 1, rows_stay=True)
                return
        plain = change.rows
        if change.found is not None and self._is_exact(name):
            plain = change.found.rest
            for piece in change.found.pieces:
                rows = self._of_piece(name, changed, piece, tables, others)
                if rows is None:
                    plain = pa.concat_tables([plain, piece.rows])
                else:
                    self.taken[name].append(f"{changed}: {piece}")
                    yield from rows
        weights = integers(plain.column(WEIGHT))
        for sign in (1, -1):
            part = plain.filter(pa.array(weights * sign > 0))
            if len(part):
                place = part.schema.get_field_index(WEIGHT)
                times = pa.array(np.abs(integers(part.column(WEIGHT))))
                part = part.set_column(place, WEIGHT, times)
                yield from self._multiplied(name, changed, part, tables, others, sign)

    def _by_vectors(
        self,
        name: str,
        changed: str,
        factors: Factors,
        tables: Callable[[str], Table],
        others: Mapping[str, pa.Table],
    ) -> pa.Table | None:
        """The groups that products of vectors add to; None where only the plain change will do."""
        factored = self._factored(name, changed, tables)
        if factored is None:
            return None
        given = {
            node.name: prepared(self._plans, node, rows)
            for node, rows in zip(self._vectors(changed, tables), factors.tables, strict=True)
        }
        return factored.run({**others, **given})

    def _of_piece(
        self,
        name: str,
        changed: str,
        piece: Piece,
        tables: Callable[[str], Table],
        others: Mapping[str, pa.Table],
    ) -> list[pa.Table] | None:
        """The rows of the feed for products that were found; None if its own rows have to do."""
        try:
            found = self._by_vectors(name, changed, piece.factors, tables, others)
        except EvaluationError:
            # A sum on the way may overflow where those of the plain change do not.
            return None
        if found is None:
            return None
        if piece.fate is Fate.CHANGE:
            return list(self._rows(name, found, 1, rows_stay=True))
        sign = 1 if piece.fate is Fate.ARRIVE else -1
        return list(self._rows(name, found, sign, copies=piece.rank))

    def _is_exact(self, name: str) -> bool:
        """Does it not matter to a view in which order its products are made?"""
        return self.views[name].feed.schema.fields[-1].type == "bigint"

    def _multiplied(
        self,
        name: str,
        changed: str,
        rows: pa.Table,
        tables: Callable[[str], Table],
        others: Mapping[str, pa.Table],
        sign: int,
    ) -> Iterator[pa.Table]:
        """What rows of one table add, some at a time, since each may meet many."""
        whole = self._whole(name, tables)
        for start in range(0, len(rows), PIECE):
            found = whole.run({**others, changed: rows.slice(start, PIECE)})
            yield from self._rows(name, found, sign)

    def _nothing(self, name: str) -> pa.Table:
        columns = payload_schema(self.views[name].feed.schema)
        return pa.schema([(WEIGHT, pa.int64()), *columns]).empty_table()

    def _rows(
        self,
        name: str,
        found: pa.Table,
        sign: int,
        *,
        rows_stay: bool = False,
        copies: int = 1,
    ) -> Iterator[pa.Table]:
        """Contributions of groups as weighted rows of the feed; each row was counted so often."""
        keys = len(self.views[name].feed.schema) - 1
        counts = integers(found.column(column_name(keys))) // copies
        values = found.column(column_name(keys + 1))
        ones: Int64s = np.full(len(found), sign, dtype=np.int64)
        zero = pa.array(np.zeros(len(found)), pa.float64()).cast(values.type)
        rest = -ones if rows_stay else ones * (counts - 1)
        columns = [found.column(column_name(i)) for i in range(keys)]
        names = [WEIGHT, *column_names(keys + 1)]
        yield pa.table([pa.array(ones), *columns, values], names=names)
        padding = pa.table([pa.array(rest), *columns, zero], names=names)
        yield padding.filter(pa.array(rest != 0))

    # ---- circuits --------------------------------------------------------------------------

    def _whole(self, name: str, tables: Callable[[str], Table]) -> Evaluation:
        key = (name, "")
        if key not in self._evaluations:
            term = followed(self.views[name].contributions, self._arithmetic)
            nodes = [tables(each) for each in self.reads(name)]
            self._evaluations[key] = Evaluation(self._plans, self._store, term, nodes)
        return self._evaluations[key]

    def _factored(
        self, name: str, changed: str, tables: Callable[[str], Table]
    ) -> Evaluation | None:
        """The contributions of a factored change; None where only the plain change will do."""
        key = (name, changed)
        if key in self._refused:
            return None
        if key not in self._evaluations:
            matrix = shape_of(tables(changed))
            assert matrix is not None, "only matrices have factors"
            contributions = self.views[name].contributions
            replaced = with_factors(contributions, changed, matrix, self._arithmetic)
            if isinstance(replaced, Refusal):
                self._refused.add(key)
                return None
            nodes = [tables(each) for each in self.reads(name) if each != changed]
            nodes += self._vectors(changed, tables)
            term = followed(replaced, self._arithmetic)
            self._evaluations[key] = Evaluation(self._plans, self._store, term, nodes)
        return self._evaluations[key]

    def _vectors(self, changed: str, tables: Callable[[str], Table]) -> tuple[Table, Table]:
        node = tables(changed)
        matrix = shape_of(node)
        assert matrix is not None, "only matrices have factors"
        left, right = vectors(changed, node.schema, matrix)
        return (
            Table(left.name, left.schema, (), "vector", {}),
            Table(right.name, right.schema, (), "vector", {}),
        )
