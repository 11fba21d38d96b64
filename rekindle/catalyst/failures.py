"""What Spark said when it failed: an expression that a row broke, or Spark's own trouble.

Spark gives its errors a condition and, as SQL does, a state whose first two characters are its
class. An expression that fails on a row (overflow, cast, division by zero, a function that raised)
has a condition of a class that speaks of data or of routines, or was raised where Spark interprets
it. A lost file, a full disk or a fault inside Spark has another class, or no condition at all: for
them nobody should go and look at rows, nor for a module that a Python function needs and its worker
does not have.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator

from py4j.java_gateway import is_instance_of
from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import PySparkException

from rekindle import errors
from rekindle.catalyst.jvm import JavaObject
from rekindle.errors import EvaluationError, ExecutionError, RekindleError, StorageError

_OF_ROWS = ("21", "22", "23", "38", "39", "54000", "P0")
"""Cardinality, data, integrity, routines that raised (two classes), arrays that grow too long,
`raise_error`."""

_OURS = re.compile(r"rekindle/(runtime|spark|kernels|traces)/\w+\.py")
_LIBRARIES = ("java.", "scala.", "jdk.")
_CALLED_FROM = re.compile(r'\s*== DataFrame ==\n"[^"\n]*" was called from\n(?P<place>[^\n]*)\n?')
_NOT_IMPORTED = re.compile(
    r"^(?:ModuleNotFoundError|ImportError): [^\n]*\s*(?:SQLSTATE: \w+\s*)?\Z", re.MULTILINE
)
_FAILED = "Spark failed while it worked on a step; nothing was applied"
_RAISED = re.compile(
    r"^rekindle\.errors\.(?P<kind>\w+): (?P<message>[^\n]*)"
    r"(?:\n  detail: (?P<detail>[^\n]*))?(?:\n  hint: (?P<hint>[^\n]*))?",
    re.MULTILINE,
)


def spark_error(error: Py4JJavaError | PySparkException) -> RekindleError:
    """The error of ours that an error of Spark stands for."""
    return (
        _raised_by_us(str(error))
        or _without_a_module(error)
        or _broken_by_a_row(error)
        or _trouble(error)
    )


def _raised_by_us(text: str) -> RekindleError | None:
    """The error of ours that a task raised."""
    found = _RAISED.search(text)
    kind = None if found is None else getattr(errors, found["kind"], None)
    if found is None or not isinstance(kind, type) or not issubclass(kind, RekindleError):
        return None
    return kind(found["message"], detail=found["detail"] or "", hint=found["hint"] or "")


def _without_a_module(error: Py4JJavaError | PySparkException) -> ExecutionError | None:
    """The error for a traceback of Python that ends in an import."""
    said = (_without_stack(str(cause.getMessage())) for cause in _causes(error))
    found = next((text for text in said if _NOT_IMPORTED.search(text)), None)
    if found is None:
        return None
    return ExecutionError(
        _FAILED,
        detail=found,
        hint="install the module where Spark's Python workers run, or send it to them with "
        "spark.addArtifacts(path, pyfile=True)",
    )


def _broken_by_a_row(error: Py4JJavaError | PySparkException) -> EvaluationError | None:
    said = next((str(c.getMessage()) for c in _causes(error) if _is_of_rows(c)), None)
    if said is not None:
        said = _without_our_places(said)
    # A kernel of ours runs in a Python worker too; what it raises looks like a function's error.
    if said is None or _OURS.search(said):
        return None
    return EvaluationError(
        "an expression failed on a changed row; nothing was applied",
        detail=_without_stack(said),
        hint="correct the row, or guard the expression in the view (try_add, try_cast, CASE)",
    )


_HINTS = (
    (
        ("ExecutorLostFailure", "executor lost", "Executor heartbeat timed out", "SIGKILL"),
        "an executor was lost; run the statement again, and if it happens again give executors "
        "more memory (spark.executor.memory, spark.executor.memoryOverhead)",
    ),
    (
        ("Python worker exited unexpectedly", "Python worker failed to connect", "EOFException"),
        "a Python worker was killed, most often for want of memory; run the statement again, and "
        "if it happens again give executors more spark.executor.memoryOverhead",
    ),
    (
        ("OutOfMemoryError",),
        "give the driver or the executors more memory (spark.driver.memory, spark.executor.memory)",
    ),
    (
        ("SparkContext was shut down", "stopped SparkContext", "SparkContext has been shutdown"),
        "Spark has ended: start a session and call rekindle.connect again",
    ),
    (
        ("Cannot run program", "PYTHON_VERSION_MISMATCH"),
        "set spark.pyspark.python to a Python that every executor has, of the driver's version",
    ),
)


def _trouble(error: Py4JJavaError | PySparkException) -> RekindleError:
    causes = list(_causes(error))
    said = _without_stack(str(causes[-1].toString()) if causes else str(error))
    # What a lost task died of is in the middle of a chain, or in its message alone.
    all_said = "\n".join([said, *(str(cause.getMessage()) for cause in causes)])
    if "No space left on device" in all_said:
        full = StorageError(
            "a disk that Spark works on is full; nothing was applied",
            detail=said,
            hint="make room in spark.local.dir, and in the store of the database, of the driver "
            "and of every executor",
        )
        full.errno = errno.ENOSPC
        return full
    hints = (hint for words, hint in _HINTS if any(word in all_said for word in words))
    return ExecutionError(_FAILED, detail=said, hint=next(hints, ""))


def _causes(error: Py4JJavaError | PySparkException) -> Iterator[JavaObject]:
    """The Java exceptions behind an error, from the outermost to the first that happened."""
    cause = (
        error.java_exception
        if isinstance(error, Py4JJavaError)
        else getattr(error, "_origin", None)
    )
    while cause is not None:
        yield cause
        cause = cause.getCause()


def _is_of_rows(cause: JavaObject) -> bool:
    """Does the exception have a condition that speaks of rows?

    Old conditions have no state; those of expressions are unchecked exceptions, those of files and
    jobs are checked ones.
    """
    gateway = SparkContext._gateway
    if not is_instance_of(gateway, cause, "org.apache.spark.SparkThrowable"):
        return _is_of_an_expression(cause)
    condition, state = cause.getCondition(), cause.getSqlState()
    if condition is None:
        return False
    if state is None:
        return bool(is_instance_of(gateway, cause, "java.lang.RuntimeException"))
    return str(state).startswith(_OF_ROWS)


def _is_of_an_expression(cause: JavaObject) -> bool:
    """Was a plain exception raised where Spark interprets an expression?

    Generated code raises the same faults with a condition.
    """
    if not is_instance_of(SparkContext._gateway, cause, "java.lang.RuntimeException"):
        return False
    places = (str(place.getClassName()) for place in cause.getStackTrace())
    place = next((name for name in places if not name.startswith(_LIBRARIES)), "")
    return place.startswith("org.apache.spark.sql.catalyst.expressions.")


def _without_our_places(said: str) -> str:
    """What an exception says, less the places where a policy of ours made its expression."""

    def place(found: re.Match[str]) -> str:
        return "" if _OURS.search(found["place"]) else found[0]

    return _CALLED_FROM.sub(place, said)


def _without_stack(said: str) -> str:
    """What an exception says, less the stacks of Java that some messages carry."""
    return re.split(r"\n\s*(?:at |Driver stacktrace|JVM stacktrace)", said)[0].strip()
