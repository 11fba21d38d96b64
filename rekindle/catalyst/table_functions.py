"""Python table functions: what they may be asked, of single rows and of partitions.

Of a row, a function may say what it says of that row alone. Of a partition it may say anything, and
after the last row too. A function of Arrow batches is one of partitions only: Spark cuts the rows
of a task into batches where its settings say, and a partition where a batch ends. Here it is given
every partition in one batch (`whole`), so that what it gave before a change comes out again
whichever other partitions the change touches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.cloudpickle import dumps
from pyspark.sql.udtf import SkipRestOfInputTableException
from pyspark.util import PythonEvalType

from rekindle.catalyst.evaluations import functions_of, unpickled
from rekindle.catalyst.jvm import Catalyst, JavaObject, items, position, simple_name
from rekindle.catalyst.refusals import unsupported
from rekindle.errors import UndeterminedError


@dataclass(frozen=True, slots=True)
class Partitions:
    """A table that a table function reads partition by partition.

    `columns` are what it sees of a row, the `keys` of a partition and the `order` in it are of the
    plan `rows`.
    """

    rows: JavaObject
    keys: list[JavaObject]
    order: list[JavaObject]
    columns: list[JavaObject]


def partitions(plan: JavaObject) -> Partitions | None:
    """The partitions of a table function's argument, by PARTITION BY or WITH SINGLE PARTITION."""
    project = plan.child()
    if simple_name(project) != "Project" or items(plan.requiredChildOutput()):
        return None
    below, order = project.child(), []
    if simple_name(below) == "Sort" and not getattr(below, "global")():
        below, order = below.child(), items(below.order())
    match simple_name(below):
        case "RepartitionByExpression":
            keys = items(below.partitionExpressions())
        case "Repartition" if int(below.numPartitions()) == 1:
            keys = []
        case _:
            return None
    return Partitions(below.child(), keys, order, items(project.projectList()))


def over_partitions(
    catalyst: Catalyst,
    function: JavaObject,
    results: Sequence[JavaObject],
    columns: Sequence[JavaObject],
    rows: JavaObject,
) -> JavaObject:
    """The plan of a table function over columns of rows, in which it finds its partitions."""
    return catalyst.plan("Generate")(
        whole(catalyst, function),
        catalyst.seq(()),
        False,
        catalyst.none(),
        catalyst.seq(results),
        catalyst.plan("Project")(catalyst.seq(columns), rows),
    )


def refuse_state(plan: JavaObject) -> None:
    """Raise unless a table function gives its rows for each row by itself.

    Rows after the last one are not functions of a row.
    """
    (function,) = functions_of(plan)
    if function.pythonUDTFPartitionColumnIndexes().isDefined():
        raise unsupported(f"this form of PARTITION BY in {function.name()}()", plan)
    if _is_arrow(function):
        raise UndeterminedError(
            f"what the Arrow table function {function.name()} is given of the rows is up to Spark",
            detail=position(plan, function),
            hint="PARTITION BY after TABLE(...) says which rows it is given together",
        )
    if hasattr(unpickled(function), "terminate"):
        raise unsupported(f"the method terminate of the table function {function.name()}", plan)


def refuse_rows_of_nothing(plan: JavaObject) -> None:
    """Raise if a table function says something of no rows.

    Spark asks it for that wherever one of its tasks happens to have none.
    """
    (function,) = functions_of(plan)
    handler = unpickled(function)
    if hasattr(handler, "analyze") or not hasattr(handler, "terminate"):
        return
    try:
        said = f"it gave {next(_rows(handler().terminate() or ()))}"
    except StopIteration:
        return
    except Exception as error:
        said = f"it raised {type(error).__name__}: {error}"
    raise UndeterminedError(
        f"the method terminate of the table function {function.name()} does not expect no rows",
        detail=f"{said}, and Spark calls it in every task that has no rows",
        hint="let it give nothing where eval was not called",
    )


def whole(catalyst: Catalyst, function: JavaObject) -> JavaObject:
    """The table function, given each partition in one batch if it takes batches."""
    if not _is_arrow(function):
        return function
    given = function.func()
    command = dumps(_gathering(unpickled(function)))  # type: ignore[no-untyped-call]
    code = catalyst.class_("org.apache.spark.api.python.SimplePythonFunction")(
        bytearray(command),
        given.envVars(),
        given.pythonIncludes(),
        given.pythonExec(),
        given.pythonVer(),
        given.broadcastVars(),
        given.accumulator(),
    )
    return catalyst.expression("PythonUDTF")(
        function.name(),
        code,
        function.elementSchema(),
        function.pickledAnalyzeResult(),
        function.children(),
        function.evalType(),
        function.udfDeterministic(),
        function.resultId(),
        function.pythonUDTFPartitionColumnIndexes(),
        function.tableArguments(),
    )


def _is_arrow(function: JavaObject) -> bool:
    """Does a table function take and give Arrow batches?"""
    return int(function.evalType()) == PythonEvalType.SQL_ARROW_UDTF


def _rows(given: Iterable[Any]) -> Iterator[Any]:
    """The rows of what a table function gives: themselves, or batches of them."""
    for each in given:
        yield from each.to_pylist() if isinstance(each, pa.RecordBatch | pa.Table) else (each,)


def _gathering(handler: Any) -> type[Any]:
    """The class of a table function that is given the batches of a partition as one.

    It is defined in here so that it is pickled with its code: workers need not import this module.
    """

    class Gathering:
        def __init__(self) -> None:
            self.function = handler()
            self.calls: list[tuple[list[Any], dict[str, Any]]] = []

        def eval(self, *arguments: Any, **named: Any) -> None:
            values = [*arguments, *named.values()]
            rows = next(len(value) for value in values if isinstance(value, pa.RecordBatch))
            # Spark cuts the table by partitions, and leaves the other arguments as long as it was.
            cut = {name: value[:rows] for name, value in named.items()}
            self.calls.append(([value[:rows] for value in arguments], cut))

        def terminate(self) -> Iterator[Any]:
            if self.calls:
                places = zip(*(arguments for arguments, _ in self.calls), strict=True)
                arguments = [self.joined(values) for values in places]
                names = self.calls[0][1]
                named = {name: self.joined([cut[name] for _, cut in self.calls]) for name in names}
                with suppress(SkipRestOfInputTableException):
                    yield from self.function.eval(*arguments, **named) or ()
            if hasattr(self.function, "terminate"):
                yield from self.function.terminate() or ()

        @staticmethod
        def joined(values: Sequence[Any]) -> Any:
            is_table = isinstance(values[0], pa.RecordBatch)
            return pa.concat_batches(values) if is_table else pa.concat_arrays(values)

        def cleanup(self) -> None:
            if hasattr(self.function, "cleanup"):
                self.function.cleanup()

    return Gathering
