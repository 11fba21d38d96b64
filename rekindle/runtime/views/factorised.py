"""Views that are kept factorised: counted and enumerated without being listed, or expanded.

The view stands for collections, which are views of their own with state, changes and recovery like
any other. Here they are read together (`incremental/policies/factorised.py` says what they hold).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import reduce
from math import prod

import pyarrow as pa
from pyspark.sql import DataFrame

from rekindle.columns import column_name
from rekindle.errors import CheckError
from rekindle.incremental.policies.factorised import Collection, Factorisation
from rekindle.kernels.enumerate import BATCH_ROWS, Linked, enumerate_tuples, link
from rekindle.runtime.arguments import one_of, positive
from rekindle.runtime.epochs.state import State, ViewEntry
from rekindle.runtime.reading.contents import Contents
from rekindle.runtime.upkeep.check import CheckReport
from rekindle.traces.arrays import WEIGHT, integers, single_chunk, take
from rekindle.traces.reader import TraceReader
from rekindle.traces.store import Store
from rekindle.traces.trace import Trace

LISTING, FACTORISED = "listing", "factorised"


def is_factorised(representation: str) -> bool:
    """Whether the option asks for collections; it must be one of the two."""
    return one_of("representation", representation, (LISTING, FACTORISED)) == FACTORISED


class Factorised:
    """A factorised view as it is when it is asked."""

    def __init__(self, entry: ViewEntry, state: Callable[[], State], store: Store) -> None:
        assert entry.factorisation is not None
        self.name = entry.name
        self._schema = entry.schema
        self._factorisation: Factorisation = entry.factorisation
        self._state = state
        self._store = store

    def count(self) -> int:
        """The number of tuples, from the weights of the roots: nothing is expanded or read."""
        state = self._state()
        return prod(_trace(state, root).live for root in self._factorisation.roots)

    def size(self) -> int:
        """The number of values that are kept: of each collection its rows, times what they add."""
        state = self._state()
        return sum(
            sum(len(table) for table in self._tables(state, each)) * max(1, len(each.values))
            for each in self._factorisation.collections
        )

    def tree(self, *, sizes: bool = False) -> str:
        """The variable order as text, a collection a line; with the rows stored for each."""
        if not sizes:
            return self._factorisation.text()
        state = self._state()
        rows = {
            each.view: f"{_trace(state, each).rows:,} rows"
            for each in self._factorisation.collections
        }
        return f"{self._factorisation.text(rows)}\n{self.count():,} tuples"

    def batches(self, rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        """The tuples in batches of at most `rows`, with constant delay.

        They are those of the epoch at which the first batch is asked for. The collections are read
        into the driver's memory, which takes as much as they have values; the tuples never are.
        """
        rows = positive("the size of a batch", rows)
        links = self._linked(self._state())
        places = [self._factorisation.place(name) for name in self._factorisation.outputs]
        types = [links[number].columns[column].type for number, column in places]
        schema = pa.schema(list(zip(self._schema.names, types, strict=True)))
        for chosen in enumerate_tuples(links, rows):
            columns = [
                take(links[number].columns[column], chosen[number]) for number, column in places
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self.batches()

    def check_count(self, report: CheckReport) -> None:
        """Raise unless the count is that of the rows that were compared."""
        if (count := self.count()) != report.rows:
            raise CheckError(
                f"the collections of view '{self.name}' count {count} tuples at epoch "
                f"{report.epoch}",
                detail=f"its recomputation has {report.rows} rows",
                hint="this is a bug in Rekindle: please report it with the view's definition",
            )

    def _linked(self, state: State) -> list[Linked]:
        links: list[Linked] = []
        collections = self._factorisation.collections
        for each in collections:
            tables = list(self._tables(state, each))
            layout = _trace(state, each).layout
            table = pa.concat_tables(tables) if tables else layout.empty()
            columns = [single_chunk(table.column(name)) for name in layout.payload.names]
            weights = integers(table.column(WEIGHT)) if each.is_leaf else None
            if each.parent is None:
                links.append(link(columns, weights))
                continue
            above = collections[each.parent]
            names = (*above.key, *above.values)
            keys = [links[each.parent].columns[names.index(name)] for name in each.key]
            links.append(link(columns, weights, each.parent, keys))
        return links

    def _tables(self, state: State, each: Collection) -> Iterator[pa.Table]:
        yield from TraceReader.of_trace(_trace(state, each), self._store).scan()


def _trace(state: State, each: Collection) -> Trace:
    return state.traces[state.entries[each.view].node]


def expanded(
    state: State, entry: ViewEntry, contents: Contents, epoch: int | None = None
) -> DataFrame:
    """The tuples of a factorised view, joined from its collections by Spark."""
    assert entry.factorisation is not None
    if epoch is not None:
        state.undone(entry.name, epoch)  # Raises, in the words of this view.
    names: dict[str, str] = {}
    for each in entry.factorisation.collections:
        for value in each.values:
            names[value] = f"v{len(names)}"

    def read(each: Collection) -> DataFrame:
        known = state.entries[each.view]
        undone = None if epoch is None else state.undone(each.view, epoch)
        trace = state.traces[known.node]
        frame = (
            contents.table(None, known.schema, trace, undone)
            if each.is_leaf
            else contents.support(known.schema, trace, undone)
        )
        return frame.toDF(*(names[name] for name in (*each.key, *each.values)))

    def joined(left: DataFrame, each: Collection) -> DataFrame:
        right = read(each)
        if not each.key:
            return left.crossJoin(right)
        return left.join(right, [names[name] for name in each.key])

    first, *others = entry.factorisation.collections
    whole = reduce(joined, others, read(first))
    outputs = [
        whole[names[name]].alias(column_name(i))
        for i, name in enumerate(entry.factorisation.outputs)
    ]
    return contents.cut(whole.select(*outputs), entry.schema)
