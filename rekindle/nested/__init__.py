"""Nested collections: one calculus of keys and rings, its changes, and its shredding.

The core is the nested ring calculus (`types.py`, `terms.py`); bags of bags are a fragment of it
(`nrc.py`). `meaning.py` says what a term is worth, and every other module is held to that:

    delta.py, degree.py, cost.py           the change of a term, the change of that, the price
    shredding.py, labels.py, nesting.py    inner collections out into dictionaries, and back
    domains.py                             which labels a dictionary has to define
    levels.py                              the flat collections of a nested one, as a tree
    functions/                             functions as values, and the change of a function

Lupei's thesis, chapters 2 to 5; docs/design/nested.md.
"""
