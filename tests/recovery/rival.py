"""A process that writes to a database in rounds, beside another that does the same.

Started as `python -m tests.recovery.rival KIND URI DIARY`, it says `ready` and then works a round
for each line that it reads, and says `over`. In a round it opens the database, commits, and closes
it again. Its diary has a line before and after each commit, so that those who find it dead know
what was acknowledged. A rival of the kind `rows` inserts rows through Spark; one of the kind `log`
commits empty epochs, which takes no Spark and is enough to see who is overwritten.
"""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Callable
from typing import Any

from rekindle.errors import FencedError, LockedError
from rekindle.runtime.epochs import log as log_module
from rekindle.runtime.writers import lease as lease_module

TERM = 3.0
WAIT = 120.0
COMMITS = 2


def main() -> None:
    kind, uri, diary = sys.argv[1:4]
    lease_module.TERM = TERM
    file = open(diary, "a")  # noqa: SIM115 - open until death

    def note(*words: object) -> None:
        file.write(" ".join(map(str, words)) + "\n")
        file.flush()
        os.fsync(file.fileno())

    work = _with_rows(uri, note) if kind == "rows" else _with_epochs(uri, note)
    print("ready", flush=True)
    for _ in sys.stdin:
        for _ in range(10):
            try:
                work()
                break
            except (FencedError, LockedError) as error:
                note("refused", type(error).__name__)
        print("over", flush=True)


def _with_epochs(uri: str, note: Callable[..., None]) -> Callable[[], None]:
    from tests.recovery.writers import Writer

    # All records stay, so that each of them can be asked whose it is.
    log_module.CHECKPOINT_EVERY = 10**9

    def work() -> None:
        writer = Writer.open(uri, WAIT)
        try:
            for _ in range(COMMITS):
                note("done", f"{writer.commit()}-{writer.lease.token}")
        finally:
            writer.close()

    return work


def _with_rows(uri: str, note: Callable[..., None]) -> Callable[[], None]:
    import rekindle
    from rekindle.spark.session import local_session
    from tests.recovery.victim import SETTINGS

    log_module.CHECKPOINT_EVERY = 8
    spark = local_session(**{**SETTINGS, "spark.master": "local[1]"})

    def work() -> None:
        db: Any = rekindle.connect(uri, spark, wait=WAIT)
        try:
            for _ in range(COMMITS):
                name = secrets.token_hex(8)
                note("begin", name)
                with db.transaction() as tx:
                    tx.insert("names", [(name,)])
                note("done", name)
        finally:
            db.close()

    return work


if __name__ == "__main__":
    main()
