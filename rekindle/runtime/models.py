"""Models that follow their data: a regression over a query, from sums that are kept as a view.

A linear regression needs of its rows their number, the sums of the columns and the sums of the
products of two columns (a cofactor). Those are a view of one row, maintained like any other and
exact under deletions; the coefficients are computed from it when they are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations_with_replacement
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.types import NumericType, StructType

from rekindle.algebra.cofactor import Cofactor
from rekindle.errors import DefinitionError, unknown_name
from rekindle.incremental.policies.models import (
    INTERCEPT,
    LinearModel,
    PrincipalComponents,
    linear_model,
    principal_components,
)

KINDS = ("linear", "ridge")
PREDICTION = "prediction"


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """What a model predicts, from what, and how."""

    label: str
    features: tuple[str, ...]
    kind: str = "linear"
    penalty: float = 0.0

    def to_json(self) -> dict[str, Any]:
        return {
            "label": self.label,
            "features": list(self.features),
            "kind": self.kind,
            "penalty": self.penalty,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any] | None) -> ModelSpec | None:
        if data is None:
            return None
        return cls(data["label"], tuple(data["features"]), data["kind"], data["penalty"])

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.features, self.label)


def model_spec(
    name: str, label: str, features: Sequence[str], kind: str, penalty: float | None
) -> ModelSpec:
    """The specification that a user gives, checked as far as it goes without the query."""
    if kind not in KINDS:
        raise DefinitionError(
            f"the model '{name}' cannot be of the kind '{kind}'",
            detail=f"known: {', '.join(KINDS)}",
        )
    if isinstance(features, str) or not features:
        raise DefinitionError(
            f"the model '{name}' needs a list of features", hint='features=["price", "size"]'
        )
    twice = [c for c in features if list(features).count(c) > 1 or c == label]
    if twice:
        raise DefinitionError(f"the model '{name}' names the column '{twice[0]}' twice")
    if (kind == "ridge") != (penalty is not None):
        raise DefinitionError(
            f"a model of the kind '{kind}' has {'a' if kind == 'ridge' else 'no'} penalty",
            hint='kind="ridge", penalty=0.5',
        )
    if penalty is not None and penalty < 0:
        raise DefinitionError(f"the penalty {penalty} of the model '{name}' is negative")
    return ModelSpec(label, tuple(features), kind, penalty or 0.0)


def check_columns(spec: ModelSpec, schema: StructType) -> None:
    """Raise unless the query has the columns, and they are numbers."""
    for column in spec.columns:
        if column not in schema.names:
            raise unknown_name("column", column, schema.names)
        if not isinstance(schema[column].dataType, NumericType):
            raise DefinitionError(
                f"the column '{column}' is {schema[column].dataType.simpleString()}, not a number",
                hint="cast it in the query, or make a 0/1 column for each of its values",
            )


def cofactor_query(query: str, spec: ModelSpec) -> str:
    """The sums of a query's rows; a row with a NULL in one of the columns is left out."""
    names = [f"`{column}`" for column in spec.columns]
    values = ", ".join(f"CAST({name} AS DOUBLE) AS x{i}" for i, name in enumerate(names))
    present = " AND ".join(f"{name} IS NOT NULL" for name in names)
    sums = [f"coalesce(sum(x{i}), 0) AS s{i}" for i in range(len(names))]
    pairs = combinations_with_replacement(range(len(names)), 2)
    products = [f"coalesce(sum(x{i} * x{j}), 0) AS p{i}_{j}" for i, j in pairs]
    shown = ", ".join(["count(*) AS n", *sums, *products])
    return f"SELECT {shown} FROM (SELECT {values} FROM ({query}) WHERE {present})"


class Model:
    """A model as it is now; ask `db.model` again, or the same object, after a transaction."""

    def __init__(self, name: str, spec: ModelSpec, read: Callable[[], Row]) -> None:
        self.name = name
        self.spec = spec
        self._read = read

    def coefficients(self) -> dict[str, float]:
        """The intercept and the coefficient of each feature."""
        return self._fitted().coefficients

    def r2(self) -> float | None:
        """The share of the label's variance that the model explains; None if it has none."""
        return self._fitted().r2

    def predict(self, rows: DataFrame) -> DataFrame:
        """The rows with a column `prediction`."""
        found = self.coefficients()
        total = F.lit(found[INTERCEPT])
        for feature in self.spec.features:
            total = total + F.lit(found[feature]) * F.col(f"`{feature}`")
        return rows.withColumn(PREDICTION, total)

    def components(self) -> PrincipalComponents:
        """The principal components of the features."""
        cofactor = self._cofactor()
        last = len(self.spec.features)
        products = tuple(row[:last] for row in cofactor.products[:last])
        features = Cofactor(cofactor.count, cofactor.sums[:last], products)
        return principal_components(features, self.spec.features)

    def _fitted(self) -> LinearModel:
        spec = self.spec
        return linear_model(self._cofactor(), spec.columns, spec.label, spec.penalty)

    def _cofactor(self) -> Cofactor[Fraction]:
        row = self._read()
        places = range(len(self.spec.columns))
        sums = tuple(Fraction(row[f"s{i}"]) for i in places)
        products = tuple(
            tuple(Fraction(row[f"p{min(i, j)}_{max(i, j)}"]) for j in places) for i in places
        )
        return Cofactor(Fraction(row["n"]), sums, products)
