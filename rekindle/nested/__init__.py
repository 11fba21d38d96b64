"""Nested collections and functions as values: what changes of them mean."""
