"""AGCA, the aggregation calculus of the ring of databases, as a language for views.

The road of a query, one module a step: `parse` reads text into the nodes of `ast`, `variables`
checks that every variable has a value, `renaming` gives each variable one meaning, `sql_text`
writes the SQL that Spark analyses; `text` writes a query in its own language again.

What a query means on Python values, its changes and the compiler to trigger programs are beside the
tests (`tests/agca/reference`): views are kept by the policies of `incremental/policies`.

C. Koch, Incremental Query Evaluation in a Ring of Databases, PODS 2010, section 4.
"""
