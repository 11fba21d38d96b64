"""The demo from beginning to end."""

from __future__ import annotations

import time
from pathlib import Path

from rich.console import Console

from rekindle.cli.demo.day import Event, events
from rekindle.cli.demo.recomputation import Recomputation
from rekindle.cli.demo.screen import Line, Screen
from rekindle.cli.demo.shop import KINDS, TABLES, VIEWS, Shop
from rekindle.cli.explain import write_text
from rekindle.cli.failures import understood
from rekindle.cli.runner import rows_changed
from rekindle.runtime.database import Database

RECOMPUTE_EVERY = 3
"""Spark recomputes after every so many steps; in between its last time stands, marked so."""
PICTURED = "city_reach"


class Tour:
    """Loads, changes, compares and checks one database."""

    def __init__(
        self, db: Database, scratch: Path, rows: int, steps: int, console: Console
    ) -> None:
        self._db = db
        self._shop = Shop.of_size(rows)
        self._steps = steps
        self._screen = Screen(console)
        self._spark = Recomputation(db.spark, scratch)
        self._recomputed = 0.0

    def run(self, svg: Path) -> None:
        with understood():
            self._load()
            self._change()
            self._check()
        write_text(svg, self._db.explain(PICTURED).svg())
        self._screen.say(f"the circuit of '{PICTURED}' is drawn in {svg.resolve()}")

    def _load(self) -> None:
        shop, screen = self._shop, self._screen
        screen.headline(
            f"1. A shop: {shop.sales:,} sales, {shop.customers:,} customers, "
            f"{shop.products:,} products"
        )
        with screen.bars() as bar:
            generated = bar("Spark generates the data as Parquet", len(TABLES))
            for name, frame in shop.frames(self._db.spark).items():
                self._spark.write(name, frame)
                generated()
            loaded = bar("loading the tables", len(TABLES))
            for name, columns in TABLES.items():
                self._db.sql(f"CREATE TABLE {name} ({columns})")
                with self._db.transaction() as tx:
                    tx.insert(name, self._spark.table(name))
                loaded()
            for name, query in VIEWS.items():
                created = bar(f"creating the view {name} ({KINDS[name]})", 1)
                self._db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
                created()
            measured = bar("Spark computes the views from Parquet, to compare", 2)
            for _ in range(2):
                self._recomputed = self._spark.seconds()
                measured()

    def _change(self) -> None:
        screen = self._screen
        screen.headline(f"2. A day of {self._steps} transactions, all views fresh after each")
        with screen.lines() as add:
            for number, event in enumerate(events(self._shop, self._steps), 1):
                add(self._step(number, event))
        screen.say(
            f"recompute: Spark runs the queries of all {len(VIEWS)} views on Parquet files of the "
            "same size; dim or with * when it was measured at an earlier line",
            style="dim",
        )
        screen.say(screen.summary(), style="bold")

    def _step(self, number: int, event: Event) -> Line:
        before = self._db.epoch
        started = time.perf_counter()
        with self._db.transaction() as tx:
            event.apply(tx)
        seconds = time.perf_counter() - started
        fresh = number % RECOMPUTE_EVERY == 1
        if fresh:
            self._recomputed = self._spark.seconds()
        return Line(
            epoch=self._db.epoch,
            title=event.title,
            rows=rows_changed(self._db, before),
            view_rows=self._view_rows(),
            seconds=seconds,
            recomputed=self._recomputed,
            fresh=fresh,
        )

    def _view_rows(self) -> int:
        """Rows by which the views changed in the last step."""
        last = self._db.last_step
        if last is None:
            return 0
        views = {self._db.explain(name).nodes[0].id for name in VIEWS}
        return sum(step.rows_out for key, step in last.nodes.items() if key in views)

    def _check(self) -> None:
        self._screen.headline("3. Every view against its recomputation, row by row")
        for name in VIEWS:
            started = time.perf_counter()
            report = self._db.check(name)
            seconds = time.perf_counter() - started
            self._screen.say(f"[green]✓[/] {report} [dim]({seconds:.1f} s)[/]")
