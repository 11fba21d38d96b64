"""Executors that are not the driver: can they do what a step will ask of them?

In a cluster a task runs on another machine, with a Python, packages and a file system of its own.
One that lacks the package, has another version, or sees something else under the path of the store
fails late, or worse: it reads and writes files that the driver never sees. So before a session of a
cluster works on a store, one small job asks every executor. The driver writes a file and each task
reads it; each task writes one and the driver reads them.

The question is sent by value: an executor without this package can say so. It is asked again when
executors have come that were not asked. A local session has no executors but the driver.
"""

from __future__ import annotations

import enum
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from rekindle.catalyst.failures import spark_error
from rekindle.errors import ExecutionError, StorageError
from rekindle.traces.store import Store

PREFIX = "data/probe/e0000000000-"
"""As files of a step that never ended are called: should the driver die, they are collected."""


class Access(enum.Enum):
    """What a connection means to do with the store."""

    READ = "read"
    WRITE = "write"


VERSION = str(import_module("rekindle").__version__)
"""By its name: the package's own module names all that is in it, also what imports this one."""
_SECONDS = 0.1
"""For how long a task keeps its place, so that the next one goes to another executor."""
_ASKED: dict[tuple[str, str, Access], frozenset[str]] = {}
"""The executors that were found fit, by application and store."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What one task found where it ran."""

    host: str
    python: str
    version: str | None
    """Of this package; None where it cannot be imported, for the reason in `trouble`."""
    read: str | None = None
    """What was read where the driver had written."""
    wrote: str | None = None
    trouble: str = ""


def is_local(spark: SparkSession) -> bool:
    """Do tasks run in the driver's machine, with its files and packages?"""
    master = str(spark.sparkContext.master)
    return master == "local" or master.startswith("local[")


def check_executors(spark: SparkSession, store: Store, access: Access) -> None:
    """Raise unless every executor has this package and sees the files of the store.

    A connection that only reads leaves nothing in the store: it asks for the package alone, and
    for a file that is there.
    """
    if is_local(spark):
        return
    key = (str(spark.sparkContext.applicationId), store.uri, access)
    here = _executors(spark)
    if key in _ASKED and here <= _ASKED[key]:
        return
    judge(ask(spark, store, access), store)
    _ASKED[key] = here


def ask(spark: SparkSession, store: Store, access: Access) -> list[Answer]:
    """The answers of tasks that are spread over the executors."""
    token = secrets.token_hex(8) if access is Access.WRITE else None
    wanted = _any_file(store) if token is None else f"{PREFIX}{token}"
    context = spark.sparkContext
    count = 2 * max(context.defaultParallelism, len(_executors(spark)))
    question = _question(store.uri, wanted, token)
    try:
        if token is not None:
            store.write_bytes(wanted, token.encode())
        found = context.parallelize(range(count), count).mapPartitionsWithIndex(question).collect()
        return [_confirmed(Answer(**each), store, token) for each in found]
    except (Py4JJavaError, PySparkException) as error:
        raise spark_error(error) from error
    finally:
        if token is not None:
            probes = store.list(PREFIX.rpartition("/")[0])
            store.delete(path for path in probes if token in path)


def judge(answers: Sequence[Answer], store: Store) -> None:
    """Raise for the first thing that is wrong with any executor; it names host and place."""
    for answer in answers:
        if answer.version is None:
            raise ExecutionError(
                f"the executor on {answer.host} cannot import rekindle",
                detail=f"{answer.trouble}; its Python is {answer.python}",
                hint=f"install rekindle=={VERSION} with pyarrow where Spark's Python "
                "workers run, or set spark.pyspark.python to a Python that has it",
            )
        if answer.version != VERSION:
            raise ExecutionError(
                f"the executor on {answer.host} has another version of rekindle",
                detail=f"{answer.version} there, {VERSION} in the driver; its Python "
                f"is {answer.python}",
                hint="install the same version everywhere",
            )
    for answer in answers:
        if answer.read is None:
            raise _out_of_sight(store, answer, "cannot read what the driver wrote")
        if answer.wrote is None:
            raise _out_of_sight(store, answer, "cannot write what the driver can read")


def _out_of_sight(store: Store, answer: Answer, what: str) -> StorageError:
    return StorageError(
        f"the executor on {answer.host} {what} in '{store.uri}'; nothing was applied",
        detail=answer.trouble or "the path is another place there",
        hint="a cluster needs a store that all its machines share, under the same path: a mounted "
        "network file system, or a URI such as s3://bucket/warehouse",
    )


def _confirmed(answer: Answer, store: Store, token: str | None) -> Answer:
    """The answer, without a written file that the driver does not find."""
    if token is None or answer.wrote is None:
        return answer
    try:
        if store.read_bytes(answer.wrote) == token.encode():
            return answer
        trouble = "the driver finds other bytes in it"
    except FileNotFoundError:
        trouble = "the driver does not find it"
    return replace(answer, wrote=None, trouble=trouble)


def _any_file(store: Store) -> str:
    found = store.list("log")
    return found[-1] if found else ""


def _executors(spark: SparkSession) -> frozenset[str]:
    """Where tasks may run now; the driver, which Spark counts too, is always among them."""
    infos = spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()
    return frozenset(f"{info.host()}:{info.port()}" for info in infos)


def _question(
    uri: str, wanted: str, token: str | None
) -> Callable[[int, Iterable[int]], Iterator[dict[str, Any]]]:
    """What a task does. It is pickled by value, as it is no module's own, and imports all it needs.

    A token says that the file holds it, and that one is to be written too.
    """
    seconds, prefix = _SECONDS, PREFIX

    def question(number: int, _: Iterable[int]) -> Iterator[dict[str, Any]]:
        import socket
        import sys
        import time
        from importlib import import_module

        time.sleep(seconds)
        answer: dict[str, Any] = {
            "host": socket.gethostname(),
            "python": sys.executable,
            "version": None,
        }
        try:
            import_module("pyarrow")
            from rekindle.traces.store import Store

            answer["version"] = import_module("rekindle").__version__
        except Exception as error:
            answer["trouble"] = f"{type(error).__name__}: {error}"
            yield answer
            return
        try:
            store = Store(uri)
            said = store.read_bytes(wanted) if wanted else b""
            if token is None:
                answer["read"] = answer["wrote"] = "not asked"
            elif said == token.encode():
                answer["read"] = wanted
                store.write_bytes(f"{prefix}{token}-{number}", token.encode())
                answer["wrote"] = f"{prefix}{token}-{number}"
        except Exception as error:
            answer["trouble"] = f"{type(error).__name__}: {error}"
        yield answer

    return question
