"""From Catalyst's optimised plan to a term.

The optimiser has resolved names, expanded stars, pushed filters, decorrelated subqueries and
rewritten set operations, so a few node kinds remain. Each has one function here, found by the
plan's class name in `TRANSLATIONS`; a kind that is missing is refused with its name and position.
Scalars stay Catalyst's (`scalars.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rekindle.calculus.scalars import Column, Scalar
from rekindle.calculus.schema import Field, Schema
from rekindle.calculus.terms import (
    Aggregate,
    Distinct,
    Filter,
    FlatMap,
    Join,
    Map,
    Source,
    Term,
    UnionAll,
)
from rekindle.errors import UnsupportedError
from rekindle.frontends.spark_sql.aggregates import measure_of
from rekindle.frontends.spark_sql.analyse import Leaves
from rekindle.frontends.spark_sql.jvm import (
    Catalyst,
    JavaObject,
    items,
    option,
    position,
    simple_name,
    type_text,
)
from rekindle.frontends.spark_sql.scalars import generator, scalar

NEXT = "see docs/reference.md for what can stand in a materialized view"

WORDS = {
    "Window": "a window function",
    "GlobalLimit": "LIMIT",
    "LocalLimit": "LIMIT",
    "Limit": "LIMIT",
    "Offset": "OFFSET",
    "Tail": "tail()",
    "LocalRelation": "a constant relation (VALUES, or a query without a table)",
    "OneRowRelation": "a query without a table",
    "Range": "range()",
    "Sample": "TABLESAMPLE",
    "MapInArrow": "mapInArrow",
    "MapInPandas": "mapInPandas",
    "ArrowEvalPython": "a Python UDF",
    "BatchEvalPython": "a Python UDF",
    "CTERelationRef": "a recursive or non-deterministic common table expression",
    "UnionLoop": "WITH RECURSIVE",
}
"""What users call the plan nodes that no term stands for yet."""


@dataclass(frozen=True, slots=True)
class Translated:
    """A term, with the Catalyst attribute of each of its columns."""

    term: Term
    attributes: tuple[JavaObject, ...]


class Translator:
    """Translates the plans of one session."""

    def __init__(self, catalyst: Catalyst, leaves: Leaves) -> None:
        self.catalyst = catalyst
        self.leaves = leaves

    def translate(self, plan: JavaObject) -> Translated:
        """The term that denotes what the plan computes."""
        kind = simple_name(plan)
        rule = TRANSLATIONS.get(kind)
        if rule is None:
            raise _unsupported(WORDS.get(kind, f"the operator {kind}"), plan)
        return rule(self, plan)

    def scalar(self, expression: JavaObject, inputs: Sequence[JavaObject]) -> Scalar:
        """The scalar of an expression; a plain column is a `Column`, which rewrites can see."""
        bare = _without_alias(expression)
        if simple_name(bare) == "AttributeReference":
            wanted = bare.exprId().id()
            for i, attribute in enumerate(inputs):
                if attribute.exprId().id() == wanted:
                    return Column(i, type_text(attribute.dataType()), bool(attribute.nullable()))
        self._refuse_inner(bare)
        return scalar(self.catalyst, bare, inputs)

    def _refuse_inner(self, expression: JavaObject) -> None:
        words = {
            "PythonUDF": "a Python UDF",
            "ScalarSubquery": "a scalar subquery",
            "Exists": "EXISTS",
            "InSubquery": "IN with a subquery",
            "ListQuery": "IN with a subquery",
            "PythonUDAF": "a Python aggregate",
        }
        kind = simple_name(expression)
        if kind in words:
            raise _unsupported(words[kind], expression)
        for child in items(expression.children()):
            self._refuse_inner(child)
        if not expression.deterministic():
            raise UnsupportedError(
                f"the expression {expression.sql()} is not deterministic",
                detail=position(expression),
                hint="a materialized view must be a function of its tables",
            )


def _without_alias(expression: JavaObject) -> JavaObject:
    return expression.child() if simple_name(expression) == "Alias" else expression


def _shown(expression: JavaObject) -> str:
    """A name for people: a column's own, or the text of an expression."""
    bare = _without_alias(expression)
    return str(bare.name() if simple_name(bare) == "AttributeReference" else bare.sql())


def _unsupported(words: str, *nodes: JavaObject) -> UnsupportedError:
    found = [inner for node in nodes for e in _expressions(node) for inner in _inside(e)]
    joins = [node for node in nodes if simple_name(node) == "Join"]
    where = position(*joins, *found, *nodes)
    return UnsupportedError(
        f"{words} is not maintained incrementally yet",
        detail=f"at {where} of the view's query" if where else "in the view's query",
        hint=NEXT,
    )


def _expressions(node: JavaObject) -> list[JavaObject]:
    is_plan = ".plans." in str(node.getClass().getName())
    return items(node.expressions()) if is_plan else items(node.children())


def _inside(expression: JavaObject) -> Iterator[JavaObject]:
    yield expression
    for child in items(expression.children()):
        yield from _inside(child)


def _source(translator: Translator, plan: JavaObject) -> Translated:
    name = translator.leaves.name_of(plan)
    if name is None:
        raise UnsupportedError(
            "the view reads data that is not a table of this database",
            detail=str(plan.toString()).strip(),
            hint="build the DataFrame from db.table(...), or load the data into a table first",
        )
    attributes = tuple(items(plan.output()))
    fields = tuple(
        Field(str(a.name()), type_text(a.dataType()), bool(a.nullable())) for a in attributes
    )
    return Translated(Source(name, Schema(fields)), attributes)


def _project(translator: Translator, plan: JavaObject) -> Translated:
    child = translator.translate(plan.child())
    return _map(translator, child, items(plan.projectList()))


def _map(
    translator: Translator, child: Translated, expressions: Sequence[JavaObject]
) -> Translated:
    outputs = tuple((str(e.name()), translator.scalar(e, child.attributes)) for e in expressions)
    return Translated(Map(child.term, outputs), tuple(e.toAttribute() for e in expressions))


def _filter(translator: Translator, plan: JavaObject) -> Translated:
    child = translator.translate(plan.child())
    predicate = translator.scalar(plan.condition(), child.attributes)
    return Translated(Filter(child.term, predicate), child.attributes)


def _union(translator: Translator, plan: JavaObject) -> Translated:
    children = tuple(translator.translate(child).term for child in items(plan.children()))
    return Translated(UnionAll(children), tuple(items(plan.output())))


def _join(translator: Translator, plan: JavaObject) -> Translated:
    kind = simple_name(plan.joinType())
    if kind not in ("Inner", "Cross"):
        raise _unsupported(f"a {plan.joinType().sql()} join", plan)
    left, right = translator.translate(plan.left()), translator.translate(plan.right())
    both = left.attributes + right.attributes
    extract = translator.catalyst.module(
        "org.apache.spark.sql.catalyst.planning.ExtractEquiJoinKeys"
    )
    found = option(extract.unapply(plan))
    left_keys: list[JavaObject] = []
    right_keys: list[JavaObject] = []
    residual = option(plan.condition())
    if found is not None:
        left_keys, right_keys = items(found._2()), items(found._3())
        residual = option(found._4())
    term = Join(
        left.term,
        right.term,
        tuple(translator.scalar(key, left.attributes) for key in left_keys),
        tuple(translator.scalar(key, right.attributes) for key in right_keys),
        None if residual is None else translator.scalar(residual, both),
    )
    return Translated(term, both)


def _aggregate(translator: Translator, plan: JavaObject) -> Translated:
    """Groups, then measures, then the result columns computed from both."""
    catalyst = translator.catalyst
    child = translator.translate(plan.child())
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
        _without_alias(g)
        if simple_name(_without_alias(g)) == "AttributeReference"
        else catalyst.attribute(f"key{i}", type_text(g.dataType()))
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
            call_attributes.append(
                catalyst.attribute(f"measure{len(calls) - 1}", type_text(node.dataType()))
            )
            return call_attributes[-1]
        for grouping, attribute in zip(groupings, key_attributes, strict=True):
            if _without_alias(grouping).semanticEquals(node):
                return attribute
        return None

    columns = [(result, catalyst.transform(_without_alias(result), cut)) for result in results]
    grouped: Term
    if calls or not keys:
        measures = tuple(
            measure_of(translator, call, child.attributes, str(call.sql())) for call in calls
        )
        grouped = Aggregate(child.term, keys, measures)
    else:
        grouped = Distinct(Map(child.term, keys))
    inputs = tuple(key_attributes) + tuple(call_attributes)
    outputs = tuple((str(r.name()), translator.scalar(c, inputs)) for r, c in columns)
    return Translated(Map(grouped, outputs), tuple(r.toAttribute() for r in results))


def _generate(translator: Translator, plan: JavaObject) -> Translated:
    child = translator.translate(plan.child())
    translator._refuse_inner(plan.generator())
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


def _expand(translator: Translator, plan: JavaObject) -> Translated:
    """ROLLUP, CUBE and GROUPING SETS: each row once for each grouping set."""
    child = translator.translate(plan.child())
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
    return Translated(UnionAll(branches), tuple(items(plan.output())))


def _same(translator: Translator, plan: JavaObject) -> Translated:
    """An order or a distribution of rows, which a bag does not have."""
    return translator.translate(plan.child())


TRANSLATIONS: Mapping[str, Callable[[Translator, JavaObject], Translated]] = {
    "LogicalRDD": _source,
    "Project": _project,
    "Filter": _filter,
    "Union": _union,
    "Join": _join,
    "Aggregate": _aggregate,
    "Generate": _generate,
    "Expand": _expand,
    "Sort": _same,
    "Repartition": _same,
    "RepartitionByExpression": _same,
    "RebalancePartitions": _same,
}
