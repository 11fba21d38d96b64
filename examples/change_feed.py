"""Keep a copy of a view outside the database by following its changes.

The copy starts empty and remembers the last epoch it has seen. Adding up the changes since then
makes it equal to the view, however many transactions lie between.

    python examples/change_feed.py
"""

from collections import Counter

import rekindle

db = rekindle.connect("warehouse")
db.sql("CREATE TABLE visits (page STRING, visitor BIGINT)")
db.sql("CREATE MATERIALIZED VIEW traffic AS SELECT page, count(*) AS n FROM visits GROUP BY page")

copy: Counter[tuple[str, int]] = Counter()
seen = 0


def follow() -> int:
    """Add what changed since the last call to the copy; gives the number of changed rows."""
    global seen
    upto = db.epoch
    changes = db.changes("traffic", since=seen).collect()
    for change in changes:
        copy[change.page, change.n] += change["_weight"]
    seen = upto
    for row in [row for row, weight in copy.items() if weight == 0]:
        del copy[row]
    return len(changes)


def contents() -> Counter[tuple[str, int]]:
    return Counter((row.page, row.n) for row in db.table("traffic").collect())


with db.transaction() as tx:
    tx.insert("visits", [("home", 1), ("home", 2), ("help", 1)])
print("changed rows:", follow())
assert copy == contents() == Counter({("home", 2): 1, ("help", 1): 1})

with db.transaction() as tx:
    tx.insert("visits", [("home", 3)])
with db.transaction() as tx:
    tx.delete("visits", [("help", 1)])
print("changed rows:", follow())
assert copy == contents() == Counter({("home", 3): 1})

# The same changes, summed up, are the difference of two snapshots.
before = {row.page: row.n for row in db.table("traffic", epoch=3).collect()}
assert before == {"home": 2, "help": 1}
assert follow() == 0
db.close()
