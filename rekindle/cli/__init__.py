"""The command line: thin commands over `rekindle.connect`.

Nothing here imports Spark before a command needs it, so that `rekindle --help` answers at once.
"""
