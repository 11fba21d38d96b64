"""Facts about terms that rules take as premises."""
