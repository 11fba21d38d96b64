"""Replacing parts of terms without a variable coming under the wrong binder.

`rebuilt` gives a node other children; its constructor checks the types again. `substitute` replaces
variables, or whole paths such as m.name, and renames what is bound in between where names would
meet. After `renamed_apart` no name is bound twice, so that scopes need not be minded any more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeVar, cast

from rekindle.nested.terms import (
    Apply,
    Dictionary,
    Field,
    For,
    FromKey,
    KeyTerm,
    KeyVariable,
    LabelDictionary,
    Let,
    MakeRecord,
    MakeRingRecord,
    Measure,
    NewLabel,
    RingTerm,
    Singleton,
    Term,
    ToKey,
    Variable,
    children,
    free_variables,
)

T = TypeVar("T", RingTerm, KeyTerm, Term)


def rebuilt(term: Term, below: tuple[Any, ...]) -> Term:
    """The node with other children."""
    if all(new is old for new, old in zip(below, children(term), strict=True)):
        return term
    match term:
        case MakeRingRecord(fields):
            names = (name for name, _ in fields)
            return MakeRingRecord(tuple(zip(names, below, strict=True)))
        case MakeRecord(fields) | NewLabel(_, fields):
            names = (name for name, _ in fields)
            return replace(term, fields=tuple(zip(names, below, strict=True)))
        case Let():
            return replace(term, value=below[0], body=below[1])
        case For():
            return replace(term, source=below[0], body=below[1])
        case Dictionary() | LabelDictionary():
            return replace(term, body=below[0])
        case Singleton():
            return Singleton(*below)
        case FromKey():
            return FromKey(*below)
        case Field(_, name):
            return Field(below[0], name)
        case Apply(function):
            return Apply(function, below)
        case ToKey(index):
            return ToKey(index, below[0])
        case Measure():
            return replace(term, collection=below[0])
    if hasattr(term, "left"):
        return cast(Term, type(term)(*below))
    first = next(iter(type(term).__dataclass_fields__))
    return cast(Term, replace(term, **{first: below[0]})) if below else term


def substitute(term: T, replacements: Mapping[Term, Term]) -> T:
    """The term with other terms in place of free variables, or of paths from them.

    >>> from rekindle.nested.types import Record, Scalar
    >>> m = KeyVariable("m", Record((("name", Scalar("string")),)))
    >>> substitute(Field(m, "name"), {Field(m, "name"): KeyVariable("n", Scalar("string"))}).name
    'n'
    """
    return cast(T, _substituted(term, replacements))  # type: ignore[redundant-cast]


def _substituted(term: Term, replacements: Mapping[Term, Term]) -> Term:
    if term in replacements:
        return replacements[term]
    bound = binds(term)
    if not bound:
        return rebuilt(term, tuple(_substituted(below, replacements) for below in children(term)))
    *outside, body = children(term)
    inner = {old: new for old, new in replacements.items() if not free_variables(old) & set(bound)}
    taken = {variable.name for new in inner.values() for variable in free_variables(new)}
    clashing = [variable for variable in bound if variable.name in taken]
    if clashing and inner:
        names = {v.name for v in free_variables(body)} | taken | {v.name for v in bound}
        for variable in clashing:
            fresh = replace(variable, name=fresh_name(variable.name, names))
            names.add(fresh.name)
            term, body = _rebound(term, variable, fresh), _substituted(body, {variable: fresh})
    done = (*(_substituted(below, replacements) for below in outside), _substituted(body, inner))
    return rebuilt(term, done)


def binds(term: Term) -> tuple[KeyVariable | Variable, ...]:
    """The variables that a node binds in its last child."""
    match term:
        case Let(variable) | For(variable) | Dictionary(variable):
            return (variable,)
        case LabelDictionary(_, parameters):
            return parameters
        case _:
            return ()


def _rebound(term: Term, old: KeyVariable | Variable, new: KeyVariable | Variable) -> Term:
    """The binder with another variable; its body does not read that one yet."""
    match term, new:
        case Let(), Variable():
            return replace(term, variable=new)
        case For() | Dictionary(), KeyVariable():
            return replace(term, variable=new)
        case LabelDictionary(_, parameters), KeyVariable():
            changed = tuple(new if each == old else each for each in parameters)
            return replace(term, parameters=changed)
    raise AssertionError(f"{type(term).__name__} does not bind '{old.name}'")


def fresh_name(name: str, taken: Collection[str]) -> str:
    """The name, or the first of name_2, name_3, .. that is not taken.

    >>> fresh_name("m", {"m", "m_2"})
    'm_3'
    """
    if name not in taken:
        return name
    number = 2
    while f"{name}_{number}" in taken:
        number += 1
    return f"{name}_{number}"


def renamed_apart(term: T) -> T:
    """The term with a different name for every variable that it binds."""
    taken = {variable.name for variable in free_variables(term)}
    return cast(T, _apart(term, taken))  # type: ignore[redundant-cast]


def _apart(term: Term, taken: set[str]) -> Term:
    bound = binds(term)
    if not bound:
        return rebuilt(term, tuple(_apart(below, taken) for below in children(term)))
    *outside, body = children(term)
    done = [_apart(below, taken) for below in outside]
    for variable in bound:
        fresh = replace(variable, name=fresh_name(variable.name, taken))
        taken.add(fresh.name)
        if fresh != variable:
            term, body = _rebound(term, variable, fresh), _substituted(body, {variable: fresh})
    return rebuilt(term, (*done, _apart(body, taken)))


def paths_read(term: Term) -> Iterator[KeyTerm]:
    """The rows that a term reads from outside, each as a variable or a path from one, in order.

    A path that is read as well as something below it is given once, as the shorter of the two.

    >>> from rekindle.nested.types import Record, Scalar
    >>> m = KeyVariable("m", Record((("name", Scalar("string")), ("year", Scalar("int")))))
    >>> [path.name for path in paths_read(MakeRecord((("n", Field(m, "name")),)))]
    ['name']
    """
    found = dict.fromkeys(_paths(term, frozenset()))
    for path in found:
        if not any(prefix in found for prefix in _prefixes(path)):
            yield path


def _paths(term: Term, bound: frozenset[str]) -> Iterator[KeyTerm]:
    root = _root(term)
    if isinstance(root, KeyVariable):
        if root.name not in bound:
            yield cast(KeyTerm, term)
        return
    inside = bound | {variable.name for variable in binds(term)}
    below = children(term)
    for position, each in enumerate(below, start=1):
        yield from _paths(each, inside if position == len(below) else bound)


def _root(term: Term) -> Term:
    while isinstance(term, Field):
        term = term.key
    return term


def _prefixes(path: KeyTerm) -> Iterator[KeyTerm]:
    while isinstance(path, Field):
        path = path.key
        yield path
