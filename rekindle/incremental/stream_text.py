"""Circuits as text, in the paper's symbols.

A circuit is an expression; a node with inputs of its own that is used more than once gets a
number, and a line above the line that uses it first:

    #1 = ↑π[x, id](↑σ[greater($2:int, 2:int):boolean](t1))
    ↑H[distinct](z⁻¹(I(#1)), #1)
"""

from __future__ import annotations

from collections import Counter
from typing import assert_never

from rekindle.calculus.scalars import Scalar
from rekindle.calculus.terms import (
    Aggregate,
    Answer,
    Body,
    Constant,
    Distinct,
    Filter,
    Fix,
    FlatMap,
    Generator,
    Join,
    Map,
    Negate,
    OuterJoin,
    Padded,
    PerGroup,
    SemiJoin,
    Source,
    Term,
    Triggered,
    UnionAll,
)
from rekindle.incremental.stream import (
    Apply,
    Delay,
    Differentiate,
    Incremental,
    Input,
    Integrate,
    Stream,
    Sum,
    Update,
)
from rekindle.incremental.traversal import nodes


def stream_text(stream: Stream) -> str:
    """The circuit as an expression, with shared parts numbered.

    >>> from rekindle.calculus.schema import Schema
    >>> t = Source("t", Schema.of(x="int"))
    >>> print(stream_text(Differentiate(Apply(Distinct(t), (Integrate(Input(t)),)))))
    D(↑distinct(I(t)))
    """
    ordered = nodes(stream)
    uses = Counter(id(child) for node in ordered for child in node.inputs)
    texts: dict[int, str] = {}
    lines: list[str] = []
    for node in ordered:
        text = _node_text(node, [texts[id(child)] for child in node.inputs])
        if uses[id(node)] > 1 and node.inputs:
            lines.append(f"#{len(lines) + 1} = {text}")
            text = f"#{len(lines)}"
        texts[id(node)] = text
    return "\n".join([*lines, texts[id(ordered[-1])]])


def _node_text(node: Stream, inputs: list[str]) -> str:
    listed = ", ".join(inputs)
    match node:
        case Input():
            return operator_symbol(node.source)
        case Apply():
            return f"↑{operator_symbol(node.operator)}({listed})"
        case Incremental():
            return f"(↑{operator_symbol(node.operator)})^Δ({listed})"
        case Update():
            return f"↑H[{operator_symbol(node.operator)}]({listed})"
        case Integrate():
            return f"I({listed})"
        case Differentiate():
            return f"D({listed})"
        case Delay():
            return f"z⁻¹({listed})"
        case Sum():
            return " + ".join(map(_summand, node.inputs, inputs))
        case _:
            assert_never(node)


def _summand(node: Stream, text: str) -> str:
    return f"({text})" if isinstance(node, Sum) and " + " in text else text


_SEMI_JOINS = {Answer.MATCHED: "⋉", Answer.UNMATCHED: "▷", Answer.MARKED: "⋉?"}


def _shown(scalar: Scalar | Generator | Body) -> str:
    """An opaque scalar as its front end shows it to people."""
    return str(getattr(scalar, "display", scalar.text))


def operator_symbol(operator: Term) -> str:
    """The paper's symbol of the operator at the root of a term, with what sets it apart."""
    match operator:
        case Source():
            return operator.name
        case Constant():
            return f"constant[{', '.join(operator.schema.names)}]"
        case Map():
            return f"π[{', '.join(name for name, _ in operator.outputs)}]"
        case Filter():
            return f"σ[{_shown(operator.predicate)}]"
        case FlatMap():
            return f"flatmap[{_shown(operator.generator)}]"
        case UnionAll():
            return "+"
        case Negate():
            return "−"
        case Join():
            return "⋈" if operator.left_keys else "×"
        case SemiJoin():
            return _SEMI_JOINS[operator.answer]
        case OuterJoin():
            return "⟕" if operator.padded is Padded.RIGHT else "⟗"
        case Distinct():
            return "distinct"
        case Aggregate():
            keys = ", ".join(name for name, _ in operator.keys)
            measures = ", ".join(measure.name for measure in operator.measures)
            return f"γ[{keys}; {measures}]"
        case PerGroup():
            names = operator.child.schema.names
            keys = ", ".join(names[i] for i in operator.keys)
            return f"group[{keys}; {_shown(operator.body)}]"
        case Fix():
            return f"μ[{', '.join(operator.names)}]"
        case Triggered():
            return f"triggers[{', '.join(operator.schema.names)}]"
        case _:
            assert_never(operator)
