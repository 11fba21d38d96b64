"""AGCA, the aggregation calculus of the ring of databases, and its compiler to trigger programs.

The road of a query, one module a step: `parse` reads text into the nodes of `ast`; `variables`
checks that every variable has a value; `semantics` says what the query means; `delta` derives its
change under the insertion or deletion of a tuple; `monomials`, `factorise` and `simplify` bring a
change into a form from which `extract` takes the aggregates to keep; `compile` puts them together
into the trigger programs of `programs`, which `run` executes. `sql` and `logic` translate.

C. Koch, Incremental Query Evaluation in a Ring of Databases, PODS 2010, sections 4 to 7.
"""
