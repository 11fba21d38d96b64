"""`rekindle.fixpoint`: views that are defined by iteration of a function of DataFrames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pyspark.sql import DataFrame

from rekindle.frontends.catalog import Catalog, ContentsOf
from rekindle.frontends.dataframes.plans import stored_plans
from rekindle.frontends.definition import Definition
from rekindle.frontends.fixpoints.definition import FixpointDefinition
from rekindle.frontends.fixpoints.fixpoint import Fixpoint
from rekindle.frontends.fixpoints.reading import FixpointReader
from rekindle.frontends.fixpoints.recomputing import Recomputation
from rekindle.frontends.protocol import Defined, FrontEnd


class Fixpoints(FrontEnd[Fixpoint, FixpointDefinition]):
    """Views that are defined by iteration."""

    takes: ClassVar[type] = Fixpoint
    keeps: ClassVar[type[Definition]] = FixpointDefinition
    given_as: ClassVar[str] = "rekindle.fixpoint(...)"

    def define(self, name: str, given: Fixpoint, catalog: Catalog) -> Sequence[Defined]:
        with catalog.assuming() as assume:
            reading = FixpointReader(name, catalog, assume)
            iterated, output, term, read = reading.read(given)
            plan = stored_plans(catalog.catalyst, name, read)
        definition = FixpointDefinition(plan, iterated, output, tuple(reading.nested))
        settings = catalog.catalyst.settings()
        return [Defined(name, definition, term, given.initial.schema, settings)]

    def recompute(
        self, name: str, definition: FixpointDefinition, catalog: Catalog, contents: ContentsOf
    ) -> DataFrame:
        loops = [definition.iterated, *(nested.iterated for nested in definition.nested)]
        count = sum(2 * len(loop.names) for loop in loops)
        plans = catalog.stored_plans(name, definition.plan, count)
        return Recomputation.rows_of(catalog.catalyst, contents, definition, plans)
