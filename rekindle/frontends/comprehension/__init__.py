"""Comprehensions over nested collections: from text to flat views."""
