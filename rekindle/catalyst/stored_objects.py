"""Java's form of expressions and plans, read as data.

Bytes from a database are written by whoever wrote the directory. They are read through a list of
classes: a class that is not on it is neither initialised nor made, and nothing of the stream after
it is read. On the list are Catalyst's expressions, plans, types and the collections that these
consist of. Not on it is what runs code that came with the bytes: functions in Python, Scala and
Java, calls by reflection, and everything of which no expression consists (a URL, a proxy, a map
that compares its keys while it is read).

A tree of listed classes can still name something to call: a method, by a text that Spark puts into
the source code it compiles. So the tree is walked before it is used (`_refuse_calls`).

What cannot be closed by a list is said in docs/design/stored_forms.md.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from typing import Any

from py4j.protocol import Py4JJavaError

from rekindle.catalyst.jvm import Catalyst, JavaObject, full_name, items
from rekindle.errors import UntrustedError, untrusted

_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions"
_PLANS = "org.apache.spark.sql.catalyst.plans"
_UTIL = "org.apache.spark.sql.catalyst.util"

CODE = (
    "ApplyFunctionExpression",
    "CallMethodViaReflection",
    "ExternalUserDefinedFunction",
    "FromAvro",
    "FromProtobuf",
    "PrettyPythonUDF",
    "PythonFuncExpression",
    "PythonUDAF",
    "PythonUDF",
    "PythonUDTF",
    "PythonUDTFAnalyzeResult",
    "PythonUDTFSelectedExpression",
    "ScalaUDF",
    "SchemaOfAvro",
    "ToAvro",
    "ToProtobuf",
    "TransformExpression",
    "TranspiledPythonUDF",
    "TranspiledUDFParameter",
    "TryReflect",
    "UnresolvedPolymorphicPythonUDTF",
    "UserDefinedExpression",
    "UserDefinedGenerator",
)
"""Expressions that run what came with them, or that load classes or files by their names."""

_SUBQUERIES = (
    *("DynamicPruningSubquery", "Exists", "FunctionTableSubqueryArgumentExpression"),
    *("InSubquery", "LateralSubquery", "ListQuery", "PlanExpression", "ScalarSubquery"),
)
"""Expressions with plans inside, which a walk along the children of a tree does not meet."""

_MEMORY = ("UnsafeRow", "UnsafeArrayData", "UnsafeMapData")
"""Values that say themselves where in memory they end."""

_NEVER = (*CODE, *_SUBQUERIES, *_MEMORY)
_REFUSED = (
    *(f"{_EXPRESSIONS}.{name}{end}" for name in _NEVER for end in ("", "$*")),
    *(f"{_EXPRESSIONS}.{name}*" for name in ("Interpreted", "Codegen", "ExpressionProxy")),
    *(
        f"org.apache.spark.sql.types.{name}*"
        # Python reads what these are by loading what they name.
        for name in ("UserDefinedType", "PythonUserDefinedType", "SQLUserDefinedType", "UDT")
    ),
)

_NODES = (
    *("Aggregate", "Distinct", "Except", "Expand", "Filter", "Generate", "GlobalLimit"),
    *("HintInfo", "Intersect", "Join", "JoinHint", "LateralJoin", "Limit", "LocalLimit"),
    *("LocalRelation", "Offset", "OneRowRelation", "Project", "Range", "Repartition"),
    *("RepartitionByExpression", "RebalancePartitions", "Sort", "Subquery", "SubqueryAlias"),
    *("Tail", "Union", "Window", "WindowGroupLimit", "CTERelationRef", "CTERelationDef"),
    *("WithCTE", "Deduplicate", "Pivot", "Unpivot", "Zip", "LeafNode", "UnaryNode", "BinaryNode"),
    *("LogicalPlan", "SetOperation", "UnionBase", "RepartitionOperation"),
)

_LISTED = (
    *(f"{_EXPRESSIONS}.{part}*" for part in ("", "aggregate.", "csv.", "json.", "url.")),
    *(f"{_EXPRESSIONS}.{part}*" for part in ("variant.", "xml.")),
    *(f"{_EXPRESSIONS}.objects.{name}" for name in ("Invoke", "InvokeLike", "StaticInvoke")),
    f"{_PLANS}.*",
    *(f"{_PLANS}.logical.{name}{end}" for name in _NODES for end in ("", "$")),
    "org.apache.spark.sql.types.*",
    "org.apache.spark.sql.internal.types.*",
    *(f"org.apache.spark.sql.catalyst.{name}" for name in ("AliasIdentifier", "InternalRow")),
    *(f"org.apache.spark.sql.catalyst.trees.{n}" for n in ("SQLQueryContext", "TreePattern$")),
    *(f"org.apache.spark.sql.catalyst.trees.{n}" for n in ("TreeNode", "Origin")),
    # Where in a program an expression of a DataFrame was written.
    *("org.apache.spark.sql.catalyst.trees.DataFrameQueryContext", "java.lang.StackTraceElement"),
    *(f"{_UTIL}.{name}" for name in ("ArrayData", "MapData", "GenericArrayData")),
    *(f"{_UTIL}.{name}" for name in ("ArrayBasedMapData", "CaseInsensitiveMap", "STUtils")),
    *(f"{_UTIL}.{name}" for name in ("DateTimeUtils", "DateTimeUtils$", "IntervalUtils$")),
    *(f"{_UTIL}.{name}" for name in ("CharVarcharCodegenUtils", "HyperLogLogPlusPlusHelper")),
    *(f"{_UTIL}.{name}" for name in ("PermissiveMode$", "FailFastMode$", "DropMalformedMode$")),
    *(f"{_UTIL}.{name}" for name in ("LegacyDateFormats$", "DefaultTimestampFormatter")),
    f"{_UTIL}.Iso8601TimestampFormatter",
    *(f"{_UTIL}.{name}*" for name in ("ToNumberParser", "TupleSummaryMode")),
    *(f"org.apache.spark.unsafe.types.{n}" for n in ("UTF8String", "ByteArray", "VariantVal")),
    *(f"org.apache.spark.unsafe.types.{n}" for n in ("CalendarInterval", "GeographyVal")),
    "org.apache.spark.unsafe.types.GeometryVal",
    "org.apache.spark.unsafe.array.ByteArrayMethods",
    *(f"org.apache.spark.util.collection.{name}" for name in ("BitSet", "ImmutableBitSet")),
    *("org.apache.spark.QueryContextType", "org.apache.datasketches.hll.TgtHllType"),
    *(f"scala.{name}" for name in ("Enumeration", "Enumeration$*", "None$", "Option", "Some")),
    *(f"scala.{name}" for name in ("Tuple2", "Tuple3")),
    "scala.collection.IterableFactory$ToFactory",
    "scala.collection.MapFactory$ToFactory",
    *(f"scala.collection.generic.{n}" for n in ("DefaultSerializationProxy", "SerializeEnd$")),
    *(f"scala.collection.immutable.{n}" for n in ("List$", "Nil$", "Vector*", "$colon$colon")),
    *(f"scala.collection.immutable.{n}*" for n in ("ArraySeq", "Set$", "HashSet$", "Map$")),
    *(f"scala.collection.immutable.{n}*" for n in ("HashMap$", "ListMap$", "ListSet$")),
    *(f"scala.collection.mutable.{n}*" for n in ("ArrayBuffer$", "ArraySeq", "HashSet$")),
    *(f"scala.math.{name}*" for name in ("BigDecimal", "BigInt", "ScalaNumber")),
    "scala.reflect.ClassTag$*",
    "scala.reflect.ManifestFactory$*",
    "scala.runtime.ModuleSerializationProxy",
    *(f"java.lang.{name}" for name in ("Boolean", "Byte", "Character", "Double", "Enum", "Float")),
    *(f"java.lang.{name}" for name in ("Integer", "Long", "Number", "Object", "Short", "String")),
    # Expressions such as day(x) hold a function of their own class; the class it names is listed
    # or not, as any other, and it can be nothing but a function that this class wrote.
    "java.lang.invoke.SerializedLambda",
    *(f"java.math.{name}" for name in ("BigDecimal", "BigInteger", "MathContext", "RoundingMode")),
    "java.util.UUID",
    "java.util.concurrent.atomic.AtomicReference",
)

LARGEST = 64 * 2**20
_LIMITS = ("maxdepth=3000", "maxrefs=5000000", f"maxbytes={LARGEST}", "maxarray=5000000")
FILTER = ";".join((*_LIMITS, *(f"!{name}" for name in _REFUSED), *_LISTED, "!*"))
"""What `java.io.ObjectInputFilter.Config.createFilter` reads."""

_METHODS: Mapping[str, frozenset[str]] = {
    "org.apache.spark.unsafe.array.ByteArrayMethods": frozenset(
        ("contains", "endsWith", "startsWith")
    ),
    "org.apache.spark.unsafe.types.ByteArray": frozenset(("lpad", "rpad")),
}
"""Of these classes no other method may be called: some take addresses in memory."""
_HELPERS = (f"{_EXPRESSIONS}.", f"{_UTIL}.")
_INVOKED = frozenset(("evaluate", "getMetadata", "getValue", "isValid", "makeValid", "parse"))
"""Methods that Spark's own functions call on what they hold."""
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NAMES = frozenset(("class", "name", "value", "qualifier", "alias", "metadata", "origin", "sql"))
"""Fields whose text is a name, a constant or a message, which Spark does not compile."""
_BREAKING = re.compile(r'["\\\r\n]')
_FEW = 4


def read_listed(catalyst: Catalyst, data: bytes) -> list[JavaObject]:
    """The objects that stored bytes stand for; raises `UntrustedError` for what is not listed."""
    if len(data) > LARGEST:
        raise _refused(f"it has {len(data):,} bytes")
    try:
        stream = catalyst.class_("java.io.ObjectInputStream")(
            catalyst.class_("java.io.ByteArrayInputStream")(bytearray(data))
        )
        stream.setObjectInputFilter(catalyst.filter(FILTER))
        found = stream.readObject()
        objects = items(found)
        for tree in _trees(catalyst, found, objects):
            _refuse_calls(json.loads(tree.toJSON()))
    except UntrustedError:
        raise
    except Py4JJavaError as error:
        names = _unlisted(data)
        said = f"it holds {', '.join(names)}" if names else _brief(error)
        raise _refused(said) from None
    except Exception as error:
        # Whatever is no sequence of trees: py4j says so in several ways.
        raise _refused(f"it holds no expressions: {type(error).__name__}") from None
    return objects


def _trees(catalyst: Catalyst, found: JavaObject, objects: list[JavaObject]) -> list[JavaObject]:
    """Trees with all of the objects in them, one for many: each costs a question to the JVM."""
    if len(objects) < _FEW or not all(full_name(o).startswith(_EXPRESSIONS) for o in objects):
        return objects
    return [catalyst.expression("Coalesce")(found)]


def read_text(catalyst: Catalyst, text: str) -> list[JavaObject]:
    """The same of bytes that stand in a text."""
    return read_listed(catalyst, decoded(text))


def decoded(text: str) -> bytes:
    """The bytes of a text in base 64."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise _refused(f"it is not in base 64: {error}") from None


def _refused(reason: str) -> UntrustedError:
    return untrusted("stored Java objects are not read", reason)


def _brief(error: Py4JJavaError) -> str:
    return str(error.java_exception).split("\n")[0][:200]


def _refuse_calls(node: Any) -> None:
    """Raise if a tree, in its JSON form, calls a method that is not a helper of Spark's own."""
    waiting = [node]
    while waiting:
        each = waiting.pop()
        if isinstance(each, list):
            waiting.extend(each)
        elif isinstance(each, dict):
            waiting.extend(each.values())
            _refuse_call(each)


def _refuse_call(node: dict[str, Any]) -> None:
    kind = str(node.get("class", "")).rsplit(".", 1)[-1]
    method = str(node.get("functionName", ""))
    if kind == "StaticInvoke":
        target = str(node.get("staticObject", ""))
        named = method in _METHODS[target] if target in _METHODS else target.startswith(_HELPERS)
        if not named or not _IDENTIFIER.fullmatch(method):
            raise _refused(f"it calls {target[:80]}.{method[:80]}")
    elif kind == "Invoke" and method not in _INVOKED:
        raise _refused(f"it calls the method {method[:80]}")
    for name, value in node.items():
        if isinstance(value, str) and name not in _NAMES and _BREAKING.search(value):
            raise _refused(f"the field {name} of {kind} is not a word")


_DESCRIBED = re.compile(rb"r(?=(..))", re.DOTALL)
_CLASS = re.compile(rb"\[*L?[A-Za-z_$][\w$]*(?:\.[\w$]+)+;?")


def _unlisted(data: bytes) -> list[str]:
    """The classes that a stream names and the list does not, for the message only."""
    found: dict[str, None] = {}
    for match in _DESCRIBED.finditer(data):
        length = int.from_bytes(match.group(1), "big")
        name = data[match.end() + 2 : match.end() + 2 + length]
        if _CLASS.fullmatch(name) and not _is_listed(name.decode().lstrip("[L").rstrip(";")):
            found[name.decode()] = None
    return list(found)[:3]


def _is_listed(name: str) -> bool:
    if any(_matches(name, pattern) for pattern in _REFUSED):
        return False
    return any(_matches(name, pattern) for pattern in _LISTED)


def _matches(name: str, pattern: str) -> bool:
    """Java's own meaning of a pattern: `p.*` is a package, `x*` a beginning."""
    if pattern.endswith(".*"):
        return name.rpartition(".")[0] == pattern[:-2]
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern
