"""From syntax to the algebra, clause by clause, without any rewriting: the meaning of a text.

    select e from p1 in X1, p2 in X2 where c     cMap(λp1. cMap(λp2. if c then {e} else {}, X2), X1)
    ... group by p: k                            cMap(λ(p,s). ..., groupBy(cMap(... {(k, v)} ...)))
    ... order by k                               orderBy(... {(k, e)} ...)
    select distinct e                            cMap(λ(x,s). {x}, groupBy(... {(e, ())} ...))

After a group by, a variable of the from-clause stands for the bag of its values in the group, a
projection of the group s. A variable that occurs again in one from-clause becomes an equality, and
joins are left to `unnest.py`. A macro is translated where it is used, with its parameters bound to
terms: since each binder has a name of its own, nothing is captured.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from rekindle.errors import did_you_mean
from rekindle.mrql_language import syntax as s
from rekindle.mrql_language import terms as t
from rekindle.mrql_language.arithmetic import wrapped
from rekindle.mrql_language.clauses import AGGREGATES, count, distinct, lifted_variable, mapped
from rekindle.mrql_language.definitions import Definitions
from rekindle.mrql_language.functions import FUNCTIONS, takes
from rekindle.mrql_language.monoids import AND, OR
from rekindle.mrql_language.names import mentioned, pattern_expression, pattern_names
from rekindle.mrql_language.templates import template_pattern, template_term
from rekindle.mrql_language.values import NULL, Bag, Long

Scope = Mapping[str, t.Term]
_PREDEFINED: dict[str, t.Term] = {
    "true": t.Constant(True),
    "false": t.Constant(False),
    "null": t.Constant(NULL),
    "PI": t.Constant(math.pi),
}


Check = Callable[[t.Term], t.Term]
"""Wraps what is to happen if a pattern's test holds."""


@dataclass(slots=True)
class _Bindings:
    """What the patterns of one from-clause have bound, and what they test."""

    scope: dict[str, t.Term]
    here: dict[str, None] = field(default_factory=dict)
    checks: list[Check] = field(default_factory=list)

    def test(self, condition: t.Term) -> None:
        self.checks.append(lambda body: t.If(condition, body, t.EMPTY))

    def bind(self, name: str, term: t.Term) -> None:
        if name in self.here:
            self.test(t.Call("=", (self.scope[name], term)))
        else:
            self.here[name] = None
            self.scope[name] = term

    def checked(self, body: t.Term) -> t.Term:
        for check in reversed(self.checks):
            body = check(body)
        return body


class Translator:
    """Translates expressions under the definitions of a script."""

    def __init__(self, definitions: Definitions) -> None:
        self._definitions = definitions
        self._groups: set[str] = set()
        self._naming: list[str] = []
        self._pending: list[t.Term] = []

    def expression(self, e: s.Expression, scope: Scope | None = None) -> t.Term:
        """The term of an expression."""
        scope = scope or {}

        def go(of: s.Expression) -> t.Term:
            return self.expression(of, scope)

        match e:
            case s.Name():
                return self._name(e, scope)
            case s.Literal():
                value = e.value
                return t.Constant(wrapped("int", value) if isinstance(value, int) else value)
            case s.TupleOf():
                return t.Tuple(tuple(map(go, e.items)))
            case s.RecordOf():
                labels = tuple(label for label, _ in e.fields)
                for label in labels:
                    if labels.count(label) > 1:
                        raise e.place.error(f"the field '{label}' is given twice")
                return t.MakeRecord(labels, tuple(go(item) for _, item in e.fields))
            case s.BagOf():
                return t.Braces(tuple(map(go, e.items)))
            case s.ListOf():
                return t.Enumerate(tuple(map(go, e.items)))
            case s.Call():
                return self._call(e, scope)
            case s.Binary():
                return self._binary(e, scope)
            case s.Unary("exists"):
                return t.Reduce(OR, mapped(go(e.operand), lambda _: t.Constant(True)))
            case s.Unary("-"):
                if isinstance(e.operand, s.Literal) and not isinstance(e.operand.value, str):
                    return t.Constant(-e.operand.value)
                return t.Call("negate", (go(e.operand),), e.place)
            case s.Unary("+"):
                return go(e.operand)
            case s.Unary():
                return t.Call(e.operator, (go(e.operand),), e.place)
            case s.Attribute():
                operand = go(e.operand)
                if self._is_group(operand):
                    return mapped(operand, lambda x: t.Field(x, e.name, e.place))
                return t.Field(operand, e.name, e.place)
            case s.Component():
                operand = go(e.operand)
                if self._is_group(operand):
                    return mapped(operand, lambda x: t.Project(x, e.index))
                return t.Project(operand, e.index)
            case s.XmlAttribute():
                return t.Call("attribute", (go(e.operand), t.Constant(e.name)))
            case s.Children():
                return t.Call("children", (go(e.operand),))
            case s.Index():
                return t.Call("index", (go(e.operand), go(e.index)))
            case s.Slice():
                return t.Call("slice", (go(e.operand), go(e.first), go(e.last)))
            case s.Cast():
                return self._cast(e, scope)
            case s.Range():
                return t.Call(f"range_{e.kind}", (go(e.first), go(e.last)))
            case s.Select():
                return self._select(e, scope)
            case s.Quantified():
                bindings = _Bindings(dict(scope))
                found = self._from(
                    e.bindings,
                    bindings,
                    lambda: t.Braces((self.expression(e.condition, bindings.scope),)),
                )
                return t.Reduce(OR if e.quantifier == "some" else AND, found)
            case s.If():
                return t.If(go(e.condition), go(e.then), go(e.otherwise))
            case s.Let():
                bindings = _Bindings(dict(scope))
                shape = self._shape(e.pattern, bindings)
                if bindings.checks:
                    raise s.Place(1, 1).error("the pattern of 'let' must always match")
                body = self.expression(e.body, bindings.scope)
                return t.Let(go(e.value), t.Lambda(shape, body))
            case s.Case():
                return self._case(e, scope)
            case s.Lambda():
                return self.function(e.parameters, e.body, scope)
            case s.Repeat():
                return self._repeat(e, scope)
            case s.Template():
                return template_term(e, tuple(map(go, e.holes)))
            case s.Trace():
                return t.Call("trace", (go(e.operand),))
            case s.TypeArgument() | s.PathArgument():
                raise s.Place(1, 1).error(
                    "'type' and 'xpath' stand only among the arguments of a source"
                )

    def function(
        self, parameters: tuple[tuple[str, s.Type], ...], body: s.Expression, scope: Scope
    ) -> t.Lambda:
        """A function of its parameters; of one parameter it takes the value itself."""
        for _, kind in parameters:
            self._definitions.check(kind)
        names = {name: t.fresh(name) for name, _ in parameters}
        inner = {**scope, **{name: t.Var(given) for name, given in names.items()}}
        shape = tuple(names.values())
        return t.Lambda(shape[0] if len(shape) == 1 else shape, self.expression(body, inner))

    # --- names and calls ---

    def _name(self, e: s.Name, scope: Scope) -> t.Term:
        known = self._definitions
        if e.name in scope:
            return scope[e.name]
        # A definition with the name of a table may be made of the table.
        hides_itself = e.name in self._naming and e.name in known.tables
        if e.name in known.expressions and not hides_itself:
            if e.name in self._naming:
                raise e.place.error(f"'{e.name}' is defined by itself")
            self._naming.append(e.name)
            try:
                return self.expression(known.expressions[e.name])
            finally:
                self._naming.pop()
        if e.name in known.stored:
            return t.Stored(e.name)
        if e.name in known.tables:
            return t.Source(e.name, known.tables[e.name])
        if e.name in _PREDEFINED:
            return _PREDEFINED[e.name]
        names = [*scope, *known.expressions, *known.stored, *known.tables]
        raise e.place.error(f"there is no '{e.name}'", hint=did_you_mean(e.name, names))

    def _call(self, e: s.Call, scope: Scope) -> t.Term:
        known = self._definitions
        if e.name in ("source", "stream"):
            return self._source(e, scope)
        arguments = tuple(self.expression(argument, scope) for argument in e.arguments)
        if e.name in known.macros:
            macro = known.macros[e.name]
            self._arity(e, len(macro.parameters))
            bound = dict(zip(macro.parameters, arguments, strict=True))
            return self.expression(macro.body, bound)
        if e.name in known.functions:
            self._arity(e, known.functions[e.name])
            return t.Invoke(e.name, arguments)
        if e.name in known.aggregations:
            self._arity(e, 1)
            monoid, unit = known.aggregations[e.name]
            if unit is None:
                return t.Reduce(monoid, arguments[0])
            return t.Reduce(monoid, mapped(arguments[0], lambda x: t.applied(unit, x)))
        if e.name in known.constructors:
            return t.Build(known.constructors[e.name], e.name, arguments)
        if len(arguments) == 1 and e.name in AGGREGATES:
            return AGGREGATES[e.name](arguments[0])
        if e.name in AGGREGATES and e.name not in FUNCTIONS:
            self._arity(e, 1)
        if e.name == "member":
            self._arity(e, 2)
            wanted, among = arguments
            return t.Reduce(OR, mapped(among, lambda x: t.Call("=", (x, wanted))))
        if e.name in FUNCTIONS and e.name.isidentifier():
            if not takes(e.name, len(arguments)):
                raise e.place.error(f"'{e.name}' does not take {_arguments(len(arguments))}")
            return t.Call(e.name, arguments, e.place)
        if known.is_outside(e.name):
            return t.Call(e.name, arguments, e.place)
        names = [*known.functions, *known.macros, *known.aggregations, *FUNCTIONS, *AGGREGATES]
        raise e.place.error(f"there is no function '{e.name}'", hint=did_you_mean(e.name, names))

    def _arity(self, e: s.Call, wanted: int) -> None:
        if len(e.arguments) != wanted:
            raise e.place.error(
                f"'{e.name}' takes {_arguments(wanted)}, and is given {len(e.arguments)}"
            )

    def _source(self, e: s.Call, scope: Scope) -> t.Term:
        kind = "stream" if e.name == "stream" else "invariant"
        if not e.arguments or not isinstance(e.arguments[0], s.Name):
            raise e.place.error(
                f"'{e.name}' begins with the name of a parser", "such as: line, xml"
            )
        if len(e.arguments) < 2:
            raise e.place.error(f"'{e.name}' needs what to read", "expected: the name of a file")
        parts: list[t.Term] = []
        for argument in e.arguments[1:]:
            match argument:
                case s.TypeArgument():
                    parts.append(t.Constant(self._definitions.resolved(argument.type)))
                case s.PathArgument():
                    parts.append(t.Constant(argument))
                case _:
                    parts.append(self.expression(argument, scope))
        parser = e.arguments[0].name
        constants = tuple(_constant(part) for part in parts)
        if None in constants or not constants:
            return t.Read(kind, parser, tuple(parts))
        values = tuple(each.value for each in constants if each is not None)
        name = values[0][0] if isinstance(values[0], tuple) and values[0] else values[0]
        return t.Source(str(name), kind, t.Request(parser, values))

    def _binary(self, e: s.Binary, scope: Scope) -> t.Term:
        left, right = self.expression(e.left, scope), self.expression(e.right, scope)
        match e.operator:
            case "union":
                return t.Union(left, right)
            case "+" if self._is_collection(left) and self._is_collection(right):
                return t.Union(left, right)
            case "intersect" | "except":
                k, xs, ys = t.fresh("k"), t.fresh("xs"), t.fresh("ys")
                pairs = [
                    mapped(side, lambda x: t.Tuple((x, t.Tuple(())))) for side in (left, right)
                ]
                names = t.Lambda(t.fresh("_"), t.Braces((t.Var(k),)))
                if e.operator == "except":
                    none = t.Call("=", (count(t.Var(ys)), t.Constant(Long(0))))
                    body: t.Term = t.If(none, t.CMap(names, t.Var(xs)), t.EMPTY)
                else:
                    fewer = t.Call("<=", (count(t.Var(xs)), count(t.Var(ys))))
                    body = t.CMap(names, t.If(fewer, t.Var(xs), t.Var(ys)))
                return t.CMap(t.Lambda((k, (xs, ys)), body), t.CoGroup(pairs[0], pairs[1]))
            case _:
                return t.Call(e.operator, (left, right), e.place)

    def _cast(self, e: s.Cast, scope: Scope) -> t.Term:
        self._definitions.check(e.type)
        kind = self._definitions.number(e.type)
        if kind == "long" and isinstance(e.operand, s.Literal) and isinstance(e.operand.value, int):
            return t.Constant(wrapped("long", e.operand.value))
        operand = self.expression(e.operand, scope)
        return t.Call(f"as {kind}", (operand,)) if kind else operand

    def _is_group(self, term: t.Term) -> bool:
        """Whether a term is a group's bag, or a variable of it."""
        if isinstance(term, t.CMap):
            return self._is_group(term.operand)
        return isinstance(term, t.Var) and term.name in self._groups

    def _is_collection(self, term: t.Term) -> bool:
        collections = (t.Braces, t.CMap, t.GroupBy, t.CoGroup, t.Union, t.Source)
        return isinstance(term, collections) or self._is_group(term)

    # --- patterns ---

    def _shape(self, pattern: s.Pattern, bindings: _Bindings) -> t.Shape:
        """What a function takes apart for a pattern; the rest is bound and tested."""
        match pattern:
            case s.Variable():
                name = t.fresh(pattern.name)
                bindings.bind(pattern.name, t.Var(name))
                return name
            case s.TuplePattern():
                return tuple(self._shape(item, bindings) for item in pattern.items)
            case s.TypedPattern():
                return self._shape(pattern.pattern, bindings)
            case _:
                name = t.fresh("x")
                self._destructure(pattern, t.Var(name), bindings)
                return name

    def _destructure(self, pattern: s.Pattern, term: t.Term, bindings: _Bindings) -> None:
        match pattern:
            case s.Variable():
                bindings.bind(pattern.name, term)
            case s.Anything():
                pass
            case s.Constant(s.Template()) | s.ListPattern() | s.ConstructorPattern():
                wanted = self._pattern_term(pattern, bindings)
                bindings.checks.append(lambda body: t.Match(term, wanted, body, t.EMPTY))
                for test in self._pending:
                    bindings.test(test)
                self._pending.clear()
            case s.Constant():
                bindings.test(t.Call("=", (term, self.expression(pattern.value))))
            case s.TuplePattern():
                for index, item in enumerate(pattern.items):
                    self._destructure(item, t.Project(term, index), bindings)
            case s.RecordPattern():
                for label, item in pattern.fields:
                    self._destructure(item, t.Field(term, label), bindings)
            case s.TypedPattern():
                self._destructure(pattern.pattern, term, bindings)

    def _pattern_term(self, pattern: s.Pattern, bindings: _Bindings) -> t.Term:
        """A pattern as `Match` takes it; a variable that is bound already is tested after it."""

        def go(of: s.Pattern) -> t.Term:
            return self._pattern_term(of, bindings)

        match pattern:
            case s.Variable():
                name = t.Var(t.fresh(pattern.name))
                if pattern.name in bindings.here:
                    self._pending.append(t.Call("=", (bindings.scope[pattern.name], name)))
                else:
                    bindings.bind(pattern.name, name)
                return name
            case s.Anything():
                return t.Var(t.fresh("_"))
            case s.Constant(s.Template() as template):
                holes = tuple(
                    go(s.Variable(hole.name)) if isinstance(hole, s.Name) else self._fixed(hole)
                    for hole in template.holes
                )
                return template_pattern(template, holes)
            case s.Constant():
                return self.expression(pattern.value)
            case s.TuplePattern():
                return t.Tuple(tuple(map(go, pattern.items)))
            case s.ListPattern():
                return t.Enumerate(tuple(map(go, pattern.items)))
            case s.RecordPattern():
                labels = tuple(label for label, _ in pattern.fields)
                return t.MakeRecord(labels, tuple(go(item) for _, item in pattern.fields))
            case s.ConstructorPattern():
                order = self._definitions.constructors.get(pattern.name)
                if order is None:
                    raise pattern.place.error(
                        f"there is no constructor '{pattern.name}'",
                        hint=did_you_mean(pattern.name, list(self._definitions.constructors)),
                    )
                return t.Build(order, pattern.name, tuple(map(go, pattern.items)))
            case s.TypedPattern():
                return go(pattern.pattern)

    def _fixed(self, hole: s.Expression) -> t.Term:
        """What a hole of a pattern says that is no variable: a constant."""
        found = self.expression(hole)
        if not isinstance(found, t.Constant):
            raise s.Place(1, 1).error("a hole in a pattern is a variable or a constant")
        return found

    # --- selects ---

    def _from(
        self, bindings: Iterable[s.Binding], bound: _Bindings, body: Callable[[], t.Term]
    ) -> t.Term:
        """Nested cMaps over the bindings, around what the innermost gives."""
        todo = list(bindings)
        if not todo:
            return body()
        first, *rest = todo
        domain = self.expression(first.domain, bound.scope)
        bound.checks = []
        shape = self._shape(first.pattern, bound)
        checks = bound.checks
        inner = self._from(rest, bound, body)
        for check in reversed(checks):
            inner = check(inner)
        if first.each == "in":
            return t.CMap(t.Lambda(shape, inner), domain)
        return t.Let(domain, t.Lambda(shape, inner))

    def _select(self, e: s.Select, scope: Scope) -> t.Term:
        bound = _Bindings(dict(scope))
        if e.grouping is None:
            found = self._from(
                e.bindings,
                bound,
                lambda: self._filtered(e.condition, bound.scope, self._row(e, bound.scope)),
            )
        else:
            found = self._grouped(e, e.grouping, bound, scope)
        if e.kind == "distinct":
            found = distinct(found, e.ordering)
        if e.ordering is None:
            return found
        limit = e.ordering.limit
        return t.OrderBy(found, None if limit is None else self.expression(limit, scope))

    def _row(self, e: s.Select, scope: Scope) -> t.Term:
        """`{head}`, or `{(key, head)}` under an order."""
        head = self.expression(e.head, scope)
        if e.ordering is None:
            return t.Braces((head,))
        keys: list[t.Term] = []
        for key in e.ordering.keys:
            term = self.expression(key.key, scope)
            keys.append(t.Call("inv", (term,)) if key.direction == "desc" else term)
        return t.Braces((t.Tuple((keys[0] if len(keys) == 1 else t.Tuple(tuple(keys)), head)),))

    def _filtered(self, condition: s.Expression | None, scope: Scope, body: t.Term) -> t.Term:
        if condition is None:
            return body
        return t.If(self.expression(condition, scope), body, t.EMPTY)

    def _grouped(self, e: s.Select, by: s.Grouping, bound: _Bindings, scope: Scope) -> t.Term:
        keys = set(pattern_names(by.pattern))
        parts = [e.head, by.having, *(key.key for key in (e.ordering.keys if e.ordering else ()))]
        used = {name for part in parts if part is not None for name in mentioned(part)}
        lifted: list[str] = []

        def row() -> t.Term:
            lifted.extend(
                name
                for name in bound.here
                if name not in keys and (name in used or "partition" in used)
            )
            key = by.key if by.key is not None else pattern_expression(by.pattern)
            values = tuple(bound.scope[name] for name in lifted)
            value = values[0] if len(values) == 1 else t.Tuple(values)
            pair = t.Braces((t.Tuple((self.expression(key, bound.scope), value)),))
            return self._filtered(e.condition, bound.scope, pair)

        inner = self._from(e.bindings, bound, row)
        group = t.fresh("s")
        self._groups.add(group)
        outer = _Bindings(dict(scope))
        shape = self._shape(by.pattern, outer)
        for index, name in enumerate(lifted):
            outer.scope[name] = lifted_variable(group, lifted, index)
        names = tuple(t.fresh(name) for name in lifted)
        record = t.MakeRecord(tuple(lifted), tuple(map(t.Var, names)))
        taken: t.Shape = names[0] if len(names) == 1 else names
        outer.scope["partition"] = t.CMap(t.Lambda(taken, t.Braces((record,))), t.Var(group))
        body = self._filtered(by.having, outer.scope, self._row(e, outer.scope))
        return t.CMap(t.Lambda((shape, group), outer.checked(body)), t.GroupBy(inner))

    def _case(self, e: s.Case, scope: Scope) -> t.Term:
        subject = t.fresh("x")
        result: t.Term | None = None
        for pattern, branch in reversed(e.branches):
            bindings = _Bindings(dict(scope))
            wanted = self._pattern_term(pattern, bindings)
            body = self.expression(branch, bindings.scope)
            if isinstance(wanted, t.Var):
                result = t.Let(t.Var(subject), t.Lambda(wanted.name, body))
            elif result is None:
                raise s.Place(1, 1).error(
                    "the last pattern of 'case' must always match", hint="add: *"
                )
            else:
                result = t.Match(t.Var(subject), wanted, body, result)
        assert result is not None
        return t.Let(self.expression(e.subject, scope), t.Lambda(subject, result))

    def _repeat(self, e: s.Repeat, scope: Scope) -> t.Term:
        start = self.expression(e.start, scope)
        limit = None if e.limit is None else self.expression(e.limit, scope)
        bindings = _Bindings(dict(scope))
        shape = self._shape(e.pattern, bindings)
        step = t.Lambda(shape, self.expression(e.step, bindings.scope))
        form = "collection" if isinstance(shape, str) else "tuple"
        if form == "tuple" and limit is None:
            raise e.place.error("a repeat over a tuple needs a limit", "expected: 'limit'")
        return t.Repeat(form, step, start, limit)


def _arguments(number: int) -> str:
    return f"{number} argument{'' if number == 1 else 's'}"


def _constant(term: t.Term) -> t.Constant | None:
    if isinstance(term, t.Constant):
        return term
    if isinstance(term, t.Tuple):
        parts = [_constant(item) for item in term.items]
        found = tuple(part.value for part in parts if part is not None)
        return t.Constant(found) if len(found) == len(parts) else None
    if isinstance(term, t.Braces):
        items = [_constant(item) for item in term.items]
        if None not in items:
            return t.Constant(Bag(item.value for item in items if item is not None))
    return None
