"""Rules on Catalyst's optimised plans, one a file; `rewriting.py` has their order."""
