"""Writes the database that stands for a stored form: one of each kind of thing that is kept.

    python -m tests.compatibility.write NAME

makes `databases/NAME.tar.gz` with the code as it is. Run it once whenever a stored form changes,
before the change, or after it under a new name, and never again for a name that is there: the point
is that these bytes were written by code that is gone.

Functions are pickled by value, since they stand in `__main__`; such bytes are those of one minor
version of Python, which is written down beside the database.
"""

from __future__ import annotations

import json
import platform
import sys
import tarfile
import tempfile
from decimal import Decimal
from pathlib import Path

from pyspark.sql import functions as F
from pyspark.sql.functions import udf

import rekindle
from rekindle.runtime.database import Database
from rekindle.runtime.streaming.definition import Source, StreamDefinition

DATABASES = Path(__file__).parent / "databases"

TABLES = [
    "CREATE TABLE items (id BIGINT, name STRING, price DECIMAL(10,2), weight DOUBLE, "
    "PRIMARY KEY (id))",
    "CREATE TABLE sales (item BIGINT, shop STRING, n INT, at TIMESTAMP, tags ARRAY<STRING>)",
    "CREATE TABLE edges (a INT, b INT)",
    "CREATE TABLE codes (id INT, code VARCHAR(6), place STRUCT<x: INT, y: STRING>)",
]
VIEWS = {
    "joined": "SELECT s.shop, i.name, s.n, i.price * s.n AS paid "
    "FROM sales s JOIN items i ON s.item = i.id",
    "padded": "SELECT i.id, s.shop FROM items i LEFT JOIN sales s ON s.item = i.id AND s.n > 1",
    "totals": "SELECT shop, count(*) AS c, sum(n) AS n, avg(n) AS mean, min(at) AS first, "
    "max(n) AS most, stddev(n) AS spread, percentile(n, 0.5) AS middle FROM sales GROUP BY shop",
    "busiest": "SELECT shop, n FROM totals ORDER BY n DESC, shop LIMIT 2",
    "ranked": "SELECT shop, n, row_number() OVER (PARTITION BY shop ORDER BY n, item) AS r, "
    "sum(n) OVER (PARTITION BY shop ORDER BY at ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS near "
    "FROM sales",
    "names": "SELECT DISTINCT upper(name) AS name FROM items",
    "unsold": "SELECT id FROM items WHERE NOT EXISTS (SELECT 1 FROM sales WHERE item = items.id)",
    "tagged": "SELECT item, t FROM sales LATERAL VIEW explode(tags) AS t",
    "hours": "SELECT date_trunc('HOUR', at) AS hour, hour(at) AS h, count(*) AS c "
    "FROM sales GROUP BY 1, 2",
    "places": "SELECT place.y AS y, max_by(code, id) AS code FROM codes GROUP BY place.y",
}
CARTS = (
    "CREATE TABLE carts (id BIGINT, who STRING, lines ARRAY<STRUCT<item: BIGINT, n: INT, "
    "notes: ARRAY<STRUCT<said: STRING>>>>, PRIMARY KEY (id))"
)
NESTED = {
    "shelves": "FOR i IN items YIELD (id: i.id, sold: FOR s IN sales WHERE s.item = i.id "
    "YIELD (shop: s.shop, n: s.n), shops: count(FOR s IN sales WHERE s.item = i.id YIELD s.n))",
    "wanted": "FOR c IN carts YIELD (who: c.who, many: FOR l IN c.lines WHERE plenty(l) "
    "YIELD (item: l.item, notes: l.notes))",
    "by_shop": "SELECT shop, collect_list(n) AS ns, count(*) AS c FROM sales GROUP BY shop",
    "said": "SELECT c.id, l.item, x.said FROM carts c LATERAL VIEW explode(c.lines) AS l "
    "LATERAL VIEW explode(l.notes) AS x",
}
"""Nested tables and views, which databases before the fourth have none of."""
ARRIVALS = (
    "CREATE TABLE arrivals (id BIGINT, at TIMESTAMP)",
    "CREATE MATERIALIZED VIEW lately AS SELECT id FROM arrivals WHERE at > now() - INTERVAL 1 DAY",
)
"""What a clock moves and a stream fills: databases before the fifth have neither."""
READINGS = (
    "CREATE TABLE readings (id BIGINT, at TIMESTAMP LATENESS INTERVAL 1 HOUR, v INT) "
    "OPTIONS (late = 'keep')",
    "CREATE MATERIALIZED VIEW hourly AS SELECT window(at, '1 hour') AS w, sum(v) AS v "
    "FROM readings GROUP BY 1",
    "CREATE MATERIALIZED VIEW closed OPTIONS (emit = 'on window close') AS "
    "SELECT window(at, '1 hour') AS w, count(*) AS n FROM readings GROUP BY 1",
    "CREATE MATERIALIZED VIEW grouped OPTIONS (shredding = 'partial') AS FOR i IN items "
    "YIELD (id: i.id, sold: FOR s IN sales WHERE s.item = i.id YIELD (shop: s.shop, n: s.n))",
)
"""What has a watermark, and small bags in their rows: since the fifth database."""
TOGETHER = (
    "CREATE TABLE left_side (id BIGINT)",
    "CREATE TABLE right_side (id BIGINT, v STRING)",
    "CREATE MATERIALIZED VIEW sides AS SELECT l.id, r.v FROM left_side l JOIN right_side r "
    "ON l.id = r.id",
    "CREATE MATERIALIZED VIEW valued AS FOR i IN items YIELD i.name => "
    "(FOR s IN sales WHERE s.item = i.id YIELD s.shop => s.n)",
    "CREATE MATERIALIZED VIEW stays AS SELECT session_window(at, '1 hour') AS w, count(*) AS n "
    "FROM readings GROUP BY 1",
)
"""Tables that one stream fills, values of values, sessions: since the seventh database."""
POLICIES = {
    "weighed": ("view_tree", "SELECT s.shop, count(*) AS c, sum(s.n * i.id) AS w "
                "FROM sales s JOIN items i ON s.item = i.id GROUP BY s.shop"),
    "triangles": ("higher_order", "SELECT count(*) AS c FROM edges x JOIN edges y ON x.b = y.a "
                  "JOIN edges z ON y.b = z.a AND z.b = x.a"),
}  # fmt: skip
PYTHON = ("shouted", "spans")
"""The views that need a Python function of the database."""
MODEL = "trend"


def shout(text: str | None) -> str | None:
    """A function of a user's."""
    return None if text is None else text.upper() + "!"


class Spans:
    """A ring of a user's: pairs of numbers, added one by one."""

    zero = (0, 0)

    def add(self, one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
        return one[0] + other[0], one[1] + other[1]

    def negate(self, one: tuple[int, int]) -> tuple[int, int]:
        return -one[0], -one[1]


def build(db: Database) -> None:
    """Create everything there is to keep, and change it in a few epochs."""
    for statement in TABLES:
        db.sql(statement)
    step(db, 0)
    for name, query in VIEWS.items():
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    for name, (policy, query) in POLICIES.items():
        db.sql(f"CREATE MATERIALIZED VIEW {name} OPTIONS (policy = '{policy}') AS {query}")
    db.sql(
        "CREATE MATERIALIZED VIEW bits AS SELECT shop, bit_or(n) AS o, bit_xor(n) AS x, "
        "mode(n, true) AS m FROM sales GROUP BY shop"
    )
    db.sql(
        "CREATE MATERIALIZED VIEW listed OPTIONS (representation = 'factorised') AS "
        "SELECT s.shop, i.name, i.id FROM sales s JOIN items i ON s.item = i.id"
    )
    db.datalog("path(x, y) :- edges(x, y).  path(x, z) :- path(x, y), edges(y, z).")
    db.datalog(
        "even(x) :- edges(x, y), x < 2.  odd(y) :- even(x), edges(x, y).  "
        "even(y) :- odd(x), edges(x, y)."
    )
    edges = db.table("edges")
    db.create_view(
        "reached",
        rekindle.fixpoint(
            edges.where("a = 1").select("b").distinct(),
            lambda known: known.union(
                known.alias("k").join(edges, F.col("k.b") == edges.a).select(edges.b)
            ).distinct(),
        ),
    )
    sales = db.table("sales")
    db.create_view("frame", sales.where("n > 1").groupBy("shop").agg(F.sum("n").alias("n")))
    db.create_view("shouted", db.table("items").select("id", udf(shout)("name").alias("loud")))
    spans = rekindle.ring_sum(Spans(), lambda n: (n, n * n), "bigint", lambda s: s[1] - s[0])
    db.create_view("spans", sales.groupBy("shop").agg(spans("n").alias("span")))
    db.create_model(
        MODEL,
        "SELECT i.weight AS w, s.n AS n, s.shop AS shop FROM sales s JOIN items i ON s.item = i.id",
        label="n",
        features=["w", "shop"],
    )
    db.sql(CARTS)
    db.define("plenty", "(l) -> l.n > 2")
    for name, query in NESTED.items():
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    for number in range(1, 5):
        step(db, number)
    db.redefine("plenty", "(l) -> l.n > 1")
    _build_arrivals(db)
    _build_readings(db)
    _build_together(db)


def _build_together(db: Database) -> None:
    """What several collections are: of a loop, of one stream, and as values of each other."""
    for statement in TOGETHER:
        db.sql(statement)
    in_turns = """let (a, b) = repeat (a, b) = ({1}, select e.a from e in edges)
      step (b, select distinct n from n in a union (select e.b from k in b, e in edges
                                                     where e.a = k)) limit 150
      in select (x, count(select y from y in b where y = x)) from x in a"""
    db.create_view("in_turns", rekindle.mrql(in_turns))
    with tempfile.TemporaryDirectory() as arriving:
        frames = {}
        for table, schema in (("left_side", "id BIGINT"), ("right_side", "id BIGINT, v STRING")):
            place = Path(arriving) / table
            place.mkdir()
            (place / "1.json").write_text(json.dumps({"id": 1, "v": table}))
            frames[table] = db.spark.readStream.schema(schema).json(str(place))
        db.stream_together("both", frames, available_now=True).await_termination()


def _build_readings(db: Database) -> None:
    """Late rows, closed windows, an iteration with a limit, and views in MRQL."""
    for statement in READINGS:
        db.sql(statement)
    for hour in (1, 2, 5, 3):
        db.sql(
            f"INSERT INTO readings VALUES ({hour}, TIMESTAMP '2026-01-03 0{hour}:30:00', {hour})"
        )
    edges = db.table("edges")
    db.create_view(
        "nearby",
        rekindle.fixpoint(
            edges.where("a = 1").select("b").distinct(),
            lambda known: known.alias("k").join(edges, F.col("k.b") == edges.a).select(edges.b),
            limit=2,
        ),
    )
    asked = "select (k, sum(s.n), count(s)) from s in sales group by k: s.shop"
    db.create_view("by_mrql", rekindle.mrql(asked))
    grown = """repeat known = select e.a from e in edges where e.a = 1
      step select distinct n from n in known union
             (select e.b from k in known, e in edges where e.a = k)"""
    db.create_view("by_loop", rekindle.mrql(grown))


def _build_arrivals(db: Database) -> None:
    """A view that asks for the time, over rows that a stream has brought."""
    db.advance_time("2026-01-03 00:00:00")
    with tempfile.TemporaryDirectory() as arriving:
        for day in (1, 2, 3):
            row = {"id": day, "at": f"2026-01-0{day} 12:00:00"}
            (Path(arriving) / f"{day}.json").write_text(json.dumps(row))
        for statement in ARRIVALS:
            db.sql(statement)
        source = Source("json", {"path": arriving}, "id BIGINT, at TIMESTAMP")
        definition = StreamDefinition("arrivals", available_now=True, source=source)
        db.create_stream("arriving", definition).await_termination()


def step(db: Database, number: int) -> None:
    """One transaction on all tables: new rows, and changes of what the one before brought."""
    first = 10 * number
    with db.transaction() as tx:
        tx.once("steps", number)
        tx.insert(
            "items",
            [(first + i, f"item {first + i}", Decimal(first + i) / 2, i / 3) for i in range(6)],
        )
        tx.insert("edges", [(number + i, number + i + 1) for i in range(3)] + [(number + 2, 1)])
        tx.insert("codes", [(first, f"c{first}", {"x": first, "y": "p"}), (first + 1, None, None)])
    for i in range(6):
        shop = "'north'" if i % 2 else ("NULL" if i == 4 else "'south'")
        db.sql(
            f"INSERT INTO sales VALUES ({first + i % 4}, {shop}, {i + number}, "
            f"TIMESTAMP '2026-01-0{number + 1} 0{i}:30:00', array('t{i}', 't{number}'))"
        )
    if number:
        with db.transaction() as tx:
            tx.upsert("items", [(first - 10, "renewed", Decimal("0.05"), None)])
            tx.delete("edges", [(number - 1 + 2, 1)])
        if "carts" in db.tables:
            _step_carts(db, number)
        db.sql(f"DELETE FROM sales WHERE item = {first - 9}")
        db.sql(f"UPDATE sales SET n = n + 1 WHERE item = {first - 8}")


def _step_carts(db: Database, number: int) -> None:
    """A new cart, and changes inside of the one before."""
    with db.transaction() as tx:
        lines = [(i, i + number % 3, [(f"note {i}",)] if i else None) for i in range(3)]
        tx.insert("carts", [(number, f"who {number}", lines), (100 + number, None, None)])
        if number > 1:
            tx.nested("carts", number - 1, "lines").insert([(9, number, [])])
            tx.nested("carts", number - 1, "lines", {"item": 1}, "notes").insert([("more",)])
            tx.nested("carts", number - 1, "lines").delete([(0, (number - 1) % 3, None)])


def contents(db: Database) -> dict[str, list[str]]:
    """Every table and view as sorted texts of its rows."""
    return {
        name: sorted(str(tuple(row)) for row in db.table(name).collect())
        for name in [*db.tables, *db.views]
    }


def main(name: str) -> None:
    target = DATABASES / f"{name}.tar.gz"
    if target.exists():
        raise SystemExit(f"{target} is there already: choose another name")
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "warehouse"
        with rekindle.connect(str(path)) as db:
            build(db)
            for view in db.views:
                db.check(view)
            found = {
                "python": ".".join(platform.python_version_tuple()[:2]),
                "spark": db.spark.version,
                "epoch": db.epoch,
                "contents": contents(db),
                "changes": {view: db.changes(view).count() for view in VIEWS},
            }
        (path / "expected.json").write_text(json.dumps(found, indent=1))
        DATABASES.mkdir(exist_ok=True)
        with tarfile.open(target, "w:gz") as tar:
            tar.add(path, arcname="warehouse")
    print(f"{target}: {target.stat().st_size:,} bytes, epoch {found['epoch']}")


if __name__ == "__main__":
    main(sys.argv[1])
