"""The text of a script as statements (`syntax.py`), each with the place of what it holds.

A script is cut at each `;` that stands outside of strings, comments and templates, and each
statement is read by itself: one that cannot be read does not keep the next ones from running.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

from lark import Lark, Token, Tree, UnexpectedInput, UnexpectedToken

from rekindle.errors import StatementError
from rekindle.mrql_language import syntax as s
from rekindle.mrql_language.grammar import GRAMMAR, KEYWORDS, RecordBrackets

_Tree: TypeAlias = Tree[Token]
_PIECE = re.compile(
    r"""//[^\n]*|/\*.*?\*/|"[^"]*"|'[^']*'|\[(?:xml|json)\|.*?\|\]|;|.""", re.DOTALL | re.IGNORECASE
)
_COMMENT = re.compile(r"\s+|//[^\n]*|/\*.*?\*/", re.DOTALL)
_DEPTH = 200
_TOO_DEEP = "the expression is nested too deeply"


@dataclass(frozen=True, slots=True)
class Piece:
    """The text of one statement, with the place where it begins."""

    text: str
    line: int
    column: int


def pieces(script: str) -> Iterator[Piece]:
    """The statements of a script as texts, with `;` between them; the last may end without one."""
    parts: list[str] = []
    line, column = 1, 1
    start = (1, 1)
    for found in _PIECE.finditer(script):
        piece = found.group()
        if piece == ";":
            yield Piece("".join(parts), *start)
            parts.clear()
        elif parts or not _COMMENT.fullmatch(piece):
            parts.append(piece)
        breaks = piece.count("\n")
        line += breaks
        column = len(piece) - piece.rfind("\n") if breaks else column + len(piece)
        if not parts:
            start = (line, column)
    if parts:
        yield Piece("".join(parts), *start)


def parse(script: str) -> tuple[s.Statement, ...]:
    """Every statement of a script; raises `StatementError` at the first that cannot be read."""
    return tuple(parse_statement(piece) for piece in pieces(script))


def parse_statement(piece: Piece) -> s.Statement:
    """What one statement says."""
    try:
        return _Reader(piece).statement(_tree(piece, "statement"))
    except RecursionError:
        raise s.Place(piece.line, piece.column).error(_TOO_DEEP) from None


def parse_expression(text: str) -> s.Expression:
    """What an expression says, without a `;`."""
    piece = Piece(text, 1, 1)
    try:
        return _Reader(piece).expression(_tree(piece, "expr"))
    except RecursionError:
        raise s.Place(1, 1).error(_TOO_DEEP) from None


@cache
def _grammar() -> Lark:
    return Lark(
        GRAMMAR,
        parser="lalr",
        lexer="basic",
        start=["statement", "expr"],
        propagate_positions=True,
        postlex=RecordBrackets(),
    )


def _tree(piece: Piece, start: str) -> _Tree:
    try:
        return _grammar().parse(piece.text, start=start)
    except UnexpectedInput as error:
        raise _unreadable(error, piece) from None


_WORDS = {
    "NAME": "a name",
    "INT": "a number",
    "STRING": "a string",
    "RPAR": "')'",
    "RBRACE": "'}'",
    "RSQB": "']'",
    "CLOSE_RECORD": "'>'",
    "LPAR": "'('",
    "LBRACE": "'{'",
    "COMMA": "','",
    "COLON": "':'",
    "EQ": "'='",
    "DOT": "'.'",
    "$END": "';'",
} | {word.upper(): f"'{word}'" for word in KEYWORDS}


def _unreadable(error: UnexpectedInput, piece: Piece) -> StatementError:
    lines = piece.text.split("\n")
    if not isinstance(error, UnexpectedToken):
        return _at(piece, error.line, error.column).error(
            "what begins here cannot be read", "", "strings, comments and templates need an end"
        )
    if error.token.type == "$END":
        place = _at(piece, len(lines), len(lines[-1]) + 1)
        said = "the statement ends too early"
    else:
        place = _at(piece, error.line, error.column)
        said = f"'{error.token}' cannot stand here"
    accepted = error.accepts or set()
    if {"NAME", "INT", "DECIMAL", "CASE"} <= accepted:
        expected = ["an expression"]
    else:
        expected = [word for name, word in _WORDS.items() if name in accepted]
        if {"PLUS", "STAR"} <= accepted:
            expected.append("an operator")
    return place.error(said, f"expected: {' or '.join(expected) or 'nothing more'}")


def _at(piece: Piece, line: int, column: int) -> s.Place:
    if line == 1:
        return s.Place(piece.line, piece.column + column - 1)
    return s.Place(piece.line + line - 1, column)


class _Reader:
    """Turns the tree of one statement into nodes."""

    def __init__(self, piece: Piece) -> None:
        self._piece = piece
        self._depth = 0

    def place(self, tree: _Tree | Token) -> s.Place:
        at = tree if isinstance(tree, Token) else tree.meta
        return _at(self._piece, getattr(at, "line", 1) or 1, getattr(at, "column", 1) or 1)

    # --- statements ---

    def statement(self, tree: _Tree) -> s.Statement:
        c: Sequence[Any] = tree.children
        match tree.data:
            case "evaluate":
                return s.Evaluate("", self.expression(c[0]))
            case "evaluate_in":
                return s.Evaluate(" ".join(c[0].lower().split()), self.expression(c[1]))
            case "assign":
                return s.Assign(str(c[0]), self.expression(c[-1]))
            case "store_variable":
                return s.StoreVariable(str(c[1]), self.expression(c[2]))
            case "store_file":
                return s.StoreFile(c[0].lower(), _unquoted(c[1]), self.expression(c[3]))
            case "type_definition":
                return s.TypeDefinition(str(c[1]), self.type(c[-1]))
            case "data_definition":
                return s.DataDefinition(
                    str(c[1]),
                    tuple((str(x.children[0]), self.type(x.children[1])) for x in _trees(c)),
                )
            case "function_definition":
                return s.FunctionDefinition(
                    str(c[1]), self.parameters(c[2]), self.type(c[3]), self.expression(c[4])
                )
            case "macro_definition":
                names = tuple(str(name) for name in c[2].children)
                return s.MacroDefinition(str(c[1]), names, self.expression(c[3]))
            case "aggregation_definition":
                parts = [self.expression(x) for x in c[2:-1]]
                unit = parts[2] if len(parts) > 2 else None
                return s.AggregationDefinition(
                    str(c[1]), parts[0], parts[1], unit, self.type(c[-1])
                )
            case _:
                names = tuple(str(x) for x in c if x.type == "NAME")
                return s.Outside(c[0].lower(), names, _unquoted(c[-1]), self.place(c[0]))

    def parameters(self, tree: _Tree) -> tuple[tuple[str, s.Type], ...]:
        return tuple((str(x.children[0]), self.type(_last(x))) for x in _trees(tree.children))

    # --- expressions ---

    def expressions(self, trees: Sequence[Any]) -> tuple[s.Expression, ...]:
        return tuple(self.expression(x) for x in trees)

    def expression(self, tree: _Tree) -> s.Expression:
        """The expression that a tree says; refuses what is nested too deeply to be walked."""
        self._depth += 1
        if self._depth > _DEPTH:
            raise self.place(tree).error(_TOO_DEEP)
        found = self._expression(tree)
        self._depth -= 1
        return found

    def _expression(self, tree: _Tree) -> s.Expression:
        c: Sequence[Any] = tree.children
        place = self.place(tree)
        match tree.data:
            case "name":
                return s.Name(str(c[0]), place)
            case "integer":
                return s.Literal(int(c[0]))
            case "decimal":
                return s.Literal(float(c[0]))
            case "string":
                return s.Literal(_unquoted(c[0]))
            case "template":
                return self.template(c[0])
            case "path":
                return s.PathArgument(str(c[0])[str(c[0]).index("(") + 1 : -1].strip())
            case "type_argument":
                return s.TypeArgument(self.type(c[1]))
            case "trace":
                return s.Trace(self.expression(c[1]))
            case "call":
                return s.Call(str(c[0]), self.arguments(c[1]), place)
            case "call_select":
                return s.Call(c[0].lower(), (self.expression(c[1]),), place)
            case "tuple":
                return s.TupleOf(self.expressions(c))
            case "bag":
                return s.BagOf(self.arguments(c[0]))
            case "list":
                return s.ListOf(self.arguments(c[0]))
            case "record":
                fields = tuple((str(x.children[0]), self.expression(_last(x))) for x in _trees(c))
                return s.RecordOf(fields, place)
            case "binary":
                return s.Binary(c[1].lower(), self.expression(c[0]), self.expression(c[2]), place)
            case "unary":
                return s.Unary(c[0].lower(), self.expression(c[1]), place)
            case "ranges" | "range":
                kind = "list" if c[1] == ".." else "bag"
                return s.Range(self.expression(c[0]), self.expression(c[2]), kind)
            case "attribute":
                return s.Attribute(self.expression(c[0]), str(c[1]), place)
            case "xml_attribute":
                return s.XmlAttribute(self.expression(c[0]), str(c[2]))
            case "children":
                return s.Children(self.expression(c[0]))
            case "component":
                return s.Component(self.expression(c[0]), int(c[1]), place)
            case "index":
                return s.Index(self.expression(c[0]), self.expression(c[1]))
            case "slice":
                return s.Slice(*self.expressions(c))
            case "cast":
                return s.Cast(self.expression(c[0]), self.type(c[2]))
            case "if":
                return s.If(*(self.expression(x) for x in _trees(c)))
            case "let":
                pattern, value, body = self._without_words(c)
                return s.Let(self.pattern(pattern), self.expression(value), self.expression(body))
            case "quantified":
                bindings = tuple(self.binding(x) for x in _trees(c)[:-1])
                return s.Quantified(c[0].lower(), bindings, self.expression(c[-1]))
            case "case":
                branches = tuple(
                    (self.pattern(x.children[0]), self.expression(_last(x))) for x in _trees(c)[1:]
                )
                return s.Case(self.expression(_trees(c)[0]), branches)
            case "lambda":
                return s.Lambda(self.parameters(c[0]), self.type(c[1]), self.expression(c[2]))
            case "repeat":
                parts = self._without_words(c)
                limit = self.expression(parts[3]) if len(parts) > 3 else None
                return s.Repeat(
                    self.pattern(parts[0]),
                    self.expression(parts[1]),
                    self.expression(parts[2]),
                    limit,
                    place,
                )
            case "select":
                return self.select(tree)
            case _:
                raise AssertionError(tree.data)

    def _without_words(self, children: Sequence[Any]) -> list[_Tree]:
        return [x for x in children if isinstance(x, Tree)]

    def arguments(self, tree: _Tree | None) -> tuple[s.Expression, ...]:
        return () if tree is None else self.expressions(tree.children)

    def binding(self, tree: _Tree) -> s.Binding:
        pattern, word, domain = tree.children
        return s.Binding(self.pattern(pattern), self.expression(domain), str(word).lower())  # type: ignore[arg-type]

    def select(self, tree: _Tree) -> s.Select:
        kind = "distinct" if any(_is(x, "DISTINCT") for x in tree.children) else "all"
        head, bindings, *rest = _trees(tree.children)
        condition = grouping = ordering = None
        for part in rest:
            match part.data:
                case "where":
                    condition = self.expression(_last(part))
                case "grouping":
                    grouping = self.grouping(part)
                case "ordering":
                    ordering = self.ordering(part)
        return s.Select(
            kind,
            self.expression(head),
            tuple(self.binding(x) for x in _trees(bindings.children)),
            condition,
            grouping,
            ordering,
            self.place(tree),
        )

    def grouping(self, tree: _Tree) -> s.Grouping:
        pattern, *rest = _trees(tree.children)
        having = [self.expression(_last(x)) for x in rest if x.data == "having"]
        keys = [self.expression(x) for x in rest if x.data != "having"]
        return s.Grouping(
            self.pattern(pattern), keys[0] if keys else None, having[0] if having else None
        )

    def ordering(self, tree: _Tree) -> s.Ordering:
        keys, limit = [], None
        for part in _trees(tree.children):
            if part.data == "limit":
                limit = self.expression(_last(part))
            else:
                desc = any(_is(x, "DESC") for x in part.children)
                key = self.expression(_trees(part.children)[0])
                keys.append(s.OrderKey(key, "desc" if desc else "asc"))
        return s.Ordering(tuple(keys), limit)

    def template(self, token: Token) -> s.Template:
        """A literal of XML or JSON: its texts, and the expressions of its `{{...}}` holes."""
        kind, body = str(token)[1:-2].split("|", 1)
        texts, holes = [], []
        rest = body
        while (at := rest.find("{{")) >= 0:
            end = rest.find("}}", at)
            if end < 0 and kind.lower() == "json":
                break
            if end < 0:
                raise self.place(token).error("a hole of the template has no end", "expected: '}}'")
            if kind.lower() == "json" and _looks_like_json(rest[at:]):
                break
            texts.append(rest[:at])
            holes.append(parse_expression(rest[at + 2 : end]))
            rest = rest[end + 2 :]
        return s.Template(kind.lower(), (*texts, rest), tuple(holes), self.place(token))

    # --- patterns ---

    def patterns(self, trees: Sequence[Any]) -> tuple[s.Pattern, ...]:
        return tuple(self.pattern(x) for x in trees if x is not None)

    def pattern(self, tree: Any) -> s.Pattern:
        c: Sequence[Any] = tree.children
        match tree.data:
            case "variable":
                return s.Variable(str(c[0]), self.place(tree))
            case "anything":
                return s.Anything()
            case "constant_integer":
                return s.Constant(s.Literal(int("".join(str(x) for x in c))))
            case "constant_decimal":
                return s.Constant(s.Literal(float(c[0])))
            case "constant_string":
                return s.Constant(s.Literal(_unquoted(c[0])))
            case "constant_template":
                return s.Constant(self.template(c[0]))
            case "tuple_pattern":
                return s.TuplePattern(self.patterns(c))
            case "list_pattern":
                return s.ListPattern(self.patterns(c))
            case "record_pattern":
                return s.RecordPattern(
                    tuple((str(x.children[0]), self.pattern(_last(x))) for x in _trees(c))
                )
            case "constructor_pattern":
                return s.ConstructorPattern(str(c[0]), self.patterns(c[1:]), self.place(tree))
            case "typed_pattern":
                return s.TypedPattern(self.pattern(c[0]), self.type(c[2]))
            case _:
                raise AssertionError(tree.data)

    # --- types ---

    def type(self, tree: Any) -> s.Type:
        c: Sequence[Any] = tree.children
        match tree.data:
            case "named_type":
                return s.NamedType(str(c[0]), self.place(c[0]))
            case "collection_type":
                if str(c[0]) not in ("bag", "list"):
                    raise self.place(tree).error(
                        f"'{c[0]}' is no collection", "expected: 'bag' or 'list'"
                    )
                return s.CollectionType(str(c[0]), self.type(c[1]))
            case "tuple_type":
                items = tuple(self.type(x) for x in c if x is not None)
                return items[0] if len(items) == 1 else s.TupleType(items)
            case "record_type":
                return s.RecordType(
                    tuple((str(x.children[0]), self.type(_last(x))) for x in _trees(c))
                )
            case "bag_type":
                return s.CollectionType("bag", self.type(c[0]))
            case "list_type":
                return s.CollectionType("list", self.type(c[0]))
            case _:
                raise AssertionError(tree.data)


def _trees(children: Sequence[Any]) -> list[_Tree]:
    return [x for x in children if isinstance(x, Tree)]


def _last(tree: _Tree) -> Any:
    return tree.children[-1]


def _is(part: object, kind: str) -> bool:
    return isinstance(part, Token) and part.type == kind


def _unquoted(token: Token) -> str:
    return str(token)[1:-1].replace("\\t", "\t").replace("\\n", "\n")


def _looks_like_json(text: str) -> bool:
    """Whether `{{` here are two braces of JSON: a key in quotes and a colon follow them."""
    return re.match(r"""\{\{\s*"[^"]*"\s*:""", text) is not None
