"""PageRank in MRQL that follows every link, and a picture of the ranks as they move.

python examples/ranks.py [FILE.svg]
"""

import sys
from pathlib import Path

import rekindle
from rekindle.benchmarks.chart import Line, line_chart

PAGES = {1: "home", 2: "news", 3: "shop", 4: "help"}
CHANGES = [
    [("insert", 4, 2), ("insert", 3, 2)],  # News are linked to by help and the shop.
    [("insert", 2, 3)],
    [("delete", 1, 3)],
    [("insert", 1, 4), ("insert", 2, 4)],  # Help is found.
    [("delete", 3, 2), ("insert", 3, 4)],
    [("delete", 4, 2)],
    [("delete", 2, 4), ("delete", 1, 4)],  # And left alone again.
]

db = rekindle.connect("ranks")
db.sql("CREATE TABLE links (src BIGINT, dst BIGINT)")
db.sql("INSERT INTO links VALUES (1, 2), (1, 3), (2, 1), (3, 1), (4, 1)")
db.mrql("""
    factor = 0.85;
    pages = select distinct e.src from e in links;
    graph = select (src, dst) from e in links, src = e.src, dst = e.dst group by src;
""")
db.create_view(
    "ranks",
    rekindle.mrql("""
    repeat nodes = select < id: key, rank: 1.0 / count(pages), adjacent: al >
                     from (key, al) in graph
      step select ( < id: m.id, rank: (1 - factor) / count(pages) + factor * sum(
                        select n.rank / count(n.adjacent)
                          from n in nodes where member(m.id, n.adjacent)),
                      adjacent: m.adjacent >, true )
             from m in nodes
      limit 5
"""),
    incremental="required",
)


def ranks() -> dict[int, float]:
    return {row.id: row.rank for row in db.table("ranks").collect()}


course = [ranks()]
for changes in CHANGES:
    with db.transaction() as tx:
        for verb, src, dst in changes:
            (tx.insert if verb == "insert" else tx.delete)("links", [(src, dst)])
    course.append(ranks())
    print(", ".join(f"{PAGES[page]} {rank:.3f}" for page, rank in sorted(course[-1].items())))
    db.check("ranks")
assert course[4][4] > 2 * course[0][4] and course[-1][4] < course[4][4]
db.close()

if sys.argv[1:]:
    lines = [
        Line(name, [(number, [each.get(page, 0.0)]) for number, each in enumerate(course)])
        for page, name in PAGES.items()
    ]
    title = "PageRank of four pages, as links come and go"
    Path(sys.argv[1]).write_text(line_chart(title, "transaction", "rank", lines, logarithmic=False))
