"""Koch's paper as small programs on Python values: what the tests compare with.

`semantics` says what a query of AGCA means; `delta` derives its change under the insertion or
deletion of a tuple; `monomials`, `factorise` and `simplify` bring a change into a form from which
`extract` takes the aggregates to keep; `compile` puts them together into the trigger programs of
`programs`, which `run` executes; `compile0` is the plain algorithm. `sql` and `logic` translate
into the calculus. Syntax and safe variables are those of `rekindle.frontends.agca`.

C. Koch, Incremental Query Evaluation in a Ring of Databases, PODS 2010, sections 4 to 7.
"""
