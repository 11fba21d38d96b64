"""Fixpoints as terms: each step is called once, on a leaf without rows that it iterates.

Where a step uses another fixpoint, that one's step is called in the same way, and what it gives is
a leaf again, for which the term of the outer step has its term. The plans of all of them are kept
with the view (`recomputing.py`).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from rekindle.calculus.terms import Fix, Source, Term, replaced, sources
from rekindle.catalyst.jvm import JavaObject
from rekindle.errors import DefinitionError
from rekindle.frontends.catalog import Assume, Catalog
from rekindle.frontends.dataframes.plans import marked
from rekindle.frontends.fixpoints.definition import Nested
from rekindle.frontends.fixpoints.fixpoint import Fixpoint, read_by


@dataclass(slots=True)
class FixpointReader:
    """Reads the fixpoints of one view; names are `assume`d for as long as that takes."""

    view: str
    catalog: Catalog
    assume: Assume
    nested: list[Nested] = field(default_factory=list)
    _plans: dict[str, tuple[JavaObject, JavaObject]] = field(default_factory=dict)
    _terms: dict[str, Term] = field(default_factory=dict)
    _around: list[str] = field(default_factory=list)
    """What is iterated around the place that is being read."""
    _known: dict[int, tuple[Fixpoint, DataFrame]] = field(default_factory=dict)
    _called: Counter[str] = field(default_factory=Counter)

    def read(self, fixpoint: Fixpoint) -> Term:
        """The term of the outermost fixpoint."""
        return self._term(self.iterated, self.view, fixpoint)

    @property
    def iterated(self) -> str:
        """What the outermost step calls the relation that it gets."""
        return f"·{self.view}"

    @property
    def plans(self) -> list[JavaObject]:
        """The plans of the outermost fixpoint and of the nested ones: the initial one, the step."""
        names = [self.iterated, *(nested.iterated for nested in self.nested)]
        return [plan for name in names for plan in self._plans[name]]

    def _term(self, iterated: str, words: str, fixpoint: Fixpoint) -> Fix:
        schema = fixpoint.initial.schema
        self.assume(iterated, schema)
        seed = self._translated(fixpoint.initial)
        self._around.append(iterated)
        with read_by(self._relation):
            after = fixpoint.step(self._leaf(iterated))
            if isinstance(after, Fixpoint):
                after = after.dataframe()
        _check(words, schema, after)
        body = self._translated(after)
        self._around.pop()
        self._plans[iterated] = (self._kept(fixpoint.initial), self._kept(after))
        return Fix((iterated,), (body,), (seed,), limit=fixpoint.iterations)

    def _relation(self, fixpoint: Fixpoint) -> DataFrame:
        """What a fixpoint inside a step gives, as a leaf; the same one when it is asked again."""
        if id(fixpoint) not in self._known:
            words = self._words(fixpoint)
            term = self._term(f"·{words}", words, fixpoint)
            result = f"·{words}·result"
            around = tuple(name for name in self._around if name in sources(term))
            self.nested.append(Nested(f"·{words}", result, fixpoint.iterations, around))
            self._terms[result] = term
            self.assume(result, fixpoint.initial.schema)
            self._known[id(fixpoint)] = fixpoint, self._leaf(result)
        return self._known[id(fixpoint)][1]

    def _words(self, fixpoint: Fixpoint) -> str:
        """What to call a fixpoint inside a step: by its function, and apart from others."""
        name = str(getattr(fixpoint.step, "__name__", ""))
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


def _check(words: str, before: StructType, after: object) -> None:
    """Raise unless a step gives a relation of the type that it got."""
    if not isinstance(after, DataFrame):
        raise DefinitionError(
            f"the step of '{words}' gives a {type(after).__name__}",
            hint="return the DataFrame, or the rekindle.fixpoint(...), that the iteration goes to",
        )
    one, other = ([f.dataType for f in schema.fields] for schema in (before, after.schema))
    if one != other:
        raise DefinitionError(
            f"the step of '{words}' gives other columns than its initial relation has",
            detail=f"{before.simpleString()} against {after.schema.simpleString()}",
            hint="select and cast in the step what the initial relation has",
        )
