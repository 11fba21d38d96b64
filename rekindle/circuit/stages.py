"""Linear work between two stateful operators, as a list of stages on rows.

A linear form is a sum of branches; a branch takes the output of one node through its stages. Maps,
filters and generators distribute over sums, so any linear term over stateful operators has this
normal form, and Spark evaluates each branch in one go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from rekindle.calculus.scalars import Column, Scalar
from rekindle.calculus.schema import Field, Schema
from rekindle.calculus.terms import Generator, Measure


def _show(scalar: Scalar) -> str:
    return str(getattr(scalar, "display", scalar.text))


@dataclass(frozen=True, slots=True)
class Project:
    """Compute new columns."""

    outputs: tuple[tuple[str, Scalar], ...]

    @property
    def text(self) -> str:
        return "project(" + ",".join(scalar.text for _, scalar in self.outputs) + ")"

    @property
    def label(self) -> str:
        return "map " + ", ".join(
            name if isinstance(scalar, Column) else f"{_show(scalar)} as {name}"
            for name, scalar in self.outputs
        )

    def output(self, schema: Schema) -> Schema:
        return Schema(tuple(Field(n, s.type, s.nullable) for n, s in self.outputs))


@dataclass(frozen=True, slots=True)
class Where:
    """Keep the rows on which the predicate is true."""

    predicate: Scalar

    @property
    def text(self) -> str:
        return f"where({self.predicate.text})"

    @property
    def label(self) -> str:
        return f"filter {_show(self.predicate)}"

    def output(self, schema: Schema) -> Schema:
        return schema


@dataclass(frozen=True, slots=True)
class Generate:
    """Append each of the rows that a generator gives to the kept columns."""

    generator: Generator
    kept: tuple[int, ...]

    @property
    def text(self) -> str:
        return f"generate({self.generator.text};{','.join(map(str, self.kept))})"

    @property
    def label(self) -> str:
        return f"flatmap {getattr(self.generator, 'display', self.generator.text)}"

    def output(self, schema: Schema) -> Schema:
        kept = Schema(tuple(schema.fields[i] for i in self.kept))
        return kept + self.generator.schema


@dataclass(frozen=True, slots=True)
class Match:
    """Keep the pairs whose keys really are equal and that satisfy the join's own condition.

    The kernel pairs rows by the hash of their keys; this stage makes the join exact. Where pairs
    were found by a range, it may be one that `decides` the residual (`terms.Range`).
    """

    left_keys: tuple[Scalar, ...]
    right_keys: tuple[Scalar, ...]
    residual: Scalar | None
    left_width: int
    decides: bool = False

    @property
    def text(self) -> str:
        keys = ",".join(
            f"{left.text}={right.text}"
            for left, right in zip(self.left_keys, self.right_keys, strict=True)
        )
        rest = "" if self.residual is None else self.residual.text
        return f"match({self.left_width};{keys};{rest})"

    @property
    def label(self) -> str:
        shown = [
            f"{_show(left)} = {_show(right)}"
            for left, right in zip(self.left_keys, self.right_keys, strict=True)
        ]
        return "on " + " and ".join(shown + ([_show(self.residual)] if self.residual else []))

    def output(self, schema: Schema) -> Schema:
        return schema


@dataclass(frozen=True, slots=True)
class Finish:
    """From a group's keys and aggregation buffers to its keys and results."""

    keys: Schema
    measures: tuple[Measure, ...]

    @property
    def text(self) -> str:
        return "finish(" + ",".join(m.text or m.function.value for m in self.measures) + ")"

    @property
    def label(self) -> str:
        return "finish " + ", ".join(m.name for m in self.measures)

    def output(self, schema: Schema) -> Schema:
        return self.keys + Schema(tuple(Field(m.name, m.type, m.nullable) for m in self.measures))


Stage: TypeAlias = Project | Where | Generate | Match | Finish


def columns_read(stages: Sequence[Stage], width: int) -> set[int]:
    """The columns that stages read, of rows that have `width` of them."""
    found: set[int] = set()
    for stage in stages:
        match stage:
            case Where():
                found |= stage.predicate.references
            case Project():
                return found.union(*(scalar.references for _, scalar in stage.outputs))
            case Generate():
                return found | stage.generator.references | set(stage.kept)
            case Match() | Finish():
                break
    return set(range(width))


@dataclass(frozen=True, slots=True)
class Branch:
    """The output of `node`, through `stages`, times `sign`."""

    node: str
    schema: Schema
    stages: tuple[Stage, ...] = ()
    sign: int = 1

    def then(self, stage: Stage) -> Branch:
        """The branch with one more stage; a projection that changes nothing is left out."""
        output = self.output
        if isinstance(stage, Project) and _is_identity(stage, output):
            return self
        return replace(self, stages=(*self.stages, stage))

    @property
    def output(self) -> Schema:
        schema = self.schema
        for stage in self.stages:
            schema = stage.output(schema)
        return schema

    @property
    def text(self) -> str:
        inner = "|".join([self.node, *(stage.text for stage in self.stages)])
        return ("-" if self.sign < 0 else "") + inner


def _is_identity(stage: Project, schema: Schema) -> bool:
    positions = [s.position if isinstance(s, Column) else -1 for _, s in stage.outputs]
    return positions == list(range(len(schema)))


@dataclass(frozen=True, slots=True)
class LinearForm:
    """A sum of branches, with the column names that its user sees."""

    branches: tuple[Branch, ...]
    schema: Schema

    def then(self, stage: Stage) -> LinearForm:
        return LinearForm(
            tuple(branch.then(stage) for branch in self.branches), stage.output(self.schema)
        )

    def negated(self) -> LinearForm:
        return replace(self, branches=tuple(replace(b, sign=-b.sign) for b in self.branches))

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(branch.node for branch in self.branches))

    @property
    def text(self) -> str:
        return "+".join(branch.text for branch in self.branches)
