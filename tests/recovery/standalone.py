"""A standalone cluster of Spark on this machine: a master and workers as processes of their own.

The installation from PyPI has no scripts to start one, but it has the classes.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from pathlib import Path
from typing import IO

import psutil
import pyspark

PATIENCE = 120.0
_MASTER = "org.apache.spark.deploy.master.Master"
_WORKER = "org.apache.spark.deploy.worker.Worker"
_EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"


class Standalone:
    """A master and so many workers of one core each, until `close`."""

    def __init__(self, directory: Path, workers: int = 2) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._opened: list[IO[bytes]] = []
        self._processes: list[subprocess.Popen[bytes]] = []
        host = ["--host", "127.0.0.1", "--webui-port", "0"]
        try:
            self._start("master", [_MASTER, *host, "--port", "0"])
            self.url = self._said("master", r"Starting Spark master at (spark://\S+)")
            for number in range(workers):
                name = f"worker-{number}"
                work = ["--cores", "1", "--memory", "1100M", "-d", str(directory / name)]
                self._start(name, [_WORKER, *host, *work, self.url])
                self._said(name, "(Successfully registered with master)")
        except BaseException:
            self.close()
            raise

    @property
    def executors(self) -> list[psutil.Process]:
        """The processes of the executors, oldest first."""
        found = []
        for process in self._processes[1:]:
            try:
                children = psutil.Process(process.pid).children(recursive=True)
                found += [child for child in children if _EXECUTOR in child.cmdline()]
            except psutil.NoSuchProcess:
                continue
        return sorted(found, key=lambda process: process.pid)

    def await_no_executors(self) -> None:
        """Wait until those of an application have gone, whose driver was killed."""
        deadline = time.monotonic() + PATIENCE
        while self.executors:
            assert time.monotonic() < deadline, "executors outlive their driver"
            time.sleep(0.1)

    def close(self) -> None:
        for executor in self.executors:
            executor.kill()
        for process in self._processes:
            process.kill()
            process.wait()
        for file in self._opened:
            file.close()

    def _start(self, name: str, arguments: list[str]) -> None:
        home = Path(pyspark.__file__).parent
        log = open(self._directory / f"{name}.log", "wb")  # noqa: SIM115 - closed with the cluster
        self._opened.append(log)
        # The script ends by becoming the process that it starts.
        command = [str(home / "bin/spark-class"), *arguments]
        environment = {**os.environ, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"}
        environment |= {"SPARK_DAEMON_MEMORY": "256m", "SPARK_NO_DAEMONIZE": "1"}
        self._processes.append(
            subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
        )

    def _said(self, name: str, pattern: str) -> str:
        """What a process said, once it has."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            text = (self._directory / f"{name}.log").read_text(errors="replace")
            found = re.search(pattern, text)
            if found:
                return found[1]
            assert self._processes[-1].poll() is None, text[-2000:]
            time.sleep(0.1)
        raise AssertionError(f"{name} does not start: {text[-2000:]}")
