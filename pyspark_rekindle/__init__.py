"""Spark finds the data source `rekindle` by the name of this package."""

from rekindle.runtime.reading.source import RekindleSource

DefaultSource = RekindleSource

__all__ = ["DefaultSource"]
