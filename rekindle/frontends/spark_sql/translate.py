"""From Catalyst's optimised plan to a term.

The optimiser has resolved names, expanded stars, pushed filters, decorrelated subqueries and
rewritten set operations, so a few node kinds remain. Each has one function here, found by the
plan's class name in `TRANSLATIONS`; a kind that is missing is refused with its name and position.
Scalars stay Catalyst's (`scalars.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from rekindle.calculus.relation import Relation
from rekindle.calculus.scalars import Column, Literal, Scalar
from rekindle.calculus.schema import Field, Schema
from rekindle.calculus.terms import (
    Aggregate,
    Constant,
    Distinct,
    Filter,
    FlatMap,
    Map,
    Source,
    Term,
    UnionAll,
    sources,
)
from rekindle.calculus.walks import fold, visited
from rekindle.catalyst.classes import classes_of
from rekindle.catalyst.encoded import encoded_column
from rekindle.catalyst.evaluations import (
    evaluation,
    functions_of,
    refuse_random,
)
from rekindle.catalyst.failures import spark_error
from rekindle.catalyst.jvm import (
    Catalyst,
    JavaObject,
    child_of,
    children_of,
    id_of,
    items,
    position,
    simple_name,
    type_of,
    without_alias,
)
from rekindle.catalyst.refusals import unsupported
from rekindle.catalyst.scalars import generator, scalar
from rekindle.catalyst.table_functions import (
    partitions,
    refuse_rows_of_nothing,
    refuse_state,
)
from rekindle.catalyst.variants import collected
from rekindle.columns import column_names
from rekindle.errors import UndeterminedError, UnsupportedError
from rekindle.frontends.spark_sql.aggregates import measure_of, whole_of
from rekindle.frontends.spark_sql.analyse import Leaves, leaf_number
from rekindle.frontends.spark_sql.group_maps import cogroup_map, group_map, table_map
from rekindle.frontends.spark_sql.joins import join
from rekindle.frontends.spark_sql.ordering import group_limit, limit, window
from rekindle.frontends.spark_sql.recursion import union_loop, union_loop_reference
from rekindle.frontends.spark_sql.rewriting import rewritten
from rekindle.frontends.spark_sql.translated import Translated

WORDS = {
    "Tail": "tail()",
    "Sample": "TABLESAMPLE",
    "MapInArrow": "mapInArrow",
    "PythonMapInArrow": "mapInArrow",
    "MapInPandas": "mapInPandas",
    "InMemoryRelation": "a cached DataFrame",
    "ScriptTransformation": "TRANSFORM ... USING",
    "CollectMetrics": "observe()",
    "LateralJoin": "this form of LATERAL",
    "DomainJoin": "this form of correlated subquery",
}
"""What users call the plan nodes that no term stands for yet."""
REFUSED = {
    "PythonUDF": "a Python UDF",
    "ScalarSubquery": "a scalar subquery",
    "Exists": "EXISTS",
    "InSubquery": "IN with a subquery",
    "ListQuery": "IN with a subquery",
    "OuterReference": "a correlated subquery that Spark does not take apart",
}
"""What users call the expressions that no scalar may have inside."""


_STRIDE = 40
"""So many levels of a plan are translated by rules that call each other."""
_SCOPES = ("UnionLoop", "WithCTE")
"""What is below these is translated when they have said what its names are."""


@dataclass(frozen=True, slots=True)
class Shared:
    """The term that a leaf stands for, and which of the leaf's columns it has."""

    term: Term
    positions: tuple[int, ...]


class Translator:
    """Translates the plans of one session."""

    def __init__(self, catalyst: Catalyst, leaves: Leaves) -> None:
        self.catalyst = catalyst
        self.leaves = leaves
        self.definitions: dict[int, Translated] = {}
        self.loops: dict[int, str] = {}
        self.recursive: frozenset[str] = frozenset()
        self.numbered: set[int] = set()
        """The columns by which Catalyst tells the copies of a row apart, as expression ids."""
        self.shared: dict[int, Shared] = {}
        """The parts of the query that leaves stand for, by the numbers of these."""
        self._landed: dict[int, Translated] = {}
        self._walked: dict[int, JavaObject] = {}

    def translate_query(self, plan: JavaObject, recursive: Iterable[str] = ()) -> Translated:
        """The term of a whole query; what it names itself is its own.

        `recursive` names what the query is to define by recursion, if it is a part of one.
        """
        self.begin(recursive)
        return self.translate_rewritten(rewritten(self.catalyst, self.leaves, plan))

    def begin(self, recursive: Iterable[str] = ()) -> None:
        """Forget the query before."""
        self.definitions, self.loops, self.shared = {}, {}, {}
        self.recursive = frozenset(recursive)

    def translate_rewritten(self, plan: JavaObject) -> Translated:
        """The term of a part of the query, or of its whole."""
        self._landed, self._walked, self.numbered = {}, {}, set()
        return self.translate(plan)

    def translate(self, plan: JavaObject) -> Translated:
        """The term that denotes what the plan computes.

        A deep plan is translated from below, some of its nodes first: the rules find the terms of
        these, so that no rule is called far inside another.
        """
        if id(plan) not in self._walked:
            for landing in self._landings(plan):
                self._landed[id(landing)] = self._translate(landing)
        known = self._landed.get(id(plan))
        return self._translate(plan) if known is None else known

    def _landings(self, plan: JavaObject) -> list[JavaObject]:
        """Every so many levels a node of the plan, the lower ones first."""
        found: list[JavaObject] = []

        def deepen(node: JavaObject, below: tuple[int, ...]) -> int:
            # Held by its identity, so it must be there as long as the translation lasts.
            self._walked[id(node)] = node
            depth = 1 + max(below, default=0)
            if depth % _STRIDE == 0:
                found.append(node)
            return depth

        fold(plan, lambda node: () if simple_name(node) in _SCOPES else children_of(node), deepen)
        return found

    def _translate(self, plan: JavaObject) -> Translated:
        if _is_constant(plan) and plan.deterministic():
            return _constant(self, plan)
        kind = simple_name(plan)
        rule = TRANSLATIONS.get(kind)
        if rule is None and kind not in WORDS and not items(plan.children()):
            raise _foreign(plan)
        if rule is None:
            raise unsupported(WORDS.get(kind, f"the operator {kind}"), plan)
        return rule(self, plan)

    def scalar(self, expression: JavaObject, inputs: Sequence[JavaObject]) -> Scalar:
        """The scalar of an expression; a plain column is a `Column`, which rewrites can see."""
        bare = without_alias(expression)
        if simple_name(bare) == "AttributeReference":
            wanted = id_of(bare)
            for i, attribute in enumerate(inputs):
                if id_of(attribute) == wanted:
                    return Column(i, type_of(attribute), bool(attribute.nullable()))
        self.refuse_inner(bare)
        return scalar(self.catalyst, bare, inputs)

    def map(self, child: Translated, expressions: Sequence[JavaObject]) -> Translated:
        """The named expressions over the child's rows."""
        outputs = tuple((str(e.name()), self.scalar(e, child.attributes)) for e in expressions)
        return Translated(Map(child.term, outputs), tuple(e.toAttribute() for e in expressions))

    def refuse_inner(self, expression: JavaObject) -> None:
        """Refuse an expression that no scalar may be; one question is enough for most of them."""
        classes = classes_of(expression)
        if classes.isdisjoint(REFUSED) and "StaticInvoke" not in classes:
            if not expression.deterministic():
                raise _undetermined(expression)
            return
        self._refuse(expression)

    def _refuse(self, expression: JavaObject) -> None:
        inside = list(visited(expression, children_of))
        for node in inside:
            if simple_name(node) in REFUSED:
                raise unsupported(REFUSED[simple_name(node)], node)
        for node in reversed(inside):
            if not node.deterministic() or _draws_a_vector(simple_name(node), node):
                raise _undetermined(node)


def _undetermined(expression: JavaObject) -> UndeterminedError:
    return UndeterminedError(
        f"the expression {expression.sql()} is not deterministic",
        detail=position(expression),
        hint="a materialized view must be a function of its tables",
    )


def _draws_a_vector(kind: str, expression: JavaObject) -> bool:
    """Is this an encryption that begins with random bytes? Spark takes it for deterministic."""
    if kind != "StaticInvoke" or expression.functionName() != "aesEncrypt":
        return False
    _, _, mode, _, vector, _ = items(expression.arguments())
    plain = mode.foldable() and str(mode.eval(None)) == "ECB"
    return not plain and bool(vector.foldable()) and not len(vector.eval(None))


def _shown(expression: JavaObject) -> str:
    """A name for people: a column's own, or the text of an expression."""
    bare = without_alias(expression)
    return str(bare.name() if simple_name(bare) == "AttributeReference" else bare.sql())


def _source(translator: Translator, plan: JavaObject) -> Translated:
    shared = translator.shared.get(leaf_number(plan)) if translator.shared else None
    if shared is not None:
        columns = items(plan.output())
        return Translated(shared.term, tuple(columns[i] for i in shared.positions))
    name = translator.leaves.name_of(plan)
    if name is None:
        raise _foreign(plan)
    attributes = tuple(items(plan.output()))
    fields = tuple(Field(str(a.name()), type_of(a), bool(a.nullable())) for a in attributes)
    return Translated(Source(name, Schema(fields)), attributes)


def _foreign(leaf: JavaObject) -> UnsupportedError:
    """The refusal of files, tables of other catalogs and the like."""
    return UnsupportedError(
        "the view reads data that is not a table of this database",
        detail=str(leaf.toString()).strip(),
        hint="build the DataFrame from db.table(...), or load the data into a table first",
    )


def _project(translator: Translator, plan: JavaObject) -> Translated:
    return translator.map(translator.translate(child_of(plan)), items(plan.projectList()))


def _filter(translator: Translator, plan: JavaObject) -> Translated:
    child = translator.translate(child_of(plan))
    predicate = translator.scalar(plan.condition(), child.attributes)
    return Translated(Filter(child.term, predicate), child.attributes)


def _union(translator: Translator, plan: JavaObject) -> Translated:
    children = tuple(translator.translate(child).term for child in children_of(plan))
    return Translated(UnionAll(children), tuple(items(plan.output())))


def _aggregate(translator: Translator, plan: JavaObject) -> Translated:
    """Groups, then measures, then the result columns computed from both."""
    catalyst = translator.catalyst
    child = translator.translate(child_of(plan))
    groupings = items(plan.groupingExpressions())
    results = items(plan.aggregateExpressions())
    keys = tuple(
        (
            _shown(expression),
            translator.scalar(catalyst.normalised(expression), child.attributes),
        )
        for expression in groupings
    )
    key_attributes = [
        without_alias(g)
        if simple_name(without_alias(g)) == "AttributeReference"
        else catalyst.attribute(f"key{i}", type_of(g))
        for i, g in enumerate(groupings)
    ]
    calls: list[JavaObject] = []
    call_attributes: list[JavaObject] = []

    def cut(node: JavaObject) -> JavaObject | None:
        if simple_name(node) == "AggregateExpression":
            for known, attribute in zip(calls, call_attributes, strict=True):
                if known.semanticEquals(node):
                    return attribute
            calls.append(node)
            call_attributes.append(catalyst.attribute(f"measure{len(calls) - 1}", type_of(node)))
            return call_attributes[-1]
        for grouping, attribute in zip(groupings, key_attributes, strict=True):
            if without_alias(grouping).semanticEquals(node):
                return attribute
        return None

    columns = [(result, catalyst.transform(without_alias(result), cut)) for result in results]
    if not keys and any(simple_name(c.aggregateFunction()) == "PythonUDAF" for c in calls):
        # Of no rows Spark gives no row for Python functions, so they have a group that may go.
        keys = (("one", Literal(1, "int")),)
        key_attributes = [catalyst.attribute("one", "int")]
    grouped: Term
    if not calls and not keys:
        grouped = _ROW
    elif calls:
        bare = [without_alias(grouping) for grouping in groupings]
        # In a recursion a group's rows come and go with the iterations: it is computed as a whole.
        measure = measure_of if translator.recursive.isdisjoint(sources(child.term)) else whole_of
        measures = tuple(
            measure(translator, call, child.attributes, str(call.sql()), bare) for call in calls
        )
        grouped = Aggregate(child.term, keys, measures)
    else:
        grouped = Distinct(Map(child.term, keys))
    inputs = tuple(key_attributes) + tuple(call_attributes)
    outputs = tuple((str(r.name()), translator.scalar(c, inputs)) for r, c in columns)
    return Translated(Map(grouped, outputs), tuple(r.toAttribute() for r in results))


def _generate(translator: Translator, plan: JavaObject) -> Translated:
    child = translator.translate(child_of(plan))
    translator.refuse_inner(plan.generator())
    unneeded = {int(i) for i in items(plan.unrequiredChildIndex())}
    kept = tuple(i for i in range(len(child.attributes)) if i not in unneeded)
    added = items(plan.generatorOutput())
    rows = generator(
        translator.catalyst,
        plan.generator(),
        child.attributes,
        added,
        outer=bool(plan.outer()),
    )
    attributes = tuple(child.attributes[i] for i in kept) + tuple(added)
    return Translated(FlatMap(child.term, rows, kept), attributes)


def _evaluate(translator: Translator, plan: JavaObject) -> Translated:
    """Python functions: a generator of one row for each row."""
    child = translator.translate(child_of(plan))
    refuse_random(functions_of(plan))
    results = evaluation(translator.catalyst, plan, child.attributes)
    kept = tuple(range(len(child.attributes)))
    attributes = (*child.attributes, *items(plan.resultAttrs()))
    return Translated(FlatMap(child.term, results, kept), attributes)


def _table_function(translator: Translator, plan: JavaObject) -> Translated:
    """A Python table function: the rows that it gives for each row, or for each partition."""
    refuse_random(functions_of(plan))
    parted = partitions(plan)
    if parted is not None:
        refuse_rows_of_nothing(plan)
        return table_map(translator, plan, parted)
    refuse_state(plan)
    child = translator.translate(child_of(plan))
    results = evaluation(translator.catalyst, plan, child.attributes)
    places = {id_of(a): i for i, a in enumerate(child.attributes)}
    kept = tuple(places[id_of(a)] for a in items(plan.requiredChildOutput()))
    attributes = (*(child.attributes[i] for i in kept), *items(plan.resultAttrs()))
    return Translated(FlatMap(child.term, results, kept), attributes)


def _expand(translator: Translator, plan: JavaObject) -> Translated:
    """ROLLUP, CUBE and GROUPING SETS: each row once for each grouping set."""
    child = translator.translate(child_of(plan))
    names = [str(a.name()) for a in items(plan.output())]
    branches = tuple(
        Map(
            child.term,
            tuple(
                (name, translator.scalar(expression, child.attributes))
                for name, expression in zip(names, items(projection), strict=True)
            ),
        )
        for projection in items(plan.projections())
    )
    attributes = tuple(items(plan.output()))
    for attribute, *column in zip(attributes, *map(_scalars, branches), strict=True):
        if all(map(_is_number, column)):
            translator.numbered.add(id_of(attribute))
    return Translated(UnionAll(branches), attributes)


def _scalars(branch: Map) -> list[Scalar]:
    return [scalar for _, scalar in branch.outputs]


def _is_number(scalar: Scalar) -> bool:
    """Does every row of a branch have the same number there?"""
    return scalar.type == "int" and not scalar.references and not scalar.nullable


def _constant(translator: Translator, plan: JavaObject) -> Translated:
    """Rows that no table has a part in: Spark computes them once."""
    attributes = tuple(items(plan.output()))
    frame = translator.catalyst.dataframe(plan)
    fields = tuple(Field(str(a.name()), type_of(a), bool(a.nullable())) for a in attributes)
    names = column_names(len(fields))
    frame = frame.toDF(*names)
    columns = [
        encoded_column(frame[name], field.type).alias(name)
        for name, field in zip(names, fields, strict=True)
    ]
    try:
        table = collected(frame.select(*columns))
    except (Py4JJavaError, PySparkException) as error:
        raise spark_error(error) from error
    return Translated(Constant(Schema(fields), Relation.of(table)), attributes)


def _one_row(translator: Translator, plan: JavaObject) -> Translated:
    return Translated(_ROW, ())


_ROW = Map(
    Constant(
        Schema((Field("one", "int", nullable=False),)),
        Relation.of(pa.table({"c0": pa.array([1], pa.int32())})),
    ),
    (),
)
"""One row of no columns. Arrow cannot keep rows without columns, so there is one underneath."""


def _is_constant(plan: JavaObject) -> bool:
    """Does no table have a part in the plan?"""
    constants = {"LocalRelation", "OneRowRelation", "Range"}
    if any(simple_name(leaf) not in constants for leaf in items(plan.collectLeaves())):
        return False
    return plan.subqueriesAll().isEmpty() and not plan.output().isEmpty()


def _with_cte(translator: Translator, plan: JavaObject) -> Translated:
    for definition in items(plan.cteDefs()):
        translator.definitions[definition.id()] = translator.translate(definition.child())
    return translator.translate(plan.plan())


def _cte_reference(translator: Translator, plan: JavaObject) -> Translated:
    found = translator.definitions.get(plan.cteId())
    if found is None:
        raise unsupported("a recursive common table expression", plan)
    return Translated(found.term, tuple(items(plan.output())))


def _same(translator: Translator, plan: JavaObject) -> Translated:
    """An order or a distribution of rows, which a bag does not have."""
    return translator.translate(child_of(plan))


TRANSLATIONS: Mapping[str, Callable[[Translator, JavaObject], Translated]] = {
    "LogicalRDD": _source,
    "Project": _project,
    "Filter": _filter,
    "Union": _union,
    "Join": join,
    "Aggregate": _aggregate,
    "Generate": _generate,
    "ArrowEvalPython": _evaluate,
    "BatchEvalPython": _evaluate,
    "ArrowEvalPythonUDTF": _table_function,
    "BatchEvalPythonUDTF": _table_function,
    "Expand": _expand,
    "Window": window,
    "FlatMapGroupsInPandas": group_map,
    "FlatMapGroupsInArrow": group_map,
    "FlatMapCoGroupsInPandas": cogroup_map,
    "FlatMapCoGroupsInArrow": cogroup_map,
    "WindowGroupLimit": group_limit,
    "GlobalLimit": limit,
    "Offset": limit,
    "LocalLimit": _same,
    "OneRowRelation": _one_row,
    "UnionLoop": union_loop,
    "UnionLoopRef": union_loop_reference,
    "WithCTE": _with_cte,
    "CTERelationRef": _cte_reference,
    "Sort": _same,
    "Repartition": _same,
    "RepartitionByExpression": _same,
    "RebalancePartitions": _same,
}
