"""Nested rows that are put together when they are asked for, and of a condition only those it asks.

    db.table("related").where("name = 'Drive'")      reads one row of the top, and one bag

Nested rows are a query that joins every row with all of its bags. Where the first thing done with
them is a condition that gives a value for a column, the rows are looked up in the files instead
(`stored_parts.py`), and the condition is applied to what was found. The result stands for the table
or view in definitions of views, as all of its rows do: the condition is still there.

Until the rows are asked for their state is held, so that no file of it is removed.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

from rekindle.catalyst.jvm import JavaObject

Chosen = Callable[[Callable[[DataFrame], DataFrame]], DataFrame | None]
"""The rows that a condition asks for, from the condition; None where it is not understood."""


class LazyRows(ClassicDataFrame):
    """Rows of a nested table or view of which nothing has been read yet."""

    def __init__(
        self,
        spark: SparkSession,
        whole: Callable[[], DataFrame],
        chosen: Chosen,
        release: Callable[[], None],
    ) -> None:
        self._plan: JavaObject | None = None
        self._whole = whole
        self._chosen = chosen
        self._let_go = weakref.finalize(self, release)
        super().__init__(None, spark)

    @property
    def _jdf(self) -> Any:
        """The plan of all rows, which is made when somebody wants it."""
        if self._plan is None:
            self._plan = self._whole()._jdf
            self._let_go()
        return self._plan

    @_jdf.setter
    def _jdf(self, plan: JavaObject | None) -> None:
        self._plan = plan

    def filter(self, condition: Column | str) -> DataFrame:
        if self._plan is None and isinstance(condition, Column | str):
            try:
                found = self._chosen(lambda rows: rows.filter(condition))
            except AnalysisException:
                found = None  # All rows have more to say on what is wrong with it.
            if found is not None:
                return found.filter(condition)
        return super().filter(condition)
