"""Deriving the incremental form of a term: algorithm 4.6 of DBSP, step by step (`pipeline`)."""
