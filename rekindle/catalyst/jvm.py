"""The bridge to Catalyst: the few JVM calls that everything else is written in.

py4j stays inside this package and `rekindle.spark`. A Java object is `Any` to the type checker;
functions here say what they return.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

from py4j.java_gateway import JavaClass
from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession

from rekindle.calculus.walks import fold
from rekindle.catalyst.encoded import uncollated
from rekindle.catalyst.settings import SessionSettings, Settings
from rekindle.errors import DefinitionError

JavaObject = Any

_AGGREGATES = "org.apache.spark.sql.catalyst.expressions.aggregate"
_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions"
_PLANS = "org.apache.spark.sql.catalyst.plans.logical"


_EXCLUDED = (
    # Subqueries merged into one plan lose what they share with others.
    "org.apache.spark.sql.execution.planmerging.MergeSubplans",
    # The size of a bag is kept for its sake, and rows of an empty bag come to nothing anyway.
    "org.apache.spark.sql.catalyst.optimizer.InferFiltersFromGenerate",
)
"""Rules that are not wanted."""


_AT_ONCE = 10
"""So many elements has the longest list that Java makes of arguments."""


_NAMES: WeakKeyDictionary[JavaObject, tuple[dict[str, JavaObject], dict[str, JavaObject]]] = (
    WeakKeyDictionary()
)
"""The classes and the Scala objects of each JVM: it goes through all its archives for a name, so
each is asked for once in a process."""


class Catalyst:
    """Catalyst of one Spark session."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.jvm: JavaObject = spark._jvm
        self._own: JavaObject = spark._jsparkSession
        self._settings = SessionSettings(self._own)
        self._here = threading.local()
        self._classes, self._modules = _NAMES.setdefault(self.jvm, ({}, {}))
        self._types: dict[str, JavaObject] = {}
        self._zones: dict[str, str] = {}
        self._texts: dict[str, str] = {}
        self._structs: dict[tuple[tuple[str, str], ...], JavaObject] = {}
        self._literals: dict[str, JavaObject] = {}
        self._filters: dict[str, JavaObject] = {}
        self._none = self.class_("scala.Option").empty()
        self._to_seq = self.class_("org.apache.spark.api.python.PythonUtils").toSeq
        self._list_of = self.class_("java.util.List").of
        self._nothing = self._to_seq(self._list_of())
        self._activate = self.class_("org.apache.spark.sql.classic.SparkSession").setActiveSession

    @property
    def session(self) -> JavaObject:
        """The session that this thread works in: the user's, or a copy with other settings."""
        return getattr(self._here, "session", None) or self._own

    def settings(self) -> Settings:
        """The settings that decide what a query of this thread means now."""
        return getattr(self._here, "settings", None) or self._settings.now()

    def zone(self) -> str:
        """The session's time zone, as Java calls it."""
        text = self.settings().zone
        if text not in self._zones:
            utils = self.class_("org.apache.spark.sql.catalyst.util.DateTimeUtils")
            self._zones[text] = str(utils.getZoneId(text).getId())
        return self._zones[text]

    def activate(self) -> None:
        """Let expressions that this thread runs read their settings from the right session.

        They ask for the one that was last active in a thread, which may be another of the user's.
        """
        self._activate(self.session)

    @contextmanager
    def under(self, settings: Settings | None) -> Iterator[None]:
        """A block whose queries mean what they mean under these settings; None for the session's.

        Where the session has others, a copy is made of it now, with the functions that it has.
        """
        session = None if settings is None else self.copy_with(settings)
        with self.working_in(session, settings):
            yield

    def copy_with(self, settings: Settings) -> JavaObject | None:
        """A copy of the user's session with these settings; None where it has them itself."""
        changes = self._settings.now().towards(settings)
        return _copied(self._own, changes) if changes else None

    @contextmanager
    def working_in(self, session: JavaObject | None, settings: Settings | None) -> Iterator[None]:
        """A block in which this thread works in a copy of the session; None for the session."""
        before = getattr(self._here, "session", None), getattr(self._here, "settings", None)
        self._here.session, self._here.settings = session, settings
        self.activate()
        try:
            yield
        finally:
            self._here.session, self._here.settings = before
            self.activate()

    def class_(self, name: str) -> JavaObject:
        """The Java class of a full name, for static calls and construction."""
        if name not in self._classes:
            self._classes[name] = getattr(self.jvm, name)
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
        project = analysed_plan(frame)
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

    def with_settings(self, frame: DataFrame, settings: Mapping[str, str | None]) -> DataFrame:
        """The same query in a copy of the session that has some other settings, or lacks some."""
        analysed = analysed_plan(frame)
        return DataFrame(self._in_copy(analysed, settings), self.spark)

    def _in_copy(self, analysed: JavaObject, settings: Mapping[str, str | None]) -> JavaObject:
        session = _copied(self.session, settings)
        return self.module("org.apache.spark.sql.classic.Dataset").ofRows(session, analysed)

    def data_type(self, ddl: str) -> JavaObject:
        """The Catalyst type that a type text names."""
        if ddl not in self._types:
            self._types[ddl] = self.class_("org.apache.spark.sql.types.DataType").fromDDL(ddl)
        return self._types[ddl]

    def literal(self, text: str) -> JavaObject:
        """The constant that SQL writes so, such as `0L` (py4j cannot pass a Java long)."""
        if text not in self._literals:
            parser = self.session.sessionState().sqlParser()
            self._literals[text] = parser.parseExpression(text)
        return self._literals[text]

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

    def attributes(self, named: Sequence[tuple[str, str]]) -> tuple[JavaObject, ...]:
        """Fresh attributes of the given names and types; about one round trip for each."""
        columns = tuple(named)
        if columns not in self._structs:
            struct = self.class_("org.apache.spark.sql.types.StructType")()
            for name, ddl in columns:
                struct = struct.add(name, self.data_type(ddl), True)
            self._structs[columns] = struct
        utils = self.module("org.apache.spark.sql.catalyst.types.DataTypeUtils")
        made = tuple(items(utils.toAttributes(self._structs[columns]), len(columns)))
        for attribute, (_, ddl) in zip(made, columns, strict=True):
            if ddl not in self._texts:
                self._texts[ddl] = type_text(self.data_type(ddl))
            known = {"class": f"{_EXPRESSIONS}.AttributeReference", "type": self._texts[ddl]}
            attribute.__dict__["_rekindle"] = known
        return made

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
        replaced: dict[int, JavaObject] = {}

        def below(node: JavaObject) -> Sequence[JavaObject]:
            found = change(node)
            if found is None:
                return children_of(node)
            replaced[id(node)] = found
            return ()

        def rebuilt(node: JavaObject, children: tuple[JavaObject, ...]) -> JavaObject:
            if id(node) in replaced:
                return replaced[id(node)]
            same = all(new is old for new, old in zip(children, children_of(node), strict=True))
            return node if same else node.withNewChildren(self.seq(children))

        return fold(tree, below, rebuilt)

    def rebased(self, expression: JavaObject, moved: Mapping[int, JavaObject]) -> JavaObject:
        """The expression over other attributes, which `moved` gives by expression id.

        Spark puts them in, as it does where it merges two projections: however deep the expression
        is, that takes a few round trips for each attribute.
        """
        if simple_name(expression) == "AttributeReference":
            return moved.get(id_of(expression), expression)
        if simple_name(expression) == "Alias":
            # Spark's replacement would take the name off.
            return expression.withNewChildren(self.seq([self.rebased(expression.child(), moved)]))
        read = [a for a in items(expression.references().toSeq()) if id_of(a) in moved]
        if not read:
            return expression
        pair = self.class_("scala.Tuple2")
        pairs = [pair(a, self.alias(moved[id_of(a)], "moved", a.exprId())) for a in read]
        targets = self.module(f"{_EXPRESSIONS}.AttributeMap").apply(self.seq(pairs))
        merging = self.module("org.apache.spark.sql.catalyst.optimizer.CollapseProject")
        return merging.replaceAlias(expression, targets)

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


def settings_of(frame: DataFrame) -> Settings:
    """The settings that decide what a DataFrame means where it was made."""
    return SessionSettings(frame._jdf.sparkSession()).now()


def _copied(session: JavaObject, settings: Mapping[str, str | None]) -> JavaObject:
    copy = session.cloneSession()
    for name, value in settings.items():
        try:
            copy.conf().unset(name) if value is None else copy.conf().set(name, value)
        except (Py4JJavaError, PySparkException) as error:
            raise DefinitionError(
                f"the setting {name} cannot be '{value}' in this session",
                detail=str(error).strip().split("\n")[0],
                hint="a view was made under it: open the database with the version of Spark that "
                "knows it, and create the view again under another",
            ) from error
    return copy


def items(sequence: JavaObject, length: int | None = None) -> list[JavaObject]:
    """The elements of a Scala sequence, in as few round trips as there are."""
    return [sequence.apply(i) for i in range(sequence.length() if length is None else length)]


def children_of(tree: JavaObject) -> Sequence[JavaObject]:
    """The children of a plan or expression: the same handles whenever they are asked for."""
    children: Sequence[JavaObject] = asked(tree, "children", lambda: items(tree.children()))
    return children


def child_of(tree: JavaObject) -> JavaObject:
    """The one child of a plan, by the handle that `children_of` gives."""
    (child,) = children_of(tree)
    return child


def operands(expression: JavaObject, kind: str) -> list[JavaObject]:
    """What an expression is the conjunction of, or the disjunction, in the order of the text."""
    found, waiting = [], [expression]
    while waiting:
        node = waiting.pop()
        if simple_name(node) == kind:
            waiting += reversed(children_of(node))
        else:
            found.append(node)
    return found


def with_children_of(tree: JavaObject, other: JavaObject) -> JavaObject:
    """A tree that has the children of another, and then its handles for them too."""
    if tree is not other:
        tree.__dict__.setdefault("_rekindle", {})["children"] = children_of(other)
    return tree


def with_children(
    catalyst: Catalyst, plan: JavaObject, children: Sequence[JavaObject]
) -> JavaObject:
    """The plan over other children, and their handles with what is known by these."""
    changed = plan.withNewChildren(catalyst.seq(children))
    changed.__dict__.setdefault("_rekindle", {})["children"] = children
    return changed


def id_of(named: JavaObject) -> int:
    """The number by which Catalyst knows a column or a named expression."""
    return int(asked(named, "id", lambda: named.exprId().id()))


def type_of(expression: JavaObject) -> str:
    """The text of an expression's type."""
    return str(asked(expression, "type", lambda: type_text(expression.dataType())))


def asked(handle: JavaObject, what: str, ask: Callable[[], Any]) -> Any:
    """A fact about a Java object that never changes: it is asked once of a handle."""
    known = handle.__dict__.setdefault("_rekindle", {})
    if what not in known:
        known[what] = ask()
    return known[what]


def analysed_plan(frame: DataFrame) -> JavaObject:
    """The plan of a DataFrame with its names resolved: the same handle whenever it is asked for."""
    plan: JavaObject = asked(frame._jdf, "analysed", lambda: frame._jdf.queryExecution().analyzed())
    return plan


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
    return str(asked(node, "class", lambda: _class_names(node._gateway_client)(node)))


@cache
def _class_names(gateway: Any) -> JavaObject:
    return JavaClass("org.apache.commons.lang3.ClassUtils", gateway).getName


@cache
def _pattern(gateway: Any, name: str) -> JavaObject:
    return getattr(JavaClass("org.apache.spark.sql.catalyst.trees.TreePattern", gateway), name)()


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


def fingerprint(bound: JavaObject, settings: Settings) -> str:
    """Equal for expressions that are equal up to the numbering of their inner variables.

    The JSON form leaves out some constant sets and the SQL form leaves out some types, so both
    are hashed; and so is what the expression reads of the settings when it runs.
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

    def number(found: re.Match[str]) -> str:
        return f"#{renumbered.setdefault(found[0], len(renumbered))}"

    if has_long_json(bound):
        # No hash of Java's: those of its enumerations are others in every process.
        tree = f"{type_of(bound)}\n{re.sub(r'#[0-9]+', number, str(bound.toString()))}"
    else:
        tree = json.dumps(normalise(json.loads(bound.toJSON())), sort_keys=True)
    mark = settings.run_time_mark
    if "expressions.PythonUDF" in tree or has_long_json(bound):
        mark += f"|{settings.zone}"
    said = f"{tree}\n{bound.sql()}" + (f"\n{mark}" if mark else "")
    return hashlib.sha256(said.encode()).hexdigest()[:20]


_MOST_CASES = 12
"""A JSON form may be 2ⁿ times as long as the expression is where n cases are nested."""


def has_pattern(tree: JavaObject, name: str) -> bool:
    """Does a kind of node, by Catalyst's name for it, stand anywhere in a plan or expression?

    Catalyst keeps such a bit of each kind in every node, so that nothing is walked.
    """
    return bool(tree.containsPattern(_pattern(tree._gateway_client, name)))


def has_case(tree: JavaObject) -> bool:
    """Does CASE stand anywhere in a plan or expression?"""
    return has_pattern(tree, "CASE_WHEN")


def has_long_json(expression: JavaObject) -> bool:
    """Could the JSON form of an expression be much longer than the expression is?"""
    return has_case(expression) and str(expression.sql()).count("CASE") > _MOST_CASES


def position(*nodes: JavaObject) -> str:
    """'line 2, column 7' of the first node that remembers where it stood in the SQL text."""
    for node in nodes:
        origin = node.origin()
        line, column = option(origin.line()), option(origin.startPosition())
        if line is not None:
            return f"line {line}, column {0 if column is None else int(column) + 1}"
    return ""
