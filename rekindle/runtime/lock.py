"""One writer at a time, by a lock that dies with its process."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from types import TracebackType

from rekindle.errors import LockedError
from rekindle.traces.links import refuse_links

FILE = "writer.lock"


class WriterLock:
    """An exclusive lock on a database directory, held until `release` or the end of the process.

    The kernel drops the lock when the process ends, however it ends, so a killed writer never has
    to be cleaned up after. It guards one machine; a shared store needs its writers on one host.
    """

    def __init__(self, root: str) -> None:
        os.makedirs(root, exist_ok=True)
        self._path = os.path.join(root, FILE)
        refuse_links(root, FILE)
        self._file = open(self._path, "a+")  # noqa: SIM115 - held beyond this scope
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = self._holder()
            self._file.close()
            raise LockedError(
                f"the database '{root}' is being written to by another connection",
                detail=holder,
                hint="close that connection, or open this one with "
                "rekindle.connect(path, mode='read')",
            ) from error
        self._file.seek(0)
        self._file.truncate()
        json.dump(
            {"pid": os.getpid(), "host": socket.gethostname(), "since": time.time()}, self._file
        )
        self._file.flush()

    def _holder(self) -> str:
        try:
            self._file.seek(0)
            data = json.load(self._file)
            since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(data["since"]))
            return f"held by process {data['pid']} on {data['host']} since {since}"
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            return "held by another process"

    def release(self) -> None:
        self._file.close()

    def __enter__(self) -> WriterLock:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()
