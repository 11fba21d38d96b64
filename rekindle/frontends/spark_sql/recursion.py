"""WITH RECURSIVE: Catalyst's loop as a recursion of the calculus.

Spark unites the rows of an anchor with what the recursive part makes of the rows of the iteration
before, until there are none. The recursive part is linear in the relation (Spark allows nothing
else), so this is the relation that equals its anchor and its recursive part together, as bags.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rekindle.calculus.scalars import Column
from rekindle.calculus.schema import Field, Schema
from rekindle.calculus.terms import Fix, Map, Source, Term, UnionAll
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
    body = UnionAll((anchor, _like(recursion, anchor)))
    return Translated(Fix((name,), (body,), limit=int(str(levels))), tuple(items(plan.output())))


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
