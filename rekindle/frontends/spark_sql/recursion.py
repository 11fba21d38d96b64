"""WITH RECURSIVE: Catalyst's loop as a recursion of the calculus.

Spark unites the rows of an anchor with what the recursive part makes of the rows of the iteration
before, until there are none. Where the recursive part is linear in the relation, this is the
relation that equals its anchor and its recursive part together, as bags. Where it is not, as with
SELECT DISTINCT, rows have to be told from those of other iterations, and have their level in a
column:

    y = (anchor, 0) + (what the recursive part makes of the rows of a level, the next level)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rekindle.calculus.nested_time import by_levels, entered
from rekindle.calculus.scalars import Column
from rekindle.calculus.schema import Field, Schema
from rekindle.calculus.terms import (
    STAMP,
    Filter,
    Fix,
    FlatMap,
    Join,
    Map,
    Negate,
    OuterJoin,
    SemiJoin,
    Source,
    Term,
    UnionAll,
)
from rekindle.calculus.walks import fold
from rekindle.catalyst.jvm import JavaObject, items, option, type_of
from rekindle.frontends.spark_sql.translated import Translated

if TYPE_CHECKING:
    from rekindle.frontends.spark_sql.translate import Translator

_LEVELS = "spark.sql.cteRecursionLevelLimit"


def union_loop(translator: Translator, plan: JavaObject) -> Translated:
    """The least relation that holds the anchor and what is made of itself."""
    loops = translator.loops
    name = loops.setdefault(int(plan.id()), f"·recursive{len(loops)}")
    anchor, recursion = (translator.translate(child).term for child in items(plan.children()))
    levels = option(plan.maxDepth())
    if levels is None:
        levels = translator.catalyst.session.conf().get(_LEVELS, "100")
    limit, attributes = int(str(levels)), tuple(items(plan.output()))
    if _is_linear(recursion, name):
        body: Term = UnionAll((anchor, _like(recursion, anchor)))
        return Translated(Fix((name,), (body,), limit=limit), attributes)
    first = entered(anchor, 0)
    step = _like(_next_level(translator, by_levels(recursion, name)), first)
    rows = Fix((name,), (UnionAll((first, step)),), limit=limit)
    kept = tuple((f.name, Column(i, f.type, f.nullable)) for i, f in enumerate(anchor.schema))
    return Translated(Map(rows, kept), attributes)


def _is_linear(term: Term, name: str) -> bool:
    """Does every row of the relation give what it would give alone?"""

    def by_row(node: Term, inputs: tuple[bool | None, ...]) -> bool | None:
        """None where the relation is not read, and nothing matters."""
        if isinstance(node, Source):
            return True if node.name == name else None
        read = [each for each in inputs if each is not None]
        if not read:
            return None
        match node:
            case Map() | Filter() | FlatMap() | Negate():
                return all(read)
            case UnionAll():
                return all(read) and len(read) == len(inputs)
            case Join():
                return all(read) and len(read) == 1
            case SemiJoin() | OuterJoin():
                return all(read) and inputs[1] is None
        return False

    return fold(term, lambda node: node.children, by_row) is not False


def _next_level(translator: Translator, term: Term) -> Term:
    """The rows with the level in their last column, one level later."""
    catalyst = translator.catalyst
    attributes = [catalyst.attribute(f.name, f.type) for f in term.schema]
    later = catalyst.expression("Add")(attributes[-1], catalyst.literal("1"))
    kept = [(f.name, Column(i, f.type, f.nullable)) for i, f in enumerate(term.schema)]
    return Map(term, (*kept[:-1], (STAMP, translator.scalar(later, attributes))))


def union_loop_reference(translator: Translator, plan: JavaObject) -> Translated:
    attributes = tuple(items(plan.output()))
    fields = [Field(str(a.name()), type_of(a), True) for a in attributes]
    return Translated(
        Source(translator.loops[int(plan.loopId())], Schema(tuple(fields))), attributes
    )


def _like(term: Term, other: Term) -> Term:
    """The term with the column names of another."""
    names = other.schema.names
    fields = enumerate(term.schema.fields)
    return Map(term, tuple((names[i], Column(i, f.type, f.nullable)) for i, f in fields))
