"""MRQL: a query language for nested data with iteration, its algebra, and the split of a query.

grammar.py, parse.py, syntax.py     the language: text to statements
translate.py                        statements to terms, clause by clause; clauses.py, names.py,
                                    definitions.py, templates.py
terms.py, monoids.py, text.py       the algebra, what merges, and both as text
interpreter.py, values.py           what a term means; functions.py, arithmetic.py, documents.py
session.py, files.py, printing.py   scripts, sources, results
unnest.py, normalise.py             nested queries to coGroups; definition 2
inference.py                        which monoid merges a term's values
lineage.py                          the keys by which each value came
factor.py, split.py                 q(S) = a(h(S)), h(S ⊎ ΔS) = h(S) ⊗ h(ΔS)
diffusion.py, diminisher.py         what a merge changed; taking out what was merged
iteration.py, near.py               repeats that follow what arrives

The paper, section by section: docs/design/mrql.md.
"""
