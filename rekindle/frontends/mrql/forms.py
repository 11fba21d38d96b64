"""What a term is as far as its form shows: a collection or not, of rows of tables or of values.

Nothing is compiled for that: a name that stands for a collection is known as one, and a function of
the script is as what its body is with what it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rekindle.frontends.mrql.blocks import Group, Relation
from rekindle.frontends.mrql.scope import Known, Later, Scope
from rekindle.frontends.mrql.values import Many, Sql
from rekindle.mrql_language import terms as t
from rekindle.mrql_language.values import Bag, List

COLLECTIONS = (
    t.Source,
    t.Braces,
    t.Enumerate,
    t.Union,
    t.CMap,
    t.GroupBy,
    t.CoGroup,
    t.OrderBy,
    t.Repeat,
)
_LISTS = ("slice", "range_list", "range_bag")


class Forms:
    """Tells terms apart, under what a script has defined."""

    def __init__(self, known: Known) -> None:
        self.known = known
        self._calls: list[str] = []
        """The functions of the script within which a term stands."""

    @contextmanager
    def where_written(self, later: Later) -> Iterator[None]:
        """Until the end the functions that are being called are those around what has a name."""
        before, self._calls = self._calls, list(later.calls)
        try:
            yield
        finally:
            self._calls = before

    def is_collection(self, term: t.Term, scope: Scope) -> bool:
        """Is it a bag or a list, as far as its form shows?"""
        match term:
            case t.Var():
                bound = scope.environment.get(term.name)
                if isinstance(bound, Later):
                    return True
                known = isinstance(bound, Sql) and isinstance(bound.type, Many)
                return known or isinstance(bound, Group | Relation)
            case t.If():
                return self.is_collection(term.then, scope)
            case t.Match():
                return self.is_collection(term.body, scope)
            case t.Let():
                inner = self._with_forms(term.function.shape, term.value, scope)
                return self.is_collection(term.function.body, inner)
            case t.Call():
                return term.function in _LISTS
            case t.Invoke():
                return self._of_body(term, scope, self.is_collection)
            case t.Constant():
                return isinstance(term.value, Bag | List)
            case t.Stored():
                return isinstance(self.known.stored[term.name], Bag | List)
            case t.Project() | t.Field() if self.spread(term, scope) is not None:
                return True
            case t.Project(operand, index):
                return self._has_collection(operand, index, scope)
            case t.Repeat():
                return term.form != "tuple"
            case t.Reduce():
                return str(term.monoid) in ("⊎", "++")
            case _:
                return isinstance(term, COLLECTIONS)

    def spread(self, term: t.Project | t.Field, scope: Scope) -> t.CMap | None:
        """`S.k` and `S#0` of a table as what they are of each of its rows; None of all else."""
        source = term.operand
        while isinstance(source, t.Var):
            bound = scope.environment.get(source.name)
            if not isinstance(bound, Later):
                return None
            source, scope = bound.term, Scope(bound.environment)
        if not isinstance(source, t.Source) or source.name not in self.known.tables:
            return None
        columns = self.known.tables[source.name].names
        is_tuple = columns == [f"_{i}" for i in range(1, len(columns) + 1)]
        if columns == ["value"] or is_tuple != isinstance(term, t.Project):
            return None
        row = t.fresh("x")
        head = t.rebuilt(term, lambda _: t.Var(row))
        return t.CMap(t.Lambda(row, t.Braces((head,))), term.operand)

    def ends_in_repeat(self, term: t.Term) -> bool:
        """Is what it gives, after names and functions, a repeat over a tuple?"""
        seen = set(self._calls)
        while not isinstance(term, t.Repeat):
            match term:
                case t.Let():
                    term = term.function.body
                case t.Invoke() if term.function not in seen:
                    seen.add(term.function)
                    term = self.known.functions[term.function].body
                case _:
                    return False
        return term.form == "tuple"

    def _has_collection(self, term: t.Term, index: int, scope: Scope) -> bool:
        """Is a component of a tuple a bag or a list, as far as its form shows?"""
        match term:
            case t.Tuple():
                return index < len(term.items) and self.is_collection(term.items[index], scope)
            case t.Let():
                inner = self._with_forms(term.function.shape, term.value, scope)
                return self._has_collection(term.function.body, index, inner)
            case t.Invoke():
                return self._of_body(
                    term, scope, lambda body, inner: self._has_collection(body, index, inner)
                )
            case t.Repeat(form="tuple"):
                return index < len(term.step.shape)
            case _:
                return False

    def _of_body(self, term: t.Invoke, scope: Scope, ask: Callable[[t.Term, Scope], bool]) -> bool:
        """What is asked of a function's body, with the forms of its arguments."""
        if term.function in self._calls:
            return False
        function, inner = self.known.functions[term.function], scope
        for name, argument in zip(function.parameters, term.arguments, strict=True):
            inner = self._with_forms(name, argument, inner)
        self._calls.append(term.function)
        try:
            return ask(function.body, inner)
        finally:
            self._calls.pop()

    def _with_forms(self, shape: t.Shape, value: t.Term, scope: Scope) -> Scope:
        """The scope in which it is known which of the names are collections, to ask for forms."""
        if isinstance(shape, str):
            is_one = self.is_collection(value, scope)
            return scope.having(**{shape: Later(value, scope.environment)}) if is_one else scope
        for i, part in enumerate(shape):
            scope = self._with_forms(part, component_of(value, i), scope)
        return scope

    def reads_tables(self, term: t.Term, scope: Scope) -> bool:
        """Are there rows of tables in it?"""
        match term:
            case t.Source() | t.Read():
                return True
            case t.Var():
                bound = scope.environment.get(term.name)
                if isinstance(bound, Later):
                    with self.where_written(bound):
                        return self.reads_tables(bound.term, Scope(bound.environment))
                return isinstance(bound, Relation)
            case t.Invoke() if term.function in self._calls:
                return False
            case t.Invoke():
                body = self.known.functions[term.function].body
                parts = (*term.arguments, body)
                return any(self.reads_tables(part, scope) for part in parts)
            case _:
                return any(self.reads_tables(part, scope) for part in t.children(term))


def component_of(term: t.Term, index: int) -> t.Term:
    """A component of a tuple, which need not be made for it."""
    if isinstance(term, t.Tuple) and index < len(term.items):
        return term.items[index]
    return t.Project(term, index)
