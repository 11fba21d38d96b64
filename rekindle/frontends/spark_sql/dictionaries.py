"""The dictionaries of nested collections as plans: their rows, and what they hold by label."""

from __future__ import annotations

from dataclasses import dataclass

from rekindle.catalyst.jvm import Catalyst, JavaObject, analysed_plan, items
from rekindle.frontends.comprehension.assembling import bags_query
from rekindle.frontends.spark_sql.analyse import Leaves, parse, resolve
from rekindle.names import quoted
from rekindle.nested.levels import LABEL, Level


@dataclass(frozen=True, slots=True)
class Dictionaries:
    """Makes plans over the leaves of flat collections; no two of them have a column in common."""

    catalyst: Catalyst
    leaves: Leaves

    def rows(self, level: Level) -> JavaObject:
        """The rows of a level."""
        return self.leaves.plans[level.view].newInstance()

    def counts(self, level: Level) -> tuple[JavaObject, JavaObject, JavaObject]:
        """How many elements each label has, as a plan with its columns: the label, the number."""
        label, rows = quoted(LABEL), quoted(level.view)
        return self._by_label(level, f"SELECT {label}, count(*) FROM {rows} GROUP BY {label}")

    def bags(self, level: Level) -> tuple[JavaObject, JavaObject, JavaObject]:
        """The bag that each label stands for, in the same way."""
        return self._by_label(level, bags_query(level, self.leaves.schema))

    def _by_label(self, level: Level, query: str) -> tuple[JavaObject, JavaObject, JavaObject]:
        scope = {each.view: self.rows(each) for _, each in level.paths()}
        frame = resolve(self.catalyst, parse(self.catalyst, query), scope)
        plan = self.catalyst.optimised(analysed_plan(frame))
        label, value = items(plan.output())
        return plan, label, value
