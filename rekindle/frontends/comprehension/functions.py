"""Functions that users name: `(m, n) -> n.gen = m.gen`, for use in comprehensions.

The parameters of a function have no types of their own: its body is read at each use, with rows,
scalars or collections in their place, and sees nothing else of the text that uses it. So a function
may be used on rows of any table that has the fields it asks for. It may use others, and not itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from rekindle.errors import DefinitionError, StatementError
from rekindle.frontends.comprehension.parse import parse
from rekindle.frontends.comprehension.syntax import (
    Call,
    Collect,
    Expression,
    Flatten,
    For,
    Generator,
    Group,
    Let,
    Negate,
    Path,
    Place,
    Quantified,
    Scalar,
    Tuple,
    Union,
)
from rekindle.names import QUOTED, unquoted

_NAME = rf"(?:[^\W\d]\w*|{QUOTED})"
_HEAD = re.compile(rf"\s*(?:\(\s*((?:{_NAME}\s*,\s*)*{_NAME})?\s*\)|({_NAME}))\s*->\s*")
WORDS = frozenset(
    ["collect", "exists", "flatten", "for", "forall", "in", "let", "negate", "union", "yield"]
)
"""What means something else in a comprehension when a bracket follows."""


@dataclass(frozen=True, slots=True)
class Function:
    """A named function: its parameters and its body, as they are written."""

    name: str
    parameters: tuple[str, ...]
    body: Expression
    text: str

    @property
    def head(self) -> str:
        """How it is called, for people."""
        return f"{self.name}({', '.join(self.parameters)})"


@lru_cache(maxsize=1024)
def read_function(name: str, text: str) -> Function:
    """The function that a text such as `(m, n) -> n.gen = m.gen` stands for.

    >>> read_function("older", "(a, b) -> a.year < b.year").head
    'older(a, b)'
    """
    found = _HEAD.match(text)
    if found is None:
        raise StatementError(
            f"the definition of function '{name}' cannot be read",
            detail=f"it begins with: {text.strip()[:40]}",
            hint="write its parameters and its body, such as (m, n) -> n.gen = m.gen",
        )
    names = found[2] or found[1] or ""
    parameters = tuple(unquoted(each) for each in re.findall(_NAME, names))
    lowered = [each.lower() for each in parameters]
    for each in lowered:
        if lowered.count(each) > 1:
            raise Place(1, 1, text).error(f"function '{name}' has two parameters '{each}'")
    return Function(name, parameters, parse(text, found.end()), text)


def used(expression: Expression, texts: Mapping[str, str]) -> dict[str, Function]:
    """The functions that an expression uses, also through others, by their names in lower case.

    `texts` has all that there are. Raises where one uses itself.

    >>> from rekindle.frontends.comprehension.parse import parse
    >>> texts = {"f": "(x) -> g(x) + 1", "g": "(x) -> 2 * x", "h": "(x) -> x"}
    >>> [each.head for each in used(parse("for r in t yield F(r.a)"), texts).values()]
    ['g(x)', 'f(x)']
    """
    known = {name.lower(): name for name in texts}
    found: dict[str, Function] = {}

    def visit(inner: Expression, above: tuple[str, ...]) -> None:
        for call in calls(inner):
            key = call.name.lower()
            if key not in known or key in found:
                continue
            function = read_function(known[key], texts[known[key]])
            if key in above:
                way = " -> ".join(known[each] for each in (*above[above.index(key) :], key))
                raise call.place.error(
                    f"function '{known[key]}' uses itself",
                    f"{way}; what is recursive is written as a view (WITH RECURSIVE, Datalog)",
                )
            visit(function.body, (*above, key))
            found[key] = function

    visit(expression, ())
    return found


def checked(name: str, text: str, texts: Mapping[str, str]) -> dict[str, str]:
    """All functions when `name` is defined by a text; raises unless that can be."""
    if not re.fullmatch(r"[^\W\d]\w*", name) or name.lower() in WORDS:
        raise DefinitionError(
            f"'{name}' is not a name for a function",
            hint="it consists of letters, digits and _, and is no word of comprehensions",
        )
    function = read_function(name, text)
    after = {**texts, name: text}
    place = Place(1, 1, text)
    used(Call(name, tuple(Path((each,), place) for each in function.parameters), place), after)
    return after


def calls(expression: Expression) -> Iterator[Call]:
    """Every call in an expression, also those in its parts."""
    waiting: list[Expression | Generator] = [expression]
    while waiting:
        match waiting.pop():
            case Call(_, arguments) as call:
                yield call
                waiting += arguments
            case Path():
                pass
            case For(generators, key, value):
                waiting += [*generators, key] if value is None else [*generators, key, value]
            case Collect(generators, body):
                waiting += [*generators, body]
            case Generator(_, source, condition):
                waiting += [source] if condition is None else [source, condition]
            case Let(_, bound, body):
                waiting += [bound, body]
            case Union(parts):
                waiting += parts
            case Negate(inner) | Flatten(inner) | Group(inner):
                waiting.append(inner)
            case Tuple(fields):
                waiting += [value for _, value in fields]
            case Quantified(_, generator):
                waiting.append(generator)
            case Scalar(pieces):
                waiting += [piece for piece in pieces if not isinstance(piece, str)]
