"""DataFrames over `db.table(...)`: analysed plans whose leaves are names of the database."""
