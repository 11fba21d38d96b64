"""Soufflé's dialect in ours: tables for what is given, and rules in the text of `db.datalog`.

Facts of constants and relations read from files become tables. A relation that has both facts and
rules gets a table beside it, from which one more rule copies. Numbers are 64 bits wide here; where
an unsigned result would leave 32 bits it is cut, as Soufflé does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tests.external.souffle_components import Program
from tests.external.souffle_functors import Value, cast, numbers
from tests.external.souffle_naive import Row
from tests.external.souffle_syntax import (
    TESTS,
    Aggregate,
    Anything,
    Argument,
    Atom,
    Call,
    Clause,
    Comparison,
    Constant,
    Declaration,
    Either,
    Literal,
    NotApplicable,
    Variable,
)
from tests.external.souffle_types import kind_of, kinds_of, widest

TYPES = {"number": "BIGINT", "unsigned": "BIGINT", "float": "DOUBLE", "symbol": "STRING"}
_WORD = f"{(1 << 32) - 1}L"
_FUNCTORS = {
    "neg": "(-({}))",
    "band": "({} & {})",
    "bor": "({} | {})",
    "bxor": "({} ^ {})",
    "bnot": "(~({}))",
    "lnot": "if({} = 0L, 1L, 0L)",
    "land": "if({} != 0L AND {} != 0L, 1L, 0L)",
    "lor": "if({} != 0L OR {} != 0L, 1L, 0L)",
    "strlen": "CAST(length({}) AS BIGINT)",
    "substr": "substring({}, CAST({} + 1L AS INT), CAST({} AS INT))",
    "to_number": "CAST({} AS BIGINT)",
    "to_unsigned": "CAST({} AS BIGINT)",
    "to_float": "CAST({} AS DOUBLE)",
}
_MANY = {"min": "least", "max": "greatest", "cat": "concat"}


@dataclass(frozen=True, slots=True)
class Table:
    """A table to make: its name, its columns and the rows that the program's facts give it."""

    name: str
    columns: str
    rows: list[Row] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Translated:
    """Tables by the relation that they are given for, rules, and each relation's name here.

    `rules` are the same as `text`, as Soufflé writes them.
    """

    tables: dict[str, Table]
    text: str
    names: dict[str, str]
    rules: Program


def translated(program: Program) -> Translated:
    """The program in our dialect."""
    names = _names(program.relations)
    facts: dict[str, list[Row]] = {}
    rules = []
    for clause in program.clauses:
        if _is_fact(clause):
            for head in clause.heads:
                facts.setdefault(head.name, []).append(_row(head, program.relations[head.name]))
        else:
            rules.append(clause)
    with_rules = {head.name for clause in rules for head in clause.heads}
    with_rules |= {n for n, d in program.relations.items() if "eqrel" in d.qualifiers}
    tables = {}
    lines = []
    for name, declared in program.relations.items():
        if name in with_rules and name not in facts and name not in program.inputs:
            continue
        own = f"{names[name]}_given" if name in with_rules else names[name]
        given = [f"c{i} {TYPES[kind]}" for i, kind in enumerate(declared.types)]
        columns = ", ".join(given) or "holds BOOLEAN"
        tables[name] = Table(own, columns, list(dict.fromkeys(facts.get(name, []))))
        if name in with_rules:
            arguments = ", ".join(f"c{i}" for i, _ in enumerate(declared.types))
            lines.append(f"{names[name]}({arguments}) :- {own}({arguments}).")
    lines += [_Writer(program, names).clause(clause) for clause in rules]
    for name, declared in program.relations.items():
        if "eqrel" in declared.qualifiers:
            lines += _equivalence(names[name])
    return Translated(tables, "\n".join(lines), names, replace(program, clauses=rules))


def _names(relations: Mapping[str, Declaration]) -> dict[str, str]:
    """A name for each relation, such that no two differ in case only."""
    found: dict[str, str] = {}
    taken: set[str] = set()
    for name in relations:
        own = name.replace(".", "_").replace("?", "_q")
        while own.lower() in taken:
            own += "_"
        taken.add(own.lower())
        found[name] = own
    return found


def _is_fact(clause: Clause) -> bool:
    constant = all(isinstance(a, Constant) for head in clause.heads for a in head.arguments)
    return not clause.body and constant


def _row(head: Atom, declared: Declaration) -> Row:
    values = [a.value for a in head.arguments if isinstance(a, Constant)]
    return tuple(cast(value, kind) for value, kind in zip(values, declared.types, strict=True))


def _equivalence(name: str) -> list[str]:
    return [
        f"{name}(x, x) :- {name}(x, _).",
        f"{name}(y, x) :- {name}(x, y).",
        f"{name}(x, z) :- {name}(x, y), {name}(y, z).",
    ]


@dataclass(frozen=True, slots=True)
class _Writer:
    program: Program
    names: Mapping[str, str]
    kinds: Mapping[str, str] = field(default_factory=dict)

    def clause(self, clause: Clause) -> str:
        inner = _Writer(self.program, self.names, kinds_of(clause.body, self.program.relations))
        heads = ", ".join(inner._atom(head) for head in clause.heads)
        return f"{heads} :- {inner._body(clause.body)}." if clause.body else f"{heads}."

    def _body(self, body: Sequence[Literal]) -> str:
        return ", ".join(self._literal(literal) for literal in body)

    def _literal(self, literal: Literal) -> str:
        match literal:
            case Atom(name, arguments, negated) if name in TESTS:
                return "!" * negated + self._test(name, arguments)
            case Atom(_, _, negated):
                return "!" * negated + self._atom(literal)
            case Comparison(operator, left, right):
                kind = widest([self._kind(left), self._kind(right)])
                return f"{self._value(left, kind)} {operator} {self._value(right, kind)}"
            case Either(options):
                return "(" + " ; ".join(self._body(option) for option in options) + ")"

    def _atom(self, atom: Atom) -> str:
        types = self.program.relations[atom.name].types
        written = [self._value(a, k) for a, k in zip(atom.arguments, types, strict=True)]
        return f"{self.names[atom.name]}({', '.join(written)})"

    def _test(self, name: str, arguments: Sequence[Argument]) -> str:
        one, other = arguments
        if name == "contains":
            return f"contains({self._value(other)}, {self._value(one)})"
        if isinstance(one, Constant):
            pattern = str(one.value).replace("[:digit:]", "0-9")
            return f"regexp_like({self._value(other)}, {_quoted(f'^(?:{pattern})$')})"
        return f"regexp_like({self._value(other)}, concat('^(?:', {self._value(one)}, ')$'))"

    def _kind(self, argument: Argument) -> str:
        return kind_of(argument, self.kinds, self.program.relations)

    def _value(self, argument: Argument, kind: str | None = None) -> str:
        """An argument as an expression of Spark, of a kind where one is asked for."""
        match argument:
            case Anything():
                return "_"
            case Constant(value, own):
                return _constant(value, kind or own)
        own = self._kind(argument)
        written = self._written(argument, own)
        changed = kind is not None and TYPES[kind] != TYPES[own]
        return f"CAST({written} AS {TYPES[kind]})" if changed and kind is not None else written

    def _written(self, argument: Argument, kind: str) -> str:
        match argument:
            case Variable(name):
                return name.replace("?", "_q")
            case Call("range", arguments):
                return self._range(arguments, kind)
            case Call(name, arguments):
                found = self._call(name, arguments, kind)
                return f"({found} & {_WORD})" if kind == "unsigned" else found
            case Aggregate(function, value, body):
                return self._aggregate(function, value, body)
        raise AssertionError(argument)

    def _call(self, name: str, arguments: Sequence[Argument], kind: str) -> str:
        taken = widest([self._kind(a) for a in arguments])
        given = [self._value(a, None if name == "substr" else taken) for a in arguments]
        if name in _MANY:
            return f"{_MANY[name]}({', '.join(given)})"
        if name in _FUNCTORS:
            return _FUNCTORS[name].format(*given)
        match name:
            case "to_string":
                is_float = taken == "float"
                return f"format_string('%f', {given[0]})" if is_float else _as_text(given[0])
            case "+" if kind == "symbol":
                return f"concat({', '.join(given)})"
            case "/" if kind != "float":
                return f"({given[0]} DIV {given[1]})"
            case "^":
                return f"CAST(power({given[0]}, {given[1]}) AS {TYPES[kind]})"
            case "+" | "-" | "*" | "/" | "%":
                return f"({given[0]} {name} {given[1]})"
        raise NotApplicable(f"the functor {name}")

    def _aggregate(self, function: str, value: Argument | None, body: Sequence[Literal]) -> str:
        known = kinds_of(body, self.program.relations, self.kinds)
        inner = _Writer(self.program, self.names, known)
        written = "" if value is None else f" {inner._value(value)}"
        return f"{function}{written} : {{ {inner._body(body)} }}"

    def _range(self, arguments: Sequence[Argument], kind: str) -> str:
        """The numbers of a range, one after the other."""
        constants = [a.value for a in arguments if isinstance(a, Constant)]
        if len(constants) == len(arguments):
            found = [_constant(x, kind) for x in numbers(*constants)]
            if kind != "float" and len(found) > 1 and len(constants) == 2:
                return f"explode(sequence({found[0]}, {found[-1]}))"
            return f"explode(CAST(array({', '.join(found)}) AS ARRAY<{TYPES[kind]}>))"
        if len(arguments) != 2 or kind == "float":
            raise NotApplicable("a range with a step that is not constant")
        first, end = (self._value(a, kind) for a in arguments)
        up = f"WHEN {first} < {end} THEN sequence({first}, {end} - 1L)"
        down = f"WHEN {first} > {end} THEN sequence({first}, {end} + 1L)"
        return f"explode(CASE {up} {down} END)"


def _constant(value: Value, kind: str) -> str:
    match kind:
        case "symbol":
            return _quoted(str(value))
        case "float":
            return f"{float(value)}D" if value >= 0 else f"(-{-float(value)}D)"
    return f"{value}L" if value >= 0 else f"(-{-value}L)"


def _quoted(text: str) -> str:
    for mark, written in (("\\", "\\\\"), ("'", "\\'"), ("\n", "\\n"), ("\t", "\\t")):
        text = text.replace(mark, written)
    return f"'{text}'"


def _as_text(number: str) -> str:
    return f"CAST({number} AS STRING)"
