"""One law for each file. A rule looks at the root of a term and gives an equal term."""
