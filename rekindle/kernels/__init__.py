"""Kernels: the stateful operators, as pure functions on Arrow tables and traces.

Each takes a change and readers of the integrals it needs, and gives the change of the output; one
file an operator, with its law. None of them writes, starts Spark, or looks inside a payload.
"""

from rekindle.kernels.aggregate import (
    Aggregated,
    aggregate_change,
    aggregate_layout,
    buffer_fields,
    empty_buffers,
)
from rekindle.kernels.arrange import arrange
from rekindle.kernels.distinct import distinct_change
from rekindle.kernels.join import ChangeSide, Probe, join_batches, join_change
from rekindle.kernels.spans import Span

__all__ = [
    "Aggregated",
    "ChangeSide",
    "Probe",
    "Span",
    "aggregate_change",
    "aggregate_layout",
    "arrange",
    "buffer_fields",
    "distinct_change",
    "empty_buffers",
    "join_batches",
    "join_change",
]
