"""Fixpoints of DataFrame functions, also inside each other's steps: as terms, and from scratch.

A step is called once, on a leaf without rows that stands for what is iterated. Where it uses
another fixpoint, that one's step is called in the same way, and what it gives is a leaf again, for
which the term of the outer step has its term. The plans of all of them are kept with the view, so
that Spark can evaluate the whole from scratch: an inner fixpoint anew at every outer iteration.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from rekindle.calculus.terms import Fix, Source, Term, replaced, sources
from rekindle.catalyst.jvm import Catalyst, JavaObject
from rekindle.errors import DefinitionError
from rekindle.frontends.spark_sql.analyse import Leaves, optimise
from rekindle.frontends.spark_sql.translate import Translator
from rekindle.runtime.recursion import Fixpoint, Loop, Nested, fixed_point, read_by

Assume = Callable[[str, StructType], None]
Marked = Callable[[JavaObject], JavaObject]
Filled = Callable[[JavaObject, Callable[[str], DataFrame]], DataFrame]


@dataclass(slots=True)
class Reading:
    """Reads the fixpoints of one view; names are `assume`d for as long as that takes."""

    view: str
    catalyst: Catalyst
    leaves: Leaves
    translator: Translator
    assume: Assume
    marked: Marked
    nested: list[Nested] = field(default_factory=list)
    _plans: dict[str, tuple[JavaObject, JavaObject]] = field(default_factory=dict)
    _terms: dict[str, Term] = field(default_factory=dict)
    _around: list[str] = field(default_factory=list)
    """What is iterated around the place that is being read."""
    _known: dict[int, tuple[Fixpoint, DataFrame]] = field(default_factory=dict)
    _called: Counter[str] = field(default_factory=Counter)

    def read(self, fixpoint: Fixpoint) -> tuple[Loop, Term]:
        """The loop and the term of the outermost fixpoint."""
        iterated = f"·{self.view}"
        term = self._term(iterated, self.view, fixpoint)
        return Loop((iterated,), (), 0, fixpoint.iterations, tuple(self.nested)), term

    @property
    def plans(self) -> list[JavaObject]:
        """The plans of the outermost fixpoint and of the nested ones: the initial one, the step."""
        names = [f"·{self.view}", *(nested.iterated for nested in self.nested)]
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
        return self.catalyst.dataframe(self.leaves.plans[name])

    def _kept(self, frame: DataFrame) -> JavaObject:
        return self.marked(frame._jdf.queryExecution().analyzed())

    def _translated(self, frame: DataFrame) -> Term:
        around = set(self._around)
        results = [name for name, term in self._terms.items() if around & set(sources(term))]
        plan = optimise(self.catalyst, frame)
        term = self.translator.translate_query(plan, [*around, *results]).term
        return self._with_terms(term)

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


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Evaluates a fixpoint by Spark, one iteration after another."""

    catalyst: Catalyst
    filled: Filled
    contents: Callable[[str], DataFrame]
    inner: Mapping[str, tuple[Nested, JavaObject, JavaObject]]
    _found: dict[tuple[object, ...], tuple[list[DataFrame], DataFrame]] = field(
        default_factory=dict
    )
    """What inner fixpoints gave, by what they depend on, which is kept for as long."""

    @classmethod
    def of(
        cls,
        catalyst: Catalyst,
        filled: Filled,
        contents: Callable[[str], DataFrame],
        loop: Loop,
        plans: Sequence[JavaObject],
    ) -> Evaluation:
        """`plans` are those of `Reading.plans`."""
        pairs = zip(loop.nested, plans[2::2], plans[3::2], strict=True)
        inner = {nested.result: (nested, first, step) for nested, first, step in pairs}
        return cls(catalyst, filled, contents, inner)

    def rows(
        self,
        iterated: str,
        limit: int,
        initial: JavaObject,
        step: JavaObject,
        known: Mapping[str, DataFrame],
    ) -> DataFrame:
        """The end of an iteration, given what is `known` of those around it."""
        spark = self.catalyst.spark
        first = self.filled(initial, lambda name: self._given(name, known))

        def evaluate(_: str, values: Mapping[str, pa.Table]) -> pa.Table:
            now = {**known, iterated: spark.createDataFrame(values[iterated], first.schema)}
            return self.filled(step, lambda name: self._given(name, now)).toArrow()

        one = Loop((iterated,), ("",), 0, limit)
        found = fixed_point(one, {iterated: first.toArrow()}, evaluate)
        return spark.createDataFrame(found, first.schema)

    def _given(self, name: str, known: Mapping[str, DataFrame]) -> DataFrame:
        if name in known:
            return known[name]
        if name not in self.inner:
            return self.contents(name)
        nested, initial, step = self.inner[name]
        read = [known[around] for around in nested.around]
        key = (name, *map(id, read))
        if key not in self._found:
            found = self.rows(nested.iterated, nested.limit, initial, step, known)
            self._found[key] = read, found
        return self._found[key][1]


@contextmanager
def assuming(leaves: Leaves, nullable: Callable[[StructType], StructType]) -> Iterator[Assume]:
    """A way to make names known until the end."""
    names: list[str] = []

    def assume(name: str, schema: StructType) -> None:
        names.append(name)
        leaves.add(name, nullable(schema))

    try:
        yield assume
    finally:
        for name in names:
            leaves.remove(name)
