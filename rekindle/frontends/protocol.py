"""A front end: from what a user gives and a catalog to a definition and its term, and back.

To add one, write `frontends/<language>/definition.py` with what the catalog keeps of a view and
`frontends/<language>/front_end.py` with a class like those here; name the first in the union of
`runtime/views/definition.py` and the second in the tuple of `runtime/views/front_ends.py`.
Creating, altering, checking, registering, storing and reopening views then work as for any other
language.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from rekindle.calculus.schema import Schema
from rekindle.calculus.terms import Term
from rekindle.catalyst.settings import Settings
from rekindle.catalyst.types import check_storable, schema_of
from rekindle.errors import DefinitionError
from rekindle.frontends.catalog import Catalog, ContentsOf
from rekindle.frontends.definition import Definition
from rekindle.names import RESERVED
from rekindle.nested.levels import Level

G = TypeVar("G")
D = TypeVar("D", bound=Definition)


@dataclass(frozen=True, slots=True)
class Defined:
    """A view as a front end reads it: what is kept of its definition, its term, its columns."""

    name: str
    definition: Definition
    term: Term
    columns: StructType
    settings: Settings
    """What the session was set to when the definition was given."""
    policy: str | None = None
    """The policy that the term follows already; None leaves it to the user, or to a choice."""
    level: Level | None = None
    """The flat collections that stand for a nested view, which has no rows of its own then."""
    parts: tuple[Defined, ...] = ()
    """These collections, each after those that it reads."""

    def __post_init__(self) -> None:
        names = [column.lower() for column in self.columns.names]
        twice = sorted({column for column in names if names.count(column) > 1})
        if twice:
            raise DefinitionError(
                f"view '{self.name}' has several columns called '{twice[0]}'",
                hint="give each column its own name with AS",
            )
        reserved = [column for column in names if column in RESERVED]
        if reserved:
            raise DefinitionError(
                f"view '{self.name}' cannot have a column called '{reserved[0]}'",
                detail="its changes have a column of that name",
                hint="give the column another name with AS",
            )
        for field in self.columns.fields:
            check_storable(field.dataType, field.name)

    @property
    def schema(self) -> Schema:
        """The columns as the catalog has them."""
        return schema_of(self.columns)


class FrontEnd(ABC, Generic[G, D]):
    """Reads definitions of one kind."""

    takes: ClassVar[type]
    """What users give."""
    keeps: ClassVar[type[Definition]]
    """What is kept of it."""
    given_as: ClassVar[str] = ""
    """How to give it to `db.create_view`; empty if it has a call of its own."""

    @abstractmethod
    def define(self, name: str, given: G, catalog: Catalog) -> Sequence[Defined]:
        """The view that is defined, or all of them where one text defines several."""

    def define_flat(self, name: str, given: G, catalog: Catalog) -> Sequence[Defined]:
        """The same with rows of its own, where the definition leaves a choice."""
        return self.define(name, given, catalog)

    @abstractmethod
    def recompute(
        self, name: str, definition: D, catalog: Catalog, contents: ContentsOf
    ) -> DataFrame:
        """The rows of a view from scratch, by Spark, over what the tables hold."""

    def define_again(self, name: str, definition: D, catalog: Catalog) -> Defined:
        """The view as `define` gave it, from what is kept; only where that consists of texts."""
        raise DefinitionError(
            f"view '{name}' was defined by {definition.words}, which cannot be read again",
            hint="drop the view and create it again",
        )
