"""`db.check`: a view against its recomputation by Spark, at one epoch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from rekindle.errors import CheckError
from rekindle.runtime.check import CheckReport, Sides, compare
from rekindle.runtime.connection import Connection, view_of
from rekindle.runtime.factorised import Factorised
from rekindle.runtime.reading import DataReader
from rekindle.runtime.state import State, ViewEntry


@dataclass(frozen=True, slots=True)
class Checking:
    """Checks the views of one connection."""

    connection: Connection
    reading: DataReader

    def check(self, name: str) -> CheckReport:
        """Recompute a view and compare; raises `CheckError` on a difference.

        Of rows that tie at a limit or in a window's order Spark takes any. Where the view differs,
        it is recomputed once more with these ties taken as the view takes them.
        """
        engine = self.connection.refreshed()
        state = engine.begin()
        try:
            return self._checked(state, view_of(state, name))
        finally:
            engine.snapshots.release(state.epoch)

    def _checked(self, state: State, entry: ViewEntry) -> CheckReport:
        if entry.stale is not None:
            raise CheckError(
                f"view '{entry.name}' is stale and not followed",
                detail=f"its rows are those of epoch {entry.stale}, and this is {state.epoch}",
                hint=f"REFRESH MATERIALIZED VIEW {entry.name}",
            )
        definitions, reading = self.connection.definitions, self.reading
        actual = reading.committed(state, entry.name)
        expected = reading.recomputed(entry, lambda source: reading.committed(state, source))
        settings = definitions.settings_for(entry)
        read = {entry.name, *self.connection.engine.sources_of(entry.name)}
        nodes = [state.entry(source).node for source in read]
        rows = sum(state.traces[node].rows for node in nodes if node in state.traces)
        catalyst = self.connection.catalyst
        compared = partial(compare, catalyst, entry.name, state.epoch, settings=settings)
        try:
            report = compared(sides=Sides(actual, expected, rows))
        except CheckError:
            decided = definitions.without_ties(entry, expected)
            if decided is None:
                raise
            report = compared(sides=Sides(actual, decided, rows))
        if entry.factorisation is not None:
            store = self.connection.engine.store
            Factorised(entry, lambda: state, store).check_count(report)
        return report
