"""`rekindle bench`: one of the benchmarks, as a table, JSON and, where it helps, a picture."""

from __future__ import annotations

import enum
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rekindle.cli.display import make_console
from rekindle.cli.explain import write_text
from rekindle.cli.failures import reported
from rekindle.cli.scratch import scratch_directory

if TYPE_CHECKING:
    from rekindle.benchmarks.report import Report


class Name(enum.StrEnum):
    """The benchmarks; each is the module of that name."""

    FLATNESS = "flatness"
    OVERHEAD = "overhead"
    RECOMPUTE = "recompute"
    LOAD = "load"
    VIEWS = "views"
    SHARES = "shares"
    RECURSION = "recursion"
    FACTORISED = "factorised"
    MATRIX = "matrix"
    TPCH = "tpch"
    FIVM = "fivm"
    COMMITS = "commits"
    AGE = "age"
    NESTED = "nested"
    MRQL = "mrql"
    STREAM = "stream"
    READ = "read"
    ENDLESS = "endless"


def bench(
    name: Annotated[Name, typer.Argument(help="Which benchmark.")],
    json: Annotated[
        Path | None, typer.Option("--json", help="Write results and raw samples to this file.")
    ] = None,
    svg: Annotated[
        Path | None,
        typer.Option("--svg", help="Write the picture here; by default beside the JSON."),
    ] = None,
    rows: Annotated[
        int | None, typer.Option("--rows", min=1000, help="Rows of the largest table.")
    ] = None,
    rounds: Annotated[
        int | None, typer.Option("--rounds", min=1, help="Measured rounds after warm-up.")
    ] = None,
    scale: Annotated[
        float | None,
        typer.Option("--scale", min=0.0001, help="TPC-H, nested: the scale factor."),
    ] = None,
    change: Annotated[
        float | None,
        typer.Option("--change", min=0.0, max=0.5, help="TPC-H: the share of rows a step changes."),
    ] = None,
    queries: Annotated[
        str | None,
        typer.Option(
            "--queries",
            help="TPC-H, nested, stream: which, such as 1,3,5-7; recursion: which programs.",
        ),
    ] = None,
    views: Annotated[
        int | None, typer.Option("--views", min=20, help="How many views, where many are asked.")
    ] = None,
    graph: Annotated[
        Path | None,
        typer.Option("--graph", help="Recursion, MRQL: a Parquet file of src, symbol and dst."),
    ] = None,
    batches: Annotated[
        int | None,
        typer.Option(
            "--batches", min=2, help="Nested, endless: in how many batches the rows come."
        ),
    ] = None,
    only: Annotated[
        str | None,
        typer.Option(
            "--only",
            help="Nested, MRQL: some of the experiments, such as evaluation,bags or groupBy.",
        ),
    ] = None,
    events: Annotated[
        int | None,
        typer.Option(
            "--events", min=100, help="Stream: events of a batch; endless: events of all batches."
        ),
    ] = None,
    directory: Annotated[
        Path | None, typer.Option("--directory", help="Where the temporary databases go.")
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit code 1 when a bound is not met.")
    ] = False,
) -> None:
    """Measure Rekindle against Spark and say whether the bounds are met."""
    console = make_console()
    with reported():
        from rekindle.benchmarks.harness import Harness, Request
        from rekindle.cli.opening import started_spark

        spark = started_spark()
        with (
            scratch_directory("rekindle-bench-", directory) as scratch,
            Harness(
                spark,
                scratch,
                Request(rows, rounds, scale, change, queries, views, graph, batches, only, events),
                console,
            ) as harness,
        ):
            report: Report = import_module(f"rekindle.benchmarks.{name.value}").run(harness)
        report.show(console)
        picture = svg or (json.with_suffix(".svg") if json is not None else None)
        if json is not None:
            write_text(json, report.to_json())
            console.print(f"samples written to {json}", style="dim", soft_wrap=True)
        if picture is not None and report.picture is not None:
            write_text(picture, report.picture)
            console.print(f"picture written to {picture}", style="dim", soft_wrap=True)
        if picture is not None:
            for words, content in report.pictures.items():
                place = picture.with_stem(f"{picture.stem}-{words}")
                write_text(place, content)
                console.print(f"picture written to {place}", style="dim", soft_wrap=True)
    if strict and not report.passed:
        raise typer.Exit(1)
