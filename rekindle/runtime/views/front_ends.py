"""The front ends: every language that a view can be defined in, in one tuple.

How one is added is said in `frontends/protocol.py`.
"""

from __future__ import annotations

from typing import Any

from rekindle.errors import DefinitionError
from rekindle.frontends.agca.front_end import RingQueries
from rekindle.frontends.comprehension.front_end import Comprehensions
from rekindle.frontends.dataframes.front_end import DataFrames
from rekindle.frontends.datalog.front_end import Datalog
from rekindle.frontends.definition import Definition
from rekindle.frontends.fixpoints.front_end import Fixpoints
from rekindle.frontends.mrql.front_end import MrqlQueries
from rekindle.frontends.protocol import FrontEnd
from rekindle.frontends.spark_sql.front_end import SparkSql
from rekindle.runtime.models.front_end import Models

FRONT_ENDS: tuple[FrontEnd[Any, Any], ...] = (
    SparkSql(),
    DataFrames(),
    Fixpoints(),
    RingQueries(),
    Comprehensions(),
    MrqlQueries(),
    Datalog(),
    Models(),
)


def front_end_for(name: str, given: object) -> FrontEnd[Any, Any]:
    """The front end of what a user gives `db.create_view` as the definition of a view."""
    offered = [each for each in FRONT_ENDS if each.given_as]
    for each in offered:
        if isinstance(given, each.takes):
            return each
    *others, last = (each.given_as for each in offered)
    raise DefinitionError(
        f"view '{name}' cannot be defined by a {type(given).__name__}",
        hint=f"give {', '.join(others)} or {last}",
    )


def front_end_of(definition: Definition) -> FrontEnd[Any, Any]:
    """The front end that a stored definition belongs to."""
    return next(each for each in FRONT_ENDS if isinstance(definition, each.keeps))
