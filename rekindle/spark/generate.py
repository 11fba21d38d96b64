"""Generators and Python functions as plan nodes, over rows of a weight and the stage's columns."""

from __future__ import annotations

from rekindle.catalyst.evaluations import CatalystEvaluation
from rekindle.catalyst.jvm import Catalyst, JavaObject, items
from rekindle.columns import column_name
from rekindle.spark.stages import Generated


def generated(catalyst: Catalyst, plan: JavaObject, stage: Generated) -> JavaObject:
    """The weight, the kept columns, and what the generator adds, as `_weight`, c0, c1..."""
    output = items(plan.output())
    generator = stage.generator
    if isinstance(generator, CatalystEvaluation):
        added = list(generator.results)
        rows = generator.plan(catalyst, plan)
    else:
        added = [
            catalyst.attribute(f"g{i}", field.type) for i, field in enumerate(generator.schema)
        ]
        rows = catalyst.plan("Generate")(
            generator.expression,
            catalyst.seq(()),
            generator.outer,
            catalyst.none(),
            catalyst.seq(added),
            plan,
        )
    kept = [output[1 + position] for position in stage.kept]
    columns = [catalyst.named(column, column_name(i)) for i, column in enumerate([*kept, *added])]
    return catalyst.plan("Project")(catalyst.seq([output[0], *columns]), rows)
