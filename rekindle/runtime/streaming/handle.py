"""A running stream: its batches, each a transaction, and what is told of it.

Structured Streaming calls the sink with one batch after the other, in a thread of its own. The rows
are collected there, by one job that ends when the query is stopped. They are applied in another
thread: the stream's thread in the JVM has a session of its own, which our work must not exchange,
and may be interrupted, which must not end in the middle of a commit.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from rekindle.catalyst.failures import spark_error
from rekindle.errors import RekindleError, StreamError
from rekindle.runtime.arguments import optional_seconds
from rekindle.spark.frames import to_arrow

RUNNING, STOPPED, FINISHED, FAILED = "running", "stopped", "finished", "failed"


@dataclass(frozen=True, slots=True)
class Applied:
    """What became of a batch; the epoch is None of one that was there already."""

    epoch: int | None
    rows: int
    rejected: int = 0
    late: int = 0


@dataclass(frozen=True, slots=True)
class StreamProgress:
    """What a stream has done since it was started here."""

    batches: int = 0
    rows: int = 0
    repeated: int = 0
    """Batches that were there already, from before a crash."""
    rejected: int = 0
    late: int = 0
    """Rows that were older, by their sequence, than the one that is there."""
    batch: int | None = None
    epoch: int | None = None
    """The last batch that is there, and the epoch that it became."""
    rows_per_second: float | None = None
    lag: dict[str, str] = field(default_factory=dict)
    """How far the sources are ahead, in their own words, where they say so."""

    def plus(self, batch: int, applied: Applied) -> StreamProgress:
        """The progress after one more batch."""
        if applied.epoch is None:
            return replace(self, repeated=self.repeated + 1, batch=batch)
        return replace(
            self,
            batches=self.batches + 1,
            rows=self.rows + applied.rows,
            rejected=self.rejected + applied.rejected,
            late=self.late + applied.late,
            batch=batch,
            epoch=applied.epoch,
        )


class _StoppingError(Exception):
    """The stream is being stopped, and the batch will come again."""


class Stream:
    """A stream into a table; made by `db.stream` and `CREATE STREAM`."""

    def __init__(
        self, name: str, table: str, apply: Callable[[pa.Table, int, str], Applied]
    ) -> None:
        self.name = name
        self.table = table
        self._apply = apply
        self._turn = threading.Lock()
        self._started = threading.Event()
        self._query: StreamingQuery | None = None
        self._stopping = False
        self._error: RekindleError | None = None
        self._progress = StreamProgress()
        self._worker = ThreadPoolExecutor(1, f"rekindle-stream-{name}")

    def started(self, query: StreamingQuery) -> None:
        """Let the batches of a query come."""
        self._query = query
        self._started.set()

    def given_up(self) -> None:
        """The query could not be started."""
        self._stopping = True
        self._started.set()
        self._worker.shutdown(wait=False)

    # ---- batches -----------------------------------------------------------------------------

    def take(self, frame: DataFrame, batch: int) -> None:
        """Apply a batch; whatever it raises ends the query."""
        self._started.wait()
        with self._turn:
            if self._stopping or self._query is None:
                raise _StoppingError
            try:
                rows = to_arrow(frame)
                applied = self._worker.submit(
                    self._apply, rows, batch, str(self._query.id)
                ).result()
            except StreamError as error:
                self._error = error
                raise
            except Exception as error:
                self._error = _of_batch(self.name, self.table, batch, error)
                raise self._error from error
            self._progress = self._progress.plus(batch, applied)

    # ---- what users call ---------------------------------------------------------------------

    @property
    def status(self) -> str:
        """`running`, `stopped`, `finished` (it was to take what is available) or `failed`."""
        if self._query is not None and self._query.isActive:
            return RUNNING
        if self._stopping:
            return STOPPED
        return FINISHED if self.exception is None else FAILED

    @property
    def progress(self) -> StreamProgress:
        """What the stream has done since it was started here."""
        last: Any = None if self._query is None else self._query.lastProgress
        if last is None:
            return self._progress
        lag: dict[str, str] = {}
        for number, source in enumerate(last["sources"]):
            lag |= {f"{number}.{name}": value for name, value in _lag(source).items()}
        speed = last["processedRowsPerSecond"]
        return replace(self._progress, rows_per_second=speed, lag=lag)

    @property
    def exception(self) -> RekindleError | None:
        """Why the stream failed; None while it goes on, and if it was stopped."""
        if self._stopping or self._query is None:
            return None
        if self._error is not None or self._query.isActive:
            return None if self._query.isActive else self._error
        error = self._query.exception()
        return None if error is None else _of_query(self.name, error)

    def process_all_available(self) -> None:
        """Wait until everything that the source has now is applied; raises if the stream fails."""
        query = self._running()
        try:
            query.processAllAvailable()
        except PySparkException as error:
            raise self._failure(error) from error
        self._raise()

    def await_termination(self, timeout: float | None = None) -> bool:
        """Wait for the end, or so many seconds; has it ended? Raises if the stream failed."""
        query = self._running()
        timeout = optional_seconds("a timeout", timeout)
        if timeout is not None:
            # Spark has milliseconds in a long, and takes no time at all for a mistake.
            timeout = min(max(timeout, 0.001), threading.TIMEOUT_MAX)
        try:
            ended = query.awaitTermination(timeout)  # type: ignore[arg-type]
        except PySparkException as error:
            if not self._stopping:
                raise self._failure(error) from error
            ended = True
        self._raise()
        return True if timeout is None else bool(ended)

    def stop(self) -> None:
        """End the stream after the batch that is being applied; it can be resumed."""
        if self._query is None:
            return
        with self._turn:
            # A stream that failed stays failed.
            if self._query.isActive:
                self._stopping = True
        try:
            self._query.stop()
        except (Py4JJavaError, PySparkException) as error:
            raise spark_error(error) from error
        finally:
            self._worker.shutdown()

    def _running(self) -> StreamingQuery:
        if self._query is None:
            raise StreamError(f"stream '{self.name}' has not been started")
        return self._query

    def _raise(self) -> None:
        error = self.exception
        if error is not None:
            raise error

    def _failure(self, error: PySparkException) -> RekindleError:
        return self._error or _of_query(self.name, error)

    def __repr__(self) -> str:
        return f"<Stream '{self.name}' into '{self.table}', {self.status}>"


def _of_batch(name: str, table: str, batch: int, error: Exception) -> StreamError:
    """The error for a batch that could not be applied, with what was wrong."""
    if not isinstance(error, RekindleError):
        return StreamError(
            f"batch {batch} of stream '{name}' could not be applied to '{table}'",
            detail=f"{type(error).__name__}: {error}",
        )
    said = f"{error.message}; {error.detail}" if error.detail else error.message
    return StreamError(
        f"batch {batch} of stream '{name}' could not be applied to '{table}'",
        detail=said,
        hint=error.hint,
    )


def _of_query(name: str, error: PySparkException) -> StreamError:
    found = spark_error(error)
    return StreamError(
        f"stream '{name}' failed outside its batches",
        detail=f"{found.message}; {found.detail}" if found.detail else found.message,
        hint=found.hint,
    )


def _lag(source: Any) -> dict[str, str]:
    """How far one source is ahead, as Spark tells it."""
    metrics = getattr(source, "metrics", None)
    return {str(name): str(value) for name, value in dict(metrics or {}).items()}
