"""Rewrites of terms: laws, applied in one visible order to a fixed point (`pipeline`)."""
