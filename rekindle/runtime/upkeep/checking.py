"""`db.check`: a view against its recomputation by Spark, at one epoch."""

from __future__ import annotations

from dataclasses import dataclass, field

from pyspark.sql import DataFrame

from rekindle.errors import CheckError
from rekindle.frontends.spark_sql.unordered import in_order, unordered_columns
from rekindle.runtime.connection import Connection, view_of
from rekindle.runtime.epochs.state import State, ViewEntry
from rekindle.runtime.reading.reading import DataReader
from rekindle.runtime.upkeep.check import CheckReport, Sides, compare
from rekindle.runtime.views.factorised import Factorised


@dataclass(frozen=True, slots=True)
class Checking:
    """Checks the views of one connection."""

    connection: Connection
    reading: DataReader
    _unordered: dict[str, tuple[int, list[int]]] = field(default_factory=dict)
    """When a view was made, and the columns of it that are collected in no order."""

    def check(self, name: str) -> CheckReport:
        """Recompute a view and compare; raises `CheckError` on a difference.

        Of rows that tie at a limit or in a window's order Spark takes any. Where the view differs,
        it is recomputed once more with these ties taken as the view takes them. What is collected
        in no order is compared as a bag.
        """
        engine = self.connection.refreshed()
        state = engine.begin()
        try:
            return self._checked(state, view_of(state, name))
        finally:
            engine.snapshots.release(state.epoch)

    def _checked(self, state: State, entry: ViewEntry) -> CheckReport:
        followed_until = _followed_until(state, entry)
        if followed_until is not None:
            raise CheckError(
                f"view '{entry.name}' is stale and not followed",
                detail=f"its rows are those of epoch {followed_until}, and this is {state.epoch}",
                hint=f"REFRESH MATERIALIZED VIEW {entry.name}",
            )
        if entry.level is not None:
            return self._parts_checked(state, entry)
        expected = self.reading.recomputed(
            entry, lambda source: self.reading.committed(state, source)
        )
        return self._compared(state, entry, expected)

    def _parts_checked(self, state: State, entry: ViewEntry) -> CheckReport:
        """Each part of a nested view against its recomputation over those before it."""
        found: dict[str, DataFrame] = {}

        def contents(source: str) -> DataFrame:
            return found[source] if source in found else self.reading.committed(state, source)

        reports = {}
        for part in state.parts(entry.name):
            assert isinstance(part, ViewEntry)
            expected = self.reading.recomputed(part, contents)
            reports[part.name] = self._compared(state, part, expected)
            found[part.name] = expected
        assert entry.level is not None
        return CheckReport(entry.name, reports[entry.level.view].rows, state.epoch)

    def _compared(self, state: State, entry: ViewEntry, expected: DataFrame) -> CheckReport:
        definitions, reading = self.connection.definitions, self.reading
        actual = reading.committed(state, entry.name)
        settings = definitions.settings_for(entry)
        known = {entry.name, *self.connection.engine.sources_of(entry.name)}
        nodes = [state.entry(source).node for source in known]
        rows = sum(state.traces[node].rows for node in nodes if node in state.traces)
        catalyst = self.connection.catalyst
        made, unordered = self._unordered.get(entry.name, (None, []))
        if made != entry.created:
            unordered = unordered_columns(catalyst, expected)
            self._unordered[entry.name] = entry.created, unordered

        def compared(recomputed: DataFrame) -> CheckReport:
            both = actual, recomputed
            if unordered:
                both = in_order(actual, unordered), in_order(recomputed, unordered)
            sides = Sides(*both, rows)
            return compare(catalyst, entry.name, state.epoch, sides, settings)

        try:
            report = compared(expected)
        except CheckError:
            decided = definitions.without_ties(entry, expected)
            if decided is None:
                raise
            report = compared(decided)
        if entry.factorisation is not None:
            store = self.connection.engine.store
            Factorised(entry, lambda: state, store).check_count(report)
        return report


def _followed_until(state: State, entry: ViewEntry) -> int | None:
    """The epoch whose rows a view has, or the part of it that is behind most; None if it is not."""
    views = [each for each in (entry, *state.parts(entry.name)) if isinstance(each, ViewEntry)]
    return min((view.stale for view in views if view.stale is not None), default=None)
