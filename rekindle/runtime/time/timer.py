"""A timer that moves a database's clock to the time of the day, also while nobody changes anything.

Each move is an epoch like that of `db.advance_time()`, and waits its turn as any transaction does.
It is one thread of the process that writes; what it cannot do ends it, and stands in `error`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

_LOG = logging.getLogger("rekindle")


class ClockTimer:
    """Moves the clock every so many seconds, until it is stopped or the database is closed."""

    def __init__(self, advance: Callable[[], object], seconds: float) -> None:
        self.seconds = seconds
        self.error: Exception | None = None
        """Why it ended, if not because somebody stopped it."""
        self._advance = advance
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rekindle-clock", daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive() and not self._stopped.is_set()

    def stop(self) -> None:
        """End it; a move that has begun comes to its end first."""
        self._stopped.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(self.seconds):
            try:
                self._advance()
            except Exception as error:
                self.error = error
                _LOG.error("the clock's timer has ended: %s", error)
                self._stopped.set()

    def __repr__(self) -> str:
        state = "running" if self.is_running else "stopped"
        return f"<ClockTimer every {self.seconds:g} s, {state}>"
