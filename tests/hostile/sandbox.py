"""Opens hostile warehouses and notices what should not happen.

Python says of itself what it is about to do (audit events): processes started, modules imported,
classes looked up for a pickle, sockets, files opened for writing. Of the JVM it is known what the
payloads would leave behind: a property, a file, a process.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import rekindle
from rekindle.errors import RekindleError, StaleViewWarning
from rekindle.runtime.database import Database
from rekindle.traces.opened import OPEN_SEGMENTS
from tests.hostile.corpus import PROPERTY, Case
from tests.hostile.template import forget

_KNOWN = {
    "rekindle",
    "pyspark",
    "py4j",
    "pyarrow",
    "numpy",
    "pandas",
    "xxhash",
    "tests",
    "dateutil",
}
_KNOWN |= {"pytz", "six", "encodings", "google", "grpc", "zoneinfo", "tzdata", "_pytest", "pytest"}
_KNOWN |= {"IPython"}  # PySpark asks whether it is there.
_STARTS = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork")
_FORBIDDEN = (*_STARTS, "ctypes.dlopen", "socket.bind", "os.startfile")


@dataclass
class Watch:
    """What happened while it was on."""

    inside: tuple[str, ...]
    seen: list[str] = field(default_factory=list)
    on: bool = False

    def __post_init__(self) -> None:
        sys.addaudithook(self._hook)

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.on and (said := self._said(event, arguments)):
            self.seen.append(said)

    def _said(self, event: str, arguments: tuple[Any, ...]) -> str | None:
        if event.startswith(_FORBIDDEN):
            return f"{event} {arguments!r}"[:300]
        if event == "import":
            top = str(arguments[0]).split(".")[0]
            fine = top in _KNOWN or top in sys.stdlib_module_names
            return None if fine else f"import {arguments[0]}"
        if event == "pickle.find_class":
            return None if arguments[0] == "pyspark.sql.types" else f"unpickles {arguments!r}"
        if event == "socket.getaddrinfo":
            local = arguments[0] in ("127.0.0.1", "::1", "localhost")
            return None if local else f"asks for {arguments[0]!r}"
        if event == "socket.connect":
            address = arguments[1]
            local = isinstance(address, str) or address[0] in ("127.0.0.1", "::1", "localhost")
            return None if local else f"connects to {address!r}"
        if event == "open" and isinstance(arguments[0], str):
            return self._opened(arguments[0], str(arguments[1] or ""), int(arguments[2] or 0))
        if event == "os.remove":
            return self._outside(event, _within(arguments[1], str(arguments[0])))
        if event in ("os.rename", "shutil.rmtree", "os.symlink", "os.chmod"):
            return self._outside(event, str(arguments[0]))
        return None

    def _opened(self, path: str, mode: str, flags: int) -> str | None:
        writes = any(c in mode for c in "wax+") or flags & (os.O_WRONLY | os.O_RDWR)
        return self._outside("writes", path) if writes else None

    def _outside(self, event: str, path: str) -> str | None:
        place = os.path.realpath(path)
        return None if place.startswith((*self.inside, "/dev/")) else f"{event} {place}"

    @contextmanager
    def watching(self) -> Iterator[None]:
        self.on = True
        try:
            yield
        finally:
            self.on = False


def _within(directory: int, name: str) -> str:
    """The path of a name in an open directory, -1 for the one of the process."""
    return name if directory < 0 else os.path.join(os.readlink(f"/proc/self/fd/{directory}"), name)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a case: what was refused, what was not a `RekindleError`, what was noticed."""

    name: str
    refused: tuple[str, ...]
    worked: int
    escaped: tuple[str, ...]
    noticed: tuple[str, ...]


class Sandbox:
    """Visits warehouses with one Spark session."""

    def __init__(self, spark: SparkSession, room: Path, outside: Path) -> None:
        self.spark = spark
        self.room = room
        self.outside = outside
        self.marker = outside / "marker"
        (outside / "precious").write_text("precious")
        (outside / "mine.arrow").write_text("mine")
        spark.udf.register("victim", _victim(str(self.marker)))
        spark.range(1).collect()
        # PySpark hands rows of constant frames to the JVM in files of its own.
        own = os.path.realpath(str(spark.sparkContext._temp_dir))
        self._watch = Watch((str(room.resolve()), own))
        self._jvm: Any = spark._jvm

    def visit(self, case: Case, template: Path) -> Outcome:
        """Make the warehouse, open it, read, explain and check; say what happened."""
        root = self.room / "warehouse"
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(template, root)
        case.mutate(root)
        OPEN_SEGMENTS.clear()
        forget()
        self._watch.seen.clear()
        held = sorted(p.name for p in self.outside.iterdir())
        children = _children()
        refused: list[str] = []
        escaped: list[str] = []
        worked = 0
        with self._watch.watching(), warnings.catch_warnings():
            # A view that cannot be followed is one of the good ends.
            warnings.simplefilter("ignore", StaleViewWarning)
            for mode in ("write", "read") if case.writes else ("read",):
                for step in self._steps(root, mode, case):
                    if isinstance(step, RekindleError):
                        refused.append(f"{type(step).__name__}: {step.message}")
                    elif isinstance(step, BaseException):
                        escaped.append(f"{type(step).__name__}: {str(step)[:300]}")
                    else:
                        worked += 1
        noticed = [*self._watch.seen, *(_children() - children)]
        if self._jvm.System.getProperty(PROPERTY) is not None:
            noticed.append("the JVM ran code")
            self._jvm.System.clearProperty(PROPERTY)
        after = sorted(p.name for p in self.outside.iterdir())
        if after != held or (self.outside / "precious").read_text() != "precious":
            noticed.append(f"files outside: {held} became {after}")
            if self.marker.is_dir():
                self.marker.rmdir()
            self.marker.unlink(missing_ok=True)
        return Outcome(case.name, tuple(refused), worked, tuple(escaped), tuple(noticed))

    def _steps(self, root: Path, mode: str, case: Case) -> Iterator[object]:
        """The result of every step of a visit, or what it raised."""
        try:
            db = rekindle.connect(str(root), self.spark, mode=mode)
        except Exception as error:
            yield error
            return
        try:
            yield db
            for name in case.about:
                for act in (self._read, self._explain, self._check, self._changes):
                    yield _result(act, db, name)
            if mode == "write":
                yield _result(self._insert, db, "t")
        finally:
            db.close()

    @staticmethod
    def _read(db: Database, name: str) -> object:
        return db.table(name).toArrow()

    @staticmethod
    def _explain(db: Database, name: str) -> object:
        found = db.explain(name)
        return str(found), found.json()

    @staticmethod
    def _check(db: Database, name: str) -> object:
        return db.check(name) if name in db.views else None

    @staticmethod
    def _changes(db: Database, name: str) -> object:
        return db.changes(name).toArrow()

    @staticmethod
    def _insert(db: Database, name: str) -> object:
        with db.transaction() as tx:
            tx.insert(name, [(1, 2, "x")])
        return db.epoch


def _result(act: Any, db: Database, name: str) -> object:
    try:
        return act(db, name)
    except Exception as error:
        return error


def _victim(marker: str) -> Any:
    def victim(x: Any) -> str:
        open(marker, "w").close()
        return str(x)

    return victim


def _children() -> set[str]:
    """The processes of this machine that are none of Spark's or of the tests."""
    shown = subprocess.run(
        ["ps", "-o", "args=", "--ppid", str(os.getpid())], capture_output=True, text=True
    ).stdout.splitlines()
    return {f"process {line[:80]}" for line in shown if "ps -o" not in line}
