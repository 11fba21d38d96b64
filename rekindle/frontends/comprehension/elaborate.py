"""From what a text says to a term of the nested calculus, over the tables that there are.

Names are resolved and every variable gets a name of its own; the types of scalars are Spark's. What
does not fit is an error at its place in the text.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import assert_never

from rekindle.errors import RekindleError, did_you_mean
from rekindle.frontends.comprehension.applying import all_depending, depending, guarded, inside
from rekindle.frontends.comprehension.collections import Collections, spark_type
from rekindle.frontends.comprehension.functions import Function, calls
from rekindle.frontends.comprehension.scalar_errors import naming_unbound
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
from rekindle.names import sql_name
from rekindle.nested import terms as core
from rekindle.nested.terms import KeyTerm, RingTerm
from rekindle.nested.types import Boxed, Number, Record, RingType
from rekindle.nested.types import Mapping as MappingType
from rekindle.nested.types import Scalar as ScalarType

Bound = KeyTerm | RingTerm


@dataclass(frozen=True, slots=True)
class Elaborated:
    """A comprehension as a term."""

    term: RingTerm
    valued: frozenset[int]
    """The places, by their static indices, whose elements have values (`k => v`) and no copies;
    `TOP` is the whole."""
    applies: bool = False
    """Does it use functions that may be redefined?"""


TOP = -1


@dataclass(slots=True)
class Elaborator:
    """Elaborates one text."""

    collections: Collections
    functions: Mapping[str, Function] = field(default_factory=dict)
    """The functions that the text may use, by their names in lower case."""
    defined: Sequence[str] = ()
    """The names of all that there are."""
    _scope: dict[str, Bound] = field(default_factory=dict)
    _used: set[str] = field(default_factory=set)
    _indices: Iterator[int] = field(default_factory=itertools.count)
    _valued: set[int] = field(default_factory=set)

    def whole(self, expression: Expression) -> Elaborated:
        """The term of a whole text, which is a collection, or a number computed from some."""
        if isinstance(expression, Call | Quantified | Scalar) and not self._is_collection(
            expression
        ):
            row = core.MakeRecord((("value", self.value(expression)),))
            return self._elaborated(core.Singleton(row))
        term = self.collection(expression)
        if self._gives_values(expression):
            self._valued.add(TOP)
        return self._elaborated(term)

    def _elaborated(self, term: RingTerm) -> Elaborated:
        return Elaborated(term, frozenset(self._valued), bool(self.functions))

    # ---- collections -----------------------------------------------------------------------

    def collection(self, expression: Expression) -> RingTerm:
        """The collection that an expression stands for; raises where it is none."""
        place = expression.place
        match expression:
            case Group(inner):
                return self.collection(inner)
            case Path():
                return self._collection_at(expression)
            case For(generators, key, value):
                return self._over(generators, lambda: self._yielded(key, value))
            case Collect(generators, body):
                return self._over(generators, lambda: self.collection(body))
            case Let(variable, bound, body):
                with self._bound({variable: self._anything(bound)}):
                    return self.collection(body)
            case Union(parts):
                return self._sum(parts)
            case Negate(query):
                return core.Negate(self.collection(query))
            case Flatten(query):
                return self._flattened(query)
            case Call() if (function := self._function(expression)) is not None:
                with self._applied(expression, function) as given:
                    return guarded(self.collection(function.body), given)
            case Tuple() | Call() | Quantified() | Scalar():
                raise place.error("this is no collection", "write for x in ... yield ...")
            case _:
                assert_never(expression)

    def _collection_at(self, path: Path) -> RingTerm:
        first = path.names[0].lower()
        if first in self._scope:
            bound = self._path(path)
            if isinstance(bound.type, Boxed) and isinstance(bound.type.ring, MappingType):
                return core.FromKey(bound)
            if isinstance(bound.type, MappingType):
                return bound
            raise path.place.error(
                f"'{'.'.join(path.names)}' is of type {bound.type}, and no collection"
            )
        written = ".".join(path.names)
        with _at(path.place):
            name = self.collections.name(written)
            return core.Relation(name, self.collections.type(name))

    def _over(self, generators: Sequence[Generator], body: Callable[[], RingTerm]) -> RingTerm:
        """`for` over the first generator of the rest; conditions multiply what they guard."""
        if not generators:
            return body()
        first, *rest = generators
        source = self.collection(first.source)
        assert isinstance(source.type, MappingType)
        variable = core.KeyVariable(self._fresh(first.variable), source.type.key)
        with self._bound({first.variable: variable}):
            conditions = [] if first.condition is None else self._conditions(first.condition)
            term = self._over(rest, body)
        for condition in reversed(conditions):
            term = core.Product(condition, term)
        return core.For(variable, source, term)

    def _yielded(self, key: Expression, value: Expression | None) -> RingTerm:
        row = self.value(key)
        if value is None:
            return core.Singleton(row)
        return core.Singleton(row, self._ring_value(value))

    def _ring_value(self, expression: Expression) -> RingTerm:
        """What a key counts for: a collection, or a number."""
        if self._is_collection(expression):
            return self.collection(expression)
        given = self.value(expression)
        if not isinstance(given.type, ScalarType):
            raise expression.place.error(f"a value of type {given.type} cannot be added up")
        with _at(expression.place):
            return core.Lift(given)

    def _sum(self, parts: Sequence[Expression]) -> RingTerm:
        first, *rest = [self.collection(part) for part in parts]
        for part, term in zip(parts[1:], rest, strict=True):
            if term.type != first.type:
                raise part.place.error(
                    "the sides of 'union' have different types",
                    f"here {term.type}, and on the left {first.type}",
                )
            first = core.Add(first, term)
        return first

    def _flattened(self, query: Expression) -> RingTerm:
        source = self.collection(query)
        assert isinstance(source.type, MappingType)
        inner = source.type.key
        if isinstance(inner, Record) and len(inner.fields) == 1:
            inner = inner.fields[0][1]
        if not isinstance(inner, Boxed) or not isinstance(inner.ring, MappingType):
            raise query.place.error(
                f"flatten takes a collection of collections, not {source.type}",
                "such as flatten(for c in customers yield c.orders)",
            )
        variable = core.KeyVariable(self._fresh("each"), source.type.key)
        row: KeyTerm = variable
        if isinstance(source.type.key, Record):
            row = core.Field(variable, source.type.key.names[0])
        return core.For(variable, source, core.FromKey(row))

    # ---- conditions ------------------------------------------------------------------------

    def _conditions(self, expression: Expression) -> list[RingTerm]:
        """The parts of a condition that all have to hold, each 1 or 0."""
        match expression:
            case Scalar(pieces):
                parts = _conjuncts(pieces)
                if len(parts) > 1:
                    return [
                        condition
                        for part in parts
                        for condition in self._conditions(_scalar(part, expression.place))
                    ]
            case Group(inner):
                return self._conditions(inner)
            case Quantified():
                return [self._quantified(expression)]
            case Call() if (function := self._function(expression)) is not None:
                with self._applied(expression, function) as given:
                    return all_depending(self._conditions(function.body), given)
            case Call(name, (argument,)) if name.lower() == "exists" and self._is_collection(
                argument
            ):
                return [core.Not(core.Not(_counted(self.collection(argument))))]
            case _:
                pass
        with _at(expression.place):
            return [core.Predicate(self._boolean(expression))]

    def _quantified(self, expression: Quantified) -> RingTerm:
        """exists_p(X) and forall_p(X) = ¬(for x in X collect ¬p(x)), example 14."""
        generator = expression.generator
        source = self.collection(generator.source)
        assert isinstance(source.type, MappingType)
        variable = core.KeyVariable(self._fresh(generator.variable), source.type.key)
        with self._bound({generator.variable: variable}):
            given = generator.condition
            conditions = [] if given is None else self._conditions(given)
        holds: RingTerm = core.ONE
        for condition in reversed(conditions):
            holds = condition if holds == core.ONE else core.Product(condition, holds)
        if expression.name == "exists":
            return core.Not(core.Not(_counted(core.For(variable, source, holds))))
        return core.Not(_counted(core.For(variable, source, core.Not(holds))))

    def _boolean(self, expression: Expression) -> KeyTerm:
        key = self.value(expression)
        if key.type == ScalarType("boolean"):
            return key
        if isinstance(key.type, ScalarType):
            raise expression.place.error(f"a condition is boolean, and this is {key.type}")
        raise expression.place.error(f"a condition is boolean, and this is of type {key.type}")

    # ---- rows ------------------------------------------------------------------------------

    def value(self, expression: Expression) -> KeyTerm:
        """The row, or the part of one, that an expression stands for."""
        place = expression.place
        match expression:
            case Group(inner):
                return self.value(inner)
            case Tuple(fields):
                with _at(place):
                    return core.MakeRecord(tuple((name, self.value(each)) for name, each in fields))
            case For() | Collect() | Union() | Negate() | Flatten():
                return self._boxed(expression)
            case Let(variable, bound, body):
                with self._bound({variable: self._anything(bound)}):
                    return self.value(body)
            case Path():
                return self._value_at(expression)
            case Call():
                return self._call(expression)
            case Quantified():
                counted = core.Measure("count", _units(self._counted(expression)), _BIGINT)
                sign = ">" if expression.name == "exists" else "="
                return core.Apply(core.ScalarFunction(f"({{0}} {sign} 0)", _BOOLEAN), (counted,))
            case Scalar(pieces):
                return self._scalar(pieces, place)
            case _:
                assert_never(expression)

    def _counted(self, expression: Quantified) -> RingTerm:
        """The elements that satisfy the condition, or that a universal one fails on."""
        found = self._quantified(expression)
        while isinstance(found, core.Not):
            found = found.term
        return found

    def _boxed(self, expression: Expression) -> KeyTerm:
        index = next(self._indices)
        if self._gives_values(expression):
            self._valued.add(index)
        return core.ToKey(index, self.collection(expression))

    def _value_at(self, path: Path) -> KeyTerm:
        if path.names[0].lower() in self._scope:
            bound = self._path(path)
            if isinstance(bound.type, MappingType | Number):
                return core.ToKey(next(self._indices), bound)
            return bound  # type: ignore[return-value]
        if len(path.names) == 1 and self.collections.knows(path.names[0]):
            return core.ToKey(next(self._indices), self._collection_at(path))
        return self._scalar((path,), path.place)

    def _call(self, call: Call) -> KeyTerm:
        name = call.name.lower()
        function = self._function(call)
        if function is not None:
            with self._applied(call, function) as given:
                return depending(self.value(function.body), given)
        if len(call.arguments) == 1 and self._is_collection(call.arguments[0]):
            return self._measured(name, call.arguments[0], call.place)
        pieces: list[str | Expression] = [call.name, "("]
        for i, argument in enumerate(call.arguments):
            pieces += [", "] if i else []
            inner = argument.pieces if isinstance(argument, Scalar) else (argument,)
            pieces += inner
        with self._naming_unknown([call]):
            return self._scalar((*pieces, ")"), call.place)

    def _measured(self, name: str, argument: Expression, place: Place) -> KeyTerm:
        """The scalar that an aggregate gives for a collection."""
        source = self.collection(argument)
        assert isinstance(source.type, MappingType)
        if name == "exists":
            counted = core.Measure("count", source, _BIGINT)
            return core.Apply(core.ScalarFunction("({0} > 0)", _BOOLEAN), (counted,))
        if name == "count":
            return core.Measure("count", source, _BIGINT)
        if not self.collections.is_aggregate(name):
            text = f"{name}({{0}})"
            boxed = Boxed(source.type)
            with _at(place):
                type_ = self.collections.scalar_type(text, [boxed])
            whole = core.Measure("array", source, ScalarType(_array_type(source.type)))
            if not isinstance(type_, ScalarType):
                type_ = ScalarType(spark_type(type_))
            return core.Apply(core.ScalarFunction(text, type_), (whole,))
        key = _element(source.type.key)
        if not isinstance(key, ScalarType):
            raise place.error(
                f"{name} takes a collection of scalars, not {source.type}",
                f"such as {name}(for x in ... yield x.price)",
            )
        if name == "sum" and not key.name.startswith(_ADDED):
            raise place.error(
                f"sum takes numbers, not {key}", "count(...), min(...) and max(...) take others"
            )
        with _at(place):
            type_ = self.collections.measured_type(name, key)
        if not isinstance(type_, ScalarType):
            raise place.error(f"{name} gives {type_}, and a scalar is needed here")
        return core.Measure(name, source, type_)

    def _scalar(self, pieces: Sequence[str | Expression], place: Place) -> KeyTerm:
        """Text of Spark SQL over what its holes stand for."""
        arguments: list[KeyTerm] = []

        def hole(term: KeyTerm) -> str:
            if isinstance(term, core.Apply) and not term.arguments:
                # A constant stays one: Spark asks for that in some places.
                return f"({term.function.text})"
            if term not in arguments:
                arguments.append(term)
            return f"{{{arguments.index(term)}}}"

        def text(piece: str | Expression) -> str:
            match piece:
                case str():
                    return _escaped(piece)
                case Path(names) if names[0].lower() not in self._scope:
                    return _escaped(".".join(map(sql_name, names)))
                case Path():
                    return hole(self._flat(self._value_at(piece)))
                case Group(inner):
                    return f"({text(inner)})"
                case Scalar(parts):
                    return "".join(map(text, parts))
                case Call(name, given) if self._is_sparks(piece):
                    return f"{name}({', '.join(map(text, given))})"
                case _:
                    return hole(self._flat(self.value(piece)))

        template = "".join(map(text, pieces))
        called = (each for piece in pieces if not isinstance(piece, str) for each in calls(piece))
        with _at(place), self._naming_unknown(called), naming_unbound(pieces, self._scope):
            type_ = self.collections.scalar_type(template, [each.type for each in arguments])
        if template == "{0}":
            return arguments[0]
        if not isinstance(type_, ScalarType):
            type_ = ScalarType(spark_type(type_))
        return core.Apply(core.ScalarFunction(template, type_), tuple(arguments))

    @staticmethod
    def _flat(term: KeyTerm) -> KeyTerm:
        """A term as a scalar function reads it: a collection in it as the array that it is."""
        if isinstance(term.type, Boxed):
            assert isinstance(term.type.ring, MappingType)
            ring = term.ring if isinstance(term, core.ToKey) else core.FromKey(term)
            return core.Measure("array", ring, ScalarType(_array_type(term.type.ring)))
        return term

    def _is_sparks(self, call: Call) -> bool:
        """Is it a call of a function of Spark, of scalars?"""
        given = call.arguments
        if self._function(call) is not None:
            return False
        return not (len(given) == 1 and self._is_collection(given[0]))

    @contextmanager
    def _naming_unknown(self, found: Iterable[Call]) -> Iterator[None]:
        """Errors of Spark about a function that there is not say which names there are."""
        try:
            yield
        except RekindleError as error:
            said = f"{error.message} {error.detail}".lower()
            for call in found:
                is_ours = call.name.lower() in self.functions
                if is_ours or "routine" not in said or call.name.lower() not in said:
                    continue
                raise call.place.error(
                    f"there is no function '{call.name}'",
                    did_you_mean(call.name, self.defined) or "db.define makes one",
                ) from error
            raise

    # ---- functions that users defined ------------------------------------------------------

    def _function(self, call: Call) -> Function | None:
        return self.functions.get(call.name.lower())

    @contextmanager
    def _applied(self, call: Call, function: Function) -> Iterator[list[Bound]]:
        """Until the end the names are the parameters of a function, bound to what it is given."""
        wanted, given = len(function.parameters), len(call.arguments)
        if wanted != given:
            raise call.place.error(
                f"'{function.name}' takes {wanted} arguments, and here are {given}",
                f"it is defined as {function.head}",
            )
        bound = [self._anything(argument) for argument in call.arguments]
        before = self._scope
        names = [parameter.lower() for parameter in function.parameters]
        self._scope = dict(zip(names, bound, strict=True))
        try:
            with inside(function, call.place):
                yield bound
        finally:
            self._scope = before

    def _gives_values(self, expression: Expression) -> bool:
        """Does a collection have values (`k => v`) rather than copies of its elements?"""
        match expression:
            case For(_, _, value):
                return value is not None
            case Group(inner) | Negate(inner):
                return self._gives_values(inner)
            case Let(_, _, body) | Collect(_, body):
                return self._gives_values(body)
            case Union(parts):
                return any(map(self._gives_values, parts))
            case Call() if (function := self._function(expression)) is not None:
                return self._gives_values(function.body)
        return False

    # ---- names -----------------------------------------------------------------------------

    def _path(self, path: Path) -> Bound:
        """What a bound name and the fields after it stand for."""
        bound = self._scope[path.names[0].lower()]
        for i, name in enumerate(path.names[1:], 1):
            type_ = bound.type
            known = (
                {each.lower(): each for each in type_.names} if isinstance(type_, Record) else {}
            )
            if name.lower() not in known:
                written = ".".join(path.names[:i])
                raise path.place.error(
                    f"'{written}' has no field '{name}'",
                    f"its fields: {', '.join(known.values())}" if known else f"it is {type_}",
                )
            bound = core.Field(bound, known[name.lower()])  # type: ignore[arg-type]
        return bound

    def _anything(self, expression: Expression) -> Bound:
        """What `let` binds: a collection, a row or a scalar."""
        if self._is_collection(expression):
            return self.collection(expression)
        return self.value(expression)

    def _is_collection(self, expression: Expression) -> bool:
        match expression:
            case For() | Collect() | Union() | Negate() | Flatten():
                return True
            case Group(inner):
                return self._is_collection(inner)
            case Let(variable, bound, Call() as body):
                with self._bound({variable: self._anything(bound)}):
                    return self._is_collection(body)
            case Let(_, _, body):
                return not isinstance(body, Quantified | Scalar | Tuple)
            case Call() if (function := self._function(expression)) is not None:
                if not isinstance(function.body, Path | Call | Group | Let):
                    return self._is_collection(function.body)
                with self._applied(expression, function):
                    return self._is_collection(function.body)
            case Path(names):
                if names[0].lower() in self._scope:
                    type_ = self._path(expression).type
                    return isinstance(type_, Boxed | MappingType)
                return len(names) == 1 and self.collections.knows(names[0])
        return False

    @contextmanager
    def _bound(self, names: Mapping[str, Bound]) -> Iterator[None]:
        before = dict(self._scope)
        self._scope.update({name.lower(): bound for name, bound in names.items()})
        try:
            yield
        finally:
            self._scope = before

    def _fresh(self, name: str) -> str:
        """A name that no other variable of the text has."""
        found = name.lower()
        for i in itertools.count(2):
            if found not in self._used:
                self._used.add(found)
                return found
            found = f"{name.lower()}_{i}"
        raise AssertionError


_BIGINT = ScalarType("bigint")
_BOOLEAN = ScalarType("boolean")
_ADDED = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal", "interval", "void")
"""What the names of the types begin with whose values are added up."""


def _counted(term: RingTerm) -> RingTerm:
    """How many elements a collection has; a number is itself."""
    while isinstance(term.type, MappingType):
        term = core.Sum(term)
    return term


def _units(term: RingTerm) -> RingTerm:
    """A number as the bag of so many empty rows."""
    return (
        core.Product(term, core.Singleton(core.UNIT_ROW)) if isinstance(term.type, Number) else term
    )


def _element(key: object) -> object:
    """The type of what is added up: the element, or the one field of it."""
    if isinstance(key, Record) and len(key.fields) == 1:
        return key.fields[0][1]
    return key


def _array_type(type_: RingType) -> str:
    assert isinstance(type_, MappingType)
    return f"array<{spark_type(type_.key)}>"


def _escaped(text: str) -> str:
    """Text in which braces are no holes."""
    return text.replace("{", "{{").replace("}", "}}")


def _scalar(pieces: Sequence[str | Expression], place: Place) -> Expression:
    kept = list(pieces)
    while kept and kept[0] == " ":
        del kept[0]
    while kept and kept[-1] == " ":
        del kept[-1]
    if len(kept) == 1 and not isinstance(kept[0], str):
        return kept[0]
    first = next((each for each in kept if not isinstance(each, str)), None)
    return Scalar(tuple(kept), place if first is None else replace(first.place))


def _conjuncts(pieces: Sequence[str | Expression]) -> list[list[str | Expression]]:
    """The sides of AND, unless another word gives it a meaning or binds weaker."""
    words = [_word(piece) for piece in pieces]
    if {"or", "between", "case", "->"}.intersection(words):
        return [list(pieces)]
    found: list[list[str | Expression]] = [[]]
    for piece, word in zip(pieces, words, strict=True):
        if word == "and":
            found.append([])
        else:
            found[-1].append(piece)
    # A side that is missing is an error of the whole.
    return found if all(any(piece != " " for piece in side) for side in found) else [list(pieces)]


def _word(piece: str | Expression) -> str:
    if isinstance(piece, str):
        return piece.lower()
    return piece.names[0].lower() if isinstance(piece, Path) and len(piece.names) == 1 else ""


@contextmanager
def _at(place: Place) -> Iterator[None]:
    """Errors of a block say where in the text they arose."""
    try:
        yield
    except RekindleError as error:
        if error.message.startswith("line "):
            raise
        said = error.detail.strip().split("\n")[0] if error.detail else ""
        raise place.error(f"{error.message}{': ' if said else ''}{said}", error.hint) from error
