"""Fixpoints of functions of DataFrames, also inside each other's steps.

fixpoint.py    what a user gives: a first relation, and a step
definition.py  what is kept of it
reading.py     steps called once, and the term of what they compute
recomputing.py the iteration by Spark, from scratch
"""
