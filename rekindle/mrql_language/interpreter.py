"""What each term means, by the structural recursions of the paper on Python values.

This is the reference that every rewriting and every analysis is tested against; it is written to be
read, not to be fast.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from rekindle.errors import EvaluationError, RekindleError, UnknownNameError, iteration_limit
from rekindle.mrql_language import terms as t
from rekindle.mrql_language.arithmetic import convert, widest
from rekindle.mrql_language.functions import FUNCTIONS, component_of, field_of
from rekindle.mrql_language.monoids import SUM, Grouped, merge_all
from rekindle.mrql_language.syntax import placed
from rekindle.mrql_language.values import (
    Bag,
    Data,
    List,
    Long,
    Record,
    Value,
    elements,
    grouped,
    kind_of,
    sort_key,
)

MOST_STEPS = 10_000
"""So many has a repeat without a limit, as recursions of views have."""
Reader = Callable[[t.Source], Value]
"""Gives the contents of a source."""
Environment = Mapping[str, Value]
Outside = Callable[[str, Sequence[Value]], Value]
"""Gives the value of a function by its name."""


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the script; arguments and result are widened to the numbers it declares."""

    parameters: tuple[str, ...]
    kinds: tuple[str, ...]
    result: str
    body: t.Term


def no_sources(source: t.Source) -> Value:
    """A reader that has nothing to read."""
    raise UnknownNameError(f"the source '{source.name}' is not here")


def no_others(name: str, arguments: Sequence[Value]) -> Value:
    """A call of a function that the language does not have."""
    raise EvaluationError(f"'{name}' is a function of Spark, not of the language")


@dataclass(slots=True)
class Interpreter:
    """Evaluates terms; `functions` and `stored` may grow between evaluations."""

    read: Reader = no_sources
    functions: dict[str, Function] = field(default_factory=dict)
    stored: dict[str, Value] = field(default_factory=dict)
    outside: Outside = no_others
    """Evaluates functions that are not of the language."""
    _known: dict[tuple[object, ...], tuple[object, Value]] = field(default_factory=dict)
    _free: dict[int, tuple[t.Term, tuple[str, ...], bool]] = field(default_factory=dict)

    def once(self, term: t.Term) -> Value:
        """The value of a closed term; a collection within it that depends on collections only is
        evaluated once, unless chance is in it."""
        self._known, self._free = {}, {}
        try:
            return self.evaluate(term)
        except RecursionError:
            raise EvaluationError("the expression is nested too deeply to be evaluated") from None
        finally:
            self._known, self._free = {}, {}

    def _collection(self, term: t.Term, env: Environment) -> Value:
        """The value of what is mapped over, kept for the same collections."""
        if id(term) not in self._free:
            self._free[id(term)] = (term, tuple(sorted(t.free(term))), _is_steady(term))
        _, names, steady = self._free[id(term)]
        values = [env.get(name) for name in names]
        if not steady or not all(isinstance(value, Bag | List) for value in values):
            return self.evaluate(term, env)
        key = (id(term), *map(id, values))
        if key not in self._known:
            self._known[key] = (values, self.evaluate(term, env))
        return self._known[key][1]

    def apply(self, function: t.Lambda, argument: Value, env: Environment | None = None) -> Value:
        """The value of a function's body for an argument."""
        return self.evaluate(function.body, bound(function.shape, argument, env or {}))

    def evaluate(self, term: t.Term, env: Environment | None = None) -> Value:
        """The value of a term."""
        env = env if env is not None else {}

        def value(of: t.Term) -> Value:
            return self.evaluate(of, env)

        def cmap(function: t.Lambda, operand: Value) -> Bag:
            return Bag(
                b
                for a in elements(operand, "what is mapped over")
                for b in elements(self.apply(function, a, env), "what a row gives")
            )

        match term:
            case t.Var():
                if term.name not in env:
                    raise UnknownNameError(f"the variable '{term.name}' is not bound")
                return env[term.name]
            case t.Constant():
                return term.value
            case t.Stored():
                return self.stored[term.name]
            case t.Source():
                return self.read(term)
            case t.Read():
                arguments = tuple(value(part) for part in term.arguments)
                request = t.Request(term.parser, arguments)
                return self.read(t.Source(str(arguments[0]), term.kind, request))
            case t.Tuple():
                return tuple(value(item) for item in term.items)
            case t.MakeRecord():
                named = zip(term.labels, map(value, term.items), strict=True)
                return Record(tuple(named))
            case t.Project():
                return component_of(value(term.operand), term.index)
            case t.Field():
                of = value(term.operand)
                try:
                    return applied(term.name, field_of, [of, term.name])
                except RekindleError as error:
                    raise placed(error, term.place) from None
            case t.Call():
                return self._call(term, env)
            case t.Invoke():
                return self._invoke(term, [value(part) for part in term.arguments])
            case t.If():
                test = truth(value(term.condition), "a condition")
                return value(term.then if test else term.otherwise)
            case t.Match():
                found = matched(term.pattern, value(term.subject))
                if found is None:
                    return value(term.otherwise)
                return self.evaluate(term.body, {**env, **found})
            case t.Build():
                items = tuple(value(part) for part in term.arguments)
                return Data(term.order, term.constructor, items)
            case t.Lambda():
                return term
            case t.Let():
                return self.apply(term.function, value(term.value), env)
            case t.Braces():
                return Bag(widest(tuple(value(item) for item in term.items)))
            case t.Enumerate():
                return List(widest(tuple(value(item) for item in term.items)))
            case t.Union():
                left, right = value(term.left), value(term.right)
                both = (*elements(left, "a side of a union"), *elements(right, "a side of a union"))
                lists = isinstance(left, List) and isinstance(right, List)
                return List(both) if lists else Bag(both)
            case t.CMap():
                return cmap(term.function, self._collection(term.operand, env))
            case t.GroupBy():
                groups = grouped(elements(value(term.operand)))
                return Bag((key, Bag(group)) for key, group in groups.items())
            case t.CoGroup():
                left, right = grouped(value(term.left)), grouped(value(term.right))
                return Bag(
                    (key, (Bag(left.get(key, ())), Bag(right.get(key, ()))))
                    for key in dict.fromkeys((*left, *right))
                )
            case t.OrderBy():
                pairs = sorted(elements(value(term.operand)), key=lambda pair: sort_key(pair[0]))
                limit = None if term.limit is None else number_of(value(term.limit))
                return List(tuple(found for _, found in pairs[:limit]))
            case t.Reduce():
                return reduced(term.monoid, value(term.operand))
            case t.Repeat():
                return self._repeat(term, env)
            case t.SMap1():
                return Bag(
                    (lineage, b)
                    for lineage, a in value(term.operand)
                    for b in self.apply(term.function, (lineage[0], a), env)
                )
            case t.SMap2():
                return Bag(
                    (key, (lineage, b))
                    for lineage, a in value(term.operand)
                    for key, b in self.apply(term.function, (lineage[0], a), env)
                )
            case t.SMap3():
                return Bag(
                    (key, ((), b))
                    for a in value(term.operand)
                    for key, b in self.apply(term.function, a, env)
                )
            case t.Swap():
                return Bag(((key, lineage), v) for key, (lineage, v) in value(term.operand))
            case t.Forget():
                return Bag((key, ((), v)) for key, (_, v) in value(term.operand))
            case t.Mix():
                return Bag(
                    ((key, (a, b)), (Bag(xs), Bag(ys)))
                    for key, (left, right) in value(term.operand)
                    for a, xs in (grouped(left) or {(): []}).items()
                    for b, ys in (grouped(right) or {(): []}).items()
                )
            case t.KMap():
                return Bag(
                    (lineage, self.apply(term.function, v, env))
                    for lineage, v in value(term.operand)
                )

    def _call(self, term: t.Call, env: Environment) -> Value:
        if term.function in ("and", "or"):
            left = truth(self.evaluate(term.arguments[0], env), f"a side of '{term.function}'")
            if left == (term.function == "or"):
                return left
            return truth(self.evaluate(term.arguments[1], env), f"a side of '{term.function}'")
        arguments = [self.evaluate(argument, env) for argument in term.arguments]
        try:
            if term.function not in FUNCTIONS:
                return self.outside(term.function, arguments)
            return applied(term.function, FUNCTIONS[term.function], arguments)
        except RekindleError as error:
            raise placed(error, term.place) from None

    def _invoke(self, term: t.Invoke, arguments: list[Value]) -> Value:
        function = self.functions[term.function]
        env = {
            name: widened(kind, argument)
            for name, kind, argument in zip(
                function.parameters, function.kinds, arguments, strict=True
            )
        }
        try:
            return widened(function.result, self.evaluate(function.body, env))
        except RecursionError:
            raise EvaluationError(f"the function '{term.function}' recurs too deeply") from None

    def _repeat(self, term: t.Repeat, env: Environment) -> Value:
        """Steps until a stop test or the limit; the tests are those of each form (section 8)."""
        current = self.evaluate(term.start, env)
        limit = None if term.limit is None else number_of(self.evaluate(term.limit, env))
        if term.form == "tuple":
            for _ in range(limit or 0):
                current = self.apply(term.step, current, env)
            return current
        flagged = any(_is_flagged(element) for element in elements(current, "what is repeated"))
        size, steps = 0, 0
        while True:
            found = self.apply(term.step, current, env)
            steps += 1
            parts = elements(found, "what a step gives")
            if parts and not flagged and all(_is_flagged(part) for part in parts):
                current = type(found)(tuple(part for part, _ in parts))
                going = any(flag for _, flag in parts)
            else:
                current, going = found, len(parts) > size
                size = len(parts)
            if not going or (limit is not None and steps >= limit):
                return current
            if limit is None and steps >= MOST_STEPS:
                raise iteration_limit((_said(term.step.shape),), MOST_STEPS)


def _said(shape: t.Shape) -> str:
    """What the text calls that which is repeated."""
    return ", ".join(name.partition(".")[0] for name in t.variables(shape))


def applied(name: str, function: Callable[..., Value], arguments: Sequence[Value]) -> Value:
    """What a function gives; raises `EvaluationError` where it is not defined."""
    try:
        return function(*arguments)
    except re.error as error:
        raise EvaluationError(
            f"'{name}' is given a pattern that is none", detail=str(error)
        ) from None
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        kinds = ", ".join(map(kind_of, arguments))
        raise EvaluationError(f"'{name}' is not defined on ({kinds})") from None


def number_of(value: Value) -> int:
    """How many a limit says; none is fewer than 0."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise EvaluationError("a limit is a whole number", detail=f"found: {kind_of(value)}")
    return max(int(value), 0)


def _is_steady(term: t.Term) -> bool:
    """Whether a term has the same value each time, and is worth keeping."""
    if isinstance(term, t.Var):
        return False
    return not any(_is_chance(part) for part in _within(term))


def _within(term: t.Term) -> Iterator[t.Term]:
    yield term
    for part in t.children(term):
        yield from _within(part)


def _is_chance(term: t.Term) -> bool:
    return isinstance(term, t.Invoke) or (isinstance(term, t.Call) and term.function == "random")


def _is_flagged(value: Value) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], bool)


def reduced(monoid: object, values: Value) -> Value:
    """`reduce(⊕, X)`; whole numbers are added as long, reals as double."""
    parts = elements(values, "what is aggregated")
    if monoid == SUM:
        if not parts:
            return Long(0)
        parts = tuple(
            convert("double" if isinstance(part, float) else "long", part) for part in parts
        )
    elif not isinstance(monoid, Grouped):
        parts = widest(parts)
    return merge_all(monoid, parts)  # type: ignore[arg-type]


def bound(shape: t.Shape, value: Value, env: Environment) -> Environment:
    """The environment with what a shape takes apart."""
    if isinstance(shape, str):
        return {**env, shape: value}
    if not isinstance(value, tuple) or len(value) != len(shape):
        raise EvaluationError(
            f"a pattern of {len(shape)} components does not fit", detail=f"found: {kind_of(value)}"
        )
    for part, item in zip(shape, value, strict=True):
        env = bound(part, item, env)
    return env


def matched(pattern: t.Term, value: Value) -> dict[str, Value] | None:
    """What a pattern binds, or None where it does not match."""
    match pattern:
        case t.Var():
            return {pattern.name: value}
        case t.Constant():
            return {} if pattern.value == value else None
        case t.Build():
            fits = isinstance(value, Data) and value.constructor == pattern.constructor
            return _all_matched(pattern.arguments, value.items) if fits else None
        case t.Tuple() | t.Enumerate():
            wanted = tuple if isinstance(pattern, t.Tuple) else List
            return _all_matched(pattern.items, tuple(value)) if isinstance(value, wanted) else None
        case t.Braces():
            return _members_matched(pattern, dict(value.elements))
        case t.MakeRecord():
            if not isinstance(value, Record):
                return None
            return _all_matched(pattern.items, tuple(value.get(name) for name in pattern.labels))
        case _:
            raise AssertionError(pattern)


def _members_matched(pattern: t.Braces, members: Mapping[str, Value]) -> dict[str, Value] | None:
    """The members of an object that the pattern names; the object may have others."""
    patterns, values = [], []
    for pair in pattern.items:
        assert isinstance(pair, t.Tuple) and isinstance(pair.items[0], t.Constant)
        if pair.items[0].value not in members:
            return None
        patterns.append(pair.items[1])
        values.append(members[pair.items[0].value])
    return _all_matched(tuple(patterns), tuple(values))


def _all_matched(
    patterns: tuple[t.Term, ...], values: tuple[Value, ...]
) -> dict[str, Value] | None:
    if len(patterns) != len(values):
        return None
    found: dict[str, Value] = {}
    for pattern, value in zip(patterns, values, strict=True):
        inner = matched(pattern, value)
        if inner is None:
            return None
        found |= inner
    return found


def truth(value: Value, of: str) -> bool:
    """A boolean; raises `EvaluationError` for anything else."""
    if not isinstance(value, bool):
        raise EvaluationError(f"{of} must be a boolean", detail=f"found: {kind_of(value)}")
    return value


def widened(kind: str, value: Value) -> Value:
    """A number as the kind that a function declares; other values as they are."""
    numbers = ("short", "int", "long", "float", "double")
    if kind not in numbers:
        return value
    if kind_of(value) not in numbers:
        raise EvaluationError(f"a {kind} was expected", detail=f"found: {kind_of(value)}")
    if numbers.index(kind_of(value)) > numbers.index(kind):
        raise EvaluationError(f"a {kind_of(value)} is no {kind}", hint=f"write: e as {kind}")
    return convert(kind, value)
