"""The process that Spark forks its Python workers from, with what tasks import there already.

A task that fails takes its worker with it, and an idle one ends after a minute. The next imports
Arrow, pandas and the kernels anew, which takes a second of a core each time; forked from here it
has them.
"""

from __future__ import annotations

import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import rekindle.spark.distributed  # noqa: F401

if __name__ == "__main__":
    manager()
