"""The machine that a benchmark ran on."""

from __future__ import annotations

import os
import platform
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow
import pyspark
from pyspark.sql import SparkSession

import rekindle

_INTERVAL = 0.1


def describe_machine(spark: SparkSession) -> dict[str, Any]:
    """What a reader needs to judge the numbers, including what else was running."""
    return {
        "cores": os.cpu_count(),
        "processor": _line("/proc/cpuinfo", "model name") or platform.processor(),
        "memory": _line("/proc/meminfo", "MemTotal"),
        "system": platform.platform(),
        "python": platform.python_version(),
        "java": str(spark.sparkContext._gateway.jvm.System.getProperty("java.version")),  # type: ignore[union-attr]
        "spark": pyspark.__version__,
        "arrow": pyarrow.__version__,
        "rekindle": rekindle.__version__,
        "master": spark.sparkContext.master,
        "load_before": [round(value, 2) for value in os.getloadavg()],
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }


def private_bytes() -> int:
    """Memory of this process that is not a mapped file: what it would have to allocate."""
    found = _line("/proc/self/status", "RssAnon")
    return int(found.split()[0]) * 1024 if found else 0


def resident_bytes() -> int:
    """Memory of this process, mapped files too."""
    found = _line("/proc/self/status", "VmRSS")
    return int(found.split()[0]) * 1024 if found else 0


def open_files() -> int:
    """File handles of this process; 0 where the kernel does not list them."""
    return _listed("/proc/self/fd")


class Jvm:
    """The JVM of a session: what its heap holds once garbage is gone, and its file handles."""

    def __init__(self, spark: SparkSession) -> None:
        gateway = spark.sparkContext._gateway
        assert gateway is not None
        java: Any = gateway.jvm
        self._system = java.System
        self._runtime = java.java.lang.Runtime.getRuntime()
        self._process = int(java.java.lang.ProcessHandle.current().pid())

    def heap_bytes(self) -> int:
        """What is held. A collection clears weak references, and the next what hung on them."""
        self._system.gc()
        self._system.gc()
        return int(self._runtime.totalMemory()) - int(self._runtime.freeMemory())

    def open_files(self) -> int:
        return _listed(f"/proc/{self._process}/fd")


class MemoryWatch:
    """Samples the private memory of this process while a block runs."""

    def __init__(self) -> None:
        self.samples: list[tuple[float, int]] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> MemoryWatch:
        self.started = time.perf_counter()
        self.samples.append((0.0, private_bytes()))
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def peak(self) -> int:
        """The highest sample, in bytes."""
        return max(size for _, size in self.samples)

    def _watch(self) -> None:
        while not self._stop.wait(_INTERVAL):
            self.samples.append((time.perf_counter() - self.started, private_bytes()))


def _listed(directory: str) -> int:
    try:
        return len(os.listdir(directory))
    except OSError:
        return 0


def _line(path: str, name: str) -> str:
    """The value of a `name: value` line of a file of the kernel; empty when there is none."""
    try:
        for line in Path(path).read_text().splitlines():
            key, _, value = line.partition(":")
            if key.strip() == name:
                return value.strip()
    except OSError:
        pass
    return ""
