"""Sources that are files: lines, texts, XML, JSON, Parquet, and what `store` wrote before.

A line whose columns are too few or cannot be read is left out, with a warning in `left_out`; more
columns than the type has are not looked at, and a column of type `any` is skipped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

import pyarrow as pa
from pyarrow import parquet

from rekindle.errors import EvaluationError, UnknownNameError
from rekindle.mrql_language import syntax as s
from rekindle.mrql_language.arithmetic import convert
from rekindle.mrql_language.documents import objects_with, read_json, select_path, xml_value
from rekindle.mrql_language.printing import show
from rekindle.mrql_language.terms import Source
from rekindle.mrql_language.values import NULL, Bag, List, Long, Record, Value, elements, kind_of

_WHOLE = ("byte", "short", "int", "long")
_REAL = ("float", "double")
PARSERS = ("line", "text", "xml", "json", "parquet", "binary")


@dataclass(slots=True)
class Files:
    """Reads sources below `place`; a directory is read file by file, in the order of the names.

    `stored` holds what the script itself wrote by `store "f" from e`.
    """

    place: Callable[[str], Path]
    stored: dict[str, Value] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)

    def __call__(self, source: Source) -> Value:
        """The contents of a source."""
        request = source.request
        if request is None:
            raise UnknownNameError(f"the source '{source.name}' is not here")
        name, *arguments = request.arguments
        if request.parser not in PARSERS:
            raise EvaluationError(
                f"there is no parser '{request.parser}'", hint=f"there are: {', '.join(PARSERS)}"
            )
        if not isinstance(name, str | tuple):
            raise EvaluationError(
                "the name of a file is a text", detail=f"found: {kind_of(name)} {show(name)}"
            )
        if request.parser == "binary":
            if name not in self.stored:
                raise UnknownNameError(f"nothing was stored as '{name}'")
            return self.stored[name]
        if not isinstance(name, tuple):
            return self._held(request.parser, str(name), arguments)
        arriving, leaving = directories(name)
        came = self._held(request.parser, arriving, arguments)
        return _without(came, self._held(request.parser, leaving, arguments))

    def _held(self, parser: str, name: str, arguments: list[Value]) -> Bag:
        """The rows of a file, or of the files of a directory."""
        path = self.place(name)
        if parser == "parquet":
            return _parquet(path)
        paths = sorted(path.iterdir()) if path.is_dir() else [path]
        rows = (row for each in paths for row in self._rows(parser, each, arguments))
        if parser == "line" and len(arguments) == 3:
            return _left(rows, arguments[2])
        return Bag(rows)

    def write(self, verb: str, name: str, value: Value) -> None:
        """Keeps a value under a name, for `binary`; `dump` writes its text, an element a line."""
        if verb == "store":
            self.stored[name] = value
            return
        text = "".join(f"{line_of(row)}\n" for row in elements(value))
        try:
            self.place(name).write_text(text)
        except (OSError, ValueError) as error:
            raise EvaluationError(
                f"the file '{name}' cannot be written", detail=str(error)
            ) from None

    def _rows(self, parser: str, path: Path, arguments: list[Value]) -> list[Value]:
        _check_arguments(parser, arguments)
        try:
            text = path.read_text()
        except (OSError, ValueError) as error:
            raise EvaluationError(f"the file '{path}' cannot be read", detail=str(error)) from None
        match parser:
            case "line":
                delimiter, kind, *tag = arguments
                if tag:
                    untagged(kind, tag[0])
                return self._lines(text, delimiter, kind)
            case "xml":
                tags = frozenset(elements(arguments[0]))
                found = _outermost(_document(text, path), tags)
                nodes: list[Value] = [xml_value(element) for element in found]
                if len(arguments) > 1:
                    return [hit for node in nodes for hit in select_path(node, arguments[1].path)]
                return nodes
            case "json":
                return list(objects_with(read_json(text), frozenset(elements(arguments[0]))))
            case _:
                assert parser == "text"
                return list(text.splitlines())

    def _lines(self, text: str, delimiter: str, kind: s.Type) -> list[Value]:
        match kind:
            case s.RecordType():
                labels: tuple[str, ...] | None = tuple(label for label, _ in kind.fields)
                kinds = tuple(item for _, item in kind.fields)
            case s.TupleType():
                labels, kinds = None, kind.items
            case _:
                labels, kinds = None, (kind,)
        for each in kinds:
            if not isinstance(each, s.NamedType):
                raise EvaluationError("a column of a line is of a basic type")
        rows: list[Value] = []
        for line in text.splitlines():
            parts = line.split(delimiter)
            try:
                found = [
                    (index, _column(each.name, parts[index]))
                    for index, each in enumerate(kinds)
                    if isinstance(each, s.NamedType) and each.name != "any"
                ]
            except (ValueError, IndexError):
                self.left_out.append(line)
                continue
            if labels is not None:
                rows.append(Record(tuple((labels[index], value) for index, value in found)))
            elif isinstance(kind, s.TupleType):
                rows.append(tuple(value for _, value in found))
            else:
                rows.append(found[0][1])
        return rows


def line_of(element: Value) -> str:
    """The line of a file for an element; the components of a tuple have commas between them."""
    if isinstance(element, tuple):
        return ",".join(map(show, element))
    return show(element)


_COMES = ("insert", "c", "r", "update_postimage")
_GOES = ("delete", "d", "update_preimage")
"""What a tag says of a row, in any case."""


def untagged(kind: s.Type, tag: str) -> s.RecordType:
    """The record of a line without its tag; raises `EvaluationError` if it has no such field."""
    fields = kind.fields if isinstance(kind, s.RecordType) else ()
    rest = tuple((name, item) for name, item in fields if name != tag)
    if len(rest) == len(fields) or not rest:
        raise EvaluationError(
            f"the lines have no column '{tag}' that says whether a row comes or goes",
            hint='write: stream(line, "dir", ",", type(<op: string, a: int>), "op")',
        )
    return s.RecordType(rest)


def directories(name: Value) -> tuple[str, str]:
    """The directory in which rows come, and the one in which they go."""
    if not isinstance(name, tuple) or len(name) != 2 or not all(isinstance(x, str) for x in name):
        raise EvaluationError(
            "what to read is a name, or two: where rows come, and where they go",
            hint='write: stream(line, ("arriving", "leaving"), ",", type(<a: int>))',
        )
    return name[0], name[1]


def _without(came: Bag, gone: Bag) -> Bag:
    """The rows that came and did not go again."""
    found = Counter(came)
    found.subtract(gone)
    for row, many in found.items():
        if many < 0:
            raise EvaluationError("a row goes that is not there", detail=show(row))
    return Bag(found.elements())


def _left(rows: Iterable[Value], tag: str) -> Bag:
    """The rows that came and did not go again, without the tag."""
    found: Counter[Value] = Counter()
    for row in rows:
        word = str(row.get(tag)).lower()
        rest = Record(tuple((name, value) for name, value in row.fields if name != tag))
        if word in _COMES:
            found[rest] += 1
        elif word in _GOES:
            found[rest] -= 1
        else:
            raise EvaluationError(
                f"'{word}' does not say whether a row comes or goes",
                detail=f"known: {', '.join((*_COMES, *_GOES))}",
            )
    return Bag(found.elements())


def _check_arguments(parser: str, arguments: list[Value]) -> None:
    """Raise unless a parser is given what it needs beside the name of a file."""
    match parser, arguments:
        case ("line", [str(delimiter), kind, *tag]) if delimiter and (
            isinstance(kind, s.RecordType | s.TupleType | s.NamedType)
            and all(isinstance(name, str) for name in tag)
            and len(tag) <= 1
        ):
            return
        case "line", [str(), s.CollectionType()]:
            raise EvaluationError("a column of a line is of a basic type")
        case "line", _:
            needed = 'a delimiter and a type, as in: source(line, "file", ",", type(<a: int>))'
        case "xml", [Bag() | List()] | [Bag() | List(), s.PathArgument()]:
            return
        case "xml", _:
            needed = 'the tags of its elements, as in: source(xml, "file", {"tag"})'
        case "json", [Bag() | List()]:
            return
        case "json", _:
            needed = 'the keys of its objects, as in: source(json, "file", {"key"})'
        case _:
            return
    raise EvaluationError(f"a source of '{parser}' needs {needed}")


def _parquet(path: Path) -> Bag:
    """The rows of Parquet files as records."""
    try:
        table = parquet.read_table(path)
    except (OSError, pa.ArrowException) as error:
        raise EvaluationError(f"the file '{path}' cannot be read", detail=str(error)) from None
    longs = {field.name for field in table.schema if pa.types.is_int64(field.type)}
    return Bag(
        Record(tuple((k, _of_arrow(v, k in longs)) for k, v in row.items()))
        for row in table.to_pylist()
    )


def _of_arrow(value: Value, is_long: bool = False) -> Value:
    match value:
        case None:
            return NULL
        case list():
            return Bag(map(_of_arrow, value))
        case dict():
            return Record(tuple((name, _of_arrow(item)) for name, item in value.items()))
        case int() if is_long:
            return Long(value)
        case _:
            return value


def _column(kind: str, text: str) -> Value:
    if kind in (*_WHOLE, *_REAL) and "_" in text:
        raise ValueError(text)
    if kind in _WHOLE:
        return convert("short" if kind == "byte" else kind, int(text.strip()))
    if kind in _REAL:
        return convert(kind, float(text.strip()))
    if kind == "bool":
        return text.strip().lower() == "true"
    return text


def _document(text: str, path: Path) -> ElementTree.Element:
    try:
        return ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise EvaluationError(f"'{path}' is not well-formed XML", detail=str(error)) from None


def _outermost(element: ElementTree.Element, tags: frozenset[str]) -> list[ElementTree.Element]:
    if element.tag in tags:
        return [element]
    return [found for child in element for found in _outermost(child, tags)]
