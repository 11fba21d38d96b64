"""Datalog: rules become queries, one for each relation, and relations that need each other a scope.

parse.py     text to rules, with their places
program.py   rules to strata: what must be known before what, and what is known together
queries.py   a relation's rules to one SQL query; Spark resolves every expression in it
"""
