"""Models that follow their data: learned from sums that are kept as a view.

A linear regression needs of its rows their number, the sums of the columns and the sums of the
products of two columns (a cofactor), by the values of the categories among them. Those are a view
(`model_sums.py`), maintained like any other and exact under deletions; the coefficients are
computed from it when they are asked for. Principal components need the same, and the dependence of
categories on each other needs the counts alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import frexp, fsum, isfinite, ldexp
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    IntegralType,
    NullType,
    NumericType,
    StringType,
    StructType,
)

from rekindle.algebra.cofactor import Cofactor, Entry
from rekindle.errors import DefinitionError, UnknownNameError, did_you_mean, unknown_name
from rekindle.incremental.policies.categories import (
    Edge,
    OneHot,
    Pair,
    level_name,
    maximum_spanning_tree,
    one_hot,
    pairwise_information,
)
from rekindle.incremental.policies.models import (
    INTERCEPT,
    LinearModel,
    PrincipalComponents,
    linear_model,
    principal_components,
)
from rekindle.names import quoted
from rekindle.runtime.models.sums import Axis, Category, Monomial, Sums, axes_of

REGRESSIONS = ("linear", "ridge")
KINDS = (*REGRESSIONS, "pca", "chow_liu")
PREDICTION = "prediction"
AVERAGED_ROWS = 1_000
ROUNDING = 2.0**-48
"""How exact the sums are: each is rounded once, and once more in each view of a tree below it."""


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """What a model predicts, from what, and how; `categorical` lists all categories among it."""

    label: str | None
    features: tuple[str, ...]
    kind: str = "linear"
    penalty: float = 0.0
    degree: int = 1
    categorical: tuple[str, ...] = ()
    query: str = ""
    """Whose rows it is learned from."""
    centres: Mapping[str, float] = field(default_factory=dict)
    """What is taken off the numbers before they are multiplied; see `centred`."""

    def to_json(self) -> dict[str, Any]:
        return {
            "label": self.label,
            "features": list(self.features),
            "kind": self.kind,
            "penalty": self.penalty,
            "degree": self.degree,
            "categorical": list(self.categorical),
            "query": self.query,
            "centres": dict(self.centres),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ModelSpec:
        return cls(
            data["label"],
            tuple(data["features"]),
            data["kind"],
            data["penalty"],
            data.get("degree", 1),
            tuple(data.get("categorical", ())),
            data.get("query", ""),
            data.get("centres", {}),
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the query that the model reads."""
        return self.features if self.label is None else (*self.features, self.label)

    @property
    def axes(self) -> tuple[Axis, ...]:
        """What the model is fitted on, the label last."""
        label = () if self.label is None else (Monomial((self.label,)),)
        return (*axes_of(self.features, self.categorical, self.degree), *label)

    @property
    def sums(self) -> Sums:
        """What has to be kept for it."""
        numbers = tuple(c for c in self.columns if c not in self.categorical)
        return Sums(numbers, self.categorical, self.axes, self.centres)

    @property
    def is_centred(self) -> bool:
        """Can a constant be taken off the numbers? Products as features would become others."""
        return self.degree == 1 and bool(self.sums.numbers)

    def averages(self, rows: DataFrame) -> DataFrame:
        """The averages of the numbers and how far they are from them, over some of the rows."""
        numbers = {name: _column(name).cast("double") for name in self.sums.numbers}
        wanted = [
            F.struct(F.avg(number).alias("mean"), F.stddev_pop(number).alias("spread")).alias(name)
            for name, number in numbers.items()
        ]
        return rows.limit(AVERAGED_ROWS).agg(*wanted)

    def centred(self, averages: Mapping[str, tuple[float | None, float | None]]) -> ModelSpec:
        """The same model, whose sums are those of distances from about the averages.

        A sum of squares is rounded relative to itself: of numbers that differ little against their
        size, such as times, it would say nothing about how they vary.
        """
        finite = {
            name: few_digits(mean, spread)
            for name, (mean, spread) in averages.items()
            if mean is not None and spread is not None and isfinite(mean) and isfinite(spread)
        }
        return replace(self, centres=finite)


def few_digits(mean: float, spread: float) -> float:
    """A number about as near to the mean as the others are, of as few binary digits as can be.

    Distances from it are exact where the numbers have few digits, and so are short sums of them.

    >>> few_digits(49.5321, 28.9), few_digits(0.331, 0.2), few_digits(1e9 + 0.25, 0.0)
    (48.0, 0.375, 1000000000.25)
    """
    if not spread:
        return mean
    _, exponent = frexp(spread)
    return ldexp(round(ldexp(mean, 1 - exponent)), exponent - 1)


def model_spec(
    name: str,
    label: str | None,
    features: Sequence[str],
    kind: str = "linear",
    penalty: float | None = None,
    degree: int = 1,
    categorical: Sequence[str] = (),
) -> ModelSpec:
    """The specification that a user gives, checked as far as it goes without the query."""
    if not isinstance(kind, str) or kind not in KINDS:
        raise DefinitionError(
            f"the model '{name}' cannot be of the kind '{kind}'",
            detail=f"known: {', '.join(KINDS)}",
            hint=did_you_mean(kind, KINDS),
        )
    if isinstance(features, str) or not features:
        raise DefinitionError(
            f"the model '{name}' needs a list of features", hint='features=["price", "size"]'
        )
    twice = [c for c in features if list(features).count(c) > 1 or c == label]
    if twice:
        raise DefinitionError(f"the model '{name}' names the column '{twice[0]}' twice")
    if (kind in REGRESSIONS) != (label is not None):
        raise DefinitionError(
            f"a model of the kind '{kind}' has {'a' if kind in REGRESSIONS else 'no'} label",
            hint='kind="linear", label="price"',
        )
    if (kind == "ridge") != (penalty is not None):
        raise DefinitionError(
            f"a model of the kind '{kind}' has {'a' if kind == 'ridge' else 'no'} penalty",
            hint='kind="ridge", penalty=0.5',
        )
    if penalty is not None:
        _check_penalty(name, penalty)
    if not isinstance(degree, int) or degree not in ((1, 2) if kind in REGRESSIONS else (1,)):
        raise DefinitionError(
            f"the model '{name}' cannot have the degree {degree}",
            detail="1 or 2 for a regression, 1 for any other kind",
        )
    if kind == "chow_liu" and len(features) < 2:
        raise DefinitionError(f"the model '{name}' needs two features or more to relate them")
    if isinstance(categorical, str):
        raise DefinitionError(f"the model '{name}' needs a list of categorical features")
    for column in categorical:
        if column not in features:
            raise unknown_name("feature", column, features)
    return ModelSpec(label, tuple(features), kind, penalty or 0.0, degree, tuple(categorical))


def _check_penalty(name: str, penalty: object) -> None:
    if not isinstance(penalty, int | float) or not isfinite(penalty):
        raise DefinitionError(f"the penalty {penalty!r} of the model '{name}' is no finite number")
    if penalty < 0:
        raise DefinitionError(f"the penalty {penalty} of the model '{name}' is negative")


def with_categories(spec: ModelSpec, schema: StructType) -> ModelSpec:
    """The specification with the categories that the types of the columns tell; checks the types.

    A text, a truth value or a date is a category; a number is one where it is named, and always in
    a model that is about categories only.
    """
    spec = _spelled(spec, schema)
    categories = []
    for column in spec.columns:
        if column not in schema.names:
            raise unknown_name("column", column, schema.names)
        type_ = schema[column].dataType
        asked = column in spec.categorical or spec.kind == "chow_liu"
        if column != spec.label and (asked or not isinstance(type_, NumericType)):
            _check_category(spec, column, type_)
            categories.append(column)
        elif not isinstance(type_, NumericType):
            raise DefinitionError(
                f"the column '{column}' is {type_.simpleString()}, not a number",
                hint="cast it in the query",
            )
    found = replace(spec, categorical=tuple(categories))
    names = [axis.name for axis in found.axes]
    twice = [each for each in names if names.count(each) > 1]
    if twice:
        raise DefinitionError(
            f"two features of the model would be called '{twice[0]}'",
            hint="give the column another name in the query",
        )
    return found


def _spelled(spec: ModelSpec, schema: StructType) -> ModelSpec:
    """The columns as the query spells them: names are found without regard to case."""
    known = {name.lower(): name for name in reversed(schema.names)}

    def spelled(name: str) -> str:
        return name if name in schema.names else known.get(name.lower(), name)

    return replace(
        spec,
        label=None if spec.label is None else spelled(spec.label),
        features=tuple(map(spelled, spec.features)),
        categorical=tuple(map(spelled, spec.categorical)),
    )


def _check_category(spec: ModelSpec, column: str, type_: DataType) -> None:
    if not isinstance(type_, StringType | BooleanType | DateType | IntegralType | DecimalType):
        raise DefinitionError(
            f"the column '{column}' is {type_.simpleString()}, which is no category",
            detail="categories are strings, booleans, dates, whole numbers and decimals",
            hint="cast it in the query",
        )
    if spec.kind == "pca":
        raise DefinitionError(
            f"the column '{column}' is a category, which has no principal component",
            hint="leave it out, or make a 0/1 column for each of its values in the query",
        )


class Model:
    """A model as it is now; ask `db.model` again, or the same object, after a transaction."""

    def __init__(self, name: str, spec: ModelSpec, read: Callable[[], DataFrame]) -> None:
        self.name = name
        self.spec = spec
        self._read = read

    def coefficients(self) -> dict[str, float]:
        """The intercept and the coefficient of each feature.

        A category has one for each of its values that occurs, such as `colour=red`, against the
        smallest value, which has none.
        """
        return self._fitted()[0].coefficients

    def r2(self) -> float | None:
        """The share of the label's variance that the model explains; None if it has none."""
        return self._fitted()[0].r2

    def predict(self, rows: DataFrame) -> DataFrame:
        """The rows with a column `prediction`.

        It is NULL where a feature is, and for a category's value that is in none of the rows that
        the model has learned from.
        """
        self._check_given(rows)
        fitted, encoded = self._fitted()
        found = fitted.coefficients
        total = F.lit(found[INTERCEPT])
        for axis in self.spec.axes[:-1]:
            match axis:
                case Monomial():
                    term = F.lit(found[axis.name])
                    for column in axis.columns:
                        term = term * _column(column)
                case Category():
                    term = _effect(axis.name, encoded.levels[axis.name], found)
            total = total + term
        return rows.withColumn(PREDICTION, total)

    def _check_given(self, rows: object) -> None:
        """Raise unless the rows have the features, of types that can be compared."""
        if not isinstance(rows, DataFrame):
            raise DefinitionError(
                f"the model '{self.name}' predicts for a DataFrame, not for a "
                f"{type(rows).__name__}",
                hint="make one with db.spark.createDataFrame(...)",
            )
        known = {field.name.lower(): field.dataType for field in rows.schema.fields}
        learned = self._read().schema
        for feature in self.spec.features:
            if feature.lower() not in known:
                raise UnknownNameError(
                    f"the rows have no column '{feature}', a feature of the model '{self.name}'",
                    detail=f"their columns: {', '.join(rows.columns)}",
                    hint=did_you_mean(feature, rows.columns)
                    or f"the features are {', '.join(self.spec.features)}",
                )
            wanted: DataType = DoubleType()
            if feature in self.spec.categorical:
                wanted = learned[f"k{self.spec.categorical.index(feature)}"].dataType
            given = known[feature.lower()]
            if not isinstance(given, (*_family(wanted), NullType)):
                raise DefinitionError(
                    f"the column '{feature}' is {given.simpleString()}, and the model "
                    f"'{self.name}' has learned from values of the type {wanted.simpleString()}",
                    hint="cast it first",
                )

    def components(self) -> PrincipalComponents:
        """The principal components of the features that are numbers."""
        names = [f for f in self.spec.features if f not in self.spec.categorical]
        if not names:
            raise DefinitionError(f"the model '{self.name}' has no features that are numbers")
        encoded = self._encoded(self._cofactor())
        places = [encoded.names.index(name) for name in names]
        whole = encoded.cofactor
        products = tuple(tuple(whole.products[i][j] for j in places) for i in places)
        sums = tuple(whole.sums[i] for i in places)
        found = principal_components(Cofactor(whole.count, sums, products), names)
        centres = self.spec.centres
        means = {name: mean + centres.get(name, 0.0) for name, mean in found.means.items()}
        return replace(found, means=means)

    def mutual_information(self) -> dict[Pair, float]:
        """How much each two categorical features tell of each other, in nats."""
        if len(self.spec.categorical) < 2:
            raise DefinitionError(
                f"the model '{self.name}' has fewer than two categorical features",
                hint='kind="chow_liu" takes all features as categories',
            )
        return pairwise_information(self._cofactor(), self._names, self.spec.categorical)

    def tree(self) -> list[Edge]:
        """The tree of Chow and Liu over the categorical features: edges with their information."""
        return maximum_spanning_tree(self.mutual_information())

    @property
    def _names(self) -> list[str]:
        return [axis.name for axis in self.spec.axes]

    def _fitted(self) -> tuple[LinearModel, OneHot]:
        spec = self.spec
        if spec.label is None:
            raise DefinitionError(
                f"the model '{self.name}' of the kind '{spec.kind}' predicts nothing",
                hint='make one with kind="linear" and a label',
            )
        encoded = self._encoded(self._cofactor())
        found = linear_model(encoded.cofactor, encoded.names, spec.label, spec.penalty, ROUNDING)
        # The model of distances from the centres, as one of the numbers themselves.
        given = found.coefficients
        moved = spec.centres.get(spec.label, 0.0) - fsum(
            given[name] * centre for name, centre in spec.centres.items() if name in given
        )
        shifted = {**given, INTERCEPT: given[INTERCEPT] + moved}
        return replace(found, coefficients=shifted), encoded

    def _encoded(self, cofactor: Cofactor[Entry]) -> OneHot:
        return one_hot(cofactor, self._names, self.spec.categorical)

    def _cofactor(self) -> Cofactor[Entry]:
        rows = self._read().collect()
        if not any(row["n"] for row in rows):
            raise DefinitionError(
                f"the model '{self.name}' has no rows to learn from",
                detail="its query gives none in which all of its columns have a value",
                hint="insert rows first",
            )
        return self.spec.sums.cofactor(rows)


def _family(type_: DataType) -> tuple[type[DataType], ...]:
    """The types whose values are compared with those of a type without a cast of texts."""
    families = (NumericType, StringType, BooleanType, DateType)
    return tuple(each for each in families if isinstance(type_, each))


def _column(name: str) -> Column:
    return F.col(quoted(name))


def _effect(feature: str, levels: Sequence[Any], found: Mapping[str, float]) -> Column:
    """The coefficient of the value that a row has; NULL for a value that is not known."""
    known = [(value, found.get(level_name(feature, value), 0.0)) for value in levels]
    cases = F.when(_column(feature).isNull(), F.lit(None).cast("double"))
    for value, coefficient in known:
        cases = cases.when(_column(feature) == F.lit(value), F.lit(coefficient))
    return cases
