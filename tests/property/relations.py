"""What random queries are made of: relations, conditions, expressions, and choices that are noted.

A generator makes every choice that a feature of the language hangs on through `Drawing.pick`, under
a title: that is how a campaign knows which features its queries had. A campaign that aims at
a feature hands the choice to the drawing, which then takes it wherever it is offered.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TypeVar

from hypothesis import strategies as st

from tests.property import values
from tests.property.schemas import TableSpec
from tests.property.values import Type

Chosen = TypeVar("Chosen")
BIGINT = Type("bigint", None, st.nothing(), "integer")
OPAQUE = Type("?", None, st.nothing(), "opaque")


@dataclass
class Drawing:
    """A source of choices for one query; `features` are those that were made, by title.

    Choices are those of a generator of random numbers, of which Hypothesis draws the seed: its own
    choices repeat each other, so that hundreds of queries had no `sum`.
    """

    random: Random
    aims: Mapping[str, str] = field(default_factory=dict)
    features: list[tuple[str, str]] = field(default_factory=list)

    def pick(self, title: str, options: Mapping[str, Chosen]) -> Chosen:
        """One of the options, noted by its name."""
        aim = self.aims.get(title)
        name = aim if aim in options else self.among(list(options))
        self.features.append((title, name))
        return options[name]

    def name(self, title: str, names: Collection[str]) -> str:
        """One of the names, noted."""
        return self.pick(title, dict(zip(names, names, strict=True)))

    def now_and_then(self, title: str, name: str, one_in: int = 4) -> bool:
        """Sometimes yes, which is noted."""
        if self.aims.get(title) != name and not self.one_in(one_in):
            return False
        self.features.append((title, name))
        return True

    def one_in(self, number: int) -> bool:
        return self.random.randrange(number) == 0

    def number(self, least: int, most: int) -> int:
        return self.random.randint(least, most)

    def among(self, items: Sequence[Chosen]) -> Chosen:
        """One of the items, not noted."""
        return self.random.choice(items)

    def some(self, items: Sequence[Chosen], least: int, most: int) -> list[Chosen]:
        """Different ones of the items."""
        most = min(most, len(items))
        return self.random.sample(items, self.number(min(least, most), most))


@dataclass(frozen=True)
class Relation:
    """Something a query can read: a table or an earlier view."""

    name: str
    columns: tuple[tuple[str, Type], ...]

    def of(self, *families: str) -> list[str]:
        return [name for name, type_ in self.columns if type_.family in families]

    @property
    def numbers(self) -> list[str]:
        return [name for name, type_ in self.columns if type_.is_number]

    @property
    def keys(self) -> list[str]:
        return [name for name, type_ in self.columns if type_.is_key]

    @property
    def ordered(self) -> list[str]:
        """Columns of which equal values are the same value: neither floats nor nested ones."""
        families = ("integer", "decimal", "string", "date", "timestamp", "timestamp_ntz")
        return [name for name in self.keys if self.type(name).family in families]

    def type(self, name: str) -> Type:
        return dict(self.columns)[name]


@dataclass(frozen=True)
class Query:
    """SQL text; `columns` are those a later view may read further.

    A query that `may_recompute` has a part without a key, of which every row matters; any other
    is followed, which its view asks for (law 6).
    """

    sql: str
    columns: tuple[tuple[str, Type], ...]
    may_recompute: bool = False
    features: tuple[tuple[str, str], ...] = ()


def relation_of(spec: TableSpec) -> Relation:
    return Relation(spec.name, tuple((c.name, c.type) for c in spec.columns))


def predicate(draw: Drawing, relation: Relation, prefix: str = "") -> str:
    """A condition that some rows meet."""
    options = []
    for name, type_ in relation.columns:
        column = prefix + name
        options.append(f"{column} IS NOT NULL")
        if type_.is_number:
            options += [
                f"{column} > 0",
                f"{column} BETWEEN -1 AND 1",
                f"{column} <> 0 AND 4 / {column} > 1",
            ]
        if type_.family == "boolean":
            options += [column, f"NOT {column}", f"{column} IS NOT TRUE"]
        if type_.family == "string":
            options += [f"{column} LIKE 'a%'", f"length({column}) > 1", f"{column} IN ('a', '')"]
        if type_.family == "special":
            options += [f"{column} >= 0", f"isnan({column})"]
        if type_.family == "variant":
            options += [
                f"is_variant_null({column})",
                f"try_variant_get({column}, '$.a', 'int') = 1",
            ]
        if type_.family == "collated":
            options += [f"{column} = 'a'", f"{column} > 'A'", f"{column} IN ('B', 'ß')"]
    one = draw.among(options)
    if draw.one_in(4):
        return f"({one}) {draw.among(['AND', 'OR'])} ({draw.among(options)})"
    return one


def where(draw: Drawing, relation: Relation, prefix: str = "") -> str:
    return f" WHERE {predicate(draw, relation, prefix)}" if draw.one_in(2) else ""


def expressions(relation: Relation, prefix: str = "") -> list[tuple[str, Type]]:
    """Expressions over a relation that fail on no row."""
    found: list[tuple[str, Type]] = []
    for name, type_ in relation.columns:
        column = prefix + name
        found.append((column, type_))
        found.append((f"{column} IS NULL", values.BOOLEAN))
        match type_.family:
            case "integer":
                found += [
                    (f"CAST({column} AS BIGINT) * 2 + 1", BIGINT),
                    (f"CASE WHEN {column} > 0 THEN 1 ELSE {column} END", OPAQUE),
                    (f"coalesce(CAST({column} AS INT), 7)", values.INT),
                ]
            case "float" | "decimal":
                found += [
                    (f"-{column}", OPAQUE),
                    (f"CAST({column} AS DOUBLE) * 0.5D", OPAQUE),
                    (f"try_divide({column}, {column})", OPAQUE),
                ]
            case "string":
                found += [(f"concat({column}, '!')", OPAQUE), (f"length({column})", values.INT)]
            case "array":
                found += [
                    (f"size({column})", values.INT),
                    (f"transform({column}, e -> e + 1)", values.ARRAY),
                    (f"try_element_at({column}, 1)", values.INT),
                ]
            case "struct":
                found += [
                    (f"{column}.f", values.INT),
                    (f"{column}.g", OPAQUE),
                    (f"named_struct('f', {column}.f, 'g', 'z')", OPAQUE),
                ]
            case "map":
                found += [
                    (f"element_at({column}, 'a')", values.INT),
                    (f"map_filter({column}, (k, v) -> v > 0)", values.MAP),
                    (f"array_sort(map_keys({column}))", OPAQUE),
                ]
            case "date":
                found += [
                    (f"year({column})", values.INT),
                    (f"{column} + INTERVAL 1 MONTH", OPAQUE),
                    (f"datediff({column}, DATE'2000-01-01')", values.INT),
                ]
            case "timestamp" | "timestamp_ntz":
                found += [
                    (f"hour({column})", values.INT),
                    (f"{column} - INTERVAL 90 SECONDS", type_),
                    (f"date_trunc('MONTH', {column})", OPAQUE),
                ]
            case "duration":
                found += [(f"{column} * 2", OPAQUE), (f"extract(DAY FROM {column})", values.INT)]
            case "months":
                found += [(f"{column} + INTERVAL 1 YEAR", OPAQUE), (f"-{column}", OPAQUE)]
            case "binary":
                found += [(f"hex({column})", OPAQUE), (f"length({column})", values.INT)]
            case "special":
                found += [(f"nanvl({column}, 1D)", OPAQUE), (f"abs({column})", OPAQUE)]
            case "boolean":
                found += [(f"NOT {column}", values.BOOLEAN)]
            case "variant":
                found += [
                    (f"try_variant_get({column}, '$.a', 'int')", values.INT),
                    (f"schema_of_variant({column})", OPAQUE),
                    (f"to_json({column})", OPAQUE),
                ]
            case "collated":
                found += [
                    (f"{column} = 'a'", values.BOOLEAN),
                    (f"contains({column}, 'B')", values.BOOLEAN),
                    (f"length({column})", values.INT),
                ]
    return found


def selected(
    draw: Drawing, options: Sequence[tuple[str, Type]], most: int = 4
) -> tuple[str, tuple[tuple[str, Type], ...]]:
    chosen = [draw.among(options) for _ in range(draw.number(1, most))]
    columns = tuple((f"o{i}", type_) for i, (_, type_) in enumerate(chosen))
    text = ", ".join(f"{e} AS o{i}" for i, (e, _) in enumerate(chosen))
    return text, columns


def pair(draw: Drawing, left: Relation, right: Relation, word: str = "=") -> str:
    """An equality of two columns, of one type or of two integer types."""
    pairs = [
        f"a.{one} {word} b.{two}"
        for one, first in left.columns
        for two, second in right.columns
        if first.is_key
        and (first == second or (first.family == second.family == "integer"))
        and first.family != "opaque"
    ]
    return draw.among(pairs) if pairs else ""


def collated_pair(draw: Drawing, left: Relation, right: Relation) -> str:
    """An equality of texts that their collation decides."""
    pairs = [f"a.{one} = b.{two}" for one in left.of("collated") for two in right.of("collated")]
    return draw.among(pairs) if pairs else ""


def ranges(draw: Drawing, left: Relation, right: Relation) -> tuple[str, str]:
    """A comparison of columns of both sides by their order with one end, and one with two ends."""
    families = (*_SHIFTS, *_COMPARED)
    pairs = [
        (one, two, first.family)
        for one, first in left.columns
        for two, second in right.columns
        if first == second and first.family in families
    ]
    pairs += [(one, two, "number") for one in left.numbers for two in right.numbers]
    if not pairs:
        return "", ""
    one, two, family = draw.among(pairs)
    others = [other for a, other, _ in pairs if a == one]
    below, above = draw.among((("<", ">"), ("<=", ">="), ("<", ">=")))
    two_ends = [f"a.{one} BETWEEN b.{two} AND b.{draw.among(others)}"]
    if family in _SHIFTS:
        shift = _SHIFTS[family]
        two_ends.append(f"a.{one} {above} b.{two} - {shift} AND a.{one} {below} b.{two} + {shift}")
    return f"a.{one} {draw.among((below, above))} b.{two}", draw.among(two_ends)


_SHIFTS = {
    "date": "2",
    "timestamp": "INTERVAL 90 MINUTES",
    "timestamp_ntz": "INTERVAL 1 DAY",
}
"""What can be added to any value of a family that tables hold, without an error."""
_COMPARED = (
    "boolean", "integer-payload", "decimal", "float", "special", "string", "collated", "binary",
    "duration", "months",
)  # fmt: skip
