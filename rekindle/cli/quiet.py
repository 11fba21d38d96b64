"""Spark's start without its chatter.

The JVM writes half a dozen lines to stderr before any setting of ours can reach it; the first is
printed by Java itself. So while Spark starts, file descriptor 2 is a pipe, which the JVM inherits,
and a thread passes on every line but the known ones for as long as the JVM lives. What a failing
start has to say is shown as it is.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

CHATTER = re.compile(
    rb"WARNING: Using incubator modules"
    rb"|Using Spark's default log4j profile"
    rb"|Setting default log level to"
    rb"|To adjust logging level use"
    rb"|Picked up JAVA_TOOL_OPTIONS"
    rb"|WARNING: package sun\.security\.action not in java\.base"
    rb"|.* WARN Utils: (Your hostname|Set SPARK_LOCAL_IP|Service 'SparkUI' could not bind)"
    rb"|.* WARN NativeCodeLoader:"
)


@contextmanager
def quiet_start() -> Iterator[int]:
    """What child processes of the block write to stderr is filtered; gives the true stderr."""
    true = os.dup(2)
    reading, writing = os.pipe()
    threading.Thread(target=_pass_on, args=(reading, true), daemon=True).start()
    os.dup2(writing, 2)
    os.close(writing)
    try:
        yield true
    finally:
        os.dup2(true, 2)


def _pass_on(reading: int, true: int) -> None:
    with os.fdopen(reading, "rb") as lines:
        for line in lines:
            if not CHATTER.match(line):
                os.write(true, line)
