"""Objects of Java from a database that is trusted; its Python functions are those of this session.

Spark keeps with a function what it had from the session that made it: the interpreter that the
workers ran, a path which another machine or a newer environment does not have, and an accumulator,
which comes back without what it needs to be written once more. Both are made this session's, so
that a function may be stored and read any number of times.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rekindle.catalyst.jvm import Catalyst, JavaObject, children_of, full_name, items, simple_name

_WRITTEN = b"org.apache.spark.api.python.SimplePythonFunction"
"""What stands in the bytes of every function."""


def read_trusted(catalyst: Catalyst, data: bytes) -> list[JavaObject]:
    """The plans or expressions that bytes stand for, whatever code is in them."""
    trees = catalyst.deserialise(data)
    if _WRITTEN in data:
        context = catalyst.spark.sparkContext
        ours = {"pythonExec": context.pythonExec, "accumulator": context._javaAccumulator}
        for function in _functions(trees):
            for name, value in ours.items():
                field = function.getClass().getDeclaredField(name)
                field.setAccessible(True)
                field.set(function, value)
    return trees


def _functions(trees: Iterable[JavaObject]) -> Iterator[JavaObject]:
    waiting = list(trees)
    while waiting:
        tree = waiting.pop()
        waiting += children_of(tree)
        if ".plans.logical." in full_name(tree):
            waiting += items(tree.expressions())
        elif simple_name(tree).startswith("Python"):
            yield tree.func()
