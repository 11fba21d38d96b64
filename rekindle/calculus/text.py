r"""The text form of a term, which parses back to an equal term.

One line for each node, its inputs below it, two spaces further in:

    distinct
      map x = $0:int, y = $3:string
        join on $1:bigint! = $0:bigint!
          filter greater($2:int, 2:int):boolean
            source t1 (x: int, id: bigint!, a: int)
          source t2 (id: bigint!, y: string)

The grammar of a line, where `!` after a type means that NULL cannot occur:

    source NAME (NAME: TYPE, ...)
    constant @0 (NAME: TYPE, ...)
    map NAME = SCALAR, ...
    filter SCALAR
    flatmap [keep POSITION, ...] generate GENERATOR
    union | negate | distinct
    join [on SCALAR = SCALAR, ...] [where SCALAR] [BAND]
    semijoin ANSWER CONDITION [or CONDITION ...]
    outerjoin PADDED [on SCALAR = SCALAR, ...] [where SCALAR] [BAND]
    aggregate [by NAME = SCALAR, ...] [compute MEASURE, ...] [merge SCALAR]
    pergroup [by POSITION, ...] [EXTENT] BODY
    triggered over COUNT

The inputs of `triggered` are its meaning, that many leaves, and then its triggers.

A term is a graph. What several nodes have as an input stands before the term, once, and is used by
its number; leaves are repeated. So a text is as long as the graph is large, and gives it back:

    let 0
      distinct
        source t (x: int)
    union
      use 0
      use 0

    CONDITION  always [on SCALAR = SCALAR, ...] [where SCALAR] [left SCALAR] [right SCALAR] [BAND]
    BAND       [find left SCALAR ENDS] [find right SCALAR ENDS]
    ENDS       [from SCALAR] [to SCALAR] [decides]
    EXTENT     first COUNT of POSITION | near COUNT COUNT rows of POSITION
               | near COUNT COUNT values of POSITION | onwards of POSITION counted by POSITION
    BODY       measures (NAME: TYPE, ...) compute MEASURE, ... | body @0
    SCALAR     $0:TYPE | 'text':TYPE | 1:TYPE | null:TYPE | function(SCALAR, ...):TYPE | @0
    MEASURE    NAME = function(SCALAR, ...):TYPE ['text'] [finish @0] [distinct] [order SCALAR]
    GENERATOR  explode $0 (NAME: TYPE) | explode_outer $0 (NAME: TYPE) | @0

A name that is no identifier stands in backticks, a type that is no word in double quotes, both
with backslash escapes. What has no Python form (a Catalyst-backed scalar, a generator of Spark, a
measure's last step) is printed as a reference `@N` into a table that goes with the text: the pair
is how a catalog keeps a view. Rejected: printing such objects by their own `text`, which does not
determine them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeVar, assert_never, cast

from rekindle.calculus.bodies import Measures
from rekindle.calculus.generators import Explode, ExplodeOuter
from rekindle.calculus.relation import Relation
from rekindle.calculus.scalars import Call, Column, Literal, Scalar, quoted, written_type
from rekindle.calculus.schema import Field, Schema
from rekindle.calculus.terms import (
    Aggregate,
    AggregateFunction,
    Answer,
    Body,
    Bound,
    Condition,
    Constant,
    Distance,
    Distinct,
    Filter,
    Fix,
    FlatMap,
    Generator,
    Join,
    Map,
    Measure,
    Negate,
    OuterJoin,
    Padded,
    PerGroup,
    Quantiles,
    Range,
    RangeCondition,
    Reach,
    RunningFrame,
    SemiJoin,
    SlidingFrame,
    Source,
    Term,
    TopRows,
    Triggered,
    UnionAll,
    Values,
)
from rekindle.calculus.walks import fold
from rekindle.errors import DefinitionError

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_INDENT = "  "
_STAMPED = ("stamped",)
_UNTIL = {Bound.ERROR: "within", Bound.RESULT: "at most"}
_LET, _USE = "let", "use"
_MOST_COLUMNS = 100_000
"""Joins of what is shared double its columns at every line: a text of a page could fill memory."""

T = TypeVar("T")
E = TypeVar("E", bound=Enum)


def to_text(term: Term) -> str:
    """The text of a term; opaque parts are shown as references only.

    >>> print(to_text(Distinct(Source("t", Schema.of(x="int")))))
    distinct
      source t (x: int)
    """
    return to_text_with_table(term)[0]


def to_text_with_table(term: Term) -> tuple[str, tuple[object, ...]]:
    """The text of a term and the objects that its references stand for.

    `parse(*to_text_with_table(term)) == term` for every term, and it shares what the term shares.
    """
    return _printed(term, _shared(term))


MOST_AS_TREE = 4_096
"""A term of more nodes, counted as often as they are used, is not written as a tree."""


def to_tree_text_with_table(term: Term) -> tuple[str, tuple[object, ...]]:
    """The same for the tree that a term is, so that equal terms have equal texts.

    What is stored under such a text was stored so before terms were written as graphs. A term whose
    tree is too large for that is written as the graph that it is.
    """
    size: int = fold(term, _below, lambda _, sizes: min(1 + sum(sizes), MOST_AS_TREE + 1))
    return _printed(term, () if size <= MOST_AS_TREE else _shared(term))


def parse(text: str, table: Sequence[object] = ()) -> Term:
    """The term that a text denotes; `table` holds what the references `@0`, `@1`, ... stand for.

    >>> parse("negate\\n  source t (x: int)")
    Negate(child=Source(name='t', schema=Schema(fields=(Field(name='x', type='int', ...),))))
    """
    lines = [
        _Line(number, content, table)
        for number, content in enumerate(text.splitlines(), start=1)
        if content.strip()
    ]
    if not lines:
        raise DefinitionError("an empty text denotes no term")
    return _parse_nodes(lines)


def names_read(text: str) -> tuple[str, ...]:
    """The names of the sources in a text, whatever else is in it; none where it is no text.

    >>> names_read("map x = @0\\n  source t (x: int)")
    ('t',)
    """
    found = []
    for number, content in enumerate(text.splitlines(), start=1):
        line = _Line(number, content, ())
        try:
            if line.accept("source"):
                found.append(line.name())
        except DefinitionError:
            continue
    return tuple(dict.fromkeys(found))


# --- printing -----------------------------------------------------------------------------------


def _below(term: Term) -> tuple[Term, ...]:
    """The terms that are written below a term."""
    return (*term.children, *term.triggers) if isinstance(term, Triggered) else term.children


def _shared(term: Term) -> tuple[Term, ...]:
    """The nodes with inputs of their own that are used more than once, inputs first."""
    uses: Counter[int] = Counter()
    ordered: list[Term] = []

    def count(node: Term, _: tuple[None, ...]) -> None:
        below = _below(node)
        uses.update(map(id, below))
        if below:
            ordered.append(node)

    fold(term, _below, count)
    return tuple(node for node in ordered if uses[id(node)] > 1)


def _printed(term: Term, shared: Sequence[Term]) -> tuple[str, tuple[object, ...]]:
    printer = _Printer()
    lines: list[str] = []
    for number, part in enumerate(shared):
        lines += (f"let {number}", *printer.lines(part, 1))
        printer.numbers[id(part)] = number
    lines += printer.lines(term, 0)
    return "\n".join(lines), tuple(printer.table)


@dataclass(slots=True)
class _Printer:
    table: list[object] = field(default_factory=list)
    numbers: dict[int, int] = field(default_factory=dict)
    """Those of the nodes that are written already and can be used."""
    alike: dict[tuple[type, int], list[int]] = field(default_factory=dict)
    """The places in the table of the objects that may be equal."""

    def lines(self, term: Term, depth: int) -> Iterator[str]:
        waiting = [(term, depth)]
        while waiting:
            node, depth = waiting.pop()
            number = self.numbers.get(id(node))
            if number is not None:
                yield f"{_INDENT * depth}use {number}"
                continue
            yield _INDENT * depth + self.head(node)
            waiting += ((child, depth + 1) for child in reversed(_below(node)))

    def head(self, term: Term) -> str:
        match term:
            case Source():
                return f"source {_name(term.name)} {_fields(term.schema)}"
            case Constant():
                return f"constant {self.reference(term.relation)} {_fields(term.schema)}"
            case Map():
                return _words("map", self.named(term.outputs))
            case Filter():
                return f"filter {self.scalar(term.predicate)}"
            case FlatMap():
                kept = ", ".join(map(str, term.kept))
                generator = self.generator(term.generator)
                return _words("flatmap", _clause("keep", kept), f"generate {generator}")
            case UnionAll():
                return "union"
            case Negate():
                return "negate"
            case Join():
                pairs = self.pairs(term.left_keys, term.right_keys, term.residual)
                return _words("join", *pairs, self.band(term.band))
            case SemiJoin():
                alternatives = " or ".join(map(self.condition, term.conditions))
                return _words("semijoin", term.answer.value, alternatives)
            case OuterJoin():
                pairs = self.pairs(term.left_keys, term.right_keys, term.residual)
                return _words("outerjoin", term.padded.value, *pairs, self.band(term.band))
            case Distinct():
                return _words("distinct", *_STAMPED * term.stamps)
            case Aggregate():
                keys = self.named(term.keys)
                measures = ", ".join(map(self.measure, term.measures))
                return _words(
                    "aggregate",
                    _clause("by", keys),
                    _clause("compute", measures),
                    self.optional("merge", term.merged),
                )
            case PerGroup():
                return _words(
                    "pergroup",
                    *_STAMPED * term.stamps,
                    _clause("by", ", ".join(map(str, term.keys))),
                    _reach_text(term.reach),
                    self.body(term.body),
                )
            case Fix():
                names = ", ".join(map(_name, term.names))
                seeds = "from seeds" if term.seeds else ""
                until = _UNTIL[term.bound]
                return _words("fix", names, seeds, f"give {term.output} {until} {term.limit}")
            case Triggered():
                return f"triggered over {len(term.leaves)}"
            case _:
                assert_never(term)

    def pairs(
        self, left: Sequence[Scalar], right: Sequence[Scalar], residual: Scalar | None
    ) -> tuple[str, str]:
        keys = ", ".join(
            f"{self.scalar(a)} = {self.scalar(b)}" for a, b in zip(left, right, strict=True)
        )
        return _clause("on", keys), self.optional("where", residual)

    def optional(self, keyword: str, scalar: Scalar | None) -> str:
        return "" if scalar is None else _clause(keyword, self.scalar(scalar))

    def condition(self, condition: Condition) -> str:
        return _words(
            "always",
            *self.pairs(condition.left_keys, condition.right_keys, condition.residual),
            self.optional("left", condition.left_predicate),
            self.optional("right", condition.right_predicate),
            self.band(condition.band),
        )

    def band(self, band: RangeCondition | None) -> str:
        if band is None:
            return ""
        return _words(self.range("left", band.left), self.range("right", band.right))

    def range(self, side: str, range_: Range | None) -> str:
        if range_ is None:
            return ""
        return _words(
            f"find {side} {self.scalar(range_.place)}",
            self.optional("from", range_.low),
            self.optional("to", range_.high),
            "decides" if range_.decides else "",
        )

    def body(self, body: Body) -> str:
        if isinstance(body, Measures):
            measures = ", ".join(map(self.measure, body.measures))
            return f"measures {_fields(body.keys)} compute {measures}"
        return f"body {self.reference(body)}"

    def named(self, outputs: Iterable[tuple[str, Scalar]]) -> str:
        return ", ".join(f"{_name(name)} = {self.scalar(scalar)}" for name, scalar in outputs)

    def scalar(self, scalar: Scalar) -> str:
        match scalar:
            case Column():
                return scalar.text
            case Literal() if type(scalar.value) in (bool, int, float, str, type(None)):
                return scalar.text
            case Call():
                return f"{scalar.function}({self.scalars(scalar.arguments)}):" + written_type(
                    scalar.type
                )
            case _:
                return self.reference(scalar)

    def scalars(self, scalars: Iterable[Scalar]) -> str:
        return ", ".join(map(self.scalar, scalars))

    def measure(self, measure: Measure) -> str:
        mark = "" if measure.nullable else "!"
        return _words(
            f"{_name(measure.name)} = {measure.function.value}({self.scalars(measure.arguments)})"
            f":{written_type(measure.type)}{mark}",
            quoted(measure.text, "'") if measure.text else "",
            "" if measure.finish is None else f"finish {self.reference(measure.finish)}",
            "distinct" if measure.values is Values.DISTINCT else "",
            self.optional("order", measure.order),
            f"at {_numbers(measure.fractions)}" if measure.fractions else "",
        )

    def generator(self, generator: Generator) -> str:
        match generator:
            case Explode():
                return f"explode ${generator.position} {_fields((generator.element,))}"
            case ExplodeOuter():
                return f"explode_outer ${generator.position} {_fields((generator.element,))}"
            case _:
                return self.reference(generator)

    def reference(self, target: object) -> str:
        # Some objects overload == (a Spark Column) or have no hash: compare with care, in order.
        alike = self.alike.setdefault((type(target), _hash(target)), [])
        for number in alike:
            known = self.table[number]
            if known is target or (known == target) is True:
                return f"@{number}"
        alike.append(len(self.table))
        self.table.append(target)
        return f"@{alike[-1]}"


def _hash(target: object) -> int:
    try:
        return hash(target)
    except TypeError:
        return 0


def _words(*words: str) -> str:
    return " ".join(filter(None, words))


def _reach_text(reach: Reach | None) -> str:
    match reach:
        case None:
            return ""
        case TopRows():
            return f"first {reach.rows} of {reach.column}"
        case SlidingFrame():
            measured = reach.distance.value
            return f"near {reach.before} {reach.after} {measured} of {reach.column}"
        case RunningFrame():
            return f"onwards of {reach.column} counted by {reach.rows}"
        case Quantiles():
            at = _numbers(reach.fractions)
            return f"quantiles {at} of {reach.column} {reach.value} counted by {reach.rows}"
        case _:
            assert_never(reach)


def _numbers(numbers: Iterable[float]) -> str:
    return f"({', '.join(map(repr, numbers))})"


def _clause(keyword: str, content: str) -> str:
    return f"{keyword} {content}" if content else ""


def _name(name: str) -> str:
    return name if _IDENTIFIER.fullmatch(name) else quoted(name, "`")


def _fields(fields: Iterable[Field]) -> str:
    texts = (
        f"{_name(field.name)}: {written_type(field.type)}{'' if field.nullable else '!'}"
        for field in fields
    )
    return f"({', '.join(texts)})"


# --- parsing ------------------------------------------------------------------------------------

_SPACES = re.compile(r" *")
_END = re.compile(r"$")
_NOTHING = re.compile(r"(?!)")
_POSITION = re.compile(r"[0-9]+")
_NUMBER = re.compile(r"-?(?:inf|nan|[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?)(?![A-Za-z0-9_])")
_BARE_TYPE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\([0-9]+(?:,[0-9]+)?\))?")
_ESCAPE = re.compile(r"\\(?:u\{([0-9a-f]+)\}|(.))")
_QUOTED = {mark: re.compile(rf"{mark}((?:[^{mark}\\]|\\.)*){mark}") for mark in "'\"`"}
_FUNCTIONS = {function.value: function for function in AggregateFunction}


@dataclass(slots=True)
class _Line:
    """One line of the text and how far it has been read."""

    number: int
    content: str
    table: Sequence[object]
    position: int = 0

    def error(self, expected: str) -> DefinitionError:
        return DefinitionError(
            f"line {self.number}, column {self.position + 1}: {expected}",
            detail=f"in: {self.content.strip()}",
        )

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Reads what the pattern matches at the current place, after spaces."""
        self.position = cast("re.Match[str]", _SPACES.match(self.content, self.position)).end()
        found = pattern.match(self.content, self.position)
        if found is not None:
            self.position = found.end()
        return found

    def expect(self, pattern: re.Pattern[str], what: str) -> re.Match[str]:
        found = self.match(pattern)
        if found is None:
            rest = self.content[self.position :]
            raise self.error(f"expected {what}, found {repr(rest[:20]) if rest else 'the end'}")
        return found

    def accept(self, symbol: str) -> bool:
        """Reads the symbol or whole word, if it is next."""
        end = r"(?![A-Za-z0-9_])" if symbol[-1].isalnum() else ""
        return self.match(re.compile(re.escape(symbol) + end)) is not None

    def repeated(self, symbol: str) -> int:
        """How often the symbol or word is next."""
        return sum(1 for _ in iter(lambda: self.accept(symbol), False))

    def require(self, symbol: str) -> None:
        if not self.accept(symbol):
            self.expect(_NOTHING, f"'{symbol}'")

    def end(self) -> None:
        self.expect(_END, "the end of the line")

    def listed(self, item: Callable[[], T]) -> tuple[T, ...]:
        items = [item()]
        while self.accept(","):
            items.append(item())
        return tuple(items)

    def parenthesised(self, item: Callable[[], T]) -> tuple[T, ...]:
        self.require("(")
        if self.accept(")"):
            return ()
        items = self.listed(item)
        self.require(")")
        return items

    def quoted(self, mark: str) -> str | None:
        found = self.match(_QUOTED[mark])
        return None if found is None else _ESCAPE.sub(_unescaped, found.group(1))

    def name(self) -> str:
        in_backticks = self.quoted("`")
        return self.expect(_IDENTIFIER, "a name").group() if in_backticks is None else in_backticks

    def type(self) -> str:
        in_quotes = self.quoted('"')
        return self.expect(_BARE_TYPE, "a type").group() if in_quotes is None else in_quotes

    def index(self) -> int:
        return int(self.expect(_POSITION, "a column position").group())

    def fraction(self) -> float:
        return float(self.expect(_NUMBER, "a fraction").group())

    def field(self) -> Field:
        name = self.name()
        self.require(":")
        return Field(name, self.type(), not self.accept("!"))

    def reference(self) -> object:
        start = self.position
        number = int(self.expect(_POSITION, "the number of a reference").group())
        if number >= len(self.table):
            self.position = start
            raise self.error(f"the reference @{number} is not in a table of {len(self.table)}")
        return self.table[number]

    def scalar(self) -> Scalar:
        if self.accept("@"):
            # The table is the caller's: a term's constructor is what checks its scalars.
            return cast(Scalar, self.reference())
        if self.accept("$"):
            position = self.index()
            self.require(":")
            return Column(position, self.type(), not self.accept("!"))
        text = self.quoted("'")
        if text is not None:
            return self.literal(text)
        for word, value in (("null", None), ("true", True), ("false", False)):
            if self.accept(word + ":"):
                self.position -= 1
                return self.literal(value)
        number = self.match(_NUMBER)
        if number is not None:
            written = number.group()
            return self.literal(int(written) if written.lstrip("-").isdigit() else float(written))
        return self.call()

    def literal(self, value: bool | int | float | str | None) -> Literal:
        self.require(":")
        return Literal(value, self.type())

    def call(self) -> Call:
        start = self.position
        function = self.expect(_IDENTIFIER, "a scalar").group()
        arguments: tuple[Any, ...] = self.parenthesised(self.scalar)
        self.require(":")
        type_ = self.type()
        try:
            return Call(function, arguments, type_)
        except DefinitionError as error:
            self.position = start
            raise self.error(error.message) from error

    def output(self) -> tuple[str, Scalar]:
        name = self.name()
        self.require("=")
        return name, self.scalar()

    def measure(self) -> Measure:
        name = self.name()
        self.require("=")
        function = self.expect(_IDENTIFIER, "an aggregate function").group()
        if function not in _FUNCTIONS:
            self.position -= len(function)
            raise self.error(f"unknown aggregate '{function}', not one of {', '.join(_FUNCTIONS)}")
        arguments = self.parenthesised(self.scalar)
        self.require(":")
        type_ = self.type()
        nullable = not self.accept("!")
        text = self.quoted("'") or ""
        finish = None
        if self.accept("finish"):
            self.require("@")
            finish = self.reference()
        values = Values.DISTINCT if self.accept("distinct") else Values.ALL
        order = self.optional("order")
        fractions = self.parenthesised(self.fraction) if self.accept("at") else ()
        return Measure(
            name,
            _FUNCTIONS[function],
            arguments,
            type_,
            nullable,
            text,
            finish,
            values,
            order,
            fractions,
        )

    def optional(self, keyword: str) -> Scalar | None:
        return self.scalar() if self.accept(keyword) else None

    def keys(self) -> tuple[tuple[Scalar, ...], tuple[Scalar, ...]]:
        pairs = self.listed(self.key_pair) if self.accept("on") else ()
        return tuple(a for a, _ in pairs), tuple(b for _, b in pairs)

    def condition(self) -> Condition:
        self.require("always")
        left, right = self.keys()
        return Condition(
            left,
            right,
            self.optional("where"),
            self.optional("left"),
            self.optional("right"),
            self.band(),
        )

    def band(self) -> RangeCondition | None:
        left, right = self.range("left"), self.range("right")
        return None if left is None and right is None else RangeCondition(left, right)

    def range(self, side: str) -> Range | None:
        if not self.accept(f"find {side}"):
            return None
        return Range(
            self.scalar(), self.optional("from"), self.optional("to"), self.accept("decides")
        )

    def conditions(self) -> tuple[Condition, ...]:
        found = [self.condition()]
        while self.accept("or"):
            found.append(self.condition())
        return tuple(found)

    def one_of(self, members: Iterable[E], what: str) -> E:
        word = self.expect(_IDENTIFIER, what).group()
        found = {str(member.value): member for member in members}
        if word not in found:
            self.position -= len(word)
            raise self.error(f"expected {what}, one of {', '.join(found)}, found '{word}'")
        return found[word]

    def body(self) -> Body:
        if self.accept("body"):
            self.require("@")
            return cast(Body, self.reference())
        self.require("measures")
        fields = Schema(self.parenthesised(self.field))
        self.require("compute")
        return Measures(fields, self.listed(self.measure))

    def reach(self) -> Reach | None:
        if self.accept("first"):
            rows = self.index()
            self.require("of")
            return TopRows(self.index(), rows)
        if self.accept("near"):
            before, after = self.index(), self.index()
            distance = self.one_of(Distance, "a distance")
            self.require("of")
            return SlidingFrame(self.index(), before, after, distance)
        if self.accept("onwards"):
            self.require("of")
            column = self.index()
            self.require("counted")
            self.require("by")
            return RunningFrame(column, self.index())
        if self.accept("quantiles"):
            fractions = self.parenthesised(self.fraction)
            self.require("of")
            column, value = self.index(), self.index()
            self.require("counted")
            self.require("by")
            return Quantiles(column, value, self.index(), fractions)
        return None

    def key_pair(self) -> tuple[Scalar, Scalar]:
        left = self.scalar()
        self.require("=")
        return left, self.scalar()

    def generator(self) -> Generator:
        if self.accept("@"):
            return cast(Generator, self.reference())
        outer = not self.accept("explode")
        if outer:
            self.require("explode_outer")
        self.require("$")
        position = self.index()
        (element,) = self.parenthesised(self.field)
        return ExplodeOuter(position, element) if outer else Explode(position, element)


def _unescaped(escape: re.Match[str]) -> str:
    code, character = escape.groups()
    return chr(int(code, 16)) if code else str(character)


@dataclass(slots=True)
class _Open:
    """A node whose inputs are being read."""

    line: _Line
    keyword: str
    arity: int | None
    build: Callable[..., Term]
    children: list[Term] = field(default_factory=list)

    def closed(self) -> Term:
        """The node over the inputs that were found."""
        if self.arity not in (len(self.children), None):
            raise self.line.error(
                f"{self.keyword} takes {self.arity} input(s), found {len(self.children)}"
            )
        try:
            return self.build(*self.children)
        except DefinitionError as error:
            raise DefinitionError(
                f"line {self.line.number}: {error.message}", detail=error.detail, hint=error.hint
            ) from error


def _parse_nodes(lines: Iterable[_Line]) -> Term:
    """The one term of the lines; a line's inputs are the lines below it that are further in."""
    opened: list[_Open] = []
    shared: list[Term] = []
    term: Term | None = None

    def close(depth: int) -> None:
        nonlocal term
        while len(opened) > depth:
            node = opened.pop()
            closed = node.closed()
            if opened:
                opened[-1].children.append(closed)
            elif node.keyword == _LET:
                if len(closed.schema) > _MOST_COLUMNS:
                    raise node.line.error("what is shared has too many columns")
                shared.append(closed)
            else:
                term = closed

    for line in lines:
        indent = len(line.content) - len(line.content.lstrip(" "))
        depth = min(indent // len(_INDENT), len(opened))
        close(depth)
        if term is not None:
            raise line.error("a text denotes one term, but a second one starts here")
        if indent != depth * len(_INDENT):
            line.position = indent
            raise line.error(
                f"expected an indentation of {depth * len(_INDENT)} spaces, found {indent}"
            )
        keyword = line.expect(_IDENTIFIER, "an operator").group()
        is_sharing = keyword in (_LET, _USE)
        arity, build = (
            _parse_shared(keyword, line, shared, depth)
            if is_sharing
            else _parse_head(keyword, line)
        )
        line.end()
        opened.append(_Open(line, keyword, arity, build))
    close(0)
    if term is None:
        raise DefinitionError("a text denotes one term, but there is none after what it shares")
    return term


def _parse_shared(
    keyword: str, line: _Line, shared: Sequence[Term], depth: int
) -> tuple[int | None, Callable[..., Term]]:
    """A line that gives a term the next number, or one that stands for the term of a number."""
    start = line.position
    number = int(line.expect(_POSITION, "the number of a shared term").group())
    line.position = start
    if keyword == _LET and (depth > 0 or number != len(shared)):
        raise line.error(f"expected the shared term {len(shared)}, before the term that uses it")
    if keyword == _USE and number >= len(shared):
        raise line.error(f"the shared term {number} is not one of the {len(shared)} before")
    line.expect(_POSITION, "the number of a shared term")
    return (1, lambda child: child) if keyword == _LET else (0, lambda: shared[number])


def _parse_head(keyword: str, line: _Line) -> tuple[int | None, Callable[..., Term]]:
    """How many inputs the node of a line takes (None: any number), and what builds it of them."""
    match keyword:
        case "source":
            name = line.name()
            schema = Schema(line.parenthesised(line.field))
            return 0, lambda: Source(name, schema)
        case "constant":
            line.require("@")
            relation = cast(Relation, line.reference())
            columns = Schema(line.parenthesised(line.field))
            return 0, lambda: Constant(columns, relation)
        case "map":
            outputs = () if line.match(_END) else line.listed(line.output)
            return 1, lambda child: Map(child, outputs)
        case "filter":
            predicate = line.scalar()
            return 1, lambda child: Filter(child, predicate)
        case "flatmap":
            kept = line.listed(line.index) if line.accept("keep") else ()
            line.require("generate")
            generator = line.generator()
            return 1, lambda child: FlatMap(child, generator, kept)
        case "union":
            return None, lambda *children: UnionAll(children)
        case "negate":
            return 1, Negate
        case "join":
            lefts, rights = line.keys()
            residual, band = line.optional("where"), line.band()
            return 2, lambda left, right: Join(left, right, lefts, rights, residual, band)
        case "semijoin":
            answer = line.one_of(Answer, "an answer")
            conditions = line.conditions()
            return 2, lambda left, right: SemiJoin(left, right, conditions, answer)
        case "outerjoin":
            padded = line.one_of(Padded, "the padded sides")
            lefts, rights = line.keys()
            residual, band = line.optional("where"), line.band()
            return 2, lambda left, right: OuterJoin(
                left, right, lefts, rights, residual, padded, band
            )
        case "distinct":
            stamps = line.repeated("stamped")
            return 1, lambda child: Distinct(child, stamps)
        case "aggregate":
            keys = line.listed(line.output) if line.accept("by") else ()
            measures = line.listed(line.measure) if line.accept("compute") else ()
            merged = line.optional("merge")
            return 1, lambda child: Aggregate(child, keys, measures, merged)
        case "fix":
            names = line.listed(line.name)
            seeded = line.accept("from") and line.accept("seeds")
            line.require("give")
            output = line.index()
            bound = Bound.RESULT if line.accept(_UNTIL[Bound.RESULT]) else Bound.ERROR
            if bound is Bound.ERROR:
                line.require(_UNTIL[bound])
            limit = line.index()
            count = len(names)
            arity = 2 * count if seeded else count
            return arity, lambda *terms: Fix(
                names, terms[:count], terms[count:], output, limit, bound
            )
        case "triggered":
            line.require("over")
            width = line.index() + 1
            return None, lambda meaning, *rest: Triggered(
                meaning, rest[: width - 1], rest[width - 1 :]
            )
        case "pergroup":
            stamps = line.repeated("stamped")
            positions = line.listed(line.index) if line.accept("by") else ()
            reach = line.reach()
            body = line.body()
            return 1, lambda child: PerGroup(child, positions, body, reach, stamps)
        case _:
            line.position -= len(keyword)
            raise line.error(f"unknown operator '{keyword}'")
