"""Traces: collections on disk, as immutable sorted runs of Arrow files.

`layout` says what rows look like and `values` what is added; `consolidate` gives every collection
its one arranged table. `store` keeps arranged tables as checksummed segments; `trace` is a sum of
runs that merge by and by; `reader` answers by key, by identity, or in full.
"""

from rekindle.traces.consolidate import consolidate
from rekindle.traces.exact_double import ExactDouble
from rekindle.traces.layout import TraceLayout, weighted_layout
from rekindle.traces.partition import ALL_KEYS, KeyRange, key_ranges, partition_of
from rekindle.traces.reader import Found, TraceReader
from rekindle.traces.run_view import MatchedRows
from rekindle.traces.segment import Run, Segment, run_of
from rekindle.traces.store import Durability, Store
from rekindle.traces.trace import Advance, Merge, Trace, advance, fuel_for
from rekindle.traces.values import ValueColumns, Weight, WideInteger

__all__ = [
    "ALL_KEYS",
    "Advance",
    "Durability",
    "ExactDouble",
    "Found",
    "KeyRange",
    "MatchedRows",
    "Merge",
    "Run",
    "Segment",
    "Store",
    "Trace",
    "TraceLayout",
    "TraceReader",
    "ValueColumns",
    "Weight",
    "WideInteger",
    "advance",
    "consolidate",
    "fuel_for",
    "key_ranges",
    "partition_of",
    "run_of",
    "weighted_layout",
]
