"""Policies: which subterms of a view get an integral. See `docs/design/policies.md`."""
