"""Values as text, as the original prints them: `string(e)`, `dump`, and what a script shows."""

from __future__ import annotations

import math
from decimal import Decimal
from xml.sax.saxutils import escape

from rekindle.mrql_language.values import Bag, Data, Float, Inverse, List, Record, Value


def show(value: Value) -> str:
    """A value in the notation of the language.

    >>> show(Bag((("a", 1), ("b", 2.5))))
    '{ ("a",1), ("b",2.5) }'
    """
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return f'"{value}"'
        case Float():
            return _real(shortest(value))
        case float():
            return _real(value)
        case tuple():
            return f"({','.join(show(item) for item in value)})"
        case Bag():
            return _enclosed("{", value.elements, "}")
        case List():
            return _enclosed("[", value.elements, "]")
        case Record():
            return f"< {', '.join(f'{label}: {show(item)}' for label, item in value.fields)} >"
        case Data():
            return _data(value)
        case Inverse():
            return show(value.value)
        case _:
            return str(value)


def _enclosed(opening: str, elements: tuple[Value, ...], closing: str) -> str:
    if not elements:
        return opening + closing
    return f"{opening} {', '.join(show(element) for element in elements)} {closing}"


def shortest(value: Float) -> float:
    """The number of fewest digits that has this single precision."""
    for digits in range(1, 10):
        found = float(f"{float(value):.{digits}g}")
        if Float(found) == value:
            return found
    return float(value)


def _real(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    size = abs(value)
    if value == 0 or 1e-3 <= size < 1e7:
        text = format(Decimal(float.__repr__(float(value))), "f")
        return text if "." in text else text + ".0"
    digits = Decimal(float.__repr__(float(value)))
    exponent = digits.adjusted()
    mantissa = format(digits.scaleb(-exponent).normalize(), "f")
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}E{exponent}"


def _data(value: Data) -> str:
    match value.constructor:
        case "CData":
            return escape(value.items[0])
        case "Node":
            tag, attributes, children = value.items
            labels = "".join(f' {label}="{escape(text)}"' for label, text in attributes)
            inner = "".join(show(child) for child in children)
            return f"<{tag}{labels}>{inner}</{tag}>" if inner else f"<{tag}{labels}/>"
        case "JObject":
            members = ", ".join(f'"{key}": {show(item)}' for key, item in value.items[0])
            return f"{{ {members} }}"
        case "JArray" | "Jstring" | "Jlong" | "Jdouble" | "Jbool":
            return show(value.items[0])
        case "Jnull":
            return "()"
        case _:
            return f"{value.constructor}({','.join(show(item) for item in value.items)})"
