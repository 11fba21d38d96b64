"""Random comprehensions as text, over tables and views of known types."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import strategies as st

from rekindle.nested.types import Bag, Boxed, KeyType, Mapping, Record, Scalar

INT = Scalar("int")
SOURCES: dict[str, KeyType] = {
    "r": Record((("k", INT), ("a", INT))),
    "s": Record((("k", INT), ("b", INT))),
    "arrays": Record(
        (
            ("id", INT),
            ("tags", Boxed(Bag(INT))),
            ("inner", Boxed(Bag(Record((("x", INT), ("ys", Boxed(Bag(INT)))))))),
        )
    ),
    "kept": Record(
        (
            ("id", INT),
            ("tags", Boxed(Bag(INT))),
            (
                "inner",
                Boxed(Bag(Record((("x", INT), ("ys", Boxed(Bag(Record((("y", INT),))))))))),
            ),
        )
    ),
    "nested": Record(
        (
            ("k", INT),
            ("ss", Boxed(Bag(Record((("b", INT), ("rs", Boxed(Bag(INT)))))))),
        )
    ),
}
"""The collections that random comprehensions range over; `kept` is a table in parts."""

COUNTED = ("(for o in r yield o.a => o.k)", INT)
"""A source whose elements count for numbers."""

NESTED = (
    "for x in r yield (k: x.k, ss: for y in s where y.k = x.k "
    "yield (b: y.b, rs: for z in r where z.a = y.b yield z.a))"
)
"""What the view `nested` is."""


@dataclass
class Scope:
    """The variables that a text may read."""

    variables: dict[str, KeyType] = field(default_factory=dict)

    def paths(self, wanted: type[KeyType]) -> list[tuple[str, KeyType]]:
        """The paths that lead to values of a kind of type."""
        found: list[tuple[str, KeyType]] = []

        def visit(path: str, type_: KeyType) -> None:
            if isinstance(type_, wanted):
                found.append((path, type_))
            if isinstance(type_, Record):
                for name, inner in type_.fields:
                    visit(f"{path}.{name}", inner)

        for name, type_ in self.variables.items():
            visit(name, type_)
        return found

    def plus(self, name: str, type_: KeyType) -> Scope:
        return Scope({**self.variables, name: type_})


@st.composite
def collections(draw: st.DrawFn, scope: Scope, depth: int) -> tuple[str, KeyType]:
    """The text of a collection and the type of its elements."""
    kinds = ["for", "for", "for"] + (["union", "flatten", "let"] if depth > 0 else [])
    kind = draw(st.sampled_from(kinds))
    if kind == "union":
        text, type_ = draw(collections(scope, depth - 1))
        guard = draw(conditions(scope.plus("u", type_), 0))
        return f"({text}) union (for u in ({text}) where {guard} yield u)", type_
    if kind == "let":
        text, type_ = draw(collections(scope, depth - 1))
        head, made = draw(rows(scope.plus("w", type_), depth - 1))
        return f"let big = ({text}) in for w in big yield {head}", made
    if kind == "flatten":
        text, type_ = draw(collections(scope.plus("f", SOURCES["r"]), depth - 1))
        return f"flatten(for f in r yield ({text}))", type_
    inner, generators = scope, []
    for i in range(draw(st.integers(1, 2))):
        name = f"v{len(inner.variables)}"
        source, type_ = draw(sources(inner))
        inner = inner.plus(name, type_)
        where = f" where {draw(conditions(inner, depth))}" if i or draw(st.booleans()) else ""
        generators.append(f"{name} in {source}{where}")
    head, made = draw(rows(inner, depth))
    return f"for {', '.join(generators)} yield {head}", made


@st.composite
def valued(draw: st.DrawFn, scope: Scope, depth: int) -> str:
    """The text of a collection whose keys count for numbers or for collections."""
    inner, generators = scope, []
    for _ in range(draw(st.integers(1, 2))):
        name = f"v{len(inner.variables)}"
        source, type_ = draw(sources(inner))
        inner = inner.plus(name, type_)
        where = f" where {draw(conditions(inner, depth))}" if draw(st.booleans()) else ""
        generators.append(f"{name} in {source}{where}")
    keys = [f"f{i}: {draw(numbers(inner, 0))}" for i in range(draw(st.integers(1, 2)))]
    key = f"({', '.join(keys)})" if draw(st.integers(0, 2)) else draw(numbers(inner, 0))
    kind = draw(st.sampled_from(["number", "bag", "valued"] if depth > 0 else ["number"]))
    if kind == "number":
        value = draw(numbers(inner, 0))
    elif kind == "bag":
        value = f"({draw(collections(inner, depth - 1))[0]})"
    else:
        value = f"({draw(valued(inner, depth - 1))})"
    return f"for {', '.join(generators)} yield {key} => {value}"


@st.composite
def wholes(draw: st.DrawFn, depth: int) -> str:
    """The text of a view."""
    kind = draw(st.sampled_from(["bag", "bag", "valued", "in a row"]))
    if kind == "bag" or depth == 0:
        return draw(collections(Scope(), depth))[0]
    if kind == "valued":
        return draw(valued(Scope(), depth))
    source, type_ = draw(sources(Scope()))
    inner = Scope().plus("v0", type_)
    text = draw(valued(inner, depth - 1))
    return f"for v0 in {source} yield (n: {draw(numbers(inner, 0))}, of: {text})"


@st.composite
def sources(draw: st.DrawFn, scope: Scope) -> tuple[str, KeyType]:
    """What a variable ranges over: a table, a view, or an inner collection in scope."""
    inner = []
    for path, type_ in scope.paths(Boxed):
        assert isinstance(type_, Boxed) and isinstance(type_.ring, Mapping)
        inner += [(path, type_.ring.key)] * 2
    return draw(st.sampled_from([*SOURCES.items(), *inner, COUNTED]))


@st.composite
def rows(draw: st.DrawFn, scope: Scope, depth: int) -> tuple[str, KeyType]:
    """The text of a row and its type."""
    if draw(st.integers(0, 5)) == 0:
        return draw(numbers(scope, 0)), INT
    fields, types = [], []
    for i in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(["number", "number", "bag", "path"]))
        name = f"f{i}"
        bags = scope.paths(Boxed)
        if kind == "bag" and depth > 0:
            text, type_ = draw(collections(scope, depth - 1))
            fields.append(f"{name}: {text}")
            types.append((name, Boxed(Bag(type_))))
        elif kind == "path" and bags:
            text, type_ = draw(st.sampled_from(bags))
            fields.append(f"{name}: {text}")
            types.append((name, type_))
        else:
            fields.append(f"{name}: {draw(numbers(scope, depth))}")
            types.append((name, INT))
    return f"({', '.join(fields)})", Record(tuple(types))


@st.composite
def numbers(draw: st.DrawFn, scope: Scope, depth: int) -> str:
    """The text of a number."""
    paths = [path for path, type_ in scope.paths(Scalar)]
    kind = draw(st.sampled_from(["path"] * 4 + ["constant", "sum"] + ["measure"] * (depth > 0)))
    if kind == "measure":
        text, type_ = draw(collections(scope, 0))
        return f"count({text})" if type_ != INT else f"coalesce(max({text}), 0)"
    if kind == "constant" or not paths:
        return str(draw(st.integers(0, 3)))
    first = draw(st.sampled_from(paths))
    if kind == "sum":
        return f"{first} + {draw(st.sampled_from(paths))}"
    return first


@st.composite
def conditions(draw: st.DrawFn, scope: Scope, depth: int) -> str:
    """The text of a condition; equalities are frequent."""
    paths = [path for path, type_ in scope.paths(Scalar)]
    if depth > 0 and draw(st.integers(0, 4)) == 0:
        source, type_ = draw(sources(scope))
        guard = draw(conditions(scope.plus("q", type_), 0))
        word = draw(st.sampled_from(["exists", "forall"]))
        return f"{word}(q in {source} where {guard})"
    if not paths:
        return "1 = 1"
    sign = draw(st.sampled_from(["=", "=", "=", "<>", "<", ">="]))
    first = f"{draw(st.sampled_from(paths))} {sign} {draw(numbers(scope, 0))}"
    if draw(st.integers(0, 3)):
        return first
    other = f"{draw(st.sampled_from(paths))} = {draw(numbers(scope, 0))}"
    return f"{first} {draw(st.sampled_from(['and', 'or']))} {other}"
