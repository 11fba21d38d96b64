"""MRQL as views: terms of its algebra become Spark SQL, which the engine follows.

values.py        what a term is while it is compiled: parts, and SQL for each
demands.py       what functions ask of the types of their arguments
scalars.py       functions of MRQL on scalars; arrays.py on collections within rows
aggregates.py    monoids as aggregates of SQL, and as folds of arrays
blocks.py        selects as they grow: what they range over, their conditions, their groups
forms.py         what a term is as far as its form shows
expressions.py   terms that are values of a row
compile.py       terms that are collections of rows; repeats.py for iteration
requests.py      sources and streams, and the tables in their place
reading.py       texts, definitions and names; rows.py rows as values; explaining.py
definition.py, front_end.py

How a term becomes a query, and what has no query: docs/design/mrql.md.
"""
