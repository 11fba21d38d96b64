"""Queries of a WITH clause that are read more than once, each read as a query of its own.

Spark puts the query of a name in every place where the name stands. A clause in which each query
reads the one before twice becomes a plan of 2ⁿ leaves, which the optimiser, the translation and
every recomputation walk through. Where a clause is of that kind, a name that is read more than once
becomes an opaque leaf, as tables are, and its query is resolved, optimised and translated once; in
the term of the whole it is one subterm.

What that costs: a condition on one of the uses is not pushed into the query. Columns that no use
reads are left out all the same. So a clause is divided only if it would grow far beyond its text,
and any other is optimised as a whole.

A clause at the head of the query is what is divided, not one inside a subquery, none that is
recursive, and none with a name that a table or view has too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame

from rekindle.calculus.walks import visited
from rekindle.catalyst.jvm import (
    Catalyst,
    JavaObject,
    analysed_plan,
    child_of,
    children_of,
    id_of,
    ids_read,
    items,
    simple_name,
)
from rekindle.frontends.spark_sql.analyse import Leaves, leaf_number, optimise, resolve
from rekindle.frontends.spark_sql.rewriting import rewritten
from rekindle.frontends.spark_sql.translate import Shared, Translator
from rekindle.frontends.spark_sql.translated import Translated

MOST_INLINE = 256
"""So many nodes may a plan have for Spark to put every name's query in its places."""
MOST_TIMES = 4
"""It may also have so many times the nodes of its text."""

_READ = re.compile(r"UnresolvedRelation \[([^\]\n]*)\]")
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Divided:
    """A query and its parts, unresolved; each reads the parts before it by their names.

    There are none where a query is not divided.
    """

    parts: tuple[tuple[str, JavaObject], ...]
    rest: JavaObject


@dataclass(frozen=True, slots=True)
class Part:
    """The resolved query of a name, and the number of the leaf that stands for it."""

    frame: DataFrame
    leaf: int


@dataclass(frozen=True, slots=True)
class _Relation:
    """A name of the clause with its query, and what the text of that shows."""

    name: str
    plan: JavaObject
    text: str

    def reads(self, names: Mapping[str, int]) -> Iterator[int]:
        """The relations before that it reads, each as often as it stands there."""
        found = (read.lower() for read in _READ.findall(self.text))
        return (names[read] for read in found if read in names)

    @property
    def size(self) -> int:
        return self.text.count("\n") + 1


def divided(catalyst: Catalyst, plan: JavaObject, known: Iterable[str]) -> Divided:
    """A query with the parts that are to be read once; `known` are the tables and views."""
    if simple_name(plan) != "UnresolvedWith" or plan.allowRecursion():
        return Divided((), plan)
    relations = [
        _Relation(str(relation._1()).lower(), relation._2(), str(relation._2().toString()))
        for relation in items(plan.cteRelations())
    ]
    body = _Relation("", plan.child(), str(plan.child().toString()))
    names = [relation.name for relation in relations]
    taken = {name.lower() for name in known}
    if len(set(names)) < len(names) or not taken.isdisjoint(names):
        return Divided((), plan)
    shared = _shared([*relations, body])
    if not shared:
        return Divided((), plan)
    inline = [None if i in shared else relation for i, relation in enumerate(relations)]
    found = items(plan.cteRelations())

    def within(place: int, query: JavaObject, text: str) -> JavaObject:
        """A query under the names before it that it needs and that are no parts."""
        wanted = _needed(text, inline[:place])
        if not wanted:
            return query
        return catalyst.plan("UnresolvedWith")(query, catalyst.seq(found[i] for i in wanted), False)

    parts = tuple(
        (str(found[i]._1()), within(i, relations[i].plan, relations[i].text))
        for i in sorted(shared)
    )
    return Divided(parts, within(len(relations), body.plan, body.text))


def _shared(relations: Sequence[_Relation]) -> set[int]:
    """The relations to read once; none if the whole stays about as large as its text."""
    uses = [0] * len(relations)
    sizes: list[int] = []
    names: dict[str, int] = {}
    for place, relation in enumerate(relations):
        read = list(relation.reads(names))
        for each in read:
            uses[each] += 1
        sizes.append(relation.size + sum(sizes[each] for each in read))
        names[relation.name] = place
    written = sum(relation.size for relation in relations)
    if sizes[-1] <= max(MOST_INLINE, MOST_TIMES * written):
        return set()
    return {place for place, count in enumerate(uses) if count > 1}


def _needed(text: str, relations: Sequence[_Relation | None]) -> list[int]:
    """The places of the relations that a text mentions, or one that it needs does."""
    words = set(_words(text))
    found: list[int] = []
    for place in reversed(range(len(relations))):
        relation = relations[place]
        if relation is not None and words.issuperset(_words(relation.name)):
            found.append(place)
            words.update(_words(relation.text))
    return found[::-1]


def resolve_parts(
    catalyst: Catalyst, leaves: Leaves, query: Divided, scope: Mapping[str, JavaObject]
) -> tuple[DataFrame, tuple[Part, ...]]:
    """The DataFrame of a divided query, and its parts, which it reads as leaves."""
    parts: list[Part] = []
    whole = dict(scope)
    for name, plan in query.parts:
        frame = resolve(catalyst, plan, _mentioned(plan, whole), leaves.plans)
        leaf, number = leaves.opaque(analysed_plan(frame).schema())
        parts.append(Part(frame, number))
        whole[name] = leaf
    rest = resolve(catalyst, query.rest, _mentioned(query.rest, whole), leaves.plans)
    return rest, tuple(parts)


def _mentioned(plan: JavaObject, scope: Mapping[str, JavaObject]) -> dict[str, JavaObject]:
    """The names of a scope that occur in an unresolved plan: one in all would be read n times."""
    words = set(_words(str(plan.toString())))
    return {name: leaf for name, leaf in scope.items() if words.issuperset(_words(name))}


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def evaluate_parts(
    catalyst: Catalyst,
    query: Divided,
    scope: Mapping[str, JavaObject],
    known: Iterable[str],
    cut: Callable[[DataFrame], DataFrame],
) -> DataFrame:
    """The DataFrame of a query over rows; `cut` makes a frame of a small plan of that of a part."""
    whole = dict(scope)
    for name, plan in query.parts:
        rows = cut(resolve(catalyst, plan, _mentioned(plan, whole), known))
        whole[name] = analysed_plan(rows)
    return resolve(catalyst, query.rest, _mentioned(query.rest, whole), known)


def translate_parts(translator: Translator, frame: DataFrame, parts: Sequence[Part]) -> Translated:
    """The term of a divided query; what its parts are is in it once for each part."""
    catalyst, leaves = translator.catalyst, translator.leaves
    plans = [rewritten(catalyst, leaves, optimise(catalyst, leaves, frame))]
    widths = {part.leaf: len(part.frame.columns) for part in parts}
    read: dict[int, set[int]] = {number: set() for number in widths}
    kept: dict[int, tuple[int, ...]] = {}
    # From the whole to what it reads: a part is asked for the columns that others read of it.
    for part in reversed(parts):
        for number, positions in _columns_read(plans[-1], widths).items():
            read[number] |= positions
        kept[part.leaf] = tuple(sorted(read[part.leaf])) or (0,)
        narrowed = _narrowed(catalyst, part, kept[part.leaf])
        plans.append(rewritten(catalyst, leaves, optimise(catalyst, leaves, narrowed)))
    translator.begin()
    for part, plan in zip(parts, reversed(plans), strict=False):
        term = translator.translate_rewritten(plan).term
        translator.shared[part.leaf] = Shared(term, kept[part.leaf])
    return translator.translate_rewritten(plans[0])


def _narrowed(catalyst: Catalyst, part: Part, kept: Sequence[int]) -> DataFrame:
    """The frame of a part with the columns that are read."""
    plan = analysed_plan(part.frame)
    columns = items(plan.output())
    if len(kept) == len(columns):
        return part.frame
    chosen = catalyst.seq(columns[i] for i in kept)
    return catalyst.dataframe(catalyst.plan("Project")(chosen, plan))


def _columns_read(plan: JavaObject, widths: Mapping[int, int]) -> dict[int, set[int]]:
    """The positions of the columns that an optimised plan reads of the leaves of these numbers.

    The optimiser has put a projection over every leaf of which not all columns are read. Subqueries
    are not looked into: a plan that still has some reads all columns of every leaf.
    """
    if not plan.subqueriesAll().isEmpty():
        return {number: set(range(width)) for number, width in widths.items()}
    read: dict[int, set[int]] = {number: set() for number in widths}
    projected: dict[int, set[int]] = {}
    for node in visited(plan, children_of):
        kind = simple_name(node)
        if kind == "Project":
            ids, below = ids_read(node), child_of(node)
            while simple_name(below) == "Filter":
                ids, below = ids | ids_read(below), child_of(below)
            projected[id(below)] = ids
        elif kind == "LogicalRDD" and (number := leaf_number(node)) in widths:
            wanted = projected.get(id(node))
            for position, column in enumerate(items(node.output())):
                if wanted is None or id_of(column) in wanted:
                    read[number].add(position)
    return read
