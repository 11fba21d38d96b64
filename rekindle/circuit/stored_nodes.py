"""The nodes of a circuit as the commit log keeps them: a plan that outlives the code that made it.

A view's nodes are derived once, when it is created, and read from then on. Nothing that a better
rule, lowering or fingerprint would give today changes a node that has state: its identity is stored
with it and never computed again. `PLAN_VERSION` says what the nodes mean; a node of another version
is one that this code cannot run.

The form is JSON of plain nodes. What has no Python form (an expression of Catalyst, a user's
function) is a number into the node's `parts`, texts that the front end reads (`persist`). A stored
form is data from anywhere: classes come from the list below, every field is held against the type
that its class declares, and columns against the width of the rows that they are taken from.
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
    First,
    Generator,
    Measure,
    Near,
    Onwards,
    Quantiles,
)
from rekindle.circuit.nodes import (
    Arrangement,
    Constant,
    Deduplicate,
    Group,
    HalfJoin,
    Indexed,
    Lookup,
    Node,
    Recur,
    Regroup,
    Routed,
    Table,
    Variable,
    View,
)
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

_NODES = (
    *(Constant, Arrangement, Routed, HalfJoin, Deduplicate, Group, Regroup, View, Variable, Recur),
)
_VALUES = (
    *(Column, Literal, Call, Measures, Measure, Explode, ExplodeOuter),
    *(First, Near, Onwards, Quantiles, Lookup),
    *(LinearForm, Branch, Project, Where, Generate, Match, Finish),
)
_STORED: dict[str, type[Any]] = {kind.__name__: kind for kind in _NODES}
_INSIDE: dict[str, type[Any]] = {kind.__name__: kind for kind in _VALUES}
_ROLES: Mapping[Any, tuple[type[Any], ...]] = {
    Scalar: (Column, Literal, Call),
    Evaluable: (Column, Literal, Call),
    Body: (Measures,),
    Generator: (Explode, ExplodeOuter),
}
"""What stands for each protocol besides parts of the front end."""
_FIELDS: Mapping[str, Mapping[str, Any]] = {
    name: {f.name: get_type_hints(kind)[f.name] for f in fields(kind) if f.init}
    for name, kind in (_STORED | _INSIDE).items()
}
"""The declared types of what each constructor takes."""
_KIND, _PART = "is", "part"


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
        return self.form.startswith(f'{{"{_KIND}":"{Variable.__name__}"')


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
            case Variable() if value is not node:
                return value.id
        name = type(value).__name__
        if type(value) in (_INSIDE.get(name), _STORED.get(name)):
            inner = {f.name: written(getattr(value, f.name)) for f in fields(value) if f.init}
            return {_KIND: name, **inner}
        if id(value) not in positions:
            positions[id(value)] = len(parts)
            parts.append(dump(value))
        return {_PART: positions[id(value)]}

    form = written(node)
    if isinstance(node, Regroup) and node.kept is not None:
        form = {**form, "kept": node.kept.id}
    text = json.dumps(form, separators=(",", ":"))
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
    if not isinstance(form, dict) or str(form.get(_KIND)) not in _STORED:
        raise ShapeError(f"{key}: a node of an unknown kind")
    kept_as = form.pop("kept", None)
    reader = _Reader(kept.parts, nodes, load)
    node: Node = reader.instance(_STORED[str(form[_KIND])], form, key)
    _refuse_unsound(node, key, nodes)
    # The identity is the one under which the state stands, whatever it would be today.
    vars(node)["id"] = key
    if isinstance(node, Variable):
        if len(kept.inputs) != 1:
            raise ShapeError(f"{key}: a variable is fed by one node")
        vars(node)["recur"] = kept.inputs[0]
    elif isinstance(node, Regroup) and node.kept is not None:
        if not isinstance(kept_as, str):
            raise ShapeError(f"{key}: the arrangement of its results has no identity")
        vars(node.kept)["id"] = kept_as
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
        hints = _FIELDS[kind.__name__]
        if data.keys() - {_KIND} != hints.keys():
            raise ShapeError(f"{place}: not the fields of a {kind.__name__}")
        values = {n: self.value(hint, data[n], f"{place}.{n}") for n, hint in hints.items()}
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
        if hint is Variable:
            variable = self.nodes.get(data) if isinstance(data, str) else None
            if not isinstance(variable, Variable):
                raise ShapeError(f"{place}: not a variable")
            return variable
        if isinstance(hint, type) and issubclass(hint, Enum):
            return self._member(hint, data, place)
        if not isinstance(data, dict):
            raise ShapeError(f"{place}: not an object")
        if data.keys() == {_PART}:
            return self._part(hint, data[_PART], place)
        kind = _INSIDE.get(str(data.get(_KIND)))
        if kind is None or (kind is not hint and kind not in _ROLES.get(hint, ())):
            raise ShapeError(f"{place}: {str(data.get(_KIND))[:40]!r} does not belong here")
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


# ---- soundness ---------------------------------------------------------------------------------


def _refuse_unsound(node: Node, key: str, nodes: Mapping[str, Node]) -> None:
    """Raise `ShapeError` unless a node takes columns that the rows it reads have."""
    match node:
        case Arrangement() | Routed():
            width = _refuse_form(node.form, key, nodes)
            _refuse_scalars(node.keys or (), width, key)
            _refuse_columns([node.order], width, key)
        case Group():
            width = _refuse_form(node.form, key, nodes)
            arguments = [a for measure in node.measures for a in measure.arguments]
            _refuse_scalars([*(scalar for _, scalar in node.keys), *arguments], width, key)
        case HalfJoin():
            change, against = _input(node.change, key, nodes), _input(node.against, key, nodes)
            if not isinstance(change, Indexed) or not isinstance(against, Indexed):
                raise ShapeError(f"{key}: a join reads what no key finds")
            if node.lookup is not None:
                ends = [node.lookup.low, node.lookup.high]
                _refuse_columns(ends, len(change.schema), key)
            if not 0 <= node.left_width <= len(node.schema):
                raise ShapeError(f"{key}: its left rows are wider than its pairs")
        case Deduplicate():
            if len(_input(node.arrangement, key, nodes).schema) != len(node.schema):
                raise ShapeError(f"{key}: its rows are not those that it reads")
        case Regroup():
            width = len(_input(node.arrangement, key, nodes).schema)
            extent = None if node.extent is None else node.extent.column
            _refuse_columns([*node.keys, extent], width, key)
        case View() | Recur():
            if _refuse_form(node.form, key, nodes) != len(node.schema):
                raise ShapeError(f"{key}: its columns are not those of its rows")


def _refuse_form(form: LinearForm, key: str, nodes: Mapping[str, Node]) -> int:
    """The width of a form's rows, once every stage is known to read columns that are there."""
    for branch in form.branches:
        width = len(branch.schema)
        if width > len(_input(branch.node, key, nodes).schema) or branch.sign not in (1, -1):
            raise ShapeError(f"{key}: it reads more columns than '{branch.node}' has")
        schema = branch.schema
        for stage in branch.stages:
            match stage:
                case Project():
                    _refuse_scalars([scalar for _, scalar in stage.outputs], width, key)
                case Where():
                    _refuse_scalars([stage.predicate], width, key)
                case Generate():
                    _refuse_columns([*stage.kept, *stage.generator.references], width, key)
                case Match():
                    sides = width - stage.left_width
                    if len(stage.left_keys) != len(stage.right_keys):
                        raise ShapeError(f"{key}: a join compares keys in pairs")
                    _refuse_scalars(stage.left_keys, stage.left_width, key)
                    _refuse_scalars(stage.right_keys, sides, key)
                case Finish():
                    if len(stage.keys) > width:
                        raise ShapeError(f"{key}: it has fewer keys than it gives")
            schema = stage.output(schema)
            width = len(schema)
        if width != len(form.schema):
            raise ShapeError(f"{key}: its branches differ in their columns")
    return len(form.schema)


def _input(source: str, key: str, nodes: Mapping[str, Node]) -> Node:
    node = nodes.get(source)
    if node is None:
        raise ShapeError(f"{key}: it reads '{source[:40]}', which is not there")
    return node


def _refuse_scalars(scalars: Sequence[Scalar], width: int, key: str) -> None:
    for scalar in scalars:
        _refuse_columns(list(scalar.references), width, key)


def _refuse_columns(columns: Sequence[int | None], width: int, key: str) -> None:
    if any(column is not None and not 0 <= column < width for column in columns):
        raise ShapeError(f"{key}: it takes a column of rows that have {width}")


def is_stored(node: Node) -> bool:
    """Is the node kept as part of a plan? A table's is made of its entry."""
    return not isinstance(node, Table)
