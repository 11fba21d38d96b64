"""MERGE as one query: target and source paired, and for each pair what becomes of it.

The target's rows are numbered and joined with the source by the merge condition; of the actions
for the kind of pair (both, only the source's row, only the target's) the first whose condition
holds is taken. A row of the result is the action's number, the target row's number, the target's
columns as they were, and as the action leaves them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rekindle.catalyst.jvm import Catalyst, JavaObject, items, option, simple_name
from rekindle.frontends.spark_sql.commands import inserted, updated

ACTION = "__action"
ROW = "__row"
PAIRED = "__paired"
NO_ACTION = -1


@dataclass(frozen=True, slots=True)
class Action:
    """A WHEN clause: its number, the pairs that it is for, and its analysed action."""

    number: int
    target: bool
    source: bool
    clause: JavaObject

    @property
    def kind(self) -> str:
        """DeleteAction, UpdateAction or InsertAction."""
        return simple_name(self.clause)


def actions_of(merge: JavaObject) -> list[Action]:
    """The WHEN clauses of an analysed MERGE, in the order in which they are tried."""
    clauses = [
        *((True, True, each) for each in items(merge.matchedActions())),
        *((False, True, each) for each in items(merge.notMatchedActions())),
        *((True, False, each) for each in items(merge.notMatchedBySourceActions())),
    ]
    return [Action(i, *clause) for i, clause in enumerate(clauses)]


def may_match_once_only(merge: JavaObject) -> bool:
    """Whether two source rows that match one row of the target are an error.

    As in Spark they are, whether or not an action then takes place, unless all that matches is
    deleted or nothing is done about it.
    """
    matched = items(merge.matchedActions())
    if len(matched) == 1 and simple_name(matched[0]) == "DeleteAction":
        return option(matched[0].condition()) is not None
    return bool(matched)


def merged(catalyst: Catalyst, merge: JavaObject) -> JavaObject:
    """The query of an analysed MERGE: __action, __row, __paired, old columns, new columns."""
    build = _Build(catalyst)
    target, source = merge.targetTable(), merge.sourceTable()
    old = items(target.output())
    actions = actions_of(merge)
    here, there = build.flag("__target"), build.flag("__source")
    number = catalyst.named(catalyst.expression("MonotonicallyIncreasingID")(), ROW)
    left = build.project([*old, here, number], target)
    right = build.project([*items(source.output()), there], source)
    kind = "FullOuter" if any(not each.source for each in actions) else "RightOuter"
    join = build.join(left, right, kind, merge.mergeCondition())
    # After an outer join every column may be NULL: the join's own output says so.
    seen = items(join.output())
    at_target, row, at_source = seen[len(old)], seen[len(old) + 1], seen[-1]
    chosen = catalyst.named(
        build.case(
            [(build.applies(each, at_target, at_source), build.number(each)) for each in actions],
            catalyst.literal(str(NO_ACTION)),
        ),
        ACTION,
    )
    decided = build.project([*seen, chosen], join)
    action = items(decided.output())[-1]
    columns = list(build.new_columns(actions, target, action))
    paired = catalyst.expression("And")(build.present(at_target), build.present(at_source))
    return build.project(
        [
            action,
            row,
            catalyst.named(paired, PAIRED),
            *seen[: len(old)],
            *(catalyst.named(column, f"n{i}") for i, column in enumerate(columns)),
        ],
        decided,
    )


@dataclass(frozen=True, slots=True)
class _Build:
    """Pieces of a plan whose names are resolved."""

    catalyst: Catalyst

    def project(self, columns: Sequence[JavaObject], plan: JavaObject) -> JavaObject:
        return self.catalyst.plan("Project")(self.catalyst.seq(columns), plan)

    def join(
        self, left: JavaObject, right: JavaObject, kind: str, condition: JavaObject
    ) -> JavaObject:
        plans = "org.apache.spark.sql.catalyst.plans"
        return self.catalyst.plan("Join")(
            left,
            right,
            self.catalyst.module(f"{plans}.{kind}"),
            self.catalyst.some(condition),
            self.catalyst.module(f"{plans}.logical.JoinHint").NONE(),
        )

    def flag(self, name: str) -> JavaObject:
        return self.catalyst.named(self.catalyst.literal("true"), name)

    def number(self, action: Action) -> JavaObject:
        return self.catalyst.literal(str(action.number))

    def present(self, flag: JavaObject) -> JavaObject:
        return self.catalyst.expression("IsNotNull")(flag)

    def applies(
        self, action: Action, at_target: JavaObject, at_source: JavaObject
    ) -> JavaObject | None:
        """The condition under which an action takes place on a pair."""
        absent = self.catalyst.expression("IsNull")
        return self.catalyst.conjunction(
            [
                self.present(at_target) if action.target else absent(at_target),
                self.present(at_source) if action.source else absent(at_source),
                *filter(None, [option(action.clause.condition())]),
            ]
        )

    def new_columns(
        self, actions: Sequence[Action], target: JavaObject, chosen: JavaObject
    ) -> Iterator[JavaObject]:
        """What the chosen action leaves in each column; NULL where it leaves no row."""
        values = {
            each: (inserted if each.kind == "InsertAction" else updated)(
                self.catalyst, target, each.clause
            )
            for each in actions
            if each.kind != "DeleteAction"
        }
        equals = self.catalyst.expression("EqualTo")
        for i, column in enumerate(items(target.output())):
            branches = [
                (equals(chosen, self.number(each)), made[i]) for each, made in values.items()
            ]
            yield self.case(branches, self.catalyst.null(column.dataType()))

    def case(
        self, branches: Sequence[tuple[JavaObject, JavaObject]], otherwise: JavaObject
    ) -> JavaObject:
        if not branches:
            return otherwise
        pairs = [self.catalyst.jvm.scala.Tuple2(when, then) for when, then in branches]
        return self.catalyst.expression("CaseWhen")(
            self.catalyst.seq(pairs), self.catalyst.some(otherwise)
        )
