"""Functions of groups of an iterated relation, limits, tests to go on, several relations."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle
from rekindle.circuit.nodes import GroupMap, Variable
from rekindle.errors import DefinitionError, IterationLimitError
from rekindle.frontends.fixpoints.fixpoint import Fixpoint
from rekindle.runtime.database import Database
from rekindle.spark.step import Placement
from tests.spark.helpers import bag, refused, rows, strays

Row = tuple[Any, ...]


def _change(db: Database, table: str, live: list[Row], new: Sequence[Row], gone: int) -> None:
    """Insert some rows and delete so many of those that are there, of which some are equal."""
    pick = random.Random(len(live) * 31 + len(new))
    left = [live.pop(pick.randrange(len(live))) for _ in range(min(gone, len(live)))]
    live += new
    with db.transaction() as tx:
        tx.insert(table, new)
        tx.delete(table, left)


def _iterated(first: list[Row], step: Callable[[list[Row]], list[Row]], limit: int = 50) -> bag:
    """A relation after the steps that it takes to come to rest, or so many."""
    for _ in range(limit):
        after = step(first)
        if bag(after) == bag(first):
            break
        first = after
    return bag(first)


def _groups(given: Iterable[Row]) -> dict[Any, list[Row]]:
    found = defaultdict(list)
    for row in given:
        found[row[0]].append(row)
    return found


# ---- windows, limits and other functions of groups -----------------------------------------------


def cheapest(db: Database) -> Fixpoint:
    """The two cheapest ways from 0 to every vertex, by the number of a row in an order."""
    edge = db.table("edge")

    def further(way: DataFrame) -> DataFrame:
        more = edge.join(way, edge.src == way.v).selectExpr("dst AS v", "cost + n AS cost")
        begun = edge.where("src = 0").selectExpr("dst AS v", "n AS cost")
        found = begun.union(more).distinct()
        numbered = found.selectExpr("*", "row_number() OVER (PARTITION BY v ORDER BY cost) AS r")
        return numbered.where("r <= 2").select("v", "cost")

    return rekindle.fixpoint(edge.where("src = 0").selectExpr("dst AS v", "n AS cost"), further)


def _cheapest(edges: list[Row]) -> bag:
    begun = [(dst, n) for src, dst, n in edges if src == 0]

    def further(way: list[Row]) -> list[Row]:
        more = [(dst, cost + n) for src, dst, n in edges for v, cost in way if v == src]
        return [row for group in _groups({*begun, *more}).values() for row in sorted(group)[:2]]

    return _iterated(begun, further)


def highest(db: Database) -> Fixpoint:
    """The three rows that come first in an order, of which each is followed by a higher one."""

    def climb(top: DataFrame) -> DataFrame:
        higher = top.selectExpr("src", "dst", "n + 2 AS n").where("n < 12")
        return top.union(higher).orderBy(F.desc("n"), "src", "dst").limit(3)

    return rekindle.fixpoint(db.table("edge"), climb)


def _highest(edges: list[Row]) -> bag:
    def climb(top: list[Row]) -> list[Row]:
        higher = [(src, dst, n + 2) for src, dst, n in top if n + 2 < 12]
        return sorted([*top, *higher], key=lambda row: (-row[2], row[0], row[1]))[:3]

    return _iterated(edges, climb)


def levelled(db: Database) -> Fixpoint:
    """Three times: what a row lacks to the one before it, the sum so far, and a rank."""
    window = "OVER (PARTITION BY src ORDER BY n, dst)"

    def level(given: DataFrame) -> DataFrame:
        return given.selectExpr(
            "src",
            f"int((dst + rank() {window}) % 7) AS dst",
            f"int((sum(n) {window} + n - lag(n, 1, n) {window}) % 11) AS n",
        )

    return rekindle.fixpoint(db.table("edge").where("n IS NOT NULL"), level, limit=3)


def _levelled(edges: list[Row]) -> bag:
    def level(given: list[Row]) -> list[Row]:
        found = []
        for group in _groups(given).values():
            ordered = sorted(group, key=lambda row: (row[2], row[1]))
            for i, (src, dst, n) in enumerate(ordered):
                # The frame ends with the last row that is level with the current one.
                so_far = sum(m for _, d, m in ordered if (m, d) <= (n, dst))
                rank = 1 + sum((m, d) < (n, dst) for _, d, m in ordered)
                before = ordered[i - 1][2] if i else n
                found.append((src, (dst + rank) % 7, (so_far + n - before) % 11))
        return found

    return _iterated(edges, level, 3)


def shared(db: Database) -> Fixpoint:
    """A Python function of the rows of each group: all have its greatest number in the end."""

    def greatest(group: pd.DataFrame) -> pd.DataFrame:
        return group.assign(n=group["n"].clip(lower=group["n"].max() - 1 + len(group) % 2))

    def share(given: DataFrame) -> DataFrame:
        return given.groupBy("dst").applyInPandas(greatest, "src INT, dst INT, n INT")

    return rekindle.fixpoint(db.table("edge"), share, limit=2)


def _shared(edges: list[Row]) -> bag:
    def share(given: list[Row]) -> list[Row]:
        found = []
        for group in _groups((dst, src, n) for src, dst, n in given).values():
            least = max(n for _, _, n in group) - 1 + len(group) % 2
            found += [(src, dst, max(n, least)) for dst, src, n in group]
        return found

    return _iterated(edges, share, 2)


def middling(db: Database) -> Fixpoint:
    """Vertices take the median of those that lead to them, and the lightest edge's number."""
    edge = db.table("edge")

    def move(known: DataFrame) -> DataFrame:
        led = edge.join(known, edge.src == known.v).selectExpr("dst AS v", "x", "n")
        moved = "int(percentile(x, 0.5) + min_by(n, struct(x, n))) % 9"
        return led.groupBy("v").agg(F.expr(moved).alias("x"))

    first = edge.selectExpr("src AS v", "src AS x").distinct()
    return rekindle.fixpoint(first, move, limit=3)


def _middling(edges: list[Row]) -> bag:
    def move(known: list[Row]) -> list[Row]:
        led = [(dst, x, n) for src, dst, n in edges for v, x in known if v == src]
        found = []
        for v, group in _groups(led).items():
            xs = sorted(x for _, x, _ in group)
            middle = (xs[(len(xs) - 1) // 2] + xs[len(xs) // 2]) / 2
            found.append((v, int(middle + min(n for _, x, n in group if x == xs[0])) % 9))
        return found

    return _iterated(list({(src, src) for src, _, _ in edges}), move, 3)


FUNCTIONS = {
    "cheapest": (cheapest, _cheapest),
    "highest": (highest, _highest),
    "levelled": (levelled, _levelled),
    "shared": (shared, _shared),
    "middling": (middling, _middling),
}


@pytest.mark.parametrize("place", ["inline", "spark"])
def test_functions_of_groups_follow_random_changes(db: Database, place: str) -> None:
    """At every iteration that function of the relation as it is there."""
    db.sql("CREATE TABLE edge (src INT, dst INT, n INT)")
    for name, (made, _) in FUNCTIONS.items():
        db.create_view(name, made(db))
    db.place(place)
    pick, live = random.Random(8), list[Row]()
    for step in range(5 if place == "inline" else 2):
        # An edge's number follows from its ends, or it would not be said which the lightest is.
        ends = [(pick.randint(0, 4), pick.randint(0, 4)) for _ in range(4 if step else 7)]
        _change(db, "edge", live, [(a, b, (3 * a + b) % 5 + 1) for a, b in ends], 3 * bool(step))
        for name, (_, oracle) in FUNCTIONS.items():
            assert rows(db, name) == oracle(live), name
        assert db.last_step is not None
        assert not any(node.rebuilt for node in db.last_step.nodes.values())
    if place == "inline":
        for name in ("cheapest", "highest", "levelled"):
            db.check(name)
    with db.transaction() as tx:
        tx.delete("edge", live)
    assert all(rows(db, name) == bag([]) for name in FUNCTIONS)
    assert strays(db) == []


def test_a_change_touches_its_groups_alone(db: Database) -> None:
    db.sql("CREATE TABLE edge (src INT, dst INT, n INT)")
    db.create_view("cheapest", cheapest(db))
    far = [(i, i + 1, 1) for i in range(100, 140)]
    with db.transaction() as tx:
        tx.insert("edge", [(0, 100, 1), (0, 1, 1), (1, 2, 1), *far])
    db.sql("INSERT INTO edge VALUES (0, 2, 9)")
    assert rows(db, "cheapest")[(2, 9)] == 1
    last = db.last_step
    assert last is not None
    assert sum(step.rows_in for step in last.nodes.values()) < 100


# ---- analyses ------------------------------------------------------------------------------------


def page_rank(db: Database) -> Fixpoint:
    link = db.table("link").distinct()
    out = link.groupBy("src").agg(F.count("*").alias("n"))
    page = link.selectExpr("src AS page").union(link.selectExpr("dst")).distinct()

    def ranks(known: DataFrame) -> DataFrame:
        passed = link.join(known, link.src == known.page).join(out, "src")
        shares = passed.selectExpr("dst AS page", "0.85D * rank / n AS rank")
        base = page.selectExpr("page", "0.15D AS rank")
        return shares.union(base).groupBy("page").agg(F.sum("rank").alias("rank"))

    return rekindle.fixpoint(page.selectExpr("page", "1D AS rank"), ranks, limit=10)


def _page_rank(links: set[Row]) -> dict[int, float]:
    out = {a: sum(b == a for b, _ in links) for a, _ in links}
    ranks = {page: 1.0 for link in links for page in link}
    for _ in range(10):
        ranks = {
            page: 0.15 + sum(0.85 * ranks[a] / out[a] for a, b in links if b == page)
            for page in ranks
        }
    return ranks


def test_page_rank_after_ten_steps(db: Database) -> None:
    db.sql("CREATE TABLE link (src INT, dst INT)")
    db.create_view("rank", page_rank(db))
    pick, live = random.Random(2), list[Row]()
    for step in range(4):
        db.place("spark" if step == 3 else "inline")
        new = [(pick.randint(0, 6), pick.randint(0, 6)) for _ in range(6 if step == 0 else 2)]
        _change(db, "link", live, new, 2 * bool(step))
        assert dict(rows(db, "rank")) == {row: 1 for row in rows(db, "rank")}
        assert {row[0]: row[1] for row in rows(db, "rank")} == pytest.approx(_page_rank({*live}))
    db.check("rank")


def k_means(db: Database) -> Fixpoint:
    """Until no centre moves by more than 0.1; a centre without points is no more."""
    point = db.table("point")

    def nearest(centre: DataFrame) -> DataFrame:
        away = "(px - x) * (px - x) + (py - y) * (py - y)"
        order = f"OVER (PARTITION BY id ORDER BY {away}, c) AS r"
        pairs = point.crossJoin(centre).selectExpr("*", f"row_number() {order}").where("r = 1")
        return (
            pairs.groupBy("c", "x", "y")
            .agg(F.avg("px").alias("nx"), F.avg("py").alias("ny"))
            .selectExpr("c", "nx AS x", "ny AS y", "abs(nx - x) + abs(ny - y) > 0.1D AS moved")
        )

    return rekindle.fixpoint(db.table("start"), nearest, limit=6, while_any="moved")


def _k_means(points: list[Row], start: list[Row]) -> dict[int, Any]:
    centres = {c: (x, y) for c, x, y in start}
    for _ in range(6):
        near: dict[int, list[Row]] = defaultdict(list)
        for _, px, py in points:
            away = {c: (px - x) ** 2 + (py - y) ** 2 for c, (x, y) in centres.items()}
            near[min(away, key=lambda c: (away[c], c))].append((px, py))
        before = centres
        centres = {
            c: (sum(x for x, _ in own) / len(own), sum(y for _, y in own) / len(own))
            for c, own in near.items()
        }
        if all(
            abs(x - before[c][0]) + abs(y - before[c][1]) <= 0.1 for c, (x, y) in centres.items()
        ):
            break
    return centres


def test_k_means_until_no_centre_moves(db: Database) -> None:
    db.sql("CREATE TABLE point (id INT, px DOUBLE, py DOUBLE)")
    db.sql("CREATE TABLE start (c INT, x DOUBLE, y DOUBLE)")
    db.create_view("centre", k_means(db))
    start: list[Row] = [(1, 0.0, 0.0), (2, 1.0, 4.0), (3, 9.0, 9.0)]
    with db.transaction() as tx:
        tx.insert("start", start)
    assert rows(db, "centre") == bag([])
    pick, live = random.Random(6), list[Row]()
    for step in range(5):
        new = [
            (100 * step + i, pick.randint(0, 40) / 4, pick.randint(0, 40) / 4)
            for i in range(3 if step else 9)
        ]
        _change(db, "point", live, new, 2 * bool(step))
        found = {c: pytest.approx((x, y)) for c, x, y in rows(db, "centre")}
        assert _k_means(live, start) == found
    db.check("centre")
    db.place("spark")
    db.sql("DELETE FROM start WHERE c = 2")
    db.sql("UPDATE point SET px = px + 1 WHERE id < 103")
    moved = [(i, x + (i < 103), y) for i, x, y in live]
    expected = _k_means(moved, [start[0], start[2]])
    assert expected == {c: pytest.approx((x, y)) for c, x, y in rows(db, "centre")}


def factors(db: Database) -> Fixpoint:
    """Ratings as products of what users and items are like: two steps of gradient descent."""
    rating = db.table("rating")

    def descend(user: DataFrame, item: DataFrame) -> dict[str, DataFrame]:
        u, i = user.toDF("u", "k", "uv"), item.toDF("i", "k", "iv")
        guess = u.join(i, "k").groupBy("u", "i").agg(F.sum(F.expr("uv * iv")).alias("guess"))
        error = rating.join(guess, ["u", "i"]).selectExpr("u", "i", "r - guess AS e")
        up = error.join(i, "i").groupBy("u", "k").agg(F.sum(F.expr("e * iv")).alias("g"))
        down = error.join(u, "u").groupBy("i", "k").agg(F.sum(F.expr("e * uv")).alias("g"))
        return {
            "user": u.join(up, ["u", "k"], "left").selectExpr(
                "u", "k", "uv + 0.125D * (coalesce(g, 0D) - 0.5D * uv) AS v"
            ),
            "item": i.join(down, ["i", "k"], "left").selectExpr(
                "i", "k", "iv + 0.125D * (coalesce(g, 0D) - 0.5D * iv) AS v"
            ),
        }

    ks = "explode(array(1, 2)) AS k"
    first = {
        "user": rating.select("u").distinct().selectExpr("u", ks),
        "item": rating.select("i").distinct().selectExpr("i", ks),
    }
    begun = {
        name: frame.selectExpr(frame.columns[0], "k", f"1D + {frame.columns[0]} % 3 / k AS v")
        for name, frame in first.items()
    }
    return rekindle.fixpoint(begun, descend, limit=2)


def _factors(ratings: list[Row]) -> tuple[dict[Row, float], dict[Row, float]]:
    user = {(u, k): 1 + u % 3 / k for u, _, _ in ratings for k in (1, 2)}
    item = {(i, k): 1 + i % 3 / k for _, i, _ in ratings for k in (1, 2)}
    for _ in range(2):
        error = [(u, i, r - sum(user[u, k] * item[i, k] for k in (1, 2))) for u, i, r in ratings]
        up = {
            (u, k): v + 0.125 * (sum(e * item[j, k] for w, j, e in error if w == u) - 0.5 * v)
            for (u, k), v in user.items()
        }
        item = {
            (i, k): v + 0.125 * (sum(e * user[w, k] for w, j, e in error if j == i) - 0.5 * v)
            for (i, k), v in item.items()
        }
        user = up
    return user, item


def test_a_factorisation_is_of_two_relations(warehouse: str, spark: SparkSession) -> None:
    """Both views are one recursion, which is found again when the database is opened."""
    live: list[Row] = []
    pick = random.Random(4)

    def follow(db: Database, new: int, gone: int) -> None:
        ratings = [(pick.randint(0, 3), pick.randint(0, 3), pick.randint(1, 5)) for _ in range(new)]
        _change(db, "rating", live, ratings, gone)
        for view, expected in zip(("users", "items"), _factors(live), strict=True):
            found = rows(db, view)
            assert all(count == 1 for count in found.values())
            assert {(a, k): v for a, k, v in found} == pytest.approx(expected)

    with rekindle.connect(warehouse, spark=spark) as db:
        db.sql("CREATE TABLE rating (u INT, i INT, r INT)")
        whole = factors(db)
        db.create_view("users", whole["user"])
        db.create_view("items", whole["item"])
        nodes = db._engine.circuit.nodes.values()
        assert sorted(n.name for n in nodes if isinstance(n, Variable)) == ["·item", "·user"]
        follow(db, 6, 0)
        with refused(db, DefinitionError, "of several relations: 'user', 'item'", "['user']"):
            db.create_view("both", whole)
    with rekindle.connect(warehouse, spark=spark) as db:
        assert not db.stale
        follow(db, 2, 2)
        db.check("users")
        db.check("items")
        assert "2 times at most" in str(db.explain("items"))
        assert "after at most 2 iterations" in db.definition("users")


# ---- limits as results ---------------------------------------------------------------------------


def test_a_limit_gives_what_it_is_then(db: Database) -> None:
    """Signs alternate: what comes to rest within the limit is at rest, and the rest has turned."""
    db.sql("CREATE TABLE t (x INT)")

    def turn(given: DataFrame) -> DataFrame:
        return given.selectExpr("if(abs(x) > 100, x, -2 * x) AS x")

    for limit in (1, 2, 5):
        db.create_view(f"v{limit}", rekindle.fixpoint(db.table("t"), turn, limit=limit))
    live = list[Row]()
    for new, gone in (([(1,), (1,), (40,)], 0), ([(0,), (-30,), (None,)], 1), ([], 3)):
        _change(db, "t", live, new, gone)
        for limit in (1, 2, 5):
            expected = []
            for (x,) in live:
                for _ in range(limit):
                    x = x if x is None or abs(x) > 100 else -2 * x
                expected.append((x,))
            assert rows(db, f"v{limit}") == bag(expected)
    db.check("v2")


def test_a_limit_inside_another_step(db: Database) -> None:
    """Every outer step moves on all by two, and takes the least of each group away, twice."""
    db.sql("CREATE TABLE t (g INT, x INT)")

    def outer(given: DataFrame) -> Fixpoint:
        def inner(moving: DataFrame) -> DataFrame:
            return moving.selectExpr("g", "x + 1 AS x")

        ranked = given.selectExpr("*", "rank() OVER (PARTITION BY g ORDER BY x) AS r")
        return rekindle.fixpoint(ranked.where("r > 1").select("g", "x"), inner, limit=2)

    db.create_view("v", rekindle.fixpoint(db.table("t"), outer, limit=2))
    live = list[Row]()
    for new, gone in (([(1, 5), (1, 5), (1, 6), (2, 3), (1, 9)], 0), ([(2, 3), (2, 4), (2, 7)], 2)):
        _change(db, "t", live, new, gone)
        found = live
        for _ in range(2):
            least = {g: min(x for _, x in group) for g, group in _groups(found).items()}
            found = [(g, x + 2) for g, x in found if x > least[g]]
        assert rows(db, "v") == bag(found)
    db.check("v")


def test_it_goes_on_while_any_row_says_so(db: Database) -> None:
    """All rows move on, also those that say no; how often follows from the least of them."""
    db.sql("CREATE TABLE t (x INT)")

    def move(given: DataFrame) -> DataFrame:
        return given.selectExpr("x < 5 AS low", "x + 1 AS x")

    first = db.table("t")
    db.create_view("whole", rekindle.fixpoint(first, move, while_any="low"))
    db.create_view("four", rekindle.fixpoint(first, move, while_any="low", limit=4))
    db.create_view("few", rekindle.fixpoint(first, move, while_any="low", iterations=9))
    steps = [([(3,), (3,), (9,)], 0), ([(-1,), (None,)], 0), ([], 3), ([(7,)], 2), ([], 9)]
    live = list[Row]()
    for new, gone in steps:
        _change(db, "t", live, new, gone)
        for view, limit in (("whole", 50), ("four", 4)):
            found = [x for (x,) in live]
            for _ in range(limit):
                goes_on = any(x is not None and x < 5 for x in found)
                found = [None if x is None else x + 1 for x in found]
                if not goes_on:
                    break
            assert rows(db, view) == bag([(x,) for x in found]), (view, live)
    db.sql("INSERT INTO t VALUES (1)")
    db.check("whole")
    db.check("four")
    with refused(db, IterationLimitError, "recursion of few did not end within 9 iterations"):
        db.sql("INSERT INTO t VALUES (-20)")


def test_what_is_no_fixpoint_is_refused(db: Database) -> None:
    db.sql("CREATE TABLE t (x INT)")
    table = db.table("t")

    def same(given: DataFrame) -> DataFrame:
        return given

    def both(a: DataFrame, b: DataFrame) -> dict[str, DataFrame]:
        return {"a": b, "b": a}

    with refused(db, DefinitionError, "both 'iterations' and a 'limit'"):
        rekindle.fixpoint(table, same, iterations=3, limit=3)
    with refused(db, DefinitionError, "'limit' is 0"):
        rekindle.fixpoint(table, same, limit=0)
    with refused(db, DefinitionError, "gives no column 'moved'"):
        db.create_view("v", rekindle.fixpoint(table, same, while_any="moved"))
    with refused(db, DefinitionError, "the column 'n' of the step of 'v' is of the type int"):
        step = lambda given: given.selectExpr("x", "1 AS n")  # noqa: E731
        db.create_view("v", rekindle.fixpoint(table, step, while_any="n"))
    with refused(db, DefinitionError, "no relation 'c'", "'a', 'b'"):
        rekindle.fixpoint({"a": table, "b": table}, both)["c"]
    with refused(db, DefinitionError, "it is of one relation"):
        rekindle.fixpoint(table, same)["x"]
    with refused(db, DefinitionError, "gives a dict of 'a'", "'a', 'b'"):
        wrong = rekindle.fixpoint({"a": table, "b": table}, lambda a, b: {"a": b})
        db.create_view("v", wrong["a"])
    with refused(db, DefinitionError, "cannot be the name of a relation"):
        rekindle.fixpoint({"a b": table}, both)
    with refused(db, DefinitionError, "begins with a DataFrame, not with a str", "'b'"):
        rekindle.fixpoint({"a": table, "b": "t"}, both)  # type: ignore[dict-item]


def test_large_turns_of_functions_are_spark_jobs(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rekindle.spark.inline.MAXIMUM_TURN_ROWS", 1)
    db.sql("CREATE TABLE edge (src INT, dst INT, n INT)")
    db.create_view("levelled", levelled(db))
    db.create_view("shared", shared(db))
    live: list[Row] = []
    _change(db, "edge", live, [(0, 2, 2), (1, 1, 4)], 0)
    db.place("spark")
    _change(db, "edge", live, [(0, 1, 2), (2, 1, 6)], 1)
    assert rows(db, "levelled") == _levelled(live)
    assert rows(db, "shared") == _shared(live)
    steps = db.last_step.nodes if db.last_step is not None else {}
    nodes = db._engine.circuit.nodes
    mapped = {step.placement for key, step in steps.items() if isinstance(nodes[key], GroupMap)}
    assert mapped == {Placement.SPARK, Placement.INLINE}  # a Python function runs in the driver
    assert strays(db) == []
