"""The scalar functions, by name, each on values; `interpreter.py` looks them up."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable

from rekindle.errors import EvaluationError
from rekindle.mrql_language import arithmetic
from rekindle.mrql_language.documents import (
    as_children,
    attributes,
    children,
    is_node,
    is_xml,
    json_value,
    text_of,
)
from rekindle.mrql_language.printing import show
from rekindle.mrql_language.values import (
    NULL,
    Bag,
    Data,
    Inverse,
    List,
    Long,
    Record,
    Value,
    compare,
    elements,
    kind_of,
)

LONGEST = 10_000_000
"""So many numbers a range has at the most: all of them are made."""


def _real(function: Callable[..., float]) -> Callable[..., Value]:
    def apply(*arguments: Value) -> Value:
        if not all(arithmetic.is_number(argument) for argument in arguments):
            raise EvaluationError(
                "a number was expected", detail=", ".join(map(kind_of, arguments))
            )
        try:
            return float(function(*(float(argument) for argument in arguments)))
        except ValueError:
            return math.nan
        except OverflowError:
            return math.inf

    return apply


def _compared(test: Callable[[int], bool]) -> Callable[[Value, Value], bool]:
    def apply(left: Value, right: Value) -> bool:
        numbers = arithmetic.is_number(left) and arithmetic.is_number(right)
        collections = isinstance(left, Bag | List) and isinstance(right, Bag | List)
        if not numbers and not collections and not _comparable(left, right):
            raise EvaluationError(f"{kind_of(left)} and {kind_of(right)} cannot be compared")
        if numbers and (left != left or right != right):
            return test(2) and not test(0) and test(-2)
        return test(compare(left, right))

    return apply


def _comparable(left: Value, right: Value) -> bool:
    if isinstance(left, Data) or isinstance(right, Data):
        return isinstance(left, Data) and isinstance(right, Data)
    return left == NULL or right == NULL or kind_of(left).split()[0] == kind_of(right).split()[0]


def _round(value: Value) -> Value:
    kind = "int" if kind_of(value) == "float" else "long"
    if math.isinf(value) or math.isnan(value):
        return arithmetic.convert(kind, float(value))
    return arithmetic.convert(kind, float(math.floor(float(value) + 0.5)))


def _parsed(kind: str, read: Callable[[str], Value]) -> Callable[[Value], Value]:
    def apply(value: Value) -> Value:
        text = value if isinstance(value, str) else text_of(value) if is_xml(value) else str(value)
        try:
            # Python reads 1_000 as a number; the language does not.
            return arithmetic.convert(kind, read(text.strip().replace("_", "?")))
        except ValueError:
            raise EvaluationError(f"'{text}' is no {kind}") from None

    return apply


def _index(value: Value, at: Value) -> Value:
    match value:
        case Data(constructor="JArray"):
            return _index(value.items[0], at)
        case Data(constructor="JObject"):
            return _index(value.items[0], at)
        case List() if arithmetic.is_number(at):
            if not 0 <= at < len(value):
                raise EvaluationError(
                    f"the list has no element {at}", detail=f"it has {len(value)}"
                )
            return value.elements[int(at)]
        case Bag() | List():
            pairs = elements(value)
            if not all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs):
                raise EvaluationError("a bag is indexed by the keys of its pairs; this has none")
            for key, found in pairs:
                if key == at:
                    return found
            raise EvaluationError(f"the key {show(at)} is not in the map")
        case _:
            raise EvaluationError(f"a {kind_of(value)} cannot be indexed")


def _slice(value: Value, first: Value, last: Value) -> Value:
    if not isinstance(value, List):
        raise EvaluationError("only a list has a range", detail=f"found: {kind_of(value)}")
    if not 0 <= first <= last:
        raise EvaluationError(f"the range {first}:{last} is empty or begins before the list")
    return List(value.elements[int(first) : int(last) + 1])


def field_of(value: Value, name: str) -> Value:
    """`e.name`: of a record, of XML or JSON, or of each element of a collection."""
    match value:
        case Record():
            return value.get(name)
        case Data(constructor="Node"):
            return List(children(value, name))
        case Data(constructor="CData"):
            return List()
        case Data(constructor="JObject"):
            return _index(value.items[0], name)
        case Bag() | List():
            parts = elements(value)
            make = type(value)
            if parts and all(is_xml(part) for part in parts):
                return List(tuple(c for part in parts for c in children(part, name)))
            pairs = all(isinstance(part, tuple) and len(part) == 2 for part in parts)
            if parts and pairs and all(isinstance(part[0], str) for part in parts):
                return _index(value, name)
            return make(tuple(field_of(part, name) for part in parts))
        case _:
            raise EvaluationError(f"a {kind_of(value)} has no field '{name}'")


def component_of(value: Value, index: int) -> Value:
    """`e#index`: of a tuple, or of each element of a collection."""
    if isinstance(value, Bag | List):
        return type(value)(tuple(component_of(part, index) for part in elements(value)))
    if not isinstance(value, tuple):
        raise EvaluationError(f"a {kind_of(value)} has no component {index}")
    if index >= len(value):
        raise EvaluationError(f"the tuple has no component {index}", detail=f"it has {len(value)}")
    return value[index]


def _attribute(value: Value, name: str) -> Value:
    if isinstance(value, Bag | List):
        return List(tuple(text for part in value for text in attributes(part, name)))
    found = attributes(value, name)
    if name == "*":
        return List(found)
    if not found:
        raise EvaluationError(f"the element has no attribute '{name}'")
    return found[0]


def _children(value: Value) -> Value:
    if isinstance(value, Bag | List):
        return List(tuple(child for part in value for child in children(part)))
    return List(children(value))


def _elem(value: Value) -> Value:
    found = elements(value)
    if not found:
        raise EvaluationError("'elem' of a collection without elements")
    return found[0]


def _range(make: Callable[..., Value]) -> Callable[[Value, Value], Value]:
    def apply(first: Value, last: Value) -> Value:
        if first > last:
            raise EvaluationError(f"the range begins at {first}, after its end {last}")
        if last - first >= LONGEST:
            raise EvaluationError(f"the range {first}..{last} has more than {LONGEST:,} numbers")
        return make(tuple(Long(i) for i in range(int(first), int(last) + 1)))

    return apply


def _tag(value: Value) -> str:
    if not is_node(value):
        raise EvaluationError("'tag' is defined on XML elements")
    return str(value.items[0])


def _split(text: str, pattern: str, limit: int = 0) -> Value:
    parts = re.split(pattern, text, maxsplit=max(limit - 1, 0))
    if limit == 1:
        return List((text,))
    while limit == 0 and len(parts) > 1 and not parts[-1]:
        parts.pop()
    return List(tuple(parts))


def _not(value: Value) -> bool:
    if not isinstance(value, bool):
        raise EvaluationError("'not' is defined on booleans", detail=f"found: {kind_of(value)}")
    return not value


def _replacement(text: str) -> str:
    return re.sub(r"\$(\d)", r"\\\1", text)


FUNCTIONS: dict[str, Callable[..., Value]] = {
    "+": arithmetic.add,
    "-": arithmetic.subtract,
    "*": arithmetic.multiply,
    "/": arithmetic.divide,
    "mod": arithmetic.remainder,
    "%": arithmetic.remainder,
    "negate": lambda x: arithmetic.subtract(type(x)(0), x),
    "=": _compared(lambda order: order == 0),
    "<>": _compared(lambda order: order != 0),
    "<": _compared(lambda order: order < 0),
    "<=": _compared(lambda order: order <= 0),
    ">": _compared(lambda order: order > 0),
    ">=": _compared(lambda order: order >= 0),
    "not": _not,
    "inv": Inverse,
    "index": _index,
    "slice": _slice,
    "attribute": _attribute,
    "children": _children,
    "elem": _elem,
    "range_list": _range(List),
    "range_bag": _range(Bag),
    "xml_children": lambda *parts: List(tuple(c for part in parts for c in as_children(part))),
    "json": json_value,
    "json_object": lambda *pairs: json_value(dict(pairs)),
    "json_array": lambda *items: json_value(list(items)),
    "text": text_of,
    "tag": _tag,
    "trace": lambda value: value,
    "string": show,
    "as short": lambda x: arithmetic.convert("short", x),
    "as int": lambda x: arithmetic.convert("int", x),
    "as long": lambda x: arithmetic.convert("long", x),
    "as float": lambda x: arithmetic.convert("float", x),
    "as double": lambda x: arithmetic.convert("double", x),
    "sin": _real(math.sin),
    "cos": _real(math.cos),
    "tan": _real(math.tan),
    "asin": _real(math.asin),
    "acos": _real(math.acos),
    "atan": _real(math.atan),
    "pow": _real(math.pow),
    "sqrt": _real(math.sqrt),
    "ceil": _real(math.ceil),
    "floor": _real(math.floor),
    "rint": _real(round),
    "exp": _real(math.exp),
    "log": _real(lambda x: math.log(x) if x > 0 else -math.inf if x == 0 else math.nan),
    "round": _round,
    "abs": lambda x: arithmetic.subtract(type(x)(0), x) if x < 0 else x,
    "min": lambda x, y: arithmetic.widest((x, y))[0 if x <= y else 1],
    "max": lambda x, y: arithmetic.widest((x, y))[0 if x >= y else 1],
    "random": lambda n: random.randrange(n),
    "toInt": _parsed("int", int),
    "toLong": _parsed("long", int),
    "toShort": _parsed("short", int),
    "toFloat": _parsed("float", float),
    "toDouble": _parsed("double", float),
    "toBool": lambda text: str(text).strip().lower() == "true",
    "length": len,
    "substring": lambda text, start, end: text[int(start) : int(end)],
    "contains": lambda text, part: part in text,
    "startsWith": lambda text, part: text.startswith(part),
    "replace": lambda text, part, by: text.replace(part, by),
    "replaceAll": lambda text, pattern, by: re.sub(pattern, _replacement(by), text),
    "replaceFirst": lambda text, pattern, by: re.sub(pattern, _replacement(by), text, count=1),
    "split": _split,
    "toLowerCase": str.lower,
    "toUpperCase": str.upper,
    "trim": str.strip,
    "hash_code": lambda value: value if isinstance(value, int) else hash(value) % (1 << 31),
}

_ARGUMENTS = {
    0: ("xml_children", "json_object", "json_array"),
    2: (
        "index",
        "attribute",
        "range_list",
        "range_bag",
        "pow",
        "min",
        "max",
        "contains",
        "startsWith",
    ),
    3: ("slice", "substring", "replace", "replaceAll", "replaceFirst"),
}
"""Functions by how many arguments they take, if not one; 0 stands for any number."""
_NUMBERS = {name: number for number, names in _ARGUMENTS.items() for name in names}


def takes(name: str, arguments: int) -> bool:
    """Does a function take so many arguments?

    >>> takes("sqrt", 1), takes("sqrt", 0), takes("split", 3)
    (True, False, True)
    """
    if name == "split":
        return arguments in (2, 3)
    wanted = _NUMBERS.get(name, 1)
    return wanted in (0, arguments)
