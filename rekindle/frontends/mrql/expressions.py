"""Terms that are values of a row, as expressions of SQL.

A collection within a row is an array. A collection of rows of tables within a row, and an aggregate
over one, is a nested query: `compile.py` finds the join that brings it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from rekindle.errors import RekindleError, UnsupportedError
from rekindle.frontends.mrql import arrays
from rekindle.frontends.mrql.aggregates import AVERAGE, fold_of_user, folded
from rekindle.frontends.mrql.blocks import Correlated, Group, Relation
from rekindle.frontends.mrql.demands import truth
from rekindle.frontends.mrql.forms import COLLECTIONS, Forms, component_of
from rekindle.frontends.mrql.matching import conjunction, constant, matched, same
from rekindle.frontends.mrql.scalars import called
from rekindle.frontends.mrql.scope import Later, Pair, Row, Scope
from rekindle.frontends.mrql.values import (
    BOOLEAN,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    SHORT,
    STRING,
    Inverse,
    Many,
    Rec,
    RecordType,
    Sql,
    Tup,
    TupleType,
    Value,
    cast,
    component,
    field,
    literal,
    packed,
    type_of,
    unified,
    unpacked,
    words,
)
from rekindle.mrql_language import terms as t
from rekindle.mrql_language.interpreter import Function
from rekindle.mrql_language.monoids import Basic, Monoid, User
from rekindle.mrql_language.syntax import placed


class Expressions(Forms, ABC):
    """Compiles terms in the place of values."""

    @abstractmethod
    def nested(self, monoid: Monoid | None, term: t.Term, scope: Scope) -> Value:
        """A query over tables within a row, merged by a monoid or collected; or `Correlated`."""

    @abstractmethod
    def of_group(self, monoid: Monoid | None, term: t.Term, scope: Scope) -> Value | None:
        """What is made of the rows of a group, merged or collected; None if it reads others."""

    @abstractmethod
    def repeated(self, term: t.Repeat, scope: Scope) -> list[Relation]:
        """What a repeat over a tuple gives, of each of its collections."""

    @abstractmethod
    def first_of(self, term: t.OrderBy, scope: Scope) -> Value | None:
        """The first row of an order, NULL if it has none; None if it reads what is around it."""

    def value(self, term: t.Term, scope: Scope) -> Value:
        """The value of a term in a row of the scope's block."""

        def go(of: t.Term) -> Value:
            return self.value(of, scope)

        match term:
            case t.Var():
                return self._variable(term, scope)
            case t.Constant():
                return constant(term.value)
            case t.Stored():
                return constant(self.known.stored[term.name])
            case t.Tuple():
                return Tup(tuple(map(go, term.items)))
            case t.MakeRecord():
                return Rec(tuple(zip(term.labels, map(go, term.items), strict=True)))
            case t.Project() | t.Field() if (rows := self.spread(term, scope)) is not None:
                return go(rows)
            case t.Project():
                found = go(term.operand)
                if isinstance(found, Sql) and isinstance(found.type, Many):
                    return arrays.transform(found, lambda x: component(x, term.index))
                return component(found, term.index)
            case t.Field():
                of = go(term.operand)
                try:
                    return _field(of, term.name)
                except RekindleError as error:
                    raise placed(error, term.place) from None
            case t.Call():
                return self._call(term, scope)
            case t.Invoke():
                return self._invoke(term, scope)
            case t.If():
                test = truth(packed(go(term.condition)), "the condition of 'if'")
                return _chosen(test, *unified([go(term.then), go(term.otherwise)]))
            case t.Let():
                return self.value(term.function.body, self.let(term, scope))
            case t.Reduce():
                return self._reduce(term, scope)
            case t.Match():
                return self._match(term, scope)
            case t.Repeat(form="tuple"):
                return Tup(tuple(self.bound(each, scope) for each in self.repeated(term, scope)))
            case _ if isinstance(term, COLLECTIONS):
                return self.collection(term, scope)
            case _:
                raise UnsupportedError(
                    f"{_WORDS.get(type(term), type(term).__name__)} has no form on the engine"
                )

    def let(self, term: t.Let, scope: Scope) -> Scope:
        """The scope with what a `let` names."""
        return self._named(term.function.shape, term.value, scope)

    def _named(self, shape: t.Shape, value: t.Term, scope: Scope) -> Scope:
        """The scope with a shape bound to a value, of which a collection waits for its use."""
        if isinstance(shape, str):
            if not self.is_collection(value, scope):
                return scope.bind(shape, self.value(value, scope))
            return scope.bind(shape, Later(value, scope.environment, tuple(self._calls)))
        parts = [component_of(value, i) for i in range(len(shape))]
        if not any(self.is_collection(each, scope) for each in parts):
            return scope.bind(shape, self.value(value, scope))
        found = self.collections_of(value, scope)
        given = value.items if isinstance(value, t.Tuple) else found
        if given is not None and len(given) != len(shape):
            raise UnsupportedError(
                f"a pattern of {len(shape)} components does not fit a tuple of {len(given)}"
            )
        if found is not None:
            for name, each in zip(shape, found, strict=True):
                scope = scope.bind(name, each)
            return scope
        for inner, part in zip(shape, parts, strict=True):
            scope = self._named(inner, part, scope)
        return scope

    def collections_of(self, term: t.Term, scope: Scope) -> list[Relation] | None:
        """The collections of a repeat over a tuple, each step of which is there once for all."""
        match term:
            case t.Repeat(form="tuple"):
                return self.repeated(term, scope)
            case t.Let() if self.ends_in_repeat(term):
                return self.collections_of(term.function.body, self.let(term, scope))
            case t.Invoke() if self.ends_in_repeat(term):
                body, inner, _ = self.entered(term, scope)
                self._calls.append(term.function)
                try:
                    return self.collections_of(body, inner)
                finally:
                    self._calls.pop()
            case _:
                return None

    def _variable(self, term: t.Var, scope: Scope) -> Value:
        bound = scope.environment[term.name]
        match bound:
            case Later():
                with self.where_written(bound):
                    return self.value(bound.term, Scope(bound.environment, scope.block))
            case Group() | Relation() | Row():
                return self.collection(term, scope)
            case Pair():
                return Tup((self.bound(bound.first, scope), self.bound(bound.second, scope)))
            case _:
                return bound

    def bound(self, bound: object, scope: Scope) -> Value:
        """What a variable stands for as a value."""
        return self._variable(t.Var("it"), scope.having(it=bound))  # type: ignore[arg-type]

    # ---- functions -------------------------------------------------------------------------

    def _call(self, term: t.Call, scope: Scope) -> Value:
        if term.function in ("and", "or"):
            left, right = (packed(self.value(each, scope)) for each in term.arguments)
            for side in (left, right):
                truth(side, f"a side of '{term.function}'")
            text = f"({left.text} {term.function.upper()} {right.text})"
            return Sql(text, BOOLEAN, left.reads | right.reads)
        averaged = _averaged(term)
        if averaged is not None:
            return self.value(t.Reduce(AVERAGE, averaged), scope)
        match term:
            case t.Call("index", (t.OrderBy(_, None) as listed, t.Constant(0))):
                if self.reads_tables(listed, scope) and (first := self.first_of(listed, scope)):
                    return first
        given = [self.value(each, scope) for each in term.arguments]
        try:
            return self._applied(term.function, given)
        except RekindleError as error:
            raise placed(error, term.place) from None

    def _applied(self, function: str, given: list[Value]) -> Value:
        """What a function is of values."""
        match function, given:
            case "inv", [only]:
                return Inverse(only)
            case ("=" | "<>") as sign, [a, b]:
                found = conjunction([arrays.equal(*sides) for sides in same(a, b)])
                return found if sign == "=" else Sql(f"(NOT {found.text})", BOOLEAN, found.reads)
            case "index", [Sql() as of, at] if isinstance(of.type, Many):
                return unpacked(arrays.indexed(of, packed(at)))
            case "slice", [Sql() as of, first, last]:
                low, high = packed(first), packed(last)
                text = f"slice({of.text}, {low.text} + 1, {high.text} - {low.text} + 1)"
                return Sql(text, of.type, of.reads | low.reads | high.reads)
            case ("range_list" | "range_bag") as name, [first, last]:
                low, high = cast(packed(first), LONG), cast(packed(last), LONG)
                text = f"sequence({low.text}, {high.text})"
                return Sql(text, Many(LONG, name == "range_list"), low.reads | high.reads)
            case "elem", [Sql() as of]:
                return unpacked(Sql(f"get({of.text}, 0)", arrays.element_of(of), of.reads))
            case "+", [Sql() as xs, Sql() as ys] if isinstance(xs.type, Many):
                return arrays.concatenated(xs, ys)
            case "length", [Sql() as of] if isinstance(of.type, Many):
                return Sql(f"size({of.text})", INT, of.reads)
            case name, _:
                return called(name, [packed(each) for each in given], self.known.typing)

    def entered(self, term: t.Invoke, scope: Scope) -> tuple[t.Term, Scope, Function]:
        """The body of a function of the script, and the scope with its arguments."""
        function = self.known.functions[term.function]
        if term.function in self._calls:
            raise UnsupportedError(
                f"the function '{term.function}' calls itself, which no query of Spark does"
            )
        inner = scope
        for name, kind, argument in zip(
            function.parameters, function.kinds, term.arguments, strict=True
        ):
            if self.is_collection(argument, scope):
                inner = inner.having(
                    **{name: Later(argument, scope.environment, tuple(self._calls))}
                )
                continue
            value = self.value(argument, scope)
            inner = inner.having(**{name: _as(kind, value)})
        return function.body, inner, function

    def _invoke(self, term: t.Invoke, scope: Scope) -> Value:
        body, inner, function = self.entered(term, scope)
        self._calls.append(term.function)
        try:
            return _as(function.result, self.value(body, inner))
        finally:
            self._calls.pop()

    def _match(self, term: t.Match, scope: Scope) -> Value:
        found = matched(term.pattern, self.value(term.subject, scope))
        if found is None:
            return self.value(term.otherwise, scope)
        then = self.value(term.body, scope.having(**found.bound))
        if not found.tests:
            return then
        other = self.value(term.otherwise, scope)
        return _chosen(conjunction(found.tests), *unified([then, other]))

    # ---- collections -----------------------------------------------------------------------

    def collection(self, term: t.Term, scope: Scope) -> Sql:
        """A collection as an array."""
        if (found := self.of_group(None, term, scope)) is not None:
            return packed(found)
        # The rows of a table have no order: a list is made of those that have been collected.
        if not isinstance(term, t.OrderBy | t.Enumerate) and self.reads_tables(term, scope):
            block = scope.block.copy()
            try:
                return packed(self.nested(None, term, scope))
            except Correlated:
                scope.block.items[:], scope.block.where[:] = block.items, block.where
        return self.array(term, scope)

    def array(self, term: t.Term, scope: Scope) -> Sql:
        """A collection as an array that is made of arrays in the row."""

        def go(of: t.Term) -> Sql:
            return self.array_value(of, scope)

        match term:
            case t.Braces():
                return arrays.array_of([self.value(item, scope) for item in term.items], False)
            case t.Enumerate():
                return arrays.array_of([self.value(item, scope) for item in term.items], True)
            case t.Union():
                return arrays.concatenated(go(term.left), go(term.right))
            case t.CMap():
                return self._mapped(term, scope)
            case t.GroupBy():
                return arrays.grouped(go(term.operand))
            case t.CoGroup():
                return arrays.cogrouped(go(term.left), go(term.right))
            case t.OrderBy():
                listed = arrays.ordered(go(term.operand), directions(term.operand))
                if term.limit is None:
                    return listed
                limit = packed(self.value(term.limit, scope))
                text = f"slice({listed.text}, 1, CAST({limit.text} AS INT))"
                return Sql(text, listed.type, listed.reads | limit.reads)
            case _:
                # Rows of a table that cannot be seen from here.
                raise Correlated

    def array_value(self, term: t.Term, scope: Scope) -> Sql:
        """The value of a term that must be a collection."""
        found = packed(self.value(term, scope))
        if not isinstance(found.type, Many):
            raise UnsupportedError(f"{words(found.type)} is no collection")
        return found

    def _mapped(self, term: t.CMap, scope: Scope) -> Sql:
        operand = self.array_value(term.operand, scope)
        shape, body = term.function.shape, term.function.body
        conditions: list[t.Term] = []
        while isinstance(body, t.If) and body.otherwise == t.EMPTY:
            conditions.append(body.condition)
            body = body.then

        def inside(x: Value) -> Scope:
            return scope.bind(shape, x)

        for condition in conditions:
            operand = arrays.filtered(
                operand,
                lambda x, c=condition: truth(  # type: ignore[misc]
                    packed(self.value(c, inside(x))), "a condition"
                ),
            )
        if isinstance(body, t.Braces) and len(body.items) == 1:
            head = body.items[0]
            found = arrays.transform(operand, lambda x: self.value(head, inside(x)))
        else:
            found = arrays.flat_mapped(operand, lambda x: self.array_value(body, inside(x)))
        assert isinstance(found.type, Many)
        return Sql(found.text, Many(found.type.element), found.reads)

    def _reduce(self, term: t.Reduce, scope: Scope) -> Value:
        if (found := self.of_group(term.monoid, term.operand, scope)) is not None:
            return found
        if self.reads_tables(term.operand, scope):
            block = scope.block.copy()
            try:
                return self.nested(term.monoid, term.operand, scope)
            except Correlated:
                scope.block.items[:], scope.block.where[:] = block.items, block.where
        operand = term.operand
        if isinstance(operand, t.CMap) and operand.function.body == _ONE:
            of = self.array_value(operand.operand, scope)
            return Sql(f"CAST(size({of.text}) AS BIGINT)", LONG, of.reads)
        return self.folded(term.monoid, self.array_value(operand, scope), scope)

    def folded(self, monoid: Monoid, array: Sql, scope: Scope) -> Value:
        """The elements of an array merged by a monoid."""

        def user(of: Sql) -> Sql:
            if not isinstance(monoid, User) or not isinstance(monoid.function, t.Lambda):
                raise UnsupportedError(f"'{monoid}' cannot be followed on the engine")
            function = monoid.function

            def merge(a: Value, x: Value) -> Value:
                return self.value(function.body, scope.bind(function.shape, Tup((a, x))))

            return fold_of_user(of, packed(constant(monoid.start)), merge)

        return unpacked(folded(monoid, array, user))


_ONE = t.Braces((t.Constant(1),))
_WORDS: dict[type, str] = {
    t.Build: "a value of a data type",
    t.Lambda: "a function as a value",
    t.Read: "a source whose name is only known when it is read",
}


def _averaged(term: t.Call) -> t.Term | None:
    """What `avg` is of, where a term is the sum over the count."""
    match term:
        case t.Call(
            "/", (t.Call("as double", (t.Reduce(Basic("+"), of),)), t.Reduce(Basic("+"), ones))
        ):
            counted = isinstance(ones, t.CMap) and ones.function.body == _ONE
            return of if counted and ones.operand == of else None  # type: ignore[union-attr]
        case _:
            return None


def directions(term: t.Term) -> arrays.Directions:
    """Which way the keys of the pairs of a term sort."""
    match term:
        case t.CMap():
            return directions(term.function.body)
        case t.If():
            return directions(term.then)
        case t.Let():
            return directions(term.function.body)
        case t.Braces((t.Tuple((key, _)),)):
            return _ways(key)
        case _:
            return 1


def _ways(key: t.Term) -> arrays.Directions:
    match key:
        case t.Tuple():
            return tuple(map(_ways, key.items))
        case t.Call("inv", (inner,)):
            found = _ways(inner)
            return -found if isinstance(found, int) else 1
        case _:
            return 1


def _chosen(test: Sql, then: Value, other: Value) -> Value:
    if isinstance(then, Tup) and isinstance(other, Tup):
        both = zip(then.items, other.items, strict=True)
        return Tup(tuple(_chosen(test, a, b) for a, b in both))
    if isinstance(then, Rec) and isinstance(other, Rec):
        fields = zip(then.fields, other.fields, strict=True)
        return Rec(tuple((name, _chosen(test, a, b)) for (name, a), (_, b) in fields))
    a, b = packed(then), packed(other)
    return Sql(f"if({test.text}, {a.text}, {b.text})", a.type, test.reads | a.reads | b.reads)


def _field(value: Value, name: str) -> Value:
    if isinstance(value, Sql) and isinstance(value.type, Many):
        pair = value.type.element
        if isinstance(pair, TupleType) and len(pair.items) == 2 and pair.items[0] == STRING:
            return unpacked(arrays.indexed(value, Sql(literal(name), STRING)))
        if isinstance(pair, RecordType):
            return arrays.transform(value, lambda x: field(x, name))
    return field(value, name)


def _as(kind: str, value: Value) -> Value:
    kinds = {"short": SHORT, "int": INT, "long": LONG, "float": FLOAT, "double": DOUBLE}
    if kind not in kinds or type_of(value) == kinds[kind]:
        return value
    return cast(packed(value), kinds[kind])
