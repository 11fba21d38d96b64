"""How the time to create a view grows with the levels of its WITH clause.

Every query of the clause reads the one before twice, so the view has 2ⁿ leaves as a tree.

    python benchmarks/shared_queries.py [LEVELS ...]
"""

from __future__ import annotations

import sys
import tempfile
import time

import rekindle

ROUNDS = 3


def doubling(levels: int) -> str:
    queries = ["q0 AS (SELECT k, v FROM t)"]
    for i in range(levels):
        joined = f"SELECT a.k, a.v + b.v AS v FROM q{i} a JOIN q{i} b ON a.k = b.k"
        queries.append(f"q{i + 1} AS ({joined})")
    return f"WITH {', '.join(queries)} SELECT k, v FROM q{levels}"


def main(levels: list[int]) -> None:
    best: dict[int, float] = {}
    with tempfile.TemporaryDirectory() as path, rekindle.connect(path) as db:
        db.sql("CREATE TABLE t (k BIGINT, v BIGINT)")
        db.sql("INSERT INTO t VALUES (1, 1), (2, 5)")
        for turn in range(ROUNDS + 1):
            for count in levels:
                begun = time.perf_counter()
                db.create_view("v", doubling(count))
                taken = time.perf_counter() - begun
                db.sql("DROP VIEW v")
                if turn:
                    best[count] = min(taken, best.get(count, taken))
    first = best[levels[0]]
    for count, seconds in best.items():
        print(f"{count:3} levels: {seconds:7.3f} s, {seconds / first:5.2f} times")


if __name__ == "__main__":
    main([int(word) for word in sys.argv[1:]] or [7, 14])
