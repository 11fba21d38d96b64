"""The elements of one array, as a deep update sees them: which are meant, and what becomes of them.

Values are given as Python values or as expressions of SQL over the fields of an element. An array
of scalars has elements of one field, `value`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rekindle.calculus.schema import Field, Schema
from rekindle.catalyst.types import payload_schema
from rekindle.circuit.nodes import Table
from rekindle.columns import column_name, column_names
from rekindle.errors import (
    ConstraintError,
    DefinitionError,
    RowError,
    StatementError,
    unknown_name,
)
from rekindle.frontends.spark_sql.analyse import check_text, resolving
from rekindle.names import quoted
from rekindle.nested.levels import VALUE
from rekindle.runtime.nested.flat_rows import values_of
from rekindle.runtime.rows.conversion import is_frame, show_row, to_arrow
from rekindle.runtime.rows.keys import comparable
from rekindle.runtime.rows.wall_time import Zone
from rekindle.spark.frames import to_arrow as collect_arrow

Where = Mapping[str, Any] | str | None
"""Values of fields, or a condition in SQL; None for all elements."""
NUMBER = "_n"


@dataclass(frozen=True, slots=True)
class RowFormat:
    """How rows that users give are read."""

    zone: Zone
    encode: Callable[[DataFrame, Table], DataFrame]
    frame: Callable[[Schema, pa.Table], DataFrame]
    """Stored rows of some columns as a DataFrame."""


@dataclass(frozen=True, slots=True)
class ElementType:
    """What the elements of an array are, and what the array is called."""

    name: str
    schema: Schema
    of_values: bool
    reading: RowFormat

    def rows(self, given: Any) -> pa.Table:
        """Elements that a user gives, as stored columns; raises `RowError` if they do not fit."""
        if is_frame(given):
            node = Table(self.name, self.schema, (), "")
            return self._stored(collect_arrow(self.reading.encode(given, node)))
        if self.of_values and isinstance(given, Iterable) and not isinstance(given, str | bytes):
            given = [(value,) for value in given]
        return self._stored(to_arrow(given, self.schema, self.name, self.reading.zone))

    def _stored(self, columns: pa.Table) -> pa.Table:
        return columns.cast(payload_schema(self.schema))

    def position(self, field: object) -> int:
        """The position of a field by its name, in whatever case."""
        for i, each in enumerate(self.schema.names):
            if isinstance(field, str) and each.lower() == field.lower():
                return i
        raise unknown_name("field", field, self.schema.names, self.name)

    def value(self, field: str, given: Any) -> pa.Array:
        """A value of a field as a stored column of one row."""
        schema = Schema((self.schema.fields[self.position(field)],))
        return to_arrow([(given,)], schema, self.name, self.reading.zone).column(0)

    # ---- which elements --------------------------------------------------------------------

    def fitting(self, elements: pa.Table, selector: Mapping[str, Any]) -> list[int]:
        """The numbers of the elements that have all of the values."""
        if not isinstance(selector, Mapping):
            raise DefinitionError(
                f"elements of '{self.name}' cannot be chosen by a {type(selector).__name__}",
                hint="give a dict of values that they have, or a condition in SQL",
            )
        numbers = set(range(len(elements)))
        for field, given in selector.items():
            place = self.position(field)
            (wanted,) = map(comparable, self.value(field, given).to_pylist())
            held = elements.column(place).to_pylist()
            numbers &= {i for i, each in enumerate(held) if comparable(each) == wanted}
        return sorted(numbers)

    def single(self, elements: pa.Table, selector: Any) -> int:
        """The number of the one element that a selector fits."""
        if not isinstance(selector, Mapping) or not selector:
            raise RowError(
                f"an element of '{self.name}' is named by values of its fields, not by "
                f"{selector!r}",
                hint='give a dict, such as {"okey": 3}',
            )
        found = self.fitting(elements, selector)
        if len(found) == 1:
            return found[0]
        said = ", ".join(f"{field} = {value!r}" for field, value in selector.items())
        if not found:
            raise ConstraintError(
                f"no element of '{self.name}' has {said}", hint="nothing was applied"
            )
        raise ConstraintError(
            f"{len(found)} elements of '{self.name}' have {said}",
            hint="nothing was applied; name more fields, so that one element is meant",
        )

    def given(self, elements: pa.Table, rows: pa.Table) -> list[int]:
        """The numbers of the elements that equal the given ones, one for each."""
        places: dict[Any, list[int]] = {}
        for number, value in enumerate(values_of(elements)):
            places.setdefault(value, []).append(number)
        found = []
        for i, value in enumerate(values_of(rows)):
            there = places.get(value)
            if not there:
                raise ConstraintError(
                    f"cannot delete {show_row(rows, i)} from '{self.name}': "
                    "there is no such element",
                    hint="nothing was applied; compare every field",
                )
            found.append(there.pop(0))
        return sorted(found)

    def where(self, elements: pa.Table, where: Where) -> list[int]:
        """The numbers of the elements that a condition holds for."""
        if where is None:
            return list(range(len(elements)))
        if isinstance(where, str):
            found = collect_arrow(self._filtered(elements, where).select(F.col(NUMBER)))
            return sorted(found.column(0).to_pylist())
        return self.fitting(elements, where)

    # ---- what becomes of them --------------------------------------------------------------

    def updated(
        self, elements: pa.Table, where: Where, changes: Mapping[str, Any]
    ) -> tuple[list[int], pa.Table]:
        """The numbers of the elements that a condition holds for, and what they become."""
        if not isinstance(changes, Mapping) or not changes:
            raise RowError(
                f"an update of '{self.name}' says what fields become, not {changes!r}",
                hint='give a dict, such as {"qty": 3} or {"qty": "qty + 1"}',
            )
        places = {self.position(field): value for field, value in changes.items()}
        if any(isinstance(value, str) for value in places.values()):
            return self._computed(elements, where, places)
        numbers = self.where(elements, where)
        rows = elements.take(pa.array(numbers, pa.int64()))
        for place, value in places.items():
            given = self.value(self.schema.names[place], value).combine_chunks()
            column = given.take(pa.array(np.zeros(len(numbers), dtype=np.int64)))
            rows = rows.set_column(place, rows.field(place), column.cast(rows.field(place).type))
        return numbers, rows

    def _computed(
        self, elements: pa.Table, where: Where, places: Mapping[int, Any]
    ) -> tuple[list[int], pa.Table]:
        frame = self._numbered(elements)
        if isinstance(where, str):
            frame = self._filtered(elements, where)
        elif where is not None:
            frame = frame.where(F.col(NUMBER).isin(self.fitting(elements, where)))
        shown = []
        plain = {}
        for i, field in enumerate(self.schema):
            value = places.get(i)
            if i in places and not isinstance(value, str):
                plain[i] = value
            if isinstance(value, str):
                check_text(value)
            with self._resolving():
                written = F.expr(value) if isinstance(value, str) else F.col(quoted(field.name))
            shown.append(written.alias(field.name))
        node = Table(self.name, Schema((*self.schema.fields, Field(NUMBER, "bigint"))), (), "")
        with self._resolving():
            chosen = frame.select(*shown, F.col(NUMBER))
        found = collect_arrow(self.reading.encode(chosen, node)).cast(payload_schema(node.schema))
        numbers = found.column(len(self.schema)).to_pylist()
        rows = found.select(column_names(len(self.schema)))
        if plain:
            names = {self.schema.names[i]: value for i, value in plain.items()}
            _, rows = self.updated(rows, None, names)
        return numbers, rows

    def _filtered(self, elements: pa.Table, where: str) -> DataFrame:
        check_text(where)
        with self._resolving():
            return self._numbered(elements).where(F.expr(where))

    @contextmanager
    def _resolving(self) -> Iterator[None]:
        """Errors of a block about names say what there is."""
        try:
            with resolving(()):
                yield
        except StatementError as error:
            if "UNRESOLVED_COLUMN" not in error.detail:
                raise
            raise StatementError(
                f"an expression over the elements of '{self.name}' cannot be resolved",
                detail=re.sub(f"`{NUMBER}`, |, `{NUMBER}`", "", error.detail),
                hint=f"the fields are {', '.join(self.schema.names)}; a text is an expression of "
                "SQL, and a text within it stands in quotes: \"'sent'\"",
            ) from error

    def _numbered(self, elements: pa.Table) -> DataFrame:
        """The elements by the names of their fields, and the number of each."""
        schema = Schema((*self.schema.fields, Field(NUMBER, "bigint", nullable=False)))
        numbers = pa.array(np.arange(len(elements), dtype=np.int64))
        columns = elements.append_column(column_name(len(self.schema)), numbers)
        return self.reading.frame(schema, columns)


def of_values(type_: str) -> Schema:
    """The fields of the elements of an array of scalars."""
    return Schema((Field(VALUE, type_),))
