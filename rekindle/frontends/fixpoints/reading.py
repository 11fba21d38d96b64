"""Fixpoints as terms: each step is called once, on leaves without rows that it iterates.

Where a step uses another fixpoint, that one's step is called in the same way, and what it gives is
a leaf again, for which the term of the outer step has its term. The plans of all of them are kept
with the view (`recomputing.py`).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

from pyspark.sql import DataFrame
from pyspark.sql.types import BooleanType, StructType

from rekindle.calculus.terms import Fix, Source, Term, replaced, sources
from rekindle.calculus.while_loops import GOING_ON, while_any
from rekindle.catalyst.jvm import JavaObject
from rekindle.errors import DefinitionError
from rekindle.frontends.catalog import Assume, Catalog
from rekindle.frontends.dataframes.plans import marked
from rekindle.frontends.fixpoints.definition import Iterated, Nested
from rekindle.frontends.fixpoints.fixpoint import Fixpoint, Iteration, read_by


@dataclass(frozen=True, slots=True)
class _Read:
    """An iteration as a term, of whichever of its relations, and what is kept of it."""

    iterated: Iterated
    term: Fix
    plans: tuple[JavaObject, ...]
    """For each relation the first one and the step."""

    def of(self, output: int) -> Term:
        return replace(self.term, output=output)


@dataclass(slots=True)
class FixpointReader:
    """Reads the fixpoints of one view; names are `assume`d for as long as that takes."""

    view: str
    catalog: Catalog
    assume: Assume
    nested: list[Nested] = field(default_factory=list)
    _plans: list[JavaObject] = field(default_factory=list)
    """Those of `nested`."""
    _terms: dict[str, Term] = field(default_factory=dict)
    _around: list[str] = field(default_factory=list)
    """What is iterated around the place that is being read."""
    _known: dict[int, tuple[Iteration, dict[str, DataFrame]]] = field(default_factory=dict)
    _called: Counter[str] = field(default_factory=Counter)

    def read(self, fixpoint: Fixpoint) -> tuple[Iterated, int, Term, list[JavaObject]]:
        """The outermost fixpoint: what is iterated, which relation it is, its term, all plans.

        Of several relations the names do not say which view they are of: views of one iteration
        are one recursion.
        """
        iteration = fixpoint.iteration
        output = list(iteration.initial).index(fixpoint.relation)
        prefix = f"·{self.view}" if iteration.is_alone else "·"
        found = self._read(prefix, self.view, iteration)
        return found.iterated, output, found.of(output), [*found.plans, *self._plans]

    def _read(self, prefix: str, words: str, iteration: Iteration) -> _Read:
        first = iteration.initial
        names = {name: f"{prefix}{name}" for name in first}
        for name, frame in first.items():
            self.assume(names[name], frame.schema)
        seeds = tuple(map(self._translated, first.values()))
        self._around += names.values()
        with read_by(self._relation):
            leaves = {name: self._leaf(leaf) for name, leaf in names.items()}
            given = {
                name: after.dataframe() if isinstance(after, Fixpoint) else after
                for name, after in iteration.after(leaves, words).items()
            }
        steps = [
            _checked(f"{words}[{name!r}]" if name else words, frame.schema, given[name], iteration)
            for name, frame in first.items()
        ]
        tell = tuple(i for i, (_, tells) in enumerate(steps) if tells)
        if iteration.while_any is not None and not tell:
            raise DefinitionError(
                f"the step of '{words}' gives no column '{iteration.while_any}'",
                hint="while_any names a boolean column that the step gives besides those of the "
                "relation",
            )
        bodies = tuple(self._translated(frame) for frame, _ in steps)
        del self._around[-len(names) :]
        iterated = Iterated(tuple(names.values()), iteration.limit, iteration.bound, tell)
        plans = []
        for before, (after, _) in zip(first.values(), steps, strict=True):
            plans += [self._kept(before), self._kept(after)]
        return _Read(iterated, _term(iterated, bodies, seeds), tuple(plans))

    def _relation(self, fixpoint: Fixpoint) -> DataFrame:
        """What a fixpoint inside a step gives, as a leaf; the same one when it is asked again."""
        wanted, iteration = fixpoint.relation, fixpoint.iteration
        if id(iteration) not in self._known:
            words = self._words(iteration)
            prefix = f"·{words}" if iteration.is_alone else f"·{words}."
            found = self._read(prefix, words, iteration)
            results = tuple(f"{name}·result" for name in found.iterated.names)
            around = tuple(name for name in self._around if name in sources(found.term))
            self.nested.append(Nested(found.iterated, results, around))
            self._plans += found.plans
            leaves = {}
            for i, (name, first) in enumerate(iteration.initial.items()):
                self._terms[results[i]] = found.of(i)
                self.assume(results[i], first.schema)
                leaves[name] = self._leaf(results[i])
            self._known[id(iteration)] = iteration, leaves
        return self._known[id(iteration)][1][wanted]

    def _words(self, iteration: Iteration) -> str:
        """What to call a fixpoint inside a step: by its function, and apart from others."""
        name = str(getattr(iteration.step, "__name__", ""))
        called = name if name.isidentifier() else "inner"
        self._called[called] += 1
        number = self._called[called]
        return f"{self.view}.{called}" + (f"·{number}" if number > 1 else "")

    def _leaf(self, name: str) -> DataFrame:
        return self.catalog.catalyst.dataframe(self.catalog.leaves.plans[name])

    def _kept(self, frame: DataFrame) -> JavaObject:
        return marked(self.catalog.catalyst, self.catalog.leaves, frame)

    def _translated(self, frame: DataFrame) -> Term:
        around = set(self._around)
        results = [name for name, term in self._terms.items() if around & set(sources(term))]
        return self._with_terms(self.catalog.translate(frame, [*around, *results]))

    def _with_terms(self, term: Term) -> Term:
        return replaced(
            term, lambda node: self._terms.get(node.name) if isinstance(node, Source) else None
        )


def _term(iterated: Iterated, bodies: tuple[Term, ...], seeds: tuple[Term, ...]) -> Fix:
    names, limit, bound = iterated.names, iterated.limit, iterated.bound
    if not iterated.tell:
        return Fix(names, bodies, seeds, limit=limit, bound=bound)
    return while_any(names, bodies, seeds, iterated.tell, f"{names[0]}{GOING_ON}", limit, bound)


def _checked(
    words: str, before: StructType, after: object, iteration: Iteration
) -> tuple[DataFrame, bool]:
    """What a step gives of a relation of the type that it got, and whether it tells.

    The column that tells whether the iteration goes on is the last one then.
    """
    if not isinstance(after, DataFrame):
        raise DefinitionError(
            f"the step of '{words}' gives a {type(after).__name__}",
            hint="return the DataFrame, or the rekindle.fixpoint(...), that the iteration goes to",
        )
    schema, telling = after.schema, _telling(words, after.schema, iteration.while_any)
    values = [f.dataType for i, f in enumerate(schema.fields) if i != telling]
    if [f.dataType for f in before.fields] != values:
        raise DefinitionError(
            f"the step of '{words}' gives other columns than its initial relation has",
            detail=f"{before.simpleString()} against {schema.simpleString()}",
            hint="select and cast in the step what the initial relation has",
        )
    if telling is None or telling == len(schema) - 1:
        return after, telling is not None
    places = [*(i for i in range(len(schema)) if i != telling), telling]
    return after.select(*(after[i] for i in places)), True


def _telling(words: str, schema: StructType, name: str | None) -> int | None:
    """The place of the column that tells whether to go on."""
    if name is None or name not in schema.names:
        return None
    place = schema.names.index(name)
    if not isinstance(schema.fields[place].dataType, BooleanType):
        raise DefinitionError(
            f"the column '{name}' of the step of '{words}' is of the type "
            f"{schema.fields[place].dataType.simpleString()}",
            hint="while_any names a boolean column",
        )
    return place
