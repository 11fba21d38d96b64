"""The kinds of values in a clause of Soufflé: number, unsigned, float or symbol.

Columns have declared kinds; a variable has that of a column where it stands, or of the expression
that it equals. An operator takes the widest kind of what it is applied to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tests.external.souffle_syntax import (
    TESTS,
    Aggregate,
    Anything,
    Argument,
    Atom,
    Call,
    Comparison,
    Constant,
    Declaration,
    Either,
    Literal,
    Variable,
)

Kinds = Mapping[str, str]
_WIDTH = ("number", "unsigned", "float", "symbol")
_RESULTS = {
    "cat": "symbol",
    "to_string": "symbol",
    "substr": "symbol",
    "strlen": "number",
    "to_number": "number",
    "to_unsigned": "unsigned",
    "to_float": "float",
}


def kinds_of(
    body: Sequence[Literal], relations: Mapping[str, Declaration], outer: Kinds | None = None
) -> dict[str, str]:
    """The kind of each variable of a body, as far as it can be told."""
    found = dict(outer or {})
    literals = list(_flat(body))
    for literal in literals:
        if isinstance(literal, Atom) and literal.name not in TESTS:
            for argument, kind in zip(
                literal.arguments, relations[literal.name].types, strict=True
            ):
                if isinstance(argument, Variable):
                    found.setdefault(argument.name, kind)
    while True:
        size = len(found)
        for literal in literals:
            if isinstance(literal, Comparison) and literal.operator == "=":
                for one, other in ((literal.left, literal.right), (literal.right, literal.left)):
                    known = isinstance(other, Aggregate) or variables(other) <= found.keys()
                    if isinstance(one, Variable) and one.name not in found and known:
                        found[one.name] = kind_of(other, found, relations)
        if len(found) == size:
            return found


def kind_of(argument: Argument, kinds: Kinds, relations: Mapping[str, Declaration]) -> str:
    """The kind of an expression's value."""
    match argument:
        case Variable(name):
            return kinds.get(name, "number")
        case Constant(_, kind):
            return kind
        case Call(name, arguments):
            return _RESULTS.get(name) or widest([kind_of(a, kinds, relations) for a in arguments])
        case Aggregate("count"):
            return "number"
        case Aggregate("mean"):
            return "float"
        case Aggregate(_, value, body):
            assert value is not None
            return kind_of(value, kinds_of(body, relations, kinds), relations)
        case Anything():
            return "number"


def widest(kinds: Sequence[str]) -> str:
    """The kind to which values of several kinds are brought."""
    return max(kinds, key=_WIDTH.index, default="number")


def variables(argument: Argument | Literal) -> set[str]:
    """The variables of an expression or a literal, except those inside aggregates."""
    match argument:
        case Variable(name):
            return {name}
        case Call(_, arguments) | Atom(_, arguments):
            return {name for a in arguments for name in variables(a)}
        case Comparison(_, left, right):
            return variables(left) | variables(right)
        case Either(options):
            return {name for option in options for x in option for name in variables(x)}
    return set()


def inner_variables(argument: Argument | Literal) -> set[str]:
    """The variables that stand inside aggregates, at any depth."""
    match argument:
        case Aggregate(_, value, body):
            parts: list[Argument | Literal] = [*body, *([] if value is None else [value])]
            return {n for part in parts for n in variables(part) | inner_variables(part)}
        case Call(_, arguments) | Atom(_, arguments):
            return {name for a in arguments for name in inner_variables(a)}
        case Comparison(_, left, right):
            return inner_variables(left) | inner_variables(right)
        case Either(options):
            return {name for option in options for x in option for name in inner_variables(x)}
    return set()


def _flat(body: Sequence[Literal]) -> Iterator[Literal]:
    for literal in body:
        if isinstance(literal, Either):
            for option in literal.options:
                yield from _flat(option)
        else:
            yield literal
