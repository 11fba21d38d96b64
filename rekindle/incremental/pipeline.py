"""Algorithm 4.6: from a term to the circuit that maintains it, one named step after another.

    1. translate              the front ends, which give the term
    2. eliminate_distincts    on the term
    3. lift                   from the term to a circuit of streams
       expand_derived         outer joins and the like become what defines them
    4. incrementalise         correct from here on
    5. apply_chain_rule       one incremental operator for each operator
       simplify_linear        then each by its class, and by its class alone
       simplify_bilinear
       simplify_per_key
       follow_triggers

Each step from 4 on maps a circuit on streams of changes to an equal one, which the tests check
after every step and not only after the last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from rekindle.calculus.nested_time import stamped_bodies
from rekindle.calculus.terms import Fix, Term
from rekindle.calculus.text import to_text
from rekindle.calculus.walks import visited
from rekindle.incremental.laws.apply_chain_rule import apply_chain_rule
from rekindle.incremental.laws.eliminate_distincts import eliminate_distincts
from rekindle.incremental.laws.expand_derived import expand_derived
from rekindle.incremental.laws.follow_triggers import follow_triggers
from rekindle.incremental.laws.incrementalise import incrementalise
from rekindle.incremental.laws.lift import lift
from rekindle.incremental.laws.simplify_bilinear import simplify_bilinear
from rekindle.incremental.laws.simplify_linear import simplify_linear
from rekindle.incremental.laws.simplify_per_key import simplify_per_key
from rekindle.incremental.stream import Stream
from rekindle.incremental.stream_text import stream_text
from rekindle.incremental.traversal import share

Step: TypeAlias = Callable[[Stream], Stream]

STEPS: tuple[Step, ...] = (
    incrementalise,
    apply_chain_rule,
    simplify_linear,
    simplify_bilinear,
    simplify_per_key,
    follow_triggers,
)
"""The steps on circuits, after `eliminate_distincts` and `lift`."""


def derive(term: Term) -> Stream:
    """The circuit from changes of the sources to changes of the term; equal nodes are shared.

    >>> from rekindle.calculus.schema import Schema
    >>> from rekindle.calculus.terms import Distinct, Source
    >>> print(stream_text(derive(Distinct(Source("t", Schema.of(x="int"))))))
    ↑H[distinct](z⁻¹(I(t)), t)
    """
    return share(intermediate_streams(term)[-1][1])


def derive_stamped(term: Term) -> Stream:
    """The same for a term over stamped rows, whose distincts are not those that rules know."""
    return share(_stepwise(term, STEPS)[-1][1])


def intermediate_streams(
    term: Term, steps: tuple[Step, ...] = STEPS
) -> tuple[tuple[str, Stream], ...]:
    """The circuit after each step on circuits, by the step's name."""
    return _stepwise(eliminate_distincts(term), steps)


def _stepwise(term: Term, steps: tuple[Step, ...]) -> tuple[tuple[str, Stream], ...]:
    stream = expand_derived(lift(term))
    streams = []
    for step in steps:
        stream = step(stream)
        streams.append((step.__name__, stream))
    return tuple(streams)


def trace_steps(term: Term) -> list[tuple[str, str]]:
    """The name of every step and what it gives, as text: terms first, then circuits."""
    rewritten = eliminate_distincts(term)
    return [
        ("translate", to_text(term)),
        ("eliminate_distincts", to_text(rewritten)),
        ("lift", stream_text(lift(rewritten))),
        *_expansion(lift(rewritten)),
        *_changing(intermediate_streams(term)),
        *(step for fix in _recursions(rewritten) for step in _scope(fix)),
    ]


def _changing(streams: tuple[tuple[str, Stream], ...]) -> Iterator[tuple[str, str]]:
    """The steps on circuits as text; that of triggers only where there are any."""
    shown = ""
    for name, stream in streams:
        text = stream_text(stream)
        if name != follow_triggers.__name__ or text != shown:
            yield name, text
        shown = text


def _recursions(term: Term) -> Iterator[Fix]:
    """The recursions in a term, each once."""
    waiting, seen = [term], set()
    while waiting:
        for found in visited(waiting.pop(), _outside_recursions):
            if isinstance(found, Fix) and found.names not in seen:
                seen.add(found.names)
                yield found
                waiting += stamped_bodies(found)


def _outside_recursions(term: Term) -> tuple[Term, ...]:
    return () if isinstance(term, Fix) else term.children


def _scope(fix: Fix) -> Iterator[tuple[str, str]]:
    """What runs at every iteration: the incremental form of each body, over rows with a stamp."""
    for name, body in zip(fix.names, stamped_bodies(fix), strict=True):
        yield f"inside μ: {name}", stream_text(derive_stamped(body))


def _expansion(lifted: Stream) -> list[tuple[str, str]]:
    """The step that expands derived operators, where there are any."""
    before, after = stream_text(lifted), stream_text(expand_derived(lifted))
    return [] if before == after else [("expand_derived", after)]
