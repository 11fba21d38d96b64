"""The bridge to Catalyst: the few JVM calls that everything else is written in.

py4j stays inside this package and `rekindle.spark`. A Java object is `Any` to the type checker;
functions here say what they return.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from py4j.java_gateway import JavaClass
from pyspark import SparkContext
from pyspark.sql import Column, DataFrame, SparkSession

from rekindle.frontends.spark_sql.encoded import uncollated

JavaObject = Any

_AGGREGATES = "org.apache.spark.sql.catalyst.expressions.aggregate"
_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions"
_PLANS = "org.apache.spark.sql.catalyst.plans.logical"


_EXCLUDED = ("org.apache.spark.sql.execution.planmerging.MergeSubplans",)
"""Rules that are not wanted: subqueries merged into one plan lose what they share with others."""


_AT_ONCE = 10
"""So many elements has the longest list that Java makes of arguments."""


class Catalyst:
    """Catalyst of one Spark session."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.jvm: JavaObject = spark._jvm
        self.session: JavaObject = spark._jsparkSession
        # py4j asks the JVM about every part of a name; each is asked once.
        self._classes: dict[str, JavaObject] = {}
        self._modules: dict[str, JavaObject] = {}
        self._types: dict[str, JavaObject] = {}
        self._filters: dict[str, JavaObject] = {}
        self._none = self.class_("scala.Option").empty()
        self._to_seq = self.class_("org.apache.spark.api.python.PythonUtils").toSeq
        self._list_of = self.class_("java.util.List").of
        self._nothing = self._to_seq(self._list_of())

    def class_(self, name: str) -> JavaObject:
        """The Java class of a full name, for static calls and construction."""
        if name not in self._classes:
            found = self.jvm
            for part in name.split("."):
                found = getattr(found, part)
            self._classes[name] = found
        return self._classes[name]

    def module(self, name: str) -> JavaObject:
        """The Scala object of a full name."""
        if name not in self._modules:
            self._modules[name] = getattr(self.class_(name + "$"), "MODULE$")
        return self._modules[name]

    def expression(self, name: str) -> JavaObject:
        return self.class_(f"{_EXPRESSIONS}.{name}")

    def plan(self, name: str) -> JavaObject:
        return self.class_(f"{_PLANS}.{name}")

    def seq(self, items: Iterable[JavaObject]) -> JavaObject:
        """A Scala sequence; py4j's own conversion would hand over one element at a time."""
        listed = list(items)
        whole = self._nothing
        for start in range(0, len(listed), _AT_ONCE):
            part = self._to_seq(self._list_of(*listed[start : start + _AT_ONCE]))
            whole = part if start == 0 else whole.appendedAll(part)
        return whole

    def none(self) -> JavaObject:
        return self._none

    def some(self, value: JavaObject) -> JavaObject:
        return self.jvm.scala.Option.apply(value)

    def dataframe(self, plan: JavaObject) -> DataFrame:
        """The DataFrame of a logical plan, analysed now."""
        dataset = self.module("org.apache.spark.sql.classic.Dataset").ofRows(self.session, plan)
        return DataFrame(dataset, self.spark)

    def analysed(
        self, columns: Sequence[Column], attributes: Sequence[JavaObject]
    ) -> list[JavaObject]:
        """Columns as analysed expressions over the given attributes."""
        if not columns:
            return []
        frame = self.of_attributes(attributes).select(*(c.alias("made") for c in columns))
        project = frame._jdf.queryExecution().analyzed()
        return [named.child() for named in items(project.projectList())]

    def of_attributes(self, attributes: Sequence[JavaObject]) -> DataFrame:
        """A frame of no rows whose columns are the attributes."""
        local = self.plan("LocalRelation")
        return self.dataframe(local(self.seq(attributes), self.seq(()), False, self.none()))

    def optimised(self, analysed: JavaObject) -> JavaObject:
        """Catalyst's optimised plan, without the rules whose results are worse to maintain.

        They are switched off in a copy of the session, made for each plan: it sees the settings
        that the user's session has now.
        """
        name = "spark.sql.optimizer.excludedRules"
        rules = ",".join(filter(None, [self.session.conf().get(name, ""), *_EXCLUDED]))
        return self._in_copy(analysed, {name: rules}).queryExecution().optimizedPlan()

    def with_settings(self, frame: DataFrame, settings: Mapping[str, str]) -> DataFrame:
        """The same query in a copy of the session that has some other settings."""
        analysed = frame._jdf.queryExecution().analyzed()
        return DataFrame(self._in_copy(analysed, settings), self.spark)

    def _in_copy(self, analysed: JavaObject, settings: Mapping[str, str]) -> JavaObject:
        session = self.session.cloneSession()
        for name, value in settings.items():
            session.conf().set(name, value)
        return self.module("org.apache.spark.sql.classic.Dataset").ofRows(session, analysed)

    def data_type(self, ddl: str) -> JavaObject:
        """The Catalyst type that a type text names."""
        if ddl not in self._types:
            self._types[ddl] = self.class_("org.apache.spark.sql.types.DataType").fromDDL(ddl)
        return self._types[ddl]

    def literal(self, text: str) -> JavaObject:
        """The constant that SQL writes so, such as `0L` (py4j cannot pass a Java long)."""
        return self.session.sessionState().sqlParser().parseExpression(text)

    def cast(self, child: JavaObject, target: JavaObject) -> JavaObject:
        """The child in another type, with an error where it does not fit."""
        ansi = self.module(f"{_EXPRESSIONS}.EvalMode").ANSI()
        return self.expression("Cast")(child, target, self.none(), ansi)

    def null(self, data_type: JavaObject) -> JavaObject:
        return self.expression("Literal")(None, data_type)

    def alias(self, child: JavaObject, name: str, identifier: JavaObject) -> JavaObject:
        """`child AS name`, known by the given expression id."""
        empty = self.seq(())
        return self.expression("Alias")(child, name, identifier, empty, self.none(), empty)

    def named(self, child: JavaObject, name: str) -> JavaObject:
        """`child AS name`, known by a fresh expression id."""
        return self.alias(child, name, self.identifier())

    def attribute(self, name: str, ddl: str) -> JavaObject:
        """A fresh attribute."""
        metadata = self.module("org.apache.spark.sql.types.Metadata").empty()
        return self.expression("AttributeReference")(
            name, self.data_type(ddl), True, metadata, self.identifier(), self.seq(())
        )

    def identifier(self) -> JavaObject:
        """An expression id that nothing else has."""
        return self.module(f"{_EXPRESSIONS}.NamedExpression").newExprId()

    def call(self, function: JavaObject, of: JavaObject | None = None) -> JavaObject:
        """An aggregate function called, with a result of its own, in the way of another call."""
        distinct, filter_ = (False, self.none()) if of is None else (of.isDistinct(), of.filter())
        return self.class_(f"{_AGGREGATES}.AggregateExpression")(
            function, self.module(f"{_AGGREGATES}.Complete"), distinct, filter_, self.identifier()
        )

    def bind(self, expression: JavaObject, inputs: Sequence[JavaObject]) -> JavaObject:
        """The expression with each attribute replaced by its position among `inputs`."""
        attributes = self.expression("package$AttributeSeq")(self.seq(inputs))
        return self.module(f"{_EXPRESSIONS}.BindReferences").bindReference(
            expression, attributes, False
        )

    def normalised(self, expression: JavaObject) -> JavaObject:
        """The expression with -0.0 as 0.0 and one NaN, and texts that a collation does not tell
        apart as one key, also inside nested values.

        Spark does this to the keys of joins and groups when it plans them.
        """
        return self.collation_key(self.with_one_zero(expression))

    def with_one_zero(self, expression: JavaObject) -> JavaObject:
        """The expression with -0.0 as 0.0 and one NaN, also inside nested values."""
        rule = "org.apache.spark.sql.catalyst.optimizer.NormalizeFloatingNumbers"
        return self.module(rule).normalize(expression)

    def collation_key(self, expression: JavaObject) -> JavaObject:
        """Binaries in place of strings with a collation, equal and ordered as those are."""
        if not is_collated(expression.dataType()):
            return expression
        keys = self.module(f"{_EXPRESSIONS}.CollationKey")
        return keys.injectCollationKey(expression)

    def without_collation(self, expression: JavaObject) -> JavaObject:
        """The same values as strings that are compared by their bytes, also inside nested ones."""
        bare = uncollated(str(expression.dataType().sql()))
        return self.cast(expression, self.data_type(bare))

    def transform(
        self, tree: JavaObject, change: Callable[[JavaObject], JavaObject | None]
    ) -> JavaObject:
        """The tree with every topmost node for which `change` gives a result replaced by it."""
        replaced = change(tree)
        if replaced is not None:
            return replaced
        children = items(tree.children())
        if not children:
            return tree
        return tree.withNewChildren(self.seq(self.transform(child, change) for child in children))

    def rebased(self, expression: JavaObject, moved: Mapping[int, JavaObject]) -> JavaObject:
        """The expression over other attributes, which `moved` gives by expression id."""

        def change(node: JavaObject) -> JavaObject | None:
            if simple_name(node) == "AttributeReference":
                return moved.get(id_of(node), node)
            return None

        return self.transform(expression, change)

    def conjunction(self, conditions: Iterable[JavaObject]) -> JavaObject | None:
        """All of the conditions as one; None when there is nothing to check."""
        whole = None
        for condition in conditions:
            whole = condition if whole is None else self.expression("And")(whole, condition)
        return whole

    def serialise(self, objects: Sequence[JavaObject]) -> bytes:
        """Java serialisation of several objects as one unit, so that they share what they share."""
        return bytes(self._serialisation.serialize(self.seq(objects)))

    def filter(self, pattern: str) -> JavaObject:
        """What a stream of objects asks whether a class may be read."""
        if pattern not in self._filters:
            made = self.class_("java.io.ObjectInputFilter$Config").createFilter(pattern)
            self._filters[pattern] = made
        return self._filters[pattern]

    def deserialise(self, data: bytes) -> list[JavaObject]:
        """The objects that bytes stand for, whatever they do while they are read.

        For bytes of this process, and for those of who is trusted; `stored_objects` reads others.
        """
        return items(self._serialisation.deserialize(bytearray(data)))

    @property
    def _serialisation(self) -> JavaObject:
        return self.class_("org.apache.commons.lang3.SerializationUtils")


def items(sequence: JavaObject) -> list[JavaObject]:
    """The elements of a Scala sequence, in as few round trips as there are."""
    return [sequence.apply(i) for i in range(sequence.length())]


def id_of(named: JavaObject) -> int:
    """The number by which Catalyst knows a column or a named expression."""
    return int(_asked(named, "id", lambda: named.exprId().id()))


def type_of(expression: JavaObject) -> str:
    """The text of an expression's type."""
    return str(_asked(expression, "type", lambda: type_text(expression.dataType())))


def _asked(handle: JavaObject, what: str, ask: Callable[[], Any]) -> Any:
    """A fact about a Java object that never changes: it is asked once of a handle."""
    known = handle.__dict__.setdefault("_rekindle", {})
    if what not in known:
        known[what] = ask()
    return known[what]


def ids_read(expression: JavaObject) -> set[int]:
    """The numbers of the columns that an expression reads."""
    return {id_of(attribute) for attribute in items(expression.references().toSeq())}


def without_alias(expression: JavaObject) -> JavaObject:
    """What a name stands for."""
    return expression.child() if simple_name(expression) == "Alias" else expression


def simple_name(node: JavaObject) -> str:
    """The class name of a plan or expression, without its package."""
    return full_name(node).rsplit(".", 1)[-1].rstrip("$")


def full_name(node: JavaObject) -> str:
    """The class name of a Java object, without fetching its class."""
    return str(_asked(node, "class", lambda: _class_names(node._gateway_client)(node)))


@cache
def _class_names(gateway: Any) -> JavaObject:
    return JavaClass("org.apache.commons.lang3.ClassUtils", gateway).getName


def option(value: JavaObject) -> JavaObject | None:
    """The content of a Scala Option, or None."""
    return value.get() if value.isDefined() else None


def type_text(data_type: JavaObject) -> str:
    """A text that parses back to the type: Spark's short form, or its SQL form when nested."""
    short = str(data_type.catalogString())
    return str(data_type.sql()) if short.startswith(("array<", "map<", "struct<")) else short


def is_collated(data_type: JavaObject) -> bool:
    """Does a type have a string in it that is not compared by its bytes?"""
    return "collate" in str(data_type.catalogString()).lower()


def variant_parts(column: Column) -> tuple[Column, Column]:
    """The two binaries that a variant is made of."""
    context = SparkContext._active_spark_context
    assert context is not None, "a column has a session"
    jvm: JavaObject = context._jvm
    utils = jvm.org.apache.spark.sql.classic.ExpressionUtils
    parts = variant_bytes(jvm, utils.expression(column._jc))
    return Column(utils.column(parts[0])), Column(utils.column(parts[1]))


def variant_bytes(jvm: JavaObject, variant: JavaObject) -> tuple[JavaObject, JavaObject]:
    """The same for expressions."""
    invoke = jvm.org.apache.spark.sql.catalyst.expressions.objects.Invoke
    binary = jvm.org.apache.spark.sql.types.DataType.fromDDL("binary")
    none = jvm.org.apache.spark.api.python.PythonUtils.toSeq([])
    value, metadata = (
        invoke(variant, method, binary, none, none, True, True, True)
        for method in ("getValue", "getMetadata")
    )
    return value, metadata


def fingerprint(bound: JavaObject) -> str:
    """Equal for expressions that are equal up to the numbering of their inner variables.

    The JSON form leaves out some constant sets and the SQL form leaves out some types, so both
    are hashed.
    """
    renumbered: dict[Any, int] = {}

    def normalise(node: Any) -> Any:
        if isinstance(node, dict):
            if "jvmId" in node and "id" in node:
                return renumbered.setdefault(node["id"], len(renumbered))
            return {k: normalise(v) for k, v in node.items() if k not in ("qualifier", "origin")}
        if isinstance(node, list):
            return [normalise(child) for child in node]
        return node

    tree = json.dumps(normalise(json.loads(bound.toJSON())), sort_keys=True)
    return hashlib.sha256(f"{tree}\n{bound.sql()}".encode()).hexdigest()[:20]


def position(*nodes: JavaObject) -> str:
    """'line 2, column 7' of the first node that remembers where it stood in the SQL text."""
    for node in nodes:
        origin = node.origin()
        line, column = option(origin.line()), option(origin.startPosition())
        if line is not None:
            return f"line {line}, column {0 if column is None else int(column) + 1}"
    return ""
