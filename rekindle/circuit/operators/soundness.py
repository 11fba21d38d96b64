"""Whether a node that was read from a stored form takes only columns that its rows have.

A stored form is data from anywhere. Each function raises `ShapeError` about the node `key`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

from rekindle.calculus.scalars import Scalar
from rekindle.circuit.stages import Finish, Generate, LinearForm, Match, Project, Where
from rekindle.shapes import ShapeError

if TYPE_CHECKING:
    from rekindle.circuit.operators.node import Node


@dataclass(frozen=True, slots=True)
class Soundness:
    """The check of one node, under the identity `key`, over the nodes that are there."""

    key: str
    nodes: Mapping[str, Node]

    def refused(self, reason: str) -> ShapeError:
        """The error to raise."""
        return ShapeError(f"{self.key}: {reason}")

    def input(self, source: str) -> Node:
        """A node that is read."""
        node = self.nodes.get(source)
        if node is None:
            raise self.refused(f"it reads '{source[:40]}', which is not there")
        return node

    def check_scalars(self, scalars: Sequence[Scalar], width: int) -> None:
        """Raise unless expressions read columns of rows of a width."""
        for scalar in scalars:
            self.check_columns(list(scalar.references), width)

    def check_columns(self, columns: Sequence[int | None], width: int) -> None:
        """Raise unless columns are those of rows of a width."""
        if any(column is not None and not 0 <= column < width for column in columns):
            raise self.refused(f"it takes a column of rows that have {width}")

    def check_form(self, form: LinearForm) -> int:
        """The width of a form's rows, once every stage is known to read columns that are there."""
        for branch in form.branches:
            width = len(branch.schema)
            if width > len(self.input(branch.node).schema) or branch.sign not in (1, -1):
                raise self.refused(f"it reads more columns than '{branch.node}' has")
            schema = branch.schema
            for stage in branch.stages:
                match stage:
                    case Project():
                        self.check_scalars([scalar for _, scalar in stage.outputs], width)
                    case Where():
                        self.check_scalars([stage.predicate], width)
                    case Generate():
                        self.check_columns([*stage.kept, *stage.generator.references], width)
                    case Match():
                        if len(stage.left_keys) != len(stage.right_keys):
                            raise self.refused("a join compares keys in pairs")
                        self.check_scalars(stage.left_keys, stage.left_width)
                        self.check_scalars(stage.right_keys, width - stage.left_width)
                    case Finish():
                        if len(stage.keys) > width:
                            raise self.refused("it has fewer keys than it gives")
                    case _:
                        assert_never(stage)
                schema = stage.output(schema)
                width = len(schema)
            if width != len(form.schema):
                raise self.refused("its branches differ in their columns")
        return len(form.schema)
