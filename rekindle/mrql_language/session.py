"""Running a script with the reference semantics: statements in order, each with its result.

A statement that fails gives its error, and the next one runs. Names and definitions last for the
session. `incr e` gives here what `e` gives over all that a stream holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from rekindle.errors import RekindleError, StatementError, UnsupportedError
from rekindle.mrql_language import syntax as s
from rekindle.mrql_language import terms as t
from rekindle.mrql_language.definitions import Definitions
from rekindle.mrql_language.interpreter import Function, Interpreter, Reader, no_sources
from rekindle.mrql_language.monoids import User
from rekindle.mrql_language.parse import parse_statement, pieces
from rekindle.mrql_language.translate import Translator
from rekindle.mrql_language.unnest import unnest
from rekindle.mrql_language.values import List, Value

NOTHING = object()
"""The value of a statement that gives none."""


class Writer(Protocol):
    """Takes what `store "f" from e` and `dump "f" from e` write."""

    def write(self, verb: str, name: str, value: Value) -> None: ...


@dataclass(frozen=True, slots=True)
class Result:
    """What a statement gave: a value, `NOTHING`, or an error."""

    statement: s.Statement | None
    value: Value
    error: RekindleError | None = None


class Session:
    """Definitions and stored values, over sources that a reader gives."""

    def __init__(
        self,
        read: Reader = no_sources,
        writer: Writer | None = None,
        tables: Mapping[str, Value] | None = None,
        arguments: Sequence[str] = (),
        prepare: Callable[[t.Term], t.Term] = unnest,
    ) -> None:
        self._tables = dict(tables or {})
        self._read = read
        self._writer = writer
        self._prepare = prepare
        self.definitions = Definitions(tables=dict.fromkeys(self._tables, "stream"))
        self.interpreter = Interpreter(self._source)
        self._store("args", List(tuple(arguments)))

    def _source(self, source: t.Source) -> Value:
        if source.request is None and source.name in self._tables:
            return self._tables[source.name]
        return self._read(source)

    def _store(self, name: str, value: Value) -> None:
        self.definitions.stored.add(name)
        self.definitions.expressions.pop(name, None)
        self.interpreter.stored[name] = value

    def term(self, expression: s.Expression) -> t.Term:
        """The term of an expression under the definitions so far."""
        try:
            return self._prepare(Translator(self.definitions).expression(expression))
        except RecursionError:
            raise StatementError("MRQL: the expression is nested too deeply") from None

    def run(self, script: str) -> list[Result]:
        """The results of the statements of a script, in order."""
        results = []
        for piece in pieces(script):
            statement = None
            try:
                statement = parse_statement(piece)
                results.append(Result(statement, self.execute(statement)))
            except RekindleError as error:
                results.append(Result(statement, NOTHING, error))
        return results

    def execute(self, statement: s.Statement) -> Value:
        """The value of one statement, or `NOTHING`."""
        known = self.definitions
        match statement:
            case s.Evaluate():
                return self.evaluate(statement.expression)
            case s.Assign():
                known.expressions[statement.name] = statement.expression
            case s.StoreVariable():
                self._store(statement.name, self.evaluate(statement.expression))
            case s.StoreFile():
                if self._writer is None:
                    raise UnsupportedError(f"'{statement.verb}' has nowhere to write to")
                value = self.evaluate(statement.expression)
                self._writer.write(statement.verb, statement.file, value)
            case s.TypeDefinition():
                known.check(statement.type)
                # Not by its name: a type that is given anew may be made of what it was.
                known.types[statement.name] = known.resolved(statement.type)
            case s.DataDefinition():
                for _, kind in statement.constructors:
                    known.check(kind, statement.name)
                known.kinds.add(statement.name)
                for order, (name, _) in enumerate(statement.constructors):
                    known.constructors[name] = order
            case s.FunctionDefinition():
                self._define(statement)
            case s.MacroDefinition():
                known.macros[statement.name] = statement
            case s.AggregationDefinition():
                self._aggregation(statement)
            case s.Outside():
                raise statement.place.error(f"'{statement.verb}' is not run here")
        return NOTHING

    def evaluate(self, expression: s.Expression) -> Value:
        """The value of an expression."""
        return self.interpreter.once(self.term(expression))

    def _define(self, statement: s.FunctionDefinition) -> None:
        known = self.definitions
        for kind in (*(kind for _, kind in statement.parameters), statement.result):
            known.check(kind)
        before = known.functions.get(statement.name)
        known.functions[statement.name] = len(statement.parameters)
        names = {name: t.fresh(name) for name, _ in statement.parameters}
        scope = {name: t.Var(given) for name, given in names.items()}
        try:
            body = self._prepare(Translator(known).expression(statement.body, scope))
        except RekindleError:
            if before is None:
                del known.functions[statement.name]
            raise
        kinds = tuple(known.number(kind) for _, kind in statement.parameters)
        self.interpreter.functions[statement.name] = Function(
            tuple(names.values()), kinds, known.number(statement.result), body
        )

    def _aggregation(self, statement: s.AggregationDefinition) -> None:
        self.definitions.check(statement.element)
        plus = self._function(statement.plus)
        unit = None if statement.unit is None else self._function(statement.unit)
        start = self.evaluate(statement.zero)

        def merge(left: Value, right: Value) -> Value:
            return self.interpreter.apply(plus, (left, right))

        self.definitions.aggregations[statement.name] = (
            User(statement.name, merge, start, plus),
            unit,
        )

    def _function(self, expression: s.Expression) -> t.Lambda:
        """A lambda, or a function of the script by its name, as a function of one value."""
        if isinstance(expression, s.Name) and expression.name in self.definitions.functions:
            arity = self.definitions.functions[expression.name]
            names = tuple(t.fresh("x") for _ in range(arity))
            shape: t.Shape = names[0] if arity == 1 else names
            return t.Lambda(shape, t.Invoke(expression.name, tuple(map(t.Var, names))))
        found = Translator(self.definitions).expression(expression)
        if not isinstance(found, t.Lambda):
            raise UnsupportedError("an aggregation is given by functions")
        return found


def run(
    script: str, sources: Reader | Mapping[str, Value] = no_sources, arguments: Sequence[str] = ()
) -> list[Value]:
    """The values of the expressions of a script, in order; raises the first error.

    `sources` reads files, or holds collections by name.

    >>> from rekindle.mrql_language.values import Bag
    >>> run("select (k, sum(v)) from (k,v) in S group by k;", {"S": Bag((("a", 1), ("a", 2)))})
    [{('a', 3)}]
    """
    if isinstance(sources, Mapping):
        session = Session(tables=sources, arguments=arguments)
    else:
        session = Session(sources, arguments=arguments)
    results = session.run(script)
    for result in results:
        if result.error is not None:
            raise result.error
    return [result.value for result in results if result.value is not NOTHING]
