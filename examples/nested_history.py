"""Authors with their commits with their files: a nested view that follows a history as it is made.

The first sixty small commits of souffle-lang/souffle (data/souffle_history.csv: metadata of a
project under the UPL, authors' addresses hashed) come in as they came then, one transaction each.
A new commit adds an element to its author's bag, and an amended one replaces an element and the bag
in it; neither touches the rest of the author's row.

    python examples/nested_history.py
"""

import csv
from itertools import groupby
from pathlib import Path

import rekindle

FILE = Path(__file__).parent / "data" / "souffle_history.csv"
KNOWN = 40

db = rekindle.connect("warehouse")
db.sql("CREATE TABLE authors (author STRING, PRIMARY KEY (author))")
db.sql("CREATE TABLE commits (id STRING, author STRING, day STRING, PRIMARY KEY (id))")
db.sql("CREATE TABLE files (id STRING, op STRING, path STRING)")
db.create_view(
    "history",
    rekindle.comprehension("""
        for a in authors
        yield (author: a.author,
               commits: for c in commits where c.author = a.author
                        yield (day: c.day, id: c.id,
                               files: for f in files where f.id = c.id
                                      yield (op: f.op, path: f.path)))"""),
)
# A view over the nested one reads its flat parts: no array is put together for it.
db.create_view(
    "directories",
    rekindle.comprehension("""
        for a in history, c in a.commits, f in c.files
        yield (directory: substring_index(f.path, '/', 1)) => 1"""),
)

with FILE.open() as lines:
    read = [tuple(row.values()) for row in csv.DictReader(lines)]
history = [(commit, list(rows)) for commit, rows in groupby(read, key=lambda row: row[:3])]


def bring(transaction, commits):
    """Insert commits, and their authors where they are new."""
    for (author, day, commit), rows in commits:
        transaction.upsert("authors", [(author,)])
        transaction.insert("commits", [(commit, author, day)])
        transaction.insert("files", [(commit, op, path) for *_, op, path in rows])


def touched():
    """The rows that the parts of the last step read."""
    return sum(node.rows_in for node in db.last_step.nodes.values())


def show(author):
    """One author's row, nested, with the last commits."""
    (row,) = db.table("history").where(f"author = '{author}'").collect()
    print(f"{row.author}: {len(row.commits)} commits")
    for commit in row.commits[-3:]:
        names = ", ".join(f"{file.op} {file.path}" for file in commit.files)
        print(f"    {commit.day} {commit.id}  {names}")


with db.transaction() as tx:
    bring(tx, history[:KNOWN])
print(f"{KNOWN} commits in one transaction, {touched()} rows read")
(busiest, *_), _ = history[KNOWN]
show(busiest)

reads = []
for commit in history[KNOWN:]:
    with db.transaction() as tx:
        bring(tx, [commit])
    reads.append(touched())
print(f"\n{len(reads)} new commits, {min(reads)} to {max(reads)} rows read for each")
show(busiest)

# The last commit is amended: it goes, with its bag of files, and one of another name comes.
(author, day, last), rows = history[-1]
with db.transaction() as tx:
    tx.delete("commits", [(last, author, day)])
    tx.delete("files", [(last, op, path) for *_, op, path in rows])
    bring(tx, [((author, day, "f00dcafe"), [*rows, (author, day, last, "A", "CHANGELOG.md")])])
print(f"\n{last} amended, {touched()} rows read")
show(author)
(row,) = db.table("history").where(f"author = '{author}'").collect()
assert last not in [commit.id for commit in row.commits]
(amended,) = [commit for commit in row.commits if commit.id == "f00dcafe"]
assert len(amended.files) == len(rows) + 1

print("\nthe flat tables that stand for the nested view:")
for path, part in db.shredded("history").items():
    print(f"{path or 'top'}: {part.count()} rows")
    part.limit(3).show(truncate=60)

print("changed files by directory:")
for row in db.table("directories").orderBy("value", ascending=False).limit(3).collect():
    print(f"{row.value:5}  {row.directory}")
assert sum(row.value for row in db.table("directories").collect()) == len(read) + 1

for view in ("history", "directories"):
    print(db.check(view))
db.close()
