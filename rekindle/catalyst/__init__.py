"""Catalyst, Spark's own compiler, as a library: what talks to the JVM about plans and expressions.

Front ends translate what it gives, and the executor runs what it is given back, so both stand on
this package and it on neither. Nothing outside of it and of the two names a class of Spark's.
"""
