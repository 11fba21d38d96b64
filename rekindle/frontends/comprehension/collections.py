"""The tables and views that a comprehension ranges over, as types of the nested calculus.

Arrays and maps of Spark are bags: of elements, and of records of a key and a value.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import types as T

from rekindle.catalyst.jvm import analysed_plan, children_of, simple_name
from rekindle.errors import StatementError, unknown_name
from rekindle.frontends.catalog import Catalog
from rekindle.names import quoted
from rekindle.nested.types import Bag, Boxed, KeyType, Mapping, Record, Scalar

_OF_MANY_ROWS = {
    "Aggregate": "an aggregate of rows",
    "Window": "a window function",
    "Generate": "a function that gives rows",
}
"""What is made of an expression that is not computed for each row."""


def key_type(type_: T.DataType) -> KeyType:
    """The type of values of a Spark type, as rows or parts of rows.

    >>> element = T.StructType([T.StructField("c", T.StringType())])
    >>> fields = [T.StructField("a", T.IntegerType()), T.StructField("b", T.ArrayType(element))]
    >>> str(key_type(T.StructType(fields)))
    '⟨a: int, b: [Bag(⟨c: string⟩)]⟩'
    """
    match type_:
        case T.ArrayType():
            return Boxed(Bag(key_type(type_.elementType)))
        case T.MapType():
            entry = Record((("key", key_type(type_.keyType)), ("value", key_type(type_.valueType))))
            return Boxed(Bag(entry))
        case T.StructType() if type_.fields:
            return Record(tuple((f.name, key_type(f.dataType)) for f in type_.fields))
    return Scalar(type_.simpleString())


def spark_type(type_: KeyType) -> str:
    """The text of the Spark type of a value, collections as arrays.

    >>> spark_type(Record((("a", Scalar("int")), ("b", Boxed(Bag(Scalar("string")))))))
    'STRUCT<`a`: int, `b`: ARRAY<string>>'
    """
    match type_:
        case Scalar(name):
            return name
        case Record(fields):
            inner = ", ".join(f"{quoted(name)}: {spark_type(field)}" for name, field in fields)
            return f"STRUCT<{inner}>"
        case Boxed(Mapping(key, _)):
            return f"ARRAY<{spark_type(key)}>"
    raise AssertionError(f"{type_} has no type of Spark")


class Collections:
    """What a database holds, for one comprehension."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._names = {name.lower(): name for name in catalog.columns}

    def knows(self, name: str) -> bool:
        return name.lower() in self._names

    def name(self, written: str) -> str:
        """The name of a table or view as it was given; raises if there is none."""
        found = self._names.get(written.lower())
        if found is None:
            raise unknown_name("table or view", written, self._catalog.shown)
        return found

    def type(self, name: str) -> Mapping:
        """The bag that a table or view is."""
        return Bag(key_type(self._catalog.leaves.schema(name)))

    def is_aggregate(self, name: str) -> bool:
        """Does a function of Spark give one value for many?"""
        return self._catalog.is_aggregate(name)

    def measured_type(self, name: str, element: KeyType) -> KeyType:
        """The type that an aggregate of Spark gives for elements of a type."""
        element_ = f"CAST(NULL AS {spark_type(element)})"
        schema = self._catalog.schema_of(f"SELECT {name}({element_}) AS e", {})
        return key_type(schema.fields[0].dataType)

    def scalar_type(self, text: str, arguments: Sequence[KeyType]) -> KeyType:
        """The type that Spark gives an expression over {0}, {1}, .. of some types."""
        names = [f"a{i}" for i in range(len(arguments))]
        columns = [
            f"CAST(NULL AS {spark_type(type_)}) AS {name}"
            for name, type_ in zip(names, arguments, strict=True)
        ]
        given = f" FROM (SELECT {', '.join(columns)})" if columns else ""
        # In brackets, since what has no end would go on with the words after it.
        frame = self._catalog.resolve(f"SELECT ({text.format(*names)}) AS e{given}")
        waiting = [analysed_plan(frame)]
        while waiting:
            plan = waiting.pop()
            what = _OF_MANY_ROWS.get(simple_name(plan))
            if what is not None:
                raise StatementError(
                    f"{what} cannot stand here",
                    detail="an expression is computed for one row",
                    hint="an aggregate takes a collection: sum(for x in ... yield x.price)",
                )
            waiting += children_of(plan)
        return key_type(frame.schema.fields[0].dataType)
