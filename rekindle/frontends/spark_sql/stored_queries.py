"""SQL text from a database, before it is resolved: nothing but a query over the database's names.

Resolving a query can already do something: a path in place of a table is opened, a table function
in Python is asked for its columns. So the parsed plan is looked at first. It may consist of the
nodes that queries consist of, read the tables and views of the database and names that its own WITH
gives, and call functions that Spark brings along, except those that call methods by reflection or
load files. What a user registered in the session is the user's, but not for others to call.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from rekindle.catalyst.jvm import Catalyst, JavaObject, full_name, items, option
from rekindle.catalyst.stored_objects import CODE
from rekindle.errors import UntrustedError, untrusted

_CATALYST = "org.apache.spark.sql.catalyst"
_NODES = frozenset(
    (
        *("Aggregate", "Distinct", "Except", "Expand", "Filter", "Generate", "GlobalLimit"),
        *("Intersect", "Join", "LateralJoin", "LocalLimit", "LocalRelation", "Offset"),
        *("OneRowRelation", "Pivot", "Project", "Repartition", "RepartitionByExpression"),
        *("RebalancePartitions", "Sample", "Sort", "SubqueryAlias", "Tail", "Union", "Unpivot"),
        *("UnresolvedHint", "UnresolvedWith", "Window", "WithWindowDefinition", "Deduplicate"),
        *("LimitAll", "UnresolvedHaving", "UnresolvedInlineTable", "UnresolvedRelation"),
        *("UnresolvedSubqueryColumnAliases", "UnresolvedTableValuedFunction"),
        *("UnresolvedTVFAliases", "UnresolvedWindow", "Range", "PipeOperator", "Transpose"),
    )
)
"""What queries consist of, before they are resolved."""
_UNRESOLVED = frozenset(
    (
        *("UnresolvedAlias", "UnresolvedAttribute", "UnresolvedExtractValue", "UnresolvedFunction"),
        *("UnresolvedGenerator", "UnresolvedNamedLambdaVariable", "UnresolvedOrdinal"),
        *("UnresolvedRegex", "UnresolvedStar", "UnresolvedStarExcept", "UnresolvedStarBase"),
        *("UnresolvedSubqueryColumnAliases", "MultiAlias", "UnresolvedStarExceptOrReplace"),
        *("UnresolvedStarWithColumns", "UnresolvedStarWithColumnsRenames", "UnresolvedCollation"),
        *("UnresolvedWindowExpression", "UnresolvedPartitionTransform", "UnresolvedFieldName"),
    )
)
_FORBIDDEN = frozenset(
    (
        *("reflect", "java_method", "try_reflect", "from_avro", "to_avro", "schema_of_avro"),
        *("from_protobuf", "to_protobuf", "input_file_name", "input_file_block_start"),
        *("input_file_block_length", "getvariable"),
    )
)
"""Functions of Spark that call what their arguments name, or read files."""
_TABLE_FUNCTIONS = frozenset(
    (
        *("range", "explode", "explode_outer", "inline", "inline_outer", "json_tuple"),
        *("posexplode", "posexplode_outer", "stack", "variant_explode", "variant_explode_outer"),
        "collations",
    )
)
_BUILT_IN = "built-in"


def refuse_code(catalyst: Catalyst, plan: JavaObject, known: Collection[str]) -> None:
    """Raise `UntrustedError` unless a parsed plan is a query over the names `known`."""
    try:
        _Reading(catalyst, {name.lower() for name in known}).refuse(plan, frozenset())
    except (Py4JJavaError, PySparkException, RecursionError) as error:
        raise _refused(f"it cannot be looked at: {type(error).__name__}") from error


class _Reading:
    """One look at a plan."""

    def __init__(self, catalyst: Catalyst, known: set[str]) -> None:
        self._catalyst = catalyst
        self._known = known
        self._functions: dict[str, bool] = {}

    def refuse(self, plan: JavaObject, given: frozenset[str]) -> None:
        """`given` are the names that a WITH around the plan has defined."""
        waiting = [(plan, given)]
        while waiting:
            node, names = waiting.pop()
            kind = self._kind(node)
            if kind == "UnresolvedWith":
                # A name may be used before it is defined only if it recurs; then it is its own.
                names = names | {
                    str(relation._1()).lower() for relation in items(node.cteRelations())
                }
            self._refuse_node(node, kind, names)
            plans = [*items(node.children()), *items(node.innerChildren().toSeq())]
            waiting.extend((each, names) for each in plans)
            for expression in items(node.expressions()):
                for each in self._within(expression):
                    waiting.extend((inner, names) for inner in items(each.innerChildren().toSeq()))

    def _kind(self, node: JavaObject) -> str:
        package, _, kind = full_name(node).rpartition(".")
        kind = kind.rstrip("$")
        listed = package in (f"{_CATALYST}.plans.logical", f"{_CATALYST}.analysis")
        if not listed or kind not in _NODES:
            raise _refused(f"it is no query: {kind}")
        return kind

    def _refuse_node(self, node: JavaObject, kind: str, given: frozenset[str]) -> None:
        if kind == "UnresolvedRelation":
            parts = [str(part) for part in items(node.multipartIdentifier())]
            name = parts[0].lower()
            if len(parts) > 1 or (name not in self._known and name not in given):
                raise _refused(f"it reads {'.'.join(parts)[:80]}, which the database does not have")
            if not node.options().isEmpty():
                raise _refused(f"it reads {name} with options")
        elif kind == "UnresolvedTableValuedFunction":
            parts = [str(part) for part in items(node.name())]
            if len(parts) > 1 or parts[0].lower() not in _TABLE_FUNCTIONS:
                raise _refused(f"it calls the table function {'.'.join(parts)[:80]}")

    def _within(self, expression: JavaObject) -> Iterator[JavaObject]:
        """Every expression in one, after a look at it."""
        waiting = [expression]
        while waiting:
            each = waiting.pop()
            self._refuse_expression(each)
            yield each
            waiting.extend(items(each.children()))

    def _refuse_expression(self, each: JavaObject) -> None:
        package, _, kind = full_name(each).rpartition(".")
        kind = kind.rstrip("$")
        if package == f"{_CATALYST}.analysis":
            if kind not in _UNRESOLVED:
                raise _refused(f"it holds {kind}")
            if kind == "UnresolvedFunction":
                self._refuse_function([str(part) for part in items(each.nameParts())])
            elif kind == "UnresolvedGenerator":
                name = each.name()
                if option(name.database()) is not None:
                    raise _refused(f"it calls {str(name)[:80]}")
                if str(name.funcName()).lower() not in _TABLE_FUNCTIONS:
                    self._refuse_function([str(name.funcName())])
        elif not package.startswith(f"{_CATALYST}.expressions") or kind in CODE:
            raise _refused(f"it holds {kind}")
        elif package.endswith(".objects"):
            raise _refused(f"it calls methods ({kind})")

    def _refuse_function(self, parts: list[str]) -> None:
        name = parts[-1].lower()
        if [part.lower() for part in parts[:-1]] not in ([], ["builtin"], ["system", "builtin"]):
            raise _refused(f"it calls {'.'.join(parts)[:80]}")
        if name in _FORBIDDEN:
            raise _refused(f"it calls {name}()")
        if name not in self._functions:
            self._functions[name] = self._is_built_in(name)
        if not self._functions[name]:
            raise _refused(f"it calls {name}(), which is not a function of Spark")

    def _is_built_in(self, name: str) -> bool:
        catalog = self._catalyst.session.sessionState().catalog()
        identifier = self._catalyst.class_(f"{_CATALYST}.FunctionIdentifier")(name)
        try:
            info = catalog.lookupFunctionInfo(identifier)
        except (Py4JJavaError, PySparkException):
            return False
        return str(info.getSource()) == _BUILT_IN


def _refused(reason: str) -> UntrustedError:
    return untrusted("a stored query is not run", reason)
