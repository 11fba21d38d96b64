"""Soufflé's programs as clauses: text to tokens, declarations, rules and components.

What has no counterpart here (records, counters, choices and so on) raises `NotApplicable` when it
is read, with its name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

_TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*.*?\*/)
      | (?P<string>"(?:[^"\\]|\\.)*")
      | (?P<float>\d+\.\d+(?:[eE][+-]?\d+)?)
      | (?P<number>(?:0x[0-9a-fA-F]+|0b[01]+|\d+)u?)
      | (?P<name>[A-Za-z_?][\w?]*(?:-domain|(?:\.[A-Za-z_?][\w?]*)+)?)
      | (?P<mark>:-|<:|<=|>=|!=|[-.,;:(){}\[\]<>=!+*/%^$@|&~])""",
    re.VERBOSE | re.DOTALL,
)
_BINARY = (
    ("lor",),
    ("lxor",),
    ("land",),
    ("bor",),
    ("bxor",),
    ("band",),
    ("bshl", "bshr", "bshru"),
    ("+", "-"),
    ("*", "/", "%"),
)
"""Operators from those that bind least to those that bind most."""
COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")
_AGGREGATES = ("count", "sum", "min", "max", "mean")


class NotApplicable(Exception):
    """A program uses something that has no counterpart; the message names it."""


class NotParsed(Exception):
    """The text is not as expected."""


@dataclass(frozen=True, slots=True)
class Variable:
    name: str


@dataclass(frozen=True, slots=True)
class Anything:
    """`_`"""


@dataclass(frozen=True, slots=True)
class Constant:
    """A value; an integer without suffix has the kind `number` and may stand for a float."""

    value: int | float | str
    kind: str


@dataclass(frozen=True, slots=True)
class Call:
    """A functor or an operator."""

    name: str
    arguments: tuple[Argument, ...]


@dataclass(frozen=True, slots=True)
class Aggregate:
    function: str
    value: Argument | None
    body: tuple[Literal, ...]


Argument = Variable | Anything | Constant | Call | Aggregate


@dataclass(frozen=True, slots=True)
class Atom:
    name: str
    arguments: tuple[Argument, ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Comparison:
    operator: str
    left: Argument
    right: Argument


@dataclass(frozen=True, slots=True)
class Either:
    """One of several conjunctions."""

    options: tuple[tuple[Literal, ...], ...]


Literal = Atom | Comparison | Either
"""`match` and `contains` are atoms of these names."""
TESTS = ("match", "contains")


@dataclass(frozen=True, slots=True)
class Clause:
    heads: tuple[Atom, ...]
    body: tuple[Literal, ...]


@dataclass(frozen=True, slots=True)
class Declaration:
    name: str
    types: tuple[str, ...]
    qualifiers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Use:
    """A component with types for its parameters."""

    name: str
    types: tuple[str, ...]


@dataclass(slots=True)
class Items:
    """What a program or a component says."""

    declarations: list[Declaration] = field(default_factory=list)
    clauses: list[Clause] = field(default_factory=list)
    directives: list[tuple[str, str]] = field(default_factory=list)
    components: dict[str, Component] = field(default_factory=dict)
    instances: list[tuple[str, Use]] = field(default_factory=list)
    overridden: set[str] = field(default_factory=set)
    types: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Component:
    parameters: tuple[str, ...]
    bases: tuple[Use, ...]
    items: Items


def parse(text: str) -> Items:
    """The whole program."""
    parser = _Parser(_tokens(_defined(text)))
    found = parser.items()
    if parser.kind != "end":
        raise NotParsed(f"unexpected {parser.here!r}")
    return found


def _defined(text: str) -> str:
    """The text with the macros that it defines put in."""
    macros = re.findall(r"^#define[ \t]+(\w+)[ \t]+(.*)$", text, re.MULTILINE)
    text = re.sub(r"^#define.*$", "", text, flags=re.MULTILINE)
    for name, meaning in macros:
        text = re.sub(rf"\b{name}\b", meaning.replace("\\", r"\\"), text)
    return text


def _tokens(text: str) -> list[tuple[str, str]]:
    found, position = [], 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise NotParsed(f"no token at {text[position : position + 20]!r}")
        position = match.end()
        if match.lastgroup != "space":
            found.append((str(match.lastgroup), match[0]))
    return [*found, ("end", "")]


class _Parser:
    def __init__(self, tokens: Sequence[tuple[str, str]]) -> None:
        self._tokens = tokens
        self._at = 0

    @property
    def kind(self) -> str:
        return self._tokens[self._at][0]

    @property
    def here(self) -> str:
        return self._tokens[self._at][1]

    def _next(self) -> str:
        self._at += 1
        return self._tokens[self._at - 1][1]

    def _takes(self, text: str) -> bool:
        if self.kind == "string" or self.here != text:
            return False
        self._at += 1
        return True

    def _expect(self, text: str) -> None:
        if not self._takes(text):
            raise NotParsed(f"expected {text!r}, found {self.here!r}")

    def _name(self) -> str:
        if self.kind != "name":
            raise NotParsed(f"expected a name, found {self.here!r}")
        return self._next()

    def items(self) -> Items:
        found = Items()
        while self.kind != "end" and self.here != "}":
            if self._takes("."):
                self._directive(found, self._name())
            else:
                found.clauses.append(self._clause())
        return found

    def _directive(self, found: Items, word: str) -> None:
        match word:
            case "decl":
                self._declaration(found)
            case "type":
                self._type(found)
            case "input" | "output" | "printsize":
                names = [self._name()]
                while self._takes(","):
                    names.append(self._name())
                self._skip_parameters()
                found.directives += [(word, name) for name in names]
            case "pragma":
                while self.kind == "string":
                    self._next()
            case "comp":
                self._component(found)
            case "init":
                name = self._name()
                self._expect("=")
                found.instances.append((name, self._use()))
            case "override":
                found.overridden.add(self._name())
            case "functor":
                raise NotApplicable("functors written in C++")
            case _:
                raise NotApplicable(f"the directive .{word}")

    def _skip_parameters(self) -> None:
        if self._takes("("):
            while not self._takes(")"):
                self._next()

    def _declaration(self, found: Items) -> None:
        names = [self._name()]
        while self._takes(","):
            names.append(self._name())
        self._expect("(")
        types = []
        while not self._takes(")"):
            self._name()
            self._expect(":")
            types.append(self._name())
            self._takes(",")
        qualifiers = []
        while self.here in ("inline", "overridable", "magic", "no_magic", "eqrel", "choice-domain"):
            qualifiers.append(self._next())
        if "choice-domain" in qualifiers:
            raise NotApplicable("choices: which row stays depends on the order of evaluation")
        found.declarations += [Declaration(n, tuple(types), tuple(qualifiers)) for n in names]

    def _type(self, found: Items) -> None:
        name = self._name()
        if self._takes("<:"):
            found.types[name] = self._name()
            return
        self._expect("=")
        if self.here == "[":
            raise NotApplicable("records")
        found.types[name] = self._name()
        if self.here == "{":
            raise NotApplicable("algebraic data types")
        while self._takes("|"):
            self._name()

    def _component(self, found: Items) -> None:
        use = self._use()
        bases = []
        if self._takes(":"):
            bases.append(self._use())
            while self._takes(","):
                bases.append(self._use())
        self._expect("{")
        items = self.items()
        self._expect("}")
        found.components[use.name] = Component(use.types, tuple(bases), items)

    def _use(self) -> Use:
        name = self._name()
        types = []
        if self._takes("<"):
            types.append(self._name())
            while self._takes(","):
                types.append(self._name())
            self._expect(">")
        return Use(name, tuple(types))

    def _clause(self) -> Clause:
        heads = [self._atom()]
        while self._takes(","):
            heads.append(self._atom())
        if self._takes("<="):
            raise NotApplicable("subsumption: a row that another one replaces")
        body = self._conjunction() if self._takes(":-") else ()
        self._expect(".")
        return Clause(tuple(heads), body)

    def _atom(self) -> Atom:
        name = self._name()
        self._expect("(")
        return Atom(name, self._arguments())

    def _arguments(self) -> tuple[Argument, ...]:
        found = []
        while not self._takes(")"):
            found.append(self._argument())
            if self.here != ")":
                self._expect(",")
        return tuple(found)

    def _conjunction(self) -> tuple[Literal, ...]:
        """Literals, up to what ends a body; alternatives become one literal."""
        options = [self._literals()]
        while self._takes(";"):
            options.append(self._literals())
        return options[0] if len(options) == 1 else (Either(tuple(options)),)

    def _literals(self) -> tuple[Literal, ...]:
        found = self._literal()
        while self._takes(","):
            found += self._literal()
        return found

    def _literal(self) -> tuple[Literal, ...]:
        if self._takes("!"):
            atom = self._atom()
            return (Atom(atom.name, atom.arguments, negated=True),)
        start = self._at
        try:
            left = self._argument()
            if self.here in COMPARISONS and self.kind == "mark":
                operator = self._next()
                return (Comparison(operator, left, self._argument()),)
        except NotParsed:
            if self._tokens[start][1] != "(":
                raise
        self._at = start
        if self._takes("("):
            group = self._conjunction()
            self._expect(")")
            return group
        return (self._atom(),)

    def _argument(self, level: int = 0) -> Argument:
        if level == len(_BINARY):
            return self._unary()
        left = self._argument(level + 1)
        while self.here in _BINARY[level] and self.kind != "string":
            operator = self._next()
            left = Call(operator, (left, self._argument(level + 1)))
        return left

    def _unary(self) -> Argument:
        if self.kind != "string" and self.here in ("-", "bnot", "lnot"):
            operator = self._next()
            inner = self._unary()
            if operator == "-" and isinstance(inner, Constant) and not isinstance(inner.value, str):
                return Constant(-inner.value, inner.kind)
            return Call("neg" if operator == "-" else operator, (inner,))
        base = self._primary()
        return Call("^", (base, self._unary())) if self._takes("^") else base

    def _primary(self) -> Argument:
        kind, text = self._tokens[self._at]
        match kind:
            case "string":
                return Constant(_unescaped(self._next()), "symbol")
            case "float":
                return Constant(float(self._next()), "float")
            case "number":
                self._next()
                value = int(text.rstrip("u"), 0)
                return Constant(value, "unsigned" if text.endswith("u") else "number")
            case "name":
                return self._named()
        if self._takes("("):
            inner = self._argument()
            self._expect(")")
            return inner
        if text == "[":
            raise NotApplicable("records")
        if text == "$":
            raise NotApplicable("algebraic data types")
        if text == "@":
            raise NotApplicable("functors written in C++")
        raise NotParsed(f"unexpected {text!r}")

    def _named(self) -> Argument:
        if self.here in _AGGREGATES:
            found = self._aggregate()
            if found is not None:
                return found
        if self.here == "_":
            self._next()
            return Anything()
        if self.here == "nil":
            raise NotApplicable("records")
        name = self._name()
        if not self._takes("("):
            return Variable(name)
        if name in ("autoinc", "ord"):
            raise NotApplicable(f"{name}: a number that follows the order of evaluation")
        return Call(name, self._arguments())

    def _aggregate(self) -> Aggregate | None:
        """`max x : ...`, or nothing where it is a call as in `max(x, y)`."""
        start = self._at
        function = self._next()
        try:
            value = None if function == "count" else self._argument()
            self._expect(":")
        except NotParsed:
            self._at = start
            return None
        if not self._takes("{"):
            return Aggregate(function, value, (self._atom(),))
        body = self._conjunction()
        self._expect("}")
        return Aggregate(function, value, body)


def _unescaped(text: str) -> str:
    marks = {"n": "\n", "t": "\t", "r": "\r"}
    return re.sub(r"\\(.)", lambda m: marks.get(m[1], m[1]), text[1:-1], flags=re.DOTALL)
