"""`[xml| ... |]` and `[json| ... |]`: the literal as a term, or as a pattern, around its holes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree import ElementTree

from rekindle.mrql_language import syntax as s
from rekindle.mrql_language import terms as t
from rekindle.mrql_language.documents import CONSTRUCTORS, json_value, read_json, read_xml

_HOLE = re.compile(r"⟦(\d+)⟧")


def _joined(template: s.Template, quote: str) -> str:
    text = template.texts[0]
    for index, rest in enumerate(template.texts[1:]):
        text += f"{quote}⟦{index}⟧{quote}{rest}"
    return text.strip()


def _build(constructor: str, *arguments: t.Term) -> t.Term:
    return t.Build(CONSTRUCTORS[constructor], constructor, arguments)


def template_term(template: s.Template, holes: tuple[t.Term, ...]) -> t.Term:
    """The value that a template says, with the holes' values in it."""
    if template.kind == "json":
        return _json(read_json(_joined(template, '"')), holes)
    return _xml(read_xml(_joined(template, "")), holes)


def template_pattern(template: s.Template, holes: tuple[t.Term, ...]) -> t.Term:
    """The pattern that a template says: each hole stands for one child or one value."""
    if template.kind == "json":
        return _json_pattern(read_json(_joined(template, '"')), holes)
    return _xml_pattern(read_xml(_joined(template, "")), holes)


def _texts(text: str | None, holes: tuple[t.Term, ...]) -> list[tuple[str, t.Term]]:
    """Character data and holes in turn; blanks alone between elements are left out."""
    parts: list[tuple[str, t.Term]] = []
    for index, part in enumerate(_HOLE.split(text or "")):
        if index % 2:
            parts.append(("hole", holes[int(part)]))
        elif part.strip():
            parts.append(("text", _build("CData", t.Constant(part))))
    return parts


def _parts(element: ElementTree.Element, holes: tuple[t.Term, ...]) -> list[tuple[str, t.Term]]:
    parts = _texts(element.text, holes)
    for child in element:
        parts.append(("node", _xml(child, holes)))
        parts += _texts(child.tail, holes)
    return parts


def _attributes(element: ElementTree.Element, holes: tuple[t.Term, ...]) -> t.Term:
    pairs = []
    for name, text in element.attrib.items():
        hole = _HOLE.fullmatch(text)
        value = holes[int(hole.group(1))] if hole else t.Constant(text)
        pairs.append(t.Tuple((t.Constant(name), value)))
    return t.Braces(tuple(pairs))


def _xml(element: ElementTree.Element, holes: tuple[t.Term, ...]) -> t.Term:
    parts = _parts(element, holes)
    terms = tuple(part for _, part in parts)
    if any(kind == "hole" for kind, _ in parts):
        children: t.Term = t.Call("xml_children", terms)
    else:
        children = t.Enumerate(terms)
    return _build("Node", t.Constant(element.tag), _attributes(element, holes), children)


def _xml_pattern(element: ElementTree.Element, holes: tuple[t.Term, ...]) -> t.Term:
    def texts(text: str | None) -> Iterator[t.Term]:
        for _, part in _texts(text, holes):
            yield _build("CData", part) if isinstance(part, t.Constant) else part

    parts = list(texts(element.text))
    for child in element:
        parts.append(_xml_pattern(child, holes))
        parts += texts(child.tail)
    tag = t.Constant(element.tag)
    return _build("Node", tag, t.Var(t.fresh("_")), t.Enumerate(tuple(parts)))


def _json_pattern(value: object, holes: tuple[t.Term, ...]) -> t.Term:
    """An object's pattern names some of its members, an array's all of its elements."""
    match value:
        case str() if (hole := _HOLE.fullmatch(value)) is not None:
            found = holes[int(hole.group(1))]
            return t.Constant(json_value(found.value)) if isinstance(found, t.Constant) else found
        case dict():
            pairs = (
                t.Tuple((t.Constant(key), _json_pattern(item, holes)))
                for key, item in value.items()
            )
            return _build("JObject", t.Braces(tuple(pairs)))
        case list():
            return _build(
                "JArray", t.Enumerate(tuple(_json_pattern(item, holes) for item in value))
            )
        case _:
            return t.Constant(json_value(value))


def _json(value: object, holes: tuple[t.Term, ...]) -> t.Term:
    match value:
        case str() if (hole := _HOLE.fullmatch(value)) is not None:
            return t.Call("json", (holes[int(hole.group(1))],))
        case dict():
            pairs = (t.Tuple((t.Constant(key), _json(item, holes))) for key, item in value.items())
            return _build("JObject", t.Braces(tuple(pairs)))
        case list():
            return _build("JArray", t.Enumerate(tuple(_json(item, holes) for item in value)))
        case _:
            return t.Constant(json_value(value))
