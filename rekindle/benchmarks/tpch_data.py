"""TPC-H's tables at any scale, as Parquet files.

Where `tpchgen-cli` is installed it makes the official rows, for which answers are published. Where
it is not, `generate` makes rows of the same shape: the counts, keys, value ranges and dependencies
(dates, prices, statuses, suppliers of a part) that the benchmark's section 4.2.3 asks for, from a
seed, so that two runs see the same rows. Text is drawn from a stock of sentences, and suppliers
with complaints are at least two, which matters at the small scales of tests only.

Every column is computed for a whole chunk at once; memory does not grow with the scale.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rekindle.benchmarks import tpch_words as words
from rekindle.benchmarks.tpch_schema import TABLES

Integers = np.ndarray[Any, np.dtype[np.int64]]

SEED = 20_251_115
CHUNK = 250_000
SENTENCES = 4_096
FIRST_DAY = int(np.datetime64("1992-01-01").astype(np.int64))
LAST_DAY = int(np.datetime64("1998-08-02").astype(np.int64))
CURRENT_DAY = int(np.datetime64("1995-06-17").astype(np.int64))


def write_tables(directory: Path, scale: float) -> str:
    """Write one Parquet file for each table; gives the name of what made them."""
    directory.mkdir(parents=True, exist_ok=True)
    program = official_generator()
    if program is not None:
        arguments = ["parquet", "-s", f"{scale:g}", "-o", str(directory), "--quiet", "--overwrite"]
        subprocess.run([program, *arguments], check=True, capture_output=True)
        return "tpchgen-cli"
    for name in TABLES:
        with pq.ParquetWriter(directory / f"{name}.parquet", TABLES[name].arrow) as writer:
            for chunk in generate(name, scale):
                writer.write_table(chunk)
    return "rekindle's generator"


def official_generator() -> str | None:
    """The path of `tpchgen-cli`, beside this Python or on the PATH."""
    beside = Path(sys.executable).parent / "tpchgen-cli"
    return str(beside) if beside.exists() else shutil.which("tpchgen-cli")


def generate(name: str, scale: float) -> Iterator[pa.Table]:
    """The rows of a table in chunks that fit into memory.

    >>> next(generate("region", 1)).column("r_name").to_pylist()[:2]
    ['AFRICA', 'AMERICA']
    """
    counts = Counts(scale)
    make, total = _makers(counts)[name]
    # Orders and their lines are made together from one seed, and one of the two is kept.
    seed = list(TABLES).index("orders" if name == "lineitem" else name)
    for number, first in enumerate(range(0, total, CHUNK)):
        rows = np.arange(first, min(first + CHUNK, total), dtype=np.int64)
        columns = make(np.random.default_rng([SEED, seed, number]), rows)
        yield pa.table(columns, schema=TABLES[name].arrow)


class Counts:
    """How many rows each table has at a scale."""

    def __init__(self, scale: float) -> None:
        self.suppliers = max(10, round(10_000 * scale))
        self.customers = max(30, round(150_000 * scale))
        self.parts = max(40, round(200_000 * scale))
        self.orders = max(300, round(1_500_000 * scale))


Maker = Callable[[np.random.Generator, Integers], Sequence[pa.Array]]


def _makers(counts: Counts) -> dict[str, tuple[Maker, int]]:
    return {
        "region": (_regions, len(words.REGIONS)),
        "nation": (_nations, len(words.NATIONS)),
        "supplier": (_suppliers, counts.suppliers),
        "customer": (_customers, counts.customers),
        "part": (_parts, counts.parts),
        "partsupp": (lambda random, rows: _part_suppliers(counts, random, rows), 4 * counts.parts),
        "orders": (lambda random, rows: _orders(counts, random, rows)[0], counts.orders),
        "lineitem": (lambda random, rows: _orders(counts, random, rows)[1], counts.orders),
    }


def _regions(random: np.random.Generator, rows: Integers) -> Sequence[pa.Array]:
    return [pa.array(rows.astype(np.int32)), pa.array(words.REGIONS), comments(random, len(rows))]


def _nations(random: np.random.Generator, rows: Integers) -> Sequence[pa.Array]:
    names, regions = zip(*words.NATIONS, strict=True)
    return [
        pa.array(rows.astype(np.int32)),
        pa.array(names),
        pa.array(regions, pa.int32()),
        comments(random, len(rows)),
    ]


def _suppliers(random: np.random.Generator, rows: Integers) -> Sequence[pa.Array]:
    nations = random.integers(0, 25, len(rows))
    # Every 1,987th of them, and the fourth.
    complaining = pa.array((rows % 1_987 == 3) | (rows % 1_987 == 7))
    return [
        pa.array(rows + 1),
        numbered("Supplier#", rows + 1),
        comments(random, len(rows), 1),
        pa.array(nations.astype(np.int32)),
        phones(random, nations),
        decimals(random.integers(-99_999, 1_000_000, len(rows))),
        pc.if_else(
            complaining, "slow Customer even Complaints about it", comments(random, len(rows))
        ),
    ]


def _customers(random: np.random.Generator, rows: Integers) -> Sequence[pa.Array]:
    nations = random.integers(0, 25, len(rows))
    return [
        pa.array(rows + 1),
        numbered("Customer#", rows + 1),
        comments(random, len(rows), 1),
        pa.array(nations.astype(np.int32)),
        phones(random, nations),
        decimals(random.integers(-99_999, 1_000_000, len(rows))),
        drawn(random, words.SEGMENTS, len(rows)),
        comments(random, len(rows)),
    ]


def _parts(random: np.random.Generator, rows: Integers) -> Sequence[pa.Array]:
    count = len(rows)
    makers = random.integers(1, 6, count)
    lines = random.integers(1, 6, count)
    colours = [drawn(random, words.COLOURS, count) for _ in range(5)]
    return [
        pa.array(rows + 1),
        pc.binary_join_element_wise(*colours, " "),
        numbered("Manufacturer#", makers, 1),
        numbered("Brand#", 10 * makers + lines, 2),
        drawn(random, words.TYPES, count),
        pa.array(random.integers(1, 51, count).astype(np.int32)),
        drawn(random, words.CONTAINERS, count),
        decimals(retail_price(rows + 1)),
        comments(random, count, 2),
    ]


def _part_suppliers(
    counts: Counts, random: np.random.Generator, rows: Integers
) -> Sequence[pa.Array]:
    parts = rows // 4 + 1
    return [
        pa.array(parts),
        pa.array(supplier_of(parts, rows % 4, counts.suppliers)),
        pa.array(random.integers(1, 10_000, len(rows))),
        decimals(random.integers(100, 100_001, len(rows))),
        comments(random, len(rows)),
    ]


def _orders(
    counts: Counts, random: np.random.Generator, rows: Integers
) -> tuple[Sequence[pa.Array], Sequence[pa.Array]]:
    """Orders with the given numbers, and their lines."""
    lines = random.integers(1, 8, len(rows))
    begin = np.cumsum(lines) - lines
    order = np.repeat(np.arange(len(rows)), lines)
    keys = rows // 8 * 32 + rows % 8 + 1
    # A third of the customers never order.
    customers = random.integers(0, max(1, counts.customers // 3), len(rows)) * 3
    customers = np.minimum(customers + random.integers(1, 3, len(rows)), counts.customers)
    day = random.integers(FIRST_DAY, LAST_DAY + 1, len(rows))
    count = len(order)
    parts = random.integers(1, counts.parts + 1, count)
    quantity = random.integers(1, 51, count)
    price = quantity * retail_price(parts)
    discount, tax = random.integers(0, 11, count), random.integers(0, 9, count)
    shipped = day[order] + random.integers(1, 122, count)
    received = shipped + random.integers(1, 31, count)
    open_ = shipped > CURRENT_DAY
    total = np.add.reduceat(price * (100 - discount) * (100 + tax) // 10_000, begin)
    share = np.add.reduceat(open_.astype(np.int64), begin) / lines
    status = pa.array(np.select([share == 0, share == 1], ["F", "O"], "P"))
    returned = np.where(random.integers(0, 2, count) == 0, "R", "A")
    special = pa.array(random.integers(0, 80, len(rows)) == 0)
    text = pc.if_else(
        special, "carefully special packages among requests", comments(random, len(rows))
    )
    line_columns = [
        pa.array(keys[order]),
        pa.array(parts),
        pa.array(supplier_of(parts, random.integers(0, 4, count), counts.suppliers)),
        pa.array(np.arange(count) - begin[order] + 1),
        decimals(100 * quantity),
        decimals(price),
        decimals(discount),
        decimals(tax),
        pa.array(np.where(received <= CURRENT_DAY, returned, "N")),
        pa.array(np.where(open_, "O", "F")),
        dates(shipped),
        dates(day[order] + random.integers(30, 91, count)),
        dates(received),
        drawn(random, words.INSTRUCTIONS, count),
        drawn(random, words.MODES, count),
        comments(random, count, 4),
    ]
    order_columns = [
        pa.array(keys),
        pa.array(customers),
        status,
        decimals(total),
        dates(day),
        drawn(random, words.PRIORITIES, len(rows)),
        numbered("Clerk#", random.integers(1, max(2, counts.orders // 1_500), len(rows))),
        pa.array(np.zeros(len(rows), np.int32)),
        text,
    ]
    return order_columns, line_columns


def retail_price(parts: Integers) -> Integers:
    """A part's price in cents."""
    return 90_000 + parts // 10 % 20_001 + 100 * (parts % 1_000)


def supplier_of(parts: Integers, which: Integers, suppliers: int) -> Integers:
    """One of a part's four suppliers, which are different at every scale."""
    return (7 * parts + which * (suppliers // 4) + parts // suppliers) % suppliers + 1


def numbered(prefix: str, values: Integers, width: int = 9) -> pa.Array:
    digits = pc.utf8_lpad(pa.array(values).cast(pa.string()), width, "0")
    return pc.binary_join_element_wise(prefix, digits, "")


def drawn(random: np.random.Generator, choices: Sequence[str], count: int) -> pa.Array:
    return pa.array(choices).take(pa.array(random.integers(0, len(choices), count)))


def comments(random: np.random.Generator, count: int, length: int = 8) -> pa.Array:
    """Sentences of so many words, each from a stock of 4,096."""
    stock = np.random.default_rng([SEED, length]).integers(0, len(words.PROSE), (SENTENCES, length))
    sentences = [" ".join(words.PROSE[word] for word in row) for row in stock]
    if length == 1:
        sentences = [f"{word} {number}" for number, word in enumerate(sentences)]
    return drawn(random, sentences, count)


def phones(random: np.random.Generator, nations: Integers) -> pa.Array:
    parts = [numbered("", nations + 10, 2)]
    parts += [numbered("", random.integers(0, 10**width, len(nations)), width) for width in (3, 3)]
    parts.append(numbered("", random.integers(0, 10_000, len(nations)), 4))
    return pc.binary_join_element_wise(*parts, "-")


def decimals(hundredths: Integers) -> pa.Array:
    """Numbers of hundredths as DECIMAL(15, 2), without a detour through text."""
    values = hundredths.astype(np.int64)
    words_ = np.stack([values, values >> 63], axis=1)
    type_ = pa.decimal128(15, 2)
    return pa.Array.from_buffers(type_, len(values), [None, pa.py_buffer(words_.tobytes())])


def dates(days: Integers) -> pa.Array:
    return pa.array(days.astype(np.int32), pa.date32())
