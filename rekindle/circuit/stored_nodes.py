"""The nodes of a circuit as the commit log keeps them: a plan that outlives the code that made it.

A view's nodes are derived once, when it is created, and read from then on. Nothing that a better
rule, lowering or fingerprint would give today changes a node that has state: its identity is stored
with it and never computed again. `PLAN_VERSION` says what the nodes mean; a node of another version
is one that this code cannot run.

The form is JSON of plain nodes. What has no Python form (an expression of Catalyst, a user's
function) is a number into the node's `parts`, texts that the front end reads (`persist`). A stored
form is data from anywhere: classes come from the lists below, by tags that outlive their names,
every field is held against the type that its class declares, and columns against the width of the
rows that they are taken from.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import Enum
from types import UnionType
from typing import Any, TypeAlias, Union, get_args, get_origin, get_type_hints

from rekindle.calculus.bodies import Measures
from rekindle.calculus.generators import Explode, ExplodeOuter
from rekindle.calculus.relation import Relation
from rekindle.calculus.scalars import Call, Column, Evaluable, Literal, Scalar
from rekindle.calculus.schema import Field, Schema
from rekindle.calculus.terms import (
    Body,
    Bound,
    Generator,
    Measure,
    Quantiles,
    RunningFrame,
    SlidingFrame,
    TopRows,
)
from rekindle.circuit.nodes import OPERATORS, Node, RangeLookup, Variable
from rekindle.circuit.operators.soundness import Soundness
from rekindle.circuit.stages import (
    Branch,
    Finish,
    Generate,
    LinearForm,
    Match,
    Project,
    Where,
)
from rekindle.errors import RekindleError
from rekindle.shapes import ShapeError

PLAN_VERSION = 1
"""What stored nodes mean. Raised when the form of a node changes, or what its state holds."""

Dump: TypeAlias = Callable[[object], str]
Load: TypeAlias = Callable[[str], object]

_STORED: Mapping[str, type[Any]] = {each.kind: each for each in OPERATORS if each.is_stored}
_INSIDE: Mapping[str, type[Any]] = {
    "column": Column,
    "literal": Literal,
    "call": Call,
    "measures": Measures,
    "measure": Measure,
    "explode": Explode,
    "explode outer": ExplodeOuter,
    "top rows": TopRows,
    "sliding frame": SlidingFrame,
    "running frame": RunningFrame,
    "quantiles": Quantiles,
    "lookup": RangeLookup,
    "form": LinearForm,
    "branch": Branch,
    "project": Project,
    "where": Where,
    "generate": Generate,
    "match": Match,
    "finish": Finish,
}
"""The values inside of nodes, by the tag that stands for the class in stored forms."""
_TAGS: Mapping[type[Any], str] = {each: tag for tag, each in (*_STORED.items(), *_INSIDE.items())}
_ROLES: Mapping[Any, tuple[type[Any], ...]] = {
    Scalar: (Column, Literal, Call),
    Evaluable: (Column, Literal, Call),
    Body: (Measures,),
    Generator: (Explode, ExplodeOuter),
}
"""What stands for each protocol besides parts of the front end."""
_FIELDS: Mapping[type[Any], Mapping[str, Any]] = {
    each: {f.name: get_type_hints(each)[f.name] for f in fields(each) if f.init} for each in _TAGS
}
"""The declared types of what each constructor takes."""
_LATER: Mapping[type[Any], Mapping[str, Any]] = {Variable: {"bound": Bound.ERROR}}
"""Fields that nodes did not have when the first of their kind were stored, and what they meant by
it. They are left out where they mean the same."""
_TAG, _PART = "is", "part"


@dataclass(frozen=True, slots=True)
class StoredNode:
    """A node's form, the texts of its opaque parts, and the nodes that it reads.

    Its inputs are there without the form being read: what a view needs is known of plans, too, that
    this version cannot run.
    """

    version: int
    inputs: tuple[str, ...]
    form: str
    parts: tuple[str, ...] = ()

    def to_json(self) -> list[Any]:
        return [self.version, list(self.inputs), self.form, list(self.parts)]

    @classmethod
    def from_json(cls, data: Sequence[Any]) -> StoredNode:
        version, inputs, form, parts = data
        return cls(version, tuple(inputs), form, tuple(parts))

    @property
    def is_variable(self) -> bool:
        """Is it a recursion's variable, which is made before what it is fed by?"""
        return self.form.startswith(f'{{"{_TAG}":"{Variable.kind}"')


def reached(roots: Sequence[str], nodes: Mapping[str, StoredNode]) -> list[str]:
    """The stored nodes that `roots` need, inputs before what reads them.

    A recursion's variable comes before what it is fed by, also where relations that define each
    other are reached through the variable of another one.
    """
    order: dict[str, None] = {}
    entered: set[str] = set()
    waiting = [(root, False) for root in reversed(roots)]
    while waiting:
        key, is_left = waiting.pop()
        if is_left:
            order[key] = None
        elif key in nodes and key not in entered:
            entered.add(key)
            if nodes[key].is_variable:
                order[key] = None
            waiting.append((key, True))
            waiting += ((source, False) for source in reversed(nodes[key].inputs))
    return list(order)


# ---- writing -----------------------------------------------------------------------------------


def stored(node: Node, dump: Dump) -> StoredNode:
    """A node as it is kept; `dump` gives the text of what is opaque."""
    parts: list[str] = []
    positions: dict[int, int] = {}

    def written(value: Any) -> Any:
        match value:
            case None | bool() | int() | float() | str():
                return value
            case Enum():
                return value.value
            case Schema():
                return [[f.name, f.type, f.nullable] for f in value]
            case Field():
                return [value.name, value.type, value.nullable]
            case tuple():
                return [written(each) for each in value]
            case Node() if value is not node:
                return value.id
        tag = _TAGS.get(type(value))
        if tag is not None:
            later = _LATER.get(type(value), {})
            found = {name: getattr(value, name) for name in _FIELDS[type(value)]}
            inner = {
                name: written(each)
                for name, each in found.items()
                if name not in later or each is not later[name]
            }
            return {_TAG: tag, **inner}
        if id(value) not in positions:
            positions[id(value)] = len(parts)
            parts.append(dump(value))
        return {_PART: positions[id(value)]}

    text = json.dumps({**written(node), **node.identities}, separators=(",", ":"))
    return StoredNode(PLAN_VERSION, node.inputs, text, tuple(parts))


# ---- reading -----------------------------------------------------------------------------------


def restored(key: str, kept: StoredNode, nodes: Mapping[str, Node], load: Load) -> Node:
    """The node that is stored under an identity, over the `nodes` that it reads.

    Raises `ShapeError` where the form stands for none.
    """
    try:
        form = json.loads(kept.form)
    except (ValueError, RecursionError) as error:
        raise ShapeError(f"{key}: {str(error)[:80]}") from error
    if not isinstance(form, dict) or str(form.get(_TAG)) not in _STORED:
        raise ShapeError(f"{key}: a node of an unknown kind")
    kind, reader = _STORED[str(form[_TAG])], _Reader(kept.parts, nodes, load)
    identities = {name: form.pop(name) for name in form.keys() - _FIELDS[kind].keys() - {_TAG}}
    node: Node = reader.instance(kind, form, key)
    soundness = Soundness(key, nodes)
    node.check_sound(soundness)
    node.identify(soundness, kept.inputs, identities)
    if node.identities.keys() != identities.keys():
        raise ShapeError(f"{key}: not the fields of a {node.kind}")
    if node.inputs != kept.inputs or node.id != key:
        raise ShapeError(f"{key}: it reads other nodes than it says")
    return node


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads the form of one node."""

    parts: tuple[str, ...]
    nodes: Mapping[str, Node]
    load: Load

    def instance(self, kind: type[Any], data: Mapping[str, Any], place: str) -> Any:
        hints, later = _FIELDS[kind], _LATER.get(kind, {})
        if (data.keys() | later.keys()) - {_TAG} != hints.keys():
            raise ShapeError(f"{place}: not the fields of a {_TAGS[kind]}")
        values = {
            n: self.value(hint, data[n], f"{place}.{n}") if n in data else later[n]
            for n, hint in hints.items()
        }
        try:
            return kind(**values)
        except RekindleError as error:
            raise ShapeError(f"{place}: {error.message}") from error

    def value(self, hint: Any, data: Any, place: str) -> Any:
        origin = get_origin(hint)
        if origin in (Union, UnionType):
            return self._either(get_args(hint), data, place)
        if origin is tuple:
            return self._row(get_args(hint), data, place)
        if hint in (str, int, float, bool, type(None)):
            if type(data) is not hint and not (hint is float and type(data) is int):
                raise ShapeError(f"{place}: not of the type {hint.__name__}")
            return data
        if hint is object and data is None:
            return None
        if hint is Schema:
            return Schema(self._row((Field, ...), data, place))
        if hint is Field:
            return Field(*self._row((str, str, bool), data, place))
        if isinstance(hint, type) and issubclass(hint, Node):
            node = self.nodes.get(data) if isinstance(data, str) else None
            if not isinstance(node, hint):
                raise ShapeError(f"{place}: not a {hint.kind}")
            return node
        if isinstance(hint, type) and issubclass(hint, Enum):
            return self._member(hint, data, place)
        if not isinstance(data, dict):
            raise ShapeError(f"{place}: not an object")
        if data.keys() == {_PART}:
            return self._part(hint, data[_PART], place)
        kind = _INSIDE.get(str(data.get(_TAG)))
        if kind is None or (kind is not hint and kind not in _ROLES.get(hint, ())):
            raise ShapeError(f"{place}: {str(data.get(_TAG))[:40]!r} does not belong here")
        return self.instance(kind, data, place)

    def _either(self, hints: Sequence[Any], data: Any, place: str) -> Any:
        refusals = []
        for hint in hints:
            try:
                return self.value(hint, data, place)
            except ShapeError as error:
                refusals.append(str(error))
        raise ShapeError(max(refusals, key=len))

    def _row(self, hints: Sequence[Any], data: Any, place: str) -> tuple[Any, ...]:
        if not isinstance(data, list):
            raise ShapeError(f"{place}: not a list")
        if len(hints) == 2 and hints[1] is ...:
            hints = [hints[0]] * len(data)
        if len(hints) != len(data):
            raise ShapeError(f"{place}: not {len(hints)} values")
        pairs = zip(hints, data, strict=True)
        return tuple(self.value(h, each, f"{place}[{i}]") for i, (h, each) in enumerate(pairs))

    def _member(self, kind: type[Enum], data: Any, place: str) -> Enum:
        try:
            return kind(data)
        except (ValueError, TypeError) as error:
            raise ShapeError(f"{place}: not a {kind.__name__}") from error

    def _part(self, hint: Any, number: Any, place: str) -> object:
        if hint not in (*_ROLES, object, Relation):
            raise ShapeError(f"{place}: an opaque part does not belong here")
        if type(number) is not int or not 0 <= number < len(self.parts):
            raise ShapeError(f"{place}: there is no such part")
        part = self.load(self.parts[number])
        if not isinstance(part, hint):
            raise ShapeError(f"{place}: a {type(part).__name__} does not belong here")
        return part


def is_stored(node: Node) -> bool:
    """Is the node kept as part of a plan? A table's is made of its entry."""
    return node.is_stored
