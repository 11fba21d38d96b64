"""XML and JSON as values of two data types, and what projections of them give.

    XML  = Node(tag, bag of (attribute, text), list of XML) | CData(text)
    JSON = JObject(bag of (key, JSON)) | JArray(list) | Jstring | Jlong | Jdouble | Jbool | Jnull

A path of `xpath(...)` is names, `*`, `@a`, `.` with `/` and `//` between them and `[n]`,
`[path]` or `[path = "text"]` after them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from xml.etree import ElementTree

from rekindle.errors import EvaluationError
from rekindle.mrql_language.values import NULL, Bag, Data, List, Long, Value, kind_of

CONSTRUCTORS = {
    "Node": 0,
    "CData": 1,
    "JObject": 0,
    "JArray": 1,
    "Jstring": 2,
    "Jlong": 3,
    "Jdouble": 4,
    "Jbool": 5,
    "Jnull": 6,
}


def make(constructor: str, *items: Value) -> Data:
    """A value of XML or JSON."""
    return Data(CONSTRUCTORS[constructor], constructor, items)


# --- XML -----------------------------------------------------------------------------------------


def xml_value(element: ElementTree.Element) -> Data:
    """An element with its attributes and children, character data among them as it is written."""
    parts: list[Value] = []

    def text(found: str | None) -> None:
        if found:
            parts.append(make("CData", found))

    text(element.text)
    for child in element:
        parts.append(xml_value(child))
        text(child.tail)
    return make("Node", element.tag, Bag(element.attrib.items()), List(tuple(parts)))


def read_xml(text: str) -> ElementTree.Element:
    """The root of a document; raises `EvaluationError` if it is not well-formed."""
    try:
        return ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise EvaluationError("the XML cannot be read", detail=str(error)) from None


def is_node(value: Value) -> bool:
    """Whether a value is an XML element."""
    return isinstance(value, Data) and value.constructor == "Node"


def is_xml(value: Value) -> bool:
    """Whether a value is an XML element or text."""
    return isinstance(value, Data) and value.constructor in ("Node", "CData")


def children(node: Data, tag: str = "*") -> tuple[Data, ...]:
    """The child elements with a tag, in order."""
    if not is_node(node):
        return ()
    return tuple(
        child for child in node.items[2] if is_node(child) and tag in ("*", child.items[0])
    )


def attributes(node: Data, name: str) -> tuple[str, ...]:
    """The attributes with a name, `*` for all of them."""
    if not is_node(node):
        return ()
    return tuple(text for label, text in node.items[1] if name in ("*", label))


def text_of(value: Value) -> str:
    """The character data directly in a node, or in each of some nodes."""
    match value:
        case Data(constructor="CData"):
            return str(value.items[0])
        case Data(constructor="Node"):
            return "".join(c.items[0] for c in value.items[2] if c.constructor == "CData")
        case Bag() | List():
            return "".join(text_of(part) for part in value)
        case str():
            return value
        case _:
            raise EvaluationError("'text' is defined on XML", detail=f"found: {kind_of(value)}")


def as_children(value: Value) -> tuple[Data, ...]:
    """What a hole in a template puts among the children of an element."""
    if isinstance(value, Bag | List):
        return tuple(child for part in value for child in as_children(part))
    return (
        (value,)
        if is_xml(value)
        else (make("CData", value if isinstance(value, str) else str(value)),)
    )


_STEP = re.compile(r"(//|/)?\s*(@\w+|@\*|\*|\.|\w+)((?:\s*\[[^\]]*\])*)\s*")
_TEST = re.compile(r"\[([^\]]*)\]")


def select_path(node: Data, path: str) -> tuple[Value, ...]:
    """What a path gives from a node: elements, or the texts of attributes."""
    found: tuple[Value, ...] = (node,)
    at = 0
    while at < len(path):
        step = _STEP.match(path, at)
        if step is None:
            raise EvaluationError(f"the path cannot be read from '{path[at:]}'", detail=path)
        axis, name, tests = step.groups()
        origins = (
            tuple(below for each in found for below in _below(each)) if axis == "//" else found
        )
        found = tuple(hit for each in origins for hit in _tested(_step(each, name), tests))
        at = step.end()
    return found


def _below(node: Value) -> Iterator[Value]:
    yield node
    for child in children(node):
        yield from _below(child)


def _step(node: Value, name: str) -> tuple[Value, ...]:
    if name == ".":
        return (node,)
    return attributes(node, name[1:]) if name.startswith("@") else children(node, name)


def _tested(found: tuple[Value, ...], tests: str) -> tuple[Value, ...]:
    for test in _TEST.findall(tests):
        path, _, wanted = (part.strip() for part in test.partition("="))
        if path.isdigit():
            found = found[int(path) - 1 : int(path)]
        elif wanted:
            text = wanted[1:-1]
            found = tuple(
                each
                for each in found
                if any(text_of(hit) == text for hit in select_path(each, path))
            )
        else:
            found = tuple(each for each in found if select_path(each, path))
    return found


# --- JSON ----------------------------------------------------------------------------------------


def json_value(value: object) -> Data:
    """What Python's reader gave, as JSON; a JSON value within it stays as it is."""
    match value:
        case Data():
            return value
        case dict():
            return make("JObject", Bag((key, json_value(item)) for key, item in value.items()))
        case list() | List() | Bag():
            return make("JArray", List(tuple(json_value(item) for item in value)))
        case str():
            return make("Jstring", value)
        case bool():
            return make("Jbool", value)
        case int():
            return make("Jlong", Long(value))
        case float():
            return make("Jdouble", value)
        case None | ():
            return make("Jnull", NULL)
        case _:
            raise EvaluationError(f"a {kind_of(value)} is no JSON")


def read_json(text: str) -> object:
    """What a JSON text says; raises `EvaluationError` if it cannot be read."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise EvaluationError("the JSON cannot be read", detail=str(error)) from None


def objects_with(value: object, keys: frozenset[str]) -> Iterator[Data]:
    """An object of one member for each occurrence of one of the keys, from the outside in.

    What is within an occurrence is part of it, and not looked at again.
    """
    if isinstance(value, dict):
        for key, item in value.items():
            if key in keys:
                yield make("JObject", Bag(((key, json_value(item)),)))
            else:
                yield from objects_with(item, keys)
    elif isinstance(value, list):
        for item in value:
            yield from objects_with(item, keys)
