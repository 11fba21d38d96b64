"""Nested collections: evaluated from scratch, kept by changes, and changed inside a large bag.

The experiments of section 5.5 of Lupei's thesis, queries Q1 to Q7, on one machine. `nested_batch`
evaluates them plain, shredded and partially shredded at several shares of skewed keys and with few
rows at the top. `nested_steps` keeps them over fifty batches and then in small steps. `nested_bags`
changes one element of a bag, and reads one row of a view, of two sizes. The thesis' bounds are said
to be met or missed as they are found: at small scales what a step costs at least hides the gain.
So there are more rows to keep than to evaluate, unless `--scale` says how many; `--only` runs some
of the experiments.
"""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence

from rich import box
from rich.table import Table

from rekindle.benchmarks import nested_bags, nested_batch, nested_steps
from rekindle.benchmarks.grouped_bars import grouped_bars
from rekindle.benchmarks.harness import Harness
from rekindle.benchmarks.nested_batch import Evaluated, Evaluation, Form
from rekindle.benchmarks.nested_data import Sizes, generate
from rekindle.benchmarks.nested_queries import chosen
from rekindle.benchmarks.nested_steps import POLICIES, Maintained
from rekindle.benchmarks.report import Bound, Report, Verdict, duration
from rekindle.errors import unknown_name

EVALUATED = 0.1
MAINTAINED = 1.0
"""The scales: at this one a recomputation takes seconds."""
SKEWS = (0.2, 0.1, 0.05, 0.0)
TOPS = 10
GAIN = 11.05
"""The least gain over recomputing at each batch that the thesis measured; the most is 21.93."""
SMALL_GAIN = 40.0
EXPERIMENTS = ("evaluation", "maintenance", "bags")
CONSUMERS = (4, 5, 6, 7)
"""The queries that read nested rows."""


def run(harness: Harness) -> Report:
    """The experiments that are asked for, or all, one after the other."""
    asked = experiments(harness.request.only)
    given = harness.request.scale
    scales = {
        "evaluation": EVALUATED if given is None else given,
        "maintenance": MAINTAINED if given is None else given,
    }
    queries = chosen(harness.request.queries)
    batches = harness.request.batches or nested_steps.BATCHES
    evaluated = []
    if "evaluation" in asked:
        evaluated = _evaluated(harness, scales["evaluation"], queries)
    maintained = []
    if "maintenance" in asked:
        tables = generate(Sizes.of_scale(scales["maintenance"]), 0.0)
        for number in queries:
            maintained.append(nested_steps.maintain(harness, tables, number, batches))
            harness.say(_line(maintained[-1]))
            gc.collect()
    bags = nested_bags.measure(harness) if "bags" in asked else nested_bags.Bags([], [])
    return Report(
        name="nested",
        claim=_claim({name: scale for name, scale in scales.items() if name in asked}),
        series=[
            *(series for each in evaluated for series in each.times.values()),
            *(series for each in maintained for series in each.series),
            *bags.series,
        ],
        verdicts=[*_evaluation_verdicts(evaluated), *_gain_verdicts(maintained), *bags.verdicts],
        machine=harness.machine,
        settings={
            "scales": scales,
            "lines": {name: Sizes.of_scale(scale).lines for name, scale in scales.items()},
            "queries": queries,
            "batches": batches,
        },
        notes=_notes(evaluated, maintained),
        facts={
            "evaluation": [each.to_json() for each in evaluated],
            "maintenance": [each.to_json() for each in maintained],
        },
        pictures=_pictures(evaluated, maintained),
        table=_table(evaluated, maintained),
    )


def _claim(scales: Mapping[str, float]) -> str:
    sizes = [
        f"{name} at scale {scale:g}, {Sizes.of_scale(scale).lines:,} lines"
        for name, scale in scales.items()
    ]
    return "Nested collections" + "".join(f"; {each}" for each in sizes)


def experiments(text: str | None) -> list[str]:
    """The experiments that a text such as `maintenance,bags` names, or all.

    >>> experiments("bags"), experiments(None)
    (['bags'], ['evaluation', 'maintenance', 'bags'])
    """
    asked = [each.strip() for each in (text or ",".join(EXPERIMENTS)).split(",")]
    for each in asked:
        if each not in EXPERIMENTS:
            raise unknown_name("experiment", each, EXPERIMENTS)
    return asked


def _evaluated(harness: Harness, scale: float, queries: Sequence[int]) -> list[Evaluated]:
    shredded = nested_batch.shredded_queries(harness, queries)
    subjects = {_skew(skew): (Sizes.of_scale(scale), skew) for skew in SKEWS}
    subjects[_FEW] = (Sizes.of_few(scale, TOPS), 0.0)
    found = []
    for number, (name, (sizes, skew)) in enumerate(subjects.items()):
        place = harness.directory / f"evaluated-{number}"
        tables = generate(sizes, skew)
        found += Evaluation(harness.spark, place, tables, shredded).measure(harness, queries, name)
        harness.say(f"{name}: {', '.join(f'Q{q}' for q in queries)} evaluated")
    return found


_FEW = f"{TOPS} rows at the top"


def _skew(share: float) -> str:
    return f"{share:.0%} skewed"


def _evaluation_verdicts(evaluated: Sequence[Evaluated]) -> list[Verdict]:
    return [
        Verdict(
            f"Q{each.query}, {each.tables}: plain against shredded",
            1 / each.ratio(Form.SHREDDED),
            Bound.AT_LEAST,
            1.0,
        )
        for each in evaluated
        if each.tables == _skew(max(SKEWS)) and each.query in CONSUMERS
    ]


def _gain_verdicts(maintained: Sequence[Maintained]) -> list[Verdict]:
    found = []
    for each in maintained:
        batches = f"Q{each.query}, {each.batches} batches: recomputation against steps"
        small = f"Q{each.query}, {nested_steps.SHARE:.1%} changed: recomputation against a step"
        found += [
            Verdict(batches, each.best_gain, Bound.AT_LEAST, GAIN),
            Verdict(small, each.best_small_gain, Bound.AT_LEAST, SMALL_GAIN),
        ]
    return found


def _notes(evaluated: Sequence[Evaluated], maintained: Sequence[Maintained]) -> list[str]:
    notes = [
        f"Q{each.query}, {each.tables}: the longest task takes "
        + ", ".join(
            f"{value:.1f} × the median one {form.value}"
            for form in Form
            if (value := each.imbalance[form]) is not None
        )
        for each in evaluated
        if each.tables == _skew(max(SKEWS)) and any(each.imbalance.values())
    ]
    notes += [
        f"Q{each.query}, {policy}: {reason}"
        for each in maintained
        for policy, reason in each.refused.items()
    ]
    if not maintained:
        return notes
    seconds = [each.again_small.median for each in maintained]
    notes.append(
        f"a recomputation of all rows takes {duration(min(seconds))} to {duration(max(seconds))}; "
        f"of {maintained[0].batches} batches "
        f"{len(maintained[0].recomputation.samples)} were recomputed"
    )
    return notes


def _pictures(evaluated: Sequence[Evaluated], maintained: Sequence[Maintained]) -> dict[str, str]:
    """Figures 5.4 to 5.9, as far as one machine has them."""
    pictures: dict[str, str] = {}
    names = list(dict.fromkeys(each.tables for each in evaluated))
    for name in names:
        chosen_ = [each for each in evaluated if each.tables == name]
        file = name.replace(" %", "").replace("%", "-percent").replace(" ", "-")
        pictures[file] = grouped_bars(
            f"Time as a multiple of the plain query's, {name}",
            "ratio (log scale)",
            [f"Q{each.query}" for each in chosen_],
            {
                form.value: [each.ratio(form) for each in chosen_]
                for form in (Form.SHREDDED, Form.PARTIAL)
            },
        )
    if names:
        heavy = [each for each in evaluated if each.tables == names[0]]
        pictures["tasks"] = grouped_bars(
            f"The longest task against the median one, {names[0]}",
            "ratio (log scale)",
            [f"Q{each.query}" for each in heavy],
            {form.value: [each.imbalance[form] for each in heavy] for form in Form},
        )
    if not maintained:
        return pictures
    batches = maintained[0].batches
    groups = [f"Q{each.query}" for each in maintained]
    pictures["gains"] = grouped_bars(
        f"{batches} batches: times faster than recomputing at each",
        "times faster (log scale)",
        groups,
        {policy: [each.gain(policy) for each in maintained] for policy in POLICIES},
        (GAIN, f"{GAIN:g} ×, the least of the thesis"),
    )
    pictures["rows"] = grouped_bars(
        f"Rows that are read over {batches} batches",
        "rows (log scale)",
        groups,
        {
            "recomputation": [each.recomputed_rows for each in maintained],
            **{policy: [each.rows(policy) for each in maintained] for policy in POLICIES},
        },
    )
    pictures["small-steps"] = grouped_bars(
        f"{nested_steps.SHARE:.1%} of the rows changed: times faster than recomputing",
        "times faster (log scale)",
        groups,
        {policy: [each.small_gain(policy) for each in maintained] for policy in POLICIES},
        (SMALL_GAIN, f"{SMALL_GAIN:g} ×, wanted"),
    )
    return pictures


def _table(evaluated: Sequence[Evaluated], maintained: Sequence[Maintained]) -> Table:
    table = Table(box=box.ROUNDED, border_style="dim", header_style="bold")
    table.add_column("query")
    table.add_column("tables")
    for name in ("plain", "shredded", "partially", "recomputation", *POLICIES):
        table.add_column(name, justify="right")
    steps = {step.query: step for step in maintained}
    for number in sorted({*steps, *(each.query for each in evaluated)}):
        name = f"Q{number}"
        for each in evaluated:
            if each.query == number:
                plain = duration(each.times[Form.PLAIN].median)
                ratios = [f"{each.ratio(form):.2f} ×" for form in (Form.SHREDDED, Form.PARTIAL)]
                table.add_row(name, each.tables, plain, *ratios)
        step = steps.get(number)
        if step is None:
            continue
        gains = [(step.gain(policy), step.small_gain(policy)) for policy in POLICIES]
        table.add_row(
            name,
            f"{step.batches} batches",
            *[""] * 3,
            duration(step.recomputed),
            *("" if gain is None else f"{gain:.2f} × faster" for gain, _ in gains),
        )
        table.add_row(
            name,
            f"{nested_steps.SHARE:.1%} changed",
            *[""] * 3,
            duration(step.again_small.median),
            *("" if gain is None else f"{gain:.2f} × faster" for _, gain in gains),
        )
        table.add_section()
    return table


def _line(each: Maintained) -> str:
    gains = [
        f"{policy} {gain:.2f} ×, small steps {each.small_gain(policy) or 0:.2f} ×"
        for policy in POLICIES
        if (gain := each.gain(policy)) is not None
    ]
    return f"Q{each.query}: recomputation {duration(each.recomputed)}, {'; '.join(gains)}"
