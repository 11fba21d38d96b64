"""One writer on this host, by a lock that dies with its process.

A lease cannot tell a dead writer from a slow one but by waiting. On a local path the kernel can: it
drops the lock when the process ends, however it ends. So a killed writer is taken over at once.
"""

from __future__ import annotations

import fcntl
import os

from rekindle.traces.links import refuse_links

FILE = "writer.lock"


class HostLock:
    """A lock on a database directory that this process may hold."""

    def __init__(self, root: str) -> None:
        os.makedirs(root, 0o700, exist_ok=True)
        self._root = root
        self._place = os.path.join(root, FILE)
        self._descriptor = -1

    def take(self) -> bool:
        """Hold the lock; False if another connection on this host does, in any process."""
        if self._descriptor >= 0:
            return True
        refuse_links(self._root, FILE)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(self._place, flags, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor
        return True

    def release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __del__(self) -> None:
        self.release()
