"""What the analyses of MRQL say of a view's query: its paths, judgements, states, merge, answer."""

from __future__ import annotations

from collections.abc import Iterator

from rekindle.errors import RekindleError
from rekindle.frontends.catalog import Catalog
from rekindle.frontends.mrql.definition import MrqlDefinition
from rekindle.frontends.mrql.reading import compiled, read_query
from rekindle.mrql_language import terms as t
from rekindle.mrql_language.iteration import iteration
from rekindle.mrql_language.normalise import normalise
from rekindle.mrql_language.split import Changes, split
from rekindle.mrql_language.text import text
from rekindle.mrql_language.unnest import unnest


def explained(definition: MrqlDefinition, catalog: Catalog) -> str:
    """How a query is kept on the engine, and how the theory splits it; each with its judgements."""
    return "\n".join(_lines(definition, catalog))


def _iterates(term: t.Term) -> bool:
    return isinstance(term, t.Repeat) or any(map(_iterates, t.children(term)))


def _lines(definition: MrqlDefinition, catalog: Catalog) -> Iterator[str]:
    try:
        query = read_query(
            definition.written, catalog, definition.definitions, dict(definition.sources)
        )
        paths = compiled(query, catalog, "").paths
        term = normalise(unnest(query.term))
    except RekindleError as error:
        yield f"its tables have changed since: {error.message}"
        return
    yield f"term: {text(term)}"
    yield "on the engine: joins by the rule of bilinear operators, groups by their keys"
    for path in paths:
        yield f"  {path}"
    if _iterates(term):
        yield "iteration: exact, the view is what the repeat gives from scratch, up to rounding"
    yield "as a homomorphism, a merge and an answer, for any join:"
    try:
        found = split(term, changes=Changes.INSERTIONS)
    except RekindleError as error:
        yield f"  not split: {error.message}"
        return
    for component in found.components:
        for judgement in component.judgements:
            for line in judgement.lines():
                yield f"  {line}"
    for line in str(found).splitlines():
        yield f"  {line}"
    if isinstance(term, t.Repeat):
        yield from _of_step(term)


def _of_step(term: t.Repeat) -> Iterator[str]:
    """The step of an iteration as the theory splits it, with how its states diffuse."""
    try:
        step = iteration(term)
    except RekindleError as error:
        yield f"its step is not split: {error.message}"
        return
    variable = step.variable.partition(".")[0]
    yield f"its step, a query over {variable} too; the approximate algorithm would follow it so:"
    for component in step.step.components:
        for judgement in component.judgements:
            for line in judgement.lines():
                yield f"  {line}"
    for line in str(step).splitlines():
        yield f"  {line}"
    for component in step.without_key:
        yield f"  but {component.name} has no key to be followed by"
