"""The benchmarks: each asks one question and answers it with ratios from one run.

`rekindle bench NAME` imports the module of that name and calls its `run`; no other module of
Rekindle imports this package.
"""
