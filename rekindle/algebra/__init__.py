"""The algebra under every view: groups, Z-sets, relational functions and streams.

This package is theory that runs. It knows nothing of Spark or Arrow and is written for clarity;
the kernels are fast versions of what is defined here, and the tests compare the two. Each module
uses only those before it: `groups`, `zset`, `relational`; `streams` needs `groups` alone.

Beside them are the structures that values of rows come from, each a ring unless it says otherwise:
`relations` (typed tuples under natural join), `matrices`, `cofactor` (the sums that a regression
needs), `doubles` (a ring up to rounding), `tropical` (semirings, which cannot delete).
"""
